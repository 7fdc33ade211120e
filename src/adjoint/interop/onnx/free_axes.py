"""Free axes of the inputs: how `dynamic_axes` and `dynamic_shapes` name them, and the sizes to trace them at."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Shape

TRACES = 4  # sizes of each axis beside the given one
FACTORS = (2, 3, 5, 7)


class Dim:
    """Free dimension with a name, for `dynamic_shapes`; `Dim.DYNAMIC` and `Dim.AUTO` are free without one.

    `min` and `max` are limits that the user promises; they are not written into the file.

    Example:
        >>> batch = ad.export.Dim("batch", min=1, max=64)
        >>> batch
        Dim('batch', min=1, max=64)
    """

    AUTO: Operand
    DYNAMIC: Operand
    STATIC: Operand

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise ValueError(f"Dim: a name is a Python identifier, not {name!r}")
        if min is not None and max is not None and max <= min:
            raise ValueError(f"Dim: max {max} must be above min {min}")
        self.__name__, self.min, self.max = name, min, max

    def __repr__(self) -> str:
        limits = "".join(f", {k}={n}" for k, n in (("min", self.min), ("max", self.max)) if n is not None)
        return f"Dim({self.__name__!r}{limits})"


class DimHint:
    """Mark of a dimension without a name: free, or of one size."""

    def __init__(self, name: str, is_free: bool) -> None:
        self.name, self.is_free = name, is_free

    def __repr__(self) -> str:
        return f"Dim.{self.name}"


Dim.AUTO, Dim.DYNAMIC, Dim.STATIC = DimHint("AUTO", True), DimHint("DYNAMIC", True), DimHint("STATIC", False)

Axes = dict[tuple[int, int], str]  # the label of each free axis, by the number of the input and the axis


def read_dynamic_axes(
    dynamic_axes: Mapping[str, Operand],
    input_names: Sequence[str],
    shapes: Sequence[Shape],
    output_names: Sequence[str],
) -> tuple[Axes, dict[tuple[str, int], str]]:
    """Return the free axes of the inputs, and the names that axes of outputs are given.

    Raises: ValueError for an axis that an input does not have.
    """
    axes: Axes = {}
    of_outputs: dict[tuple[str, int], str] = {}
    for name, given in dynamic_axes.items():
        if not isinstance(given, (Mapping, list, tuple)):
            raise ValueError(f"dynamic_axes: of {name!r}, axes are a dict or a list, not {given!r}")
        labels = given.items() if isinstance(given, Mapping) else ((a, f"{name}_dynamic_axes_{a}") for a in given)
        for axis, label in labels:
            if name in input_names:
                number = input_names.index(name)
                axes[number, _check_axis(axis, shapes[number], name)] = str(label)
            elif name in output_names:
                of_outputs[name, axis] = str(label)
            else:
                warnings.warn(
                    f"Provided key {name} for dynamic axes is not a valid input/output name", UserWarning, stacklevel=4
                )
                break
    return axes, of_outputs


def _check_axis(axis: Operand, shape: Shape, name: str) -> int:
    if not isinstance(axis, int):
        raise ValueError(f"dynamic_axes, dynamic_shapes: an axis of {name!r} is an int, not {axis!r}")
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"dynamic_axes, dynamic_shapes: {name!r} has shape {list(shape)}, and no axis {axis}")
    return axis % len(shape)


def read_dynamic_shapes(
    dynamic_shapes: Operand, arguments: Mapping[str, Operand], input_names: Sequence[str], shapes: Sequence[Shape]
) -> Axes:
    """Return the free axes that a nest like the arguments' names: by the parameters' names, or by position.

    Raises: ValueError where it is no such nest.
    """
    given = dynamic_shapes
    if not isinstance(given, Mapping):
        if len(given) != len(arguments):
            raise ValueError(
                f"dynamic_shapes: there are {len(given)} entries for the {len(arguments)} arguments {[*arguments]}"
            )
        given = dict(zip(arguments, given, strict=True))
    if unknown := given.keys() - arguments.keys():
        raise ValueError(f"dynamic_shapes: {sorted(unknown)} are none of the arguments {[*arguments]}")
    axes: Axes = {}
    number = 0
    for name, argument in arguments.items():
        for part in _pair_parts(argument, given.get(name)):
            entries = part.items() if isinstance(part, Mapping) else enumerate(part or ())
            for axis, dim in entries:
                at = _check_axis(axis, shapes[number], input_names[number])
                if isinstance(dim, (str, Dim)):
                    axes[number, at] = dim if isinstance(dim, str) else dim.__name__
                elif isinstance(dim, DimHint) and dim.is_free:
                    axes[number, at] = f"{input_names[number]}_dim_{at}"
                elif dim is not None and not isinstance(dim, (int, DimHint)):
                    raise ValueError(
                        f"dynamic_shapes: axis {axis} of {input_names[number]!r} is {dim!r}, where a name, a Dim "
                        "or None is expected"
                    )
            number += 1
    return axes


def _pair_parts(argument: Operand, given: Operand) -> Iterator[Operand]:
    """Generate what is given for each tensor of an argument, in order."""
    if isinstance(argument, Tensor):
        if given is not None and not isinstance(given, (Mapping, list, tuple)):
            raise ValueError(f"dynamic_shapes: axes are a dict, a list or a tuple, not {given!r}")
        yield given
    elif isinstance(argument, Mapping):
        for key, value in argument.items():
            yield from _pair_parts(value, None if given is None else given.get(key))
    elif isinstance(argument, (list, tuple)):
        for i, value in enumerate(argument):
            yield from _pair_parts(value, None if given is None else given[i])


def size_schemes(size: int, turn: int) -> list[list[int]]:
    """Return ways to choose other sizes of an axis, each a size for each trace: larger, smaller, beside the given one.

    Multiples keep what divides the size. `turn` numbers the axes, so that two of them take unequal sizes.
    """

    def rotate(sizes: list[int]) -> list[int]:
        return [sizes[(i + turn) % TRACES] for i in range(TRACES)]

    schemes = [
        [size * f for f in FACTORS],
        [size // 2, size * 3 // 4, size // 4, size // 8],
        [size - 1, size - 2, size - 3, size - 4],
        [size + 1, size + 2, size + 3, size + 5],
    ]
    return [rotate(s) for s in schemes if min(s) > 1 and len(set(s)) == TRACES]

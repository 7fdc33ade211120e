"""The shape and element type of an array, known without computing it."""

from __future__ import annotations

from math import prod

from adjoint.core.typing import NumpyDtype, Operand

_KIND_LETTERS = {"b": "bool", "i": "i", "u": "u", "f": "f", "c": "c", "V": "bf"}


class Spec:
    """The shape and element type of a value: `f32[32,128]`."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: NumpyDtype) -> None:
        self.shape = shape
        self.dtype = dtype

    def __repr__(self) -> str:
        return describe(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))


class Shaped:
    """Facts that follow from a `shape`, for stand-ins of arrays."""

    __slots__ = ()
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def describe(value: Operand) -> str:
    """Return `f32[32,128]` for anything with shape and dtype."""
    kind = value.dtype.kind
    name = "bool" if kind == "b" else f"{_KIND_LETTERS[kind]}{8 * value.dtype.itemsize}"
    return f"{name}[{','.join(map(repr, value.shape))}]"


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which all broadcast.

    Raises: ValueError naming the two sizes and the dimension that disagree.
    """
    # lengths first: sizes at different places, of which some may be symbols, are not to be compared
    if len({*map(len, shapes)}) == 1 and shapes.count(shapes[0]) == len(shapes):
        return tuple(shapes[0])
    result: list[int] = []
    for shape in shapes:
        result[:0] = [1] * (len(shape) - len(result))
        for back in range(1, len(shape) + 1):
            size = shape[-back]
            if result[-back] == 1:
                result[-back] = size
            elif size not in (1, result[-back]):
                raise ValueError(
                    f"The size of tensor a ({result[-back]}) must match the size of tensor b ({size})"
                    f" at non-singleton dimension {len(result) - back}"
                )
    return tuple(result)

"""Arguments and results of transforms: arguments chosen by number, and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

Argnums = int | tuple[int, ...]


def select_args(args: tuple[object, ...], argnums: float | tuple[int, ...], single: bool = False) -> Any:
    """Return the arguments of these numbers as a tuple; for one number, if `single`, the argument itself.

    Raises RuntimeError for numbers that are not integers, occur twice, or have no argument.
    """
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    places = _resolve_argnums(argnums, len(args))
    if isinstance(argnums, int):
        return args[places[0]] if single else (args[places[0]],)
    if not places:
        raise RuntimeError("argnums must be non-empty")
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return tuple(args[place] for place in places)


def replace_args(args: tuple[object, ...], new: Sequence[object], argnums: Argnums) -> tuple[Any, ...]:
    """Return the arguments with `new` ones at these numbers."""
    by_place = dict(zip(_resolve_argnums(argnums, len(args)), new, strict=True))
    return tuple(by_place.get(i, arg) for i, arg in enumerate(args))


def _resolve_argnums(argnums: Argnums, count: int) -> list[int]:
    places = []
    for argnum in argnums if isinstance(argnums, tuple) else (argnums,):
        if not isinstance(argnum, int):
            raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
        if not -count <= argnum < count:
            raise RuntimeError(f"Got argnum={argnum}, but only {pluralize(count, 'positional input')}")
        places.append(argnum % count)
    return places


def split_aux(result: Operand, called: str) -> tuple[Any, Any]:
    """Return the result of a function that returns (output, aux). Raises RuntimeError for anything else."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{called}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def check_outputs(outputs: list[Operand], called: str) -> None:
    """Raise RuntimeError unless there are outputs, all of them tensors."""
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise RuntimeError(f"{called}: Expected f to be a function that has non-empty output (got output = {outputs})")
    for out in outputs:
        if not isinstance(out, Tensor):
            raise RuntimeError(
                f"{called}: expected f(*primals) to return only tensors, got unsupported type {type(out)}"
            )


def check_tensors(tensors: list[Tensor], called: str, name: str) -> None:
    """Raise RuntimeError unless there is something, all of it tensors."""
    if not tensors:
        raise RuntimeError(f"{called}: Expected {name} to contain at least one Tensor.")
    for x in tensors:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{called}: Expected {name} to only contain Tensors, got {type(x)}")


def check_directions(primals: list[Tensor], tangents: list[Tensor]) -> None:
    """Raise ValueError for a primal that is not floating, RuntimeError for a tangent of another shape."""
    for x, t in zip(primals, tangents, strict=True):
        if x.array.dtype.kind not in "fcV":
            raise ValueError(f"Expected primal to be floating point or complex, but got: {x.dtype}")
        if t.array.shape != x.array.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                f"not supported. Tensor is of size {list(x.shape)} while the given forward gradient is of size "
                f"{list(t.shape)}."
            )


def check_tangent(i: int, tangent: Tensor, primal: Tensor) -> None:
    """Raise RuntimeError unless the i-th tangent has the shape and type of its primal."""
    facts = (("shape", tangent.shape, primal.shape), ("dtype", tangent.dtype, primal.dtype))
    for name, have, want in facts:
        if have != want:
            raise RuntimeError(
                f"tangent:{i} with {name} {have} in flattened pytree doesn't match the {name} {want} of the "
                "corresponding primal."
            )


def check_real(called: str, tensors: Sequence[object], what: str) -> None:
    """Raise RuntimeError for a complex tensor."""
    for i, x in enumerate(tensors):
        if isinstance(x, Tensor) and x.array.dtype.kind == "c":
            raise RuntimeError(
                f"{called}: Expected all {what} to be real but received complex tensor at flattened input idx: {i}"
            )

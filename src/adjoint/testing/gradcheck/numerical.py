"""Jacobians by central differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operands

Outputs = Mapping[int, Tensor]  # the outputs that count, by their place among those that the function returns


def as_tuple(given: Any) -> tuple[Any, ...]:
    """Return the members of a tuple or list, or the one thing given."""
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


def wants_grad(x: Tensor | float | Sequence[Tensor]) -> bool:
    """Return whether it is a tensor that requires grad."""
    return isinstance(x, Tensor) and x.requires_grad


def stack_rows(rows: list[Array], x: Tensor) -> Array:
    """Return rows of |x| elements as one array, even if there are none  # (rows, |x|)"""
    return np.stack(rows) if rows else np.zeros((0, x.array.size), x.array.dtype)


def differences(
    func: Function, inputs: Operands, x: Tensor, outputs: Outputs, eps: float, direction: complex = 1
) -> list[Array]:
    """Return (f(x + ε e) − f(x − ε e)) / 2ε for each output, with a row for each unit vector e of `x`.

    `x` is changed in place: it may reach the function in any way, and no version counter notices. `direction`
    multiplies e: 1j moves the imaginary part of a complex input.
    """
    elements = product(*map(range, x.array.shape))
    return _difference_quotients(func, inputs, x, outputs, eps, ((i, eps * direction) for i in elements))


def difference_along(
    func: Function, inputs: Operands, x: Tensor, outputs: Outputs, eps: float, u: Array
) -> list[Array]:
    """Return (f(x + ε u) − f(x − ε u)) / 2ε for each output  # (1, |y|)"""
    return _difference_quotients(func, inputs, x, outputs, eps, [(..., eps * u)])


def _difference_quotients(
    func: Function, inputs: Operands, x: Tensor, outputs: Outputs, eps: float, steps: Iterable[tuple[Any, Any]]
) -> list[Array]:
    array = x.array
    below: list[list[Array]] = [[] for _ in outputs]
    above: list[list[Array]] = [[] for _ in outputs]
    for i, step in steps:
        kept = array[i].copy()
        try:
            array[i] = kept - step
            _append_outputs(as_tuple(func(*inputs)), outputs, below, i, eps)
            array[i] = kept + step
            _append_outputs(as_tuple(func(*inputs)), outputs, above, i, eps)
        finally:
            array[i] = kept
    with np.errstate(all="ignore"):
        return [
            (stack_rows(high, y) - stack_rows(low, y)) / (2 * eps)
            for low, high, y in zip(below, above, outputs.values(), strict=True)
        ]


def _append_outputs(values: Operands, outputs: Outputs, rows: list[list[Array]], i: Any, eps: float) -> None:
    """Copy the outputs, for one may be the input that is about to move."""
    for row, (k, y) in zip(rows, outputs.items(), strict=True):
        array = values[k].array
        if array.shape != y.array.shape:
            _raise_changed("shape", y.shape, values[k].shape, i, eps)
        if array.dtype != y.array.dtype:
            _raise_changed("dtype", y.dtype, values[k].dtype, i, eps)
        row.append(array.flatten())


def _raise_changed(what: str, before: Any, after: Any, i: Any, eps: float) -> None:
    where = "" if i is ... else f"on index {i} "
    raise AssertionError(
        f"Expected `func` to return outputs with the same {what} when inputs are perturbed {where}by {eps}, but got: "
        f"{what}s {before} and {after}."
    )

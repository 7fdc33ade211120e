"""Comparison of tensors: element by element within a tolerance, as a whole, or exactly."""

from __future__ import annotations

from numpy import dtype, ndarray

from adjoint.core.dtype.dtype import promote
from adjoint.core.op.op_errors import refuse_numbers
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api.publish import public
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.reduction import reduction

__all__ = ["allclose", "equal", "isclose"]
PLAIN_DTYPES = frozenset({dtype("float32"), dtype("float64"), dtype("int64"), dtype("bool")})


@public()
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return True where |input - other| ≤ atol + rtol |other|, or both are the same infinity.

    Raises RuntimeError for a negative tolerance, and for operands of two types; TypeError for one that requires grad.
    """
    refuse_numbers("isclose", ("input", "other"), "", input, other)
    for place, (label, tolerance) in enumerate((("rtol", rtol), ("atol", atol)), 3):
        if isinstance(tolerance, Tensor) and tolerance.requires_grad:
            raise TypeError(f"isclose(): argument '{label}' (position {place}) must be float, not Tensor")
        if tolerance < 0:
            raise RuntimeError(f"{label} must be greater than or equal to zero, but got {tolerance}")
    if input.array.dtype.kind == "b":
        input, other = (select.cast(x, dtype=promote((0,))) for x in (input, other))
    near = comparison.le(
        arithmetic.abs(arithmetic.sub(input, other)), arithmetic.add(arithmetic.mul(arithmetic.abs(other), rtol), atol)
    )
    same = comparison.logical_or(comparison.eq(input, other), comparison.logical_and(near, comparison.isfinite(other)))
    if equal_nan:
        same = comparison.logical_or(same, comparison.logical_and(comparison.isnan(input), comparison.isnan(other)))
    return same


@public()
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return True if `isclose` holds everywhere."""
    return _all_true(isclose(input, other, rtol, atol, equal_nan))


@public()
def equal(input: Tensor, other: Tensor) -> bool:
    """Return True if both have the same shape and elements."""
    refuse_numbers("equal", ("input", "other"), "", input, other)
    if input.array.shape != other.array.shape:
        return False
    x, y = input.array, other.array
    is_plain = type(x) is type(y) is ndarray and x.dtype is y.dtype and x.dtype in PLAIN_DTYPES
    if is_plain and not (nondefault.count and mode.alters_ops):
        return bool((x == y).all())
    return _all_true(comparison.eq(input, other))


def _all_true(truths: Tensor) -> bool:
    return bool(reduction.all(truths, axes=tuple(range(truths.ndim)), keepdims=False))

"""Comparisons and logic of elements: the results are bool and carry no gradient."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.families import binary, unary
from adjoint.core.typing import Array, Operand


@binary(bool_result=True, scalar="eq")
def eq(x: Array, y: Operand) -> Operand:
    """x = y."""
    return np.equal(x, y)


@binary(bool_result=True, scalar="ne")
def ne(x: Array, y: Operand) -> Operand:
    """x ≠ y."""
    return np.not_equal(x, y)


@binary(bool_result=True, unsupported_kinds="c", scalar="lt")
def lt(x: Array, y: Operand) -> Operand:
    """x < y."""
    return np.less(x, y)


@binary(bool_result=True, unsupported_kinds="c", scalar="le")
def le(x: Array, y: Operand) -> Operand:
    """x ≤ y."""
    return np.less_equal(x, y)


@binary(bool_result=True, unsupported_kinds="c", scalar="gt")
def gt(x: Array, y: Operand) -> Operand:
    """x > y."""
    return np.greater(x, y)


@binary(bool_result=True, unsupported_kinds="c", scalar="ge")
def ge(x: Array, y: Operand) -> Operand:
    """x ≥ y."""
    return np.greater_equal(x, y)


@binary(bool_result=True, scalar=lambda b, x, y: b.logical_and(b.ne(x, 0), b.ne(y, 0)))
def logical_and(x: Operand, y: Operand) -> Operand:
    """True where both are not zero."""
    return np.logical_and(x, y)


@binary(bool_result=True, scalar=lambda b, x, y: b.logical_or(b.ne(x, 0), b.ne(y, 0)))
def logical_or(x: Array, y: Array) -> Operand:
    """True where either is not zero."""
    return np.logical_or(x, y)


@binary(bool_result=True, scalar=lambda b, x, y: b.logical_xor(b.ne(x, 0), b.ne(y, 0)))
def logical_xor(x: Array, y: Array) -> Operand:
    """True where exactly one is not zero."""
    return np.logical_xor(x, y)


@unary(bool_result=True, scalar=lambda b, x: b.eq(x, 0))
def logical_not(x: Array) -> Operand:
    """True where x is zero."""
    return np.logical_not(x)


@unary(bool_result=True, scalar="isnan")
def isnan(x: Array) -> Operand:
    """True where x is not a number."""
    return np.isnan(x)


@unary(bool_result=True, scalar="isinf")
def isinf(x: Operand) -> Operand:
    """True where x is infinite."""
    return np.isinf(x)


@unary(bool_result=True, scalar="isfinite")
def isfinite(x: Array) -> Operand:
    """True where x is neither infinite nor NaN."""
    return np.isfinite(x)

"""Operands under the array API standard: every array counts for the common type, 0-d or not; numbers follow."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, dtype, promote, promote_types
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Function, NumpyDtype, Operand
from adjoint.functions.api.dim_args import some_dims
from adjoint.ops.elementwise import select

NUMBER_RANKS: dict[type, int] = {bool: 0, int: 1, float: 2, complex: 3}


def cast_to(x: Tensor, kind: NumpyDtype) -> Tensor:
    """Cast x to a type, unless it has that type."""
    return x if x.array.dtype == kind else select.cast(x, dtype=kind)


def common_dtype(*given: dtype) -> dtype:
    """Return the common type of several. Raises TypeError if neither the standard nor we define one."""
    result = given[0]
    for other in given[1:]:
        try:
            result = promote_types(result, other)
        except RuntimeError as error:
            raise TypeError(str(error)) from error
    return result


def promote_operands(name: str, *operands: Any) -> tuple[Tensor, ...]:
    """Convert operands to tensors of one type. Raises TypeError unless all are tensors or numbers, and one a tensor."""
    kinds = [x.dtype for x in operands if isinstance(x, Tensor)]
    if not kinds:
        raise TypeError(f"{name}: one operand must be a tensor, given {', '.join(type(x).__name__ for x in operands)}")
    kind = common_dtype(*kinds)
    for x in operands:
        if not isinstance(x, Tensor):
            kind = promote_for_number(name, kind, x)
    return tuple(
        cast_to(x, kind.numpy) if isinstance(x, Tensor) else constant(select.number_as_array(x, kind.numpy))
        for x in operands
    )


def promote_for_number(name: str, kind: dtype, number: complex | str) -> dtype:
    """Return `kind`, or the first type of a higher category that holds a Python number."""
    if type(number) not in NUMBER_RANKS:
        raise TypeError(f"{name}: expected a tensor or a number, got {type(number).__name__}")
    if NUMBER_RANKS[type(number)] <= kind.rank:
        return kind
    return DTYPES[np.dtype(promote((np.empty((), kind.numpy), number)))]


def normalize_axes(axis: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Return sorted axes counted from the front: all for None. Raises IndexError and RuntimeError."""
    return tuple(range(rank)) if axis is None else some_dims(axis, rank)


def wrap_unary(function: Function) -> Function:
    """Give a function of one tensor the standard's signature, f(x, /)."""

    def call(x: Tensor, /) -> Tensor:
        out: Tensor = function(x)
        return out

    return _copy_name(call, function)


def wrap_binary(function: Function) -> Function:
    """Give a function of two the standard's signature, f(x1, x2, /), with promotion of tensors and numbers."""

    def call(x1: Operand, x2: Tensor | int | str, /) -> Tensor:
        out: Tensor = function(*promote_operands(function.__name__, x1, x2))
        return out

    return _copy_name(call, function)


def _copy_name(call: Function, function: Function) -> Function:
    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    return call

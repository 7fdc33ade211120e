"""Data types: conversion, limits, categories, and which type a mixed expression gets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from adjoint.core.dtype.device import require_cpu
from adjoint.core.dtype.dtype import (
    DTYPES,
    bool_,
    complex64,
    complex128,
    dtype,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    real_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from adjoint.core.tensor.tensor import Tensor
from adjoint.interop.array_api.operands import common_dtype, promote_for_number
from adjoint.ops.elementwise import select

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
KINDS: dict[str, tuple[dtype, ...]] = {
    "bool": (bool_,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": (*SIGNED, *UNSIGNED),
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
    "numeric": (*SIGNED, *UNSIGNED, float32, float64, complex64, complex128),
}


class FloatLimits(NamedTuple):
    """Result of `finfo`."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dtype


class IntegerLimits(NamedTuple):
    """Result of `iinfo`."""

    bits: int
    max: int
    min: int
    dtype: dtype


def astype(x: Tensor, dtype: dtype, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """x in another type, in memory of its own unless it has the type and `copy` is false.

    Raises TypeError for complex numbers to real ones.
    """
    require_cpu(device)
    if x.array.dtype.kind == "c" and dtype.rank in (1, 2):
        raise TypeError(f"astype: {x.dtype} to {dtype} would drop the imaginary parts; take real() first")
    if x.array.dtype == dtype.numpy:
        return select.copy(x) if copy else x
    return select.cast(x, dtype=dtype.numpy)


def can_cast(from_: Any, to: dtype, /) -> bool:
    """True if the standard's promotion rules bring the type, or the tensor's type, to `to`."""
    kind = from_.dtype if isinstance(from_, Tensor) else from_
    if kind is to:
        return True
    if 0 in (kind.rank, to.rank) or (1 in (kind.rank, to.rank) and kind.rank != to.rank):
        return False
    try:
        return common_dtype(kind, to) is to
    except TypeError:
        return False


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a floating type, or of the parts of a complex one. Raises TypeError for other types."""
    kind = type.dtype if isinstance(type, Tensor) else type
    if kind.rank < 2:
        raise TypeError(f"finfo: expected a floating type, got {kind}")
    found = np.finfo(real_type(kind.numpy))
    eps, high, low, tiny = (float(v) for v in (found.eps, found.max, found.min, found.smallest_normal))
    return FloatLimits(int(found.bits), eps, high, low, tiny, DTYPES[real_type(kind.numpy)])


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer type. Raises TypeError for other types."""
    kind = type.dtype if isinstance(type, Tensor) else type
    if kind.rank != 1:
        raise TypeError(f"iinfo: expected an integer type, got {kind}")
    found = np.iinfo(kind.numpy)
    return IntegerLimits(int(found.bits), int(found.max), int(found.min), kind)


def isdtype(dtype: dtype, kind: Any) -> bool:
    """True if a type is `kind`: a type, the name of a category, or several of these.

    Raises ValueError for a name of none.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"isdtype: {kind!r} is no category; the categories are {', '.join(KINDS)}")
        return dtype in KINDS[kind]
    return dtype == kind


def result_type(*arrays_and_dtypes: Any) -> dtype:
    """The type in which tensors, types and Python numbers meet. Raises TypeError without a tensor or a type."""
    numbers = [x for x in arrays_and_dtypes if not isinstance(x, (Tensor, dtype))]
    kinds = [x.dtype if isinstance(x, Tensor) else x for x in arrays_and_dtypes if isinstance(x, (Tensor, dtype))]
    if not kinds:
        raise TypeError("result_type: one argument must be a tensor or a type")
    result = common_dtype(*kinds)
    for number in numbers:
        result = promote_for_number("result_type", result, number)
    return result

"""The bits of elements, read as elements of another type."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.op.families import movement_op, primitive, unary
from adjoint.core.op.spec import Spec
from adjoint.ops.special.chebyshev import in_double


def _read_as(x: Any, *, dtype: Any) -> Spec:
    old, new = x.dtype.itemsize, dtype.itemsize
    return Spec(x.shape if old == new else (*x.shape[:-1], x.shape[-1] * old // new), dtype)


@movement_op(spec=_read_as, leading=True)
def reinterpret(x: Any, *, dtype: Any) -> Any:
    """The same memory as elements of `dtype`: along the last dimension more of them, or fewer, where sizes differ."""
    if dtype.itemsize != x.dtype.itemsize and x.strides[-1] != x.itemsize:
        x = np.ascontiguousarray(x)
    return x.view(dtype)


def _power(x: Any) -> Any:
    """The exponent of two with which the mantissa lies in [½, 1); 0 where there is none."""
    return np.where(np.isfinite(x), np.frexp(x)[1], 0)


@primitive(family="elementwise", spec=lambda x: Spec(x.shape, np.dtype(np.int32)))
def exponent(x: Any) -> Any:
    """e of x = m 2ᵉ, ½ ≤ |m| < 1; 0 of 0, infinities and NaN."""
    return _power(np.asarray(x, np.float64)).astype(np.int32)


@unary(dx=lambda g: g * 0.0)
@in_double
def unit(x: Any) -> Any:
    """2⁻ᵉ, e the exponent of x."""
    return np.ldexp(1.0, -_power(x))


@unary(dx=lambda g, x: g * unit(x))
@in_double
def mantissa(x: Any) -> Any:
    """m of x = m 2ᵉ, ½ ≤ |m| < 1; 0, infinities and NaN are their own."""
    return np.frexp(x)[0]

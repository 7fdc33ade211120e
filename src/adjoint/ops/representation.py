"""Floating numbers as they are represented: a mantissa and an exponent of two."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.families import primitive, unary
from adjoint.core.spec import Spec
from adjoint.ops.chebyshev import in_double


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

"""Special functions, `adjoint.special`: those of single elements that have names beyond mathematics' everyday ones."""

from __future__ import annotations

import math

from adjoint.core.op.families import restrict_scalars
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DtypeLike
from adjoint.functions.api.out import with_out
from adjoint.functions.elementwise import activation, float_functions, pointwise
from adjoint.functions.elementwise.float_functions import digamma, erfc, erfinv, logit, polygamma, sinc, xlogy
from adjoint.functions.elementwise.pointwise import erf, exp2, expm1, log1p, round
from adjoint.functions.reduction import reduce
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.special.bessel import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    i0,
    i0e,
    i1,
    i1e,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
)
from adjoint.ops.special.normal_cdf import erfcx, log_ndtr, ndtri
from adjoint.ops.special.orthogonal_polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)
from adjoint.ops.special.zeta import entr, xlog1py, zeta

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t", "chebyshev_polynomial_u",
    "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2",
    "expit", "expm1", "gammainc", "gammaincc", "gammaln", "hermite_polynomial_h", "hermite_polynomial_he", "i0", "i0e",
    "i1", "i1e", "laguerre_polynomial_l", "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit",
    "logsumexp", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
    "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "sinc", "softmax", "spherical_bessel_j0",
    "xlog1py", "xlogy", "zeta",
]  # fmt: skip

(
    chebyshev_polynomial_t, chebyshev_polynomial_u, chebyshev_polynomial_v, chebyshev_polynomial_w,
    hermite_polynomial_h, hermite_polynomial_he, laguerre_polynomial_l, legendre_polynomial_p,
    shifted_chebyshev_polynomial_t, shifted_chebyshev_polynomial_u, shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w, xlog1py, zeta,
) = restrict_scalars(
    "xy", chebyshev_polynomial_t, chebyshev_polynomial_u, chebyshev_polynomial_v, chebyshev_polynomial_w,
    hermite_polynomial_h, hermite_polynomial_he, laguerre_polynomial_l, legendre_polynomial_p,
    shifted_chebyshev_polynomial_t, shifted_chebyshev_polynomial_u, shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w, xlog1py, zeta,
)  # fmt: skip

expit = pointwise.sigmoid
gammainc = float_functions.igamma
gammaincc = float_functions.igammac
gammaln = float_functions.lgamma
logsumexp = with_out(reduce.logsumexp)
modified_bessel_i0, modified_bessel_i1 = i0, i1
multigammaln = float_functions.mvlgamma
psi = digamma


@with_out
def ndtr(input: Tensor) -> Tensor:
    """Return Φ(x) = erfc(-x / √2) / 2: the share of the normal distribution below x."""
    return arithmetic.mul(erfc(arithmetic.mul(input, -math.sqrt(0.5))), 0.5)


def softmax(input: Tensor, dim: int, *, dtype: DtypeLike = None) -> Tensor:
    """Return eˣ / Σ eˣ along `dim`, shifted so that nothing overflows. Raises RuntimeError for integers."""
    return activation.softmax(input, dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: DtypeLike = None) -> Tensor:
    """Return x - ln Σ eˣ along `dim`. Raises RuntimeError for integers."""
    return activation.log_softmax(input, dim, dtype=dtype)

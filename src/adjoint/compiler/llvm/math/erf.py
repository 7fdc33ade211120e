"""erf and erfc in vectors."""

from __future__ import annotations

from adjoint.compiler.llvm.math import exponential
from adjoint.compiler.llvm.math.wide_precision import computed_in_float64, elementary, library, parse_coefficients
from adjoint.compiler.llvm.memory import Memory
from adjoint.compiler.llvm.types import Reg

# (erf x / x - 1) in x² for |x| <= 1, relative error of erf x 1.3e-9.
INNER = parse_coefficients("""
    0.128379165708 -0.376126256749 0.112835832113 -0.0268537208891 0.00518813586184 -0.000800834393717
    7.84721338416e-05
""")
# sqrt erfc x in x - 1 for 1 <= x <= 3.925, from which erf x has a relative error of 1.3e-8.
OUTER = parse_coefficients("""
    0.396609634161 -0.523320923431 0.178091778678 0.060266580706 -0.0463438377192 -0.00464851068646
    0.0105039414813 -0.00288338588639 2.6538804321e-05 0.000105174656617 -1.30222268456e-05
""")
# e^(x²) erfc x in t = (x - 3) / (x + 3) for 0 <= x <= 10.3, relative error 3e-11.
SCALED = parse_coefficients("""
    0.17900115118104568 -0.3262335601473246 0.24560380193520817 -0.15011593097323206 0.07166582931745988
    -0.0243925843526941 0.00426921041333335 0.0007083266736902222 -0.0005972753200696401 4.327267220594614e-05
    6.393431113506639e-05 -9.577742284780329e-06 -6.705742134344062e-06
""")


@elementary
def erf(b: Memory, x: Reg) -> Reg:
    """2 / sqrt(pi) times the integral of e^(-t²) from 0 to x."""
    if x.type.bits == 64:
        return library(b, "erf", x)
    a = b.abs(x)
    near = b.lt(a, 1.0)
    # Both polynomials in one, each lane with its coefficients. Beyond 3.925 the result rounds to 1.
    shifted = b.sub(b.minimum(a, 3.925), 1.0)
    y = b.horner(shifted, OUTER[len(INNER) - 1 :])
    y = b.select(near, INNER[-1], y)
    argument = b.select(near, b.mul(x, x), shifted)
    for inner, outer in reversed(list(zip(INNER[:-1], OUTER, strict=False))):
        y = b.fma(y, argument, b.select(near, inner, b.constant(outer, x.type)))
    return b.select(near, b.fma(y, x, x), b.copysign(b.fma(b.neg(y), y, 1.0), x))


@computed_in_float64
def erfc(b: Memory, x: Reg) -> Reg:
    """1 - erf x, accurate relative to itself where it is small."""
    # Beyond 10.3 the result rounds to 0.
    a = b.minimum(b.abs(x), 10.3)
    scaled = b.horner(b.div(b.sub(a, 3.0), b.add(a, 3.0)), SCALED)
    y = b.mul(exponential.exp_wide(b, b.neg(b.mul(a, a)), exponential.SINGLE), scaled)
    return b.select(b.lt(x, 0.0), b.sub(2.0, y), y)

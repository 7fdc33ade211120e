"""erf and erfc in vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.compiler.llvm import exponential
from adjoint.compiler.llvm.precision import elementary, library, narrow, widen
from adjoint.compiler.llvm.types import Reg

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder

# (erf x / x - 1) in x² for |x| <= 0.88, relative error 9e-9.
SMALL = (
    0.1283791579715567, -0.37612552673002514, 0.11282469499690098, -0.0267916711650421, 0.0050320448586406545,
    -0.0006200267747002361,
)  # fmt: skip
# -log erfc x for 0.87 <= x <= 4, from which erf has a relative error of 1e-10.
MINUS_LOG = (
    -0.00016055369603896124, 1.1294458731914796, 0.6334886172041111, 0.10812193060825817, -0.02501582195758218,
    0.004131253002344766, -0.00042615894900674476, 2.0370059282841907e-05,
)  # fmt: skip
# e^(x²) erfc x in t = (x - 3) / (x + 3) for 0 <= x <= 10.3, relative error 3e-11.
SCALED = (
    0.17900115118104568, -0.3262335601473246, 0.24560380193520817, -0.15011593097323206, 0.07166582931745988,
    -0.0243925843526941, 0.00426921041333335, 0.0007083266736902222, -0.0005972753200696401, 4.327267220594614e-05,
    6.393431113506639e-05, -9.577742284780329e-06, -6.705742134344062e-06,
)  # fmt: skip


@elementary
def erf(b: Builder, x: Reg) -> Reg:
    """2 / sqrt(pi) times the integral of e^(-t²) from 0 to x."""
    if x.type.bits == 64:
        return library(b, "erf", x)
    a = b.abs(x)
    inner = b.fma(b.horner(b.mul(x, x), SMALL), x, x)
    # Beyond 4 the result rounds to 1.
    k, p = exponential.reduced_32(b, b.neg(b.horner(b.minimum(a, 4.0), MINUS_LOG)))
    outer = b.sub(1.0, exponential.scaled_32(b, b.add(p, 1.0), k))
    return b.select(b.lt(a, 0.88), inner, b.copysign(outer, x))


@elementary
def erfc(b: Builder, x: Reg) -> Reg:
    """1 - erf x, accurate relative to itself where it is small."""
    if x.type.bits == 64:
        return library(b, "erfc", x)
    wide = widen(b, x)
    # Beyond 10.3 the result rounds to 0.
    a = b.minimum(b.abs(wide), 10.3)
    scaled = b.horner(b.div(b.sub(a, 3.0), b.add(a, 3.0)), SCALED)
    y = b.mul(exponential.exp_wide(b, b.neg(b.mul(a, a)), exponential.SINGLE), scaled)
    return narrow(b, b.select(b.lt(wide, 0.0), b.sub(2.0, y), y))

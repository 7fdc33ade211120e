"""The builder of kernels: every operation a kernel can be made of, as methods that append LLVM assembly.

b = Builder()
with b.kernel("scale") as (args, tile, thread):
    x, y = b.argument(args, 0), b.argument(args, 1)
    with b.loop(0, 1024, step=16) as loop:
        value = b.load(b.gep(x, loop.index, F32), F32.of(16))
        b.store(b.mul(b.exp(value), 2.0), b.gep(y, loop.index, F32))
text = b.text()
"""

from __future__ import annotations

from adjoint.compiler.llvm.math import (
    erf as error_function,
)
from adjoint.compiler.llvm.math import (
    exponential,
    hyperbolic,
    logarithm,
    power,
    trigonometric,
    wide_precision,
)
from adjoint.compiler.llvm.memory import Memory


class Builder(Memory):
    """Writes one module; see `Emitter`, `Control`, `Logic`, `Arithmetic`, `Lanes`, `Division`, `Memory` for the rest.

    A number given for an operand is a constant of the other's type, and a scalar register is spread over the
    other's lanes. One lane or sixteen, an operation gives the same bits.
    """

    exp = exponential.exp
    exp2 = exponential.exp2
    expm1 = exponential.expm1
    sigmoid = exponential.sigmoid
    silu = exponential.silu

    log = logarithm.log
    log2 = logarithm.log2
    log10 = logarithm.log10
    log1p = logarithm.log1p

    sinh = hyperbolic.sinh
    cosh = hyperbolic.cosh
    tanh = hyperbolic.tanh
    asinh = hyperbolic.asinh
    acosh = hyperbolic.acosh
    atanh = hyperbolic.atanh

    sin = trigonometric.sin
    cos = trigonometric.cos
    tan = trigonometric.tan
    asin = trigonometric.asin
    acos = trigonometric.acos
    atan = trigonometric.atan
    atan2 = trigonometric.atan2

    erf = error_function.erf
    erfc = error_function.erfc

    pow = power.pow

    wide = wide_precision.widen
    library = wide_precision.library

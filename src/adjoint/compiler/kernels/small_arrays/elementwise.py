"""Functions of each element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import UNLIMITED, ArrayOperand, SmallArrayEntry, Writer, sweep
from adjoint.compiler.llvm.types import BOOL, F64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder


def _elementwise(function: Callable[..., Reg], arrays: int) -> Writer:
    """The routine of `arrays` operands, then numbers: function(b, *elements, *numbers)."""

    def write(b: Builder, kind: Type, lanes: int, *operands: ArrayOperand | Reg) -> None:
        given, numbers = (*operands[:arrays], operands[-1]), operands[arrays:-1]

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            places = [b.gep(a.data, index, kind) for a in given if isinstance(a, ArrayOperand)]
            values = [b.load(place, kind.of(lanes), mask) for place in places[:-1]]
            spread = [b.broadcast(n, lanes) for n in numbers if isinstance(n, Reg)]
            b.store(function(b, *values, *spread), places[-1], mask)
            return []

        assert isinstance(given[0], ArrayOperand)
        sweep(b, given[0].size, lanes, [], body)

    return write


def _normal_cdf(b: Builder, x: Reg) -> Reg:
    """Φ(x), the normal distribution function."""
    return b.mul(b.add(b.erf(b.mul(x, math.sqrt(0.5))), 1.0), 0.5)


def _gelu_dx(b: Builder, g: Reg, x: Reg) -> Reg:
    density = b.mul(b.exp(b.mul(b.square(x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return b.mul(g, b.fma(x, density, _normal_cdf(b, x)))


def _where(
    b: Builder,
    kind: Type,
    lanes: int,
    condition: ArrayOperand,
    x: ArrayOperand | Reg,
    y: ArrayOperand | Reg,
    out: ArrayOperand,
) -> None:
    """x where the condition holds, else y, of which one may be a number."""

    def element(of: ArrayOperand | Reg, index: Reg, mask: Reg | None) -> Reg:
        if isinstance(of, ArrayOperand):
            return b.load(b.gep(of.data, index, kind), kind.of(lanes), mask)
        return b.broadcast(of, lanes)

    def body(index: Reg, mask: Reg | None) -> list[Reg]:
        chosen = b.load(b.gep(condition.data, index, BOOL), BOOL.of(lanes), mask)
        value = b.select(chosen, element(x, index, mask), element(y, index, mask))
        b.store(value, b.gep(out.data, index, kind), mask)
        return []

    sweep(b, condition.size, lanes, [], body)


def _fill_where(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    condition: ArrayOperand,
    value: Reg,
    out: ArrayOperand,
    keeps: bool,
) -> None:
    """x where the condition is as `keeps`, else the value."""
    first, second = (x, value) if keeps else (value, x)
    _where(b, kind, lanes, condition, first, second, out)


def _libm(name: str) -> Writer:
    """The routine of a function of the C library, with its bits."""

    def write(b: Builder, kind: Type, lanes: int, x: ArrayOperand, out: ArrayOperand) -> None:
        with b.loop(0, x.size) as element:
            value = b.cast(b.load(b.gep(x.data, element.index, kind), kind), F64)
            b.store(b.cast(b.external(name, [value], F64), kind), b.gep(out.data, element.index, kind))

    return write


ROUTINES = {
    "relu": SmallArrayEntry("x", _elementwise(lambda b, x: b.select(b.lt(x, 0.0), 0.0, x), 1), keeps_order=True),
    "sigmoid": SmallArrayEntry("x", _elementwise(lambda b, x: b.sigmoid(x), 1), keeps_order=True),
    "silu": SmallArrayEntry("x", _elementwise(lambda b, x: b.silu(x), 1), most=UNLIMITED, keeps_order=True),
    "gelu": SmallArrayEntry("x", _elementwise(lambda b, x: b.mul(x, _normal_cdf(b, x)), 1), keeps_order=True),
    "gelu_dx": SmallArrayEntry("xx", _elementwise(_gelu_dx, 2), keeps_order=True),
    "clamp": SmallArrayEntry(
        "xff",
        _elementwise(  # what equals a bound stays, so that a zero keeps its sign
            lambda b, x, low, high: b.select(b.gt(y := b.select(b.lt(x, low), low, x), high), high, y), 1
        ),
        most=UNLIMITED,
        keeps_order=True,
    ),
    # NumPy branches at each element, which costs ten times as much where the condition follows no pattern
    "where": SmallArrayEntry("bxx", _where, like=1, most=UNLIMITED),
    "masked_fill": SmallArrayEntry("xbf", partial(_fill_where, keeps=False), most=UNLIMITED),
    "masked_keep": SmallArrayEntry("xbf", partial(_fill_where, keeps=True), most=UNLIMITED),
} | {
    f"libm_{name}": SmallArrayEntry("x", _libm(name), most=UNLIMITED, keeps_order=True)
    for name in ("log", "exp", "log1p", "cos", "sin", "tan")
}

"""Quotients rounded down and the remainders that go with them, bit for bit NumPy's."""

from __future__ import annotations

from adjoint.compiler.llvm.lanes import Lanes
from adjoint.compiler.llvm.types import F32, F64, Operand, Reg

EXACT_QUOTIENT_LIMIT = 2.0**50  # a quotient below it, of float32 as float64, misses its integer part by one at most


class Division(Lanes):
    """Division with remainder, of floats and of integers."""

    def floor_divide(self, x: Operand, y: Operand) -> Reg:
        """floor(x / y) as NumPy's: 0 for an integer over 0."""
        x, y = self.operands(x, y)
        return self._float_division(x, y)[0] if x.type.is_float else self._integer_division(x, y)[0]

    def remainder(self, x: Operand, y: Operand) -> Reg:
        """x - y * floor(x / y) with the sign of y, as NumPy's: 0 for an integer over 0."""
        x, y = self.operands(x, y)
        return self._float_division(x, y)[1] if x.type.is_float else self._integer_division(x, y)[1]

    def _integer_division(self, x: Reg, y: Reg) -> tuple[Reg, Reg]:
        type = x.type
        if not type.is_integer:
            raise TypeError(f"floor_divide: not defined for {type}")
        zero = self.eq(y, 0)
        if type.kind == "u":
            safe = self.select(zero, 1, y)
            quotient = self.emit(f"udiv {type.text} {x.name}, {safe.name}", type)
            rest = self.emit(f"urem {type.text} {x.name}, {safe.name}", type)
            return self.select(zero, 0, quotient), self.select(zero, 0, rest)
        # Over 0 the instruction traps, and so it does where the quotient overflows: -2**31 // -1 is -2**31.
        overflow = self.logical_and(self.eq(x, -(2 ** (type.bits - 1))), self.eq(y, -1))
        safe = self.select(self.logical_or(zero, overflow), 1, y)
        quotient = self.emit(f"sdiv {type.text} {x.name}, {safe.name}", type)
        rest = self.sub(x, self.mul(quotient, safe))
        down = self.logical_and(self.ne(rest, 0), self.lt(self.bitwise_xor(rest, safe), 0))
        quotient = self.select(down, self.sub(quotient, 1), quotient)
        rest = self.select(down, self.add(rest, safe), rest)
        return self.select(zero, 0, quotient), self.select(zero, 0, rest)

    def _float_division(self, x: Reg, y: Reg) -> tuple[Reg, Reg]:
        # The steps of Python's float division, so that quotient and remainder agree.
        rest = self._rest(x, y)
        exact = self.eq(rest, 0.0)
        down = self.logical_and(self.logical_not(exact), self.logical_xor(self.lt(y, 0.0), self.lt(rest, 0.0)))
        ratio = self.div(x, y)
        quotient = self.div(self.sub(x, rest), y)
        quotient = self.select(down, self.sub(quotient, 1.0), quotient)
        whole = self.floor(quotient)
        whole = self.select(self.gt(self.sub(quotient, whole), 0.5), self.add(whole, 1.0), whole)
        whole = self.select(self.eq(quotient, 0.0), self.copysign(0.0, ratio), whole)
        whole = self.select(self.eq(y, 0.0), ratio, whole)
        signed = self.select(down, self.add(rest, y), rest)
        return whole, self.select(exact, self.copysign(0.0, y), signed)

    def _rest(self, x: Reg, y: Reg) -> Reg:
        """x - y trunc(x / y), which is exact."""
        if x.type.scalar != F32:
            return self.emit(f"frem {x.type.text} {x.name}, {y.name}", x.type)
        above, below = self.cast(x, F64), self.abs(self.cast(y, F64))
        whole = self.trunc(self.div(above, below))
        rest = self.select(self.eq(whole, 0.0), above, self.exact_fma(self.neg(whole), below, above))
        missed = self.lt(self.mul(rest, self.copysign(1.0, above)), 0.0)
        rest = self.select(missed, self.add(rest, self.copysign(below, above)), rest)
        quick = self.cast(self.copysign(rest, above), F32)
        common = self.lt(self.abs(whole), EXACT_QUOTIENT_LIMIT)
        with self.when(self.logical_not(self.hand(common)), [quick]) as far:  # the C library's, element by element
            far.yields(self.emit(f"frem {x.type.text} {x.name}, {y.name}", x.type))
        return far.results[0]

"""Comparison, choice and bits."""

from __future__ import annotations

from adjoint.compiler.llvm.control import Control
from adjoint.compiler.llvm.types import Operand, Reg, Type


class Logic(Control):
    """Operations whose operands or results are truth values or bit patterns."""

    def eq(self, x: Operand, y: Operand) -> Reg:
        """x == y, false for NaN."""
        return self._compare("oeq", "eq", x, y)

    def ne(self, x: Operand, y: Operand) -> Reg:
        """x != y, true for NaN."""
        return self._compare("une", "ne", x, y)

    def lt(self, x: Operand, y: Operand) -> Reg:
        """x < y, false for NaN."""
        return self._compare("olt", "lt", x, y)

    def le(self, x: Operand, y: Operand) -> Reg:
        """x <= y, false for NaN."""
        return self._compare("ole", "le", x, y)

    def gt(self, x: Operand, y: Operand) -> Reg:
        """x > y, false for NaN."""
        return self._compare("ogt", "gt", x, y)

    def ge(self, x: Operand, y: Operand) -> Reg:
        """x >= y, false for NaN."""
        return self._compare("oge", "ge", x, y)

    def select(self, condition: Operand, x: Operand, y: Operand) -> Reg:
        """x where the condition holds, else y, lane by lane; a condition known now gives one of them unchanged."""
        x, y = self.operands(x, y)
        if not isinstance(condition, Reg):
            return x if condition else y
        if not condition.type.is_bool:
            raise TypeError(f"select: the condition is {condition.type}, not bool")
        lanes = condition.type.lanes
        if lanes > 1:  # one condition chooses whole registers
            x, y = self.broadcast(x, lanes), self.broadcast(y, lanes)
        type, chosen = x.type, condition.type
        return self.emit(f"select {chosen.text} {condition.name}, {type.text} {x.name}, {type.text} {y.name}", type)

    def isnan(self, x: Reg) -> Reg:
        """x != x."""
        return self.ne(x, x) if x.type.is_float else self._everywhere(x, False)

    def isinf(self, x: Reg) -> Reg:
        """|x| == inf."""
        return self.eq(self._magnitude(x), float("inf")) if x.type.is_float else self._everywhere(x, False)

    def isfinite(self, x: Reg) -> Reg:
        """|x| < inf."""
        return self.lt(self._magnitude(x), float("inf")) if x.type.is_float else self._everywhere(x, True)

    def truth(self, x: Operand) -> Operand:
        """x != 0; NaN is true."""
        return self.ne(x, 0) if isinstance(x, Reg) and not x.type.is_bool else x

    def logical_and(self, x: Operand, y: Operand) -> Reg:
        """Both are nonzero."""
        return self._bitwise("and", self.truth(x), self.truth(y))

    def logical_or(self, x: Operand, y: Operand) -> Reg:
        """Either is nonzero."""
        return self._bitwise("or", self.truth(x), self.truth(y))

    def logical_xor(self, x: Operand, y: Operand) -> Reg:
        """Just one is nonzero."""
        return self._bitwise("xor", self.truth(x), self.truth(y))

    def logical_not(self, x: Reg) -> Reg:
        """x == 0."""
        return self._bitwise("xor", x, True) if x.type.is_bool else self.eq(x, 0)

    def bitwise_and(self, x: Operand, y: Operand) -> Reg:
        """The bits set in both."""
        return self._bitwise("and", x, y)

    def bitwise_or(self, x: Operand, y: Operand) -> Reg:
        """The bits set in either."""
        return self._bitwise("or", x, y)

    def bitwise_xor(self, x: Operand, y: Operand) -> Reg:
        """The bits set in just one."""
        return self._bitwise("xor", x, y)

    def bitwise_not(self, x: Reg) -> Reg:
        """Every bit turned; not x for bool."""
        return self._bitwise("xor", x, True if x.type.is_bool else 2**x.type.bits - 1 if x.type.kind == "u" else -1)

    def shl(self, x: Operand, count: Operand) -> Reg:
        """x << count; 0 where the count is negative or not below the width, as NumPy's."""
        return self._shift("shl", x, count)

    def shr(self, x: Operand, count: Operand) -> Reg:
        """x >> count, the sign kept; 0 or -1 where the count is negative or not below the width, as NumPy's."""
        return self._shift("shr", x, count)

    def _compare(self, ordered: str, integral: str, x: Operand, y: Operand) -> Reg:
        x, y = self.operands(x, y)
        type = x.type
        if type.is_float:
            instruction = f"fcmp {ordered}"
        else:
            sign = "" if integral in ("eq", "ne") else "s" if type.kind == "i" else "u"
            instruction = f"icmp {sign}{integral}"
        return self.emit(f"{instruction} {type.text} {x.name}, {y.name}", Type("b", 1, type.lanes))

    def _bitwise(self, instruction: str, x: Operand, y: Operand) -> Reg:
        x, y = self.operands(x, y)
        if x.type.is_float:
            raise TypeError(f"{instruction}: needs integers or bools, got {x.type}")
        return self.emit(f"{instruction} {x.type.text} {x.name}, {y.name}", x.type)

    def _shift(self, direction: str, x: Operand, count: Operand) -> Reg:
        if isinstance(count, int) and not isinstance(x, Reg):
            raise TypeError(f"{direction}: needs a register, got {x!r} and {count!r}")
        type = x.type if isinstance(x, Reg) else count.type if isinstance(count, Reg) else None
        if type is None or not type.is_integer:
            raise TypeError(f"{direction}: needs integers, got {type}")
        name = "shl" if direction == "shl" else "ashr" if type.kind == "i" else "lshr"
        last = type.bits - 1
        if isinstance(count, int):
            if not 0 <= count <= last and name != "ashr":
                return self.constant(0, type)
            count = count if 0 <= count <= last else last
            x, count = self.operands(x, count)
            return self.emit(f"{name} {type.text} {x.name}, {count.name}", x.type)
        # A count out of range has no value in LLVM: shift by what is in range, then choose.
        x, count = self.operands(x, count)
        inside = self.le(Reg(count.name, Type("u", type.bits, count.type.lanes)), last)
        safe = self.select(inside, count, last)
        shifted = self.emit(f"{name} {x.type.text} {x.name}, {safe.name}", x.type)
        return shifted if name == "ashr" else self.select(inside, shifted, 0)

    def _magnitude(self, x: Reg) -> Reg:
        return self.intrinsic("fabs", x)

    def _everywhere(self, x: Reg, value: bool) -> Reg:
        return self.constant(value, Type("b", 1, x.type.lanes))

"""Arithmetic on floats, integers and bools, bit for bit NumPy's, and conversion between types."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.compiler.llvm.emitter import NAN
from adjoint.compiler.llvm.logic import Logic
from adjoint.compiler.llvm.types import BF16, F32, F64, I32, I64, U32, Operand, Reg, Type


class Arithmetic(Logic):
    """Operations that are exact, or rounded once, and so equal NumPy's to the bit. Integers wrap."""

    def add(self, x: Operand, y: Operand) -> Reg:
        """x + y; `or` for bools."""
        return self._binary("fadd", "add", "or", x, y)

    def sub(self, x: Operand, y: Operand) -> Reg:
        """x - y."""
        return self._binary("fsub", "sub", None, x, y)

    def mul(self, x: Operand, y: Operand) -> Reg:
        """x * y; `and` for bools."""
        return self._binary("fmul", "mul", "and", x, y)

    def div(self, x: Operand, y: Operand) -> Reg:
        """x / y of floats."""
        return self._binary("fdiv", None, None, x, y)

    def fma(self, x: Operand, y: Operand, z: Operand) -> Reg:
        """x * y + z of floats, rounded once; twice on a machine without an instruction for it."""
        register = next((v for v in (x, y, z) if isinstance(v, Reg) and v.type.lanes > 1), None)
        register = register or next((v for v in (x, y, z) if isinstance(v, Reg)), None)
        if register is None or not register.type.is_float:
            raise TypeError(f"fma: needs floats, got {x}, {y}, {z}")
        name = "fma" if self.has_fma else "fmuladd"
        return self.intrinsic(name, *(self.operands(v, register)[0] for v in (x, y, z)))

    def exact_fma(self, x: Operand, y: Operand, z: Operand) -> Reg:
        """x * y + z of float64 where z takes most of x * y away: as good as rounded once on every machine.

        Source: Dekker, "A floating-point technique for extending the available precision", 1971.
        """
        if self.has_fma:
            return self.fma(x, y, z)
        (x_high, x_low), (y_high, y_low) = self._split_digits(x, z), self._split_digits(y, z)
        product = self.mul(self.operands(x, z)[0], self.operands(y, z)[0])
        rest = self.sub(self.mul(x_high, y_high), product)
        rest = self.add(self.add(rest, self.mul(x_high, y_low)), self.mul(x_low, y_high))
        return self.add(self.add(product, z), self.add(rest, self.mul(x_low, y_low)))

    def _split_digits(self, x: Operand, like: Operand) -> tuple[Reg, Reg]:
        """The upper and the lower 26 digits of a float64, which have exact products."""
        whole = self.operands(x, like)[0]
        high = self.bitcast(self.bitwise_and(self.bitcast(whole, I64), ~(2**27 - 1)), F64)
        return high, self.sub(whole, high)

    def neg(self, x: Reg) -> Reg:
        """-x."""
        return self.emit(f"fneg {x.type.text} {x.name}", x.type) if x.type.is_float else self.sub(0, x)

    def abs(self, x: Reg) -> Reg:
        """|x|; the most negative integer is its own."""
        if x.type.is_float:
            return self._magnitude(x)
        return self.select(self.lt(x, 0), self.sub(0, x), x) if x.type.kind == "i" else x

    def maximum(self, x: Operand, y: Operand) -> Reg:
        """The larger; NaN where either is."""
        return self._extremum("ogt", "gt", x, y)

    def minimum(self, x: Operand, y: Operand) -> Reg:
        """The smaller; NaN where either is."""
        return self._extremum("olt", "lt", x, y)

    def sqrt(self, x: Reg) -> Reg:
        """The square root, correctly rounded."""
        return self._rounding("sqrt", x, integral=False)

    def rsqrt(self, x: Reg) -> Reg:
        """1 / sqrt(x)."""
        return self.reciprocal(self.sqrt(x))

    def reciprocal(self, x: Reg) -> Reg:
        """1 / x of floats."""
        return self.div(1.0, x)

    def square(self, x: Reg) -> Reg:
        """x * x."""
        return self.mul(x, x)

    def sign(self, x: Reg) -> Reg:
        """-1, 0 or 1; NaN is kept, and -0.0 gives 0.0."""
        if x.type.kind in "ub":
            return self.select(self.ne(x, 0), 1, self.constant(0, x.type))
        sign = self.select(self.gt(x, 0), 1, self.select(self.lt(x, 0), -1, self.constant(0, x.type)))
        return self.select(self.isnan(x), x, sign) if x.type.is_float else sign

    def copysign(self, x: Operand, y: Operand) -> Reg:
        """|x| with the sign of y."""
        return self.intrinsic("copysign", *self.operands(x, y))

    def floor(self, x: Reg) -> Reg:
        """The largest integer not above x."""
        return self._rounding("floor", x)

    def ceil(self, x: Reg) -> Reg:
        """The smallest integer not below x."""
        return self._rounding("ceil", x)

    def trunc(self, x: Reg) -> Reg:
        """x without its fraction."""
        return self._rounding("trunc", x)

    def round(self, x: Reg) -> Reg:
        """The nearest integer, halves to even."""
        # Not `roundeven`: where there is no instruction it becomes a call, which not every C library has.
        return self._rounding("nearbyint", x)

    def horner(self, x: Reg, coefficients: Sequence[float]) -> Reg:
        """c[0] + c[1] x + c[2] x² + …, one fma each."""
        total: Operand = coefficients[-1]
        for coefficient in coefficients[-2::-1]:
            total = self.fma(total, x, coefficient)
        return self.operands(total, x)[0]

    def cast(self, x: Reg, type: Type) -> Reg:
        """x in another scalar type, in as many lanes: NumPy's astype for values the type can hold."""
        source, target = x.type, type.of(x.type.lanes)
        if source == target:
            return x
        if source.kind == "n":
            bits = self.emit(f"zext {source.text} {x.name} to {I32.of(source.lanes).text}", I32.of(source.lanes))
            return self.cast(self.bitcast(self.shl(bits, 16), F32), type)  # the float32 whose first half it is
        if target.kind == "n" and not source.is_bool:
            return self._round_to_bfloat16(self.cast(x, F32))
        if target.is_bool:
            return self.ne(x, 0)
        if source.is_bool:
            return self.select(x, 1, self.constant(0, target))
        if source.is_float and target.is_float:
            name = "fpext" if target.bits > source.bits else "fptrunc"
        elif source.is_float:
            if target.bits < 32:
                # C narrows through int, which gives values out of range the bits NumPy gives them.
                return self.cast(self.cast(x, I32), type)
            name = "fptosi" if target.kind == "i" else "fptoui"
        elif target.is_float:
            name = "sitofp" if source.kind == "i" else "uitofp"
        elif target.bits == source.bits:
            return Reg(x.name, target)
        else:
            name = "trunc" if target.bits < source.bits else "sext" if source.kind == "i" else "zext"
        return self.emit(f"{name} {source.text} {x.name} to {target.text}", target)

    def _round_to_bfloat16(self, x: Reg) -> Reg:
        """A float32 rounded to the nearest bfloat16, ties to even; of a NaN only the sign is kept."""
        bits = self.bitcast(x, U32)
        odd = self.bitwise_and(self.shr(bits, 16), 1)
        rounded = self.shr(self.add(self.add(bits, odd), 0x7FFF), 16)
        nan = self.bitwise_or(self.bitwise_and(self.shr(bits, 16), 0x8000), 0x7FC0)
        half = self.select(self.ne(x, x), nan, rounded)
        type = BF16.of(x.type.lanes)
        return self.emit(f"trunc {half.type.text} {half.name} to {type.text}", type)

    def _binary(self, floating: str, integral: str | None, boolean: str | None, x: Operand, y: Operand) -> Reg:
        x, y = self.operands(x, y)
        type = x.type
        name = floating if type.is_float else boolean if type.is_bool else integral
        if name is None or type.kind == "ptr":
            raise TypeError(f"{floating[1:]}: not defined for {type}")
        return self.emit(f"{name} {type.text} {x.name}, {y.name}", type)

    def _extremum(self, ordered: str, integral: str, x: Operand, y: Operand) -> Reg:
        # One machine maximum of x86 gives its second operand for NaN and for equal zeros, NumPy's gives NaN and its
        # second. Other machines have NumPy's: NaN, and the larger of zeros that differ in sign.
        number = y if not isinstance(y, Reg) else None
        x, y = self.operands(x, y)
        if x.type.is_bool:
            return self._bitwise("or" if integral == "gt" else "and", x, y)
        if not x.type.is_float:
            return self.select(self._compare(ordered, integral, x, y), x, y)
        if self.orders_zeros:
            return self.intrinsic("maximum" if integral == "gt" else "minimum", x, y)
        if number is not None and number == number and str(float(number)) != "-0.0":
            # With the number first NaN passes; adding 0.0 turns -0.0, which ties with 0.0, into it.
            chosen = self.select(self._compare(ordered, integral, y, x), y, x)
            return self.add(chosen, 0.0) if number == 0 else chosen
        chosen = self.select(self._compare(ordered, integral, x, y), x, y)
        return chosen if x.is_constant and NAN not in x.name else self.select(self.isnan(x), x, chosen)

    def _rounding(self, name: str, x: Reg, integral: bool = True) -> Reg:
        if x.type.is_float:
            return self.intrinsic(name, x)
        if integral and x.type.kind != "ptr":
            return x
        raise TypeError(f"{name}: not defined for {x.type}")

"""The lanes of a register: counting, masking, taking out, and reducing across them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjoint.compiler.llvm.arithmetic import Arithmetic
from adjoint.compiler.llvm.types import BOOL, I32, I64, Operand, Reg, Type


class Lanes(Arithmetic):
    """Operations between the lanes of one register. Reductions halve it in a fixed order, whatever the target."""

    def iota(self, lanes: int, type: Type = I64) -> Reg:
        """0, 1, 2, … in each lane."""
        return self.vector(list(range(lanes)), type)

    def extract(self, x: Reg, lane: int) -> Reg:
        """The scalar in one lane."""
        if x.type.lanes == 1:
            return x
        return self.emit(f"extractelement {x.type.text} {x.name}, i64 {lane}", x.type.scalar)

    def insert(self, x: Reg, value: Operand, lane: int) -> Reg:
        """x with one lane replaced."""
        scalar = value if isinstance(value, Reg) else self.constant(value, x.type.scalar)
        if x.type.lanes == 1:
            return scalar
        return self.emit(f"insertelement {x.type.text} {x.name}, {scalar.type.text} {scalar.name}, i64 {lane}", x.type)

    def lane_mask(self, count: Reg | int, lanes: int) -> Reg:
        """True in the first `count` lanes; counts below 0 or above `lanes` (i64) mean none or all."""
        if isinstance(count, int):
            return self.vector([lane < count for lane in range(lanes)], BOOL)
        if lanes == 1:
            return self.gt(count, 0)
        # Clamped first, the count compares in 32 bits, half the registers of 64.
        clamped = self.cast(self.maximum(self.minimum(count, lanes), 0), I32)
        return self.lt(self.iota(lanes, I32), clamped)

    def shift_lanes(self, x: Reg, by: int, fill: Operand) -> Reg:
        """Lane i is the former lane i - by; the first `by` lanes are `fill`."""
        lanes = x.type.lanes
        filled = self.operands(fill, x)[0]
        return self.shuffle(x, filled, [lane - by if lane >= by else lanes for lane in range(lanes)])

    def reverse_lanes(self, x: Reg) -> Reg:
        """The lanes in reverse order."""
        return self.shuffle(x, x, list(range(x.type.lanes))[::-1])

    def transpose_lanes(self, rows: Sequence[Reg]) -> list[Reg]:
        """Lane j of register i becomes lane i of register j, of as many registers as each has lanes."""
        found, lanes, size = list(rows), len(rows), 1
        while size < lanes:  # squares of 1, 2, 4, … lanes are exchanged
            low = [lane if not lane & size else lane - size + lanes for lane in range(lanes)]
            high = [lane + size if not lane & size else lane + lanes for lane in range(lanes)]
            for i in range(lanes):
                if not i & size:
                    x, y = found[i], found[i + size]
                    found[i], found[i + size] = self.shuffle(x, y, low), self.shuffle(x, y, high)
            size *= 2
        return found

    def shuffle(self, x: Reg, y: Reg, chosen: Sequence[int]) -> Reg:
        """Lanes of two registers of one type, by number; those of y are counted behind those of x."""
        lanes = ", ".join(f"i32 {lane}" for lane in chosen)
        return self.emit(
            f"shufflevector {x.type.text} {x.name}, {y.type.text} {y.name}, <{len(chosen)} x i32> <{lanes}>",
            x.type.of(len(chosen)),
        )

    def hsum(self, x: Reg) -> Reg:
        """The sum of all lanes."""
        return self._reduce(self.add, x)

    def hprod(self, x: Reg) -> Reg:
        """The product of all lanes."""
        return self._reduce(self.mul, x)

    def hmax(self, x: Reg) -> Reg:
        """The largest lane; NaN if any is."""
        return self._extreme(self.gt, self.maximum, x)

    def hmin(self, x: Reg) -> Reg:
        """The smallest lane; NaN if any is."""
        return self._extreme(self.lt, self.minimum, x)

    def cast_mask(self, x: Reg) -> Reg:
        """The truths of lanes as the bits of an integer (i64), the first lane lowest."""
        bits = self._bitcast_mask(x)
        return self.emit(f"zext {bits.type.text} {bits.name} to i64", I64)

    def hand(self, x: Reg) -> Reg:
        """True if every lane is true; the bits set in all for integers."""
        return self.eq(self._bitcast_mask(x), -1) if x.type.is_bool else self._reduce(self.bitwise_and, x)

    def hor(self, x: Reg) -> Reg:
        """True if any lane is true; the bits set in any for integers."""
        return self.ne(self._bitcast_mask(x), 0) if x.type.is_bool else self._reduce(self.bitwise_or, x)

    def _bitcast_mask(self, x: Reg) -> Reg:
        # One comparison of all the bits is quicker than a tree of them.
        type = Type("i", x.type.lanes)
        return self.emit(f"bitcast {x.type.text} {x.name} to {type.text}", type)

    def _extreme(
        self, wins: Callable[[Operand, Operand], Reg], combine: Callable[[Operand, Operand], Reg], x: Reg
    ) -> Reg:
        if not x.type.is_float or x.type.lanes == 1 or self.orders_zeros:
            return self._reduce(combine, x)
        # NaN is looked for in all lanes at once, which leaves one instruction for a step of the tree.
        chosen = self._reduce(lambda x, y: self.select(wins(x, y), x, y), x)
        return self.select(self.hor(self.isnan(x)), float("nan"), chosen)

    def _reduce(self, combine: Callable[[Operand, Operand], Reg], x: Reg) -> Reg:
        # Written out because the reduction intrinsics of maxima become 62 scalar instructions.
        while x.type.lanes > 1:
            half = x.type.lanes // 2
            low, high = self._part(x, 0, half), self._part(x, half, half)
            x = combine(low, high)
        return x

    def split_lanes(self, x: Reg, bits: int) -> list[Reg]:
        """The lanes in order, as many registers of so many bits as they fill."""
        lanes = bits // x.type.bits
        return [x] if lanes == x.type.lanes else [self._part(x, i, lanes) for i in range(0, x.type.lanes, lanes)]

    def concat_lanes(self, parts: list[Reg]) -> Reg:
        """The lanes of registers of one type, a power of two of them, in one."""
        while len(parts) > 1:
            type = parts[0].type
            lanes = ", ".join(f"i32 {lane}" for lane in range(2 * type.lanes))
            order, both = f"<{2 * type.lanes} x i32> <{lanes}>", type.of(2 * type.lanes)
            parts = [
                self.emit(f"shufflevector {type.text} {low.name}, {type.text} {high.name}, {order}", both)
                for low, high in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def _part(self, x: Reg, start: int, lanes: int) -> Reg:
        if lanes == 1:
            return self.extract(x, start)
        chosen = ", ".join(f"i32 {lane}" for lane in range(start, start + lanes))
        return self.emit(
            f"shufflevector {x.type.text} {x.name}, {x.type.text} poison, <{lanes} x i32> <{chosen}>", x.type.of(lanes)
        )

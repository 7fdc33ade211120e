"""A result in scratch memory before it is finished, its elements apart by where they lie between two steps.

Element (y, x) lies at place (y + shift) // step of the plane of phase (y + shift) % step, in both
dimensions. A phase of columns may lie in several planes which are to be added, each some places further on.
"""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.kernels.index_arithmetic import floor_div_index, modulo_index
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import Reg, Type

Pair = tuple[int, int]


class Stage(NamedTuple):
    """The planes of one channel: `pitch` elements from row to row, `plane` from plane to plane.

    `columns`: for each phase of columns its planes, among those of a phase of rows, and how many places further on its
    elements lie in each.
    """

    type: Type
    lanes: int
    step: Pair
    shift: Pair
    pitch: int
    plane: int
    width: int  # of a row of the result
    columns: tuple[tuple[Pair, ...], ...]

    @property
    def across(self) -> int:
        """Planes of a phase of rows."""
        return sum(map(len, self.columns))

    @property
    def size(self) -> int:
        """Elements of all planes."""
        return self.step[0] * self.across * self.plane

    def read(self, b: Builder, pointer: Reg, row: Reg, place: Reg, more: int) -> Reg:
        """Neighbours of one row from `place` + `more` on, both multiples of the lanes."""
        type, lanes = self.type, self.lanes
        down, across = self.step
        y = b.add(row, self.shift[0])
        line = floor_div_index(b, y, down)
        base = b.add(b.mul(modulo_index(b, y, down), self.across * self.plane), b.mul(line, self.pitch))
        at = b.gep(pointer, base, type)
        x = b.add(place, more + self.shift[1])
        if across == 1:
            return self._sum(b, at, x, 0, 0, type.of(lanes))
        if across == 2:
            odd = (more + self.shift[1]) % 2
            column = floor_div_index(b, x, 2)
            half = type.of(lanes // 2)
            first = self._sum(b, at, column, odd, 0, half)
            second = self._sum(b, at, column, 1 - odd, odd, half)
            return interleave_lanes(b, first, second, 0, lanes)
        many = b.add(b.iota(lanes), x)
        divisor = b.constant(across, many.type).name
        phase = b.emit(f"urem {many.type.text} {many.name}, {divisor}", many.type)
        column = b.emit(f"udiv {many.type.text} {many.name}, {divisor}", many.type)
        index = b.add(b.mul(phase, self.plane), column)
        return b.gather(at, index, type, b.lt(b.sub(many, self.shift[1]), self.width))

    def _sum(self, b: Builder, row: Reg, column: Reg, phase: int, more: int, vector: Type) -> Reg:
        """The elements of a phase from `column` + `more` on, added over its planes."""
        at = b.gep(row, column, self.type)
        planes = [
            b.load(b.gep(at, plane * self.plane + ahead + more, self.type), vector)
            for plane, ahead in self.columns[phase]
        ]
        total = planes[0]
        for value in planes[1:]:
            total = b.add(total, value)
        return total


def interleave_lanes(b: Builder, even: Reg, odd: Reg, start: int, lanes: int) -> Reg:
    """`lanes` lanes of even[0], odd[0], even[1], odd[1], …, from number `start` on."""
    if even.type.lanes == 1:
        return b.insert(b.insert(b.constant(0.0, even.type.of(2)), even, 0), odd, 1)
    order = ", ".join(f"i32 {i // 2 + i % 2 * even.type.lanes}" for i in range(start, start + lanes))
    return b.emit(
        f"shufflevector {even.type.text} {even.name}, {odd.type.text} {odd.name}, <{lanes} x i32> <{order}>",
        even.type.of(lanes),
    )

"""Linear recurrences along a dimension, from its end to its beginning: R[i] = g[i] + factor[i] R[i + 1].

Neighbouring lines are computed in the lanes of a register; a line whose elements are neighbours, one number after
another. float32 is computed in float64, as running sums and products are.
"""

from __future__ import annotations

from adjoint.compiler.kernels.rows.plan import (
    LineTable,
    RowOperand,
    RowPlan,
    divmod_registers,
    find_lines,
    split_units,
    type_of,
    unit_range,
)
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import F32, F64, Reg, from_dtype

SECONDS_PER_ELEMENT = 3e-9


def plan_recurrence(g: RowOperand, factor: RowOperand, *, axis: int, target: Target) -> RowPlan | None:
    """Plan the recurrence of two arrays of one shape and type; None if there is no kernel."""
    kind = type_of(g.dtype)
    pair = [find_lines(x, axis) for x in (g, factor)]
    if kind not in (F32, F64) or g.dtype != factor.dtype or g.shape != factor.shape:
        return None
    given, factors = pair
    if given is None or factors is None:
        return None
    width = 1
    if given.inner > 1 and given.inner_stride == factors.inner_stride == 1:
        width = target.lanes(kind)
    units = given.outer * -(-given.inner // width)
    seconds = SECONDS_PER_ELEMENT * units * given.length
    tiles, each = split_units(units, seconds)
    steps = [step for x in (given, factors) for step in (x.outer_stride, x.stride, x.inner_stride)]
    numbers = (units, each, given.length, given.inner, *steps)
    return RowPlan("recurrence", (g.dtype.str, width), numbers, g.shape, g.dtype, tiles, 0, seconds)


def write_recurrence(b: Builder, table: LineTable, tile: Reg, target: Target, structure: tuple[object, ...]) -> None:
    """The body of a kernel that `plan_recurrence` has planned."""
    kind, lanes = from_dtype(str(structure[0])), int(str(structure[1]))
    wide = F64.of(lanes) if lanes > 1 else F64
    units, each, length, inner, *steps = table.numbers(10)
    low, high = unit_range(b, tile, units, each)
    with b.loop(low, high) as unit:
        strips = b.emit(f"udiv i64 {b.add(inner, lanes - 1).name}, {lanes}", inner.type)
        outer, strip = divmod_registers(b, unit.index, strips)
        column = b.mul(strip, lanes)
        mask = b.lane_mask(b.sub(inner, column), lanes) if lanes > 1 else None
        lines = [
            b.gep(pointer, b.add(b.mul(outer, line[0]), b.mul(column, line[2])), kind)
            for pointer, line in zip(table.operands, (steps[:3], steps[3:]), strict=True)
        ]
        out = b.gep(table.out, b.add(b.mul(b.mul(outer, length), inner), column), kind)
        with b.loop(0, length, carried=[b.constant(0.0, wide)]) as turn:
            at = b.sub(b.sub(length, 1), turn.index)
            g, factor = (
                b.cast(b.load(b.gep(line, b.mul(at, step), kind), kind.of(lanes) if lanes > 1 else kind, mask), F64)
                for line, step in zip(lines, (steps[1], steps[4]), strict=True)
            )
            total = b.add(g, b.mul(factor, turn.carried[0]))
            b.store(b.cast(total, kind), b.gep(out, b.mul(at, inner), kind), mask)
            turn.yields(total)

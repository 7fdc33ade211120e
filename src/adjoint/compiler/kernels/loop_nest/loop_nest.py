"""The loop-nest kernel: any tree of elementwise equations and folds, in explicit vectors.

Loops run over the kept dimensions, then over the reduced ones, as often as there are stages; the dimension that is
last in memory is spread over lanes, its remainder done once more under a mask. A value is computed in the outermost
loop that it does not depend on. Rows of a few registers stay in them from stage to stage. Two short rows are computed
side by side, because each alone would wait for its folds. Long sums go through blocks of float32 partial sums into
float64, so that their error does not grow with their length.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import reduce
from typing import Any, NamedTuple

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.symbolic_size import is_symbolic_size, size_value
from adjoint.compiler.kernels import elementwise
from adjoint.compiler.kernels.elementwise import Access
from adjoint.compiler.kernels.index_arithmetic import (
    Index,
    as_index,
    floor_div_index,
    is_zero,
    scale_index,
    split_size,
)
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, make_kernel_text
from adjoint.compiler.kernels.loop_nest import accumulators
from adjoint.compiler.kernels.loop_nest.iteration_space import IterationSpace, OperandLoad, space_of
from adjoint.compiler.kernels.loop_nest.reduction_stages import ReductionStages
from adjoint.compiler.kernels.loop_nest.size_questions import decide_for_each, emit_conditions
from adjoint.compiler.kernels.loop_nest.sum_order import SUM_BLOCK, SumOrder, choose_sum_order, count_work
from adjoint.compiler.kernels.loop_nest.tiling import TilePartition, count_tiles, find_square_reads, partition_tiles
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I64, Reg, from_dtype
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group

MAX_PAIRED_ROW_STEPS, MAX_PAIRED_ROW_WORK = 4, 64  # the same of a row that is written out twice

Sums = tuple[Reg, ...]
NestMemo = dict[Any, Any]
Source = OperandLoad | Value


def lower(group: Group, fusion: Fusion, target: Target, known: NestMemo | None = None) -> Kernel:
    """The kernel of a group; equal kernels get equal names, whatever they are used for.

    `known`: names, modules and tiles for this target, by structure, to be used again and added to.
    """
    known = {} if known is None else known
    space = space_of(group, fusion)
    structure = space.structure()
    if structure not in known:
        nest, ops = _Kernel(space, target), [v.op for v in group.equations]
        known[structure] = *make_kernel_text("nest", structure, ops, target, nest.write), nest.tiles
    name, code, tiles = known[structure]
    numbers = space.accesses.numbers
    return Kernel(name, code, space.accesses.bases, group, tiles, numbers=numbers)


class LoopPoint(NamedTuple):
    """The point of the nest for which code is written, inside the first `depth` loops.

    It has the places of all accesses and the values in registers. It is in a `stage` of the folding loops, -1 outside.
    Under a `mask` it stands for the first so many lanes.
    """

    depth: int
    places: dict[Access, Reg]
    registers: dict[Source, Reg]
    mask: Reg | int | None = None
    stage: int = -1


class _Kernel:
    """The function around a nest, or around several, one for each order of sums that a call may want."""

    def __init__(self, space: IterationSpace, target: Target) -> None:
        self.space = space
        self.b = Builder(target)
        stages = ReductionStages(space)
        orders = decide_for_each(lambda ask: choose_sum_order(stages, target, ask))
        self.nests = [(ways, _LoopNest(stages, self.b, order)) for order, ways in orders.items()]
        self.tiles = count_tiles(space, max(nest.step(0) for _, nest in self.nests), target)

    def write(self) -> str:
        """The kernel's module."""
        b = self.b
        with b.kernel(NAME_PLACEHOLDER) as (args, tile, _):
            accesses = self.space.accesses
            pointers = {base: b.argument(args, i) for i, base in enumerate(accesses.bases)}
            starts = {a: b.number(args, len(pointers) + i) for i, a in enumerate(accesses.with_offset)}
            b.bind_symbols(self.space.find_symbols())
            for ways, nest in self.nests:
                with b.when(emit_conditions(b, ways)) if len(self.nests) > 1 else nullcontext():
                    nest.write(tile, self.tiles, pointers, starts)
        return b.text()


class _LoopNest:
    def __init__(self, stages: ReductionStages, b: Builder, order: SumOrder) -> None:
        self.space = space = stages.space
        self.group = space.group
        self.stages = stages
        self.lanes, self.blocked_loop, self.inside, self.held = order
        self.b = b
        self.accesses = list(dict.fromkeys((*self.space.reads.values(), *self.space.writes.values())))
        self.level = self._levels()
        # Rows computed side by side: two of those that wait for their folds for longer than they compute.
        outer = self.space.first_reduced - 1
        short = 0 < self.held <= MAX_PAIRED_ROW_STEPS and self.held * count_work(stages) <= MAX_PAIRED_ROW_WORK
        self.rows = 2 if short and outer >= 0 and size_value(self.space.loops[outer].size) > 1 else 1
        self.squares = find_square_reads(space, self.lanes)
        self.partition = TilePartition(1, space.loops[0].size)
        self._tile = self.b.constant(0, I64)
        self._starts: dict[Access, Reg] = {}
        self._block_steps: Index = 1

    def step(self, depth: int) -> int:
        """Return how many turns of a loop are taken at once."""
        if self.space.loops[depth].vector:
            return self.lanes
        if self.squares and depth + 2 == len(self.space.loops):
            return self.lanes
        return self.rows if depth + 1 == self.space.first_reduced else 1

    def _levels(self) -> dict[Source, int]:
        """Return the number of loops around each value: with 0 it is computed once."""
        levels: dict[Source, int] = {}
        for read, access in self.space.reads.items():
            levels[read] = max((i + 1 for i, s in enumerate(access.strides) if s), default=0)
        inner = len(self.space.loops)
        for value in self.group.equations:
            inside = max((levels[s] for s in self.space.sources(value)), default=0)
            if value.op.combine or (self.stages.is_small(value) and value in self.space.writes):
                inside = self.space.first_reduced
            elif value in self.space.writes:
                inside = inner  # stored once for each element, and so computed there
            levels[value] = inside
        return levels

    def write(self, tile: Reg, tiles: int, pointers: dict[Value, Reg], starts: dict[Access, Reg]) -> None:
        """Write one of so many tiles."""
        self.partition = partition_tiles(self.space.loops[0].size, self.step(0), tiles)
        self._tile, self._starts = tile, starts
        self._block_steps = self._count_block_steps()
        self._enter(LoopPoint(0, {a: self._origin(a, pointers) for a in self.accesses}, {}), ())

    def _origin(self, access: Access, pointers: dict[Value, Reg]) -> Reg:
        """Return the start of an access: an address, or the index of an element that is made and not loaded."""
        pointer = pointers.get(access.base)
        if pointer is None:
            return self.b.constant(access.offset, I64)
        start: Reg | int | None = self._starts.get(access)
        if is_symbolic_size(access.offset):
            start = access.offset
        return pointer if start is None else self.b.gep(pointer, start, from_dtype(access.base.dtype))

    def _enter(self, at: LoopPoint, sums: Sums) -> Sums:
        """Everything inside this point; returns the accumulators as they leave."""
        at = self._compute_point(at)
        if at.stage < 0 and at.depth == self.space.first_reduced and self.group.reductions:
            self._run_stages(at)
            return ()
        if at.depth == len(self.space.loops):
            return self._write_innermost(at, sums)
        return self._loop(at, sums, None)

    def _loop(self, at: LoopPoint, sums: Sums, block: Reg | None) -> Sums:
        """One loop around what lies inside; only a reducing one carries accumulators. `block`: one block, from here."""
        b, loop, step = self.b, self.space.loops[at.depth], self.step(at.depth)
        whole, rest = split_size(loop.size, step)
        low: Reg | int = 0
        high: Reg | int = whole
        if block is not None:
            low, high = block, b.minimum(b.add(block, scale_index(b, self._block_steps, step)), whole)
        elif at.depth == 0 and self.partition.tiles > 1:
            low, high = self.partition.bounds(b, self._tile, whole)
        if not is_zero(whole):
            with b.loop(low, high, step, carried=sums if loop.reduced else ()) as turn:
                if self.squares and step > 1 and not loop.vector:
                    self._write_squares(at, turn.index)
                elif step > 1 and not loop.vector:
                    self._run_register_rows(
                        [self._compute_point(self._step_into_loop(at, b.add(turn.index, i))) for i in range(step)]
                    )
                else:
                    left = self._enter(self._step_into_loop(at, turn.index), turn.carried if loop.reduced else sums)
                    turn.yields(*(left if loop.reduced else ()))
            if loop.reduced:
                sums = turn.results
        if not is_zero(rest) and block is None:
            sums = self._enter_remainder(at, whole, rest, sums)
        return sums

    def _enter_remainder(self, at: LoopPoint, whole: int, rest: int, sums: Sums) -> Sums:
        """Write the part of a loop that fills no whole step, if there is one, in the last tile."""
        b = self.b
        conditions = []
        if at.depth == 0 and self.partition.tiles > 1:
            conditions.append(b.eq(self._tile, self.partition.tiles - 1))
        if is_symbolic_size(rest):
            conditions.append(b.gt(b.constant(rest, I64), 0))
        if not conditions:
            left = self._enter_rest(at, whole, rest, sums)
            return left if self.space.loops[at.depth].reduced else sums
        with b.when(reduce(b.logical_and, conditions), sums) as branch:
            left = self._enter_rest(at, whole, rest, sums)
            branch.yields(*(left if self.space.loops[at.depth].reduced else sums))
        return branch.results

    def _enter_rest(self, at: LoopPoint, whole: int, rest: int, sums: Sums) -> Sums:
        if self.squares and not self.space.loops[at.depth].vector:
            with self.b.loop(whole, whole + rest) as turn:
                self._enter(self._step_into_loop(at, turn.index), ())
            return ()
        return self._enter(self._remainder(at, whole, rest), sums)

    def _run_stages(self, at: LoopPoint) -> None:
        """The folding loops, once for each stage, and what each stage's folds lead to; then results are stored."""
        if self.held:
            self._run_register_rows([at])
            return
        for stage in range(self.stages.count):
            at = self._finalize_stage(at, stage, self._fold(at._replace(stage=stage)))
        self._store_kept(at)

    def _run_register_rows(self, rows: list[LoopPoint]) -> None:
        """All stages of rows that stay in registers, each stage of all of them before the next."""
        size = self.space.loops[-1].size
        last = (self.held - 1) * self.lanes
        is_full = not is_symbolic_size(size) and size - last == self.lanes
        steps = [
            [
                *(self._step_into_loop(at, i) for i in range(0, last, self.lanes)),
                self._step_into_loop(at, last) if is_full else self._remainder(at, last, size - last),
            ]
            for at in rows
        ]
        for stage in range(self.stages.count):
            rows = [self._run_register_row_stage(at, points, stage) for at, points in zip(rows, steps, strict=True)]
        for at in rows:
            self._store_kept(at)

    def _run_register_row_stage(self, at: LoopPoint, points: list[LoopPoint], stage: int) -> LoopPoint:
        """One stage of a row; `points` keep the registers of its steps."""
        totals = tuple(accumulators.identity(self.b, v, self.lanes) for v in self.stages.folds[stage])
        for i, point in enumerate(points):
            points[i] = self._compute_point(point._replace(stage=stage, registers={**at.registers, **point.registers}))
            totals = self._write_innermost(points[i], totals)
        return self._finalize_stage(at, stage, totals)

    def _store(self, register: Reg, place: Reg, mask: Reg | int | None) -> None:
        """Store what is on the mask; a full last step of a row in registers without one, which is slow on some CPUs."""
        if not self.held or not isinstance(mask, Reg) or mask.type.lanes == 1:
            self.b.store(register, place, mask)
            return
        is_full = self.b.hand(mask)
        with self.b.when(is_full):
            self.b.store(register, place)
        with self.b.when(self.b.logical_not(is_full)):
            self.b.store(register, place, mask)

    def _store_kept(self, at: LoopPoint) -> None:
        """Results of one element for each fold."""
        across = self.space.loops[self.space.vector_at].reduced
        for value in self.stages.kept_stored:
            lanes = 1 if across else self.lanes
            register = self.b.broadcast(at.registers[value], lanes)
            self.b.store(register, at.places[self.space.writes[value]], None if across else at.mask)

    def _finalize_stage(self, at: LoopPoint, stage: int, totals: Sums) -> LoopPoint:
        """The point with the results of a stage's folds, and with what follows from them before the next stage."""
        across = self.space.loops[self.space.vector_at].reduced
        registers = dict(at.registers)
        for value, total in zip(self.stages.folds[stage], totals, strict=True):
            registers[value] = accumulators.finalize(self.b, value, total, across)
        for value in self.group.equations:
            if self.level[value] == at.depth and self.stages.time[value] == stage + 1 and not value.op.combine:
                registers[value] = self._compute(value, registers)
        return at._replace(registers=registers)

    def _fold(self, at: LoopPoint) -> Sums:
        """The reducing loops: accumulators start at their identities; long sums are gathered in float64."""
        folds = self.stages.folds[at.stage]
        start = tuple(accumulators.identity(self.b, v, self.lanes) for v in folds)
        if at.depth == len(self.space.loops):  # over no dimension, or of size 1
            return self._write_innermost(self._compute_point(at), start)
        if self.blocked_loop is None or not folds:
            return self._loop(at, start, None)
        wide = (accumulators.widen_start(self.b, v, s) for v, s in zip(folds, start, strict=True))
        return self._gather(at, start, tuple(wide))

    def _gather(self, at: LoopPoint, start: Sums, totals: Sums) -> Sums:
        """The reducing loops down to the one cut into blocks, each of which is summed from `start` into `totals`."""
        b, loop = self.b, self.space.loops[at.depth]
        if at.depth != self.blocked_loop:
            with b.loop(0, loop.size, carried=totals) as turn:
                turn.yields(
                    *self._gather(self._compute_point(self._step_into_loop(at, turn.index)), start, turn.carried)
                )
            return turn.results
        whole, rest = split_size(loop.size, self.lanes if loop.vector else 1)
        by = step = scale_index(b, self._block_steps, self.lanes if loop.vector else 1)
        count: Index = whole
        if isinstance(step, Reg):  # one block after the other
            last = b.sub(b.add(as_index(b, whole), step), 1)
            count, step = floor_div_index(b, last, step), 1
        with b.loop(0, count, step, carried=totals) as blocks:
            first = b.mul(blocks.index, by) if isinstance(by, Reg) else blocks.index
            blocks.yields(*self._flush_blocks(at, blocks.carried, self._loop(at, start, first)))
        totals = blocks.results
        if is_symbolic_size(rest):
            with b.when(b.gt(b.constant(rest, I64), 0), totals) as branch:
                parts = self._enter(self._remainder(at, whole, rest), start)
                branch.yields(*self._flush_blocks(at, totals, parts))
            return branch.results
        if rest:
            totals = self._flush_blocks(at, totals, self._enter(self._remainder(at, whole, rest), start))
        return totals

    def _count_block_steps(self) -> Index:
        """Return how many steps of the loop that is cut a block has."""
        if not is_symbolic_size(self.inside):
            return SUM_BLOCK // max(self.inside, 1)
        b = self.b
        return floor_div_index(b, b.constant(SUM_BLOCK, I64), b.maximum(b.constant(self.inside, I64), 1))

    def _flush_blocks(self, at: LoopPoint, totals: Sums, parts: Sums) -> Sums:
        folds = self.stages.folds[at.stage]
        return tuple(accumulators.flush_block(self.b, v, t, p) for v, t, p in zip(folds, totals, parts, strict=True))

    def _step_into_loop(self, at: LoopPoint, index: Reg | int) -> LoopPoint:
        """Every access one loop further in, at this index."""
        b = self.b
        moved = dict(at.places)
        for access, place in at.places.items():
            stride = access.strides[at.depth]
            if not stride or is_zero(index):
                continue
            by = index * stride if isinstance(index, int) else (index if stride == 1 else b.mul(index, stride))
            if place.type.kind == "ptr":
                moved[access] = b.gep(place, by, from_dtype(access.base.dtype))
            else:
                moved[access] = b.add(place, by)
        return at._replace(depth=at.depth + 1, places=moved)

    def _write_squares(self, at: LoopPoint, index: Reg) -> None:
        """As many turns of the loop around the lanes as there are lanes, from `index`: squares, and then its rest."""
        b, along = self.b, at.depth + 1
        rows = [self._compute_point(self._step_into_loop(at, b.add(index, i))) for i in range(self.lanes)]
        whole, rest = split_size(self.space.loops[along].size, self.lanes)
        with b.loop(0, whole, self.lanes) as turn:
            points = [self._step_into_loop(row, turn.index) for row in rows]
            squares = {}
            for read, access in self.squares.items():
                kind, place = from_dtype(access.base.dtype), points[0].places[access]
                lines = [b.gep(place, i * access.strides[along], kind) for i in range(self.lanes)]
                squares[read] = b.transpose_lanes([b.load(line, kind.of(self.lanes)) for line in lines])
            for i, point in enumerate(points):
                known = point.registers | {read: registers[i] for read, registers in squares.items()}
                self._enter(point._replace(registers=known), ())
        if not is_zero(rest):
            for row in rows:
                self._enter(self._remainder(row, whole, rest), ())

    def _remainder(self, at: LoopPoint, whole: int, rest: int) -> LoopPoint:
        """Write the rest of a loop at its end: elements that fill no register, as one step under a mask; or a row."""
        moved = self._step_into_loop(at, whole)
        if not self.space.loops[at.depth].vector:
            return moved
        count = self.b.lane_mask(self.b.constant(rest, I64), self.lanes) if is_symbolic_size(rest) else rest
        return moved._replace(mask=count)

    def _compute_point(self, at: LoopPoint) -> LoopPoint:
        """The point with what belongs exactly at its depth, and to its stage, loaded and computed."""
        at = at._replace(registers=dict(at.registers))
        wanted = self.stages.needed_sources[at.stage] if at.stage >= 0 else None
        for read, access in self.space.reads.items():
            if self.level[read] == at.depth and read not in at.registers and (wanted is None or read in wanted):
                at.registers[read] = self._load(access, at)
        for value in self.group.equations:
            if self.level[value] != at.depth or value.op.combine or value in at.registers:
                continue
            if wanted is None and self.stages.time[value] == 0:
                at.registers[value] = self._compute(value, at.registers)
            elif wanted is not None and value in wanted:
                back = self.stages.is_loaded_back(value, at.stage)
                at.registers[value] = (
                    self._load(self.space.writes[value], at) if back else self._compute(value, at.registers)
                )
        return at

    def _load(self, access: Access, at: LoopPoint) -> Reg:
        stride = access.strides[self.space.vector_at]
        return elementwise.load(self.b, access.base, at.places[access], stride, self.lanes, at.mask)

    def _compute(self, value: Value, registers: dict[Source, Reg]) -> Reg:
        return elementwise.compute(self.b, value, [registers[s] for s in self.space.sources(value)])

    def _write_innermost(self, at: LoopPoint, sums: Sums) -> Sums:
        """Store what the stage stores, take in what it folds."""
        b, stage = self.b, max(at.stage, 0)
        for value in self.stages.stored[stage]:
            self._store(b.broadcast(at.registers[value], self.lanes), at.places[self.space.writes[value]], at.mask)
        folded = []
        for value, total in zip(self.stages.folds[stage], sums, strict=True):
            source = b.broadcast(at.registers[self.space.sources(value)[0]], self.lanes)
            folded.append(accumulators.accumulate(b, value, total, source, at.mask))
        return tuple(folded)

"""The gradient of a convolution's weight: sums over images and places, the lanes of a register over places.

A few images at a time are framed (`frame`). Some of the result's channels by some taps stay in registers while all
places of these images are added up; between images they wait in memory, every lane for itself. A tile owns channels of
the input, or of the result if there are few, and so all of what it finishes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from adjoint.compiler.ir.symbolic_size import is_multiple, size_value
from adjoint.compiler.kernels.conv_pool.blocking import Grid, Split, Vector, count_cycles
from adjoint.compiler.kernels.conv_pool.conv_plan import (
    Column,
    TapSlice,
    Term,
    group_taps,
    sweep_of,
    uniform_step,
)
from adjoint.compiler.kernels.conv_pool.padded_image import PaddedImage, plan_padded_image, write_padded_image
from adjoint.compiler.kernels.conv_pool.window_geometry import Shape, Triple, iterate_places
from adjoint.compiler.kernels.index_arithmetic import Index, floor_div_index, modulo_index, unravel_index
from adjoint.compiler.kernels.kernel import Finish, ResultRegister
from adjoint.compiler.kernels.matmul.packing import fold_lanes
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I64, Reg, Type

Registers = tuple[Reg, ...]
Part = TypeVar("Part")

MAX_FRAME_ELEMENTS = 2**16  # elements of frames at a time
MAX_SUM_ELEMENTS = 2**16  # elements of sums that a tile holds
TILE_FLOPS = 2.5e6


class ConvolutionWeightPlan(NamedTuple):
    """The plan of one gradient: which taps are in registers together, and what a tile owns."""

    images: int
    groups: int
    result: tuple[int, int]  # channels of a group, channels of the input in it
    taps: Triple
    inputs: int  # elements from image to image of x
    places: Triple
    type: Type
    frame: PaddedImage  # of the channels of one turn
    slices: tuple[TapSlice, ...]  # the terms of `together` channels of the input
    together: int
    grid: Grid
    outward: Split  # a turn's channels of the result, in blocks
    turns: tuple[int, int]  # how often a tile turns to other channels: of the result, of all inputs
    per_tile: int  # turns
    batch: int  # images framed together
    apart: int  # dimensions of the taps that the result keeps apart, 0 if it is flat
    reason: str

    @property
    def tiles(self) -> int:
        return -(-self.turns[0] * self.turns[1] // self.per_tile)

    @property
    def sums(self) -> int:
        """Registers in which a turn's sums wait."""
        return self.outward.size * self.frame.channels * self.taps.size

    @property
    def frame_elements(self) -> int:
        """Elements of memory for the frames."""
        return self.frame.size(self.grid.lanes) * self.batch

    @property
    def scratch(self) -> int:
        """Bytes for each thread."""
        elements = self.frame_elements + (self.sums + self.grid.lanes) * self.grid.lanes
        return -(-elements * self.type.itemsize // 64) * 64


def plan_convolution_weight(
    x: Shape, g: Shape, *, shape: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int, type: Type,
    target: Target, flat: bool = True,
) -> ConvolutionWeightPlan | None:  # fmt: skip
    """The plan of `convolution_weight`, None where there is nothing to sum.

    `flat`: the result is (O, all others), not (O, C, K…).
    """
    if 0 in x or 0 in g or 0 in shape:
        return None
    image, places, taps, steps, before, gaps = sweep_of(x, g[2:], shape, stride, padding, dilation, flat)
    lanes = target.lanes(type)
    starts = {
        tap: Triple(*(i * d - p for i, d, p in zip(tap, gaps, before, strict=True))) for tap in iterate_places(taps)
    }
    seen = sorted(starts.values())
    outward, inward = shape[0] // groups, shape[1]
    best: tuple[float, PaddedImage, Grid] | None = None
    for dense in (False, True):
        frame = plan_padded_image(image, 1, places, steps, seen, dense)
        joined = frame.width == places.columns
        grid = Grid(1, places.rows * places.columns, lanes, 1) if joined else Grid(*places[1:], lanes, 1)
        cost = places.slices * grid.rows * grid.in_row * len(seen) * outward / 1.4
        if not frame.in_place:
            cost += frame.slices * frame.rows * len(frame.planes) * -(-frame.width // lanes) * 5.0
        if best is None or cost < best[0]:
            best = (cost, frame, grid)
    assert best is not None
    _, frame, grid = best
    # A turn's sums and frames are to stay in the cache, and its channels to be shared among tiles.
    window = taps.size
    block = _largest_divisor(outward, lambda n: n * window * lanes <= MAX_SUM_ELEMENTS)
    turn = _largest_divisor(
        inward,
        lambda n: (
            block * n * window * lanes <= MAX_SUM_ELEMENTS
            and n * frame.size(lanes) <= MAX_FRAME_ELEMENTS
            and (n * 8 <= inward or n == 1)
        ),
    )
    frame = frame._replace(channels=turn)
    images = size_value(x[0])
    flops = 2.0 * images * places.size * block * turn * window
    if turn == inward and groups == 1:
        block = _largest_divisor(
            outward, lambda n: n <= block and (n * 4 <= outward or flops * n / block < 2 * TILE_FLOPS)
        )
        flops = 2.0 * images * places.size * block * turn * window
    turns = (outward // block, groups * inward // turn)
    batch = max(
        1,
        min(
            images, MAX_FRAME_ELEMENTS // max(frame.size(lanes), 1), -(-96 // (places.slices * grid.rows * grid.in_row))
        ),
    )
    slices = group_taps(starts, dict(zip(seen, frame.offsets, strict=True)), taps)
    slices, inputs, held = _choose_registers(slices, frame, window, block, target.vector_registers - 1)
    split = Split(block, -(-block // held))
    together = len(slices[0][0])
    per_tile = max(1, min(turns[0] * turns[1], round(TILE_FLOPS / target.slowdown / flops)))
    kind = "in place" if frame.in_place else f"through frames of {len(frame.planes)} planes"
    reason = f"direct, {split.largest} channels by {together} taps in registers, images read {kind}"
    return ConvolutionWeightPlan(
        x[0], groups, (outward, inward), taps, x[1] * image.size, places, type, frame, slices, inputs, grid, split,
        turns, per_tile, batch, 0 if flat else len(x) - 2, reason,
    )  # fmt: skip


def _choose_registers(
    slices: tuple[TapSlice, ...], frame: PaddedImage, window: int, block: int, registers: int
) -> tuple[tuple[TapSlice, ...], int, int]:
    """The terms that are in registers together, of how many channels of the input, and channels of the result.

    A column of taps, or all of a slice, of one channel or of several: whatever takes the fewest cycles for a product.
    """
    best: tuple[float, tuple[TapSlice, ...], int, int] | None = None
    joined = tuple((sum(columns, ()),) for columns in slices)
    for grouping in dict.fromkeys((slices, joined)):
        for inputs in (n for n in range(1, min(frame.channels, registers) + 1) if frame.channels % n == 0):
            terms = max(len(column) for columns in grouping for column in columns) * inputs
            held = min(block, (registers - 1) // (terms + 1))
            if held < 1 and best is not None:
                continue
            cost = count_cycles(max(held, 1), terms) / (max(held, 1) * terms)
            if best is None or cost < best[0]:
                best = cost, grouping, inputs, max(held, 1)
    assert best is not None
    _, slices, inputs, held = best
    ahead = [Term(i * frame.channel, i * window) for i in range(inputs)]

    def widen(column: Column) -> Column:
        return tuple(Term(t.frame + by.frame, t.weight + by.weight) for by in ahead for t in column)

    return tuple(tuple(map(widen, columns)) for columns in slices), inputs, held


def write_convolution_weight(
    b: Builder, plan: ConvolutionWeightPlan, x: Reg, g: Reg, scratch: Reg, tile: Reg, finish: Finish
) -> None:
    """The part of the result that one tile owns, given to `finish`; `scratch` is the calling thread's own."""
    type, lanes = plan.type, plan.grid.lanes
    vector = type.of(lanes)
    frame = plan.frame
    channel = frame.image.size
    outward, inward = plan.result
    waiting = b.gep(scratch, plan.frame_elements, type)
    start = b.mul(tile, plan.per_tile)
    total = plan.turns[0] * plan.turns[1]
    end = b.add(start, plan.per_tile)
    with b.loop(start, b.minimum(end, total) if total % plan.per_tile else end) as turn:
        first = b.mul(
            modulo_index(b, turn.index, plan.turns[0]), plan.outward.size
        )  # of the result's channels in its group
        inner = b.mul(floor_div_index(b, turn.index, plan.turns[0]), frame.channels)  # of all the input's channels
        group = floor_div_index(b, inner, inward)
        first = b.add(b.mul(group, outward), first)
        with b.loop(0, plan.sums * lanes, lanes) as clear:
            b.store(b.constant(0.0, vector), b.gep(waiting, clear.index, type))
        own = b.gep(x, b.mul(inner, channel), type)
        theirs = b.gep(g, b.mul(first, plan.places.size), type)
        with b.loop(0, plan.images, plan.batch) as batch:
            here = b.gep(own, b.mul(batch.index, plan.inputs), type)
            there = b.gep(theirs, b.mul(batch.index, plan.groups * outward * plan.places.size), type)
            count: Index = plan.batch
            if not is_multiple(plan.images, plan.batch):
                count = b.minimum(b.sub(plan.images, batch.index), plan.batch)
            if not frame.in_place:
                with b.loop(0, count) as image:
                    source = b.gep(here, b.mul(image.index, plan.inputs), type)
                    memory = b.gep(scratch, b.mul(image.index, frame.size(lanes)), type)
                    write_padded_image(b, frame, source, memory, vector)
            _add(b, plan, here if frame.in_place else scratch, there, waiting, count)
        _finish(b, plan, waiting, first, modulo_index(b, inner, inward), finish)


def _add(b: Builder, plan: ConvolutionWeightPlan, frames: Reg, g: Reg, waiting: Reg, count: Index) -> None:
    """The sums over a batch's images and places, added to those that wait."""
    type, lanes = plan.type, plan.grid.lanes
    frame = plan.frame
    window = plan.taps.size

    for start, size in plan.outward.blocks(b, 0, plan.outward.number):
        mine = b.gep(g, b.mul(start, plan.places.size), type)
        sums_of = b.gep(waiting, b.mul(start, frame.channels * window * lanes), type)
        with b.loop(0, frame.channels, plan.together) as channel:
            seen = b.gep(frames, b.mul(channel.index, frame.channel), type)
            sums = b.gep(sums_of, b.mul(channel.index, window * lanes), type)
            _add_slices(b, plan, seen, mine, sums, size, count)


def _add_slices(
    b: Builder, plan: ConvolutionWeightPlan, seen: Reg, g: Reg, waiting: Reg, size: int, count: Index
) -> None:
    """The sums for all taps: loops over slices and columns where these are a step apart."""

    def add_each(
        parts: Sequence[Part],
        flat: Sequence[Sequence[Term]],
        seen: Reg,
        sums: Reg,
        add: Callable[[Reg, Reg, Part], None],
    ) -> None:
        """Add parts one after the other: in a loop if they are `flat` terms a step apart."""
        by = uniform_step(flat)
        if by is None or len(parts) == 1:
            for part in parts:
                add(seen, sums, part)
            return
        with b.loop(0, len(parts)) as loop:
            moved = b.gep(seen, b.mul(loop.index, by.frame), plan.type)
            add(moved, b.gep(sums, b.mul(loop.index, by.weight * plan.grid.lanes), plan.type), parts[0])

    def add_column(seen: Reg, sums: Reg, terms: Column) -> None:
        _add_column(b, plan, seen, g, sums, terms, size, count)

    def add_slice(seen: Reg, sums: Reg, columns: TapSlice) -> None:
        add_each(columns, columns, seen, sums, add_column)

    add_each(plan.slices, [sum(columns, ()) for columns in plan.slices], seen, waiting, add_slice)


def _add_column(
    b: Builder,
    plan: ConvolutionWeightPlan,
    seen: Reg,
    g: Reg,
    waiting: Reg,
    terms: Column,
    size: int,
    count: Index,
) -> None:
    # The plain loop: for image, place, channel, tap: sums[channel, tap] += g[channel, place] * image[place + tap].
    # Unrolled: `size` channels by all taps of the column stay in registers while images and places pass by. A register
    # holds one sum for each lane, which `_finish` adds up.
    type, lanes = plan.type, plan.grid.lanes
    vector = type.of(lanes)
    stride = plan.frame.channels * plan.taps.size * lanes
    places = [b.gep(waiting, channel * stride + term.weight * lanes, type) for channel in range(size) for term in terms]

    def add(sums: Registers, g: Reg, seen: Reg, inside: Vector) -> Registers:
        # Both under the mask: 0 times what lies beyond need not be 0.
        given = [b.load(b.gep(g, channel * plan.places.size, type), vector, inside.filled) for channel in range(size)]
        new = list(sums)
        for i, term in enumerate(terms):
            value = b.load(b.gep(seen, term.frame, type), vector, inside.filled)
            for channel in range(size):
                at = channel * len(terms) + i
                new[at] = b.fma(given[channel], value, new[at])
        return tuple(new)

    from_image = plan.inputs if plan.frame.in_place else plan.frame.size(lanes)
    with b.loop(0, count, carried=[b.load(place, vector) for place in places]) as image:
        theirs = b.gep(g, b.mul(image.index, plan.groups * plan.result[0] * plan.places.size), type)
        ours = b.gep(seen, b.mul(image.index, from_image), type)
        sums = image.carried
        if plan.places.slices == 1:
            sums = _add_rows(b, plan, theirs, ours, sums, add)
        else:
            with b.loop(0, plan.places.slices, carried=sums) as piece:
                their_slice = b.gep(theirs, b.mul(piece.index, plan.places.rows * plan.places.columns), type)
                our_slice = b.gep(ours, b.mul(piece.index, plan.frame.slice), type)
                piece.yields(*_add_rows(b, plan, their_slice, our_slice, piece.carried, add))
            sums = piece.results
        image.yields(*sums)
    for place, total in zip(places, image.results, strict=True):
        b.store(total, place)


def _add_rows(
    b: Builder, plan: ConvolutionWeightPlan, theirs: Reg, ours: Reg, sums: Registers, add: Callable[..., Registers]
) -> Registers:
    """The sums over the rows of one slice."""
    type, lanes = plan.type, plan.grid.lanes
    with b.loop(0, plan.grid.rows, carried=sums) as row:
        their_row = b.gep(theirs, b.mul(row.index, plan.grid.length), type)
        our_row = b.gep(ours, b.mul(row.index, plan.frame.width), type)
        sums = row.carried
        whole = plan.grid.length - plan.grid.length % lanes
        if whole:
            with b.loop(0, whole, lanes, carried=sums) as loop:
                at = b.gep(their_row, loop.index, type), b.gep(our_row, loop.index, type)
                loop.yields(*add(loop.carried, *at, Vector(0, 0, lanes)))
            sums = loop.results
        if left := plan.grid.length - whole:
            sums = add(sums, b.gep(their_row, whole, type), b.gep(our_row, whole, type), Vector(0, 0, left))
        row.yields(*sums)
    return row.results


def _finish(b: Builder, plan: ConvolutionWeightPlan, waiting: Reg, first: Reg, inner: Reg, finish: Finish) -> None:
    """The lanes of all sums added up, and the results in order."""
    type, lanes = plan.type, plan.grid.lanes
    window = plan.taps.size
    held = plan.frame.channels * window

    def part(index: Reg, origin: Sequence[Reg], mask: int | None) -> None:
        pointer = b.gep(waiting, b.mul(index, lanes), type)
        rows = [b.load(b.gep(pointer, lane * lanes, type), type.of(lanes)) for lane in range(lanes)]
        finish(origin, [ResultRegister((0,) * len(origin), fold_lanes(b, rows), mask)])

    with b.loop(0, plan.outward.size) as outer:
        channel = b.add(first, outer.index)
        before = b.mul(outer.index, held)
        if not plan.apart:
            start = b.mul(inner, window)
            if whole := held - held % lanes:
                with b.loop(0, whole, lanes) as loop:
                    part(b.add(before, loop.index), [channel, b.add(start, loop.index)], None)
            if held - whole:
                part(b.add(before, whole), [channel, b.add(start, whole)], held - whole)
            return
        sizes = (plan.taps.slices, plan.taps.rows)[3 - plan.apart :]
        width = plan.taps.columns
        with b.loop(0, plan.frame.channels * math.prod(sizes)) as line:
            input, *row = unravel_index(b, line.index, (plan.frame.channels, *sizes))
            for column in range(0, width, lanes):
                at = b.add(b.add(before, b.mul(line.index, width)), column)
                part(at, [channel, b.add(inner, input), *row, b.constant(column, I64)], min(lanes, width - column))


def _largest_divisor(size: int, fits: Callable[[int], bool]) -> int:
    """The largest divisor of `size` that fits, 1 if none does."""
    return next((n for n in range(size, 0, -1) if size % n == 0 and fits(n)), 1)

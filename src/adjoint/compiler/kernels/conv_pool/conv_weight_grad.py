"""The gradient of a convolution's weight: sums over images and places.

The lanes of a register are places; or they are channels of the input, whose frame is turned then: no lane is wasted
where rows are short, and none is added to another at the end.

A few images at a time are framed (`frame`). Some of the result's channels by some taps stay in registers while all
places of these images are added up; between images they wait in memory, every lane for itself. A tile owns channels of
the input, or of the result if there are few, and so all of what it finishes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from adjoint.compiler.ir.symbolic_size import is_multiple, is_symbolic_size
from adjoint.compiler.kernels.conv_pool.blocking import Vector
from adjoint.compiler.kernels.conv_pool.conv_plan import Column, TapSlice, Term, uniform_step
from adjoint.compiler.kernels.conv_pool.conv_weight_plan import ConvolutionWeightPlan
from adjoint.compiler.kernels.conv_pool.padded_image import write_padded_image
from adjoint.compiler.kernels.index_arithmetic import (
    Index,
    as_index,
    floor_div_index,
    is_one,
    is_zero,
    modulo_index,
    scale_index,
    split_size,
    unravel_index,
)
from adjoint.compiler.kernels.kernel import Finish, ResultRegister
from adjoint.compiler.kernels.matmul.blocking import MatrixStrides
from adjoint.compiler.kernels.matmul.operand import MatmulOperand
from adjoint.compiler.kernels.matmul.packing import fold_lanes, pack_transposed
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I32, I64, Reg, Type

Registers = tuple[Reg, ...]
Part = TypeVar("Part")


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
    step = 0 if is_symbolic_size(plan.batch) else plan.batch
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
        with b.loop(0, plan.images if step else -(-plan.images // plan.batch), step or 1) as batch:
            number = batch.index if step else b.mul(batch.index, plan.batch)
            here = b.gep(own, b.mul(number, plan.inputs), type)
            there = b.gep(theirs, b.mul(number, plan.groups * outward * plan.places.size), type)
            count: Index = plan.batch
            if not is_multiple(plan.images, plan.batch):
                count = b.minimum(b.sub(plan.images, number), plan.batch)
            in_place = frame.in_place and not plan.by_channel
            if not in_place:
                with b.loop(0, count) as image:
                    source = b.gep(here, b.mul(image.index, plan.inputs), type)
                    _write_frame(b, plan, source, scratch, image.index, vector)
            _add(b, plan, here if in_place else b.gep(scratch, plan.source_frame_size, type), there, waiting, count)
        _finish(b, plan, waiting, first, modulo_index(b, inner, inward), finish)


def _write_frame(b: Builder, plan: ConvolutionWeightPlan, source: Reg, scratch: Reg, image: Reg, vector: Type) -> None:
    """The frame of one image of a batch, turned where lanes are channels: of each place one channel after another."""
    frame, type = plan.frame, plan.type
    memory = b.gep(b.gep(scratch, plan.source_frame_size, type), b.mul(image, plan.frame_size), type)
    if not plan.by_channel:
        write_padded_image(b, frame, source, memory, vector)
        return
    # The plain loop: for channel, place: turned[place, channel] = frame[channel, place].
    framed = write_padded_image(b, frame, source, scratch, vector)
    matrix = MatmulOperand.plain(framed, type, MatrixStrides((), 1, frame.channel))
    ragged = b.constant(frame.channels, I64) if frame.channels < plan.pitch else None
    pack_transposed(b, matrix, memory, vector, plan.pitch, ragged, frame.channel, frame.channel)


def _add(b: Builder, plan: ConvolutionWeightPlan, frames: Reg, g: Reg, waiting: Reg, count: Index) -> None:
    """The sums over a batch's images and places, added to those that wait."""
    if is_symbolic_size(plan.grid.length) and not plan.is_short:
        is_short = b.le(b.constant(plan.grid.length, I64), plan.grid.lanes)
        with b.when(is_short):  # a loop of no turns would carry all sums
            _add(b, plan._replace(is_short=True), frames, g, waiting, count)
        with b.when(b.logical_not(is_short)):
            _add_blocks(b, plan, frames, g, waiting, count)
        return
    _add_blocks(b, plan, frames, g, waiting, count)


def _add_blocks(b: Builder, plan: ConvolutionWeightPlan, frames: Reg, g: Reg, waiting: Reg, count: Index) -> None:
    type, lanes = plan.type, plan.grid.lanes
    window = plan.taps.size

    for start, size in plan.outward.blocks(b, 0, plan.outward.number):
        mine = b.gep(g, b.mul(start, plan.places.size), type)
        sums_of = b.gep(waiting, b.mul(start, plan.channels * window * lanes), type)
        with b.loop(0, plan.channels, plan.together) as channel:
            seen = b.gep(frames, b.mul(channel.index, plan.channel), type)
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
        """Add parts one after the other: in loops over those that are a step apart, one for each phase of a stride."""
        for phases in range(1, len(parts) + 1):
            steps = [uniform_step(flat[phase::phases]) for phase in range(phases)]
            if all(step or phase + phases >= len(parts) for phase, step in enumerate(steps)):
                break
        for phase, by in enumerate(steps):
            if by is None:
                add(seen, sums, parts[phase])
                continue
            with b.loop(0, len(parts[phase::phases])) as loop:
                moved = b.gep(seen, b.mul(loop.index, by.frame), plan.type)
                add(moved, b.gep(sums, b.mul(loop.index, by.weight * plan.grid.lanes), plan.type), parts[phase])

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
    # holds one sum for each lane, which `_finish` adds up. Where lanes are channels of the input, each holds a sum.
    type, lanes = plan.type, plan.grid.lanes
    vector = type.of(lanes)
    stride = plan.channels * plan.taps.size * lanes
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

    def add_place(sums: Registers, g: Reg, seen: Reg, _: Vector) -> Registers:
        new = list(sums)
        values = [b.load(b.gep(seen, term.frame, type), vector) for term in terms]
        for channel in range(size):
            spread = b.broadcast(b.load(b.gep(g, channel * plan.places.size, type), type), lanes)
            for at, value in enumerate(values, channel * len(terms)):
                new[at] = b.fma(spread, value, new[at])
        return tuple(new)

    step = add_place if plan.by_channel else add
    from_image = plan.inputs if plan.frame.in_place and not plan.by_channel else plan.frame_size
    with b.loop(0, count, carried=[b.load(place, vector) for place in places]) as image:
        theirs = b.gep(g, b.mul(image.index, plan.groups * plan.result[0] * plan.places.size), type)
        ours = b.gep(seen, b.mul(image.index, from_image), type)
        sums = image.carried
        if is_one(plan.places.slices):
            sums = _add_rows(b, plan, theirs, ours, sums, step)
        else:
            with b.loop(0, plan.places.slices, carried=sums) as piece:
                their_slice = b.gep(theirs, b.mul(piece.index, plan.places.rows * plan.places.columns), type)
                our_slice = b.gep(ours, b.mul(piece.index, plan.frame.slice * plan.pitch), type)
                piece.yields(*_add_rows(b, plan, their_slice, our_slice, piece.carried, step))
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
        our_row = b.gep(ours, b.mul(row.index, plan.frame.width * plan.pitch), type)
        sums = row.carried
        step = 1 if plan.by_channel else lanes
        whole, left = split_size(plan.grid.length, step)
        if plan.is_short:
            whole, left = 0, plan.grid.length
        if not is_zero(whole):
            with b.loop(0, whole, step, carried=sums) as loop:
                at = b.gep(their_row, loop.index, type), b.gep(our_row, scale_index(b, loop.index, plan.pitch), type)
                loop.yields(*add(loop.carried, *at, Vector(0, 0, lanes)))
            sums = loop.results
        if plan.is_short:
            sums = add(sums, their_row, our_row, Vector(0, 0, b.lane_mask(as_index(b, left), lanes)))
        elif is_symbolic_size(left):
            with b.when(b.gt(as_index(b, left), 0), sums) as branch:
                filled = b.lane_mask(as_index(b, left), lanes)
                at = b.gep(their_row, whole, type), b.gep(our_row, whole, type)
                branch.yields(*add(sums, *at, Vector(0, 0, filled)))
            sums = branch.results
        elif left:
            sums = add(sums, b.gep(their_row, whole, type), b.gep(our_row, whole, type), Vector(0, 0, left))
        row.yields(*sums)
    return row.results


def _finish(b: Builder, plan: ConvolutionWeightPlan, waiting: Reg, first: Reg, inner: Reg, finish: Finish) -> None:
    """The lanes of all sums added up, and the results in order."""
    type, lanes = plan.type, plan.grid.lanes
    window = plan.taps.size
    held = plan.frame.channels * window

    def part(outer: Reg, weight: Index, origin: Sequence[Reg], mask: int | None) -> None:
        own = b.gep(waiting, b.mul(outer, plan.channels * window * lanes), type)
        if plan.by_channel:
            finish(origin, [ResultRegister((0,) * len(origin), _pick_sums(b, plan, own, weight, mask), mask)])
            return
        pointer = b.gep(own, scale_index(b, weight, lanes), type)
        rows = [b.load(b.gep(pointer, lane * lanes, type), type.of(lanes)) for lane in range(lanes)]
        finish(origin, [ResultRegister((0,) * len(origin), fold_lanes(b, rows), mask)])

    with b.loop(0, plan.outward.size) as outer:
        channel = b.add(first, outer.index)
        if not plan.apart:
            start = b.mul(inner, window)
            if whole := held - held % lanes:
                with b.loop(0, whole, lanes) as loop:
                    part(outer.index, loop.index, [channel, b.add(start, loop.index)], None)
            if held - whole:
                part(outer.index, whole, [channel, b.add(start, whole)], held - whole)
            return
        sizes = (plan.taps.slices, plan.taps.rows)[3 - plan.apart :]
        width = plan.taps.columns
        with b.loop(0, plan.frame.channels * math.prod(sizes)) as line:
            input, *row = unravel_index(b, line.index, (plan.frame.channels, *sizes))
            for column in range(0, width, lanes):
                at = b.add(b.mul(line.index, width), column)
                part(
                    outer.index,
                    at,
                    [channel, b.add(inner, input), *row, b.constant(column, I64)],
                    min(lanes, width - column),
                )


def _pick_sums(b: Builder, plan: ConvolutionWeightPlan, sums: Reg, weight: Index, mask: int | None) -> Reg:
    """Neighbouring weights of one of the result's channels, from a number on, of sums whose lanes are channels."""
    # The plain loop: for channel, tap: weights[channel * window + tap] = sums[channel // lanes, tap, channel % lanes].
    lanes, window, integer = plan.grid.lanes, plan.taps.size, I32.of(plan.grid.lanes)
    number = b.add(b.iota(lanes, I32), b.cast(as_index(b, weight), I32))
    channel = b.emit(f"udiv {integer.text} {number.name}, {b.constant(window, integer).name}", integer)
    tap = b.sub(number, b.mul(channel, window))
    group = b.shr(channel, (lanes - 1).bit_length())
    lane = b.bitwise_and(channel, lanes - 1)
    place = b.add(b.mul(b.add(b.mul(group, window), tap), lanes), lane)
    return b.gather(sums, place, plan.type, mask)

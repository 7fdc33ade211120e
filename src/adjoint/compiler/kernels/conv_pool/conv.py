"""Direct convolution, forward and towards the input: sums in registers over a framed image, without columns.

One image at a time is copied into a frame, where each tap's elements are neighbours (`frame`). A block of the result,
some channels by some vectors of places, stays in registers while all channels and taps are added up. Blocks go to a
stage that holds all places of their channels, and from there to `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from adjoint.compiler.ir.symbolic_size import has_symbols, is_multiple, is_symbolic_size
from adjoint.compiler.kernels.conv_pool.blocking import Vector
from adjoint.compiler.kernels.conv_pool.conv_plan import Column, ConvolutionPlan, Phase, TapSlice, Term, uniform_step
from adjoint.compiler.kernels.conv_pool.padded_image import write_padded_image
from adjoint.compiler.kernels.index_arithmetic import (
    Index,
    add_index,
    add_strided,
    as_index,
    floor_div_index,
    is_one,
    mask_left,
    min_index,
    modulo_index,
    scale_index,
    subtract_index,
)
from adjoint.compiler.kernels.kernel import Finish, ResultRegister
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg

Registers = tuple[Reg, ...]
Part = TypeVar("Part")

REGISTERS_PER_FINISH = 2  # registers finished at a time
MAX_UNROLLED_TAPS = 5  # taps in a column, above which they are a loop


def write_convolution(
    b: Builder, plan: ConvolutionPlan, x: Reg, weight: Reg, scratch: Reg, tile: Reg, finish: Finish
) -> None:
    """The blocks of one tile, given to `finish`; `scratch` is the calling thread's own."""
    type = plan.type
    vector = type.of(plan.grid.lanes)
    frame = plan.frame
    stage = b.gep(scratch, frame.size(plan.grid.lanes), type)
    bands = plan.bands[0] * plan.bands[1]
    # A tile is some images by a chunk of the channels by a band of the result's slices and rows: enough tiles for all
    # threads even where there is one image.
    band = modulo_index(b, tile, bands)
    chunk = modulo_index(b, floor_div_index(b, tile, bands), plan.chunks)
    start = b.mul(floor_div_index(b, tile, bands * plan.chunks), plan.per_tile)
    first_slice: Index = 0
    first_row: Index = 0
    if not is_one(plan.bands[0]):
        first_slice = b.mul(floor_div_index(b, band, plan.bands[1]), plan.band.slices)
    if not is_one(plan.bands[1]):
        first_row = b.mul(modulo_index(b, band, plan.bands[1]), plan.band.rows)
    count = plan.channels.number
    low: Index = 0
    high: Index = count
    if plan.chunks > 1:
        low = floor_div_index(b, b.mul(chunk, count), plan.chunks)
        high = floor_div_index(b, b.mul(b.add(chunk, 1), count), plan.chunks)
    whole = is_multiple(plan.images, plan.per_tile)
    end = b.add(start, plan.per_tile)
    with b.loop(start, end if whole else b.minimum(end, plan.images)) as image:
        source = b.gep(x, b.mul(image.index, frame.channels * frame.image.size), type)
        framed = write_padded_image(b, frame, source, scratch, vector, (first_slice, first_row))
        group = modulo_index(b, image.index, plan.groups)
        weights = b.gep(weight, b.mul(group, plan.weight[0]), type) if plan.groups > 1 else weight
        for channel, channels in plan.channels.blocks(b, low, high):
            own = b.gep(weights, b.mul(channel, plan.weight[1]), type)
            origin = [floor_div_index(b, image.index, plan.groups), b.add(b.mul(group, plan.result[0]), channel)]
            for phases, place, line in _result_slices(b, plan, first_slice):
                at = b.gep(framed, scale_index(b, place, frame.slice), type)
                for index, phase in enumerate(phases):
                    plane = b.gep(stage, index * plan.stage.plane, type) if index else stage
                    _write_phase(b, plan, phase, at, own, plane, channels)
                z = add_strided(b, line, first_slice, plan.step.slices)
                first = (z, scale_index(b, first_row, plan.step.rows))
                _finish(b, plan, stage, origin, channels, first, finish)


def _result_slices(b: Builder, plan: ConvolutionPlan, first: Index) -> Iterator[tuple[Sequence[Phase], Index, Index]]:
    """Write the loops over a band's slices: gives each one's phases, its place in the frame and its own number.

    `first`: the first slice of the band.
    """
    step = plan.step.slices
    for at, phases in enumerate(plan.phases):
        left = -((at - plan.result[1]) // step)
        if has_symbols((left, plan.band.slices)):
            with b.loop(0, min_index(b, subtract_index(b, left, first), plan.band.slices)) as place:
                yield phases, place.index, add_strided(b, at, place.index, step)
            continue
        count = min(plan.band.slices, left)
        if count == 1:
            yield phases, 0, at
        elif count > 1:
            with b.loop(0, count) as place:
                yield phases, place.index, add_strided(b, at, place.index, step)


def _write_phase(
    b: Builder, plan: ConvolutionPlan, phase: Phase, framed: Reg, weights: Reg, plane: Reg, channels: int
) -> None:
    """All places of a phase, block by block, into its plane of the stage."""
    type, pitch = plan.type, plan.stage.pitch
    for row, place, vectors in plan.grid.blocks(b, ragged=plan.frame.in_place):
        at = b.gep(framed, add_strided(b, place, row, plan.frame.width), type)
        target = b.gep(plane, add_strided(b, place, row, pitch), type)
        sums = _sum(b, plan, phase, at, weights, channels, vectors)
        for i, total in enumerate(sums):
            channel, v = divmod(i, len(vectors))
            offset = channel * plan.stage.size + vectors[v].row * pitch + vectors[v].place
            b.store(total, b.gep(target, offset, type))


def _sum(
    b: Builder, plan: ConvolutionPlan, phase: Phase, at: Reg, weights: Reg, channels: int, vectors: Sequence[Vector]
) -> Registers:
    """A block's sums: loops over slices and columns of taps, over long columns, over channels."""
    # The plain loop: for channel, input channel, tap, place: sums[channel, place] += weight * image[place + tap].
    # Unrolled: a block of channels by places stays in registers, so that each load of the image serves all channels of
    # the block and each broadcast weight all its places. Taps are written out up to `MAX_UNROLLED_TAPS` of a column.
    type = plan.type
    vector = type.of(plan.grid.lanes)
    zero = b.constant(0.0, vector)
    sums = (zero,) * (channels * len(vectors))

    def add(sums: Registers, at: Reg, weights: Reg, terms: Column) -> Registers:
        new = list(sums)
        for term in terms:
            values = []
            for v in vectors:
                pointer = b.gep(at, term.frame + v.row * plan.frame.width + v.place, type)
                values.append(b.load(pointer, vector, v.filled))
            for channel in range(channels):
                scalar = b.load(b.gep(weights, term.weight + channel * plan.weight[1], type), type)
                spread = b.broadcast(scalar, vector.lanes)
                for i, value in enumerate(values):
                    place = channel * len(vectors) + i
                    new[place] = b.fma(spread, value, new[place])
        return tuple(new)

    def add_channels(sums: Registers, at: Reg, weights: Reg, terms: Column) -> Registers:
        if plan.frame.channels == 1:
            return add(sums, at, weights, terms)
        with b.loop(0, plan.frame.channels, carried=sums) as loop:
            moved = b.gep(at, b.mul(loop.index, plan.frame.channel), type)
            own = b.gep(weights, b.mul(loop.index, plan.weight[2]), type)
            loop.yields(*add(loop.carried, moved, own, terms))
        return loop.results

    def add_each(
        parts: Sequence[Part],
        flat: Sequence[Sequence[Term]],
        sums: Registers,
        at: Reg,
        weights: Reg,
        add: Callable[[Registers, Reg, Reg, Part], Registers],
    ) -> Registers:
        """Add parts one after the other: in a loop if they are `flat` terms a step apart."""
        by = uniform_step(flat)
        if by is None or len(parts) == 1:
            for part in parts:
                sums = add(sums, at, weights, part)
            return sums
        with b.loop(0, len(parts), carried=sums) as loop:
            moved = b.gep(at, b.mul(loop.index, by.frame), type)
            own = b.gep(weights, b.mul(loop.index, by.weight), type)
            loop.yields(*add(loop.carried, moved, own, parts[0]))
        return loop.results

    def add_column(sums: Registers, at: Reg, weights: Reg, terms: Column) -> Registers:
        taps = [(term,) for term in terms]
        if uniform_step(taps) is None or len(terms) <= MAX_UNROLLED_TAPS:
            return add_channels(sums, at, weights, terms)
        return add_each(taps, taps, sums, at, weights, add_channels)

    def add_slice(sums: Registers, at: Reg, weights: Reg, columns: TapSlice) -> Registers:
        return add_each(columns, columns, sums, at, weights, add_column)

    return add_each(phase.slices, [sum(columns, ()) for columns in phase.slices], sums, at, weights, add_slice)


def _finish(
    b: Builder,
    plan: ConvolutionPlan,
    stage: Reg,
    origin: Sequence[Reg],
    channels: int,
    first: tuple[Reg, Index],
    finish: Finish,
) -> None:
    """Read the stage in the order of the result; `first`: the slice that it holds, and its first row there."""
    lanes = plan.grid.lanes
    _, _, height, width = plan.result
    rows: Index = height
    if not is_one(plan.bands[1]):
        rows = plan.band.rows * plan.step.rows
        if has_symbols(plan.bands):
            rows = min_index(b, subtract_index(b, height, first[1]), rows)

    def write(channel: Reg, row: Reg, length: Index) -> None:
        pointer = b.gep(stage, b.mul(channel, plan.stage.size), plan.type)
        outer = [origin[0], b.add(origin[1], channel)]
        index = [first[0], add_index(b, row, first[1])]
        if not plan.apart:
            start = add_strided(b, add_strided(b, 0, index[1], width), index[0], height * width)
        else:
            outer += index[2 - plan.apart :]

        # The stage is read in the order of the result, so that what follows the convolution sees neighbours; two
        # registers at a time hide the latency of the loads.
        def part(place: Reg, vectors: int, mask: Reg | int | None) -> None:
            parts = []
            for v in range(vectors):
                value = plan.stage.read(b, pointer, row, place, v * lanes)
                parts.append(
                    ResultRegister((*(0 for _ in outer), v * lanes), value, mask if v == vectors - 1 else None)
                )
            finish([*outer, add_index(b, start, place) if not plan.apart else place], parts)

        step = REGISTERS_PER_FINISH * lanes
        if isinstance(length, Reg) or is_symbolic_size(length):
            last = as_index(b, length)
            end = b.sub(last, modulo_index(b, last, step))
            with b.loop(0, end, step) as loop:
                part(loop.index, REGISTERS_PER_FINISH, None)
            with b.loop(end, last, lanes) as rest:
                part(rest.index, 1, mask_left(b, last, rest.index, lanes))
            return
        if whole := length - length % step:
            with b.loop(0, whole, step) as loop:
                part(loop.index, REGISTERS_PER_FINISH, None)
        if left := length - whole:
            part(b.constant(whole, I64), -(-left // lanes), left % lanes or None)

    # Without a stride all rows of a channel follow one another: one long line instead of one for each row.
    joined = not plan.apart and plan.step[1:] == (1, 1)
    with b.loop(0, channels) as channel:
        if joined:
            write(channel.index, b.constant(0, I64), scale_index(b, rows, width))
        else:
            with b.loop(0, rows) as row:
                write(channel.index, row.index, width)

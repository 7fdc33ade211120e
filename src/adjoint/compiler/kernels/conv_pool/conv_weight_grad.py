"""The gradient of a convolution's weight: sums over images and places, the lanes of a register over places.

A few images at a time are framed (`frame`). Some of the result's channels by some taps stay in registers while all
places of these images are added up; between images they wait in memory, every lane for itself. A tile owns channels of
the input, or of the result if there are few, and so all of what it finishes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from adjoint.compiler.kernels.conv_pool.blocking import Grid, Split, Vector, count_vector_registers
from adjoint.compiler.kernels.conv_pool.conv_plan import Shape, Term, group_by_column, plane_of, uniform_step
from adjoint.compiler.kernels.conv_pool.padded_image import PaddedImage, plan_padded_image, write_padded_image
from adjoint.compiler.kernels.index_arithmetic import floor_div_index, modulo_index
from adjoint.compiler.kernels.kernel import Finish, ResultRegister
from adjoint.compiler.kernels.matmul.packing import fold_lanes
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I64, Reg, Type

MAX_FRAME_ELEMENTS = 2**16  # elements of frames at a time
MAX_SUM_ELEMENTS = 2**16  # elements of sums that a tile holds
TILE_FLOPS = 2.5e6


class ConvolutionWeightPlan(NamedTuple):
    """The plan of one gradient: which taps are in registers together, and what a tile owns."""

    images: int
    groups: int
    result: tuple[int, int, int, int]  # channels of a group, channels of the input in it, taps
    inputs: int  # elements from image to image of x
    places: int
    type: Type
    frame: PaddedImage  # of the channels of one turn
    columns: tuple[tuple[Term, ...], ...]
    grid: Grid
    outward: Split  # a turn's channels of the result, in blocks
    turns: tuple[int, int]  # how often a tile turns to other channels: of the result, of all inputs
    per_tile: int  # turns
    batch: int  # images framed together
    flat: bool
    rank: int
    reason: str

    @property
    def tiles(self) -> int:
        return -(-self.turns[0] * self.turns[1] // self.per_tile)

    @property
    def sums(self) -> int:
        """Registers in which a turn's sums wait."""
        return self.outward.size * self.frame.channels * self.result[2] * self.result[3]

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
    """The plan of `convolution_weight`, None for three spatial dimensions and where there is nothing to sum.

    `flat`: the result is (O, all others), not (O, C, KH, KW).
    """
    if len(x) > 4 or 0 in x or 0 in g or 0 in shape:
        return None
    image, places, taps = plane_of(x[2:], 1), plane_of(g[2:], 1), plane_of(shape[2:], 1)
    steps, before, gaps = plane_of(stride, 1), plane_of(padding, 0), plane_of(dilation, 1)
    lanes = target.lanes(type)
    starts = {
        (i, j): (i * gaps[0] - before[0], j * gaps[1] - before[1]) for i in range(taps[0]) for j in range(taps[1])
    }
    seen = sorted(starts.values())
    outward, inward = shape[0] // groups, shape[1]
    best: tuple[float, PaddedImage, Grid] | None = None
    for dense in (False, True):
        frame = plan_padded_image(image, 1, places, steps, seen, dense)
        joined = frame.width == places[1]
        grid = Grid(1, places[0] * places[1], lanes, 1) if joined else Grid(*places, lanes, 1)
        cost = grid.rows * grid.in_row * len(seen) * outward / 1.4
        if not frame.in_place:
            cost += frame.rows * len(frame.planes) * -(-frame.width // lanes) * 5.0
        if best is None or cost < best[0]:
            best = (cost, frame, grid)
    assert best is not None
    _, frame, grid = best
    # A turn's sums and frames are to stay in the cache, and its channels to be shared among tiles.
    window = taps[0] * taps[1]
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
    flops = 2.0 * x[0] * places[0] * places[1] * block * turn * window
    if turn == inward and groups == 1:
        block = _largest_divisor(
            outward, lambda n: n <= block and (n * 4 <= outward or flops * n / block < 2 * TILE_FLOPS)
        )
        flops = 2.0 * x[0] * places[0] * places[1] * block * turn * window
    turns = (outward // block, groups * inward // turn)
    batch = max(1, min(x[0], MAX_FRAME_ELEMENTS // max(frame.size(lanes), 1), -(-96 // (grid.rows * grid.in_row))))
    columns = group_by_column(starts, dict(zip(seen, frame.offsets, strict=True)), taps)
    most = count_vector_registers(target) - 1
    together = len(columns[0])
    if block < 4 and window <= 12:
        columns = (tuple(term for column in columns for term in column),)
        together = window
    held = max(1, min(block, (most - 1) // (together + 1)))
    split = Split(block, -(-block // held))
    kind = "in place" if frame.in_place else f"through frames of {len(frame.planes)} planes"
    reason = f"direct, {split.largest} channels by {together} taps in registers, images read {kind}"
    return ConvolutionWeightPlan(
        x[0], groups, (outward, inward, taps[0], taps[1]), x[1] * image[0] * image[1], places[0] * places[1], type,
        frame, columns, grid, split, turns, max(1, min(turns[0] * turns[1], round(TILE_FLOPS / flops))), batch, flat,
        len(x) - 2, reason,
    )  # fmt: skip


def write_convolution_weight(
    b: Builder, plan: ConvolutionWeightPlan, x: Reg, g: Reg, scratch: Reg, tile: Reg, finish: Finish
) -> None:
    """The part of the result that one tile owns, given to `finish`; `scratch` is the calling thread's own."""
    type, lanes = plan.type, plan.grid.lanes
    vector = type.of(lanes)
    frame = plan.frame
    channel = frame.image[0] * frame.image[1]
    outward, inward = plan.result[:2]
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
        theirs = b.gep(g, b.mul(first, plan.places), type)
        with b.loop(0, plan.images, plan.batch) as batch:
            here = b.gep(own, b.mul(batch.index, plan.inputs), type)
            there = b.gep(theirs, b.mul(batch.index, plan.groups * outward * plan.places), type)
            count: Reg | int = plan.batch
            if plan.images % plan.batch:
                count = b.minimum(b.sub(plan.images, batch.index), plan.batch)
            if not frame.in_place:
                with b.loop(0, count) as image:
                    source = b.gep(here, b.mul(image.index, plan.inputs), type)
                    memory = b.gep(scratch, b.mul(image.index, frame.size(lanes)), type)
                    write_padded_image(b, frame, source, memory, vector, 0)
            _add(b, plan, here if frame.in_place else scratch, there, waiting, count)
        _finish(b, plan, waiting, first, modulo_index(b, inner, inward), finish)


def _add(b: Builder, plan: ConvolutionWeightPlan, frames: Reg, g: Reg, waiting: Reg, count: Reg | int) -> None:
    """The sums over a batch's images and places, added to those that wait."""
    type, lanes = plan.type, plan.grid.lanes
    frame = plan.frame
    window = plan.result[2] * plan.result[3]
    by = uniform_step(plan.columns)
    for start, size in plan.outward.blocks(b, 0, plan.outward.number):
        mine = b.gep(g, b.mul(start, plan.places), type)
        sums_of = b.gep(waiting, b.mul(start, frame.channels * window * lanes), type)
        with b.loop(0, frame.channels) as channel:
            seen = b.gep(frames, b.mul(channel.index, frame.channel), type)
            sums_at = b.gep(sums_of, b.mul(channel.index, window * lanes), type)
            if by is None or len(plan.columns) == 1:
                for terms in plan.columns:
                    _add_column(b, plan, seen, mine, sums_at, terms, size, count)
                continue
            with b.loop(0, len(plan.columns)) as column:
                moved = b.gep(seen, b.mul(column.index, by.frame), type)
                target = b.gep(sums_at, b.mul(column.index, by.weight * lanes), type)
                _add_column(b, plan, moved, mine, target, plan.columns[0], size, count)


def _add_column(
    b: Builder,
    plan: ConvolutionWeightPlan,
    seen: Reg,
    g: Reg,
    waiting: Reg,
    terms: Sequence[Term],
    size: int,
    count: Reg | int,
) -> None:
    # The plain loop: for image, place, channel, tap: sums[channel, tap] += g[channel, place] * image[place + tap].
    # Unrolled: `size` channels by all taps of the column stay in registers while images and places pass by. A register
    # holds one sum for each lane, which `_finish` adds up.
    type, lanes = plan.type, plan.grid.lanes
    vector = type.of(lanes)
    stride = plan.frame.channels * plan.result[2] * plan.result[3] * lanes
    places = [b.gep(waiting, channel * stride + term.weight * lanes, type) for channel in range(size) for term in terms]

    def add(sums: tuple[Reg, ...], g: Reg, seen: Reg, inside: Vector) -> tuple[Reg, ...]:
        # Both under the mask: 0 times what lies beyond need not be 0.
        given = [b.load(b.gep(g, channel * plan.places, type), vector, inside.filled) for channel in range(size)]
        new = list(sums)
        for i, term in enumerate(terms):
            value = b.load(b.gep(seen, term.frame, type), vector, inside.filled)
            for channel in range(size):
                at = channel * len(terms) + i
                new[at] = b.fma(given[channel], value, new[at])
        return tuple(new)

    from_image = plan.inputs if plan.frame.in_place else plan.frame.size(lanes)
    with b.loop(0, count, carried=[b.load(place, vector) for place in places]) as image:
        theirs = b.gep(g, b.mul(image.index, plan.groups * plan.result[0] * plan.places), type)
        ours = b.gep(seen, b.mul(image.index, from_image), type)
        with b.loop(0, plan.grid.rows, carried=image.carried) as row:
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
        image.yields(*row.results)
    for place, total in zip(places, image.results, strict=True):
        b.store(total, place)


def _finish(b: Builder, plan: ConvolutionWeightPlan, waiting: Reg, first: Reg, inner: Reg, finish: Finish) -> None:
    """The lanes of all sums added up, and the results in order."""
    type, lanes = plan.type, plan.grid.lanes
    window = plan.result[2] * plan.result[3]
    held = plan.frame.channels * window

    def part(index: Reg, origin: Sequence[Reg], mask: int | None) -> None:
        pointer = b.gep(waiting, b.mul(index, lanes), type)
        rows = [b.load(b.gep(pointer, lane * lanes, type), type.of(lanes)) for lane in range(lanes)]
        finish(origin, [ResultRegister((0,) * len(origin), fold_lanes(b, rows), mask)])

    with b.loop(0, plan.outward.size) as outer:
        channel = b.add(first, outer.index)
        before = b.mul(outer.index, held)
        if plan.flat:
            start = b.mul(inner, window)
            if whole := held - held % lanes:
                with b.loop(0, whole, lanes) as loop:
                    part(b.add(before, loop.index), [channel, b.add(start, loop.index)], None)
            if held - whole:
                part(b.add(before, whole), [channel, b.add(start, whole)], held - whole)
            return
        width = plan.result[3]
        with b.loop(0, plan.frame.channels * plan.result[2]) as line:
            input = b.add(inner, floor_div_index(b, line.index, plan.result[2]))
            row = [modulo_index(b, line.index, plan.result[2])] if plan.rank == 2 else []
            for column in range(0, width, lanes):
                at = b.add(b.add(before, b.mul(line.index, width)), column)
                part(at, [channel, input, *row, b.constant(column, I64)], min(lanes, width - column))


def _largest_divisor(size: int, fits: Callable[[int], bool]) -> int:
    """The largest divisor of `size` that fits, 1 if none does."""
    return next((n for n in range(size, 0, -1) if size % n == 0 and fits(n)), 1)

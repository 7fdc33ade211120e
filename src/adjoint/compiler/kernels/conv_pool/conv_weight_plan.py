"""The plan of the gradient of a convolution's weight: what is in registers, what a tile owns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import has_symbols, is_symbolic_size, size_value
from adjoint.compiler.kernels.conv_pool.blocking import Grid, Split, count_cycles
from adjoint.compiler.kernels.conv_pool.conv_plan import (
    Column,
    TapSlice,
    Term,
    choose_density,
    group_taps,
)
from adjoint.compiler.kernels.conv_pool.padded_image import PaddedImage, plan_padded_image
from adjoint.compiler.kernels.conv_pool.window_geometry import (
    ConvolutionSettings,
    Shape,
    Triple,
    iterate_places,
)
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Type

MAX_FRAME_ELEMENTS = 2**16  # elements of frames at a time
MAX_SUM_ELEMENTS = 2**16  # elements of sums that a tile holds
TILE_FLOPS = 2.5e6
FRAME_CYCLES, TURN_CYCLES = 5.0, 6.0  # for each register that is framed, and turned
FOLD_CYCLES = 5.0  # for each sum, whose lanes are added up
USUAL_IMAGES, FEWEST_TERMS = 16, 3
MEASURED_SHARE = 0.85  # of the speed with lanes that are channels, without what is counted
MIN_BATCH_REGISTERS = 96  # of places, for which images are framed together


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
    is_short: bool = False  # for calls in which the places of an image are a register
    by_channel: bool = False  # whether the lanes of a register are channels of the input, not places

    @property
    def tiles(self) -> int:
        return -(-self.turns[0] * self.turns[1] // self.per_tile)

    @property
    def pitch(self) -> int:
        """Elements from one place of a frame to the next."""
        return -(-self.frame.channels // self.grid.lanes) * self.grid.lanes if self.by_channel else 1

    @property
    def channels(self) -> int:
        """Channels of the input in a turn, or registers of them."""
        return self.pitch // self.grid.lanes if self.by_channel else self.frame.channels

    @property
    def channel(self) -> int:
        """Elements of a frame from one of them to the next."""
        return self.grid.lanes if self.by_channel else self.frame.channel

    @property
    def sums(self) -> int:
        """Registers in which a turn's sums wait."""
        return self.outward.size * self.channels * self.taps.size

    @property
    def frame_size(self) -> int:
        """Elements of the frame of one image."""
        return self.frame.channel * self.pitch if self.by_channel else self.frame.size(self.grid.lanes)

    @property
    def source_frame_size(self) -> int:
        """Elements before all frames, in which one lies channel by channel."""
        return self.frame.size(self.grid.lanes) if self.by_channel else 0

    @property
    def frame_elements(self) -> int:
        """Elements of memory for the frames."""
        return self.source_frame_size + self.frame_size * self.batch

    @property
    def scratch(self) -> int:
        """Bytes for each thread."""
        elements = self.frame_elements + (self.sums + self.grid.lanes) * self.grid.lanes
        return -(-elements * self.type.itemsize // 64) * 64


def plan_convolution_weight(
    x: Shape, g: Shape, shape: Shape, settings: ConvolutionSettings
) -> ConvolutionWeightPlan | None:
    """The plan of `convolution_weight`, None where there is nothing to sum: (O, all others) if flat, or (O, C, K…)."""
    if 0 in x or 0 in g or 0 in shape:
        return None
    _, _, _, groups, type, target, flat = settings
    image, places, taps, steps, before, gaps = settings.sweep(x[2:], g[2:], shape[2:])
    lanes = settings.lanes
    starts = {
        tap: Triple(*(i * d - p for i, d, p in zip(tap, gaps, before, strict=True))) for tap in iterate_places(taps)
    }
    seen = sorted(starts.values())
    outward, inward = shape[0] // groups, shape[1]
    window = taps.size
    images = size_value(x[0])
    frame, grid = _choose_frame(image, places, steps, seen, outward, lanes, False)
    terms = 2.0 * images * size_value(places.size) * window
    block, turn = _choose_channels(outward, inward, groups, frame, lanes, terms, window)
    by_channel = False
    if flat and not has_symbols((image, places)):
        turned = _choose_frame(image, places, steps, seen, outward, lanes, True)
        sizes = _choose_turn(outward, inward, groups, turned[0], lanes, terms)
        by_channel = _is_faster_by_channel(turned[0], sizes[0], inward, grid, places, taps, target)
        if by_channel:
            frame, grid, block, turn = *turned, *sizes
    frame = frame._replace(channels=turn)
    flops = 2.0 * images * size_value(places.size) * block * turn * window
    turns = (outward // block, groups * inward // turn)
    plan = ConvolutionWeightPlan(
        x[0], groups, (outward, inward), taps, x[1] * image.size, places, type, frame, (), 1, grid, Split(block, 1),
        turns, max(1, min(turns[0] * turns[1], round(TILE_FLOPS / target.slowdown / flops))), 1,
        0 if flat else len(x) - 2, "", by_channel=by_channel,
    )  # fmt: skip
    registers = places.slices * grid.rows * (grid.length if by_channel else grid.in_row)
    batch = 1 + (MIN_BATCH_REGISTERS - 1) // registers
    if not is_symbolic_size(registers):
        batch = max(1, min(images, MAX_FRAME_ELEMENTS // max(plan.frame_size, 1), batch))
    offsets = [offset * plan.pitch for offset in frame.offsets]
    slices = group_taps(starts, dict(zip(seen, offsets, strict=True)), taps)
    slices, together, held = _choose_registers(slices, plan, block, target.vector_registers - 1)
    # Blocks of one size are one body to compile: a few sums less in registers are worth that.
    held = next((n for n in range(held, 3 * held // 4, -1) if block % n == 0), held)
    split = Split(block, -(-block // held))
    kind = "in place" if frame.in_place else f"through frames of {len(frame.planes)} planes"
    along = ", lanes along channels" if by_channel else ""
    reason = f"direct, {split.largest} channels by {len(slices[0][0])} taps in registers{along}, images read {kind}"
    return plan._replace(slices=slices, together=together, outward=split, batch=batch, reason=reason)


def _is_faster_by_channel(
    turned: PaddedImage, block: int, inward: int, grid: Grid, places: Triple, taps: Triple, target: Target
) -> bool:
    """True if lanes that are channels of the input take less time than those that are places, which `grid` counts.

    Times are those of one product, where all lanes are full and nothing else is to be done. The number of images has no
    part in it: kernels that serve any number of them give the same bits.
    """
    lanes, registers = grid.lanes, places.slices * grid.rows * grid.in_row
    full = registers * lanes / places.size
    of_channels, of_places = (_count_product_cycles(taps, target, by_channel) for by_channel in (True, False))
    by_place = of_places * (full + FOLD_CYCLES * 2 * lanes / (USUAL_IMAGES * places.size)) / MEASURED_SHARE
    filled = -(-inward // lanes) * lanes / inward
    turning = (TURN_CYCLES if turned.in_place else TURN_CYCLES + FRAME_CYCLES) * 2 * turned.channel
    return of_channels * filled * (1 + turning / (block * taps.size * places.size)) < by_place


def _count_product_cycles(taps: Triple, target: Target, by_channel: bool) -> float:
    """Return the cycles for each product of a column of taps, or of all in a slice, whichever take fewer."""
    best = 1.0
    for terms in (max(taps.rows, FEWEST_TERMS), max(taps.rows * taps.columns, FEWEST_TERMS)):
        held = _most_held(terms, target.vector_registers - 1, by_channel)
        if held > 0:
            best = min(best, count_cycles(held, terms) / (held * terms))
    return best


def _most_held(terms: int, registers: int, by_channel: bool) -> int:
    """Return how many channels of the result registers have room for, with so many terms of each.

    Where lanes are channels, a number that is spread over them serves all terms, and then is not held.
    """
    return (registers - 1 - terms) // terms if by_channel else (registers - 1) // (terms + 1)


def _choose_frame(
    image: Triple, places: Triple, steps: Triple, seen: list[Triple], outward: int, lanes: int, by_channel: bool
) -> tuple[PaddedImage, Grid]:
    """The frame that takes the least time, with the registers of its places."""
    best: tuple[float, PaddedImage, Grid] | None = None
    for dense in (False,) if by_channel else choose_density(places):
        frame = plan_padded_image(image, 1, places, steps, seen, dense, places)
        joined = frame.width == places.columns
        grid = Grid(1, places.rows * places.columns, lanes, 1) if joined else Grid(*places[1:], lanes, 1)
        cost = size_value(places.slices * grid.rows * grid.in_row) * len(seen) * outward / 1.4
        if not frame.in_place:
            cost += size_value(frame.slices * frame.rows * len(frame.planes) * -(-frame.width // lanes)) * 5.0
        if best is None or cost < best[0]:
            best = (cost, frame, grid)
    assert best is not None
    return best[1], best[2]


def _choose_channels(
    outward: int, inward: int, groups: int, frame: PaddedImage, lanes: int, terms: float, window: int
) -> tuple[int, int]:
    """The channels of a turn, of the result and of the input, where lanes are places; `terms`: flops of a weight."""
    # A turn's sums and frames are to stay in the cache, and its channels to be shared among tiles.
    frame_size = size_value(frame.size(lanes))
    block = _largest_divisor(outward, lambda n: n * window * lanes <= MAX_SUM_ELEMENTS)
    turn = _largest_divisor(
        inward,
        lambda n: (
            block * n * window * lanes <= MAX_SUM_ELEMENTS
            and n * frame_size <= MAX_FRAME_ELEMENTS
            and (n * 8 <= inward or n == 1)
        ),
    )
    flops = terms * block * turn
    if turn == inward and groups == 1:
        block = _largest_divisor(
            outward, lambda n: n <= block and (n * 4 <= outward or flops * n / block < 2 * TILE_FLOPS)
        )
    return block, turn


def _choose_turn(
    outward: int, inward: int, groups: int, frame: PaddedImage, lanes: int, terms: float
) -> tuple[int, int]:
    """The same where lanes are channels of the input: a register of these, or all if they are not a multiple of it.

    A frame is turned for each block of the result's channels again: two tiles are worth that, and more of them if the
    blocks stay large.
    """
    turn = lanes if inward % lanes == 0 else inward
    while inward % (2 * turn) == 0 and terms * outward * turn < TILE_FLOPS and 2 * turn * frame.channel < 2**15:
        turn *= 2
    tiles = groups * inward // turn
    block = outward
    while block % 2 == 0 and terms * block * turn > 2 * TILE_FLOPS and tiles * outward // block < 8:
        if tiles * outward // block >= 2 and block <= 4 * lanes:
            break
        block //= 2
    return block, turn


def _choose_registers(
    slices: tuple[TapSlice, ...], plan: ConvolutionWeightPlan, block: int, registers: int
) -> tuple[tuple[TapSlice, ...], int, int]:
    """The terms that are in registers together, of how many channels of the input, and channels of the result.

    A column of taps, or all of a slice, of one channel or of several: whatever takes the fewest cycles for a product.
    """
    best: tuple[float, tuple[TapSlice, ...], int, int] | None = None
    joined = tuple((sum(columns, ()),) for columns in slices)
    for grouping in dict.fromkeys((slices, joined)):
        for inputs in (n for n in range(1, min(plan.channels, registers) + 1) if plan.channels % n == 0):
            terms = max(len(column) for columns in grouping for column in columns) * inputs
            held = min(block, _most_held(terms, registers, plan.by_channel))
            if held < 1 and best is not None:
                continue
            cost = count_cycles(max(held, 1), terms) / (max(held, 1) * terms)
            if best is None or cost < best[0]:
                best = cost, grouping, inputs, max(held, 1)
    assert best is not None
    _, slices, inputs, held = best
    ahead = [Term(i * plan.channel, i * plan.taps.size) for i in range(inputs)]

    def widen(column: Column) -> Column:
        return tuple(Term(t.frame + by.frame, t.weight + by.weight) for by in ahead for t in column)

    return tuple(tuple(map(widen, columns)) for columns in slices), inputs, held


def _largest_divisor(size: int, fits: Callable[[int], bool]) -> int:
    """The largest divisor of `size` that fits, 1 if none does."""
    return next((n for n in range(size, 0, -1) if size % n == 0 and fits(n)), 1)

"""The plan of the gradient of a convolution's weight: what is in registers, what a tile owns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_symbolic_size, size_value
from adjoint.compiler.kernels.conv_pool.blocking import Grid, Split, count_cycles
from adjoint.compiler.kernels.conv_pool.conv_plan import (
    Column,
    TapSlice,
    Term,
    choose_density,
    group_taps,
    sweep_of,
)
from adjoint.compiler.kernels.conv_pool.padded_image import PaddedImage, plan_padded_image
from adjoint.compiler.kernels.conv_pool.window_geometry import Shape, Triple, iterate_places
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Type

MAX_FRAME_ELEMENTS = 2**16  # elements of frames at a time
MAX_SUM_ELEMENTS = 2**16  # elements of sums that a tile holds
TILE_FLOPS = 2.5e6
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
    for dense in choose_density(places):
        frame = plan_padded_image(image, 1, places, steps, seen, dense, places)
        joined = frame.width == places.columns
        grid = Grid(1, places.rows * places.columns, lanes, 1) if joined else Grid(*places[1:], lanes, 1)
        cost = size_value(places.slices * grid.rows * grid.in_row) * len(seen) * outward / 1.4
        if not frame.in_place:
            cost += size_value(frame.slices * frame.rows * len(frame.planes) * -(-frame.width // lanes)) * 5.0
        if best is None or cost < best[0]:
            best = (cost, frame, grid)
    assert best is not None
    _, frame, grid = best
    # A turn's sums and frames are to stay in the cache, and its channels to be shared among tiles.
    window = taps.size
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
    frame = frame._replace(channels=turn)
    images = size_value(x[0])
    flops = 2.0 * images * size_value(places.size) * block * turn * window
    if turn == inward and groups == 1:
        block = _largest_divisor(
            outward, lambda n: n <= block and (n * 4 <= outward or flops * n / block < 2 * TILE_FLOPS)
        )
        flops = 2.0 * images * size_value(places.size) * block * turn * window
    turns = (outward // block, groups * inward // turn)
    registers = places.slices * grid.rows * grid.in_row
    batch = 1 + (MIN_BATCH_REGISTERS - 1) // registers
    if not is_symbolic_size(registers):
        batch = max(1, min(images, MAX_FRAME_ELEMENTS // max(frame.size(lanes), 1), batch))
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


def _largest_divisor(size: int, fits: Callable[[int], bool]) -> int:
    """The largest divisor of `size` that fits, 1 if none does."""
    return next((n for n in range(size, 0, -1) if size % n == 0 and fits(n)), 1)

"""The plan of a direct convolution: which phases it has, how an image is framed, how the work is cut.

The gradient of the input is a convolution of g. With a stride, elements of the result that lie at different places
between two strides see different taps: each of these phases is a convolution of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import has_symbols, is_known_less, is_symbolic_size, size_value
from adjoint.compiler.kernels.conv_pool.blocking import Grid, Split, choose_blocking
from adjoint.compiler.kernels.conv_pool.padded_image import PaddedImage, plan_padded_image
from adjoint.compiler.kernels.conv_pool.staging import Pair, Stage
from adjoint.compiler.kernels.conv_pool.window_geometry import (
    ConvolutionSettings,
    Shape,
    Triple,
    iterate_places,
)
from adjoint.compiler.kernels.index_arithmetic import is_one, is_zero
from adjoint.compiler.llvm.types import Type

FEW_TILES = 8  # enough to share among threads
TILE_FLOPS = 2.5e6  # of a tile at least: about 25 µs with 512-bit registers
MAX_BAND_ELEMENTS = 2**16  # elements of a frame, above which an image goes by bands of slices or rows


class Term(NamedTuple):
    """One tap: where its elements are in the frame, and its weight among a pair of channels' weights."""

    frame: int
    weight: int


Column = tuple[Term, ...]
TapSlice = tuple[Column, ...]


class Phase(NamedTuple):
    """Elements of the result that see the same taps, by slices and columns of taps.

    `offset`: the row and the column of these elements between two strides.
    """

    offset: Pair
    slices: tuple[TapSlice, ...]


class ConvolutionPlan(NamedTuple):
    """The plan of one convolution. Weights lie `weight` = (group, result's channel, summed channel) apart."""

    images: int  # of all groups
    groups: int
    result: tuple[int, int, int, int]  # channels of a group, slices, rows, columns
    type: Type
    frame: PaddedImage
    phases: tuple[tuple[Phase, ...], ...]  # those of each slice between two strides
    step: Triple  # element place * step + at of the result is that of a place in phase `at`
    places: Triple  # of a phase
    grid: Grid
    channels: Split
    weight: tuple[int, int, int]
    per_tile: int  # images
    chunks: int  # of the channels' blocks
    bands: Pair  # of slices, of rows
    band: Triple  # places of a band; where sizes are symbols, the last one may have fewer
    apart: int  # dimensions before the last of an image that the result keeps apart: 0 if it is flat
    reason: str
    cycles: float  # that it is thought to take for an image

    @property
    def tiles(self) -> int:
        return -(-self.images // self.per_tile) * self.chunks * self.bands[0] * self.bands[1]

    @property
    def stage(self) -> Stage:
        """The part of the stage that holds one slice of the results of one channel.

        Rows follow each other without a gap. A row's last register covers the beginning of the next row, which is
        written later.
        """
        lanes, pitch = self.grid.lanes, self.places.columns
        rows = self.band.rows
        plane = (-(-rows * pitch // lanes) + 1) * lanes
        columns = tuple(((i, 0),) for i in range(self.step.columns))
        return Stage(self.type, lanes, self.step[1:], (0, 0), pitch, plane, self.result[3], columns)

    @property
    def scratch(self) -> int:
        """Bytes for each thread."""
        lanes = self.grid.lanes
        elements = self.frame.size(lanes) + self.channels.largest * self.stage.size + 2 * lanes
        return -(-elements * self.type.itemsize // 64) * 64


def plan_convolution(x: Shape, weight: Shape, settings: ConvolutionSettings) -> ConvolutionPlan | None:
    """The plan of `convolution`, None for empty results: (N, O, places) if it is flat, or (N, O, D…)."""
    if 0 in x or 0 in weight:
        return None
    counts, groups = settings.count_places(x[2:], weight[2:]), settings.groups
    if any(is_known_less(n, 1) for n in counts):
        return None
    image, places, taps, steps, before, gaps = settings.sweep(x[2:], counts, weight[2:])
    starts = {
        tap: Triple(*(i * d - p for i, d, p in zip(tap, gaps, before, strict=True))) for tap in iterate_places(taps)
    }
    outward, window = weight[0] // groups, taps.size
    return _plan(
        x[0] * groups, groups, image, weight[1], (outward, *places), [[((0, 0), starts)]], places, steps,
        Triple(1, 1, 1), taps, (outward * weight[1] * window, weight[1] * window, window), settings,
    )  # fmt: skip


def plan_convolution_input(
    g: Shape, weight: Shape, shape: Shape, settings: ConvolutionSettings
) -> ConvolutionPlan | None:
    """The plan of `convolution_input`, which `write_convolution` writes too: its image is g."""
    if 0 in g or 0 in weight or 0 in shape:
        return None
    groups = settings.groups
    result, image, taps, steps, before, gaps = settings.sweep(shape[2:], g[2:], weight[2:])
    places = Triple(*(-(-n // s) for n, s in zip(result, steps, strict=True)))
    phases: list[list[tuple[Pair, dict[Triple, Triple]]]] = []
    for place in iterate_places(steps):
        if place.rows == place.columns == 0:
            phases.append([])
        starts = {}
        for tap in iterate_places(taps):
            ahead = [at + p - i * d for at, p, i, d in zip(place, before, tap, gaps, strict=True)]
            if all(a % s == 0 for a, s in zip(ahead, steps, strict=True)):
                starts[tap] = Triple(*(a // s for a, s in zip(ahead, steps, strict=True)))
        phases[-1].append(((place.rows, place.columns), starts))
    outward, window = weight[0] // groups, taps.size
    return _plan(
        g[0] * groups, groups, image, outward, (weight[1], *result), phases, places, Triple(1, 1, 1),
        steps, taps, (outward * weight[1] * window, window, weight[1] * window), settings,
    )  # fmt: skip


def _plan(
    images: int, groups: int, image: Triple, channels: int, result: tuple[int, ...],
    phases: Sequence[Sequence[tuple[Pair, dict[Triple, Triple]]]], places: Triple, stride: Triple, step: Triple,
    taps: Triple, weight: tuple[int, int, int], settings: ConvolutionSettings,
) -> ConvolutionPlan:  # fmt: skip
    """The cheapest plan: frames whose rows are dense, or not."""
    type, target = settings.type, settings.target
    apart = 0 if settings.flat else len(settings.stride) - 1
    seen = [starts for each in phases for _, starts in each]
    starts = sorted({start for each in seen for start in each.values()})
    lanes = target.lanes(type)
    terms = sum(map(len, seen)) * channels
    best = None
    for dense in choose_density(places):
        whole = plan_padded_image(image, channels, places, stride, starts, dense, places)
        for division in _divisions(places, result, step, whole, lanes):
            bands, part = division
            frame = plan_padded_image(image, channels, part, stride, starts, dense, places)
            if has_symbols(part) or max(frame.size(lanes), 8 * part.rows * part.columns) <= MAX_BAND_ELEMENTS:
                break
        joined = frame.width == part.columns
        rows, length = (1, part.rows * part.columns) if joined else (part.rows, part.columns)
        cost, grid, split = choose_blocking(rows, length, result[0], type, target)
        copied = 0.0
        if not frame.in_place:
            registers = frame.slices * frame.rows * len(frame.planes) * -(-frame.width // lanes)
            copied = channels * size_value(registers) * 4.0
        total = (cost * terms * size_value(part.slices) + copied) * size_value(bands[0] * bands[1])
        if best is None or total < best[0]:
            best = (total, bands, part, frame, grid, split)
    assert best is not None
    cycles, bands, part, frame, grid, split = best
    by_start = dict(zip(starts, frame.offsets, strict=True))
    made = tuple(tuple(Phase(at, group_taps(each, by_start, taps)) for at, each in several) for several in phases)
    number = size_value(bands[0] * bands[1])
    flops = 2 * result[0] * channels * places.size * sum(map(len, seen))
    enough = TILE_FLOPS / target.slowdown
    count = size_value(images)  # how images are shared among tiles changes no bit
    if is_symbolic_size(flops):
        per_tile = 1 + int(enough) // flops
    else:
        per_tile = min(count, max(1, round(enough * number / flops)))
    # Each chunk of channels frames its image again: no more of them than make a few tiles for each thread.
    chunks = min(split.number, -(-FEW_TILES // (count * number)), max(1, int(size_value(flops) / number / enough / 2)))
    kind = "in place" if frame.in_place else f"through a frame of {len(frame.planes)} planes"
    reason = f"direct, {split.largest} channels by {grid.vectors} vectors in registers, images read {kind}"
    return ConvolutionPlan(
        images, groups, (result[0], result[1], result[2], result[3]), type, frame, made, step, places,
        grid, split, weight, per_tile, chunks, bands, part, apart, reason, cycles,
    )  # fmt: skip


def choose_density(places: Triple) -> tuple[bool, ...]:
    """Return the frames to try, False for rows with gaps and True for dense ones: a symbolic length needs one line."""
    return (not is_one(places.rows),) if has_symbols(places[1:]) else (False, True)


def _divisions(
    places: Triple, result: Sequence[int], step: Triple, frame: PaddedImage, lanes: int
) -> Iterator[tuple[Pair, Triple]]:
    """Numbers of bands and their places, the largest bands first: of slices, then of rows of one slice.

    Bands are of equal size. So a dimension in which phases have different numbers of places is not divided.
    """
    if has_symbols(places):
        yield _divide_symbolic(places, frame, lanes)
        return
    slices, rows = (n if n * s == size else 1 for n, s, size in zip(places, step, result[1:3], strict=False))
    for n in (n for n in range(1, slices + 1) if slices % n == 0):
        yield (n, 1), places._replace(slices=places.slices // n)
    if slices == places.slices:
        for n in (n for n in range(2, rows + 1) if rows % n == 0):
            yield (slices, n), Triple(1, places.rows // n, places.columns)


def _divide_symbolic(places: Triple, frame: PaddedImage, lanes: int) -> tuple[Pair, Triple]:
    """The bands of an image whose size is a symbol: of slices, or of rows if there is one slice."""
    staged = 8 * places.rows * places.columns
    elements = frame.size(lanes)
    at = int(is_one(places.slices))
    if at and (frame.in_place or frame.channels * len(frame.planes) < 8):
        elements = staged
    size = places[at]
    if is_one(size) or is_zero(elements):
        return (1, 1), places
    number = 1 + elements // MAX_BAND_ELEMENTS
    each = (size + number - 1) // number
    number = (size + each - 1) // each
    return ((1, number), places._replace(rows=each)) if at else ((number, 1), places._replace(slices=each))


def group_taps(seen: Mapping[Triple, Triple], offsets: Mapping[Triple, int], taps: Triple) -> tuple[TapSlice, ...]:
    """A phase's taps by slices and columns, in the order of the weights."""
    slices: dict[int, dict[int, list[Term]]] = {}
    for tap, start in sorted(seen.items()):
        weight = (tap.slices * taps.rows + tap.rows) * taps.columns + tap.columns
        columns = slices.setdefault(tap.slices, {})
        columns.setdefault(tap.columns, []).append(Term(offsets[start], weight))
    return tuple(tuple(tuple(column) for _, column in sorted(columns.items())) for columns in slices.values())


def uniform_step(columns: Sequence[Sequence[Term]]) -> Term | None:
    """The step from each column to the next, None if they differ."""
    steps = {
        tuple(Term(t.frame - s.frame, t.weight - s.weight) for s, t in zip(left, right, strict=True))
        for left, right in pairwise(columns)
    }
    step = {term for terms in steps for term in terms}
    return step.pop() if len(step) == 1 else None

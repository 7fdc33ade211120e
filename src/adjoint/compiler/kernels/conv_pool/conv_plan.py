"""The plan of a direct convolution: which phases it has, how an image is framed, how the work is cut.

The gradient of the input is a convolution of g. With a stride, elements of the result that lie at different places
between two strides see different taps: each of these phases is a convolution of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from adjoint.compiler.kernels.conv_pool.blocking import Grid, Split, choose_blocking
from adjoint.compiler.kernels.conv_pool.padded_image import PaddedImage, plan_padded_image
from adjoint.compiler.kernels.conv_pool.staging import Pair, Stage
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Type

Shape = tuple[int, ...]

TILE_FLOPS = 2.5e6  # of a tile at least: about 25 µs
MAX_BAND_ELEMENTS = 2**17  # elements of a frame, above which an image goes by bands of rows


class Term(NamedTuple):
    """One tap: where its elements are in the frame, and its weight among a pair of channels' weights."""

    frame: int
    weight: int


class Phase(NamedTuple):
    """Elements of the result that see the same taps, by columns of taps; `offset`: their place between two strides."""

    offset: Pair
    columns: tuple[tuple[Term, ...], ...]


class ConvolutionPlan(NamedTuple):
    """The plan of one convolution. Weights lie `weight` = (group, result's channel, summed channel) apart."""

    images: int  # of all groups
    groups: int
    result: tuple[int, int, int]  # channels of a group, rows, columns
    type: Type
    frame: PaddedImage
    phases: tuple[Phase, ...]
    lattice: Pair  # where a phase begins: an element y of the result is y + shift = place * step + at
    step: Pair
    shift: Pair
    places: int  # in a row of a phase
    grid: Grid
    channels: Split
    weight: tuple[int, int, int]
    per_tile: int  # images
    chunks: int  # of the channels' blocks
    bands: int  # of rows
    flat: bool
    rank: int
    reason: str

    @property
    def tiles(self) -> int:
        return -(-self.images // self.per_tile) * self.chunks * self.bands

    @property
    def pitch(self) -> int:
        """Elements from row to row of the stage."""
        return -(-self.grid.length // self.grid.lanes) * self.grid.lanes

    @property
    def stage(self) -> Stage:
        """The part of the stage that holds the results of one channel."""
        dense = self.grid.rows == 1  # rows follow each other without a gap
        pitch = self.places if dense else self.pitch
        plane = self.pitch * self.grid.rows
        grid = self.grid
        columns = tuple(((i, 0),) for i in range(self.step[1]))
        return Stage(self.type, grid.lanes, self.step, self.shift, self.lattice, pitch, plane, self.result[2], columns)

    @property
    def scratch(self) -> int:
        """Bytes for each thread."""
        lanes = self.grid.lanes
        elements = self.frame.size(lanes) + self.channels.largest * self.stage.size + 2 * lanes
        return -(-elements * self.type.itemsize // 64) * 64


def plan_convolution(
    x: Shape,
    weight: Shape,
    *,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    type: Type,
    target: Target,
    flat: bool = True,
) -> ConvolutionPlan | None:
    """The plan of `convolution`, None for three spatial dimensions and for empty results.

    `flat`: the result is (N, O, places), not (N, O, H, W).
    """
    if len(x) > 4 or 0 in x or 0 in weight:
        return None
    image, taps = plane_of(x[2:], 1), plane_of(weight[2:], 1)
    steps, frame, gaps = plane_of(stride, 1), plane_of(padding, 0), plane_of(dilation, 1)
    places = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(image, taps, steps, frame, gaps, strict=True)
    )
    if min(places) < 1:
        return None
    starts = {(i, j): (i * gaps[0] - frame[0], j * gaps[1] - frame[1]) for i in range(taps[0]) for j in range(taps[1])}
    size = weight[1] * taps[0] * taps[1]
    outward = weight[0] // groups
    return _plan(
        x[0] * groups, groups, image, weight[1], (outward, *places), [((0, 0), starts)], (0, 0), places, steps,
        (1, 1), taps, (outward * size, size, taps[0] * taps[1]), type, target, flat, len(x) - 2,
    )  # fmt: skip


def plan_convolution_input(
    g: Shape, weight: Shape, *, shape: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int,
    type: Type, target: Target, flat: bool = True,
) -> ConvolutionPlan | None:  # fmt: skip
    """The plan of `convolution_input`, which `write_convolution` writes too: its image is g."""
    if len(g) > 4 or 0 in g or 0 in weight or 0 in shape:
        return None
    image, taps, result = plane_of(g[2:], 1), plane_of(weight[2:], 1), plane_of(shape[2:], 1)
    steps, shift, gaps = plane_of(stride, 1), plane_of(padding, 0), plane_of(dilation, 1)
    lattice = (shift[0] // steps[0], shift[1] // steps[1])
    places = tuple((n - 1 + p) // s - q + 1 for n, p, s, q in zip(result, shift, steps, lattice, strict=True))
    phases: list[tuple[Pair, dict[Pair, Pair]]] = []
    for a in range(steps[0]):
        for c in range(steps[1]):
            starts = {
                (i, j): (lattice[0] - (i * gaps[0] - a) // steps[0], lattice[1] - (j * gaps[1] - c) // steps[1])
                for i in range(taps[0])
                if (i * gaps[0] - a) % steps[0] == 0
                for j in range(taps[1])
                if (j * gaps[1] - c) % steps[1] == 0
            }
            phases.append(((a, c), starts))
    window = taps[0] * taps[1]
    outward = weight[0] // groups
    return _plan(
        g[0] * groups, groups, image, outward, (weight[1], *result), phases, lattice, places, (1, 1),
        steps, taps, (weight[0] // groups * weight[1] * window, window, weight[1] * window), type, target, flat,
        len(g) - 2, shift,
    )  # fmt: skip


def _plan(
    images: int, groups: int, image: Pair, channels: int, result: tuple[int, ...],
    phases: Sequence[tuple[Pair, dict[Pair, Pair]]], lattice: Pair, places: tuple[int, ...], stride: Pair,
    step: Pair, taps: Pair, weight: tuple[int, int, int], type: Type, target: Target, flat: bool, rank: int,
    shift: Pair = (0, 0),
) -> ConvolutionPlan | None:  # fmt: skip
    """The cheapest plan: frames whose rows are dense, or not."""
    starts = sorted({start for _, seen in phases for start in seen.values()})
    lanes = target.lanes(type)
    terms = sum(len(seen) for _, seen in phases) * channels / len(phases)
    best = None
    bands = 1
    for dense in (False, True):
        bands = 1
        while True:
            height = places[0] // bands
            frame = plan_padded_image(image, channels, (height, places[1]), stride, starts, dense)
            fewer = [n for n in range(bands + 1, places[0] + 1) if places[0] % n == 0]
            if max(frame.size(lanes), 8 * height * places[1]) <= MAX_BAND_ELEMENTS or not fewer or step != (1, 1):
                break
            bands = fewer[0]
        rows, length = (1, height * places[1]) if frame.width == places[1] else (height, places[1])
        cost, grid, split = choose_blocking(rows, length, result[0], type, target)
        copied = 0.0
        if not frame.in_place:
            copied = channels * frame.rows * len(frame.planes) * -(-frame.width // lanes) * 4.0
        total = (cost * terms * len(phases) + copied) * bands
        if best is None or total < best[0]:
            best = (total, bands, frame, grid, split)
    assert best is not None
    _, bands, frame, grid, split = best
    by_start = dict(zip(starts, frame.offsets, strict=True))
    made = tuple(Phase(at, group_by_column(seen, by_start, taps)) for at, seen in phases)
    flops = 2.0 * result[0] * channels * places[0] * places[1] * sum(len(seen) for _, seen in phases)
    per_tile = min(images, max(1, round(TILE_FLOPS * bands / flops)))
    chunks = min(split.number, max(1, int(flops / bands / TILE_FLOPS / 2))) if images * bands < 8 else 1
    kind = "in place" if frame.in_place else f"through a frame of {len(frame.planes)} planes"
    reason = f"direct, {split.largest} channels by {grid.vectors} vectors in registers, images read {kind}"
    return ConvolutionPlan(
        images, groups, (result[0], result[1], result[2]), type, frame, made, lattice, step, shift, places[1],
        grid, split, weight, per_tile, chunks, bands, flat, rank, reason,
    )  # fmt: skip


def group_by_column(seen: dict[Pair, Pair], offsets: dict[Pair, int], taps: Pair) -> tuple[tuple[Term, ...], ...]:
    """A phase's taps by columns, in the order of the weights."""
    columns: dict[int, list[Term]] = {}
    for (i, j), start in sorted(seen.items()):
        columns.setdefault(j, []).append(Term(offsets[start], i * taps[1] + j))
    return tuple(tuple(terms) for _, terms in sorted(columns.items()))


def uniform_step(columns: Sequence[Sequence[Term]]) -> Term | None:
    """The step from each column to the next, None if they differ."""
    steps = {
        tuple(Term(t.frame - s.frame, t.weight - s.weight) for s, t in zip(left, right, strict=True))
        for left, right in pairwise(columns)
    }
    step = {term for terms in steps for term in terms}
    return step.pop() if len(step) == 1 else None


def plane_of(sizes: Shape, absent: int) -> Pair:
    """The sizes of the last two dimensions, (absent, n) for one."""
    return (absent, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])

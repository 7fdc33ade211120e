"""The plan of a convolution whose lanes are the result's channels: for small images, of which rows fill no register.

Forward and towards the input, with any window, stride, padding and dilation, in one dimension or two. As many images as
fill a block of sums are taken together. Whether this is chosen does not depend on the number of images.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import has_symbols, is_multiple, is_symbolic_size, size_value
from adjoint.compiler.kernels.conv_pool.blocking import count_cycles
from adjoint.compiler.kernels.conv_pool.channel_lanes.channels_last import (
    MAX_VECTORS,
    ChannelFrame,
    count_scratch_bytes,
    most_rows,
    round_up,
)
from adjoint.compiler.kernels.conv_pool.conv_plan import ConvolutionPlan
from adjoint.compiler.kernels.conv_pool.window_geometry import (
    ConvolutionSettings,
    Shape,
    Triple,
    iterate_places,
)
from adjoint.compiler.kernels.index_arithmetic import is_one
from adjoint.compiler.llvm.types import Type

Pair = tuple[int, int]

MAX_PLACES = 1024  # of a group of images
MIN_WINDOW = 3  # taps: a weight is turned tap by tap
MAX_WINDOW = 64
MAX_GROUP = 16  # images
MAX_TILES = 8  # of images, for each chunk of channels
USUAL_IMAGES = 16  # that share the turning of the weight
WEIGHT_SHARE = 25  # times that, that a tile is to work
TURN_CYCLES = 7.0  # for each register that is turned
ENTRY_CYCLES = 20.0  # of a tap of a block
MEASURED_SHARE = 0.88  # of the speed without what is counted
MAX_TIME = 0.95  # of the other way, above which that is taken


class ChannelPhase(NamedTuple):
    """Places of the result that see the same taps: where each is, and where in the frame what it sees begins.

    `order`: the taps' numbers in the window, in the order of what they see. `runs`: where what neighbours see begins,
    of so many taps each.
    """

    places: tuple[Pair, ...]
    seen: tuple[int, ...]
    order: tuple[int, ...]
    runs: tuple[int, ...]

    @property
    def run(self) -> int:
        """Taps of a run."""
        return len(self.order) // len(self.runs) if self.runs else 0


class ChannelConvolutionPlan(NamedTuple):
    """The plan of one convolution. Weights lie `weight` = (result's channel, summed channel) apart."""

    images: int
    result: tuple[int, int, int]  # channels, rows, columns
    type: Type
    frame: ChannelFrame
    phases: tuple[ChannelPhase, ...]
    window: int
    weight: Pair
    vectors: int  # registers of channels in a chunk
    rows: int  # places in registers
    group: int  # images that are framed together
    per_tile: int  # images
    apart: int
    reason: str

    @property
    def width(self) -> int:
        """Channels of a chunk."""
        return self.vectors * self.frame.lanes

    @property
    def chunks(self) -> int:
        """Chunks of the result's channels."""
        return -(-self.result[0] // self.width)

    @property
    def tiles(self) -> int:
        return -(-self.images // self.per_tile) * self.chunks

    @property
    def places(self) -> int:
        """Places of an image of the result."""
        return self.result[1] * self.result[2]

    @property
    def line(self) -> int:
        """Elements of a channel of a result that waits to be finished."""
        return round_up(self.places, self.frame.lanes)

    @property
    def regions(self) -> tuple[int, ...]:
        """Elements of scratch memory: weights, frames, results, results turned back."""
        lanes = self.frame.lanes
        return (
            (self.window + 1) * self.frame.channels * self.width,
            self.group * self.frame.elements,
            (self.group * self.places + 1) * self.width,
            self.width * self.line + lanes,
        )

    @property
    def scratch(self) -> int:
        """Bytes for each thread."""
        return count_scratch_bytes(self.regions, self.type)

    @property
    def has_whole_groups(self) -> bool:
        """True if each group of each tile has all its images."""
        return is_multiple(self.images, self.per_tile) and self.per_tile % self.group == 0


def plan_channel_convolution(
    direct: ConvolutionPlan | None, x: Shape, weight: Shape, settings: ConvolutionSettings
) -> ChannelConvolutionPlan | None:
    """The plan of `convolution`, None where the `direct` one takes less time."""
    if direct is None or settings.groups > 1 or len(x) > 4 or has_symbols(x[1:]):
        return None
    counts = settings.count_places(x[2:], weight[2:])
    image, places, taps, steps, before, gaps = settings.sweep(x[2:], counts, weight[2:])
    starts = {
        tap: (tap.rows * gaps.rows - before.rows, tap.columns * gaps.columns - before.columns)
        for tap in iterate_places(taps)
    }
    inward, window = weight[1], taps.size
    return _plan(
        direct,
        x[0],
        image,
        inward,
        (weight[0], places.rows, places.columns),
        [((0, 0), starts)],
        (1, 1),
        (steps.rows, steps.columns),
        taps,
        (inward * window, window),
        settings,
    )


def plan_channel_convolution_input(
    direct: ConvolutionPlan | None, g: Shape, weight: Shape, shape: Shape, settings: ConvolutionSettings
) -> ChannelConvolutionPlan | None:
    """The plan of `convolution_input`, None where the `direct` one takes less time."""
    if direct is None or settings.groups > 1 or len(g) > 4 or has_symbols((*g[1:], *shape[1:])):
        return None
    result, image, taps, steps, before, gaps = settings.sweep(shape[2:], g[2:], weight[2:])
    phases = []
    for place in iterate_places(steps):
        starts = {}
        for tap in iterate_places(taps):
            row = place.rows + before.rows - tap.rows * gaps.rows
            column = place.columns + before.columns - tap.columns * gaps.columns
            if row % steps.rows == 0 and column % steps.columns == 0:
                starts[tap] = (row // steps.rows, column // steps.columns)
        phases.append(((place.rows, place.columns), starts))
    window = taps.size
    return _plan(
        direct,
        g[0],
        image,
        weight[0],
        (weight[1], result.rows, result.columns),
        phases,
        (steps.rows, steps.columns),
        (1, 1),
        taps,
        (window, weight[1] * window),
        settings,
    )


def _plan(
    direct: ConvolutionPlan,
    images: int,
    image: Triple,
    channels: int,
    result: tuple[int, int, int],
    phases: list[tuple[Pair, dict[Triple, Pair]]],
    step: Pair,
    stride: Pair,
    taps: Triple,
    weight: Pair,
    settings: ConvolutionSettings,
) -> ChannelConvolutionPlan | None:
    lanes, places, target = settings.lanes, result[1] * result[2], settings.target
    apart = len(settings.stride) - 1 if not settings.flat else 0
    starts = [start for _, each in phases for start in each.values()]
    if not MIN_WINDOW <= taps.size <= MAX_WINDOW or places > MAX_PLACES or not starts:
        return None
    size = (image.rows, image.columns)
    before = (max(0, -min(r for r, _ in starts)), max(0, -min(c for _, c in starts)))
    last = [-(-n // s) - 1 for n, s in zip(result[1:], step, strict=True)]
    ends = (max(r for r, _ in starts), max(c for _, c in starts))
    needed = (b + n * s + e + 1 for b, n, s, e in zip(before, last, stride, ends, strict=True))
    held = tuple(max(n, b + i) for n, b, i in zip(needed, before, size, strict=True))
    frame = ChannelFrame(channels, size, (held[0], held[1]), before, lanes, channels)
    made = [_make_phase(frame, result, at, each, step, stride, taps) for at, each in phases]
    chunks = -(-result[0] // (lanes * MAX_VECTORS))
    vectors = -(-result[0] // (lanes * chunks))
    turned = -(-taps.size // lanes) * lanes * channels * vectors * TURN_CYCLES
    framed = TURN_CYCLES * -(-channels // lanes) * size[0] * size[1]
    finished = TURN_CYCLES * vectors * places
    best: tuple[float, int, int] | None = None
    for group in range(1, max(1, min(MAX_GROUP, MAX_PLACES // places)) + 1):
        for rows in range(1, min(8, most_rows(vectors, target)) + 1):
            cycles = (
                sum(
                    -(-group * len(phase.places) // rows)
                    * len(phase.runs)
                    * (phase.run * channels * (count_cycles(rows, vectors) + 0.4) + ENTRY_CYCLES)
                    for phase in made
                )
                / group
            )
            if best is None or cycles < 0.99 * best[0]:
                best = cycles, group, rows
    assert best is not None
    cycles, group, rows = best[0] / MEASURED_SHARE, *best[1:]
    each = cycles + framed + finished
    if chunks * (each + turned / (1 if is_one(images) else USUAL_IMAGES)) > MAX_TIME * direct.cycles:
        return None
    number = size_value(images)
    group = min(group, number)
    enough = max(WEIGHT_SHARE * turned / each, number / MAX_TILES)
    per_tile = min(round_up(max(1, round(enough)), group), round_up(number, group))
    if not is_symbolic_size(images) and per_tile >= images and images % group:
        group = per_tile = images if images <= MAX_GROUP else group
    reason = f"lanes along channels, {rows} places by {vectors} registers of channels"
    return ChannelConvolutionPlan(
        images,
        result,
        settings.type,
        frame,
        tuple(made),
        taps.size,
        weight,
        vectors,
        rows,
        group,
        per_tile,
        apart,
        reason,
    )


def _make_phase(
    frame: ChannelFrame,
    result: tuple[int, int, int],
    at: Pair,
    starts: Mapping[Triple, Pair],
    step: Pair,
    stride: Pair,
    taps: Triple,
) -> ChannelPhase:
    """The places of a phase, of all that there are in the result, and its taps."""
    rows, columns = range(at[0], result[1], step[0]), range(at[1], result[2], step[1])
    places = tuple((row, column) for row in rows for column in columns)
    seen = tuple(
        frame.offset(r * stride[0] + frame.before[0], c * stride[1] + frame.before[1])
        for r in range(len(rows))
        for c in range(len(columns))
    )
    offsets = {frame.offset(*start): tap.rows * taps.columns + tap.columns for tap, start in starts.items()}
    ordered = sorted(offsets)
    return ChannelPhase(places, seen, tuple(offsets[offset] for offset in ordered), _find_runs(ordered, frame))


def _find_runs(offsets: list[int], frame: ChannelFrame) -> tuple[int, ...]:
    """The first taps of runs of equal length, in which each tap sees the place behind that of the tap before it."""
    first = [at for at in offsets if at - frame.pitch not in offsets]
    if frame.pitch != frame.channels or not first or len(offsets) % len(first):
        return tuple(offsets)
    length = len(offsets) // len(first)
    whole = [at + i * frame.pitch for at in first for i in range(length)]
    return tuple(first) if whole == offsets else tuple(offsets)

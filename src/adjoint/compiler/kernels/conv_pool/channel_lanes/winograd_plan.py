"""The plans of convolutions by squares: which take less time so, what is in registers, what a tile owns.

Windows without stride, over images of a size known now, with channels enough to pay for the transforms.
Whether one is chosen does not depend on the number of images, so that kernels of any number give the same bits.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_multiple, is_symbolic_size, size_value
from adjoint.compiler.kernels.conv_pool.channel_lanes.channels_last import (
    ChannelFrame,
    count_scratch_bytes,
    list_blocks,
    round_up,
)
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_shape import (
    MAX_GROUP_BYTES,
    WinogradShape,
    count_block_cycles,
    find_winograd_shape,
    spread_planes,
)
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_transforms import PRODUCTS
from adjoint.compiler.kernels.conv_pool.conv_plan import ConvolutionPlan
from adjoint.compiler.kernels.conv_pool.window_geometry import ConvolutionSettings, Shape
from adjoint.compiler.llvm.types import Type

Pair = tuple[int, int]

MAX_GROUP = 16  # bands
MAX_WEIGHT_BYTES = 1 << 19  # of the transformed weights of a chunk, above which they are made part by part
MAX_PART_BYTES = 1 << 18  # of those of a part
MAX_PART_GROUP_BYTES = 1 << 20  # of the transformed bands of a group, and their sums, where there are parts
SPAN_SQUARES = 48  # of which sums wait for their transform: 200 KiB with four registers of channels
MAX_TILES = 8  # of bands, for each chunk of channels
FEW_CHUNKS = 4  # that threads do not share evenly
WEIGHT_SHARE = 12  # times its transform that a tile is to work
STREAM_CYCLES = 5.0  # for a register of weights that the cache does not hold
GROUP_CYCLES = 20.0  # to begin a group


class WinogradPlan(NamedTuple):
    """The plan of one convolution by squares. Weights lie `weight` = (result's channel, summed channel) apart."""

    shape: WinogradShape
    images: int
    type: Type
    weight: Pair
    is_flipped: bool  # whether the last tap of a weight is the first that an image sees
    rows: int  # squares in registers
    vectors: int  # registers of channels beside them
    group: int  # bands that are transformed together
    per_tile: int  # bands
    parts: int  # of the summed channels, multiplied one after the other
    apart: int
    reason: str

    @property
    def bands(self) -> int:
        """Bands of all images."""
        return self.images * self.shape.bands

    @property
    def tiles(self) -> int:
        return -(-self.bands // self.per_tile) * self.shape.chunks

    @property
    def depth(self) -> int:
        """Summed channels of a part."""
        return self.shape.channels // self.parts

    @property
    def is_joined(self) -> bool:
        """True if the sums of a group have several parts or segments."""
        return self.parts > 1 or len(self.shape.segments) > 1

    @property
    def frames(self) -> int:
        """Frames of bands that segments see one after the other."""
        return self.group if len(self.shape.segments) > 1 else 1

    @property
    def frame(self) -> ChannelFrame:
        """The frame of a band of these."""
        return self.shape.frame._replace(channels=self.depth, outward=self.depth)

    @property
    def squares(self) -> int:
        """Squares of a group, and of the last registers more."""
        return round_up(self.group * self.shape.square_count, self.rows)

    @property
    def weight_plane(self) -> int:
        """Elements of one product of the weights of a chunk."""
        return spread_planes(self.depth * self.shape.width, self.shape.lanes)

    @property
    def plane(self) -> int:
        """Elements of one product of each square of a group."""
        return spread_planes(self.squares * self.frame.pitch, self.shape.lanes)

    @property
    def span(self) -> int:
        """Squares of which sums wait for the transform of the result at a time."""
        if self.is_joined:
            return self.squares
        blocks = self.squares // self.rows
        return -(-blocks // -(-blocks // max(1, SPAN_SQUARES // self.rows))) * self.rows

    @property
    def sum_plane(self) -> int:
        """Elements of one product of the sums of a span."""
        return spread_planes(self.span * self.shape.width, self.shape.lanes)

    @property
    def line(self) -> int:
        """Elements of a channel of a result that waits to be finished."""
        return round_up(self.shape.band[0] * self.shape.band[1], self.shape.lanes)

    @property
    def regions(self) -> tuple[int, ...]:
        """Elements of scratch memory: weights, a turned weight, a frame, images, sums, results, results turned back."""
        shape = self.shape
        rows, columns = shape.step
        behind = rows * columns * shape.squares[1]
        return (
            shape.products * self.weight_plane,
            round_up(shape.taps, shape.lanes) * shape.lanes,
            self.frames * self.frame.elements,
            shape.sums * self.plane,
            shape.sums * self.sum_plane,
            (self.group * shape.square_count * rows * columns + behind) * shape.width,
            shape.width * self.line + shape.lanes,
        )

    @property
    def scratch(self) -> int:
        """Bytes for each thread."""
        return count_scratch_bytes(self.regions, self.type)


def plan_winograd(
    direct: ConvolutionPlan | None, x: Shape, weight: Shape, settings: ConvolutionSettings
) -> WinogradPlan | None:
    """The plan of `convolution`, None where the `direct` one takes less time."""
    shape = find_winograd_shape(x, weight, settings)
    if direct is None or shape is None:
        return None
    return _plan(direct.cycles, shape, x[0], (weight[1] * shape.taps, shape.taps), False, settings)


def plan_winograd_input(
    direct: ConvolutionPlan | None, g: Shape, weight: Shape, shape: Shape, settings: ConvolutionSettings
) -> WinogradPlan | None:
    """The plan of `convolution_input`: a convolution of g with the weights turned round."""
    found = find_winograd_shape(shape, weight, settings)
    if direct is None or found is None or found.places[-len(g) + 2 :] != tuple(g[2:]):
        return None
    down, across = (
        gap * (taps - 1) - p for gap, taps, p in zip(found.dilation, found.window, found.padding, strict=True)
    )
    if min(down, across) < 0:
        return None
    back = found._replace(
        channels=found.outward,
        outward=found.channels,
        image=found.places,
        places=found.image,
        padding=(down, across),
    )
    return _plan(direct.cycles, back, g[0], (found.taps, weight[1] * found.taps), True, settings)


def _plan(
    direct: float,
    shape: WinogradShape,
    images: int,
    weight: Pair,
    is_flipped: bool,
    settings: ConvolutionSettings,
) -> WinogradPlan | None:
    type, target = settings.type, settings.target
    shape = shape.in_bands(type.itemsize)
    if shape.is_slower(type.itemsize, images, direct):
        return None
    count = size_value(images) * shape.bands
    parts = _count_parts(shape, type.itemsize)
    depth = shape.channels // parts
    segments = shape.segments
    is_joined = parts > 1 or len(segments) > 1
    per_square = round_up(depth, shape.lanes) + (shape.width if is_joined else 0)
    bytes_of_band = shape.sums * shape.square_count * per_square * type.itemsize
    most = (MAX_PART_GROUP_BYTES if is_joined else MAX_GROUP_BYTES) // bytes_of_band
    most = max(1, min(MAX_GROUP, count, most))
    once = GROUP_CYCLES
    if parts > 1:
        once += shape.weight_cycles
    elif is_joined and shape.products * depth * shape.width * type.itemsize > MAX_WEIGHT_BYTES:
        once += STREAM_CYCLES * shape.products * depth * shape.vectors
    best: tuple[float, int, int, int] | None = None
    for group, (rows, vectors) in itertools.product(range(1, most + 1), list_blocks(shape.vectors, target)):
        blocks = parts * -(-group * shape.square_count // rows) * shape.products / PRODUCTS
        each = shape.vectors / vectors * count_block_cycles(rows, vectors, depth)
        cycles = (blocks * each + once) / group
        # A group that is not full is computed as if it were.
        if not is_symbolic_size(images):
            cycles *= round_up(count, group) / count
        if best is None or cycles < 0.99 * best[0]:
            best = cycles, group, rows, vectors
    assert best is not None
    _, group, rows, vectors = best
    enough = count / MAX_TILES
    if parts == 1:
        enough = max(WEIGHT_SHARE * shape.weight_cycles / shape.band_cycles, enough)
    number = count / max(enough, 1.0)
    number = math.ceil(number) if shape.chunks < FEW_CHUNKS else max(1, math.floor(number))
    per_tile = round_up(-(-count // number), group)
    reason = f"by squares, {rows} of them by {vectors} registers of channels"
    return WinogradPlan(
        shape,
        images,
        type,
        weight,
        is_flipped,
        rows,
        vectors,
        group,
        per_tile,
        parts,
        0 if settings.flat else len(settings.stride) - 1,
        reason,
    )


def _count_parts(shape: WinogradShape, item: int) -> int:
    """Parts of the summed channels: where the cache does not hold the weights of a chunk, as many as let it."""
    size = PRODUCTS * shape.channels * shape.width * item
    if len(shape.segments) > 1 or size <= MAX_WEIGHT_BYTES or shape.channels % shape.lanes:
        return 1
    registers = shape.channels // shape.lanes
    most = max(MAX_PART_BYTES, size // registers)
    return next(n for n in range(1, registers + 1) if registers % n == 0 and size // n <= most)


def are_whole_groups(plan: WinogradPlan) -> bool:
    """True if each group of each tile has all its images."""
    return is_multiple(plan.bands, plan.per_tile) and plan.per_tile % plan.group == 0

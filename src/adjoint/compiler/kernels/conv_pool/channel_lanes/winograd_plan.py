"""The plans of convolutions by Winograd's F(2×2, 3×3): which take less time so, what is in registers, what a tile owns.

Windows of 3 by 3 without stride and dilation, over images of a size known now, with channels enough to pay for the
transforms. Whether one is chosen does not depend on the number of images, so that kernels of any number give the same
bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_multiple, is_symbolic_size, size_value
from adjoint.compiler.kernels.conv_pool.channel_lanes.channels_last import (
    ChannelFrame,
    count_scratch_bytes,
    most_rows,
    round_up,
)
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_shape import (
    MAX_GROUP_BYTES,
    WinogradShape,
    find_winograd_shape,
)
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_transforms import PRODUCTS, SQUARE, TAPS
from adjoint.compiler.kernels.conv_pool.conv_plan import ConvolutionPlan
from adjoint.compiler.kernels.conv_pool.window_geometry import Shape
from adjoint.compiler.llvm.jit.target import Target
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
# Cycles of a block of sums: for a register of weights, for each sum that is stored, to enter it, and to begin a group.
WEIGHT_LOAD_CYCLES, STORE_CYCLES, BLOCK_CYCLES, GROUP_CYCLES = 1.7, 1.5, 15.0, 20.0


class WinogradPlan(NamedTuple):
    """The plan of one convolution by squares. Weights lie `weight` = (result's channel, summed channel) apart."""

    shape: WinogradShape
    images: int
    type: Type
    weight: Pair
    is_flipped: bool  # whether the last tap of a weight is the first that an image sees
    rows: int  # squares in registers
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
        return _spread_planes(self.depth * self.shape.width, self.shape.lanes)

    @property
    def plane(self) -> int:
        """Elements of one product of each square of a group."""
        return _spread_planes(self.squares * self.frame.pitch, self.shape.lanes)

    @property
    def span(self) -> int:
        """Squares of which sums wait for the transform of the result at a time."""
        if self.parts > 1:
            return self.squares
        blocks = self.squares // self.rows
        return -(-blocks // -(-blocks // max(1, SPAN_SQUARES // self.rows))) * self.rows

    @property
    def sum_plane(self) -> int:
        """Elements of one product of the sums of a span."""
        return _spread_planes(self.span * self.shape.width, self.shape.lanes)

    @property
    def line(self) -> int:
        """Elements of a channel of a result that waits to be finished."""
        return round_up(self.shape.band[0] * self.shape.band[1], self.shape.lanes)

    @property
    def regions(self) -> tuple[int, ...]:
        """Elements of scratch memory: weights, a turned weight, a frame, images, sums, results, results turned back."""
        shape = self.shape
        across = 2 * SQUARE * shape.squares[1]
        return (
            PRODUCTS * self.weight_plane,
            round_up(TAPS * TAPS, shape.lanes) * shape.lanes,
            self.frame.elements,
            PRODUCTS * self.plane,
            PRODUCTS * self.sum_plane,
            (self.group * shape.square_count * SQUARE * SQUARE + across) * shape.width,
            shape.width * self.line + shape.lanes,
        )

    @property
    def scratch(self) -> int:
        """Bytes for each thread."""
        return count_scratch_bytes(self.regions, self.type)


class WinogradWeightPlan(NamedTuple):
    """The plan of the gradient of a weight by squares: `shape` is that of the convolution of a tile's channels."""

    shape: WinogradShape
    images: int
    type: Type
    parts: int  # of the image's channels
    rows: int  # channels of the image in registers
    group: int  # bands that are transformed together
    apart: int
    reason: str

    @property
    def tiles(self) -> int:
        return self.shape.chunks * self.parts

    @property
    def bands(self) -> int:
        """Bands of all images."""
        return self.images * self.shape.bands

    @property
    def gradient_frame(self) -> ChannelFrame:
        """The frame of the gradient of a result."""
        shape = self.shape
        down, across = shape.squares
        size = (SQUARE * down, SQUARE * across)
        return ChannelFrame(shape.width, shape.places, size, (0, 0), shape.lanes, shape.outward)

    @property
    def plane(self) -> int:
        """Elements of one product of the images of a group."""
        return _spread_planes(
            self.group * self.shape.square_count * self.shape.frame.pitch + self.rows, self.shape.lanes
        )

    @property
    def gradient_plane(self) -> int:
        """Elements of one product of the gradients of a group."""
        return _spread_planes(self.group * self.shape.square_count * self.shape.width, self.shape.lanes)

    @property
    def sums(self) -> int:
        """Elements of one product of the sums."""
        return _spread_planes(round_up(self.shape.channels, self.rows) * self.shape.width, self.shape.lanes)

    @property
    def line(self) -> int:
        """Elements of the gradient of a channel's weights that wait to be finished."""
        return round_up(self.shape.channels * TAPS * TAPS, self.shape.lanes) + self.shape.lanes

    @property
    def regions(self) -> tuple[int, ...]:
        """Elements of scratch memory: frames, images, gradients, sums, gradients of weights, and those turned back."""
        shape = self.shape
        return (
            shape.frame.elements,
            self.gradient_frame.elements,
            PRODUCTS * self.plane,
            PRODUCTS * self.gradient_plane,
            PRODUCTS * self.sums,
            (shape.channels * TAPS * TAPS + shape.lanes) * shape.width,
            shape.lanes * self.line,
        )

    @property
    def scratch(self) -> int:
        """Bytes for each thread."""
        return count_scratch_bytes(self.regions, self.type)


def plan_winograd(
    direct: ConvolutionPlan | None,
    x: Shape,
    weight: Shape,
    *,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    type: Type,
    target: Target,
    flat: bool,
) -> WinogradPlan | None:
    """The plan of `convolution`, None where the `direct` one takes less time."""
    shape = find_winograd_shape(x, weight, stride, padding, dilation, groups, type, target)
    if direct is None or shape is None:
        return None
    return _plan(direct.cycles, shape, x[0], type, target, (weight[1] * TAPS * TAPS, TAPS * TAPS), False, flat)


def plan_winograd_input(
    direct: ConvolutionPlan | None,
    g: Shape,
    weight: Shape,
    *,
    shape: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    type: Type,
    target: Target,
    flat: bool,
) -> WinogradPlan | None:
    """The plan of `convolution_input`: a convolution of g with the weights turned round."""
    found = find_winograd_shape(shape, weight, stride, padding, dilation, groups, type, target)
    if direct is None or found is None or max(padding) > TAPS - 1 or found.places != tuple(g[2:]):
        return None
    before = (TAPS - 1 - padding[0], TAPS - 1 - padding[1])
    back = WinogradShape(found.outward, found.channels, found.places, found.image, before, found.lanes)
    return _plan(direct.cycles, back, g[0], type, target, (TAPS * TAPS, weight[1] * TAPS * TAPS), True, flat)


def plan_winograd_weight(
    x: Shape,
    g: Shape,
    *,
    shape: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    type: Type,
    target: Target,
    flat: bool,
) -> WinogradWeightPlan | None:
    """The plan of `convolution_weight`."""
    found = find_winograd_shape(x, shape, stride, padding, dilation, groups, type, target)
    if found is None or found.places != tuple(g[2:]):
        return None
    found = found.in_bands(type.itemsize)
    if found.is_weight_slower(type.itemsize):
        return None
    # Two tiles at least; what is made of the gradient is made twice for that.
    parts = 2 if found.chunks == 1 and found.channels % 2 == 0 and found.channels >= 2 * found.lanes else 1
    found = found._replace(channels=found.channels // parts)
    depth = 4 * found.square_count
    most = min(most_rows(found.vectors, target), found.channels)
    rows = min(range(1, most + 1), key=lambda n: -(-found.channels // n) * _block_cycles(n, found.vectors, depth))
    # Neither depends on the number of images, nor do the sums of a group then.
    bytes_of_band = PRODUCTS * found.square_count * (found.frame.pitch + found.width) * type.itemsize
    group = 1 << max(0, min(MAX_GROUP, MAX_GROUP_BYTES // bytes_of_band).bit_length() - 1)
    reason = f"by squares, {rows} by {found.vectors} registers of channels"
    return WinogradWeightPlan(found, x[0], type, parts, rows, group, 0 if flat else 2, reason)


def _plan(
    direct: float,
    shape: WinogradShape,
    images: int,
    type: Type,
    target: Target,
    weight: Pair,
    is_flipped: bool,
    flat: bool,
) -> WinogradPlan | None:
    shape = shape.in_bands(type.itemsize)
    if shape.is_slower(type.itemsize, images, direct):
        return None
    count = size_value(images) * shape.bands
    parts = _count_parts(shape, type.itemsize)
    depth = shape.channels // parts
    per_square = round_up(depth, shape.lanes) + (shape.width if parts > 1 else 0)
    bytes_of_band = PRODUCTS * shape.square_count * per_square * type.itemsize
    most = (MAX_GROUP_BYTES if parts == 1 else MAX_PART_GROUP_BYTES) // bytes_of_band
    most = max(1, min(MAX_GROUP, count, most))
    once = GROUP_CYCLES + (shape.weight_cycles if parts > 1 else 0.0)
    best: tuple[float, int, int] | None = None
    for group in range(1, most + 1):
        for rows in range(1, most_rows(shape.vectors, target) + 1):
            blocks = parts * -(-group * shape.square_count // rows)
            cycles = (blocks * _block_cycles(rows, shape.vectors, depth) + once) / group
            # A group that is not full is computed as if it were.
            if not is_symbolic_size(images):
                cycles *= round_up(count, group) / count
            if best is None or cycles < 0.99 * best[0]:
                best = cycles, group, rows
    assert best is not None
    _, group, rows = best
    enough = count / MAX_TILES
    if parts == 1:
        enough = max(WEIGHT_SHARE * shape.weight_cycles / shape.band_cycles, enough)
    number = count / max(enough, 1.0)
    number = math.ceil(number) if shape.chunks < FEW_CHUNKS else max(1, math.floor(number))
    per_tile = round_up(-(-count // number), group)
    reason = f"by squares, {rows} of them by {shape.vectors} registers of channels"
    return WinogradPlan(shape, images, type, weight, is_flipped, rows, group, per_tile, parts, 0 if flat else 1, reason)


def _count_parts(shape: WinogradShape, item: int) -> int:
    """Parts of the summed channels: where the cache does not hold the weights of a chunk, as many as let it."""
    size = PRODUCTS * shape.channels * shape.width * item
    if size <= MAX_WEIGHT_BYTES or shape.channels % shape.lanes:
        return 1
    registers = shape.channels // shape.lanes
    most = max(MAX_PART_BYTES, size // registers)
    return next(n for n in range(1, registers + 1) if registers % n == 0 and size // n <= most)


def _block_cycles(rows: int, vectors: int, depth: int) -> float:
    """The cycles of a block: each step starts two multiplications or two loads in one, weights come from the second
    cache, and a sum takes another after four.
    """
    step = max(0.5 * rows * vectors, 0.55 * (rows + vectors), WEIGHT_LOAD_CYCLES * vectors, 4.0) + 0.4
    return depth * step + STORE_CYCLES * rows * vectors + BLOCK_CYCLES


def _spread_planes(elements: int, lanes: int) -> int:
    """Elements from plane to plane: an odd number of registers, so that a place of all planes is in many cache sets."""
    return (-(-elements // lanes) | 1) * lanes


def are_whole_groups(plan: WinogradPlan) -> bool:
    """True if each group of each tile has all its images."""
    return is_multiple(plan.bands, plan.per_tile) and plan.per_tile % plan.group == 0

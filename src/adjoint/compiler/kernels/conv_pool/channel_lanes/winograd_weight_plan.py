"""The plan of the gradient of a weight by squares: how many are summed at a time, and what a tile owns."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.kernels.conv_pool.channel_lanes.channels_last import (
    ChannelFrame,
    count_scratch_bytes,
    list_blocks,
    round_up,
)
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_plan import MAX_GROUP
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_shape import (
    MAX_GROUP_BYTES,
    WinogradShape,
    count_block_cycles,
    find_winograd_shape,
    spread_planes,
)
from adjoint.compiler.kernels.conv_pool.window_geometry import ConvolutionSettings, Shape
from adjoint.compiler.llvm.types import Type


class WinogradWeightPlan(NamedTuple):
    """The plan of the gradient of a weight by squares: `shape` is that of the convolution of a tile's channels."""

    shape: WinogradShape
    images: int
    type: Type
    parts: int  # of the image's channels
    rows: int  # channels of the image in registers
    vectors: int  # registers of channels of the result beside them
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
    def frames(self) -> int:
        """Frames of bands that segments see one after the other."""
        return self.group if len(self.shape.segments) > 1 else 1

    @property
    def gradient_frame(self) -> ChannelFrame:
        """The frame of the gradient of a result."""
        shape = self.shape
        down, across = (each * n for each, n in zip(shape.step, shape.squares, strict=True))
        size = down, across
        return ChannelFrame(shape.width, shape.places, size, (0, 0), shape.lanes, shape.outward)

    @property
    def plane(self) -> int:
        """Elements of one product of the images of a group."""
        return spread_planes(
            self.group * self.shape.square_count * self.shape.frame.pitch + self.rows, self.shape.lanes
        )

    @property
    def gradient_plane(self) -> int:
        """Elements of one product of the gradients of a group."""
        return spread_planes(self.group * self.shape.square_count * self.shape.width, self.shape.lanes)

    @property
    def sums(self) -> int:
        """Elements of one product of the sums."""
        return spread_planes(round_up(self.shape.channels, self.rows) * self.shape.width, self.shape.lanes)

    @property
    def line(self) -> int:
        """Elements of the gradient of a channel's weights that wait to be finished."""
        return round_up(self.shape.channels * self.shape.taps, self.shape.lanes) + self.shape.lanes

    @property
    def regions(self) -> tuple[int, ...]:
        """Elements of scratch memory: frames, images, gradients, sums, gradients of weights, and those turned back."""
        shape = self.shape
        return (
            self.frames * shape.frame.elements,
            self.gradient_frame.elements,
            shape.sums * self.plane,
            shape.sums * self.gradient_plane,
            shape.products * self.sums,
            (shape.channels * shape.taps + shape.lanes) * shape.width,
            shape.lanes * self.line,
        )

    @property
    def scratch(self) -> int:
        """Bytes for each thread."""
        return count_scratch_bytes(self.regions, self.type)


def plan_winograd_weight(x: Shape, g: Shape, shape: Shape, settings: ConvolutionSettings) -> WinogradWeightPlan | None:
    """The plan of `convolution_weight`."""
    type, target = settings.type, settings.target
    found = find_winograd_shape(x, shape, settings)
    if found is None or found.places[-len(g) + 2 :] != tuple(g[2:]):
        return None
    found = found.in_bands(type.itemsize)
    if found.is_weight_slower(type.itemsize):
        return None
    # Two tiles at least; what is made of the gradient is made twice for that.
    parts = 2 if found.chunks == 1 and found.channels % 2 == 0 and found.channels >= 2 * found.lanes else 1
    found = found._replace(channels=found.channels // parts)
    depth = 4 * found.square_count
    rows, vectors = min(
        (block for block in list_blocks(found.vectors, target) if block[0] <= found.channels),
        key=lambda block: -(-found.channels // block[0]) / block[1] * count_block_cycles(block[0], block[1], depth),
    )
    # Neither depends on the number of images, nor do the sums of a group then.
    elements = found.sums * found.square_count * (found.frame.pitch + found.width)
    elements += found.frame.elements if len(found.segments) > 1 else 0
    group = 1 << max(0, min(MAX_GROUP, MAX_GROUP_BYTES // (elements * type.itemsize)).bit_length() - 1)
    reason = f"by squares, {rows} by {vectors} registers of channels"
    return WinogradWeightPlan(
        found, x[0], type, parts, rows, vectors, group, 0 if settings.flat else len(settings.stride), reason
    )

"""The shape of convolutions by squares: which go so, in what squares, bands and chunks, and what each part takes."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import has_symbols
from adjoint.compiler.kernels.conv_pool.channel_lanes.channels_last import ChannelFrame
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_transforms import (
    PRODUCTS,
    SQUARE,
    TAPS,
    TapSegment,
    split_window,
)
from adjoint.compiler.kernels.conv_pool.window_geometry import ConvolutionSettings, Shape
from adjoint.compiler.kernels.index_arithmetic import is_one
from adjoint.compiler.llvm.types import F32

Pair = tuple[int, int]

MAX_GROUP_BYTES = 1 << 19  # of the transformed bands of a group
MAX_BAND_BYTES = 1 << 22  # of one, where there are none smaller
MAX_CHANNELS = 64  # of a chunk
MAX_TAPS = 7  # in a dimension
USUAL_IMAGES = 4  # that share the transform of the weight
# Cycles for a register: of the transforms of images, of results, and of weights, and of turning.
IMAGE_CYCLES, RESULT_CYCLES, WEIGHT_CYCLES, TURN_CYCLES = 24.0, 24.0, 150.0, 7.0
# Of a block of sums: for a register of weights, for each sum that is stored, and to enter it.
WEIGHT_LOAD_CYCLES, STORE_CYCLES, BLOCK_CYCLES = 1.7, 1.5, 15.0
FOLD_CYCLES = 60.0  # for a register of the gradients of weights
PRODUCT_SHARE = 0.88  # of the multiplications that a core can do in the time
DIRECT_SHARE = 0.85  # of the same, of a direct convolution
MAX_TIME, MAX_WEIGHT_TIME = 0.85, 1.0  # of the direct one, above which that is taken


class WinogradShape(NamedTuple):
    """Convolutions that go in squares: the channels that are summed and those of the result, of images of one size."""

    channels: int
    outward: int
    image: Pair
    places: Pair
    padding: Pair
    lanes: int
    window: Pair = (TAPS, TAPS)
    dilation: Pair = (1, 1)
    bands: int = 1  # of rows of squares

    @property
    def step(self) -> Pair:
        """Rows and columns of the result in a square: one in a dimension in which windows have one tap."""
        return min(self.window[0], SQUARE), min(self.window[1], SQUARE)

    @property
    def taps(self) -> int:
        """Taps of a window."""
        return self.window[0] * self.window[1]

    @property
    def segments(self) -> tuple[tuple[TapSegment, TapSegment], ...]:
        """Rectangles of a window's taps, the first of which has products for all sums."""
        return tuple(product(split_window(self.window[0]), split_window(self.window[1])))

    @property
    def sums(self) -> int:
        """Sums of a square, and the most products of a segment."""
        return len(self.segments[0][0].points) * len(self.segments[0][1].points)

    @property
    def products(self) -> int:
        """Products of all segments."""
        return sum(len(down.points) * len(across.points) for down, across in self.segments)

    @property
    def squares(self) -> Pair:
        """Squares of a band of the result, down and across; those of one phase of a dilation after another."""
        down, across = (
            gap * -(-n // (gap * each)) for n, each, gap in zip(self.places, self.step, self.dilation, strict=True)
        )
        return down // self.bands, across

    @property
    def band(self) -> Pair:
        """Rows and columns of the result in a band."""
        return (self.places[0] if self.bands == 1 else self.step[0] * self.squares[0]), self.places[1]

    @property
    def square_count(self) -> int:
        """Squares of a band."""
        return self.squares[0] * self.squares[1]

    @property
    def registers(self) -> int:
        """Registers of the result's channels."""
        return -(-self.outward // self.lanes)

    @property
    def chunks(self) -> int:
        """Chunks of these."""
        return -(-self.registers * self.lanes // MAX_CHANNELS)

    @property
    def vectors(self) -> int:
        """Registers of channels of a chunk."""
        return -(-self.registers // self.chunks)

    @property
    def width(self) -> int:
        """Channels of a chunk."""
        return self.vectors * self.lanes

    @property
    def frame(self) -> ChannelFrame:
        """The frame of a band of an image."""
        down, across = (
            each * n + gap * (taps - 1)
            for each, n, gap, taps in zip(self.step, self.squares, self.dilation, self.window, strict=True)
        )
        size = down, across
        return ChannelFrame(self.channels, self.image, size, self.padding, self.lanes, self.channels)

    def in_bands(self, item: int) -> WinogradShape:
        """The shape with as few bands as keep what is transformed at a time in the cache; 1 where rows are short."""
        down = self.squares[0]
        divides = min(self.image[1], self.places[1]) >= self.lanes and self.places[0] % self.step[0] == 0
        divides &= self.dilation == (1, 1)
        for bands in range(1, down + 1 if divides else 2):
            if down % bands == 0:
                found = self._replace(bands=bands)
                if self.sums * found.square_count * found.frame.pitch * item <= MAX_GROUP_BYTES:
                    break
        return found

    def is_too_large(self, item: int) -> bool:
        """True if a band is so large that the cache does not hold what is transformed at a time."""
        return self.sums * self.square_count * self.frame.pitch * item > MAX_BAND_BYTES

    @property
    def summed_registers(self) -> int:
        """Registers of the summed channels."""
        return -(-self.channels // self.lanes)

    @property
    def product_cycles(self) -> float:
        """The cycles for a band of the products of one chunk."""
        return self.products * self.square_count * self.channels * self.vectors / 2 / PRODUCT_SHARE

    @property
    def framing_cycles(self) -> float:
        """The cycles for a band of turning and transforming what the channels of a chunk are multiplied with."""
        return self.summed_registers * (
            TURN_CYCLES * self.image[0] * self.image[1] / self.bands
            + IMAGE_CYCLES * self.square_count * self.products / PRODUCTS
        )

    @property
    def result_cycles(self) -> float:
        """The cycles for a band of transforming and turning the result of a chunk, or its gradient."""
        return self.vectors * (TURN_CYCLES * self.band[0] * self.band[1] + RESULT_CYCLES * self.square_count)

    @property
    def weight_cycles(self) -> float:
        """The cycles of transforming the weights of a chunk."""
        return WEIGHT_CYCLES * self.channels * self.vectors * self.products / PRODUCTS

    @property
    def band_cycles(self) -> float:
        """The cycles for a band of one chunk, without the transform of weights."""
        return self.product_cycles + self.framing_cycles + self.result_cycles

    def is_slower(self, item: int, images: int, direct: float) -> bool:
        """True if a convolution that takes so many cycles for an image takes less: of one image, or of any others."""
        sharing = 1 if is_one(images) else USUAL_IMAGES
        total = self.chunks * (self.bands * self.band_cycles + self.weight_cycles / sharing)
        return self.is_too_large(item) or total > MAX_TIME * direct

    def is_weight_slower(self, item: int) -> bool:
        """The same of the gradient of a weight, of however many images."""
        registers = -(-self.places[0] * self.places[1] // self.lanes)
        direct = registers * self.taps * self.channels * self.outward / 2 / DIRECT_SHARE
        folded = FOLD_CYCLES * self.channels * self.vectors * self.products / PRODUCTS / USUAL_IMAGES
        return (
            self.is_too_large(item) or self.chunks * (self.bands * self.band_cycles + folded) > MAX_WEIGHT_TIME * direct
        )


def find_winograd_shape(x: Shape, weight: Shape, settings: ConvolutionSettings) -> WinogradShape | None:
    """The shape of a convolution that squares serve."""
    stride, padding, dilation, groups, type, _, _ = settings
    is_plain = groups == 1 and type == F32 and len(x) < 5 and {*stride} == {1}
    if not is_plain or has_symbols(x[1:]) or 0 in (*x, *weight):
        return None
    # Images of one dimension have one row.
    image, window, around = (1, *x[2:])[-2:], (1, *weight[2:])[-2:], (0, *padding)[-2:]
    if not TAPS <= max(window) <= MAX_TAPS or not all(map(split_window, window)):
        return None
    gaps = tuple(gap if taps > 1 else 1 for gap, taps in zip((1, *dilation)[-2:], window, strict=True))
    down, across = (n + 2 * p - gap * (taps - 1) for n, p, gap, taps in zip(image, around, gaps, window, strict=True))
    if min(down, across) < 1:
        return None
    return WinogradShape(
        x[1], weight[0], (image[0], image[1]), (down, across), (around[0], around[1]), settings.lanes,
        (window[0], window[1]), (gaps[0], gaps[1]),
    )  # fmt: skip


def count_block_cycles(rows: int, vectors: int, depth: int) -> float:
    """The cycles of a block: each step starts two multiplications or two loads in one, weights come from the second
    cache, and a sum takes another after four.
    """
    step = max(0.5 * rows * vectors, 0.55 * (rows + vectors), WEIGHT_LOAD_CYCLES * vectors, 4.0) + 0.4
    return depth * step + STORE_CYCLES * rows * vectors + BLOCK_CYCLES


def spread_planes(elements: int, lanes: int) -> int:
    """Elements from plane to plane: an odd number of registers, so that a place of all planes is in many cache sets."""
    return (-(-elements // lanes) | 1) * lanes

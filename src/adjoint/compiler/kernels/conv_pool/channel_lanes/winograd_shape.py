"""The shape of convolutions by squares: which go so, in what squares, bands and chunks, and what each part takes."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import has_symbols
from adjoint.compiler.kernels.conv_pool.channel_lanes.channels_last import MAX_VECTORS, ChannelFrame
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_transforms import PRODUCTS, SQUARE, TAPS
from adjoint.compiler.kernels.conv_pool.window_geometry import Shape
from adjoint.compiler.kernels.index_arithmetic import is_one
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import F32, Type

Pair = tuple[int, int]

MAX_GROUP_BYTES = 1 << 19  # of the transformed bands of a group
MAX_BAND_BYTES = 1 << 21  # of one, where there are none smaller
USUAL_IMAGES = 4  # that share the transform of the weight
# Cycles for a register: of the transforms of images, of results, and of weights, and of turning.
IMAGE_CYCLES, RESULT_CYCLES, WEIGHT_CYCLES, TURN_CYCLES = 24.0, 24.0, 150.0, 7.0
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
    bands: int = 1  # of rows of squares

    @property
    def squares(self) -> Pair:
        """Squares of a band of the result, down and across."""
        return -(-self.places[0] // SQUARE) // self.bands, -(-self.places[1] // SQUARE)

    @property
    def band(self) -> Pair:
        """Rows and columns of the result in a band."""
        return (self.places[0] if self.bands == 1 else SQUARE * self.squares[0]), self.places[1]

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
        return -(-self.registers // MAX_VECTORS)

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
        down, across = self.squares
        size = (SQUARE * (down + 1), SQUARE * (across + 1))
        return ChannelFrame(self.channels, self.image, size, self.padding, self.lanes, self.channels)

    def in_bands(self, item: int) -> WinogradShape:
        """The shape with as few bands as keep what is transformed at a time in the cache; 1 where rows are short."""
        down = self.squares[0]
        divides = min(self.image[1], self.places[1]) >= self.lanes and self.places[0] % SQUARE == 0
        for bands in range(1, down + 1 if divides else 2):
            if down % bands == 0:
                found = self._replace(bands=bands)
                if PRODUCTS * found.square_count * found.frame.pitch * item <= MAX_GROUP_BYTES:
                    break
        return found

    def is_too_large(self, item: int) -> bool:
        """True if a band is so large that the cache does not hold what is transformed at a time."""
        return PRODUCTS * self.square_count * self.frame.pitch * item > MAX_BAND_BYTES

    @property
    def summed_registers(self) -> int:
        """Registers of the summed channels."""
        return -(-self.channels // self.lanes)

    @property
    def product_cycles(self) -> float:
        """The cycles for a band of the products of one chunk."""
        return PRODUCTS * self.square_count * self.channels * self.vectors / 2 / PRODUCT_SHARE

    @property
    def framing_cycles(self) -> float:
        """The cycles for a band of turning and transforming what the channels of a chunk are multiplied with."""
        return self.summed_registers * (
            TURN_CYCLES * self.image[0] * self.image[1] / self.bands + IMAGE_CYCLES * self.square_count
        )

    @property
    def result_cycles(self) -> float:
        """The cycles for a band of transforming and turning the result of a chunk, or its gradient."""
        return self.vectors * (TURN_CYCLES * self.band[0] * self.band[1] + RESULT_CYCLES * self.square_count)

    @property
    def weight_cycles(self) -> float:
        """The cycles of transforming the weights of a chunk."""
        return WEIGHT_CYCLES * self.channels * self.vectors

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
        direct = registers * TAPS * TAPS * self.channels * self.outward / 2 / DIRECT_SHARE
        folded = FOLD_CYCLES * self.channels * self.vectors / USUAL_IMAGES
        return (
            self.is_too_large(item) or self.chunks * (self.bands * self.band_cycles + folded) > MAX_WEIGHT_TIME * direct
        )


def find_winograd_shape(
    x: Shape, weight: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int, type: Type, target: Target
) -> WinogradShape | None:
    """The shape of a convolution that squares serve."""
    plain = groups == 1 and type == F32 and len(x) == 4 and tuple(weight[2:]) == (TAPS, TAPS)
    if not plain or {*stride, *dilation} != {1} or has_symbols(x[1:]) or 0 in x or 0 in weight:
        return None
    places = (x[2] + 2 * padding[0] - TAPS + 1, x[3] + 2 * padding[1] - TAPS + 1)
    if min(places) < 1:
        return None
    return WinogradShape(x[1], weight[0], (x[2], x[3]), places, (padding[0], padding[1]), target.lanes(type))

"""Convolutions term by term, for numbers that are not finite: what no window sees has no part in a result."""

from __future__ import annotations

from adjoint.compiler.kernels.conv_pool.winograd_plan import WinogradShape
from adjoint.compiler.kernels.conv_pool.winograd_transforms import TAPS
from adjoint.compiler.kernels.index_arithmetic import floor_div_index, modulo_index
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg, Type


class LanePlaces:
    """Neighbouring places of a result, a lane for each, and what a tap sees at them."""

    def __init__(self, b: Builder, shape: WinogradShape, place: Reg) -> None:
        self.b, self.shape = b, shape
        numbers = b.add(b.iota(shape.lanes), place)
        width = b.constant(shape.places[1], numbers.type)
        self.rows = b.emit(f"udiv {numbers.type.text} {numbers.name}, {width.name}", numbers.type)
        self.columns = b.sub(numbers, b.mul(self.rows, width))
        self.exist = b.lt(numbers, shape.places[0] * shape.places[1])

    def load(self, channel: Reg, tap: Reg, vector: Type) -> Reg:
        """What a tap sees of a channel of an image, 0 outside of it."""
        b, (height, width) = self.b, self.shape.image
        row = b.add(self.rows, b.sub(floor_div_index(b, tap, TAPS), self.shape.padding[0]))
        column = b.add(self.columns, b.sub(modulo_index(b, tap, TAPS), self.shape.padding[1]))
        inside = b.logical_and(b.logical_and(b.ge(row, 0), b.lt(row, height)), self.exist)
        inside = b.logical_and(b.logical_and(b.ge(column, 0), b.lt(column, width)), inside)
        return b.gather(channel, b.add(b.mul(row, width), column), vector, inside)


def write_exact_channel(
    b: Builder, shape: WinogradShape, x: Reg, weight: Reg, weight_step: int, is_flipped: bool, line: Reg, vector: Type
) -> None:
    """One channel of the result of an image: line[place] = Σ weight[c, tap] x[c, place + tap]."""
    type = vector.scalar
    with b.loop(0, shape.places[0] * shape.places[1], shape.lanes) as place:
        places = LanePlaces(b, shape, place.index)
        with b.loop(0, shape.channels, carried=[b.constant(0.0, vector)]) as channel:
            own = b.gep(x, b.mul(channel.index, shape.image[0] * shape.image[1]), type)
            weights = b.gep(weight, b.mul(channel.index, weight_step), type)
            with b.loop(0, TAPS * TAPS, carried=channel.carried) as tap:
                at = b.sub(TAPS * TAPS - 1, tap.index) if is_flipped else tap.index
                scalar = b.broadcast(b.load(b.gep(weights, at, type), type), shape.lanes)
                tap.yields(b.fma(scalar, places.load(own, tap.index, vector), tap.carried[0]))
            channel.yields(*tap.results)
        b.store(channel.results[0], b.gep(line, place.index, type))


def write_exact_weight(
    b: Builder, shape: WinogradShape, x: Reg, g: Reg, images: Reg | int, line: Reg, vector: Type
) -> None:
    """The gradient of the weights of one channel of the result: line[c, tap] = Σ g[n, place] x[n, c, place + tap].

    `g`: of that channel, of the first image.
    """
    type, size = vector.scalar, shape.image[0] * shape.image[1]
    count = shape.places[0] * shape.places[1]
    images = images if isinstance(images, Reg) else b.constant(images, I64)
    with b.loop(0, shape.channels) as channel, b.loop(0, TAPS * TAPS) as tap:
        with b.loop(0, images, carried=[b.constant(0.0, vector)]) as image:
            own = b.gep(x, b.mul(b.add(b.mul(image.index, shape.channels), channel.index), size), type)
            theirs = b.gep(g, b.mul(image.index, shape.outward * count), type)
            with b.loop(0, count, shape.lanes, carried=image.carried) as place:
                places = LanePlaces(b, shape, place.index)
                given = b.load(b.gep(theirs, place.index, type), vector, places.exist)
                place.yields(b.fma(given, places.load(own, tap.index, vector), place.carried[0]))
            image.yields(*place.results)
        at = b.add(b.mul(channel.index, TAPS * TAPS), tap.index)
        b.store(b.hsum(image.results[0]), b.gep(line, at, type))

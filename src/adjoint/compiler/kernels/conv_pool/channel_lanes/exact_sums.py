"""Convolutions term by term, for numbers that are not finite: what no window sees has no part in a result."""

from __future__ import annotations

from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_shape import WinogradShape
from adjoint.compiler.kernels.conv_pool.padded_image import load_places
from adjoint.compiler.kernels.index_arithmetic import as_index, divmod_index, mask_left
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import Reg, Type


def write_exact_channel(
    b: Builder,
    shape: WinogradShape,
    x: Reg,
    weight: Reg,
    weight_step: int,
    is_flipped: bool,
    first: Reg,
    line: Reg,
    vector: Type,
) -> None:
    """One channel of a band of the result, `first` its row: line[place] = Σ weight[c, tap] x[c, place + tap]."""
    type, (height, width) = vector.scalar, shape.band
    with b.loop(0, height) as row, b.loop(0, width, shape.lanes) as place:
        with b.loop(0, shape.channels, carried=[b.constant(0.0, vector)]) as channel:
            own = b.gep(x, b.mul(channel.index, shape.image[0] * shape.image[1]), type)
            weights = b.gep(weight, b.mul(channel.index, weight_step), type)
            with b.loop(0, shape.taps, carried=channel.carried) as tap:
                at = b.sub(shape.taps - 1, tap.index) if is_flipped else tap.index
                scalar = b.broadcast(b.load(b.gep(weights, at, type), type), shape.lanes)
                seen = _load_seen(b, shape, own, b.add(first, row.index), place.index, tap.index, vector)
                tap.yields(b.fma(scalar, seen, tap.carried[0]))
            channel.yields(*tap.results)
        target = b.gep(line, b.add(b.mul(row.index, width), place.index), type)
        b.store(channel.results[0], target, mask_left(b, width, place.index, shape.lanes))


def write_exact_weight(
    b: Builder, shape: WinogradShape, x: Reg, g: Reg, images: int, inputs: int, line: Reg, vector: Type
) -> None:
    """The gradient of the weights of one channel of the result: line[c, tap] = Σ g[n, place] x[n, c, place + tap].

    `g`: of that channel, of the first image; `inputs`: elements from one image to the next.
    """
    type, size = vector.scalar, shape.image[0] * shape.image[1]
    height, width = shape.places
    with b.loop(0, shape.channels) as channel, b.loop(0, shape.taps) as tap:
        with b.loop(0, as_index(b, images), carried=[b.constant(0.0, vector)]) as image:
            own = b.gep(x, b.add(b.mul(image.index, inputs), b.mul(channel.index, size)), type)
            theirs = b.gep(g, b.mul(image.index, shape.outward * height * width), type)
            with b.loop(0, height, carried=image.carried) as row:
                with b.loop(0, width, shape.lanes, carried=row.carried) as place:
                    start = b.gep(theirs, b.add(b.mul(row.index, width), place.index), type)
                    given = b.load(start, vector, mask_left(b, width, place.index, shape.lanes))
                    seen = _load_seen(b, shape, own, row.index, place.index, tap.index, vector)
                    place.yields(b.fma(given, seen, place.carried[0]))
                row.yields(*place.results)
            image.yields(*row.results)
        at = b.add(b.mul(channel.index, shape.taps), tap.index)
        b.store(b.hsum(image.results[0]), b.gep(line, at, type))


def _load_seen(b: Builder, shape: WinogradShape, channel: Reg, row: Reg, place: Reg, tap: Reg, vector: Type) -> Reg:
    """The elements of a channel that a tap sees at neighbouring places of a row, 0 outside of the image."""
    height, width = shape.image
    tap_row, tap_column = divmod_index(b, tap, shape.window[1])
    down, across = shape.dilation
    line = b.add(row, b.sub(b.mul(tap_row, down), shape.padding[0]))
    ahead = b.sub(b.mul(tap_column, across), shape.padding[1])
    inside = b.logical_and(b.ge(line, 0), b.lt(line, height))
    high = b.select(inside, b.minimum(b.sub(width, ahead), shape.places[1]), 0)
    source = b.gep(channel, b.mul(line, width), vector)
    return load_places(b, source, place, ahead, 1, (b.maximum(b.sub(0, ahead), 0), high), vector)

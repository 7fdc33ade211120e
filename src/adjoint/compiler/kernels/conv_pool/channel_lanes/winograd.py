"""Convolution by squares, forward and towards the input: Winograd's F(2×2, 3×3), with lanes that are channels.

A tile is a chunk of the result's channels for some images. It transforms the weights of its channels once. A few images
at a time are turned and transformed; for each of the 16 products, the rows of some squares, an element of each summed
channel in each, are multiplied with the weights. What the result's transform makes of these sums is turned back, and
finished channel by channel.

Where the cache does not hold the weights of all summed channels, these go part by part: weights and images of a part
are transformed, and their products are added to the sums of a group of images.

A sum of elements that are not finite is not finite either where a window does not see them. So where any result of some
images is not finite, all of them are computed again, term by term.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from adjoint.compiler.kernels.conv_pool.channel_lanes.channels_last import (
    ChannelFrame,
    Turning,
    clear,
    count_group,
    finish_lines,
    multiply_rows,
    split_scratch,
    turn_lines_back,
)
from adjoint.compiler.kernels.conv_pool.channel_lanes.exact_sums import write_exact_channel
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_plan import WinogradPlan, are_whole_groups
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_shape import WinogradShape
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_transforms import (
    IMAGE_TRANSFORMS,
    SQUARE,
    WEIGHT_TRANSFORMS,
    keep,
    transform_rectangle,
    transform_result,
)
from adjoint.compiler.kernels.index_arithmetic import add_index, divmod_index, floor_div_index, modulo_index
from adjoint.compiler.kernels.kernel import Finish
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg, Type


class WinogradMemory(NamedTuple):
    """The addresses of a plan's regions."""

    weights: Reg
    turned: Reg
    frame: Reg
    images: Reg
    sums: Reg
    results: Reg
    lines: Reg


def write_winograd(
    b: Builder, plan: WinogradPlan, x: Reg, weight: Reg, scratch: Reg, tile: Reg, finish: Finish
) -> None:
    """The results of one tile, given to `finish`; `scratch` is the calling thread's own."""
    shape, type = plan.shape, plan.type
    vector = type.of(shape.lanes)
    memory = WinogradMemory(*split_scratch(b, scratch, plan.regions, type))
    turn = Turning(b, vector, min(shape.frame.places, shape.taps % shape.lanes or shape.lanes))
    first = b.mul(modulo_index(b, tile, shape.chunks), shape.width)
    start = b.mul(floor_div_index(b, tile, shape.chunks), plan.per_tile)
    end = b.minimum(b.add(start, plan.per_tile), plan.bands)
    if plan.parts == 1:
        _write_weights(b, plan, turn, weight, first, memory)
    clear(b, memory.frame, plan.frames * plan.frame.elements, vector)
    channels = b.minimum(b.sub(shape.outward, first), shape.width)
    size = shape.image[0] * shape.image[1]
    is_whole = are_whole_groups(plan)
    with b.loop(start, end, plan.group) as group:
        with b.loop(0, plan.parts) as part:
            summed = b.mul(part.index, plan.depth)
            if plan.parts > 1:
                own = b.gep(weight, b.mul(summed, plan.weight[1]), type)
                _write_weights(b, plan, turn, own, first, memory)
            inputs = b.gep(x, b.mul(summed, size), type)
            if plan.frames > 1:
                with b.loop(0, plan.group) as band:
                    _write_frame(b, plan, turn, inputs, group.index, end, band.index, memory)
            for number in range(len(shape.segments)):
                with b.loop(0, plan.group) as band:
                    if plan.frames == 1:
                        _write_frame(b, plan, turn, inputs, group.index, end, band.index, memory)
                    write_transformed_band(
                        b, shape, plan.frame, number, *_band_memory(b, plan, band.index, memory), plan.plane, vector
                    )
                if plan.is_joined:
                    is_first = b.eq(part.index, 0) if number == 0 else False
                    _add_products(b, plan, memory, number, b.constant(0, I64), b.constant(plan.squares, I64), is_first)
        is_bad = b.hor(b.isnan(_write_results(b, plan, memory)))
        with b.loop(0, count_group(b, group.index, end, plan.group, is_whole)) as band:
            image, row = find_band(b, shape, b.add(group.index, band.index))
            own = b.gep(
                memory.results,
                b.mul(band.index, shape.square_count * math.prod(shape.step) * shape.width),
                type,
            )
            turn_lines_back(b, turn, own, _find_places(shape), memory.lines, plan.line, shape.width)
            with b.when(is_bad), b.loop(0, channels) as channel:
                source = b.gep(x, b.mul(image, shape.channels * size), type)
                own = b.gep(weight, b.mul(b.add(first, channel.index), plan.weight[0]), type)
                line = b.gep(memory.lines, b.mul(channel.index, plan.line), type)
                write_exact_channel(b, shape, source, own, plan.weight[1], plan.is_flipped, row, line, vector)
            with b.loop(0, channels) as channel:
                line = b.gep(memory.lines, b.mul(channel.index, plan.line), type)
                origin = [image, b.add(first, channel.index)]
                height, width = shape.band
                if plan.apart:
                    finish_lines(b, line, (height,), width, origin, row, finish, vector)
                else:
                    finish_lines(b, line, (), height * width, origin, b.mul(row, width), finish, vector)


def find_band(b: Builder, shape: WinogradShape, number: Reg) -> tuple[Reg, Reg]:
    """Return the image of a band, and its first row of the result."""
    image, band = divmod_index(b, number, shape.bands)
    return image, b.mul(band, shape.band[0])


def _write_weights(
    b: Builder, plan: WinogradPlan, turn: Turning, weight: Reg, first: Reg, memory: WinogradMemory
) -> None:
    """The transformed weights of a chunk: for each product and summed channel, those of the result's channels."""
    shape, type, vector = plan.shape, plan.type, turn.vector
    lanes, width, window, turned = shape.lanes, shape.width, shape.taps, memory.turned
    lines = b.table([min(o, shape.outward - 1) * plan.weight[0] for o in range(shape.chunks * width)], I64)
    columns = turn.even_table(lanes)
    loops = (plan.depth, 1), (width, lanes)
    # The inner loop goes along what are neighbours in memory: it then reads a few streams, and all of each cache line.
    is_turned = plan.weight[0] > plan.weight[1]
    with (
        b.loop(0, *loops[is_turned]) as outer,
        b.loop(0, *loops[not is_turned]) as inner,
    ):
        summed, channel = (inner, outer) if is_turned else (outer, inner)
        rows = b.gep(lines, b.add(first, channel.index), I64)
        own = b.gep(weight, b.mul(summed.index, plan.weight[1]), type)
        for tap in range(0, window, lanes):
            turn(b.gep(own, tap, type), rows, b.gep(turned, tap * lanes, type), columns, min(lanes, window - tap))
        to = b.gep(b.gep(memory.weights, b.mul(summed.index, width), type), channel.index, type)
        written = 0
        for down, across in shape.segments:
            places = [
                (down.first + row) * shape.window[1] + across.first + column
                for row in range(down.taps)
                for column in range(across.taps)
            ]
            order = [window - 1 - place for place in places] if plan.is_flipped else places
            taps = [b.load(b.gep(turned, tap * lanes, type), vector) for tap in order]
            transforms = WEIGHT_TRANSFORMS[len(down.points)], WEIGHT_TRANSFORMS[len(across.points)]
            for value in transform_rectangle(b, transforms, taps, across.taps):
                b.store(value, b.gep(to, written * plan.weight_plane, type))
                written += 1


def _write_frame(
    b: Builder, plan: WinogradPlan, turn: Turning, x: Reg, first: Reg, end: Reg, band: Reg, memory: WinogradMemory
) -> None:
    """The frame of a group's band."""
    shape = plan.shape
    number = b.add(first, band)
    if not are_whole_groups(plan):  # the last one takes the place of those that there are not
        number = b.minimum(number, b.sub(end, 1))
    image, row = find_band(b, shape, number)
    source = b.gep(x, b.mul(image, shape.channels * shape.image[0] * shape.image[1]), plan.type)
    frame_band(b, shape, plan.frame, turn, source, row, _band_memory(b, plan, band, memory)[0])


def _band_memory(b: Builder, plan: WinogradPlan, band: Reg, memory: WinogradMemory) -> tuple[Reg, Reg]:
    """The addresses of the frame of a group's band, and of the first of its transformed squares."""
    frame = memory.frame
    if plan.frames > 1:
        frame = b.gep(frame, b.mul(band, plan.frame.elements), plan.type)
    return frame, b.gep(memory.images, b.mul(band, plan.shape.square_count * plan.frame.pitch), plan.type)


def frame_band(
    b: Builder, shape: WinogradShape, framed: ChannelFrame, turn: Turning, source: Reg, first: Reg, frame: Reg
) -> None:
    """An image among zeros, or a band of it from a row of the result on."""
    if shape.bands > 1:
        framed.write_band(b, turn, source, frame, b.sub(first, shape.padding[0]))
    else:
        framed.write(b, turn, source, frame)


def write_transformed_band(
    b: Builder,
    shape: WinogradShape,
    framed: ChannelFrame,
    number: int,
    frame: Reg,
    images: Reg,
    plane: int,
    vector: Type,
) -> None:
    """The transformed part of a frame that a segment sees: for each product and square, all channels."""
    down, across = shape.segments[number]
    transforms = IMAGE_TRANSFORMS[len(down.points)], IMAGE_TRANSFORMS[len(across.points)]
    rows, columns = (n + segment.taps - 1 for n, segment in zip(shape.step, (down, across), strict=True))
    frame = b.gep(frame, framed.offset(down.first * shape.dilation[0], across.first * shape.dilation[1]), vector)
    with (
        b.loop(0, shape.squares[0]) as row,
        b.loop(0, shape.squares[1]) as column,
        b.loop(0, framed.pitch, shape.lanes) as channel,
    ):
        at = find_square(b, shape, framed, row.index, column.index)
        source = b.gep(frame, b.add(at, channel.index), vector)
        seen = [
            b.load(b.gep(source, framed.offset(r * shape.dilation[0], c * shape.dilation[1]), vector), vector)
            for r in range(rows)
            for c in range(columns)
        ]
        square = b.add(b.mul(row.index, shape.squares[1]), column.index)
        to = b.gep(images, b.add(b.mul(square, framed.pitch), channel.index), vector)
        for i, value in enumerate(transform_rectangle(b, transforms, seen, columns)):
            b.store(value, b.gep(to, i * plane, vector))


def find_square(b: Builder, shape: WinogradShape, framed: ChannelFrame, row: Reg, column: Reg) -> Reg:
    """The first element of a frame that a square sees; its elements are as far apart as the dilation says."""
    places = []
    for index, count, each, gap in zip((row, column), shape.squares, shape.step, shape.dilation, strict=True):
        phase, within = divmod_index(b, index, count // gap) if gap > 1 else (0, index)
        places.append(add_index(b, b.mul(within, gap * each), phase))
    return b.add(b.mul(places[0], framed.offset(1, 0)), b.mul(places[1], framed.offset(0, 1)))


def _write_results(b: Builder, plan: WinogradPlan, memory: WinogradMemory) -> Reg:
    """The results of a group, square by square; gives a register with a NaN where any is not finite."""
    zero = b.constant(0.0, plan.type.of(plan.shape.lanes))
    with b.loop(0, plan.squares, plan.span, carried=[zero]) as span:
        end = b.minimum(b.add(span.index, plan.span), plan.squares)
        if not plan.is_joined:
            _add_products(b, plan, memory, 0, span.index, end, True)
        span.yields(_transform_sums(b, plan, memory, span.index, end, *span.carried))
    return span.results[0]


def _add_products(
    b: Builder, plan: WinogradPlan, memory: WinogradMemory, number: int, first: Reg, end: Reg, is_first: Reg | bool
) -> None:
    """The products of a segment for some squares, from the first on: new sums, or added to those that there are."""
    shape, type, rows, lanes = plan.shape, plan.type, plan.rows, plan.shape.lanes
    vector, pitch = type.of(lanes), plan.frame.pitch
    zero = b.constant(0.0, vector)
    none = (zero,) * (rows * plan.vectors)
    counts = [len(down.points) * len(across.points) for down, across in shape.segments]
    down, across = shape.segments[number]
    width = len(shape.segments[0][1].points)
    places = b.table([(r * width + c) * plan.sum_plane for r in down.points for c in across.points], I64)
    weights = b.gep(memory.weights, sum(counts[:number]) * plan.weight_plane, type)
    # The weights of a block stay in the first cache while all squares pass.
    with (
        b.loop(0, counts[number]) as product,
        b.loop(0, shape.width, plan.vectors * lanes) as channel,
        b.loop(first, end, rows) as block,
    ):
        own = b.gep(memory.images, b.add(b.mul(product.index, plan.plane), b.mul(block.index, pitch)), type)
        right = b.gep(weights, b.add(b.mul(product.index, plan.weight_plane), channel.index), type)
        below = [row * pitch for row in range(rows)]
        totals = multiply_rows(b, none, own, below, 1, right, shape.width, plan.depth, vector)
        place = b.load(b.gep(places, product.index, I64), I64)
        place = b.add(place, channel.index)
        to = b.gep(memory.sums, b.add(place, b.mul(b.sub(block.index, first), shape.width)), type)
        for i, total in enumerate(totals):
            row, v = divmod(i, plan.vectors)
            waiting = b.gep(to, row * shape.width + v * lanes, type)
            if is_first is not True:
                before = b.load(waiting, vector)
                total = b.add(total, before if is_first is False else b.select(is_first, zero, before))
            b.store(total, waiting)


def _transform_sums(b: Builder, plan: WinogradPlan, memory: WinogradMemory, first: Reg, end: Reg, is_bad: Reg) -> Reg:
    """The results of some squares, of which the first one's sums come first."""
    shape, type, lanes, width = plan.shape, plan.type, plan.shape.lanes, plan.shape.width
    vector = type.of(lanes)
    zero = b.constant(0.0, vector)
    (rows, columns), (down, across) = shape.step, shape.squares
    line = columns * across * width
    places = [
        (image * down + row) * rows * line + column * columns * width
        for image in range(plan.group)
        for row in range(down)
        for column in range(across)
    ]
    places += [plan.group * down * rows * line] * (plan.squares - len(places))  # behind all results
    table = b.table(places, I64)
    transforms = tuple(transform_result if n == SQUARE else keep for n in shape.step)
    with b.loop(first, end, carried=[is_bad]) as square:
        place = b.load(b.gep(table, square.index, I64), I64)
        source = b.gep(memory.sums, b.mul(b.sub(square.index, first), width), type)
        target = b.gep(memory.results, place, type)
        with b.loop(0, width, lanes, carried=square.carried) as channel:
            at, to = b.gep(source, channel.index, type), b.gep(target, channel.index, type)
            found = [b.load(b.gep(at, i * plan.sum_plane, type), vector) for i in range(shape.sums)]
            (is_bad,) = channel.carried
            values = transform_rectangle(b, (transforms[0], transforms[1]), found, len(shape.segments[0][1].points))
            for i, value in enumerate(values):
                b.store(value, b.gep(to, i // columns * line + i % columns * width, type))
                is_bad = b.fma(value, zero, is_bad)
            channel.yields(is_bad)
        square.yields(*channel.results)
    return square.results[0]


def _find_places(shape: WinogradShape) -> list[int]:
    """The first element of each place of a band of the result, among those of its squares."""
    lengths = [each * n for each, n in zip(shape.step, shape.squares, strict=True)]
    rows, columns = (
        [place % gap * (length // gap) + place // gap for place in range(n)]
        for n, length, gap in zip(shape.band, lengths, shape.dilation, strict=True)
    )
    return [(row * lengths[1] + column) * shape.width for row in rows for column in columns]

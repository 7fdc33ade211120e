"""The gradient of a convolution's weight by squares: Winograd's F(2×2, 3×3), with lanes that are the result's channels.

A tile owns a chunk of the result's channels. A few images and their gradients at a time are turned and transformed; for
each of the 16 products, the rows of some of the image's channels are multiplied with those of the gradient, and added
to the sums over all squares and images. The segments of other windows follow each other, with products of their own.
The sums are transformed to the gradients of weights at the end, turned back, and finished channel by channel: or added
up again, term by term, where one is not finite.
"""

from __future__ import annotations

from itertools import islice

from adjoint.compiler.ir.symbolic_size import is_multiple
from adjoint.compiler.kernels.conv_pool.channel_lanes.channels_last import (
    Turning,
    clear,
    count_group,
    finish_lines,
    multiply_rows,
    round_up,
    split_scratch,
)
from adjoint.compiler.kernels.conv_pool.channel_lanes.exact_sums import write_exact_weight
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd import (
    find_band,
    find_square,
    frame_band,
    write_transformed_band,
)
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_transforms import (
    SQUARE,
    WEIGHT_GRADIENT_TRANSFORMS,
    keep,
    transform_gradient,
    transform_rectangle,
)
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_weight_plan import WinogradWeightPlan
from adjoint.compiler.kernels.index_arithmetic import Index, as_index, divmod_index, scale_index
from adjoint.compiler.kernels.kernel import Finish
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg, Type


def write_winograd_weight(
    b: Builder, plan: WinogradWeightPlan, x: Reg, g: Reg, scratch: Reg, tile: Reg, finish: Finish
) -> None:
    """The gradients that one tile owns, given to `finish`; `scratch` is the calling thread's own."""
    shape, type = plan.shape, plan.type
    vector = type.of(shape.lanes)
    frame, gradient_frame, images, gradients, sums, weights, lines = split_scratch(b, scratch, plan.regions, type)
    turn = Turning(b, vector, min(shape.frame.places, plan.gradient_frame.places))
    part, chunk = divmod_index(b, tile, shape.chunks)
    first, inner = b.mul(chunk, shape.width), b.mul(part, shape.channels)
    clear(b, frame, plan.frames * shape.frame.elements, vector)
    clear(b, gradient_frame, plan.gradient_frame.elements, vector)
    size, count = shape.image[0] * shape.image[1], shape.places[0] * shape.places[1]
    inputs = plan.parts * shape.channels * size
    x = b.gep(x, b.mul(inner, size), type)
    with b.loop(0, as_index(b, plan.bands), plan.group) as group:
        present = count_group(b, group.index, plan.bands, plan.group, is_multiple(plan.bands, plan.group))
        with b.loop(0, present) as band:
            image, row = find_band(b, shape, b.add(group.index, band.index))
            source = b.gep(x, b.mul(image, inputs), type)
            places = _band_memory(b, plan, band.index, frame, images)
            frame_band(b, shape, shape.frame, turn, source, row, places[0])
            if len(shape.segments) == 1:
                write_transformed_band(b, shape, shape.frame, 0, *places, plan.plane, vector)
            own = b.gep(gradients, b.mul(band.index, shape.square_count * shape.width), type)
            source = b.gep(g, b.mul(image, shape.outward * count), type)
            _write_gradients(b, plan, turn, source, row, first, gradient_frame, own)
        squares = scale_index(b, present, shape.square_count)
        for number in range(len(shape.segments)):
            if len(shape.segments) > 1:
                with b.loop(0, present) as band:
                    places = _band_memory(b, plan, band.index, frame, images)
                    write_transformed_band(b, shape, shape.frame, number, *places, plan.plane, vector)
            _add_products(b, plan, number, images, gradients, sums, squares, b.eq(group.index, 0), vector)
    is_bad = b.hor(b.isnan(_write_weights(b, plan, sums, weights, vector)))
    channels = b.minimum(b.sub(shape.outward, first), shape.width)
    with b.loop(0, channels, shape.lanes) as channel:
        _turn_back(b, plan, turn, b.gep(weights, channel.index, type), lines)
        with b.loop(0, b.minimum(b.sub(channels, channel.index), shape.lanes)) as lane:
            outer = b.add(b.add(first, channel.index), lane.index)
            line = b.gep(lines, b.mul(lane.index, plan.line), type)
            with b.when(is_bad):
                theirs = b.gep(g, b.mul(outer, count), type)
                write_exact_weight(b, shape, x, theirs, plan.images, inputs, line, vector)
            if plan.apart:
                lines_of_channel = (shape.channels, shape.window[0])[: plan.apart]
                finish_lines(b, line, lines_of_channel, shape.window[1], [outer], inner, finish, vector)
            else:
                length = shape.channels * shape.taps
                finish_lines(b, line, (), length, [outer], b.mul(inner, shape.taps), finish, vector)


def _band_memory(b: Builder, plan: WinogradWeightPlan, band: Reg, frame: Reg, images: Reg) -> tuple[Reg, Reg]:
    """The addresses of the frame of a group's band, and of the first of its transformed squares."""
    framed, type = plan.shape.frame, plan.type
    own = b.gep(frame, b.mul(band, framed.elements), type) if plan.frames > 1 else frame
    return own, b.gep(images, b.mul(band, plan.shape.square_count * framed.pitch), type)


def _write_gradients(
    b: Builder,
    plan: WinogradWeightPlan,
    turn: Turning,
    source: Reg,
    top: Reg,
    channels: Reg,
    frame: Reg,
    gradients: Reg,
) -> None:
    """The transformed gradient of a band: for each product and square, the channels of the chunk."""
    shape, framed, vector = plan.shape, plan.gradient_frame, turn.vector
    if shape.bands > 1:
        framed.write_band(b, turn, source, frame, top, channels)
    else:
        framed.write(b, turn, source, frame, channels)
    transforms = tuple(transform_gradient if n == SQUARE else keep for n in shape.step)
    down, across = shape.squares
    with b.loop(0, down) as row, b.loop(0, across) as column, b.loop(0, shape.width, shape.lanes) as channel:
        at = find_square(b, shape, framed, row.index, column.index)
        source = b.gep(frame, b.add(at, channel.index), vector)
        rows, columns = (range(0, each * gap, gap) for each, gap in zip(shape.step, shape.dilation, strict=True))
        places = [(r, c) for r in rows for c in columns]
        given = [b.load(b.gep(source, framed.offset(*place), vector), vector) for place in places]
        square = b.add(b.mul(row.index, across), column.index)
        to = b.gep(gradients, b.add(b.mul(square, shape.width), channel.index), vector)
        for i, value in enumerate(transform_rectangle(b, (transforms[0], transforms[1]), given, len(columns))):
            b.store(value, b.gep(to, i * plan.gradient_plane, vector))


def _add_products(
    b: Builder,
    plan: WinogradWeightPlan,
    number: int,
    images: Reg,
    gradients: Reg,
    sums: Reg,
    squares: Index,
    is_first: Reg,
    vector: Type,
) -> None:
    """The products of a segment of some images and their gradients, added to the sums over all squares."""
    shape, type, rows, lanes = plan.shape, plan.type, plan.rows, plan.shape.lanes
    counts = [len(down.points) * len(across.points) for down, across in shape.segments]
    down, across = shape.segments[number]
    width = len(shape.segments[0][1].points)
    planes = b.table([(r * width + c) * plan.gradient_plane for r in down.points for c in across.points], I64)
    with b.loop(0, counts[number]) as product:
        left = b.gep(images, b.mul(product.index, plan.plane), type)
        right = b.gep(gradients, b.load(b.gep(planes, product.index, I64), I64), type)
        to = b.gep(sums, b.mul(b.add(product.index, sum(counts[:number])), plan.sums), type)
        with (
            b.loop(0, shape.width, plan.vectors * lanes) as outer,
            b.loop(0, round_up(shape.channels, rows), rows) as channel,
        ):
            own, seen = b.gep(left, channel.index, type), b.gep(right, outer.index, type)
            waiting = b.gep(to, b.add(b.mul(channel.index, shape.width), outer.index), type)
            places = [
                b.gep(waiting, row * shape.width + v * lanes, type) for row in range(rows) for v in range(plan.vectors)
            ]
            zero = b.constant(0.0, vector)
            none = (zero,) * len(places)
            totals = multiply_rows(b, none, own, range(rows), shape.frame.pitch, seen, shape.width, squares, vector)
            for place, total in zip(places, totals, strict=True):
                b.store(b.add(b.select(is_first, zero, b.load(place, vector)), total), place)


def _write_weights(b: Builder, plan: WinogradWeightPlan, sums: Reg, weights: Reg, vector: Type) -> Reg:
    """The gradients of weights, tap by tap; gives a register with a NaN where any is not finite."""
    shape, type = plan.shape, plan.type
    zero = b.constant(0.0, vector)
    with b.loop(0, shape.channels, carried=[zero]) as channel:
        own = b.gep(sums, b.mul(channel.index, shape.width), type)
        to = b.gep(weights, b.mul(channel.index, shape.taps * shape.width), type)
        with b.loop(0, shape.width, shape.lanes, carried=channel.carried) as outer:
            at, place = b.gep(own, outer.index, type), b.gep(to, outer.index, type)
            found = iter([b.load(b.gep(at, i * plan.sums, type), vector) for i in range(shape.products)])
            (is_bad,) = outer.carried
            for down, across in shape.segments:
                points = len(down.points), len(across.points)
                transforms = WEIGHT_GRADIENT_TRANSFORMS[points[0]], WEIGHT_GRADIENT_TRANSFORMS[points[1]]
                values = transform_rectangle(b, transforms, list(islice(found, points[0] * points[1])), points[1])
                for i, value in enumerate(values):
                    row, column = divmod(i, across.taps)
                    tap = (down.first + row) * shape.window[1] + across.first + column
                    b.store(value, b.gep(place, tap * shape.width, type))
                    is_bad = b.fma(value, zero, is_bad)
            outer.yields(is_bad)
        channel.yields(*outer.results)
    return channel.results[0]


def _turn_back(b: Builder, plan: WinogradWeightPlan, turn: Turning, weights: Reg, lines: Reg) -> None:
    """The gradients of the weights of as many channels of the result as a register has lanes, channel by channel."""
    shape, type, lanes = plan.shape, plan.type, plan.shape.lanes
    rows, columns = turn.even_table(shape.width), turn.even_table(plan.line)
    with b.loop(0, shape.channels * shape.taps, lanes) as place:
        source = b.gep(weights, b.mul(place.index, shape.width), type)
        turn(source, rows, b.gep(lines, place.index, type), columns, lanes)

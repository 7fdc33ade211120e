"""Convolution by squares, forward and towards the input: Winograd's F(2×2, 3×3), with lanes that are channels.

A tile is a chunk of the result's channels for some images. It transforms the weights of its channels once. A few images
at a time are turned and transformed; for each of the 16 products, the rows of some squares, an element of each summed
channel in each, are multiplied with the weights. What the result's transform makes of these sums is turned back, and
finished channel by channel.

A sum of elements that are not finite is not finite either where a window does not see them. So where any result of some
images is not finite, all of them are computed again, term by term.
"""

from __future__ import annotations

from adjoint.compiler.kernels.conv_pool.channel_lanes.channels_last import (
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
    PRODUCTS,
    SEEN,
    SQUARE,
    TAPS,
    transform_image,
    transform_result,
    transform_square,
    transform_weight,
)
from adjoint.compiler.kernels.index_arithmetic import divmod_index, floor_div_index, modulo_index
from adjoint.compiler.kernels.kernel import Finish
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg


def write_winograd(
    b: Builder, plan: WinogradPlan, x: Reg, weight: Reg, scratch: Reg, tile: Reg, finish: Finish
) -> None:
    """The results of one tile, given to `finish`; `scratch` is the calling thread's own."""
    shape, type = plan.shape, plan.type
    vector = type.of(shape.lanes)
    weights, turned, frame, images, sums, results, lines = split_scratch(b, scratch, plan.regions, type)
    turn = Turning(b, vector)
    first = b.mul(modulo_index(b, tile, shape.chunks), shape.width)
    start = b.mul(floor_div_index(b, tile, shape.chunks), plan.per_tile)
    end = b.minimum(b.add(start, plan.per_tile), plan.bands)
    _write_weights(b, plan, turn, weight, first, turned, weights)
    clear(b, frame, shape.frame.elements, vector)
    channels = b.minimum(b.sub(shape.outward, first), shape.width)
    size = shape.image[0] * shape.image[1]
    is_whole = are_whole_groups(plan)
    with b.loop(start, end, plan.group) as group:
        with b.loop(0, plan.group) as band:
            number = b.add(group.index, band.index)
            if not is_whole:  # the last one takes the place of those that there are not
                number = b.minimum(number, b.sub(end, 1))
            own = b.gep(images, b.mul(band.index, shape.square_count * shape.frame.pitch), type)
            image, row = find_band(b, shape, number)
            source = b.gep(x, b.mul(image, shape.channels * size), type)
            write_transformed_band(b, shape, turn, source, row, frame, own, plan.plane)
        is_bad = b.hor(b.isnan(_multiply(b, plan, images, weights, sums, results)))
        with b.loop(0, count_group(b, group.index, end, plan.group, is_whole)) as band:
            image, row = find_band(b, shape, b.add(group.index, band.index))
            own = b.gep(results, b.mul(band.index, shape.square_count * SQUARE * SQUARE * shape.width), type)
            turn_lines_back(b, turn, own, _find_places(shape), lines, plan.line, shape.width)
            with b.when(is_bad), b.loop(0, channels) as channel:
                source = b.gep(x, b.mul(image, shape.channels * size), type)
                own = b.gep(weight, b.mul(b.add(first, channel.index), plan.weight[0]), type)
                line = b.gep(lines, b.mul(channel.index, plan.line), type)
                write_exact_channel(b, shape, source, own, plan.weight[1], plan.is_flipped, row, line, vector)
            with b.loop(0, channels) as channel:
                line = b.gep(lines, b.mul(channel.index, plan.line), type)
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
    b: Builder, plan: WinogradPlan, turn: Turning, weight: Reg, first: Reg, turned: Reg, weights: Reg
) -> None:
    """The transformed weights of a chunk: for each product and summed channel, those of the result's channels."""
    shape, type, vector = plan.shape, plan.type, turn.vector
    lanes, width, window = shape.lanes, shape.width, TAPS * TAPS
    lines = b.table([min(o, shape.outward - 1) * plan.weight[0] for o in range(shape.chunks * width)], I64)
    columns = turn.even_table(lanes)
    with b.loop(0, width, lanes) as channel:
        rows = b.gep(lines, b.add(first, channel.index), I64)
        with b.loop(0, shape.channels) as summed:
            own = b.gep(weight, b.mul(summed.index, plan.weight[1]), type)
            for tap in range(0, window, lanes):
                turn(b.gep(own, tap, type), rows, b.gep(turned, tap * lanes, type), columns, min(lanes, window - tap))
            order = range(window)[::-1] if plan.is_flipped else range(window)
            taps = [b.load(b.gep(turned, tap * lanes, type), vector) for tap in order]
            to = b.gep(b.gep(weights, b.mul(summed.index, width), type), channel.index, type)
            for i, value in enumerate(transform_square(b, transform_weight, taps)):
                b.store(value, b.gep(to, i * plan.weight_plane, type))


def write_transformed_band(
    b: Builder, shape: WinogradShape, turn: Turning, source: Reg, first: Reg, frame: Reg, images: Reg, plane: int
) -> None:
    """The transformed image, or a band from a row of the result on: for each product and square, all channels."""
    vector = turn.vector
    if shape.bands > 1:
        shape.frame.write_band(b, turn, source, frame, b.sub(first, shape.padding[0]))
    else:
        shape.frame.write(b, turn, source, frame)
    down, across = shape.squares
    framed = shape.frame
    with b.loop(0, down) as row, b.loop(0, across) as column, b.loop(0, framed.pitch, shape.lanes) as channel:
        at = b.add(b.mul(row.index, framed.offset(SQUARE, 0)), b.mul(column.index, framed.offset(0, SQUARE)))
        source = b.gep(frame, b.add(at, channel.index), vector)
        seen = [b.load(b.gep(source, framed.offset(r, c), vector), vector) for r in range(SEEN) for c in range(SEEN)]
        square = b.add(b.mul(row.index, across), column.index)
        to = b.gep(images, b.add(b.mul(square, framed.pitch), channel.index), vector)
        for i, value in enumerate(transform_square(b, transform_image, seen)):
            b.store(value, b.gep(to, i * plane, vector))


def _multiply(b: Builder, plan: WinogradPlan, images: Reg, weights: Reg, sums: Reg, results: Reg) -> Reg:
    """The results of a group, square by square; gives a register with a NaN where any is not finite."""
    shape, type, rows = plan.shape, plan.type, plan.rows
    lanes, width = shape.lanes, shape.width
    vector, pitch = type.of(lanes), shape.frame.pitch
    zero = b.constant(0.0, vector)
    down, across = shape.squares
    line = SQUARE * across * width
    places = [
        (image * down + row) * SQUARE * line + column * SQUARE * width
        for image in range(plan.group)
        for row in range(down)
        for column in range(across)
    ]
    places += [plan.group * down * SQUARE * line] * (plan.squares - len(places))  # behind all results
    table = b.table(places, I64)
    with b.loop(0, plan.squares, rows, carried=[zero]) as block:
        left = b.gep(images, b.mul(block.index, pitch), type)
        with b.loop(0, PRODUCTS) as product:
            own = b.gep(left, b.mul(product.index, plan.plane), type)
            right = b.gep(weights, b.mul(product.index, plan.weight_plane), type)
            below = [row * pitch for row in range(rows)]
            none = (zero,) * (rows * shape.vectors)
            totals = multiply_rows(b, none, own, below, 1, right, width, shape.channels, vector)
            to = b.gep(sums, b.mul(product.index, rows * width), type)
            for i, total in enumerate(totals):
                b.store(total, b.gep(to, i * lanes, type))
        with b.loop(0, rows, carried=block.carried) as row:
            place = b.load(b.gep(table, b.add(block.index, row.index), I64), I64)
            source = b.gep(sums, b.mul(row.index, width), type)
            target = b.gep(results, place, type)
            with b.loop(0, width, lanes, carried=row.carried) as channel:
                at, to = b.gep(source, channel.index, type), b.gep(target, channel.index, type)
                found = [b.load(b.gep(at, i * rows * width, type), vector) for i in range(PRODUCTS)]
                (is_bad,) = channel.carried
                for i, value in enumerate(transform_square(b, transform_result, found)):
                    b.store(value, b.gep(to, i // SQUARE * line + i % SQUARE * width, type))
                    is_bad = b.fma(value, zero, is_bad)
                channel.yields(is_bad)
            row.yields(*channel.results)
        block.yields(*row.results)
    return block.results[0]


def _find_places(shape: WinogradShape) -> list[int]:
    """The first element of each place of a band of the result, among those of its squares."""
    height, width = shape.band
    across = SQUARE * shape.squares[1]
    return [(row * across + column) * shape.width for row in range(height) for column in range(width)]

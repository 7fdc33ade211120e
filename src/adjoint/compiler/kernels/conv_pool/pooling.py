"""Pooling, forward and towards the input: a tile takes whole images, lanes run along a row of windows.

Where windows reach over the edge is known when the code is written: those rows and vectors have code of their own, with
constant masks, and all others share one loop. Towards the input each window adds to a stage (`stage`), unless windows
lie side by side, two elements wide at most: then what they give is a finished row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_known_less, is_multiple, is_symbolic_size
from adjoint.compiler.kernels.conv_pool.padded_image import load_places
from adjoint.compiler.kernels.conv_pool.pooling_plan import REGISTERS_PER_FINISH, PoolingPlan, Sizes, Tap
from adjoint.compiler.kernels.conv_pool.staging import interleave_lanes
from adjoint.compiler.kernels.conv_pool.window_edges import (
    as_mask,
    count_filled_lanes,
    find_inner_range,
    find_inside,
    find_line,
    find_valid_range,
    move_place,
    write_indices,
    write_lines,
    write_spans,
)
from adjoint.compiler.kernels.index_arithmetic import (
    Index,
    add_index,
    add_strided,
    require_known,
    scale_index,
    unravel_index,
)
from adjoint.compiler.kernels.kernel import Finish, ResultRegister
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I32, I64, Reg

Place = tuple[Index, Index]  # a slice, and a row of it


class WindowRow(NamedTuple):
    """A row of windows: its taps, and whether their slices, and their rows, are to be asked if they are inside."""

    place: Place
    taps: list[Tap]
    is_asked: tuple[bool, bool]


def write_pooling(b: Builder, plan: PoolingPlan, x: Reg, tile: Reg, finish: Finish) -> None:
    """The windows of one tile's images, summed or their largest, given to `finish`."""
    across = plan.axes[2]
    for image, lead in _images(b, plan, tile):
        source = b.gep(x, b.mul(image, math.prod(plan.large)), plan.type)
        for row in _rows(b, plan):
            for place, inner in write_spans(b, across.places, plan.lanes, find_inner_range(b, across)):
                value: Reg | None = None
                best: _Best | None = None
                for tap in row.taps:
                    seen, inside = _load_tap(b, plan, source, row, place, tap, inner)
                    if plan.largest:
                        best = _update_best(b, plan, best, seen, inside, None)
                        value = best.value
                    else:
                        value = seen if value is None else b.add(value, seen)
                if value is None:
                    value = b.constant(-math.inf if plan.largest else 0.0, plan.type.of(plan.lanes))
                filled = None if inner else count_filled_lanes(b, across.places, place, plan.lanes)
                _finish_row(b, plan, lead, row.place, place, plan.small, [value], [filled], finish)


def write_pooling_input(
    b: Builder, plan: PoolingPlan, g: Reg, x: Reg | None, scratch: Reg | None, tile: Reg, finish: Finish
) -> None:
    """The gradient of one tile's images, given to `finish`; x is read for the largest only."""
    deep, down, across = plan.axes
    for image, lead in _images(b, plan, tile):
        source = None if x is None else b.gep(x, b.mul(image, math.prod(plan.large)), plan.type)
        theirs = b.gep(g, b.mul(image, math.prod(plan.small)), plan.type)
        if plan.side_by_side:
            _write_rows(b, plan, theirs, source, lead, finish)
            continue
        assert scratch is not None
        vector = plan.type.of(plan.lanes)
        stage = plan.stage
        with b.loop(0, deep.length * stage.size, plan.lanes) as clear:
            b.store(b.constant(0.0, vector), b.gep(scratch, clear.index, plan.type))
        for row in _rows(b, plan):
            for place, inner in write_spans(b, across.places, plan.lanes, find_inner_range(b, across)):
                given = _route_gradient(b, plan, theirs, source, row, place, inner)
                first = add_strided(b, place, row.place[1], stage.pitch)
                for tap, value in given.items():
                    z, _ = find_line(b, deep, row.place[0], tap[0], row.is_asked[0])
                    at = b.gep(scratch, add_strided(b, first, z, stage.size), plan.type)
                    target = b.gep(at, plan.target(tap), plan.type)
                    b.store(b.add(b.load(target, vector), value), target)
        for z in write_indices(b, 0, deep.length):
            memory = b.gep(scratch, scale_index(b, z, stage.size), plan.type)
            with b.loop(0, down.length) as line:
                _read_row(b, plan, memory, lead, (z, line.index), finish)


def _read_row(b: Builder, plan: PoolingPlan, stage: Reg, lead: Sequence[Reg], row: Place, finish: Finish) -> None:
    """One row of a stage, given to `finish`."""
    length = plan.large[2]
    for place, full in write_spans(b, length, REGISTERS_PER_FINISH * plan.lanes, (0, length)):
        start = add_index(b, place, 0)
        is_known = full or is_symbolic_size(length)
        count = REGISTERS_PER_FINISH if is_known else -(-(length - require_known(place)) // plan.lanes)
        values = [plan.stage.read(b, stage, add_index(b, row[1], 0), start, v * plan.lanes) for v in range(count)]
        masks = [
            None if full else count_filled_lanes(b, length, move_place(b, place, v * plan.lanes), plan.lanes)
            for v in range(count)
        ]
        _finish_row(b, plan, lead, row, place, plan.large, values, masks, finish)


def _write_rows(b: Builder, plan: PoolingPlan, g: Reg, x: Reg | None, lead: Sequence[Reg], finish: Finish) -> None:
    """The gradient of windows side by side, row by row; zeros for rows and columns that are left over."""
    deep, down, across = plan.axes
    width, lanes = across.length, plan.lanes
    zero = b.constant(0.0, plan.type.of(lanes))

    def hand(row: Place, place: Index, inner: bool, values: list[Reg]) -> None:
        """Registers of one row from the first element of a place on."""
        column = place * across.taps if isinstance(place, int) else b.mul(place, across.taps)
        masks = [
            None if inner else count_filled_lanes(b, width, move_place(b, column, v * lanes), lanes)
            for v in range(len(values))
        ]
        kept = [(v, m) for v, m in zip(values, masks, strict=True) if type(m) is not int or m]
        _finish_row(b, plan, lead, row, column, plan.large, [v for v, _ in kept], [m for _, m in kept], finish)

    def hand_zeros(z: Index, first: int) -> None:
        """The rows of a slice from the first on, as zeros."""
        if not is_known_less(down.length, first + 1):
            with b.loop(first, down.length) as rest:
                for place, inner in write_spans(b, columns, lanes, (0, width // across.taps)):
                    hand((z, rest.index), place, inner, [zero] * across.taps)

    columns = -(-width // across.taps)
    taps = _taps(plan, range(deep.taps), range(down.taps))
    for z in write_indices(b, 0, deep.places):
        with b.loop(0, down.places) as line:
            windows = WindowRow((z, line.index), taps, (False, False))
            for place, inner in write_spans(b, columns, lanes, (0, across.places)):
                given = _route_gradient(b, plan, g, x, windows, place, inner)
                for k in range(deep.taps):
                    for i in range(down.taps):
                        row = add_strided(b, k, z, deep.taps), add_index(b, b.mul(line.index, down.taps), i)
                        # A sum that begins at 0, so that -0 is 0 here as elsewhere.
                        values = [b.add(given[k, i, j], 0.0) for j in range(across.taps)]
                        if across.taps == 2:
                            values = [interleave_lanes(b, values[0], values[1], start, lanes) for start in (0, lanes)]
                        hand(row, place, inner, values)
        for k in range(deep.taps):
            hand_zeros(add_strided(b, k, z, deep.taps), down.places * down.taps)
    for z in write_indices(b, deep.places * deep.taps, deep.length):
        hand_zeros(z, 0)


def _route_gradient(
    b: Builder, plan: PoolingPlan, g: Reg, x: Reg | None, row: WindowRow, place: Index, inner: bool
) -> dict[Tap, Reg]:
    """Return the share that each tap of some windows has in their g: all, or where it is the largest."""
    _, down, across = plan.axes
    lanes = plan.lanes
    vector = plan.type.of(lanes)
    zero = b.constant(0.0, vector)
    filled = None if inner else count_filled_lanes(b, across.places, place, lanes)
    pointer = b.gep(g, _element(b, row.place, place, plan.small), plan.type)
    given = zero if type(filled) is int and not filled else b.load(pointer, vector, filled)
    if not plan.largest:
        masks = {tap: _find_inside(b, plan, row, place, tap, inner) for tap in row.taps}
        return {tap: given if m is None else b.select(as_mask(b, m), given, zero) for tap, m in masks.items()}
    assert x is not None

    def number(tap: Tap) -> int:
        return (tap[0] * down.taps + tap[1]) * across.taps + tap[2]

    best: _Best | None = None
    for tap in row.taps:
        seen, inside = _load_tap(b, plan, x, row, place, tap, inner)
        best = _update_best(b, plan, best, seen, inside, number(tap))
    if best is None or best.tap is None:
        return {}
    return {tap: b.select(b.eq(best.tap, number(tap)), given, zero) for tap in row.taps}


class _Best(NamedTuple):
    value: Reg
    tap: Reg | None  # the number of the largest one


def _update_best(
    b: Builder, plan: PoolingPlan, best: _Best | None, seen: Reg, inside: Reg | list[bool] | None, tap: int | None
) -> _Best:
    """The largest so far, where taps come last to first: of equal ones the later one here is the first of all."""
    vector = plan.type.of(plan.lanes)
    index = (I64 if plan.type.bits == 64 else I32).of(plan.lanes)
    number = None if tap is None else b.constant(tap, index)
    if best is None:
        if inside is None:
            return _Best(seen, number)
        best = _Best(b.constant(-math.inf, vector), number)
    better = b.logical_or(b.ge(seen, best.value), b.isnan(seen))
    if inside is not None:
        better = b.logical_and(better, as_mask(b, inside))
    value = b.select(better, seen, best.value)
    return _Best(value, None if number is None or best.tap is None else b.select(better, number, best.tap))


def _load_tap(
    b: Builder, plan: PoolingPlan, image: Reg, row: WindowRow, place: Index, tap: Tap, inner: bool
) -> tuple[Reg, Reg | list[bool] | None]:
    """The elements a tap sees from `place` on, 0 outside, and which lanes are inside, None for all."""
    across = plan.axes[2]
    vector = plan.type.of(plan.lanes)
    inside = _find_inside(b, plan, row, place, tap, inner)
    if isinstance(inside, list) and not any(inside):
        return b.constant(0.0, vector), inside
    (z, _), (y, _) = (
        find_line(b, a, at, t, asked)
        for t, at, a, asked in zip(tap[:2], row.place, plan.axes[:2], row.is_asked, strict=True)
    )
    pointer = b.gep(image, _element(b, (z, y), 0, plan.large), plan.type)
    limits = None if inner else find_valid_range(b, across, tap[2])
    column = tap[2] * across.dilation - across.padding
    seen = load_places(b, pointer, place, column, across.stride, limits, vector)
    if any(row.is_asked) and inside is not None:
        seen = b.select(as_mask(b, inside), seen, b.constant(0.0, vector))
    return seen, inside


def _find_inside(
    b: Builder, plan: PoolingPlan, row: WindowRow, place: Index, tap: Tap, inner: bool
) -> Reg | list[bool] | None:
    """Return the lanes for which a tap is inside, None for all."""
    inside = find_inside(b, plan.axes[2], place, tap[2], plan.lanes, inner)
    for axis, at, t, is_asked in zip(plan.axes, row.place, tap, row.is_asked, strict=False):
        _, found = find_line(b, axis, at, t, is_asked)
        if found is not None:
            spread = b.broadcast(found, plan.lanes)
            inside = spread if inside is None else b.logical_and(as_mask(b, inside), spread)
    return inside


def _taps(plan: PoolingPlan, slices: range, rows: range) -> list[Tap]:
    """Taps in some slices and rows of a window, last to first for the largest."""
    taps = list(product(slices, rows, range(plan.axes[2].taps)))
    return taps[::-1] if plan.largest else taps


def _rows(b: Builder, plan: PoolingPlan) -> Iterator[WindowRow]:
    """Write the loops over slices and rows of windows."""
    deep, down, _ = plan.axes
    for z, slices, is_slice_asked in write_lines(b, deep, are_alike=True):
        for y, rows, is_row_asked in write_lines(b, down):
            yield WindowRow((z, y), _taps(plan, slices, rows), (is_slice_asked, is_row_asked))


def _element(b: Builder, row: Place, place: Index, sizes: Sizes) -> Reg:
    """Return the index of an element of an image of these sizes."""
    return add_strided(b, add_strided(b, place, row[1], sizes[2]), row[0], sizes[1] * sizes[2])


def _images(b: Builder, plan: PoolingPlan, tile: Reg) -> Iterator[tuple[Reg, list[Reg]]]:
    """Write the loop over a tile's images: gives each one's number, and its index in the first dimensions."""
    start = b.mul(tile, plan.per_tile)
    end = b.add(start, plan.per_tile)
    if not is_multiple(plan.images, plan.per_tile):
        end = b.minimum(end, plan.images)
    with b.loop(start, end) as loop:
        yield loop.index, unravel_index(b, loop.index, plan.lead)


def _finish_row(
    b: Builder,
    plan: PoolingPlan,
    lead: Sequence[Reg],
    row: Place,
    column: Index,
    sizes: Sizes,
    values: Sequence[Reg],
    masks: Sequence[Reg | int | None],
    finish: Finish,
) -> None:
    """Registers of one row of an image of these sizes, from `column` on, to `finish`."""
    place = add_index(b, column, 0) if plan.apart else _element(b, row, column, sizes)
    origin = [*lead, *(add_index(b, at, 0) for at in row[2 - plan.apart :]), place]
    before = (0,) * (len(origin) - 1)
    parts = [
        ResultRegister((*before, v * plan.lanes), value, mask)
        for v, (value, mask) in enumerate(zip(values, masks, strict=True))
    ]
    finish(origin, parts)

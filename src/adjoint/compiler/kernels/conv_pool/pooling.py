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

from adjoint.compiler.ir.symbolic_size import is_multiple
from adjoint.compiler.kernels.conv_pool.padded_image import load_places
from adjoint.compiler.kernels.conv_pool.pooling_plan import REGISTERS_PER_FINISH, Axis, PoolingPlan, Sizes, Tap
from adjoint.compiler.kernels.conv_pool.staging import Pair, interleave_lanes
from adjoint.compiler.kernels.index_arithmetic import Index, add_index, add_strided, scale_index, unravel_index
from adjoint.compiler.kernels.kernel import Finish, ResultRegister
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, I32, I64, Reg

Row = tuple[Index, Index]  # a slice, and a row of it


def write_pooling(b: Builder, plan: PoolingPlan, x: Reg, tile: Reg, finish: Finish) -> None:
    """The windows of one tile's images, summed or their largest, given to `finish`."""
    across = plan.axes[2]
    for image, lead in _images(b, plan, tile):
        source = b.gep(x, b.mul(image, math.prod(plan.large)), plan.type)
        for row, taps in _rows(b, plan):
            for place, inner in spans(b, across.places, plan.lanes, across.inner):
                value: Reg | None = None
                best: _Best | None = None
                for tap in taps:
                    seen, inside = _load_tap(b, plan, source, row, place, tap, inner)
                    if plan.largest:
                        best = _update_best(b, plan, best, seen, inside, None)
                        value = best.value
                    else:
                        value = seen if value is None else b.add(value, seen)
                if value is None:
                    value = b.constant(-math.inf if plan.largest else 0.0, plan.type.of(plan.lanes))
                filled = None if inner else _count_filled_lanes(across.places, place, plan.lanes)
                _finish_row(b, plan, lead, row, place, plan.small, [value], [filled], finish)


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
        for row, taps in _rows(b, plan):
            for place, inner in spans(b, across.places, plan.lanes, across.inner):
                given = _route_gradient(b, plan, theirs, source, row, taps, place, inner)
                first = add_strided(b, place, row[1], stage.pitch)
                at = b.gep(scratch, add_strided(b, first, row[0], deep.stride * stage.size), plan.type)
                for tap, value in given.items():
                    target = b.gep(at, plan.target(tap), plan.type)
                    b.store(b.add(b.load(target, vector), value), target)
        for z in _indices(b, 0, deep.length):
            memory = b.gep(scratch, scale_index(b, z, stage.size), plan.type)
            with b.loop(0, down.length) as line:
                _read_row(b, plan, memory, lead, (z, line.index), finish)


def _read_row(b: Builder, plan: PoolingPlan, stage: Reg, lead: Sequence[Reg], row: Row, finish: Finish) -> None:
    """One row of a stage, given to `finish`."""
    length = plan.large[2]
    for place, full in spans(b, length, REGISTERS_PER_FINISH * plan.lanes, (0, length)):
        start = add_index(b, place, 0)
        count = REGISTERS_PER_FINISH if full else -(-(length - _require_known(place)) // plan.lanes)
        values = [plan.stage.read(b, stage, add_index(b, row[1], 0), start, v * plan.lanes) for v in range(count)]
        masks = [
            None if full else _count_filled_lanes(length, _require_known(place) + v * plan.lanes, plan.lanes)
            for v in range(count)
        ]
        _finish_row(b, plan, lead, row, place, plan.large, values, masks, finish)


def spans(b: Builder, size: int, step: int, inner: Pair) -> Iterator[tuple[Index, bool]]:
    """Write the loop over `size` in steps: gives where each is, and whether it lies within `inner` and is full.

    Steps that are not, and one alone that is, are written out, at a place known now.
    """
    starts = range(0, size, step)
    within = [s for s in starts if inner[0] <= s and s + step <= min(inner[1], size)]
    full = frozenset(within)
    for start in starts:
        if start not in full:
            yield start, False
        elif len(within) == 1:
            yield start, True
        elif start == within[0]:
            with b.loop(start, within[-1] + step, step) as loop:
                yield loop.index, True


def _write_rows(b: Builder, plan: PoolingPlan, g: Reg, x: Reg | None, lead: Sequence[Reg], finish: Finish) -> None:
    """The gradient of windows side by side, row by row; zeros for rows and columns that are left over."""
    deep, down, across = plan.axes
    width, lanes = across.length, plan.lanes
    zero = b.constant(0.0, plan.type.of(lanes))

    def hand(row: Row, place: Index, inner: bool, values: list[Reg]) -> None:
        """Registers of one row from the first element of a place on."""
        column = place * across.taps if isinstance(place, int) else b.mul(place, across.taps)
        masks = [
            None if inner else _count_filled_lanes(width, _require_known(column) + v * lanes, lanes)
            for v in range(len(values))
        ]
        kept = [(v, m) for v, m in zip(values, masks, strict=True) if m != 0]
        _finish_row(b, plan, lead, row, column, plan.large, [v for v, _ in kept], [m for _, m in kept], finish)

    def hand_zeros(z: Index, first: int) -> None:
        """The rows of a slice from the first on, as zeros."""
        if first < down.length:
            with b.loop(first, down.length) as rest:
                for place, inner in spans(b, columns, lanes, (0, width // across.taps)):
                    hand((z, rest.index), place, inner, [zero] * across.taps)

    columns = -(-width // across.taps)
    taps = _taps(plan, range(deep.taps), range(down.taps))
    for z in _indices(b, 0, deep.places):
        with b.loop(0, down.places) as line:
            for place, inner in spans(b, columns, lanes, (0, across.places)):
                given = _route_gradient(b, plan, g, x, (z, line.index), taps, place, inner)
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
    for z in _indices(b, deep.places * deep.taps, deep.length):
        hand_zeros(z, 0)


def _route_gradient(
    b: Builder, plan: PoolingPlan, g: Reg, x: Reg | None, row: Row, taps: Sequence[Tap], place: Index, inner: bool
) -> dict[Tap, Reg]:
    """Return the share that each tap of some windows has in their g: all, or where it is the largest."""
    _, down, across = plan.axes
    lanes = plan.lanes
    vector = plan.type.of(lanes)
    zero = b.constant(0.0, vector)
    filled = lanes if inner else max(0, min(lanes, across.places - _require_known(place)))
    pointer = b.gep(g, _element(b, row, place, plan.small), plan.type)
    given = b.load(pointer, vector, filled) if filled else zero
    if not plan.largest:
        masks = {tap: _inside(plan, place, tap, inner) for tap in taps}
        return {tap: given if m is None else b.select(b.vector(m, BOOL), given, zero) for tap, m in masks.items()}
    assert x is not None

    def number(tap: Tap) -> int:
        return (tap[0] * down.taps + tap[1]) * across.taps + tap[2]

    best: _Best | None = None
    for tap in taps:
        seen, inside = _load_tap(b, plan, x, row, place, tap, inner)
        best = _update_best(b, plan, best, seen, inside, number(tap))
    if best is None or best.tap is None:
        return {}
    return {tap: b.select(b.eq(best.tap, number(tap)), given, zero) for tap in taps}


class _Best(NamedTuple):
    value: Reg
    tap: Reg | None  # the number of the largest one


def _update_best(
    b: Builder, plan: PoolingPlan, best: _Best | None, seen: Reg, inside: list[bool] | None, tap: int | None
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
        better = b.logical_and(better, b.vector(inside, BOOL))
    value = b.select(better, seen, best.value)
    return _Best(value, None if number is None or best.tap is None else b.select(better, number, best.tap))


def _load_tap(
    b: Builder, plan: PoolingPlan, image: Reg, row: Row, place: Index, tap: Tap, inner: bool
) -> tuple[Reg, list[bool] | None]:
    """The elements a tap sees from `place` on, 0 outside, and which lanes are inside, None for all."""
    across = plan.axes[2]
    lines = [
        add_strided(b, t * a.dilation - a.padding, at, a.stride)
        for t, at, a in zip(tap[:2], row, plan.axes[:2], strict=True)
    ]
    line = _element(b, (lines[0], lines[1]), 0, plan.large)
    column = tap[2] * across.dilation - across.padding
    limits = None if inner else across.valid_range(tap[2])
    vector = plan.type.of(plan.lanes)
    inside = _inside(plan, place, tap, inner)
    if inside is not None and not any(inside):
        return b.constant(0.0, vector), inside
    pointer = b.gep(image, line, plan.type)
    return load_places(b, pointer, place, column, across.stride, limits, vector), inside


def _inside(plan: PoolingPlan, place: Index, tap: Tap, inner: bool) -> list[bool] | None:
    if inner:
        return None
    low, high = plan.axes[2].valid_range(tap[2])
    inside = [low <= _require_known(place) + lane < high for lane in range(plan.lanes)]
    return None if all(inside) else inside


def _taps(plan: PoolingPlan, slices: range, rows: range) -> list[Tap]:
    """Taps in some slices and rows of a window, last to first for the largest."""
    taps = list(product(slices, rows, range(plan.axes[2].taps)))
    return taps[::-1] if plan.largest else taps


def _rows(b: Builder, plan: PoolingPlan) -> Iterator[tuple[Row, list[Tap]]]:
    """Write the loops over slices and rows of windows: gives each row with the taps whose rows are inside."""
    deep, down, _ = plan.axes
    for z, slices in _lines(b, deep):
        for row, rows in _lines(b, down):
            yield (z, row), _taps(plan, slices, rows)


def _lines(b: Builder, axis: Axis) -> Iterator[tuple[Index, range]]:
    """Write the loop along an axis: gives each place with its taps that are inside."""
    for place, inner in spans(b, axis.places, 1, axis.inner):
        if inner:
            yield place, range(axis.taps)
            continue
        ranges = [axis.valid_range(i) for i in range(axis.taps)]
        inside = [i for i, (low, high) in enumerate(ranges) if low <= _require_known(place) < high]
        yield place, range(inside[0], inside[-1] + 1) if inside else range(0)


def _indices(b: Builder, low: int, high: int) -> Iterator[Index]:
    """Write the loop over indices; one alone is a number."""
    if high - low == 1:
        yield low
    elif high > low:
        with b.loop(low, high) as loop:
            yield loop.index


def _element(b: Builder, row: Row, place: Index, sizes: Sizes) -> Reg:
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
    row: Row,
    column: Index,
    sizes: Sizes,
    values: Sequence[Reg],
    masks: Sequence[int | None],
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


def _count_filled_lanes(size: int, place: Index, lanes: int) -> int | None:
    """Return how many lanes from `place` on are elements, None for all."""
    left = max(0, size - _require_known(place))
    return None if left >= lanes else left


def _require_known(place: Index) -> int:
    assert isinstance(place, int), "at an edge the place is known"
    return place

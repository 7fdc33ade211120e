"""Sums and maxima of windows over the last two dimensions, and the gradient of the maxima."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, UNLIMITED, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.llvm.types import I64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder

MAX_LANES = 8  # places of elements are gathered by int64


class Windows(NamedTuple):
    """The settings of two dimensions: sizes of images and of results, and those of the windows."""

    height: Reg
    width: Reg
    rows: Reg
    columns: Reg
    taps_down: Reg
    taps_along: Reg
    stride_down: Reg
    stride_along: Reg
    padding_down: Reg
    padding_along: Reg
    dilation_down: Reg
    dilation_along: Reg


def _load_windows(b: Builder, settings: ArrayOperand) -> Windows:
    return Windows(*[b.load(b.gep(settings.data, i, I64), I64) for i in range(len(Windows._fields))])


def _is_within(b: Builder, place: Reg, size: Reg) -> Reg:
    return b.logical_and(b.ge(place, 0), b.lt(place, size))


def _pool(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    settings: ArrayOperand,
    out: ArrayOperand,
    done: ArrayOperand,
    *,
    start: float,
    combine: Callable[[Builder, Reg, Reg], Reg],
) -> None:
    """out[l, p, q] = `start` combined with one element after the other of window (p, q) of x[l]."""
    w = _load_windows(b, settings)
    lanes = min(lanes, MAX_LANES)
    image, result = b.mul(w.height, w.width), b.mul(w.rows, w.columns)
    with b.loop(0, b.floor_divide(out.size, result)) as lead, b.loop(0, w.rows) as row:
        source = b.gep(x.data, b.mul(lead.index, image), kind)
        target = b.gep(out.data, b.add(b.mul(lead.index, result), b.mul(row.index, w.columns)), kind)
        top = b.sub(b.mul(row.index, w.stride_down), w.padding_down)

        def write(index: Reg, mask: Reg | None) -> list[Reg]:
            places = b.sub(b.mul(b.add(b.iota(lanes, I64), index), w.stride_along), w.padding_along)
            with b.loop(0, w.taps_down, carried=[b.constant(start, kind.of(lanes))]) as down:
                y = b.add(top, b.mul(down.index, w.dilation_down))
                line = b.gep(source, b.mul(y, w.width), kind)
                with b.when(_is_within(b, y, w.height), [*down.carried]) as inside:
                    with b.loop(0, w.taps_along, carried=[*down.carried]) as along:
                        at = b.add(places, b.mul(along.index, w.dilation_along))
                        seen = _is_within(b, at, w.width)
                        seen = seen if mask is None else b.logical_and(seen, mask)
                        element = b.gather(line, at, kind.of(lanes), seen)
                        along.yields(b.select(seen, combine(b, along.carried[0], element), along.carried[0]))
                    inside.yields(*along.results)
                down.yields(*inside.results)
            b.store(down.results[0], b.gep(target, index, kind), mask)
            return []

        sweep(b, w.columns, lanes, [], write)


def _add_at_maxima(
    b: Builder,
    kind: Type,
    lanes: int,
    g: ArrayOperand,
    x: ArrayOperand,
    settings: ArrayOperand,
    out: ArrayOperand,
    done: ArrayOperand,
) -> None:
    """Add g[l, p, q] to the first largest element of each window of out[l]; NaN is largest.

    The windows come from the last to the first, in the order in which NumPy's code adds to an element.
    """
    w = _load_windows(b, settings)
    image, result = b.mul(w.height, w.width), b.mul(w.rows, w.columns)
    with b.loop(0, b.floor_divide(g.size, result)) as lead, b.loop(0, result) as turn:
        window = b.sub(b.sub(result, 1), turn.index)
        p = b.floor_divide(window, w.columns)
        q = b.sub(window, b.mul(p, w.columns))
        top = b.sub(b.mul(p, w.stride_down), w.padding_down)
        left = b.sub(b.mul(q, w.stride_along), w.padding_along)
        first = b.mul(lead.index, image)
        with b.loop(0, w.taps_down, carried=[b.constant(-math.inf, kind), b.constant(-1, I64)]) as down:
            y = b.add(top, b.mul(down.index, w.dilation_down))
            with b.when(_is_within(b, y, w.height), [*down.carried]) as inside:
                with b.loop(0, w.taps_along, carried=[*down.carried]) as along:
                    best, winner = along.carried
                    z = b.add(left, b.mul(along.index, w.dilation_along))
                    with b.when(_is_within(b, z, w.width), [best, winner]) as seen:
                        at = b.add(first, b.add(b.mul(y, w.width), z))
                        element = b.load(b.gep(x.data, at, kind), kind)
                        wins = b.logical_or(b.lt(winner, 0), b.logical_and(b.gt(element, best), b.eq(best, best)))
                        wins = b.logical_or(wins, b.logical_and(b.isnan(element), b.eq(best, best)))
                        seen.yields(b.select(wins, element, best), b.select(wins, at, winner))
                    along.yields(*seen.results)
                inside.yields(*along.results)
            down.yields(*inside.results)
        with b.when(b.ge(down.results[1], 0)):
            place = b.gep(out.data, down.results[1], kind)
            slope = b.load(b.gep(g.data, b.add(b.mul(lead.index, result), window), kind), kind)
            b.store(b.add(b.load(place, kind), slope), place)


_SUM = partial(_pool, start=0.0, combine=lambda b, total, element: b.add(total, element))
_MAXIMUM = partial(  # the first of equal ones; NaN is largest
    _pool,
    start=-math.inf,
    combine=lambda b, best, x: b.select(b.logical_or(b.gt(x, best), b.isnan(x)), x, best),
)
ROUTINES = {
    "sum_windows": SmallArrayEntry("xix", _SUM, less=ALL_DIMS, most=UNLIMITED),
    "max_windows": SmallArrayEntry("xix", _MAXIMUM, less=ALL_DIMS, most=UNLIMITED),
    "max_windows_gradient": SmallArrayEntry("xxix", _add_at_maxima, less=ALL_DIMS, most=UNLIMITED),
}

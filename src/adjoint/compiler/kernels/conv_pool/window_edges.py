"""Windows that reach over the edges of an image: the loops along an axis, and the lanes that are inside.

Of a size known now, each line of windows at an edge has code of its own, with constant masks. Where the size is a
symbol, all lines at an edge share a loop, and their masks are those of the call.
"""

from __future__ import annotations

from collections.abc import Iterator

from adjoint.compiler.ir.symbolic_size import has_symbols, is_known_less, is_symbolic_size
from adjoint.compiler.kernels.conv_pool.padded_image import find_lanes_inside
from adjoint.compiler.kernels.conv_pool.pooling_plan import Axis
from adjoint.compiler.kernels.index_arithmetic import (
    Index,
    add_index,
    add_strided,
    as_index,
    is_zero,
    mask_left,
    min_index,
    modulo_index,
    require_known,
)
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, Reg

Range = tuple[Index, Index]


def find_valid_range(b: Builder, axis: Axis, tap: int) -> Range:
    """Return the places, from and to, at which a tap is inside."""
    if not axis.is_symbolic:
        return axis.valid_range(tap)
    start = tap * axis.dilation - axis.padding
    low, high = max(0, -(start // axis.stride)), (axis.length - 1 - start) // axis.stride + 1
    return low, axis.places if is_zero(axis.places - high) else min_index(b, axis.places, high)


def find_inner_range(b: Builder, axis: Axis) -> Range:
    """Return the places at which all taps are inside."""
    if not axis.is_symbolic:
        return axis.inner
    return find_valid_range(b, axis, 0)[0], find_valid_range(b, axis, axis.taps - 1)[1]


def write_spans(b: Builder, size: int, step: int, inner: Range) -> Iterator[tuple[Index, bool]]:
    """Write the loop over `size` in steps: gives where each is, and whether it lies within `inner` and is full.

    Steps that are not, and one alone that is, are written out, at a place known now, if the size is.
    """
    low, high = inner
    if is_symbolic_size(size) or isinstance(high, Reg) or has_symbols(inner):
        assert not isinstance(low, Reg), "how many windows reach over the beginning is known"
        yield from _write_spans_of_any_size(b, size, step, low, high)
        return
    low, high = require_known(low), require_known(high)
    starts = range(0, size, step)
    within = [s for s in starts if low <= s and s + step <= min(high, size)]
    full = frozenset(within)
    for start in starts:
        if start not in full:
            yield start, False
        elif len(within) == 1:
            yield start, True
        elif start == within[0]:
            with b.loop(start, within[-1] + step, step) as loop:
                yield loop.index, True


def _write_spans_of_any_size(b: Builder, size: int, step: int, low: int, high: Index) -> Iterator[tuple[Index, bool]]:
    first = -(-low // step) * step
    total = as_index(b, size)
    is_all = not isinstance(high, Reg) and is_zero(size - high)
    if step > 1:
        for before in range(0, first, step):
            yield before, False
    elif first:
        with b.loop(0, b.minimum(total, first)) as edge:
            yield edge.index, False
    end = as_index(b, high)
    if first or not is_all:
        end = b.maximum(end, first)
    last = b.sub(end, modulo_index(b, b.sub(end, first), step)) if step > 1 else end
    with b.loop(first, last, step) as middle:
        yield middle.index, True
    if step > 1:  # no loop: its masks are the same for all rows
        with b.when(b.lt(last, total)):
            yield last, False
        last = b.add(last, step)
    if not is_all:
        with b.loop(last, total, step) as after:
            yield after.index, False


def write_lines(b: Builder, axis: Axis, are_alike: bool = False) -> Iterator[tuple[Index, range, bool]]:
    """Write the loop along an axis: gives each place, its taps, and whether these are to be asked if they are inside.

    Of a size known now, the taps are those that are inside. `are_alike`: of any other, all lines share one loop.
    """
    if are_alike and axis.is_symbolic and axis.has_edges:
        with b.loop(0, axis.places) as line:
            yield line.index, range(axis.taps), True
        return
    for place, is_inner in write_spans(b, axis.places, 1, find_inner_range(b, axis)):
        if is_inner or axis.is_symbolic:
            yield place, range(axis.taps), not is_inner
            continue
        ranges = [axis.valid_range(i) for i in range(axis.taps)]
        inside = [i for i, (low, high) in enumerate(ranges) if low <= require_known(place) < high]
        yield place, range(inside[0], inside[-1] + 1) if inside else range(0), False


def find_line(b: Builder, axis: Axis, place: Index, tap: int, is_asked: bool) -> tuple[Index, Reg | None]:
    """Return the line of an image that a tap sees; if it is asked, one that there is, and whether it is that one."""
    line = add_strided(b, tap * axis.dilation - axis.padding, place, axis.stride)
    if not is_asked:
        return line, None
    inside = b.logical_and(b.ge(line, 0), b.lt(line, axis.length))
    return b.select(inside, line, 0), inside


def find_inside(b: Builder, axis: Axis, place: Index, tap: int, lanes: int, inner: bool) -> Reg | list[bool] | None:
    """Return the lanes, at neighbouring places, for which a tap is inside; None for all."""
    if inner:
        return None
    low, high = find_valid_range(b, axis, tap)
    if axis.is_symbolic:
        return find_lanes_inside(b, place, lanes, (low, high))
    known = range(require_known(low), require_known(high))
    inside = [require_known(place) + lane in known for lane in range(lanes)]
    return None if all(inside) else inside


def as_mask(b: Builder, inside: Reg | list[bool]) -> Reg:
    """Return lanes as a register of bools."""
    return inside if isinstance(inside, Reg) else b.vector(inside, BOOL)


def count_filled_lanes(b: Builder, size: int, place: Index, lanes: int) -> Reg | int | None:
    """Return how many, or which, lanes from `place` on are elements, None for all."""
    if is_symbolic_size(size) or isinstance(place, Reg):
        return mask_left(b, size, add_index(b, place, 0), lanes)
    left = max(0, size - require_known(place))
    return None if left >= lanes else left


def move_place(b: Builder, place: Index, by: int) -> Index:
    """Return a place further on: a number if it is one."""
    return b.add(place, by) if isinstance(place, Reg) else place + by


def write_indices(b: Builder, low: int, high: int) -> Iterator[Index]:
    """Write the loop over indices; one alone is a number."""
    if is_zero(high - low - 1):
        yield low
    elif not is_known_less(high, low + 1):
        with b.loop(low, high) as loop:
            yield loop.index

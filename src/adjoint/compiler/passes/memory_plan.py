"""The memory plan: a place in one aligned arena for every intermediate value, shared by those never needed at once.

Memory that a step fills only late, that of the gradients, is lent until then to values which are needed most when the
arena is fullest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.typing import Array

if TYPE_CHECKING:
    from adjoint.compiler.ir.graph import Value

ALIGNMENT = 64
MIN_LENT_VALUE_BYTES = 1 << 16  # bytes of a value that is worth lending memory to
MIN_LENT_TOTAL_BYTES = 1 << 20  # bytes in all that are worth lending
MIN_SPANS_BY_SIZE = 1000  # from which on spans of one size share places of their own
MAX_SIZE_BY_SIZE = 1.1  # times what is needed at one time that an arena planned in this way may take


class Span(NamedTuple):
    """A value in need of memory, from the step that writes it to the last that reads it."""

    value: Value
    first: int
    last: int


class MemoryPlan(NamedTuple):
    """The place of each value, in bytes from the arena's start, and the size of the arena.

    `lent_offsets`: where, in a block of memory of their own, lie the values that were given as such; and
    `lent`: what lies in that block before they are made. Empty both if nothing does.
    """

    offsets: dict[Value, int]
    size: int
    unshared: int  # the size it would have without reuse
    lent_offsets: dict[Value, int]
    lent: dict[Value, int]

    def __str__(self) -> str:
        lent = sum(v.nbytes for v in self.lent)
        others = pluralize(len(self.lent), "value")
        besides = f"; {others} of {lent} bytes where gradients will lie" if lent else ""
        values = pluralize(len(self.offsets), "value")
        return f"arena of {self.size} bytes for {values}, {self.unshared} without reuse{besides}"


def plan_memory(spans: Iterable[Span], late: Sequence[Span] = (), since: int = 0) -> MemoryPlan:
    """Place spans first fit, the largest first; two spans overlap in memory only if they do not in time.

    `late` are values that have memory of their own, which is free from the step `since` until each is made.
    """
    spans = list(spans)
    block, lent = _lend_late_memory(spans, late, since)
    order = sorted((s for s in spans if s.value not in lent), key=lambda s: (-s.value.nbytes, s.first))
    offsets, size = _place_by_size(order) if len(order) >= MIN_SPANS_BY_SIZE else ({}, 0)
    if not offsets:
        arena = _Arena(len(order))
        offsets, size = {span.value: arena.add(span) for span in order}, arena.size
    return MemoryPlan(offsets, size, sum(aligned_size(span.value) for span in order), block, lent)


def _place_by_size(spans: list[Span]) -> tuple[dict[Value, int], int]:
    """Return the places of many spans and the arena's size: each takes the first place of its size that is free.

    Nothing if the sizes, each of which has places of its own, take much more than what is needed at one time.
    """
    offsets: dict[Value, int] = {}
    end = max(span.last for span in spans) + 1
    change = np.zeros(end + 1, np.int64)  # of the bytes needed, from step to step
    top = 0  # of the places so far
    size, taken, free = -1, list[tuple[int, int]](), list[int]()  # of this size: (last step, place), and places
    for span in sorted(spans, key=lambda s: (aligned_size(s.value), s.first)):
        needed = aligned_size(span.value)
        if needed != size:
            size, taken, free = needed, [], []
        while taken and taken[0][0] < span.first:
            heappush(free, heappop(taken)[1])
        if free:
            at = heappop(free)
        else:
            at, top = top, top + needed
        heappush(taken, (span.last, at))
        offsets[span.value] = at
        _add_to_usage(change, span, needed)
    return (offsets, top) if top <= MAX_SIZE_BY_SIZE * change.cumsum().max() else ({}, 0)


class _Arena:
    """Memory with spans in it."""

    def __init__(self, most: int) -> None:
        self.size = self._count = 0
        self._placed = np.zeros((4, most), np.int64)  # start and end in memory, first and last step; by start

    def add(self, span: Span, limit: int | None = None) -> int:
        """Put a span at the lowest place with room for it, and tell that; −1 if it would pass the limit."""
        n, needed = self._count, aligned_size(span.value)
        starts, ends, firsts, lasts = self._placed[:, :n]
        rivals = np.flatnonzero((firsts <= span.last) & (span.first <= lasts))
        at = 0
        if len(rivals) and (begins := starts[rivals])[0] < needed:
            # The first gap below a rival with enough room, else the place above all of them.
            below = np.maximum.accumulate(ends[rivals])  # where each rival and what comes before it end
            room = begins[1:] - below[:-1] >= needed
            first = room.argmax() if len(room) else 0
            at = int(below[first if len(room) and room[first] else -1])
        if limit is not None and at + needed > limit:
            return -1
        i = np.searchsorted(starts, at)
        self._placed[:, i + 1 : n + 1] = self._placed[:, i:n]
        self._placed[:, i] = at, at + needed, span.first, span.last
        self._count += 1
        self.size = max(self.size, at + needed)
        return at


def _lend_late_memory(spans: list[Span], late: Sequence[Span], since: int) -> tuple[dict[Value, int], dict[Value, int]]:
    """Put large spans where those of `late` will be, as long as that makes less what is needed at one time."""
    free = [s for s in spans if s.value.nbytes >= MIN_LENT_VALUE_BYTES and s.first >= since]
    if not free or sum(s.value.nbytes for s in late) < MIN_LENT_TOTAL_BYTES:
        return {}, {}
    filled = _Arena(len(late) + len(free))
    end = max(s.last for s in (*spans, *late)) + 1
    block = {s.value: filled.add(s._replace(last=end)) for s in sorted(late, key=lambda s: -s.first)}
    limit = filled.size
    lent: dict[Value, int] = {}
    change = np.zeros(end + 1, np.int64)  # of the bytes needed, from step to step
    for span in spans:
        _add_to_usage(change, span, aligned_size(span.value))
    while free:
        fullest = change.cumsum().argmax()
        # what is large for long goes to where there is most time
        wanted = sorted(
            (s for s in free if s.first <= fullest <= s.last), key=lambda s: -s.value.nbytes * (s.last - s.first)
        )
        before = len(lent)
        for span in wanted:
            offset = filled.add(span, limit)
            if offset >= 0:
                lent[span.value] = offset
                _add_to_usage(change, span, -aligned_size(span.value))
        if len(lent) == before:
            break
        free = [s for s in free if s.value not in lent]
    return (block, lent) if lent else ({}, {})


def _add_to_usage(change: Array, span: Span, size: int) -> None:
    change[span.first] += size
    change[span.last + 1] -= size


def aligned_size(value: Value) -> int:
    """The bytes of a value's memory, up to a multiple of ALIGNMENT."""
    return -(-max(value.nbytes, 1) // ALIGNMENT) * ALIGNMENT


def aligned_bytes(size: int) -> Array:
    """`size` zero bytes that begin at a multiple of ALIGNMENT."""
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def aligned_array(value: Value) -> Array:
    """An aligned array of the value's shape and type."""
    return aligned_bytes(value.nbytes).view(value.dtype).reshape(value.shape)

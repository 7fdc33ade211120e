"""The memory plan: a place in one aligned arena for every intermediate value, shared by those never needed at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from adjoint.compiler.graph import Value

ALIGNMENT = 64


class Span(NamedTuple):
    """A value in need of memory, from the step that writes it to the last that reads it."""

    value: Value
    first: int
    last: int


class Plan(NamedTuple):
    """Where each value lies, in bytes from the arena's start, and how large the arena is."""

    offsets: dict[Value, int]
    size: int
    unshared: int  # the size it would have without reuse

    def __str__(self) -> str:
        return f"arena of {self.size} bytes for {len(self.offsets)} values, {self.unshared} without reuse"


def plan(spans: Iterable[Span]) -> Plan:
    """Place spans first fit, the largest first; two spans overlap in memory only if they do not in time."""
    order = sorted(spans, key=lambda s: (-s.value.nbytes, s.first))
    placed = np.zeros((4, len(order)), np.int64)  # start and end in memory, first and last step; by start
    offsets: dict[Value, int] = {}
    size = unshared = 0
    for n, span in enumerate(order):
        needed = _aligned(max(span.value.nbytes, 1))
        starts, ends, firsts, lasts = placed[:, :n]
        rivals = (firsts <= span.last) & (span.first <= lasts)
        at = _lowest(starts[rivals], ends[rivals], needed)
        i = np.searchsorted(starts, at)
        placed[:, i + 1 : n + 1] = placed[:, i:n]
        placed[:, i] = at, at + needed, span.first, span.last
        offsets[span.value] = at
        size = max(size, at + needed)
        unshared += needed
    return Plan(offsets, size, unshared)


def _lowest(starts: Any, ends: Any, size: int) -> int:
    """The lowest place with room for `size` bytes between intervals, which come by their starts, or above them."""
    below = np.maximum.accumulate(np.concatenate(([0], ends)))  # where what comes before each of them ends
    room = np.flatnonzero(starts - below[:-1] >= size)
    return int(below[room[0] if len(room) else -1])


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_bytes(size: int) -> Any:
    """`size` zero bytes that begin at a multiple of ALIGNMENT."""
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def aligned_array(value: Value) -> Any:
    """An aligned array of the value's shape and type."""
    return aligned_bytes(value.nbytes).view(value.dtype).reshape(value.shape)

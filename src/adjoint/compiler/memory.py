"""The memory plan: a place in one aligned arena for every intermediate value, shared by those never needed at once."""

from __future__ import annotations

from bisect import insort
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
    placed: list[tuple[int, int, int, int]] = []  # start and end in memory, first and last step; in order
    offsets: dict[Value, int] = {}
    unshared = 0
    for span in sorted(spans, key=lambda s: (-s.value.nbytes, s.first)):
        size = _aligned(max(span.value.nbytes, 1))
        unshared += size
        at = 0
        for start, end, first, last in placed:
            if first <= span.last and span.first <= last:
                if at + size <= start:
                    break
                at = max(at, end)
        insort(placed, (at, at + size, span.first, span.last))
        offsets[span.value] = at
    return Plan(offsets, max((end for _, end, _, _ in placed), default=0), unshared)


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

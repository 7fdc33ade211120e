"""Rows that repeat: the turns of a loop in a list of equations or of groups.

A row has a kind and some numbers: of the values it reads, and places such as the `t` of `x[:, t]`. Rows repeat if their
kinds come again after each period, and each of their numbers grows from turn to turn by a step of its own: 0 for what
all turns read, the length of a turn for what the turn before has made.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from adjoint.core.typing import Array

MIN_TURNS = 4  # with fewer, rows that are alike by chance would be a loop
MIN_ROWS = 12  # of a loop
WINDOW = 6  # neighbouring rows by which the next turn is sought
MAX_PERIODS = 12  # that are tried in one place
MIXING_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # by which neighbouring kinds become one number
MULTIPLES = (1, 2, 3, 4)  # turns after which numbers may go on evenly, if they do not from turn to turn


class Row(NamedTuple):
    """An equation or a group: its kind, and its numbers."""

    kind: Hashable
    numbers: list[int]


class Run(NamedTuple):
    """Rows that repeat: `turns` times `period` rows from `start` on."""

    start: int
    period: int
    turns: int

    @property
    def stop(self) -> int:
        """The row after the last turn."""
        return self.start + self.period * self.turns


class Least(NamedTuple):
    """The turns and rows that make a run."""

    turns: int = MIN_TURNS
    rows: int = MIN_ROWS


LEAST = Least()


class RowTable:
    """Rows as arrays: the kinds as numbers, and the numbers of all rows one after another."""

    def __init__(self, rows: Sequence[Row], kinds: dict[Hashable, int], least: Least = LEAST) -> None:
        """`kinds` gives each kind its number, for all tables that are compared; `least`: what is a run."""
        self._least = least
        self.kinds = np.array([kinds.setdefault(row.kind, len(kinds)) for row in rows], np.int64)
        lengths = [len(row.numbers) for row in rows]
        self.begins = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self.numbers = np.array([x for row in rows for x in row.numbers], np.int64)
        self._row_of_number = np.repeat(np.arange(len(rows)), lengths)

    def between(self, first: int, after: int) -> Array:
        """The numbers of the rows from `first` to before `after`."""
        return self.numbers[self.begins[first] : self.begins[after]]

    def turns_of(self, run: Run) -> Array:
        """The numbers of a run: a line for each turn."""
        return self.between(run.start, run.stop).reshape(run.turns, -1)

    def find_runs(self) -> list[Run]:
        """All runs, of which no two share a row, in order."""
        found, open_parts = [], [(0, len(self.kinds))]
        while open_parts:
            first, after = open_parts.pop()
            run = self._find_longest(first, after)
            if run is not None:
                found.append(run)
                open_parts += (first, run.start), (run.stop, after)
        return sorted(found)

    def _find_longest(self, first: int, after: int) -> Run | None:
        best: Run | None = None
        for period in self._likely_periods(first, after):
            run = self.find_run(first, after, period)
            if run is not None and (best is None or run.period * run.turns > best.period * best.turns):
                best = run
        return best

    def _likely_periods(self, first: int, after: int) -> list[int]:
        """Return the distances at which the same neighbouring rows come again: the most frequent ones, in order."""
        if after - first < max(self._least.rows, WINDOW + 2):
            return []
        mixed = np.zeros(after - first - WINDOW + 1, np.uint64)
        for i in range(WINDOW):
            mixed = mixed * MIXING_FACTOR + self.kinds[first + i : after - WINDOW + 1 + i].astype(np.uint64)
        order = np.argsort(mixed, kind="stable")
        again = mixed[order[1:]] == mixed[order[:-1]]
        counts = np.bincount((order[1:] - order[:-1])[again])
        most = np.argsort(-counts, kind="stable")[:MAX_PERIODS]
        found = {int(p) for p in most if p and counts[p] >= self._least.turns - 1}
        return sorted({p * times for p in found for times in MULTIPLES})

    def find_run(self, first: int, after: int, period: int) -> Run | None:
        """The longest run of this period."""
        if after - first < period * self._least.turns:
            return None
        alike = self.kinds[first : after - period] == self.kinds[first + period : after]
        best: Run | None = None
        for start, stop in _stretches(alike):
            if stop - start + period < max(
                period * (self._least.turns if best is None else best.turns + 1), self._least.rows
            ):
                continue
            begin, end = self._trim(first + start, first + stop + period, period)
            turns = (end - begin) // period
            if turns >= self._least.turns and (best is None or turns > best.turns):
                best = Run(begin, period, turns)
        return best

    def _trim(self, first: int, after: int, period: int) -> tuple[int, int]:
        """Return the longest part in which each number grows by one step from turn to turn."""
        width = self.begins[first + period] - self.begins[first]
        numbers = self.between(first, after)
        if not width:
            return first, after
        steps = numbers[width:] - numbers[:-width]
        uneven = np.ones(after - first - 2 * period, bool)
        bad = np.flatnonzero(steps[width:] != steps[:-width])
        uneven[self._row_of_number[self.begins[first] + bad] - first] = False
        start, stop = max(_stretches(uneven), key=lambda part: part[1] - part[0], default=(0, -2 * period))
        return first + start, first + stop + 2 * period


def _stretches(flags: Array) -> list[tuple[int, int]]:
    """Return where an array of truths is true: the first place, and the one after the last, of each stretch."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))

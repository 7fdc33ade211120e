"""The loop that a traced graph has unrolled, and the same program with fewer turns.

Forward and backward are two runs of one loop: turn k of the one reads what turn N−1−k of the other has made. Of the
runs that belong together the first loses its last turns, and with it each that goes the same way; those that go the
other way lose their first turns. So the equations that are left read and write the places that they did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from adjoint.compiler.ir.graph import Graph, StateInput, Value
from adjoint.compiler.passes.cost_model import MIN_REMAT_BYTES
from adjoint.compiler.passes.loops.equation_kinds import EquationKinds
from adjoint.compiler.passes.loops.repeated_rows import Row, RowTable, Run
from adjoint.core.typing import Array

MIN_EQUATIONS = 600  # of a program in which loops are sought
MIN_SHARE = 0.5  # of a program's equations that are in the loop
MAX_MARGIN = 4  # turns from a loop's end which others may read in particular


class MissingTurn(NamedTuple):
    """A turn's value that a shortened loop does not make: of a run, in it, and how far from the turns that are left."""

    run: int
    slot: int
    turn: int


class ShortGraph(NamedTuple):
    """A program with fewer turns; `missing` are inputs in place of what the others made, where all are joined."""

    graph: Graph
    missing: dict[Value, MissingTurn]


class _NoLoopError(Exception):
    """The runs of a graph are not the turns of one loop."""


class UnrolledLoop:
    """The runs of a graph that are one loop."""

    def __init__(self, graph: Graph, table: RowTable, runs: list[Run], backwards: dict[Run, bool]) -> None:
        """`backwards`: the runs of the loop, and whether each goes the other way than the first."""
        self.graph, self._table = graph, table
        self.runs = [run for run in runs if run in backwards]
        self._backwards = [backwards[run] for run in self.runs]
        self.turns = min(run.turns for run in self.runs)
        self._given = len(graph.inputs)
        self._values = [*graph.inputs, *graph.equations]

    def shorten(self, turns: int) -> ShortGraph | None:
        """The program with so many turns; None if something reads a particular turn in the middle."""
        try:
            return self._shorten(self.turns - turns)
        except _NoLoopError:
            return None

    def _shorten(self, removed: int) -> ShortGraph:
        out, values, missing = Graph(self.graph.name), [*self.graph.inputs], dict[MissingTurn, Value]()
        inputs, source = dict[MissingTurn, Value](), StateInput(lambda: None, "of another turn")
        out.inputs = [*self.graph.inputs]

        def add(like: Value, numbers: Sequence[int | MissingTurn]) -> None:
            operands = iter(
                [missing[x] if isinstance(x, MissingTurn) else values[x] for x in numbers[: len(like.operands)]]
            )
            inputs = tuple([next(operands) if type(x) is Value else x for x in like.inputs])
            values.append(out.add(like.op, inputs, like.params, like, like.origin))

        # A reader of a turn that is left out gets an input in its stead: which one is told by the caller, who puts the
        # loop back.
        def see(numbers: list[int]) -> list[int | MissingTurn]:
            found = self._renumber_all(numbers, removed)
            for x in found:
                if isinstance(x, MissingTurn) and x not in missing:
                    run = self.runs[x.run]
                    like = self.graph.equations[run.start + x.slot]
                    is_view = like.op.index is not None and len(like.inputs) == 1
                    missing[x] = inputs[x] = out.input(like.operands[0] if is_view else like, source)
                    if is_view:  # which kernels read through
                        missing[x] = out.add(like.op, (inputs[x],), like.params, like, like.origin)
            return found

        # Between the loops all is copied; of each loop only the turns that are left.
        position = 0
        for run, backwards in zip(self.runs, self._backwards, strict=True):
            for i in range(position, run.start):
                add(self.graph.equations[i], see(self._operands_of(i)))
            lines = self._turns_after(run, removed)
            skipped = removed if backwards else 0
            for turn, line in enumerate(lines):
                begin = 0
                for i in range(run.start, run.start + run.period):
                    like = self.graph.equations[i + (turn + skipped) * run.period]
                    end = begin + len(like.operands)
                    add(like, line[begin:end])
                    begin = end
            position = run.stop
        for i in range(position, len(self.graph.equations)):
            add(self.graph.equations[i], see(self._operands_of(i)))
        numbers = {v: i for i, v in enumerate(self._values)}
        outputs = see([numbers[v] for v in self.graph.outputs])
        if any(isinstance(x, MissingTurn) for x in outputs):
            raise _NoLoopError
        out.outputs = [values[x] for x in outputs if isinstance(x, int)]
        return ShortGraph(out, {value: key for key, value in inputs.items()})

    def _operands_of(self, i: int) -> list[int]:
        begin = self._table.begins[i]
        numbers: list[int] = self._table.numbers[begin : begin + len(self.graph.equations[i].operands)].tolist()
        return numbers

    def _turns_after(self, run: Run, removed: int) -> list[list[int]]:
        """The numbers of the operands of each turn that is left."""
        columns = _operand_columns(self.graph, self._table, run)
        former = self._table.turns_of(run)[:, columns]
        steps = former[1] - former[0]
        skipped = removed if self._backwards[self.runs.index(run)] else 0
        base = np.array([self._renumber(int(x), removed) if x >= self._given else x for x in former[0]])
        base += np.where(former[0] < self._given, skipped * steps, 0)
        left = np.arange(run.turns - removed)[:, None]
        lines: list[list[int]] = (base + left * steps).tolist()
        return lines

    def _renumber_all(self, numbers: list[int], removed: int) -> list[int | MissingTurn]:
        """The new numbers of what an equation outside of the runs reads; of a join of all turns, MissingTurns too."""
        found: list[int | MissingTurn] = []
        if len(numbers) < self.turns // 2:
            return [self._renumber(x, removed) for x in numbers]
        placed = [self._place_of(x) for x in numbers]
        joined = {p for p, n in Counter(p[:2] for p in placed if p is not None).items() if n >= self.turns // 2}
        for x, place in zip(numbers, placed, strict=True):
            if place is None or place[:2] not in joined:
                found.append(self._renumber(x, removed))
                continue
            r, slot, turn = place
            run, backwards = self.runs[r], self._backwards[r]
            distance = run.turns - 1 - turn if backwards else turn
            if distance >= run.turns - removed:
                found.append(MissingTurn(r, slot, distance))
            else:
                found.append(x - removed * (self._rows_before(run) + (run.period if backwards else 0)))
        return found

    def _place_of(self, number: int) -> tuple[int, int, int] | None:
        """The run, the row in a turn and the turn of a value; None outside of the runs."""
        position = number - self._given
        for r, run in enumerate(self.runs):
            if run.start <= position < run.stop:
                turn, slot = divmod(position - run.start, run.period)
                return r, slot, turn
        return None

    def _rows_before(self, run: Run) -> int:
        """Return how many rows a turn has in the runs before."""
        return sum(other.period for other in self.runs if other.start < run.start)

    def _renumber(self, number: int, removed: int) -> int:
        """The number of a value as it will be: counted from that end of a run which is near."""
        if number < self._given:
            return number
        place = self._place_of(number)
        if place is None:
            return number - removed * sum(run.period for run in self.runs if run.stop <= number - self._given)
        run, turn = self.runs[place[0]], place[2]
        if MAX_MARGIN <= turn < run.turns - MAX_MARGIN:
            raise _NoLoopError
        from_end = turn >= MAX_MARGIN
        return number - removed * (self._rows_before(run) + from_end * run.period)


def find_loop(graph: Graph) -> UnrolledLoop | None:
    """Return the loop that takes most of a graph's equations; None if there is none of weight."""
    if len(graph.equations) < MIN_EQUATIONS:
        return None
    table = RowTable([*_graph_rows(graph)], {})
    runs = table.find_runs()
    best, best_rows = None, MIN_SHARE * len(graph.equations)
    left = [*runs]
    while left:
        try:
            directions = _follow_links(graph, table, runs, left[0])
        except _NoLoopError:
            return None
        left = [run for run in left if run not in directions]
        rows = sum(run.period * run.turns for run in directions)
        if rows > best_rows:
            best, best_rows = directions, rows
    if best is None or max(run.turns for run in best) > 2 * min(run.turns for run in best):
        return None
    inside = (v for run in best for v in graph.equations[run.start : run.start + run.period])
    if any(v.nbytes >= MIN_REMAT_BYTES for v in inside):
        return None  # how many turns there are decides what is computed again
    return UnrolledLoop(graph, table, runs, best)


def _graph_rows(graph: Graph) -> Iterator[Row]:
    numbers = {v: i for i, v in enumerate((*graph.inputs, *graph.equations))}
    kinds = EquationKinds()
    for v in graph.equations:
        kind, places = kinds.kind_of(v)
        yield Row(kind, [numbers[x] for x in v.operands] + places)


def _operand_columns(graph: Graph, table: RowTable, run: Run) -> Array:
    """Return which numbers of a turn are of operands, not places."""
    flags = []
    for i in range(run.start, run.start + run.period):
        operands, length = len(graph.equations[i].operands), int(table.begins[i + 1] - table.begins[i])
        flags += [True] * operands + [False] * (length - operands)
    return np.array(flags, bool)


def _follow_links(graph: Graph, table: RowTable, runs: list[Run], first: Run) -> dict[Run, bool]:
    """The runs that read one another turn by turn, from `first` on: True for those that go the other way."""
    given = len(graph.inputs)
    links: dict[Run, set[tuple[Run, bool]]] = {run: set() for run in runs}
    for run in runs:
        lines = table.turns_of(run)[:2, _operand_columns(graph, table, run)]
        for number, step in {*zip(lines[0].tolist(), (lines[1] - lines[0]).tolist(), strict=True)}:
            if number < given or not step:
                continue
            at = number - given
            read = next((r for r in runs if r.start <= at < r.stop), None)
            if read is None and step != run.period:  # a turn at the end that is unlike the others
                read = next((r for r in runs if r.start - r.period <= at < r.stop + r.period and r is not run), None)
            if read is None or read is run:
                if step != run.period:
                    raise _NoLoopError
            elif abs(step) == read.period:
                links[run].add((read, step < 0))
                links[read].add((run, step < 0))
            else:
                raise _NoLoopError
    found, waiting = {first: False}, [first]
    while waiting:
        run = waiting.pop()
        for other, turns_round in links[run]:
            if other not in found:
                found[other] = found[run] ^ turns_round
                waiting.append(other)
            elif found[other] != found[run] ^ turns_round:
                raise _NoLoopError
    return found

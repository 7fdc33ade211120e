"""The plan of an unrolled loop, told by the plans of the same loop with few turns.

Two short programs are planned, one of which has some turns more. If the plan of the longer one is that of the shorter
one with turns added, all of whose numbers go on as they did, then so does the plan of the whole loop: passes decide by
what is near. Else the loop is planned as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from math import gcd, lcm, prod
from typing import NamedTuple

import numpy as np

from adjoint.compiler.ir.graph import Graph
from adjoint.compiler.kernels.kernel_text import KernelMemo
from adjoint.compiler.kernels.plan import CachedPlan
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.fusion import MAX_ELEMENTS_TO_JOIN_UNRELATED, Fusion, elide_concats
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.fusion_rules import MAX_REDUCTIONS_OF_TURNS, GroupMap
from adjoint.compiler.passes.loops.equation_kinds import EquationKinds
from adjoint.compiler.passes.loops.plan_rows import PlanRows, PlanStep, PlanWriter
from adjoint.compiler.passes.loops.repeated_rows import Least, Row, RowTable, Run
from adjoint.compiler.passes.loops.unrolled_loop import MissingTurn, ShortGraph, UnrolledLoop, find_loop
from adjoint.core.typing import Array

MARGIN_TURNS = 4  # at both ends of a loop, whose kernels may be others
MIN_GAIN = 2  # times as many turns as are planned, or the whole loop is planned in little more time
MIN_PLANNED_TURNS = 3  # that show in a short program's plan how each number goes on
PLANNED = Least(MIN_PLANNED_TURNS, MIN_PLANNED_TURNS)
MISSING = -(1 << 40)  # the number of the first value of a turn that is left out


class _Alike(NamedTuple):
    """A step as the short program has it, of other values; None is that of the outputs."""

    step: PlanStep | None
    numbers: list[int]


class _Longer(NamedTuple):
    """A step that reads more than in the short program."""

    step: PlanStep
    lists: list[list[int]]


Extended = Iterator[_Alike | _Longer]


class _OtherPlanError(Exception):
    """The plans of two lengths of a loop do not go on as the other does."""


def plan_by_loop(graph: Graph, plan: Callable[[Graph], CachedPlan]) -> CachedPlan | None:
    """The plan of a graph as that of its loop with fewer turns goes on; None if there is no loop, or it does not.

    `plan` makes a plan of a graph by all passes.
    """
    loop = find_loop(graph)
    if loop is None:
        return None
    added = _turns_in_pattern(loop)
    return _plan_by_pattern(loop, added, plan, MIN_GAIN) or _plan_by_pattern(loop, 2 * added, plan, 2 * MIN_GAIN)


def _plan_by_pattern(
    loop: UnrolledLoop, added: int, plan: Callable[[Graph], CachedPlan], gain: int
) -> CachedPlan | None:
    """The plan of a loop whose kernels come again after `added` turns; None if they do not, or it has too few turns.

    It has `gain` times as many as are planned.
    """
    count = MIN_PLANNED_TURNS * added + MARGIN_TURNS
    count += (loop.turns - count) % added
    if loop.turns < gain * (2 * count + added):
        return None
    short, longer = loop.shorten(count), loop.shorten(count + added)
    if short is None or longer is None:
        return None
    try:
        return _Extension(loop.graph, short, longer, plan).extend((loop.turns - count) // added)
    except (_OtherPlanError, KeyError, ValueError):
        return None


def _turns_in_pattern(loop: UnrolledLoop) -> int:
    """Return after how many turns the sums of small arrays, of which one kernel takes in several, begin a new one."""
    found = 1
    for run in loop.runs:
        sums: dict[tuple[int, ...], int] = {}
        for v in loop.graph.equations[run.start : run.start + run.period]:
            if v.op.combine and prod(shape := v.operands[0].shape) <= MAX_ELEMENTS_TO_JOIN_UNRELATED:
                sums[shape] = sums.get(shape, 0) + 1
        for count in sums.values():
            found = lcm(found, MAX_REDUCTIONS_OF_TURNS // gcd(MAX_REDUCTIONS_OF_TURNS, count))
    return found


class _Extension:
    """The plans of two lengths of a loop, compared."""

    def __init__(
        self, graph: Graph, short: ShortGraph, longer: ShortGraph, plan: Callable[[Graph], CachedPlan]
    ) -> None:
        self._graph = graph
        kinds, numbers = EquationKinds(), dict[object, int]()
        self._missing: dict[MissingTurn, int] = {key: i for i, key in enumerate(short.missing.values())}
        self._turn_of = list(short.missing.values())
        self._short, self._longer = (self._rows(each, plan, kinds) for each in (short, longer))
        self._tables = [RowTable(rows.rows, numbers, PLANNED) for rows in (self._short, self._longer)]
        constants = [
            [(v.dtype, v.shape, v.source.array.tobytes()) for v in rows.made] for rows in (self._short, self._longer)
        ]
        if constants[0] != constants[1]:
            raise _OtherPlanError

    def _rows(self, short: ShortGraph, plan: Callable[[Graph], CachedPlan], kinds: EquationKinds) -> PlanRows:
        given = {v: i for i, v in enumerate(self._graph.inputs)}
        given.update((v, MISSING - self._missing[key]) for v, key in short.missing.items())
        return PlanRows(plan(short.graph), given, len(self._graph.inputs), kinds)

    def extend(self, times: int) -> CachedPlan:
        """The plan of the loop with `times` as many turns added as the longer program has more.

        Raises: _OtherPlanError, KeyError or ValueError if it does not go on so.
        """
        writer = PlanWriter(self._short, [*self._graph.inputs, *self._short.made])
        for part in self._iterate_steps(times):
            if isinstance(part, _Longer):
                writer.add_longer_step(part.step, part.lists)
            elif part.step is None:
                writer.graph.outputs = [writer.values[x] for x in part.numbers]
            else:
                writer.add_step(part.step, part.numbers)
        graph, former = writer.graph, self._short.plan
        used = {x for v in graph.equations for x in v.operands if x.op is None} | set(former.graph.inputs)
        graph.inputs = [v for v in (*self._graph.inputs, *self._short.made) if v in used]
        values = GroupMap(former.fusion.precision, writer.views, writer.maker)
        inside, elided = elide_concats(graph, writer.order, values)
        if not writer.elided <= elided or not _are_stored(writer.order, values):
            raise _OtherPlanError
        fusion = Fusion(values.precision, values.views, values.maker, graph, writer.order, inside, elided)
        kernels = writer.kernels
        if writer.unlowered or elided:
            from adjoint.compiler.kernels.lowerings import lower_group

            known: KernelMemo = {}
            kernels.update((group, lower_group(group, fusion, host(), known)) for group in (*writer.unlowered, *elided))
        return CachedPlan(graph, fusion, kernels, former.rounds)

    def _iterate_steps(self, times: int) -> Extended:
        """Yield the steps of the whole loop with their numbers, and last the numbers of the outputs."""
        a, b = self._tables
        runs_a, runs_b = a.find_runs(), b.find_runs()
        if len(runs_a) != len(runs_b) or not runs_a:
            raise _OtherPlanError
        at_a = at_b = 0
        for run_a, run_b in zip(runs_a, runs_b, strict=True):
            yield from self._extend_others((at_a, run_a.start), (at_b, run_b.start), times)
            yield from self._extend_run(run_a, run_b, times)
            at_a, at_b = run_a.stop, run_b.stop
        yield from self._extend_others((at_a, len(a.kinds)), (at_b, len(b.kinds)), times)

    def _extend_run(self, run_a: Run, run_b: Run, times: int) -> Extended:
        a, b = self._tables
        if run_a.period != run_b.period or run_a.turns > run_b.turns:
            raise _OtherPlanError
        period = run_a.period
        if (a.kinds[run_a.start : run_a.start + period] != b.kinds[run_b.start : run_b.start + period]).any():
            raise _OtherPlanError
        of_a, of_b = a.turns_of(run_a), b.turns_of(run_b)
        steps = of_a[1] - of_a[0]
        if (steps != of_b[1] - of_b[0]).any() or min(of_a.min(), of_b.min()) <= MISSING:
            raise _OtherPlanError
        turns = np.arange(run_a.turns + times * (run_b.turns - run_a.turns))[:, None]
        lines = of_a[0] + times * (of_b[0] - of_a[0]) + turns * steps
        begins = (a.begins[run_a.start : run_a.start + period + 1] - a.begins[run_a.start]).tolist()
        for line in lines.tolist():
            for i in range(period):
                yield _Alike(self._short.steps[run_a.start + i], line[begins[i] : begins[i + 1]])

    def _extend_others(self, of_a: tuple[int, int], of_b: tuple[int, int], times: int) -> Extended:
        """Extend the rows outside of the runs."""
        a, b = self._tables
        if of_a[1] - of_a[0] != of_b[1] - of_b[0]:
            raise _OtherPlanError
        steps = [*self._short.steps, None]
        for i, j in zip(range(*of_a), range(*of_b), strict=True):
            if a.kinds[i] != b.kinds[j]:
                yield self._lengthen(self._short.steps[i], self._longer.steps[j], times)
                continue
            first, second = a.between(i, i + 1), b.between(j, j + 1)
            found = first + times * (second - first)
            if len(first) and first.min() <= MISSING:
                self._fill_in_missing(found, first, second, times)
            yield _Alike(steps[i], found.tolist())

    def _lengthen(self, first: PlanStep, second: PlanStep, times: int) -> _Longer:
        """The step whose lists go on as those of `second` go on from those of `first`."""
        (kind, lists), (other_kind, others) = self._short.lists_of(first), self._longer.lists_of(second)
        if kind != other_kind:
            raise _OtherPlanError
        return _Longer(first, [_lengthen_list(a, b, times) for a, b in zip(lists, others, strict=True)])

    def _fill_in_missing(self, found: Array, first: Array, second: Array, times: int) -> None:
        """Put the values of all turns where the short programs have none: they go on as those that are there."""
        absent = np.flatnonzero(first <= MISSING)
        for part in np.split(absent, np.flatnonzero(np.diff(absent) != 1) + 1):
            keys = [self._turn_of[MISSING - x] for x in first[part].tolist()]
            onward = 1 if keys[0].turn <= keys[-1].turn else -1
            part, keys = part[::onward], keys[::onward]
            turn = keys[0].turn  # the first that the short program lacks
            if keys != [keys[0]._replace(turn=turn + i) for i in range(len(keys))]:
                raise _OtherPlanError
            places = part[0] + onward * np.arange(-turn, len(keys))  # of all turns
            if places.min() < 0 or places.max() >= len(first):
                raise _OtherPlanError
            there = [numbers[places][numbers[places] > MISSING].tolist() for numbers in (first, second)]
            whole = _lengthen_list(there[0], there[1], times)
            if len(there[0]) != turn or len(whole) != len(places):
                raise _OtherPlanError
            found[places] = whole


def _are_stored(groups: Iterable[Group], values: GroupMap) -> bool:
    """True if all that groups read of others is stored by those."""
    for group in groups:
        for v in group.equations:
            for base in values.bases_of(v):
                maker = values.maker.get(base, group)
                if maker is not group and base not in maker.stored:
                    return False
    return True


def _lengthen_list(first: list[int], second: list[int], times: int) -> list[int]:
    """Return a list that goes on `times` times as `second` goes on from `first`."""
    if min((*first, *second), default=0) <= MISSING:
        raise _OtherPlanError
    added = len(second) - len(first)
    if not added:
        return [x + times * (y - x) for x, y in zip(first, second, strict=True)]
    kinds = dict[Hashable, int]()
    tables = [RowTable([Row(None, [x]) for x in numbers], kinds, PLANNED) for numbers in (first, second)]
    run, other = (table.find_run(0, len(table.kinds), added) for table in tables)
    if run is None or other is None or (run.start, run.turns + 1) != (other.start, other.turns):
        raise _OtherPlanError
    before, after = first[: run.start], first[run.stop :]
    of_a, of_b = (table.turns_of(each) for table, each in zip(tables, (run, other), strict=True))
    steps = of_a[1] - of_a[0]
    if (steps != of_b[1] - of_b[0]).any():
        raise _OtherPlanError
    turns = np.arange(run.turns + times)[:, None]
    middle: list[int] = (of_a[0] + times * (of_b[0] - of_a[0]) + turns * steps).ravel().tolist()
    return [
        *(x + times * (y - x) for x, y in zip(before, second, strict=False)),
        *middle,
        *(x + times * (y - x) for x, y in zip(after, second[other.stop :], strict=True)),
    ]

"""Runs in rows of numbers: found where kinds come again and numbers grow evenly, and nowhere else."""

from __future__ import annotations

import random

import pytest

from adjoint.compiler.passes.loops.repeated_rows import Row, RowTable, Run


def rows_of_loop(period: int, turns: int, numbers: random.Random) -> list[Row]:
    """Rows of kinds of their own in each turn, which read the turn before, a moving place and a fixed value."""
    steps = [[numbers.choice((0, period, -3, 1)) for _ in range(numbers.randint(0, 3))] for _ in range(period)]
    starts = [[numbers.randint(0, 99) for _ in step] for step in steps]
    return [
        Row(("loop", i), [start + turn * step for start, step in zip(starts[i], steps[i], strict=True)])
        for turn in range(turns)
        for i in range(period)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_loop_between_others_is_found_as_a_whole(seed: int) -> None:
    numbers = random.Random(seed)
    period, turns = numbers.randint(2, 30), numbers.randint(8, 40)
    before = [Row(("before", i), [i]) for i in range(numbers.randint(0, 25))]
    after = [Row(("after", i), [i]) for i in range(numbers.randint(0, 25))]
    table = RowTable([*before, *rows_of_loop(period, turns, numbers), *after], {})
    assert table.find_runs() == [Run(len(before), period, turns)]


def test_a_loop_ends_where_a_number_does_not_go_on() -> None:
    rows = rows_of_loop(4, 30, random.Random(1))
    rows[4 * 20 + 1] = Row(rows[1].kind, [x + 1 for x in rows[4 * 20 + 1].numbers] or [5])
    runs = RowTable(rows, {}).find_runs()
    assert runs
    assert all(run.stop <= 4 * 20 + 1 or run.start > 4 * 20 + 1 - 4 for run in runs)


def test_several_loops_are_several_runs() -> None:
    numbers = random.Random(2)
    first, second = rows_of_loop(5, 12, numbers), rows_of_loop(3, 20, numbers)
    second = [Row(("second", row.kind), row.numbers) for row in second]
    assert RowTable([*first, *second], {}).find_runs() == [Run(0, 5, 12), Run(60, 3, 20)]


def test_rows_that_differ_are_no_loop() -> None:
    assert RowTable([Row(i, [i]) for i in range(200)], {}).find_runs() == []
    assert RowTable([], {}).find_runs() == []


def test_numbers_that_go_on_evenly_after_two_turns_have_twice_the_period() -> None:
    rows = [Row(i % 5, [100 * (i // 10) + 7 * (i % 10)]) for i in range(5 * 24)]
    assert RowTable(rows, {}).find_runs() == [Run(0, 10, 12)]

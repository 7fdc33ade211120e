"""Containers that the body of a loop takes: what it changes in copies is found in those of the caller."""

from __future__ import annotations

import pytest

from adjoint.compiler.ir.graph import TraceError
from adjoint.compiler.scripts.taken_containers import (
    find_containers,
    is_record,
    lower_records,
    settle_containers,
    take_containers,
)


class Record:
    def __init__(self, held) -> None:
        self.held = held


class Slotted:
    __slots__ = ("held",)


def work(given, body):
    """The results of `body` on the containers of `given`, as a region runs it."""
    taken = take_containers(tuple(map(lower_records, given)))
    results, changed = taken.pack(body(*taken.values))
    return results if changed is None else settle_containers(given, results, changed)


def test_what_changes_nothing_gives_its_results_as_they_are() -> None:
    given = [1, [2]], {"a": 3}
    assert take_containers(given).pack((4, [5])) == ((4, [5]), None)


def test_nested_containers_change_where_they_are() -> None:
    inner = [1]
    given = {"inner": inner, "other": 2}, [inner[:]]

    def body(first, second):
        first["inner"].append(3)
        del first["other"]
        second[0] = first["inner"]
        return (second,)

    (found,) = work(given, body)
    assert found is given[1]
    assert inner == [1, 3]
    assert given[0] == {"inner": inner}
    assert given[1][0] is inner


def test_records_change_and_are_made() -> None:
    record = Record([1])

    def body(taken):
        taken.held.append(2)
        taken.more = Record(taken)
        return taken, taken.held

    found, held = work([record], body)
    assert found is record
    assert held is record.held
    assert held == [1, 2]


def test_new_list_in_two_places_is_refused() -> None:
    made = [1]
    with pytest.raises(TraceError, match="two places"):
        take_containers(()).pack((made, [made]))


def test_records_are_plain_objects_of_the_program() -> None:
    assert is_record(Record(1))
    assert not any(map(is_record, (Record, 1, "a", [1], Slotted(), ValueError(), print)))


def test_container_in_itself_comes_twice() -> None:
    record = Record(None)
    record.held = [record]
    assert [*find_containers(record)] == [record, record.held, record]

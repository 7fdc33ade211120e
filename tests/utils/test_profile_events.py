"""Events of a profile: their own times, sums by name, and lines."""

from __future__ import annotations

import sys

import pytest

from adjoint.core.graph.source_location import Site
from adjoint.core.op.op_timer import TimedSpan
from adjoint.utils.profile_events import Event, order_events, read_source_line


def make_event(name: str, begin: int, end: int, thread: int = 1, worker: int = 0) -> Event:
    return Event(name, begin, end - begin, thread=thread, span=TimedSpan(name, "op", begin, end, worker=worker))


SPANS = [("outer", 0, 100), ("inner", 10, 40), ("innermost", 10, 20), ("second", 40, 60), ("next", 100, 110)]


@pytest.mark.parametrize("shift", range(len(SPANS)))
def test_own_times_leave_out_what_lies_within_in_whatever_order_events_are_told(shift: int) -> None:
    ordered = order_events([make_event(*span) for span in (*SPANS[shift:], *SPANS[:shift])])
    assert [event.key for event in ordered] == ["outer", "inner", "innermost", "second", "next"]
    assert [event.self_taken for event in ordered] == [50, 20, 10, 20, 10]
    assert sum(event.self_taken for event in ordered) == 110


def test_other_threads_and_workers_do_not_lie_within() -> None:
    events = [make_event("step", 0, 100), make_event("kernel", 10, 30), make_event("kernel", 10, 35, worker=1)]
    events.append(make_event("other", 20, 60, thread=2))
    ordered = order_events(events)
    assert {(e.key, e.taken): e.self_taken for e in ordered} == {
        ("step", 100): 80, ("kernel", 20): 20, ("kernel", 25): 25, ("other", 40): 40,
    }  # fmt: skip
    assert order_events(list(ordered))[0].self_taken == 80, "ordered twice, they are the same"


def test_sums_by_name_and_the_table() -> None:
    events = order_events([make_event("a", 0, 1000), make_event("b", 100, 400), make_event("b", 500, 600)])
    sums = events.key_averages()
    assert [(e.key, e.count, e.cpu_time_total, e.self_cpu_time_total) for e in sums] == [
        ("a", 1, 1.0, 0.6), ("b", 2, 0.4, 0.4),
    ]  # fmt: skip
    assert sums[1].cpu_time == 0.2
    assert events.total_average().self_cpu_time_total == 1.0
    rows = sums.table(sort_by="count", row_limit=1).splitlines()
    assert rows[0].split() == ["Name", "Self", "CPU", "CPU", "total", "CPU", "time", "avg", "#", "of", "Calls"]
    assert [row.split()[0] for row in rows[1:]] == ["b"]
    assert len(sums.table(row_limit=-1).splitlines()) == 3


def test_an_event_knows_its_line() -> None:
    frame = sys._getframe()
    span = TimedSpan("here", "op", 0, 1, (frame.f_code, frame.f_lasti))
    site = Event("here", 0, 1, span=span).site
    assert site is not None
    assert site.file == __file__
    assert read_source_line(site).startswith("span = TimedSpan(")
    assert Event("here", 0, 1, span=span).stack == [f"{__file__}({site.line}): test_an_event_knows_its_line"]
    assert Event("nowhere", 0, 1).stack == []
    assert Event("there", 0, 1, span=span._replace(line=Site("x.py", 3, "f"))).stack == ["x.py(3): f"]

"""The times of named blocks: one by one, summed by name, and as a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from adjoint.core.table import aligned


@dataclass
class Event:
    """One block, or all of a name: when it began and how long it took, in nanoseconds, and how often it was met."""

    key: str
    began: int
    taken: int
    count: int = 1

    @property
    def name(self) -> str:
        """The name of the block."""
        return self.key

    @property
    def cpu_time_total(self) -> float:
        """Microseconds in all."""
        return self.taken / 1000

    @property
    def cpu_time(self) -> float:
        """Microseconds each time."""
        return self.cpu_time_total / self.count

    self_cpu_time_total = cpu_time_total

    def trace(self) -> dict[str, Any]:
        """As browsers read it."""
        return {"name": self.key, "ph": "X", "ts": self.began / 1000, "dur": self.taken / 1000, "pid": 0, "tid": 0}


class EventList(list[Event]):
    """Events, and the table of them."""

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """One event for each name."""
        found: dict[str, Event] = {}
        for event in self:
            if event.key in found:
                found[event.key].taken += event.taken
                found[event.key].count += event.count
            else:
                found[event.key] = Event(event.key, event.began, event.taken, event.count)
        return EventList(found.values())

    def total_average(self) -> Event:
        """All events as one."""
        return Event("Total", 0, sum(e.taken for e in self), max(1, sum(e.count for e in self)))

    def table(self, sort_by: str | None = None, row_limit: int = 100, **kwargs: Any) -> str:
        """Names, milliseconds in all and each time, and numbers of calls; the longest first if `sort_by` is given."""
        events: Iterable[Event] = sorted(self, key=lambda event: -event.taken) if sort_by else self
        rows = [
            (event.key, f"{event.taken / 1e6:.3f} ms", f"{event.taken / event.count / 1e6:.3f} ms", str(event.count))
            for event in list(events)[:row_limit]
        ]
        return "\n".join(aligned([("Name", "CPU total", "CPU time avg", "# of Calls"), *rows], right=(1, 2, 3)))

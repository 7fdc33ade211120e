"""The events of a profile: ops, backward nodes, blocks, compiled steps and kernels, with their times and lines."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from adjoint.core.graph.source_location import InstructionLocation, Site, site_of
from adjoint.core.op.op_timer import TimedSpan
from adjoint.core.runtime.text_table import format_columns

COLUMNS = ("Name", "Self CPU", "CPU total", "CPU time avg", "# of Calls")
SORT_KEYS = {"count": "count", "cpu_time": "cpu_time", "self_cpu_time_total": "self_taken"}  # others: the total time


@dataclass
class Event:
    """Time of one op, block or kernel, or of all of a name: start and duration in nanoseconds, and number of calls.

    `self_taken` leaves out the events within. `thread` and `worker`: the thread, and the number of the thread that ran
    a kernel on its behalf.
    """

    key: str
    start_ns: int
    taken: int
    count: int = 1
    self_taken: int = -1
    thread: int = 0
    span: TimedSpan | None = None
    input_shapes: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.self_taken < 0:
            self.self_taken = self.taken

    @property
    def name(self) -> str:
        """Name of the block."""
        return self.key

    @property
    def cpu_time_total(self) -> float:
        """Total time in microseconds."""
        return self.taken / 1000

    @property
    def cpu_time(self) -> float:
        """Time of each call in microseconds."""
        return self.cpu_time_total / self.count

    @property
    def self_cpu_time_total(self) -> float:
        """Time in microseconds that does not lie in events within this one."""
        return self.self_taken / 1000

    @property
    def end_ns(self) -> int:
        """When it ended."""
        return self.start_ns + self.taken

    @property
    def site(self) -> Site | None:
        """The user's line; of a backward node, the line of its forward op."""
        return None if self.span is None else resolve_site(self.span.line)

    @property
    def stack(self) -> list[str]:
        """The user's line, as PyTorch has the stack: none, or one entry `file(line): function`."""
        site = self.site
        return [] if site is None else [f"{site.file}({site.line}): {site.function}"]


class EventList(list[Event]):
    """List of events, which formats itself as a table."""

    def key_averages(self, *args: object, **kwargs: object) -> EventList:
        """Return one event for each name."""
        sums: dict[str, Event] = {}
        for event in self:
            if event.key in sums:
                sums[event.key].taken += event.taken
                sums[event.key].self_taken += event.self_taken
                sums[event.key].count += event.count
            else:
                sums[event.key] = Event(event.key, event.start_ns, event.taken, event.count, event.self_taken)
        return EventList(sums.values())

    def total_average(self) -> Event:
        """Return the sum of all events."""
        own = sum(event.self_taken for event in self)
        return Event("Total", 0, sum(e.taken for e in self), max(1, sum(e.count for e in self)), own)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **kwargs: object) -> str:
        """Format names, self, total and average milliseconds, and calls; the largest first if `sort_by` is given."""
        key = SORT_KEYS.get(sort_by or "", "taken")
        events: Iterable[Event] = sorted(self, key=lambda event: -getattr(event, key)) if sort_by else self
        rows = []
        for event in list(events)[: row_limit if row_limit >= 0 else None]:
            times = event.self_taken, event.taken, event.taken / event.count
            rows.append((event.key, *(f"{ns / 1e6:.3f} ms" for ns in times), str(event.count)))
        return "\n".join(format_columns([COLUMNS, *rows], right=(1, 2, 3, 4)))


def order_events(events: Sequence[Event]) -> EventList:
    """Return events in the order in which they began, each with the time that does not lie in events within it."""
    ordered = EventList(sorted(events, key=lambda event: (event.start_ns, -event.taken)))
    enclosing: dict[tuple[int, int], list[Event]] = {}
    for event in ordered:
        event.self_taken = event.taken
        stack = enclosing.setdefault((event.thread, 0 if event.span is None else event.span.worker), [])
        while stack and (stack[-1].end_ns < event.end_ns or stack[-1].end_ns <= event.start_ns):
            stack.pop()
        if stack:
            stack[-1].self_taken -= event.taken
        stack.append(event)
    return ordered


def resolve_site(line: InstructionLocation | Site | None) -> Site | None:
    """Return the user's line that was noted as an instruction."""
    return line if line is None or isinstance(line, Site) else site_of(*line)


def read_source_line(site: Site) -> str:
    """Return the text of a line, without its indentation."""
    return linecache.getline(site.file, site.line).strip()

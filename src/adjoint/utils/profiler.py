"""`adjoint.profiler`: times of named blocks, one by one, summed by name, and as a table."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import Any, Self

from adjoint.core.runtime.text_table import format_columns
from adjoint.core.typing import Function

__all__ = [
    "Event", "EventList", "ProfilerAction", "ProfilerActivity", "emit_itt", "emit_nvtx", "kineto_available",
    "profile", "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


@dataclass
class Event:
    """Time of one block, or of all blocks of a name: start and duration in nanoseconds, and the number of calls."""

    key: str
    start_ns: int
    taken: int
    count: int = 1

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

    self_cpu_time_total = cpu_time_total

    def trace(self) -> dict[str, Any]:
        """Return the event in the format of Chrome's traces."""
        return {"name": self.key, "ph": "X", "ts": self.start_ns / 1000, "dur": self.taken / 1000, "pid": 0, "tid": 0}


class EventList(list[Event]):
    """List of events, which formats itself as a table."""

    def key_averages(self, *args: object, **kwargs: object) -> EventList:
        """Return one event for each name."""
        sums: dict[str, Event] = {}
        for event in self:
            if event.key in sums:
                sums[event.key].taken += event.taken
                sums[event.key].count += event.count
            else:
                sums[event.key] = Event(event.key, event.start_ns, event.taken, event.count)
        return EventList(sums.values())

    def total_average(self) -> Event:
        """Return the sum of all events."""
        return Event("Total", 0, sum(e.taken for e in self), max(1, sum(e.count for e in self)))

    def table(self, sort_by: str | None = None, row_limit: int = 100, **kwargs: object) -> str:
        """Format names, total and average milliseconds, and calls; the longest first if `sort_by` is given."""
        events: Iterable[Event] = sorted(self, key=lambda event: -event.taken) if sort_by else self
        rows = [
            (event.key, f"{event.taken / 1e6:.3f} ms", f"{event.taken / event.count / 1e6:.3f} ms", str(event.count))
            for event in list(events)[:row_limit]
        ]
        return "\n".join(format_columns([("Name", "CPU total", "CPU time avg", "# of Calls"), *rows], right=(1, 2, 3)))


_running: list[profile] = []


class ProfilerActivity(Enum):
    """Kinds of activity; only the CPU's is recorded."""

    CPU = 0
    CUDA = 2
    XPU = 3
    MTIA = 4
    HPU = 5
    PrivateUse1 = 6


class ProfilerAction(Enum):
    """Actions of a profiler in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class record_function:
    """Context or decorator that records the time of a block in the profiles that are running."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._start_ns = 0

    def __enter__(self) -> Self:
        self._start_ns = time.perf_counter_ns()
        return self

    def __exit__(self, *error: object) -> None:
        event = Event(self.name, self._start_ns, time.perf_counter_ns() - self._start_ns)
        for each in _running:
            each.record(event)

    def __call__(self, function: Function) -> Function:
        @wraps(function)
        def call_timed(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return call_timed


class profile:
    """Context that collects the times of `record_function` blocks, in the steps that `schedule` chooses.

    `on_trace_ready(p)` is called after each step that ends a cycle of the schedule, without a schedule at the end.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        **kwargs: object,
    ) -> None:
        self._schedule = schedule or (lambda _: ProfilerAction.RECORD)
        self._endless = schedule is None
        self._ready = on_trace_ready
        self.enabled = enabled
        self._events: list[Event] = []
        self.step_num = 0
        self.current_action = self._schedule(0)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start to collect."""
        _running.append(self)

    def stop(self) -> None:
        """Stop collecting."""
        _running.remove(self)
        if self._ready is not None and self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._ready(self)

    def step(self) -> None:
        """Begin the next step of the schedule."""
        ended = self.current_action is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        self.current_action = self._schedule(self.step_num)
        if ended:
            if self._ready is not None:
                self._ready(self)
            self._events = []

    def record(self, event: Event) -> None:
        """Store the event if this step is recorded."""
        if self.enabled and self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._events.append(event)

    def events(self) -> EventList:
        """Return all blocks, in the order in which they ended."""
        return EventList(self._events)

    @property
    def function_events(self) -> EventList:
        """All blocks, in the order in which they ended."""
        return self.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Total time of all blocks in microseconds; nested blocks count twice."""
        return self.total_average().cpu_time_total

    def total_average(self) -> Event:
        """Return the sum of all blocks."""
        return self.events().total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **kwargs: Any) -> str:
        """Format the blocks one by one; `key_averages().table()` has one row for each name."""
        return self.events().table(sort_by, row_limit, **kwargs)

    def __str__(self) -> str:
        return self.table()

    def key_averages(self, *args: object, **kwargs: object) -> EventList:
        """Return one event for each name, with its number of calls and its total time."""
        return self.events().key_averages()

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as JSON that browsers show as a trace."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": [event.trace() for event in self._events]}, file)


class emit_nvtx:
    """Context that changes nothing, in place of marks for a profiler of CUDA devices."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


emit_itt = emit_nvtx


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a schedule that skips `skip_first` steps, then repeats `wait`, `warmup` and recorded, `active` steps."""

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        length = wait + warmup + active
        if step < 0 or (repeat and step // length >= repeat):
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Any:
    """Return an `on_trace_ready` that writes a trace file into the folder."""

    def write(finished: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = f"{worker_name or os.getpid()}.{time.time_ns()}.pt.trace.json"
        finished.export_chrome_trace(os.path.join(dir_name, name))

    return write


def kineto_available() -> bool:
    """Return False: PyTorch's own profiler is absent."""
    return False


def supported_activities() -> set[ProfilerActivity]:
    """Return the activity of the CPU."""
    return {ProfilerActivity.CPU}

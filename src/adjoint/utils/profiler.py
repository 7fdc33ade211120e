"""`adjoint.profiler`: times of ops, of their backward, of compiled steps kernel by kernel, and of named blocks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum
from functools import wraps
from typing import Any, Self

from adjoint.core.graph.source_location import user_instruction
from adjoint.core.op.op_timer import TimedSpan
from adjoint.core.typing import Function
from adjoint.utils.profile_events import Event, EventList, order_events
from adjoint.utils.profile_observer import LiveBytes, ProfileObserver
from adjoint.utils.trace_file import write_trace

__all__ = [
    "Event", "EventList", "ProfilerAction", "ProfilerActivity", "emit_itt", "emit_nvtx", "kineto_available",
    "profile", "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


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
        self._starts: list[int] = []

    def __enter__(self) -> Self:
        self._starts.append(time.perf_counter_ns())
        return self

    def __exit__(self, *error: object) -> None:
        _record_block(self.name, self._starts.pop())

    def __call__(self, function: Function) -> Function:
        @wraps(function)
        def call_timed(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return call_timed


def _record_block(name: str, begin: int) -> None:
    """Tell the profiles that run of a block that ends now."""
    if _running:
        end = time.perf_counter_ns()
        span = TimedSpan(name, "block", begin, end, user_instruction(2))
        for each in _running:
            each.record(Event(name, begin, end - begin, thread=threading.get_native_id(), span=span))


class profile:
    """Context that times what its thread computes, in the steps that `schedule` chooses.

    These are ops, nodes of backward passes, steps of optimizers, compiled steps with each of their kernels and calls,
    and `record_function` blocks, those of other threads too. Each event has the user's line. A compiled step stays one:
    a clock is put around its kernels, which costs about 0.1 µs for each tile.

    Args:
        record_shapes: True to note the shapes of the ops' inputs. Default: False.
        profile_memory: True to count the bytes of results that are alive; the trace shows them as a curve.
            Default: False.
        schedule: which steps to record, a function of the step's number. Default: None, all.
        on_trace_ready: called with the profile after each step that ends a cycle of the schedule, without a schedule
            at the end. Default: None.

    Example:
        >>> x = ad.ones(3, requires_grad=True)
        >>> with ad.profiler.profile() as p:
        ...     (x * x).sum().backward()
        >>> sorted(event.key for event in p.key_averages() if "Backward" in event.key)
        ['MulBackward0', 'SumBackward0']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        **kwargs: object,
    ) -> None:
        self._schedule = schedule or (lambda _: ProfilerAction.RECORD)
        self._endless = schedule is None
        self._ready = on_trace_ready
        self.enabled = enabled
        self._events: list[Event] = []
        self.step_num = 0
        self.current_action = self._schedule(0)
        self._step_start_ns = 0
        self._memory = LiveBytes() if profile_memory else None
        self._observer = ProfileObserver(self.record, record_shapes, self._memory)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start to collect."""
        _running.append(self)
        self._step_start_ns = time.perf_counter_ns()
        self._watch()

    def stop(self) -> None:
        """Stop collecting."""
        _running.remove(self)
        self._end_step()
        self._observer.stop()
        if self._ready is not None and self._is_recording():
            self._ready(self)

    def step(self) -> None:
        """Begin the next step of the schedule."""
        self._end_step()
        ended = self.current_action is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        self.current_action = self._schedule(self.step_num)
        if ended:
            if self._ready is not None:
                self._ready(self)
            self._events = []
            if self._memory is not None:
                self._memory.clear()
        self._step_start_ns = time.perf_counter_ns()
        self._watch()

    def _end_step(self) -> None:
        """Record the step of the schedule that ends, under PyTorch's name for it."""
        if not self._endless and self._is_recording():
            begin = self._step_start_ns
            self._observer.note(
                TimedSpan(f"ProfilerStep#{self.step_num}", "block", begin, time.perf_counter_ns(), user_instruction(2))
            )

    def _is_recording(self) -> bool:
        return self.enabled and self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def _watch(self) -> None:
        """Time ops in the steps that are recorded, and only there."""
        if self._is_recording():
            self._observer.start()
        else:
            self._observer.stop()

    def record(self, event: Event) -> None:
        """Store the event if this step is recorded."""
        if self._is_recording():
            self._events.append(event)

    def events(self) -> EventList:
        """Return all events, in the order in which they began."""
        return order_events(self._events)

    @property
    def function_events(self) -> EventList:
        """All events, in the order in which they began."""
        return self.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Total time of all events in microseconds; the time of an event within another counts once."""
        return self.total_average().self_cpu_time_total

    def total_average(self) -> Event:
        """Return the sum of all events."""
        return self.events().total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **kwargs: Any) -> str:
        """Format the events one by one; `key_averages().table()` has one row for each name."""
        return self.events().table(sort_by, row_limit, **kwargs)

    def __str__(self) -> str:
        return self.table()

    def key_averages(self, *args: object, **kwargs: object) -> EventList:
        """Return one event for each name, with its number of calls and its total time."""
        return self.events().key_averages()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as a file that ui.perfetto.dev and chrome://tracing open: lines, threads, flows to backward.

        A name that ends in `.gz` compresses it.
        """
        write_trace(path, self.events(), () if self._memory is None else self._memory.samples)


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
        name = f"{worker_name or os.getpid()}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        finished.export_chrome_trace(os.path.join(dir_name, name))

    return write


def kineto_available() -> bool:
    """Return False: PyTorch's own profiler is absent."""
    return False


def supported_activities() -> set[ProfilerActivity]:
    """Return the activity of the CPU."""
    return {ProfilerActivity.CPU}

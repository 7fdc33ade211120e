"""The times of a step's kernels and calls, measured in a copy of this process, in which alone anything changes.

The copy is a fork: it calls the step as the user does, again and again, in turns with the clock of its programs and
without it. Parameters, moments, generators, buffers and Python's state are written there and not here. Exchanges with
other ranks do not take place; what the step prints is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from adjoint.autograd.backward import backward
from adjoint.compiler.report.kernel_clock import KernelClock, KernelSpan, clock_address
from adjoint.compiler.report.process_copy import ProcessCopyError, call_in_copy
from adjoint.core.graph.node import OutputSlot
from adjoint.core.runtime import pytree
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.runtime.threads import get_num_threads
from adjoint.core.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from adjoint.compiler.program.program import Program
    from adjoint.compiler.trace.events.step_events import Outcome
    from adjoint.core.typing import Operand, Operands

MEASURED_SECONDS = 0.4  # of calls
MIN_CALLS, MAX_CALLS = 5, 400
EXCHANGES = "an exchange takes place between ranks, which a copy of one cannot repeat"
NO_CLOCK = "this system has no clock that kernels can read"


class ProgramTimes(NamedTuple):
    """The median seconds of each entry of one program, by number, as far as they were measured.

    `spans`: one call, that of median length. `reasons`: why others were not measured.
    """

    seconds: dict[int, float]
    spans: tuple[KernelSpan, ...]
    reasons: dict[int, str]


class StepTimes(NamedTuple):
    """The median seconds of a call, and those of the entries of its programs and of their backward halves, in order."""

    call: float
    calls: int
    threads: int
    programs: tuple[ProgramTimes, ...]
    backward: tuple[ProgramTimes | None, ...]
    python_parts: dict[str, float]  # the user's code between programs, by what and line
    arguments: str

    @property
    def entries_total(self) -> float:
        """The seconds of all entries of the call."""
        return sum(sum(program.seconds.values()) for program in self.programs)

    @property
    def rest(self) -> float:
        """The seconds of a call that lie in none of these: checks of arguments and state, generators, results."""
        return max(self.call - self.entries_total - sum(self.python_parts.values()), 0.0)

    def __str__(self) -> str:
        parts = [f"{format_microseconds(self.entries_total)} in the entries ({self.entries_total / self.call:.0%})"]
        parts += [f"{format_microseconds(taken)} where it {what}" for what, taken in self.python_parts.items()]
        parts.append(f"{format_microseconds(self.rest)} besides: checks of arguments and state, generators, results")
        threads, calls = pluralize(self.threads, "thread"), pluralize(self.calls, "call")
        return (
            f"a call takes {format_microseconds(self.call)} with {threads}, the median of {calls} with "
            f"{self.arguments}: {', '.join(parts)}"
        )


class UnmeasuredStepError(RuntimeError):
    """A step whose times cannot be measured; the message says why."""


class MeasuredStep(NamedTuple):
    """A step to be measured: a call of it, the programs that its latest call ran, a word on the arguments.

    `prepare` is called first, in the copy.
    """

    call: Callable[[], Operand]
    programs: Callable[[], Sequence[Program]]
    prepare: Callable[[], None]
    arguments: str


def measure_step(step: MeasuredStep) -> StepTimes:
    """Return the times of a call of a step, measured in a copy of the process.

    Raises UnmeasuredStepError where that is not possible.
    """
    try:
        times: StepTimes = call_in_copy(lambda: _measure(step))
    except ProcessCopyError as error:
        raise UnmeasuredStepError(f"the step cannot be measured: {error}") from None
    return times


def _measure(step: MeasuredStep) -> StepTimes:
    """Call the step in turns with clocks and without them."""
    step.prepare()
    for program in step.programs():
        _skip_exchanges(program)
    call = step.call
    if (backward := _backward_of(call())) is not None:
        backward()
    forward = list(step.programs())
    late = [half for program in forward if (half := made_backward(program)) is not None]
    used = [*forward, *late]
    for program in used:
        _skip_exchanges(program)
    begin = time.perf_counter()
    call()
    once = time.perf_counter() - begin
    calls = max(MIN_CALLS, min(MAX_CALLS, round(MEASURED_SECONDS / 2 / max(once, 1e-7))))
    noted: list[tuple[Program, list[KernelSpan]]] = []
    clocks = [KernelClock(program, lambda *found: noted.append(found)) for program in used]
    positions = {id(program): i for i, program in enumerate(used)}
    whole: list[float] = []
    rounds: list[dict[tuple[int, int], list[KernelSpan]]] = []
    with PythonParts() as parts:
        for _ in range(calls):
            begin = time.perf_counter()
            call()
            whole.append(time.perf_counter() - begin)
            for clock in clocks:
                clock.install()
            if (backward := _backward_of(call())) is not None:
                backward()
            for clock in clocks:
                clock.remove()
            spans: dict[tuple[int, int], list[KernelSpan]] = {}
            for program, found in noted:
                for span in found:
                    spans.setdefault((positions[id(program)], span.entry), []).append(span)
            rounds.append(spans)
            noted.clear()
    readings = [time.perf_counter_ns() for _ in range(400)]
    own = median(b - a for a, b in pairwise(readings)) * 1e-9 / 2  # what reading the clock adds to a span
    told = tuple(_program_times(i, program, rounds, own) for i, program in enumerate(used))
    halves = {id(program): times for program, times in zip(used, told, strict=True)}
    return StepTimes(
        median(whole),
        calls,
        get_num_threads(),
        told[: len(forward)],
        tuple(halves.get(id(made_backward(program))) for program in forward),
        parts.medians(2 * calls),
        step.arguments,
    )


def made_backward(program: Program) -> Program | None:
    """The backward half of a program, where it was needed so far."""
    return None if program.backward is None else program.backward._program


class PythonParts:
    """Times the user's code that runs between the programs of a step, while the block lasts."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def __enter__(self) -> Self:
        from adjoint.compiler.trace.events.step_events import StepEvent

        self.take_place = take_place = StepEvent.take_place

        def take_place_timed(event: StepEvent, leaves: Operands) -> Outcome:
            begin = time.perf_counter()
            try:
                return take_place(event, leaves)
            finally:
                if event.function is not None:
                    self.seconds.setdefault(str(event), []).append(time.perf_counter() - begin)

        setattr(StepEvent, "take_place", take_place_timed)  # noqa: B010  for this process, a copy, alone
        return self

    def __exit__(self, *error: object) -> None:
        from adjoint.compiler.trace.events.step_events import StepEvent

        setattr(StepEvent, "take_place", self.take_place)  # noqa: B010

    def medians(self, calls: int) -> dict[str, float]:
        """Return the median seconds of each part in a call, of so many."""
        return {what: median(times) * max(1, round(len(times) / calls)) for what, times in self.seconds.items()}


def _program_times(
    position: int, program: Program, rounds: list[dict[tuple[int, int], list[KernelSpan]]], own: float
) -> ProgramTimes:
    """Return the median times of a program's entries, and the spans of one call."""
    seconds, reasons = {}, {}
    for number, group in enumerate(program.fusion.order):
        found = [
            max(max(s.end for s in spans) - min(s.begin for s in spans), 0) * 1e-9
            for each in rounds
            if (spans := each.get((position, number)))
        ]
        value = group.equations[0]
        if value.op.family == "collective":
            reasons[number] = EXCHANGES
        elif found:
            seconds[number] = max(median(found) - own, 0.0)
        elif group.call and program.binding.is_native(group):
            reasons[number] = "a look at one truth value, which is part of the native call"
        else:
            reasons[number] = "the call did not come to it" if clock_address() else NO_CLOCK
    calls = [[s for (at, _), spans in each.items() if at == position for s in spans] for each in rounds]
    calls.sort(key=lambda spans: max((s.end for s in spans), default=0) - min((s.begin for s in spans), default=0))
    return ProgramTimes(seconds, tuple(calls[len(calls) // 2]), reasons)


def _skip_exchanges(program: Program) -> None:
    """Let a program's exchanges give what they are given, without other ranks."""
    for name, value in program.numpy_calls.items():
        if value.op.family == "collective":
            held = np.zeros(value.shape, value.dtype)
            program.names[name] = lambda *operands, held=held: held


def _backward_of(result: Operand) -> Callable[[], None] | None:
    """Return what runs the backward half of a step, where its results have a history; None where they have none."""
    from adjoint.compiler.program.backward_node import CompiledBackward

    tensors = [x for x in pytree.flatten(result)[0] if isinstance(x, Tensor)]
    found = [x for x in tensors if isinstance(x.node, (CompiledBackward, OutputSlot))]
    return (lambda: backward(found, [wrap(np.ones(x.shape, x.array.dtype)) for x in found])) if found else None


def format_microseconds(seconds: float) -> str:
    """Return a time as it is printed: "0.12 µs", "1,234 µs"."""
    microseconds = 1e6 * seconds
    return f"{microseconds:,.0f} µs" if microseconds >= 100 else f"{microseconds:.3g} µs"

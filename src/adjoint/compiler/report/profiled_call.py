"""Calls of compiled steps while a profile runs: the program is the same, with a clock around each kernel."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from adjoint.core.graph.source_location import Site, user_instruction
from adjoint.core.op.op_timer import OpTimer, TimedSpan
from adjoint.core.runtime import pytree
from adjoint.core.runtime.fork_safety import reset_after_fork

if TYPE_CHECKING:
    from adjoint.compiler.program.program import Program
    from adjoint.compiler.report.explain import ExplainEntry
    from adjoint.compiler.report.kernel_clock import KernelClock, KernelSpan
    from adjoint.core.typing import Operand, Operands

PREPARATION = "profiler: put a clock around each kernel"  # once for each program
MAX_NAME_LENGTH = 60  # of a kernel
# The clocks of a program are for one call at a time.
_lock = reset_after_fork(threading.RLock())


class ProfiledStep(Protocol):
    """A compiled function, as far as a profile needs it."""

    name: str

    @property
    def compilations(self) -> int: ...
    def __call__(self, *args: Operand, **kwargs: Operand) -> Operand: ...


class EntryFacts(NamedTuple):
    """An entry of a program, as a trace shows it."""

    name: str
    kind: str
    site: Site | None
    facts: Mapping[str, object]

    @classmethod
    def of(cls, entry: ExplainEntry) -> Self:
        """Return what a trace shows of an entry of `explain()`."""
        ops = " ".join(equation.op for equation in entry.equations)
        facts: dict[str, object] = {"entry": entry.number, "ops": ops, "lines": "; ".join(entry.lines)}
        facts.update({"begins here because": entry.reason, "bytes read": entry.read, "bytes written": entry.written})
        if entry.flops is not None:
            facts["flops"] = entry.flops
        name = ops if len(ops) <= MAX_NAME_LENGTH else ops[: MAX_NAME_LENGTH - 1] + "…"
        return cls(name, entry.kind, None if entry.origin is None else entry.origin.site, facts)


class TimedProgram:
    """A program with its clock, and what is told of its entries."""

    def __init__(self, program: Program) -> None:
        from adjoint.compiler.report.explain import explain_groups
        from adjoint.compiler.report.kernel_clock import KernelClock

        self.clock: KernelClock = KernelClock(program, self._note)
        self.entries = [EntryFacts.of(entry) for entry in explain_groups(program)]
        self.thread = 0
        self.spans: list[KernelSpan] = []

    def _note(self, program: Program, spans: list[KernelSpan]) -> None:
        if threading.get_ident() == self.thread:  # not those of a call that another thread makes meanwhile
            self.spans += spans

    def take_spans(self) -> Iterator[TimedSpan]:
        """Yield what was noted since the last time."""
        spans, self.spans = self.spans, []
        for span in spans:
            name, kind, site, facts = self.entries[span.entry]
            tiles = {"tiles": span.tiles} if kind == "kernel" else {}
            yield TimedSpan(name, kind, span.begin, span.end, site, span.thread, facts={**facts, **tiles})


def call_step_timed(
    step: ProfiledStep, programs: Iterable[Program], timer: OpTimer, args: Operands, kwargs: dict[str, Operand]
) -> Operand:
    """Return what a call of a compiled step returns, and tell `timer` how long it and its kernels took.

    `programs`: those that it has. A call for which one is made first is told as a whole.
    """
    compilations = step.compilations
    with _kernel_clocks(timer, programs):
        begin = time.perf_counter_ns()
        result = step(*args, **kwargs)
        end = time.perf_counter_ns()
    facts = {"compiled in this call": True} if step.compilations > compilations else {}
    nodes = (getattr(getattr(x, "node", None), "owner", getattr(x, "node", None)) for x in pytree.flatten(result)[0])
    number = next((node.sequence_nr for node in nodes if node is not None and hasattr(node, "backward")), None)
    timer.note(TimedSpan(step.name, "step", begin, end, user_instruction(), sequence_nr=number, facts=facts))
    timer.note_arrays(result)
    return result


def run_program_timed(program: Program, timer: OpTimer, args: Operands) -> Operand:
    """Return what a program returns, and tell `timer` how long its kernels took."""
    with _kernel_clocks(timer, [program]):
        return program.run(*args)


@contextmanager
def _kernel_clocks(timer: OpTimer, programs: Iterable[Program]) -> Iterator[None]:
    """Measure the kernels of these programs in a block in which the timer sees no ops."""
    with _lock, timer.suspend():
        timed = []
        for program in programs:
            known: TimedProgram | None = timer.programs.get(program)
            if known is None or not known.clock.is_current():
                begin = time.perf_counter_ns()
                known = timer.programs[program] = TimedProgram(program)
                timer.note(TimedSpan(PREPARATION, "block", begin, time.perf_counter_ns()))
            known.thread = threading.get_ident()
            timed.append(known)
        try:
            for each in timed:
                each.clock.install()
            yield
        finally:
            for each in timed:
                each.clock.remove()
            for each in timed:
                for span in each.take_spans():
                    timer.note(span)

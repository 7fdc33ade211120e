"""The timer of a profile, as ops, optimizers and compiled steps see it: what they tell it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, cast

from adjoint.core.graph.source_location import InstructionLocation, Site
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.typing import Function, Operand, Operands


class TimedSpan(NamedTuple):
    """Something that took from `begin` to `end`, in nanoseconds of `time.perf_counter_ns`.

    `kind`: "op", "backward", "block", "step" (a compiled one), "kernel", "call" (of NumPy, in a compiled step) and so
    on. `line`: the user's. `worker`: the number of the thread of a kernel, 0 for the thread of the call itself.
    `sequence_nr`: of the node that an op recorded, or that ran. `facts` are shown as they are.
    """

    name: str
    kind: str
    begin: int
    end: int
    line: InstructionLocation | Site | None = None
    worker: int = 0
    sequence_nr: int | None = None
    facts: Mapping[str, object] = {}


class OpTimer(Protocol):
    """An observer of ops that also learns when they begin, and of blocks and compiled steps.

    `programs` is for the compiler, which keeps there how it times each program.
    """

    programs: dict[object, Operand]

    def observe_op(self, op: Operand, inputs: Operands, out: Operand) -> None:
        """Record an op that has ended."""

    def begin_op(self, name: str) -> None:
        """Note that an op begins."""

    def note(self, span: TimedSpan) -> None:
        """Record what took place in this thread."""

    def note_arrays(self, value: Operand) -> None:
        """Count the memory of results."""

    def time_block(self, name: str, function: Function, args: Operands, kwargs: dict[str, Operand]) -> Operand:
        """Return `function(*args, **kwargs)`, and record it as a block."""

    def suspend(self) -> AbstractContextManager[object]:
        """Return a block whose ops are not recorded."""


def find_op_timer() -> OpTimer | None:
    """Return the timer that receives the ops of this thread, unless something else receives them too."""
    if not nondefault.count or not hasattr(mode.anomaly_detector, "begin_op"):
        return None
    others = mode.interpreter is not None or mode.forward_levels is not None or mode.saved_tensor_hooks
    return None if others else cast("OpTimer", mode.anomaly_detector)

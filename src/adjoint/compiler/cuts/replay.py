"""An eager run of a step in whose call something took place already: that does not take place again."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import FrameType

from adjoint.compiler.trace.events.step_events import Outcome
from adjoint.compiler.trace.frames import FrameObserver
from adjoint.compiler.trace.frames.host_functions import HostFunction, HostFunctions
from adjoint.core.graph.source_location import Site
from adjoint.core.runtime.exchange_log import CallLog, log_exchanges
from adjoint.core.typing import Function, Operand, Operands


def finish_eagerly(function: Function, args: Operands, kwargs: dict[str, Operand], log: CallLog) -> Operand:
    """Call a function of which a part has run; what took place, as `log` has it, does not take place again."""
    with log_exchanges(log.exchanges or None):
        if not any(outcome.is_replayed for outcome in log):
            return function(*args, **kwargs)
        return run_with_outcomes(function, args, kwargs, log)


def run_with_outcomes(
    function: Function, args: Operands, kwargs: dict[str, Operand], outcomes: Sequence[Outcome]
) -> Operand:
    """The result of `function(*args, **kwargs)`; its first calls of host functions bring what they have brought."""
    left = [outcome for outcome in outcomes if outcome.is_replayed]

    def call(host: HostFunction, given: Operands, named: dict[str, Operand]) -> Operand:
        if left and host.is_replayed:
            if host.function.__name__ == "shuffle":
                given[0][:] = left.pop(0).result()
                return None
            return left.pop(0).result()
        return host.function(*given, **named)

    observer = ReplayObserver(_ignore)
    observer.hosts = HostFunctions(call)
    with observer.observe(function):
        return function(*args, **kwargs)


class ReplayObserver(FrameObserver):
    """Follows a step up to code that nobody here can follow: what a trace has brought it brought before that."""

    def refuse_instruction(self, ins: dis.Instruction, frame: FrameType) -> None:
        """Refuse nothing."""


def _ignore(what: str, site: Site) -> None:
    """Refuse nothing: all that the step does takes place."""

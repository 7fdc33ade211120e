"""Base of rules: functions of what a watched program does, which add findings to the report."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand, Operands
from adjoint.diagnosis.findings import Finding, Place

if TYPE_CHECKING:
    from adjoint.diagnosis.watch.events import Backward, ModuleCall, OptimizerStep
    from adjoint.diagnosis.watch.facts import Facts
    from adjoint.diagnosis.watch.library_calls import LibraryCall
    from adjoint.nn.module.module import Module


ALL_PASSES = sys.maxsize
CHECKED_PASSES = 6  # of a mistake that every pass shows


class WatchRule:
    """One kind of mistake. A subclass defines the methods of the events that it looks at.

    `ops` names the ops whose results it sees. Of modules it sees the outermost calls alone if `sees_roots_only`, else
    those of the classes `modules`, all if there are none. It sees ops, losses, modules and backward passes only until
    `max_passes` passes have run, and gradients before `max_steps` steps of each optimizer. Later steps it sees one in
    four, unless `sees_every_step`.
    """

    ops: frozenset[str] = frozenset()
    modules: tuple[type[Module], ...] = ()
    sees_roots_only = False
    sees_every_step = False
    max_passes = ALL_PASSES
    max_steps = ALL_PASSES

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        """See the result of an op of `ops`, in the first steps."""

    def see_call(self, call: LibraryCall) -> None:
        """See a call of a loss or of attention, while it runs, in the first steps."""

    def see_written_loss(self, call: LibraryCall) -> None:
        """See an error that the program wrote out, at the backward pass, as `see_call` sees one of the library's."""

    def enter_module(self, call: ModuleCall) -> None:
        """See a module that is about to run."""

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        """See what a module gave."""

    def begin_backward(self, backward: Backward) -> None:
        """See a backward pass, whose graph is still whole."""

    def before_step(self, step: OptimizerStep) -> None:
        """See the gradients that an optimizer is about to use."""

    def after_step(self, step: OptimizerStep) -> None:
        """See the parameters that a step has changed."""

    def finish(self) -> None:
        """Add what only the whole watch tells."""

    def report(self, kind: str, place: Place | None, name: str, problem: str, advice: str, number: object = "") -> None:
        """Add a finding."""
        self.facts.report.add(Finding(kind, place, name, str(number), problem, advice))


class RuleHandlers:
    """Methods of rules that see an event: each until the passes of its rule have run, or until it raises an error."""

    __slots__ = ("checked_at", "methods")

    def __init__(self, rules: Iterable[WatchRule], event: str, is_limited: bool = True) -> None:
        self.methods: list[tuple[WatchRule, Function]] = [(rule, getattr(rule, event)) for rule in rules]
        self.checked_at = 1 if is_limited else ALL_PASSES  # after so many passes, one of the rules has seen enough

    def call(self, iteration: int, *args: object, **kwargs: object) -> None:
        """Show the event to the rules; errors are kept from the program."""
        if iteration >= self.checked_at:
            self.methods = [pair for pair in self.methods if pair[0].max_passes > iteration]
            self.checked_at = min((rule.max_passes for rule, _ in self.methods), default=ALL_PASSES)
        for rule, see in self.methods:
            try:
                see(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  whatever a rule stumbles over
                self.methods = [pair for pair in self.methods if pair[0] is not rule]
                message = f"{type(rule).__name__}.{see.__name__}: {type(error).__name__}: {error}"
                rule.facts.report.failures.append(message)


@cache
def find_rules_of_events(rules: tuple[type[WatchRule], ...]) -> dict[str, list[int]]:
    """Return which of the rules look at each event, those with a method of its name, by their places."""
    found: dict[str, list[int]] = {}
    for i, rule in enumerate(rules):
        classes = rule.__mro__[: rule.__mro__.index(WatchRule)]
        for name in {name for kind in classes for name in vars(kind)}:
            found.setdefault(name, []).append(i)
    return found

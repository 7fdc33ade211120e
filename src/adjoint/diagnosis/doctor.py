"""`ad.doctor`: watches the first training steps of a program, and reports what is silently wrong."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Finding, Report
from adjoint.diagnosis.rule_order import RULES
from adjoint.diagnosis.watch.watch import Watch

__all__ = ["Finding", "Report", "doctor"]

STEPS = 20  # of each optimizer, in which ops are watched too
CALLS = 5  # of a step function


class Doctor:
    """A block whose training steps are watched; `with` gives its report, which is full when the block ends."""

    def __init__(self, steps: int = STEPS, file: TextIO | None = None) -> None:
        self.report = Report()
        self.steps, self.file = steps, file
        self.watch: Watch | None = None

    def __enter__(self) -> Report:
        self.report = Report()
        self.watch = Watch(RULES, self.report, self.steps)
        self.watch.start()
        return self.report

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.stop()
            (self.file or sys.stderr).write(f"{self.report}\n")


def watch_until_exit() -> None:
    """Watch from now on, and report when the process ends."""
    watched = Doctor()
    watched.__enter__()
    atexit.register(watched.__exit__, None, None, None)


def doctor(
    step: Callable[..., Operand] | None = None,
    *batch: Operand,
    calls: int = CALLS,
    steps: int = STEPS,
    file: TextIO | None = None,
) -> Operand:
    """Watch training steps, and report what is silently wrong with them: the line, the name, the number, what to do.

    Without arguments it gives a context: `with ad.doctor() as report:`. Given a step function it calls
    `step(*batch)` a few times and returns the report. The report is also written to standard error.

    Args:
        step: function of one training step. Default: None, watch a block.
        batch: its arguments.
        calls: how often to call it. Default: 5.
        steps: in how many steps of each optimizer ops are watched too. Default: 20.
        file: where the report is written. Default: None, standard error.

    Returns: a context, or a report with `findings`.

    Example:
        >>> model = nn.Linear(3, 1)
        >>> optimizer = optim.SGD(model.parameters(), lr=0.1)
        >>> with ad.doctor() as report:
        ...     for _ in range(3):
        ...         optimizer.zero_grad()
        ...         model(ad.ones(4, 3)).square().mean().backward()
        ...         optimizer.step()
        >>> report.findings
        []
    """
    watched = Doctor(steps, file)
    if step is None:
        return watched
    with watched as report:
        for _ in range(calls):
            step(*batch)
    return report

"""Rules on schedules: a mode that is not of the metric, and steps of another unit than the schedule counts."""

from __future__ import annotations

import ast
import math
import re
from collections import deque
from itertools import accumulate, pairwise

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.source.slips import HIGH
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.frames import find_expression
from adjoint.diagnosis.watch.names import describe_callee
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.optim.lr.reduce_on_plateau import ReduceLROnPlateau
from adjoint.optim.lr.schedules import CosineAnnealingLR, OneCycleLR

LAST_LOSSES = 256  # whose sums and means a metric may be
SAME = 1e-5  # relative distance
MIN_FOREIGN = 2  # steps of a schedule whose optimizer makes none
MIN_FRESH = 4  # schedules of one step each
LENGTHS = re.compile(r"(?:total_steps|T_max)\s*=\s*[^,]*(?:\*|len\()|steps_per_epoch|\([^()]+,\s*\w+\s*\*\s*len\(")
EPOCHS = re.compile(r"(?:T_max\s*=|\(\s*[\w.]+\s*,)[^,*]*epochs?\b", re.IGNORECASE)


class PlateauMode(WatchRule):
    """`ReduceLROnPlateau(mode="max")` of a loss, which is to become small."""

    ops = frozenset({"squared_error", "mean_nll", "entropy", "logit_entropy", "smooth_l1", "huber"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.made: dict[int, tuple[Place, str, int]] = {}
        self.evaluated: deque[float] = deque(maxlen=LAST_LOSSES)  # the last losses without a graph first

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        """See a loss that an evaluation computes."""
        if out.node is None and out.array.size == 1:
            self.evaluated.appendleft(float(out.array.item()))

    def _check_score(self, schedule: Operand) -> None:
        """Look for a score, which is to become large, that is taken for a loss."""
        found = find_expression(caller_frame())
        given = (
            text_of(found[1].args[0]) if found is not None and isinstance(found[1], ast.Call) and found[1].args else ""
        )
        if HIGH.search(given.rpartition(".")[2]) and "-" not in given:
            name, made = describe_callee(caller_frame())
            problem = (
                f"{name} looks for a minimum of {given}, which is to grow: each better one counts as none, and the "
            )
            problem += "rate falls"
            self.report("plateau-mode", made or caller_place(), name, problem, 'mode="max"', given)

    def schedule_steps(self, schedule: Operand, metrics: Operand = None, *args: object, **kwargs: object) -> None:
        """See the step of a schedule."""
        if not isinstance(schedule, ReduceLROnPlateau):
            return
        if schedule.mode == "min":
            self._check_score(schedule)
            return
        rows = (self.facts.losses()[: -LAST_LOSSES - 1 : -1], self.evaluated)
        sums = [pair for row in rows for pair in enumerate(accumulate(row), 1)]
        candidates = [each for count, total in sums for each in (total, total / count)]
        value = float(metrics)
        is_loss = any(math.isclose(value, each, rel_tol=SAME) for each in candidates) and value != 1
        found = find_expression(caller_frame())
        given = found[1].args if found is not None and isinstance(found[1], ast.Call) else []
        if is_loss or any("loss" in text_of(each).lower() for each in given):
            name, made = describe_callee(caller_frame())
            place, _, count = self.made.get(id(schedule), (made or caller_place(), name, 0))
            self.made[id(schedule)] = place, name, count + 1

    def finish(self) -> None:
        for place, name, count in self.made.values():
            if count >= 2:
                problem = (
                    f'{name} takes the rate down while the loss falls: mode="max", and {count} times it got the loss'
                )
                self.report("plateau-mode", place, name, problem, 'mode="min" for a loss', count)


class FreshSchedules(WatchRule):
    """A schedule that is made anew before each of its steps: it never gets beyond the first."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.made: dict[tuple[int, type, Place], list[Operand]] = {}  # schedules, by the line that steps them

    def schedule_steps(self, schedule: Operand, *args: object, **kwargs: object) -> None:
        """See the step of a schedule."""
        if not hasattr(schedule, "optimizer") or getattr(schedule, "_is_initial", False):
            return
        key = id(schedule.optimizer), type(schedule), caller_place()
        known = self.made.setdefault(key, [])
        known.append(schedule)
        if len(known) == MIN_FRESH and len({id(each) for each in known}) == MIN_FRESH:
            name, made = describe_callee(caller_frame())
            problem = f"{name} is made anew before each of {MIN_FRESH} steps: {key[1].__name__} counts from 0 each time"
            self.report("schedule-made-anew", made or key[2], name, problem, "make it once, before the loop", MIN_FRESH)


class ScheduleUnit(WatchRule):
    """A schedule over all batches that goes on once an epoch, and one over epochs that goes on with each batch."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.calls: dict[int, tuple[Operand, str, Place, Place, list[int]]] = {}  # with the optimizer's steps at each

    def schedule_steps(self, schedule: Operand, *args: object, **kwargs: object) -> None:
        """See the step of a schedule."""
        if not isinstance(schedule, (OneCycleLR, CosineAnnealingLR)) or getattr(schedule, "_is_initial", False):
            return
        record = self.facts.optimizers.get(id(schedule.optimizer))
        if record is None:
            return
        if id(schedule) not in self.calls:
            name, made = describe_callee(caller_frame())
            self.calls[id(schedule)] = schedule, name, made or caller_place(), caller_place(), []
        self.calls[id(schedule)][-1].append(record.steps)

    def finish(self) -> None:
        for schedule, name, made, place, steps in self.calls.values():
            gaps = {after - before for before, after in pairwise(steps)}
            length = int(getattr(schedule, "T_max", 0) or getattr(schedule, "total_steps", 0))
            if len(gaps) == 1 and min(gaps) > 1 and LENGTHS.search(made.text) and len(steps) < length:
                problem = f"{name} counts {length} batches, and goes on once in {min(gaps)} steps: {len(steps)} times "
                problem += f"in {steps[-1]} steps"
                self.report("schedule-unit", place, name, problem, f"{name}.step() after each batch", min(gaps))
            is_past = isinstance(schedule, CosineAnnealingLR) and len(steps) > length + 1
            if gaps == {1} and is_past and EPOCHS.search(made.text):
                problem = f"{name} reaches its end after {length} steps, and goes on with each batch, {len(steps)} "
                problem += "times: the rate rises again"
                self.report("schedule-unit", place, name, problem, f"{name}.step() once an epoch", len(steps))


class ForeignSchedule(WatchRule):
    """A schedule of an optimizer that makes no step, while another one trains."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.steps: dict[int, tuple[Operand, Place, int]] = {}

    def schedule_steps(self, schedule: Operand, *args: object, **kwargs: object) -> None:
        """See the step of a schedule."""
        frame = caller_frame()
        place = describe_callee(frame)[1] or caller_place()
        known = self.steps.get(id(schedule))
        self.steps[id(schedule)] = schedule, place, 1 if known is None else known[2] + 1

    def finish(self) -> None:
        for schedule, place, count in self.steps.values():
            optimizer = getattr(schedule, "optimizer", None)
            if optimizer is None or id(optimizer) in self.facts.optimizers or count <= MIN_FOREIGN:
                continue
            own = {id(p) for group in optimizer.param_groups for p in group["params"]}
            for record in self.facts.optimizers.values():
                if own & {id(p) for p in record.parameters()}:
                    name = type(schedule).__name__
                    problem = (
                        f"the optimizer of this {name} makes no step: {record.name} trains, and keeps its rate of "
                    )
                    problem += f"{record.optimizer.param_groups[0]['lr']:g}"
                    advice = f"{name}({record.name}, …)"
                    self.facts.report.findings[:] = [
                        each for each in self.facts.report if each.kind != "scheduler-before-optimizer"
                    ]
                    self.report("schedule-of-another", place, name, problem, advice, count)

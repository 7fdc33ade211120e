"""Rules on gradients that several passes add up: cleared too early, used too early, or not divided by their number."""

from __future__ import annotations

import ast
from itertools import pairwise

from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.loops.steps import find_gradient_owner, is_clear
from adjoint.diagnosis.source_expressions import SourceFile, parse_source, text_of
from adjoint.diagnosis.watch.events import Backward, OptimizerStep
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import line_of, nodes_around, nodes_in

MIN_STEPS = 3
MAX_PASSES = 24
MAX_STEPS = 24
MIN_PASSES = 2  # before a step
MIN_CLEARED = 3  # passes before each of two steps
SCALING = frozenset({"div_", "mul_", "div", "mul"})


class ClearedAccumulation(WatchRule):
    """Gradients of several batches that are cleared before they are used."""

    max_passes = MAX_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.passes = 0  # since the last step
        self.is_stepping = False  # a closure runs
        self.cleared = 0  # passes since the last step whose gradients were thrown away
        self.counts: list[int] = []  # of such passes, in each step
        self.step: Place | None = None

    def begin_backward(self, backward: Backward) -> None:
        if self.is_stepping:
            return
        if self.passes and len(self.facts.optimizers) == 1:
            record = next(iter(self.facts.optimizers.values()))
            self.cleared += all(is_clear(p) for p in record.parameters())
        self.passes += 1

    def before_step(self, step: OptimizerStep) -> None:
        self.is_stepping = True
        self.step = step.place

    def after_step(self, step: OptimizerStep) -> None:
        self.is_stepping = False
        if self.facts.iteration <= MAX_PASSES:
            self.counts.append(self.cleared)
        self.passes = self.cleared = 0

    def finish(self) -> None:
        zeroed = self.facts.zeroed
        is_many = len(self.counts) == MIN_STEPS - 1 and min(self.counts[1:]) >= MIN_CLEARED
        if len(self.facts.optimizers) != 1 or (len(self.counts) < MIN_STEPS and not is_many) or not zeroed:
            return
        if min(self.counts[1:]) < 1:
            return
        if find_gradient_owner(zeroed[-1][1]):  # the program takes the gradients of each pass
            return
        record = next(iter(self.facts.optimizers.values()))
        count = min(self.counts[1:])
        step = self.step
        if step is not None and is_outside(zeroed[-1][1], step):
            problem = (
                f"the step stands outside the loop that clears the gradients: it uses the last of {count + 1} batches"
            )
            advice = f"{record.name}.step() in the loop, after backward()"
            self.report("step-outside-loop", step, f"{record.name}.step", problem, advice, count + 1)
            return
        self.report(
            "accumulation-cleared",
            zeroed[-1][1],
            f"{record.name}.zero_grad",
            f"{count + 1} backward passes come before each step of {record.name}, and the gradients of {count} of them "
            "are cleared before it",
            f"call {record.name}.zero_grad() after the step, and not before each backward()",
            count,
        )


def is_outside(cleared: Place, step: Place) -> bool:
    """Return whether a step comes after the loop that clears the gradients, in the same outer loop."""
    for outer in nodes_in(step.site.file, ast.For):
        for inner in outer.body:
            if isinstance(inner, ast.For) and inner.lineno <= cleared.site.line <= (inner.end_lineno or 0):
                later = [line for line in outer.body if line.lineno > (inner.end_lineno or 0)]
                return any(line.lineno <= step.site.line <= (line.end_lineno or 0) for line in later)
    return False


class AccumulationStart(WatchRule):
    """Gradients of several batches, but for the first step, which is made after one."""

    max_passes = MAX_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.steps: list[tuple[int, Place]] = []  # passes before each

    def before_step(self, step: OptimizerStep) -> None:
        self.steps.append((self.facts.iteration, step.place))

    def finish(self) -> None:
        counts = [after[0] - before[0] for before, after in pairwise([(0, None), *self.steps])][:MAX_STEPS]
        if len(self.facts.optimizers) == 1 and len(counts) >= MIN_STEPS and counts[0] == 1 < min(counts[1:]):
            place = find_condition(self.steps[0][1])
            problem = (
                f"the first step is made after 1 backward pass, and the others after {counts[1]}: the gradients of "
            )
            problem += f"the last {counts[1] - 1} batches of an epoch go into the next"
            advice = "if (i + 1) % steps == 0, where i begins at 0"
            self.report("accumulation-begins-early", place, "step", problem, advice, counts[1])


def find_condition(place: Place) -> Place:
    """Return the line of the innermost `if` around a line; the line itself without one."""
    around = nodes_around(place, ast.If)
    return line_of(place.site.file, around[-1]) if around else place


class UndividedAccumulation(WatchRule):
    """Gradients of the means of several batches that are added, and not divided by the number of batches."""

    max_passes = MAX_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.passes: list[tuple[Place, bool]] = []  # since the last step, and whether its loss is a mean as it is
        self.counts: list[int] = []  # of passes before each step
        self.loss: Place | None = None
        self.step: Place | None = None

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        made = flow.maker(backward.roots[0]) if len(backward.roots) == 1 and flow.is_open else None
        if made is not None and not self.counts:
            params: Operand = getattr(made.out.node, "params", None) or {}
            is_mean = made.op.startswith("mean") or "entropy" in made.op or params.get("reduction") == "mean"
            self.loss = self.loss or (made.place if is_mean else None)
            self.passes.append((backward.place, is_mean))
        else:
            self.passes.append((backward.place, not flow.is_open))

    def before_step(self, step: OptimizerStep) -> None:
        places = {place for place, _ in self.passes}
        is_bare = len(places) == 1 and all(is_mean for _, is_mean in self.passes)
        self.counts.append(len(self.passes) if is_bare else 0)
        self.step = step.place
        self.passes.clear()

    def finish(self) -> None:
        counts = self.counts[:MAX_STEPS]
        place, step = self.loss, self.step
        if place is None or step is None or len(self.facts.optimizers) != 1 or len(counts) < 2:
            return
        source = parse_source(step.site.file)
        has_modulus = any("%" in text_of(node.test) for node in nodes_around(step, ast.If))
        if min(counts[:2]) < MIN_PASSES or source is None or not has_modulus or scales_gradients(source):
            return
        problem = f"{counts[0]} backward passes of means come before each step, and nothing divides by {counts[0]}: "
        problem += f"the gradients are {counts[0]} times those of one batch"
        advice = f"loss = loss / {counts[0]} before backward()"
        self.report("accumulation-not-divided", place, "loss", problem, advice, counts[0])


def scales_gradients(source: SourceFile) -> bool:
    """Return whether a program changes the size of gradients, or of rates, by hand."""
    augmented = source.nodes_of(ast.AugAssign)
    calls = [call.func for call in source.calls_of(*SCALING)]
    targets: list[ast.expr] = [each.target for each in augmented if isinstance(each.op, (ast.Div, ast.Mult))]
    targets += [called.value for called in calls if isinstance(called, ast.Attribute)]
    return any(".grad" in text_of(target) for target in targets)

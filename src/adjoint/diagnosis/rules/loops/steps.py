"""Rules on the order of a training step: clearing of gradients, rates, schedules, and what the loss does."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from itertools import islice

import numpy as np

from adjoint.core.graph.source_location import library_files
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import Backward, OptimizerRecord, OptimizerStep, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.names import describe_callee
from adjoint.diagnosis.watch.rule import ALL_PASSES, WatchRule
from adjoint.diagnosis.watch.source_lines import find_rate_writes, find_uncalled, line_of, nodes_around, nodes_in
from adjoint.nn.module.parameter import Parameter

MIN_UNCLEARED = 4  # passes
MIN_ADDED = 3  # passes that add to the gradient of an input
MAX_ENDS = 2  # last parameters of an optimizer that are looked after
MAX_SAMPLED = 32  # parameters
VANISHED_RATE = 1e-3  # of the first one, in the later half of the steps
MAX_HAND_MADE = 20  # passes in which steps by hand are looked for
SAMPLE = 256  # elements of a parameter that are compared before and after a step

STEPS_OF_OTHERS = 4  # after which an optimizer is to have made its first


class Clearing(WatchRule):
    """Gradients that are never cleared between steps, or cleared before they are used."""

    sees_every_step = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.sampled: dict[int, list[Operand]] = {}  # parameters of each optimizer that had gradients at its last step
        self.passes: dict[int, int] = {}  # since its last step
        self.is_cleared: dict[int, bool] = {}
        self.uncleared: dict[int, list[OptimizerStep]] = {}
        self.cleared_steps: dict[int, int] = {}
        self.emptied: dict[int, list[OptimizerStep]] = {}
        # first and last parameters, and the passes that found them not clear
        self.ends: dict[int, tuple[Operand, int]] = {}

    def begin_backward(self, backward: Backward) -> None:
        for key, parameters in self.sampled.items():
            self.passes[key] = self.passes.get(key, 0) + 1
            if not self.is_cleared.get(key) and any(is_clear(p) for p in parameters):
                self.is_cleared[key] = True
        for key, (p, count) in self.ends.items():
            self.ends[key] = p, -ALL_PASSES if is_clear(p) else count + 1

    def before_step(self, step: OptimizerStep) -> None:
        key = id(step.record.optimizer)
        if step.number > 0 and self.sampled.get(key) and self.passes.get(key, 0):
            if self.is_cleared.get(key):
                self.cleared_steps[key] = self.cleared_steps.get(key, 0) + 1
            elif not any(is_clear(p) for p in self.sampled[key]):
                self.uncleared.setdefault(key, []).append(step)
        parameters = [p for p in step.record.parameters() if p.requires_grad]
        zeroed = self.facts.zeroed
        is_zeroed_since = bool(zeroed) and zeroed[-1][0] == self.facts.iteration and self.passes.get(key, 1) > 0
        if parameters and is_zeroed_since and all(map(is_clear, parameters)):
            self.emptied.setdefault(key, []).append(step)
        self.sampled[key] = list(islice((p for p in parameters if not is_clear(p)), 3))
        if step.number == 0:
            both = (*parameters[:MAX_ENDS], *parameters[-MAX_ENDS:])
            self.ends |= {id(p): (p, 0) for p in both if not is_clear(p)}
        self.passes[key], self.is_cleared[key] = 0, False

    def finish(self) -> None:
        for key, steps in self.uncleared.items():
            record = steps[0].record
            cleared = self.cleared_steps.get(key, 0)
            if record.steps < 3 or (cleared and len(steps) < max(4, 3 * cleared)):
                continue
            place = self.facts.backwards[-1].place if self.facts.backwards else record.step_place
            place = next(find_uncalled(place, "zero_grad"), place)
            advice = f"call {record.name}.zero_grad() before each backward()"
            if cleared and record.step_place is not None and any(is_periodic(each) for _, each in self.facts.zeroed):
                place, advice = record.step_place, f"step under the condition of zero_grad() too, or {advice}"
            sizes = [value for value in steps[-1].sizes.values() if value is not None]
            self.report(
                "zero-grad-forgotten",
                place,
                record.name,
                f"{record.name} made {pluralize(record.steps, 'step')}, and its gradients were never cleared: each "
                "backward() adds to those of all steps before"
                if not cleared
                else f"{len(steps)} of {record.steps} steps of {record.name} used gradients that were not cleared "
                "after the step before: each backward() added to those of former steps",
                advice,
                f"gradient {max(sizes):.3g} after {pluralize(record.steps, 'step')}" if sizes else record.steps,
            )
        self._report_ends()
        for steps in self.emptied.values():
            record = steps[0].record
            zeroed = self.facts.zeroed
            if len(steps) == record.steps >= 2 and zeroed and self.facts.backwards:
                if self._is_before_backward(record, zeroed[-1][1]):
                    continue
                self.report(
                    "zero-grad-before-step",
                    zeroed[-1][1],
                    record.name,
                    f"the gradients are cleared between backward() and {record.name}.step(): no step changes anything",
                    "call zero_grad() before backward(), or after the step",
                    record.steps,
                )

    def _report_ends(self) -> None:
        """Report parameters whose gradients stay, where those of others are cleared."""
        kept = [p for p, count in self.ends.values() if count >= MIN_UNCLEARED]
        if not kept or not self.cleared_steps or self.facts.has_found("zero-grad-forgotten"):
            return
        name = self.facts.names.name_of_parameter(kept[0])
        record = self.facts.find_optimizers().get(id(kept[0]))
        problem = f"the gradient of {name} was never cleared, though those of others were: each backward() adds to "
        problem += "those of all steps before"
        advice = f"call zero_grad() of {'the optimizer' if record is None else record.name}, which clears all"
        self.report("zero-grad-forgotten", self.facts.backwards[-1].place, name, problem, advice, len(kept))

    def _is_before_backward(self, record: OptimizerRecord, cleared: Place) -> bool:
        """Report a step that the loop makes after it clears the gradients, and before it computes them."""
        step, backward = record.step_place, self.facts.backwards[-1].place
        if step is None or len({place.site.file for place in (step, cleared, backward)}) > 1:
            return False
        is_in_turn = cleared.site.line < step.site.line < backward.site.line
        if not is_in_turn or nodes_around(step, ast.For)[-1:] != nodes_around(backward, ast.For)[-1:]:
            return False
        problem = f"{record.name}.step() comes before backward(), right after the gradients are cleared: it changes "
        problem += f"nothing in all {pluralize(record.steps, 'step')}"
        advice = f"zero_grad(), backward(), {record.name}.step(), in this order"
        self.report("step-before-backward", step, record.name, problem, advice, record.steps)
        return True


class MissingStep(WatchRule):
    """Backward passes after which no optimizer makes a step, although one clears the gradients, or one of several."""

    max_passes = 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.asks_for_input_gradients = False
        # where an optimizer was made, what it has, and how many the same line made before it
        self.idle: list[tuple[Place, list[Operand], int]] = []
        self.first: list[tuple[Operand, Operand]] = []  # some parameters, with their first values

    def before_step(self, step: OptimizerStep) -> None:
        if step.number == STEPS_OF_OTHERS:
            for optimizer, place in self.facts.made_optimizers.items():
                own: list[Operand] = [p for group in optimizer.param_groups for p in group["params"]]
                if id(optimizer) not in self.facts.optimizers and own and all(p._grad is not None for p in own):
                    at_line = [each for each, line in self.facts.made_optimizers.items() if line == place]
                    self.idle.append((place, own, at_line.index(optimizer)))

    def _report_idle(self) -> None:
        """Report optimizers whose parameters get gradients, and that make no step, as others do."""
        trained = self.facts.find_optimizers()
        for place, own, number in self.idle:
            if not any(id(p) in trained for p in own):
                names = [each.strip() for each in place.text.partition("=")[0].split(",")]
                name, first = names[min(number, len(names) - 1)], self.facts.names.name_of_parameter(own[0])
                problem = f"{name} has {pluralize(len(own), 'parameter')} that get gradients, such as {first}, and "
                problem += "never makes a step"
                self.report("step-forgotten", place, name, problem, f"{name}.step() beside the others", len(own))

    def begin_backward(self, backward: Backward) -> None:
        tensors: list[Operand] = [leaf.variable for leaf in self.facts.leaves_of(backward)]
        known = [x for x in tensors if x is not None and is_array(x)]
        self.first = [(x, x.array.ravel()[:SAMPLE].copy()) for x in known[:MAX_SAMPLED]]
        self.asks_for_input_gradients = any(x is not None and not isinstance(x, Parameter) for x in tensors)

    def finish(self) -> None:
        facts = self.facts
        self._report_idle()
        has_changed = any(not np.array_equal(x.array.ravel()[:SAMPLE], before) for x, before in self.first)
        if self.asks_for_input_gradients or has_changed:  # the latter by steps that the program writes out
            return
        if facts.steps == 0 and len(facts.backwards) >= 4 and len(facts.zeroed) >= 4:
            self.report(
                "step-forgotten",
                next(find_uncalled(facts.backwards[0].place, "step"), facts.backwards[0].place),
                "optimizer",
                f"backward() ran {pluralize(len(facts.backwards), 'time')} and the gradients were cleared, but no "
                "optimizer made a step",
                "call optimizer.step() after backward()",
                len(facts.backwards),
            )


class ScheduleOrder(WatchRule):
    """A schedule that goes on before the optimizer's first step, or that takes the rate to 0."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.places: dict[int, Place] = {}
        self.made: dict[int, Place] = {}  # the lines that made schedules, by optimizer

    def schedule_steps(self, schedule: Operand, *args: object, **kwargs: object) -> None:
        """See the step of a schedule."""
        optimizer = getattr(schedule, "optimizer", None)
        if optimizer is None or not hasattr(optimizer, "_opt_called"):
            return
        if getattr(schedule, "_is_initial", False) or library_files[sys._getframe(4).f_code.co_filename]:
            return  # the first rates, set by its constructor, or a step within another
        place = caller_place()
        self.places[id(optimizer)] = place
        if id(optimizer) in self.made and optimizer._opt_called:
            return
        name, made = describe_callee(caller_frame())
        self.made.setdefault(id(optimizer), self.facts.constructions.get(schedule, made or place))
        if not optimizer._opt_called:
            self.report(
                "scheduler-before-optimizer",
                place,
                name or type(schedule).__name__,
                f"{name or 'step'}.step() of {type(schedule).__name__} comes before the first step of the optimizer: "
                f"the first learning rate, {optimizer.param_groups[0]['lr']:g}, is skipped",
                f"call {name}.step() after optimizer.step()",
                f"{optimizer.param_groups[0]['lr']:g}",
            )

    def finish(self) -> None:
        for key, record in self.facts.optimizers.items():
            rates = [max(map(abs, each), default=0.0) for each in record.rates]
            if len(rates) < 2:
                continue
            if max(rates) == 0:
                self.report(
                    "zero-learning-rate",
                    self.made.get(key) or next(find_rate_writes(record.step_place), record.rate_place or record.place),
                    record.name,
                    f"the learning rate of {record.name} is 0 in all {pluralize(len(rates), 'step')}: nothing is "
                    "learned",
                    "set lr to a positive number such as 1e-3",
                    0,
                )
                continue
            for i, group in enumerate(zip(*record.rates, strict=False)):
                if len(record.rates[0]) > 1 and not any(group) and len(group) >= 3:
                    self.report(
                        "zero-learning-rate",
                        find_group(record, i) or record.place,
                        record.name,
                        f"the learning rate of group {i} of {record.name} is 0 in all {pluralize(len(group), 'step')}",
                        "set its lr to a positive number, or leave the group out",
                        0,
                    )
            late = rates[len(rates) // 2 :]
            is_zero = len(late) >= 3 and max(late) == 0
            if is_zero or (len(late) >= 5 and max(late) < VANISHED_RATE * max(rates[:2])):
                by_hand = next(find_rate_writes(record.step_place), record.step_place)
                self.report(
                    "learning-rate-vanishes",
                    (is_zero and self.made.get(key)) or self.places.get(key, by_hand),
                    record.name,
                    f"the schedule takes the learning rate from {rates[0]:.3g} to {rates[-1]:.3g} within {len(rates)} "
                    "steps",
                    "step the schedule once for each epoch, or give it the number of all steps",
                    f"{rates[-1]:.3g}",
                )


class AddedGradients(WatchRule):
    """A gradient of an input that each pass adds to, although a step with it has changed the input."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.values: dict[int, tuple[Tensor, Array]] = {}  # of leaves that are no parameters, at their last pass
        self.found: list[tuple[Place, tuple[int, ...]]] = []

    def begin_backward(self, backward: Backward) -> None:
        kept: dict[int, tuple[Tensor, Array]] = {}
        for leaf in self.facts.leaves_of(backward):
            x: Operand = leaf.variable
            if isinstance(x, Parameter) or not is_array(x) or x.array.size < 2 or id(x) in self.facts.find_optimizers():
                continue
            _, before = self.values.get(id(x), (x, None))
            has_gradient = x._grad is not None and bool(x._grad.array.any())
            if before is not None and has_gradient and not np.array_equal(before, x.array):
                self.found.append((backward.place, tuple(x.shape)))
            kept[id(x)] = x, x.array.copy()
        self.values = kept

    def finish(self) -> None:
        if len(self.found) >= MIN_ADDED and not self.facts.has_found("zero-grad-forgotten"):
            place, shape = self.found[0]
            problem = (
                f"the gradient of an input {shape} still has that of the passes before, which have changed it: each "
            )
            problem += "pass adds to it"
            advice = "x.grad.zero_() or x.grad = None after each step, or torch.autograd.grad"
            self.report("zero-grad-forgotten", place, "the input", problem, advice, len(self.found))


class HandMadeStep(WatchRule):
    """Steps without an optimizer that change only a name, or that keep the gradients of all steps before."""

    max_passes = MAX_HAND_MADE

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.leaves: dict[int, tuple[Operand, Operand]] = {}  # what a loss came from, and its first values
        self.uncleared = 0  # passes that found gradients of the one before, although the values had changed
        self.changed = 0
        self.last: dict[int, Operand] = {}

    def begin_backward(self, backward: Backward) -> None:
        if self.facts.steps or backward.iteration >= MAX_HAND_MADE:
            return
        for leaf in self.facts.leaves_of(backward):
            tensor: Operand = leaf.variable
            if (
                tensor is not None
                and is_array(tensor)
                and id(tensor) not in self.leaves
                and len(self.leaves) < MAX_SAMPLED
            ):
                self.leaves[id(tensor)] = tensor, tensor.array.copy()
        now = {key: tensor.array.ravel()[:SAMPLE].copy() for key, (tensor, _) in self.leaves.items()}
        has_changed = any(not np.array_equal(now[key], old) for key, old in self.last.items())
        if self.last and has_changed:
            self.changed += 1
            self.uncleared += not any(is_clear(self.leaves[key][0]) for key in self.last)
        self.last = now

    def finish(self) -> None:
        facts = self.facts
        if facts.steps or facts.optimizers or len(facts.backwards) < 4 or not self.leaves:
            return
        place = facts.backwards[0].place
        names = [facts.names.name_of_parameter(tensor) for tensor, _ in self.leaves.values()]
        if self.changed >= 3 and self.uncleared == self.changed:
            name = find_gradient_owner(place) or names[0]
            problem = (
                f"{pluralize(self.changed, 'step')} by hand never cleared the gradient of {name}: each backward() "
            )
            problem += "adds to those of all steps before"
            self.report(
                "zero-grad-forgotten", place, name, problem, f"{name}.grad = None after each step", self.changed
            )
        rebound = next(find_rebound_steps(place), None)
        if not self.changed and rebound is not None:
            line, name = rebound
            problem = f"{name} is given a new tensor, and the parameters stay as they are after {len(facts.backwards)} "
            problem += "backward passes"
            advice = f"change it in place under no_grad: {name} -= …, or use an optimizer"
            self.report("step-forgotten", line, name, problem, advice, len(facts.backwards))


def find_rebound_steps(near: Place) -> Iterator[tuple[Place, str]]:
    """Yield the lines `p = p - lr * p.grad`, and the name."""
    for node in nodes_in(near.site.file, ast.Assign):
        if isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if isinstance(node.value, ast.BinOp) and f"{name}.grad" in text_of(node.value):
                yield line_of(near.site.file, node), name


def find_gradient_owner(near: Place) -> str:
    """Return the first name whose `.grad` a program reads."""
    return next((text_of(node.value) for node in nodes_in(near.site.file, ast.Attribute) if node.attr == "grad"), "")


def is_periodic(place: Place) -> bool:
    """Return whether a line runs in some turns of a loop alone, by the remainder of a counter."""
    tests = [ast.walk(node.test) for node in nodes_around(place, ast.If)]
    return any(isinstance(each, ast.Mod) for test in tests for each in test)


def find_group(record: OptimizerRecord, number: int) -> Place | None:
    """Return the line of a group's dict, where the call that makes the optimizer lists as many as it has groups."""
    made = record.built or record.made
    for groups in nodes_in(made.site.file, ast.List) if made is not None else ():
        group = groups.elts[number] if len(groups.elts) == len(record.optimizer.param_groups) else None
        is_at = made is not None and groups.lineno - 1 <= made.site.line <= (groups.end_lineno or 0)
        if made is not None and is_at and isinstance(group, ast.Dict):
            return line_of(made.site.file, group)
    return None


def is_clear(parameter: Operand) -> bool:
    """Return whether a parameter has no gradient, or one of zeros."""
    grad = parameter._grad
    if grad is None or not grad.array.size:
        return True
    if type(grad.array) is not np.ndarray:  # a sparse one has but what is not zero
        return False
    return not (grad.array.item(0) or grad.array.any())  # the first one tells of most

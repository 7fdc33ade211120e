"""Rules on batches: samples mixed without their labels, targets within the input, attacks that help."""

from __future__ import annotations

import ast

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import Backward, ModuleCall, distinct_values
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import line_of, nodes_in
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made, factor_of
from adjoint.nn.module.parameter import Parameter

LABELLED = ("cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "binary_cross_entropy")
ERRORS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
MIN_SAMPLES = 8
SAME_SHARE = 1e-4
MIXING = frozenset({"mul", "add", "lerp"})


class MixedLabels(WatchRule):
    """Samples that are mixed with those of a permutation, and labels of another order, or of the first alone."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.targets: list[tuple[Tensor, Place]] = []  # classes, of the losses since the last pass
        self.found: list[tuple[str, Place]] = []

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        if call.name in ("cross_entropy", "nll_loss") and target is not None and target.array.dtype.kind == "i":
            self.targets.append((target, call.place))

    def begin_backward(self, backward: Backward) -> None:
        targets, self.targets = self.targets, []
        flow = self.facts.flow
        orders = [made for made in flow.makers_behind(*backward.roots) if is_reordered(made)]
        mixed = [made for made in orders if made.out.array.dtype.kind == "f" and self._is_mixed(made)]
        if not mixed or not targets:
            return
        order = mixed[0].tensors[1].array
        labels = [made for x, _ in targets if (made := flow.maker(x)) is not None and is_reordered(made)]
        same = [made for made in labels if np.array_equal(made.tensors[1].array, order)]
        if same:
            self._compare_shares(backward, mixed[0], same[0], [x for x, _ in targets])
            return
        if labels:
            self.found.append(("the labels of another order", labels[0].place))
        elif len(targets) == 1 and targets[0][0].array.ndim == 1:
            self.found.append(("the labels of the first alone", targets[0][1]))

    def _compare_shares(self, backward: Backward, mixed: Made, labels: Made, targets: list[Tensor]) -> None:
        """Look for the share of one sample, which the loss gives to the label of the other."""
        flow = self.facts.flow
        factors = [factor_of(each) for each in flow.users(mixed.out) if each.op == "mul"]
        terms = [term for root in backward.roots for term in flow.terms(root) if term.value.node is not None]
        if len(factors) != 1 or len(terms) != 2 or len(targets) != 2:
            return
        turned = [
            any(x is labels.out for each in flow.makers_behind(term.value) for x in each.tensors) for term in terms
        ]
        if sum(turned) != 1 or terms[0].made is None:
            return
        share = terms[turned.index(True)].factor / sum(term.factor for term in terms)
        if abs(share - (1 - factors[0])) < SAME_SHARE < abs(share - factors[0]):
            maker = flow.maker(backward.roots[0])
            place = backward.place if maker is None else maker.place
            problem = (
                f"{factors[0]:.3g} of the input are other samples, and their labels count {share:.3g} in the loss: "
            )
            problem += "the shares are exchanged"
            advice = "lam * loss(out, y) + (1 - lam) * loss(out, y[perm]) of lam * x + (1 - lam) * x[perm]"
            self.report("shares-exchanged", place, "lam", problem, advice, f"{share:.3g}")

    def _is_mixed(self, made: Made) -> bool:
        """Return whether what was reordered is weighed, and added to what it was before."""
        weighed = [each for each in self.facts.flow.users(made.out) if each.op == "mul" and each.out.node is None]
        sums = [made_of for each in weighed for made_of in self.facts.flow.users(each.out) if made_of.op == "add"]
        return any(
            any(self.facts.flow.source(part) is made.tensors[0] for part in behind.tensors)
            for each in sums
            for x in each.tensors
            if (behind := self.facts.flow.maker(x)) is not None
        )

    def finish(self) -> None:
        if self.found:
            what, place = self.found[0]
            problem = f"samples are mixed with those of a permutation, and the loss has {what}"
            advice = "one permutation for both: lam * loss(out, y) + (1 - lam) * loss(out, y[perm])"
            self.report("mixed-without-labels", place, "labels", problem, advice, len(self.found))


def is_reordered(made: Made) -> bool:
    """Return whether an op gives all rows of a tensor in the order of a permutation."""
    if made.op not in ("index", "index_select", "take") or len(made.tensors) != 2:
        return False
    rows, order = (x.array for x in made.tensors)
    if order.ndim != 1 or order.dtype.kind != "i" or not rows.ndim or len(order) != len(rows) or len(order) < 2:
        return False
    return bool((np.sort(order) == np.arange(len(order))).all())


class LastStepTarget(WatchRule):
    """Targets of windows of a series that are the last value of their window."""

    sees_roots_only = True
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.last: tuple[ModuleCall, Tensor] | None = None
        self.found: list[tuple[Place, int]] = []

    def enter_module(self, call: ModuleCall) -> None:
        x = next((x for x in call.tensors() if is_array(x)), None)
        is_series = x is not None and x.node is None and x.array.ndim in (2, 3) and x.array.dtype.kind == "f"
        self.last = (call, x) if x is not None and is_series and call.is_recording else None

    def see_call(self, call: LibraryCall) -> None:
        last, target = self.last, call.tensor("target")
        if last is None or target is None or call.name not in ERRORS or target.node is not None:
            return
        x, y = last[1].array, target.array
        if y.size != len(x) or y.size < MIN_SAMPLES or x.shape[1] < 3 or len(distinct_values(y)) < MIN_SAMPLES:
            return
        column = x[:, -1].reshape(len(x), -1)
        is_window = x.ndim == 3 or self._find_window(last[1]) is not None
        if is_window and any(np.array_equal(column[:, i], y.reshape(-1)) for i in range(column.shape[1])):
            self.found.append((self._find_window(target) or find_last_item(call.place), x.shape[1]))

    def _find_window(self, x: Tensor) -> Place | None:
        """Return the line that cut the first sample of a batch out of a series."""
        flow, place = self.facts.flow, None
        made = flow.maker(x)
        while made is not None and made.family == "movement" and made.tensors:
            place = made.place
            made = flow.maker(made.tensors[0])
        return place

    def finish(self) -> None:
        if len(self.found) >= min(FLOW_PASSES, max(self.facts.iteration, 1)) and self.found:
            place, steps = self.found[0]
            problem = f"the target is the last of the {steps} values of its window: the model has it in its input"
            self.report("target-in-input", place, "target", problem, "the value after it: series[i + window]", steps)


def find_last_item(near: Place) -> Place:
    """Return the line of a program that reads `series[i + window - 1]`; the line itself without one."""
    for node in nodes_in(near.site.file, ast.Subscript):
        part = node.slice
        if isinstance(part, ast.BinOp) and isinstance(part.left, ast.BinOp) and text_of(part).endswith("- 1"):
            return line_of(near.site.file, node)
    return near


class AttackDirection(WatchRule):
    """An input less the sign of the gradient of its loss: it becomes easier, where it was to become harder."""

    ops = frozenset({"sub"})
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.last: Operand = None  # the labels of the last loss
        self.step: tuple[Place, Operand, tuple[int, ...]] | None = None

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        flow, x = self.facts.flow, inputs[0]
        made = flow.maker(inputs[1]) if len(inputs) > 1 else None
        if made is None or self.last is None or not isinstance(x, Tensor) or isinstance(x, Parameter):
            return
        if x.array.ndim < 2 or not any(each.op == "sign" for each in (made, *map(flow.maker, made.tensors)) if each):
            return
        step = flow.maker(out)
        if step is not None:
            self.step = step.place, self.last, tuple(x.shape)

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        if call.name not in LABELLED or target is None:
            return
        self.last = target.array
        step, self.step = self.step, None
        if step is not None and step[1] is target.array:
            problem = (
                f"the input {step[2]} goes down the loss of its own labels: it becomes easier to recognise, and not "
            )
            problem += "harder"
            self.report("attack-downhill", step[0], "x_adv", problem, "x + eps * grad.sign()", step[2])

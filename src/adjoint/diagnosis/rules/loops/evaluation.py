"""Rules on evaluation: data in another scale than in training, samples of both, and thresholds of logits."""

from __future__ import annotations

import ast

import numpy as np

from adjoint.core.graph.source_location import library_files
from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import ModuleCall, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import find_expression
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.nn.module.module import Module

MIN_VALUES = 16
MAX_SHIFT = 6  # deviations between both means
MAX_RATIO = 8  # of both deviations
MIN_ROWS = 8
MAX_COLUMN_RATIO = 30  # of the deviations of features
ERRORS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
Scale = tuple[float, float]  # mean and deviation


class EvaluationScale(WatchRule):
    """Targets or inputs of an evaluation that have another scale than those of training."""

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.inputs: dict[int, Scale] = {}  # of the models that train, in their first call
        self.targets: dict[str, Scale] = {}  # of each loss of training
        self.last: tuple[ModuleCall, Tensor] | None = None
        self.counts: dict[tuple[str, Place], tuple[str, int]] = {}

    def enter_module(self, call: ModuleCall) -> None:
        is_known = id(call.module) in self.inputs
        if is_known == call.is_recording or not (is_known or call.module.training):
            return
        x = next((x for x in call.tensors() if is_array(x)), None)
        if x is None or x.node is not None or x.array.dtype.kind != "f" or x.array.size < MIN_VALUES:
            return
        if is_known:
            self.last = call, x
        elif next(call.module.parameters(), None) is not None:
            self.inputs[id(call.module)] = scale_of(x)

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if x is None or target is None:
            return
        last, self.last = self.last, None
        is_error = call.name in ERRORS and target.node is None and target.array.size >= MIN_VALUES
        if x.node is not None:
            if is_error:
                self.targets.setdefault(call.name, scale_of(target))
            return
        if is_error and call.name in self.targets and is_other_scale(scale_of(x), scale_of(target)):
            self._compare("target", self.targets[call.name], scale_of(target), call.place)
        if last is not None and last[0].place is not None:
            self._compare("input", self.inputs[id(last[0].module)], scale_of(last[1]), last[0].place)

    def _compare(self, name: str, training: Scale, now: Scale, place: Place) -> None:
        if is_other_scale(training, now):
            told = f"mean of {now[0]:.3g} and a deviation of {now[1]:.3g}, where training has {training[0]:.3g} and "
            told += f"{training[1]:.3g}"
            self.counts[name, place] = told, self.counts.get((name, place), ("", 0))[1] + 1

    def finish(self) -> None:
        for (name, place), (told, count) in self.counts.items():
            if count >= 2:
                problem = f"the {name} of the evaluation has a {told}: it is not scaled in the same way"
                advice = "scale both alike, with the mean and deviation of the training data"
                self.report("evaluation-scale", place, name, problem, advice, count)


def is_other_scale(one: Scale, other: Scale) -> bool:
    """Return whether the means of values are far apart, or their deviations are."""
    deviation = max(one[1], other[1])
    ratio = deviation / max(min(one[1], other[1]), 1e-12)
    return abs(other[0] - one[0]) > MAX_SHIFT * deviation or ratio > MAX_RATIO


def scale_of(x: Tensor) -> Scale:
    """Return the mean and the deviation of values."""
    return float(x.array.mean()), float(x.array.std())


class LogitThreshold(WatchRule):
    """Logits of a binary loss that are compared with a probability, or that go through softmax."""

    ops = frozenset({"gt", "ge", "lt", "le", "softmax", "sigmoid", "round"})
    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.outputs: dict[int, tuple[Module, Operand]] = {}  # the last values of each outermost module
        self.models: set[int] = set()  # whose values are logits of a binary loss
        self.probabilities: Operand = None  # memory of the last ones

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if call.parent is None and is_array(output):
            self.outputs[id(call.module)] = call.module, output.array

    def see_call(self, call: LibraryCall) -> None:
        x = call.tensor("input")
        if call.name == "binary_cross_entropy_with_logits" and x is not None:
            source = self.facts.flow.source(x) if self.facts.flow.is_open else x
            known = (x.array, source.array)
            self.models |= {key for key, (_, values) in self.outputs.items() if any(values is each for each in known)}

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if not self.models or not is_array(x) or library_files[caller_frame().f_code.co_filename]:
            return
        shape = tuple(x.shape)
        if op.name == "sigmoid":
            self.probabilities = owner(out.array)
            return
        if op.name in ("gt", "ge") and self.probabilities is not None and owner(x.array) is self.probabilities:
            if out.array.size > 1 and out.array.all() and find_limit(inputs) == 0:
                problem = f"probabilities {shape} are compared with 0: all are above it"
                self.report("threshold-of-probabilities", caller_place(), "0", problem, "> 0.5", shape)
            return
        memory: Operand = owner(x.array)
        if not any(key in self.models and owner(values) is memory for key, (_, values) in self.outputs.items()):
            return
        if op.name == "round":
            if out.node is None and bool(np.any(x.array < 0)):
                problem = (
                    f"logits {shape} are rounded to classes: they go from {x.array.min():.3g} to {x.array.max():.3g}"
                )
                self.report("threshold-of-logits", caller_place(), "round", problem, "round(sigmoid(logits))", shape)
            return
        if op.name == "softmax":
            if x.array.shape[-1] > 1 and out.array.size > 1:
                problem = (
                    f"softmax of logits {shape} of a binary loss for each class: the classes do not exclude each other"
                )
                self.report("softmax-of-binary", caller_place(), "softmax", problem, "sigmoid", shape)
            return
        limit = find_limit(inputs)
        if limit == 0.5 and bool(np.any(x.array < 0)):
            problem = f"logits {shape} are compared with {limit:g}: a probability of 0.5 is a logit of 0"
            self.report(
                "threshold-of-logits", caller_place(), f"{limit:g}", problem, "> 0, or sigmoid before it", limit
            )


def find_limit(inputs: Operands) -> float | None:
    """Return the number with which the user's line compares."""
    if len(inputs) > 1 and isinstance(inputs[1], (int, float)):
        return float(inputs[1])
    found = find_expression(caller_frame())
    node = found[1] if found is not None else None
    right = node.comparators[0] if isinstance(node, ast.Compare) else None
    value = right.value if isinstance(right, ast.Constant) else None
    return float(value) if isinstance(value, (int, float)) else None


class RowScale(WatchRule):
    """Features of very different scales that are normalized by the mean of a sample, and not of a feature."""

    ops = frozenset({"sub"})
    max_passes = 1

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        made = self.facts.flow.maker_past_moves(inputs[1]) if self.facts.flow.is_open else None
        if not is_array(x) or x.node is not None or x.array.ndim != 2 or min(x.array.shape) < 3 or made is None:
            return
        rows = len(x.array)
        if made.op != "mean" or made.tensors[0].array is not x.array or made.out.array.size != rows or rows < MIN_ROWS:
            return
        deviations = x.array.std(0)
        ratio = float(deviations.max() / max(deviations.min(), 1e-12))
        if deviations.min() > 0 and ratio > MAX_COLUMN_RATIO and rows != x.array.shape[1]:
            problem = f"each sample of {x.array.shape} is taken less its own mean over features, whose deviations "
            problem += f"differ by a factor of {ratio:.3g}: they stay as different"
            advice = "the mean and deviation of each feature: x.mean(0), x.std(0)"
            self.report("normalized-over-features", made.place, "mean", problem, advice, f"{ratio:.3g}")

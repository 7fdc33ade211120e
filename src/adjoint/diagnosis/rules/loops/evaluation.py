"""Rules on evaluation: data in another scale than in training, samples of both, and thresholds of logits."""

from __future__ import annotations

import ast
import re

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import ModuleCall, caller_place, first_rows
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import find_calls, line_of, nodes_around

MIN_VALUES = 16
MIN_MEMBERS = 3  # results whose deviation is taken
MIN_SAME = 4  # calls with the same input, after the first
MAX_SHIFT = 6  # deviations between both means
MAX_RATIO = 8  # of both deviations
MIN_ROWS = 8
MAX_COLUMN_RATIO = 30  # of the deviations of features
ROUNDED = 1e-3
MIN_STEADY = 3.0  # the mean of a feature over its deviation
OVER_FEATURES = re.compile(r"\.(?:mean|std)\((?:axis=|dim=)?(?:1|-1)\b")
ERRORS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
Scale = tuple[float, float]  # mean and deviation


class StandingContext(WatchRule):
    """A sequence that grows with what a model generates, while the model gets the same part of it each time."""

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.last: tuple[int, Place | None, bytes, int] = 0, None, b"", 0  # the module, the place, the input, its whole
        self.counts: dict[Place, int] = {}

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        if call.is_recording or x is None or not is_array(x) or call.place is None or x.array.ndim < 2:
            return
        size = owner(x.array).size
        now = id(call.module), call.place, x.array.tobytes(), size
        is_same = now[:3] == self.last[:3] and size > self.last[3]
        self.counts[call.place] = self.counts.get(call.place, 0) + is_same if is_same else 0
        self.last = now
        if self.counts[call.place] == MIN_SAME:
            problem = (
                f"the model gets the same {tuple(x.shape)} {MIN_SAME + 1} times, while the sequence that it is cut "
            )
            problem += f"from has grown to {size} values: what was generated does not reach it"
            made = find_slice(call.place) or call.place
            self.report("context-stands-still", made, "context", problem, "its last part: seq[:, -n:]", MIN_SAME)


class EqualSamples(WatchRule):
    """A deviation over several results of an evaluation that is 0: all of them are the same."""

    def deviation_is_taken(self, x: Operand, dim: Operand = None, *args: object, **kwargs: object) -> None:
        """See a call of `std` or `var`."""
        if (
            dim not in (0, (0,), [0])
            or not is_array(x)
            or x.node is not None
            or not self.facts.steps
            or self.facts.calls
        ):
            return
        if x.array.ndim < 2 or len(x.array) < MIN_MEMBERS or x.array[0].size < 2:
            return
        if np.ptp(x.array[0]) > 0 and (x.array == x.array[:1]).all():
            problem = f"all {len(x.array)} results {tuple(x.shape[1:])} are the same, and their deviation is 0"
            advice = "look at what was to tell them apart: dropout is off after eval(), and one seed gives one model"
            self.report("samples-equal", caller_place(), "std", problem, advice, len(x.array))


class UnsortedNucleus(WatchRule):
    """Probabilities that are added up in the order of their classes, and cut off at a limit."""

    ops = frozenset({"cumsum", "le", "lt", "gt", "ge"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.last: tuple[Array, Place] | None = None

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if not is_array(x) or x.node is not None or x.array.ndim != 2 or x.array.dtype.kind != "f":
            return
        if op.name == "cumsum":
            is_distribution = (
                x.array.shape[1] > 2 and (x.array >= 0).all() and np.allclose(x.array.sum(1), 1, atol=1e-3)
            )
            is_sorted = (np.diff(x.array, axis=1) <= 0).all()
            self.last = (out.array, caller_place()) if is_distribution and not is_sorted else None
        elif self.last is not None and self.last[0] is x.array and isinstance(inputs[1], float):
            problem = (
                f"the probabilities {tuple(x.shape)} are added up in the order of their classes, up to {inputs[1]:g}: "
            )
            problem += "what is kept are the first classes, and not the likely ones"
            advice = "sort them first: p.sort(dim=-1, descending=True)"
            self.report("nucleus-not-sorted", self.last[1], "cumsum", problem, advice, inputs[1])


def find_slice(near: Place) -> Place | None:
    """Return the last line before a call that cuts the first part out of a sequence."""
    loops: list[ast.For] | list[ast.While] = nodes_around(near, ast.For) or nodes_around(near, ast.While)
    for node in ast.walk(loops[-1]) if loops else ():
        if isinstance(node, ast.Slice) and node.lower is None and node.upper is not None and node.step is None:
            text = text_of(node.upper)
            if not text.startswith("-") and node.upper.lineno <= near.site.line:
                return line_of(near.site.file, node.upper)
    return None


class EvaluationScale(WatchRule):
    """Targets or inputs of an evaluation, by a loss or an accuracy, that have another scale than those of training."""

    ops = frozenset({"eq"})
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
        elif self.facts.has_parameters(call.module):
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
        self._compare_input(last)

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if self.last is not None and out.array.shape[:1] == self.last[1].array.shape[:1]:
            last, self.last = self.last, None
            self._compare_input(last)

    def _compare_input(self, last: tuple[ModuleCall, Tensor] | None) -> None:
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
    rows = first_rows(x.array)
    return float(rows.mean()), float(rows.std())


class RowScale(WatchRule):
    """Features of very different scales that are normalized by the mean of a sample, and not of a feature."""

    ops = frozenset({"sub"})
    sees_roots_only = True
    max_passes = 1

    def enter_module(self, call: ModuleCall) -> None:
        """Look for a table each of whose rows has the mean 0 and the deviation 1, and whose columns hardly change."""
        x = next(iter(call.tensors()), None)
        array: Array = first_rows(x.array) if x is not None and is_array(x) and x.node is None else np.zeros(0)
        if array.ndim != 2 or array.dtype.kind != "f" or array.shape[1] < 3 or len(array) < MIN_ROWS:
            return
        is_scaled = np.abs(array.mean(1)).max() < ROUNDED and np.abs(array.std(1) - 1).max() < ROUNDED
        lines = find_calls(call.place.site, ("mean", "std")) if is_scaled and call.place is not None else ()
        place = next((line for line in lines if OVER_FEATURES.search(line.text)), None)
        ratio = float((np.abs(array.mean(0)) / np.maximum(array.std(0), ROUNDED)).max())
        if place is not None and ratio > MIN_STEADY:
            problem = f"each sample of {array.shape} has the mean 0 and the deviation 1 over its features, one of "
            problem += f"which has a mean of {ratio:.3g} deviations in all: the large feature decides about the others"
            advice = "the mean and deviation of each feature: those over the samples, axis 0"
            self.report("normalized-over-features", place, "mean", problem, advice, f"{ratio:.3g}")

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

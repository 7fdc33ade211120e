"""Rule on the weights of classes: larger for the frequent ones, where the rare ones were to count more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import caller_frame
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.names import describe_data
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule

MIN_LABELS = 64
MIN_IMBALANCE = 1.5  # of the most frequent class to the rarest
SLOPES = (0.4, 1.6)  # of the logarithms of weights over those of frequencies


@dataclass
class ClassCounts:
    """The weights that a loss was given, and how often each class was its target."""

    place: Place
    weights: Operand
    counts: Operand


class InvertedWeights(WatchRule):
    """Weights that grow with the frequency of a class, and `pos_weight` below 1 for rare positives."""

    max_passes = CHECKED_PASSES

    def __init__(self, facts: Operand) -> None:
        super().__init__(facts)
        self.counted: dict[tuple[str, Place], ClassCounts] = {}

    def see_call(self, call: LibraryCall) -> None:
        name = "pos_weight" if call.name == "binary_cross_entropy_with_logits" else "weight"
        weight, target, x = call.tensor(name), call.tensor("target"), call.tensor("input")
        if weight is None or target is None or x is None or weight.node is not None or target.node is not None:
            return
        y, w = target.array, weight.array
        if name == "pos_weight" and w.size == 1:
            positive = int((y > 0.5).sum())
            self._count(call, name, np.array([1.0, float(w.reshape(()))]), np.array([y.size - positive, positive]))
        elif call.name in ("cross_entropy", "nll_loss") and w.ndim == 1 and y.dtype.kind in "iu":
            valid = y[(y >= 0) & (y < w.size)].ravel()
            self._count(call, name, w.astype(np.float64), np.bincount(valid, minlength=w.size))

    def _count(self, call: LibraryCall, name: str, weights: Operand, counts: Operand) -> None:
        if (name, call.place) not in self.counted:
            made = describe_data(call.tensor(name), caller_frame())[1]
            self.counted[name, call.place] = ClassCounts(made or call.place, weights, np.zeros_like(counts))
        known = self.counted[name, call.place]
        known.counts = known.counts + counts

    def finish(self) -> None:
        for (name, _), known in self.counted.items():
            place, counts, weights = known.place, known.counts, known.weights
            if counts.sum() < MIN_LABELS or counts.min() == 0 or weights.min() <= 0:
                continue
            x, y = np.log(counts / counts.sum()), np.log(weights)
            if x.max() - x.min() < np.log(MIN_IMBALANCE):
                continue
            slope = float(np.dot(x - x.mean(), y - y.mean()) / np.dot(x - x.mean(), x - x.mean()))
            residual = float(np.abs(y - y.mean() - slope * (x - x.mean())).max())
            if SLOPES[0] <= slope <= SLOPES[1] and residual < 0.25 * (x.max() - x.min()):
                rare = int(counts.argmin())
                share, of_rare = counts[rare] / counts.sum(), weights[rare] / weights.max()
                problem = (
                    f"{name} is larger for frequent classes: class {rare}, with {share:.0%} of the labels, counts "
                )
                problem += f"{of_rare:.2g} times as much as the one with the largest weight"
                advice = "invert it: " + ("negatives / positives" if name == "pos_weight" else "counts.sum() / counts")
                self.report("class-weights-inverted", place, name, problem, advice, f"{of_rare:.2g}")

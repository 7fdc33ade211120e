"""Rules on what a loss gets: targets outside of its range, arguments in the wrong order, logits for logarithms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from adjoint.core.graph.node import Leaf, Node
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import distinct_values, root_mean_square
from adjoint.diagnosis.watch.facts import leaves_below, op_name, producer_of
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.nn.layers.embedding import Embedding

ERRORS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
SIGNED = ("cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "soft_margin_loss")
# Losses that are not the same if their arguments are exchanged.
ASYMMETRIC = (*BINARY, "cross_entropy", "nll_loss", "kl_div", "poisson_nll_loss", "gaussian_nll_loss")
IDENTICAL = {"triplet_margin_loss": ("anchor", "positive", "negative"), "cosine_embedding_loss": ("input1", "input2")}
RANGES = {
    "sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "relu": (0.0, np.inf),
    "softplus": (0.0, np.inf),
    "exp": (0.0, np.inf),
}
MIN_SHARE = 0.15  # of targets that a prediction cannot reach
TOLERANCE = 1e-3
MIN_LABELS = 32
MIN_SCALED = 8  # targets
MIN_LARGE_TARGET = 100.0  # root mean square, also against that of the prediction
MAX_WALKED = 200  # nodes behind a target


class TargetRange(WatchRule):
    """Targets that the loss is not defined for, or that the prediction cannot reach."""

    max_passes = CHECKED_PASSES

    def see_call(self, call: LibraryCall) -> None:
        target, x = call.tensor("target"), call.tensor("input")
        if target is None or not target.array.size or target.array.dtype.kind not in "fiu" or target.node is not None:
            return
        y = target.array
        if call.name in SIGNED and set(distinct_values(y).tolist()) == {0, 1}:
            self._report(call, "has 0 and 1 as targets, and needs -1 and 1", "0 and 1", "2 * target - 1")
        elif call.name in BINARY and (y.min() < -TOLERANCE or y.max() > 1 + TOLERANCE):
            extent = f"{y.min():.4g} to {y.max():.4g}"
            advice = "labels of 0 and 1" + (": (target + 1) / 2" if set(distinct_values(y).tolist()) <= {-1, 1} else "")
            self._report(call, f"has targets of {extent}, and needs such between 0 and 1", extent, advice)
        elif call.name in ERRORS and x is not None and x.node is not None:
            layer = find_activation(x)
            low, high = RANGES.get(layer, (-np.inf, np.inf))
            share = float(np.mean((y < low - TOLERANCE) | (y > high + TOLERANCE)))
            if share >= MIN_SHARE:
                extent = f"{y.min():.4g} to {y.max():.4g}"
                problem = (
                    f"compares the result of {layer} with targets of {extent}: it cannot reach {share:.0%} of them"
                )
                self._report(call, problem, extent, f"leave out the last {layer}, or scale the targets", layer)

    def _report(self, call: LibraryCall, problem: str, number: str, advice: str, name: str = "") -> None:
        text = f"{call.name} {problem}"
        self.report("target-out-of-range", call.place, name or call.name, text, advice, number)


class TargetScale(WatchRule):
    """Targets of large numbers: the gradients are as large, and the first steps go to their mean."""

    max_passes = 2

    def see_call(self, call: LibraryCall) -> None:
        target, x = call.tensor("target"), call.tensor("input")
        if call.name not in ERRORS or target is None or x is None or x.node is None or target.node is not None:
            return
        y = target.array
        if y.dtype.kind not in "fiu" or y.size < MIN_SCALED:
            return
        size = root_mean_square(y.astype(np.float64))
        if not MIN_LARGE_TARGET < size < np.inf or size < MIN_LARGE_TARGET * root_mean_square(x.array):
            return
        problem = f"the targets {tuple(target.shape)} of {call.name} have a mean of {y.mean():.4g} and a deviation of "
        problem += f"{y.std():.4g}, and the prediction is about {root_mean_square(x.array):.2g}"
        advice = "scale them: (target - mean) / deviation, or take their logarithm"
        self.report("target-not-normalized", call.place, "target", problem, advice, f"{y.mean():.4g}")


class TargetDistribution(WatchRule):
    """Probabilities as targets of cross_entropy that do not sum to 1, or that are smoothed twice."""

    max_passes = CHECKED_PASSES

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if call.name != "cross_entropy" or x is None or target is None or target.node is not None:
            return
        y = target.array
        if y.ndim < 2 or y.shape != x.array.shape or y.dtype.kind != "f" or y.shape[1] < 2 or not y.size:
            return
        sums = y.sum(axis=1)
        if (np.abs(sums - 1) > 0.01).mean() >= 0.1 and sums.max() > 1.05:
            problem = f"the targets of cross_entropy {y.shape} sum to {sums.min():.3g} … {sums.max():.3g} in each row, "
            problem += "and not to 1"
            advice = "for several labels at once use binary_cross_entropy_with_logits; else divide each row by its sum"
            self.report("target-not-distribution", call.place, "target", problem, advice, f"{sums.max():.3g}")
            return
        smoothing = call.arguments.get("label_smoothing")
        least = float(y.min())
        others = (np.abs(y - least) < 1e-6).sum(axis=1)
        if smoothing and least > 0 and (others == y.shape[1] - 1).all():
            problem = (
                f"label_smoothing={smoothing:g} smooths targets that are smoothed already: no class has less than "
            )
            problem += f"{least:.3g}"
            advice = "leave out one of both: one-hot targets, or label_smoothing=0"
            self.report("smoothed-twice", call.place, "label_smoothing", problem, advice, f"{least:.3g}")


class IgnoredClass(WatchRule):
    """`ignore_index` that is a class like the others."""

    max_passes = CHECKED_PASSES

    def __init__(self, facts: Operand) -> None:
        super().__init__(facts)
        self.counts: dict[Place, tuple[int, int, int, int]] = {}  # index, classes, labels of it, labels

    def see_call(self, call: LibraryCall) -> None:
        x, target, index = call.tensor("input"), call.tensor("target"), call.arguments.get("ignore_index")
        if call.name != "cross_entropy" or x is None or target is None or not isinstance(index, int):
            return
        embedded = any(isinstance(module, Embedding) for module, _ in self.facts.called.values())
        if x.array.ndim != 2 or target.array.ndim != 1 or not 0 <= index < x.array.shape[1] or embedded:
            return
        *_, hits, total = self.counts.get(call.place, (0, 0, 0, 0))
        found = int((target.array == index).sum())
        self.counts[call.place] = index, x.array.shape[1], hits + found, total + target.array.size

    def finish(self) -> None:
        for place, (index, classes, hits, total) in self.counts.items():
            if total >= MIN_LABELS and 0.4 * total <= hits * classes <= 2.5 * total:
                problem = (
                    f"ignore_index={index} leaves out {hits} of {total} labels, as many as another of the {classes} "
                )
                problem += "classes has: this class is never learned"
                advice = "leave out ignore_index, or use a number that is no class, such as -100"
                self.report("ignored-class", place, "ignore_index", problem, advice, f"{hits}/{total}")


class LossArguments(WatchRule):
    """The target in the place of the prediction, logits for logarithms, and targets that move with the prediction."""

    max_passes = CHECKED_PASSES

    def see_call(self, call: LibraryCall) -> None:
        if call.name == "ctc_loss":
            self._check_logarithms(call)
            return
        if call.name in IDENTICAL:
            self._check_identity(call)
            return
        x, target = call.tensor("input"), call.tensor("target")
        if x is None or target is None:
            return
        if call.name == "kl_div" and x.node is not None and target.node is not None and self.facts.iteration < 3:
            self._check_teacher(call, x, target)
        if call.name in ASYMMETRIC and x.node is None and target.node is not None:
            problem = f"{call.name} gets the prediction as its target, and data as its input"
            advice = f"{call.name}(prediction, target)"
            self.report("loss-arguments-swapped", call.place, call.name, problem, advice, tuple(x.shape))
        if call.name == "poisson_nll_loss" and call.arguments.get("log_input"):
            layer = op_name(producer_of(x))
            if layer in ("exp", "softplus", "relu", "sigmoid"):
                problem = f"poisson_nll_loss takes the exponential of its input, which is the result of {layer}"
                advice = f"leave out {layer}, or log_input=False"
                self.report(
                    "poisson-log-input", call.place, "poisson_nll_loss", problem, advice, f"{x.array.max():.3g}"
                )
        if call.name in ERRORS and x.node is not None and target.node is not None and self.facts.iteration < 3:
            self._check_moving_target(call, x, target)

    def _check_identity(self, call: LibraryCall) -> None:
        known = [(name, call.tensor(name)) for name in IDENTICAL[call.name]]
        for i, (first, a) in enumerate(known):
            for second, b in known[i + 1 :]:
                if a is not None and b is not None and a.array.size > 1 and np.array_equal(a.array, b.array):
                    problem = f"{first} and {second} of {call.name} are the same {tuple(a.shape)}: their distance is 0"
                    advice = f"embed another sample as the {second}"
                    self.report("same-embedding", call.place, call.name, problem, advice, tuple(a.shape))

    def _check_logarithms(self, call: LibraryCall) -> None:
        x = call.tensor("log_probs")
        if x is None or x.node is None or x.array.ndim < 2:
            return
        total = float(np.exp(x.array.reshape(-1, x.array.shape[-1])[0]).sum())
        if abs(total - 1) > 0.01:
            problem = (
                f"ctc_loss gets values whose exponentials sum to {total:.3g}, and needs logarithms of probabilities"
            )
            self.report(
                "ctc-without-log", call.place, "ctc_loss", problem, "log_softmax(-1) of the logits", f"{total:.3g}"
            )

    def _check_teacher(self, call: LibraryCall, x: Tensor, target: Tensor) -> None:
        trained = self.facts.find_optimizers()
        own = {id(leaf.variable) for leaf in leaves_below((target,))} - {
            id(leaf.variable) for leaf in leaves_below((x,))
        }
        if own and (not trained or own & trained.keys()):
            problem = f"the target of kl_div has a history of {len(own)} parameters of its own: the teacher is changed "
            problem += "to be like its student"
            advice = "compute the target under no_grad, or detach() it"
            self.report("target-with-gradient", call.place, "target", problem, advice, len(own))

    def _check_moving_target(self, call: LibraryCall, x: Tensor, target: Tensor) -> None:
        names = {op_name(node) for node in nodes_behind(target)}
        shared = {leaf for leaf in leaves_below((target,)) if leaf in leaves_below((x,))}
        made: Operand = target.node
        adds_data = op_name(made) == "add" and None in made.parents  # a reward
        if shared and (adds_data or names & {"max", "amax", "maximum", "gather"}):
            problem = (
                f"the target of {call.name} has a history of {len(shared)} parameters that the prediction has too: "
            )
            problem += "the gradient moves the target to the prediction"
            advice = "target.detach(), or compute the target under no_grad"
            self.report("target-with-gradient", call.place, "target", problem, advice, len(shared))


def find_activation(x: Tensor) -> str:
    """Return the name of the activation that gave a prediction, or that of its last op."""
    made = producer_of(x)
    if op_name(made) == "where" and "log1p" in [
        op_name(node) for node, _ in zip(nodes_behind(x), range(5), strict=False)
    ]:
        return "softplus"
    return op_name(made)


def nodes_behind(x: Tensor) -> Iterator[Operand]:
    """Yield the nodes from which a tensor was computed, the nearest first."""
    queue: list[Operand] = [x.node]
    seen: set[Operand] = set()
    while queue and len(seen) < MAX_WALKED:
        node = queue.pop(0)
        if node is None or type(node) is Leaf or not isinstance(node, Node) or node in seen:
            continue
        seen.add(node)
        yield node
        queue += node.parents

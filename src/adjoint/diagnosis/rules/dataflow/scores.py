"""Rules on scores before a softmax: scaled up, masked with 0, of each sample with itself, or probabilities already."""

from __future__ import annotations

import numpy as np

from adjoint.core.graph.source_location import library_files
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.probabilities import is_distribution
from adjoint.diagnosis.watch.events import caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made

PRODUCTS = frozenset({"mm", "bmm", "matmul", "einsum"})
LOSSES_OF_LOGITS = ("cross_entropy", "binary_cross_entropy_with_logits")
MAX_LOGIT = 100
MIN_BATCH = 6
MAX_COSINE = 1.001
SMALL_FILL = 1e-3
MIN_WITHIN = 0.6  # of the targets
POWERS = frozenset({"pow", "square", "sqrt", "div"})
DISTANCES = frozenset({"euclidean", "cdist"})
NEAR = 4  # ops before a softmax
MIN_ZEROED = 0.2  # of the scores
MIN_TEMPERATURE = 1.2
PASSED = frozenset({"dropout", "where", "add", "mul", "div"})


class AttentionScores(WatchRule):
    """Scores of queries and keys that are multiplied by the root of the width, or masked with numbers near 0."""

    ops = frozenset({"softmax", "argmin", "amin"})
    max_passes = FLOW_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        flow, x = self.facts.flow, inputs[0]
        made = flow.maker(x)
        if op.name != "softmax":
            if made is not None and made.op == "mul" and made.out.array.ndim == 2 and (made.out.array >= 0).all():
                self._report_minimum(made, out)
            return
        for _ in range(4):
            if made is None or out.node is None:
                return
            self._check_mask(made)
            if made.op == "mul" and self._check_scale(made):
                return
            below = [each for each in made.tensors if each.node is not None and each.shape == made.out.shape]
            made = flow.maker(below[0]) if made.op in PASSED and len(below) == 1 else None

    def _check_scale(self, made: Made) -> bool:
        for scores, factor in (made.inputs[:2], made.inputs[1::-1]):
            product = self.facts.flow.maker_past_moves(scores)
            value = number_of(factor)
            if product is None or product.op not in PRODUCTS or value is None or value <= 1.5:
                continue
            width = product.tensors[0].array.shape[-1]
            is_root = (
                abs(value**2 / width - round(value**2 / width)) < 0.01 and value**2 >= width
            )  # of the model's, too
            are_cosines = abs(product.out.array).max() <= MAX_COSINE
            if (is_root or abs(value - width) < 0.01 * value) and not are_cosines:
                self.report(
                    "scores-scaled-up",
                    made.place,
                    "scores",
                    f"the scores {tuple(made.out.shape)} are multiplied by {value:.4g}, which is to divide "
                    "them: softmax gives nearly all weight to one key",
                    f"scores / {value:.4g}",
                    f"{value:.4g}",
                )
                return True
        return False

    def _check_mask(self, made: Made) -> None:
        if made.op == "where":
            fill = next((each for each in map(number_of, made.inputs[1:]) if each is not None), None)
            if fill is not None and abs(fill) < SMALL_FILL:
                self._report_mask(made, f"{fill:g}")
        elif made.op == "mul" and len(made.tensors) == 2:
            mask = next((x for x in made.tensors if x.node is None and x.array.ndim >= 2), None)
            if mask is not None and (mask.array == 0).any() and ((mask.array == 0) | (mask.array == 1)).all():
                self._report_mask(made, "0")

    def _report_minimum(self, made: Made, out: Tensor) -> None:
        masks = [x.array for x in made.tensors if x.node is None and ((x.array == 0) | (x.array == 1)).all()]
        if not masks or len(masks[0]) < MIN_BATCH or not (masks[0] == 0).any(axis=-1).all():
            return
        self.report(
            "mask-without-effect",
            caller_place(),
            "min",
            f"the minimum {tuple(out.shape)} is 0 throughout: what the mask leaves out is 0, and so the smallest",
            'masked_fill(mask == 0, float("inf")) before the minimum',
            tuple(out.shape),
        )

    def _report_mask(self, made: Made, fill: str) -> None:
        self.report(
            "mask-without-effect",
            made.place,
            "scores",
            f"masked scores {tuple(made.out.shape)} are {fill}, and softmax gives them exp({fill}) = 1, as much as to "
            "others: they are not left out",
            'scores.masked_fill(mask == 0, float("-inf"))',
            fill,
        )


class ZeroedScores(WatchRule):
    """Scores of an evaluation that are set to 0 to leave them out, which softmax gives as much as to others."""

    ops = frozenset({"where", "put_index", "softmax"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.last: tuple[Array, Place] | None = None  # which scores are 0, and where they were set

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = out if op.name != "softmax" else inputs[0]
        if out.node is not None or not is_array(x) or x.array.ndim != 2 or x.array.dtype.kind != "f":
            return
        zeros = x.array == 0
        if op.name != "softmax":
            self.last = (zeros, caller_place()) if MIN_ZEROED < zeros.mean() < 1 else None
        elif self.last is not None and np.array_equal(self.last[0], zeros):
            count = int(zeros.sum(axis=-1).min())
            problem = (
                f"{count} of {x.array.shape[1]} scores in a row are set to 0, and softmax gives them exp(0) = 1 each: "
            )
            problem += "they are not left out"
            advice = 'set them to float("-inf")'
            self.report("mask-without-effect", self.last[1], "scores", problem, advice, count)


class ScaledByLength(WatchRule):
    """Scores of queries and keys that are divided by the root of the number of steps, and not of the width."""

    ops = frozenset({"softmax"})
    max_passes = FLOW_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(inputs[0])[:NEAR] if out.node is not None and out.array.ndim > 2 else ():
            product = flow.maker(made.tensors[0]) if made.op in ("div", "mul") and made.tensors else None
            number = next((float(x) for x in made.inputs if isinstance(x, (int, float))), 0.0)
            if product is None or product.op not in PRODUCTS or number <= 0:
                continue
            scale = number if made.op == "div" else 1 / number
            steps, width = product.tensors[0].array.shape[-2:]
            if abs(scale - steps**0.5) < 0.01 * scale < abs(scale - width**0.5) and out.array.shape[-1] == steps:
                problem = (
                    f"the scores {tuple(out.shape)} are divided by {scale:.4g}, the root of {steps} steps; queries "
                )
                problem += f"and keys have {width} values"
                self.report("scores-scaled-up", made.place, "scores", problem, f"divide by {width**0.5:.4g}", scale)
                return


class ContrastiveScores(WatchRule):
    """Similarities of a batch with itself: each sample is its own best match, or has the first one as its match."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if call.name != "cross_entropy" or x is None or target is None or x.node is None:
            return
        scores, y = x.array, target.array
        if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or y.shape != scores.shape[:1] or len(y) < MIN_BATCH:
            return
        product = next((made for made in self.facts.flow.makers_behind(x) if made.op in PRODUCTS), None)
        if product is None or product.out.shape != x.shape or target.array.dtype.kind not in "iu":
            return
        first, second = (self.facts.flow.source(each) for each in product.tensors[:2])
        self._check_temperature(x, product)
        diagonal = np.diagonal(scores)
        if first is second and (diagonal[:, None] >= scores).all() and (y != np.arange(len(y))).all():
            problem = f"the scores {scores.shape} are of each sample with all, itself too: the diagonal is the largest "
            problem += "of each row, and never the target"
            advice = 'sim.fill_diagonal_(float("-inf")) before the loss, or masked_fill of torch.eye(n).bool()'
            self.report("self-similarity", call.place, "sim", problem, advice, scores.shape)
        elif first is second and self._is_within_view(first, y):
            problem = (
                f"the scores {scores.shape} are of two views, one after the other, and the target of a row lies in its "
            )
            problem += "own view: it is another sample"
            self.report(
                "targets-not-diagonal", call.place, "target", problem, "(i + n) % (2 * n) as targets", len(y) // 2
            )
        elif first is not second and not y.any():
            problem = f"the scores {scores.shape} of two batches have 0 as the target of all rows: each sample is to "
            problem += "match the first"
            self.report("targets-not-diagonal", call.place, "target", problem, "torch.arange(n) as targets", 0)

    def _is_within_view(self, x: Tensor, y: Array) -> bool:
        """Return whether vectors are those of two views, and most targets lie in the view of their row."""
        half = len(y) // 2
        joins = [made for made in self.facts.flow.makers_behind(x)[:NEAR] if made.op == "cat"]
        is_joined = any([len(part.array) for part in made.tensors] == [half, half] for made in joins)
        share = float(((np.arange(len(y)) // max(half, 1)) == (y // max(half, 1))).mean())
        return is_joined and share > MIN_WITHIN

    def _check_temperature(self, x: Tensor, product: Made) -> None:
        """Look at the factor of cosines, which have no other scale."""
        if np.abs(product.out.array).max() > 1.001:
            return
        for made in self.facts.flow.users(product.out):
            value = next((each for each in map(number_of, made.inputs) if each is not None), None)
            if made.op == "mul" and value is not None and 0 < value < 0.3:
                self.report(
                    "temperature-inverted",
                    made.place,
                    "logits",
                    f"cosines {tuple(made.out.shape)} are multiplied by {value:g}: softmax makes all of them as likely",
                    f"divide by the temperature: / {value:g}",
                    f"{value:g}",
                )


class LogitScale(WatchRule):
    """Logits so large that a loss has no gradient, for a number by which a line multiplies or divides."""

    max_passes = 1

    def see_call(self, call: LibraryCall) -> None:
        x = call.tensor("input")
        if call.name not in LOSSES_OF_LOGITS or x is None or x.node is None or not x.array.size:
            return
        largest = float(np.abs(x.array).max())
        for made in self.facts.flow.makers_behind(x) if largest > MAX_LOGIT else ():
            factor = 1 / divisor_of(made)
            if factor > MAX_LOGIT and largest / factor < MAX_LOGIT and not library_files[made.place.site.file]:
                problem = f"{call.name} gets logits {tuple(x.shape)} up to {largest:.3g}, which this line makes "
                problem += f"{factor:.3g} times as large: softmax and sigmoid are flat there, so gradients vanish"
                advice = "logits of about 1 to 10: another temperature or scale"
                self.report("logits-too-large", made.place, made.name, problem, advice, f"{largest:.3g}")
                return


class ProbabilitiesAsLogits(WatchRule):
    """Probabilities that a distribution, or a draw by Gumbel noise, gets as its logits."""

    ops = frozenset({"logsumexp", "softmax"})
    max_passes = FLOW_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        made = self.facts.flow.maker(out)
        if made is None or made.function not in ("__init__", "gumbel_softmax", "__call__") or out.node is None:
            return
        for each in self.facts.flow.makers_behind(inputs[0]):
            array = each.out.array
            if each.op == "softmax" and each is not made and each.function != made.function:
                if is_distribution(array, array.ndim - 1):
                    what = "a distribution" if op.name == "logsumexp" else "gumbel_softmax"
                    self.report(
                        "probabilities-as-logits",
                        caller_place(),
                        "logits",
                        f"{what} gets the probabilities {tuple(array.shape)} of softmax as its logits, and takes the "
                        "softmax of them: all classes are nearly as likely",
                        "probs=… for probabilities, or leave out the softmax",
                        tuple(array.shape),
                    )
                return


def number_of(x: Operand) -> float | None:
    """Return the value of a number, or of data of one element."""
    array = x.array if is_array(x) and x.node is None else x
    if isinstance(array, (bool, str)) or getattr(array, "size", 1) != 1:
        return None
    if isinstance(array, (np.ndarray, np.generic)):
        array = array.item()
    return float(array) if isinstance(array, (int, float)) else None


class DistancesAsLogits(WatchRule):
    """Distances that cross_entropy takes for scores: the farthest class is the most likely."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        x = call.tensor("input")
        if call.name != "cross_entropy" or x is None or x.node is None or x.array.ndim != 2 or (x.array < 0).any():
            return
        made = self.facts.flow.maker_past_moves(x)
        place = call.place
        while made is not None and made.op in POWERS and made.tensors:
            place = made.place
            made = self.facts.flow.maker_past_moves(made.tensors[0])
        if made is not None and made.op in DISTANCES:
            problem = (
                f"cross_entropy gets distances {tuple(x.shape)} as scores: the class that is farthest is the most "
            )
            problem += "likely"
            self.report(
                "distances-as-logits", call.place, place.text.partition("=")[0].strip(), problem, "-dist", x.shape
            )


class OneTemperature(WatchRule):
    """A divergence of two softmax of which one alone has its logits divided by a temperature."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if call.name != "kl_div" or x is None or target is None or x.shape != target.shape:
            return
        flow = self.facts.flow
        both = [made for value in (x, target) if (made := flow.maker(value)) is not None and "softmax" in made.op]
        divisors = [divisor_of(flow.maker(made.tensors[0])) for made in both]
        if len(both) == 2 and 1.0 in divisors and max(divisors) > MIN_TEMPERATURE:
            bare = both[divisors.index(1.0)]
            if any(divisor_of(each) == max(divisors) for each in flow.users(bare.tensors[0])):
                return  # another term has the temperature
            side = "student" if bare is both[0] else "teacher"
            value = max(divisors)
            problem = f"the logits of the {'teacher' if side == 'student' else 'student'} are divided by a temperature "
            problem += f"of {value:g}, and those of the {side} are not: the two distributions cannot meet"
            advice = f"{bare.name}(logits / {value:g}) for both"
            self.report("one-temperature", bare.place, bare.name, problem, advice, f"{value:g}")


def divisor_of(made: Made | None) -> float:
    """Return the number by which an op divides; 1 without one."""
    numbers = [each for x in (made.inputs if made is not None else ()) if (each := number_of(x)) is not None]
    if made is None or not numbers or made.op not in ("div", "mul") or numbers[0] <= 0:
        return 1.0
    return numbers[0] if made.op == "div" else 1 / numbers[0]

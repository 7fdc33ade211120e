"""Rules on scores of pairs: negatives drawn near, sums over the batch, contrasts of vectors of any length."""

from __future__ import annotations

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.watch.events import Backward, distinct_values
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made, ValueFlow

PRODUCTS = frozenset({"mm", "matmul", "einsum"})
VALUES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits")
MAX_TEMPERATURE = 0.25
MIN_SAMPLES = 3


class NegativeSamples(WatchRule):
    """Scores of negative samples that are made large, as those of positive ones are."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for root in backward.roots:
            terms = [term for term in flow.terms(root) if term.made is not None and term.made.op == "logsigmoid"]
            scores = [term.made.tensors[0] for term in terms if term.made is not None and term.sign < 0]
            if len(scores) != 2 or len(terms) != 2 or scores[0].array.size == scores[1].array.size:
                continue
            makers = [flow.maker_past_moves(x) for x in scores]
            if any(made is None or made.op in ("neg", "sub") or is_negated(flow, made) for made in makers):
                continue
            negative = max(terms, key=lambda term: term.value.array.size).made
            if negative is not None:
                problem = f"the scores {tuple(negative.out.shape)} of negative samples are made large, as those of the "
                problem += "positive ones: all vectors come to be alike"
                place, shape = negative.place, tuple(negative.out.shape)
                self.report("negatives-made-large", place, "negatives", problem, "logsigmoid(-scores) for them", shape)


def is_negated(flow: ValueFlow, made: Made) -> bool:
    """Return whether a negative number, or a sign, is in what made a value."""
    numbers = [x for x in made.inputs if isinstance(x, (int, float))]
    behind = flow.makers_behind(*made.tensors)[:4]
    return any(x < 0 for x in numbers) or any(each.op == "neg" for each in behind)


class SummedBatch(WatchRule):
    """Predictions of all samples that share one sum over the whole batch."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if call.name not in VALUES or x is None or target is None or x.node is None or target.array.ndim < 1:
            return
        if len(target.array) < MIN_SAMPLES or x.array.ndim < 1:
            return
        made = self._find_sum(x, len(target.array))
        if made is not None:
            shape = tuple(made.tensors[0].shape)
            problem = (
                f"a sum of {shape} over all samples is one number, which is added to each of the {len(target.array)} "
            )
            problem += "predictions"
            self.report("sum-over-batch", made.place, "sum", problem, "sum(dim=1)", shape)

    see_written_loss = see_call

    def _find_sum(self, x: Tensor, count: int) -> Made | None:
        queue = [x]
        for each in queue[:8]:
            made = self.facts.flow.maker_past_moves(each)
            if made is None or made.out.node is None:
                continue
            source = made.tensors[0].array if made.tensors else None
            is_whole = made.op == "sum" and not made.out.array.ndim and source is not None and source.ndim >= 2
            if is_whole and source is not None and len(source) == count:
                return made
            if made.op in ("add", "sub"):
                for part in made.tensors:
                    found = self._find_sum(part, count) if part.node is not None else None
                    if found is not None:
                        return found
        return None


class UnscaledContrast(WatchRule):
    """Products of vectors of any length that are divided by the temperature of cosines."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if call.name != "cross_entropy" or x is None or target is None or x.node is None or x.array.ndim != 2:
            return
        y = target.array
        if y.ndim != 1 or y.dtype.kind not in "iu" or len(distinct_values(y)) < len(y) or len(y) < MIN_SAMPLES:
            return
        flow = self.facts.flow
        scaled = flow.maker_past_moves(x)
        numbers = [each for each in (scaled.inputs if scaled is not None else ()) if isinstance(each, (int, float))]
        if scaled is None or scaled.op != "div" or not numbers or not 0 < numbers[0] <= MAX_TEMPERATURE:
            return
        product = flow.maker_past_moves(scaled.tensors[0])
        if product is None or product.op not in PRODUCTS or len(product.tensors) != 2:
            return
        rows = [flow.source(each).array for each in product.tensors]
        lengths = [np.linalg.norm(each, axis=-1) for each in rows]
        if all(np.abs(each - 1).max() > 0.05 for each in lengths):
            low, high = min(float(each.min()) for each in lengths), max(float(each.max()) for each in lengths)
            problem = (
                f"vectors of lengths from {low:.3g} to {high:.3g} are compared with a temperature of {numbers[0]:g}, "
            )
            problem += "which is one of cosines: the longest decide"
            advice = "F.normalize(z, dim=1) of both before the product"
            self.report("vectors-not-normalized", product.place, "logits", problem, advice, f"{high:.3g}")

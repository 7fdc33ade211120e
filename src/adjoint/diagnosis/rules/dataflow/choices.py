"""Rules on choices: along the samples, by a confidence that learns, with margins of labels, against an entropy."""

from __future__ import annotations

from adjoint.diagnosis.rules.dataflow.agents.policies import CLAMPS, is_mask
from adjoint.diagnosis.watch.events import Backward
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made

DISTANCES = frozenset({"euclidean", "cdist"})
MAXIMA = ("max", "amax")
LOSSES = ("cross_entropy", "nll_loss", "binary_cross_entropy_with_logits")


class ChosenDimension(WatchRule):
    """A choice of one value for each sample that goes along the samples."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        for made in self.facts.flow.makers_behind(*backward.roots):
            if made.op != "gather" or len(made.tensors) != 2 or made.function != "gather":
                continue
            x, index = made.tensors
            params = getattr(made.out.node, "params", None) or {}
            samples, choices = x.array.shape if x.array.ndim == 2 else (0, 0)
            if params.get("axis") == 0 and index.array.shape == (samples, 1) and min(samples, choices) > 1:
                problem = f"gather along dimension 0 of {(samples, choices)} takes other samples' values of the first "
                problem += "column, and not the chosen value of each sample"
                self.report("gather-dimension", made.place, "gather", problem, "gather(1, …)", f"dim=0 of {x.shape}")
                return


class LearnedConfidence(WatchRule):
    """Losses of samples times a confidence with a history: the loss falls as the model becomes unsure."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for root in backward.roots:
            for term in flow.terms(root):
                made = term.made
                if made is None or made.op != "mul" or len(made.tensors) != 2 or term.sign < 0:
                    continue
                for losses, weight in (made.tensors, made.tensors[::-1]):
                    source, chosen = flow.maker_past_moves(losses), flow.maker_past_moves(weight)
                    if source is None or chosen is None or source.function not in LOSSES or weight.node is None:
                        continue
                    if chosen.function in MAXIMA and weight.array.ndim and losses.array.shape == weight.array.shape:
                        problem = f"the losses {tuple(losses.shape)} are weighed by a confidence with a history: they "
                        problem += "fall as the model becomes unsure"
                        advice = "detach() the confidence, or take it under no_grad"
                        shape = tuple(weight.shape)
                        self.report("weight-with-gradient", chosen.place, "confidence", problem, advice, shape)
                        return


class MarginLabels(WatchRule):
    """A margin of labels of 0 and 1, which takes labels of -1 and 1."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            below = flow.maker(made.tensors[0]) if made.op in ("relu", *CLAMPS) else None
            is_margin = below is not None and below.op == "sub" and isinstance(below.inputs[0], (int, float))
            product = flow.maker(below.tensors[0]) if below is not None and is_margin else None
            factors = product.tensors if product is not None and product.op == "mul" else []
            mask = next(filter(is_mask, factors), None)
            if product is not None and mask is not None and sum(x.node is not None for x in factors) == 1:
                problem = f"the margin {tuple(made.out.shape)} is of labels of 0 and 1: where the label is 0, the "
                problem += "loss is the same for every score"
                label = flow.maker_past_moves(mask)
                place = product.place if label is None else label.place
                self.report("target-out-of-range", place, "label", problem, "2 * label - 1", tuple(mask.shape))
                return


class PolicyEntropy(WatchRule):
    """An entropy that is written out, and that the loss of a policy makes small."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for root in backward.roots:
            terms = flow.terms(root)
            products = [term for term in terms if term.made is not None and term.made.op == "mul"]
            is_policy = any(self._is_choice(term.made) for term in products if term.made is not None)
            for term in products if is_policy else ():
                made = term.made
                sources = [] if made is None else [flow.maker(x) for x in made.tensors]
                names = {each.op for each in sources if each is not None}
                if made is not None and term.sign < 0 and names in ({"softmax", "log_softmax"}, {"softmax", "log"}):
                    problem = "the entropy is added to the loss of a policy: it is made small, so the policy stops to "
                    problem += "explore"
                    place, advice = (flow.maker(root) or made).place, "subtract it: loss - 0.01 * entropy"
                    self.report("entropy-minimized", place, "entropy", problem, advice)
                    return

    def _is_choice(self, made: Made) -> bool:
        """Return whether a product is of the logarithm of a chosen probability and of data of both signs."""
        flow = self.facts.flow
        for likelihood, weight in (made.tensors, made.tensors[::-1]) if len(made.tensors) == 2 else ():
            chosen = flow.maker_past_moves(likelihood)
            is_chosen = chosen is not None and chosen.op in ("gather", "index") and chosen.out.node is not None
            if is_chosen and weight.node is None and weight.array.size > 1 and weight.array.min() < 0:
                return True
        return False


class FarthestCode(WatchRule):
    """The vector of a table that is farthest from a value, and stands for it."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            index = made.tensors[-1] if made.op in ("embedding", "index") and len(made.tensors) == 2 else None
            index = next((x for x in made.tensors if x.array.dtype.kind == "i"), index)
            chosen = flow.maker_past_moves(index) if index is not None else None
            distance = (
                flow.maker_past_moves(chosen.tensors[0]) if chosen is not None and chosen.op == "argmax" else None
            )
            if distance is None or chosen is None or distance.op not in DISTANCES:
                continue
            tables = [x for x in made.tensors if x is not index]
            if any(flow.source(x).array is table.array for table in tables for x in distance.tensors):
                problem = (
                    f"the largest of the distances {tuple(distance.out.shape)} chooses the vector: the one that is "
                )
                problem += "farthest stands for each value"
                self.report("farthest-code", chosen.place, "argmax", problem, "argmin", tuple(distance.out.shape))
                return


class UnreadOutputs(WatchRule):
    """A loss of one column of what a model gives, where nothing reads the others."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.seen = 0

    def see_call(self, call: LibraryCall) -> None:
        x, flow = call.tensor("input"), self.facts.flow
        made = flow.maker(x) if x is not None and x.node is not None and x.array.ndim == 1 and flow.is_open else None
        below = flow.maker(made.tensors[0]) if made is not None and made.family == "movement" and made.tensors else None
        whole = None if below is None or made is None else made.tensors[0]
        if below is None or whole is None or below.op not in ("linear", "addmm") or whole.array.ndim != 2 or x is None:
            return
        count, columns = whole.array.shape
        if columns > 1 and x.array.size == count > 1 and len(flow.users(whole)) == 1:
            self.seen += 1
            if self.seen == FLOW_PASSES:
                problem = (
                    f"the loss reads one of {columns} outputs {tuple(whole.shape)}, and nothing reads the others: they "
                )
                problem += "learn nothing"
                advice = f"one output, or a loss of all {columns}: cross_entropy"
                self.report("outputs-unread", call.place, "output", problem, advice, columns - 1)

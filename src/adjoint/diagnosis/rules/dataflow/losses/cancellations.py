"""Rules on terms that cannot teach: a value that is subtracted from itself, a distance of each sample to itself."""

from __future__ import annotations

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.rules.tokens import TokenRule
from adjoint.diagnosis.watch.events import Backward
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, LossTerm

DISTANCES = frozenset({"euclidean", "cdist"})
MIN_SAMPLES = 4
EQUAL = 1e-6  # relative distance of two factors


class CancelledTerm(WatchRule):
    """A value with a history that a sum has with both signs: it drops out of the loss."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        for root in backward.roots:
            known: dict[int, list[LossTerm]] = {}
            for term in self.facts.flow.terms(root):
                if term.value.node is not None:
                    known.setdefault(id(term.value), []).append(term)
            for terms in known.values():
                total = sum(term.sign * term.factor for term in terms)
                size = sum(term.factor for term in terms)
                flow, behind = self.facts.flow, self.facts.flow.makers_behind(root)
                users = [
                    made
                    for made in behind
                    if made.op in ("add", "sub") and any(flow.source(x) is terms[0].value for x in made.tensors)
                ]
                if len(terms) > 1 and abs(total) < EQUAL * size and users:
                    value = terms[0].value
                    problem = f"a value {tuple(value.shape)} is added here and subtracted again: it drops out of the "
                    problem += "loss, which has no minimum or maximum in it"
                    advice = "look for an exp, a square or another term that one of the two was to have"
                    place = users[-1].place
                    name = place.text.partition("=")[0].strip() if "=" in place.text else "the term"
                    self.report("term-cancelled", place, name, problem, advice, tuple(value.shape))
                    return


class OwnDistance(WatchRule):
    """The least distance of each sample to those of its own batch, which is that to itself."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        makers = flow.makers_behind(*backward.roots)
        if not any(made.op in DISTANCES and made.tensors[0].array is made.tensors[-1].array for made in makers):
            return
        for made in makers:
            below = next((x for x in made.tensors if x.array.dtype.kind == "f"), None)
            if made.op not in ("gather", "min") or below is None or below.array.ndim != 2 or below.node is None:
                continue
            count, others = below.array.shape
            values = made.out.array.reshape(-1)
            is_own = count == others >= MIN_SAMPLES and values.size == count
            if not is_own or not np.array_equal(values, below.array.diagonal()) or abs(values).max() > 1e-2:
                continue
            sizes = np.where(np.isfinite(below.array), below.array, 0)
            if np.array_equal(below.array.min(1), values) and abs(sizes).max() > 1e-2:
                problem = (
                    f"the least of each row of {below.array.shape} is on the diagonal: the distance of a sample to "
                )
                problem += f"itself, up to {abs(values).max():.2g}"
                advice = "max(1) of the distances to those of the same class, or leave out the diagonal before min"
                self.report("self-similarity", made.place, "min", problem, advice, below.array.shape)
                return


class MaskOfInputs(TokenRule):
    """Losses of steps that the mask of the inputs chooses, and not that of the targets, which are one step ahead."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.targets: list[Tensor] = []

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        is_whole = call.name in ("cross_entropy", "nll_loss") and call.arguments.get("reduction") == "none"
        if is_whole and target is not None and target.array.dtype.kind in "iu":
            self.targets.append(target)

    def begin_backward(self, backward: Backward) -> None:
        padded, targets, self.targets = self.find_padded(), self.targets, []
        if padded is not None and targets:
            _, ids, padding = padded
            ends = ids != padding
            for made in self.facts.flow.makers_behind(*backward.roots):
                mask = next((x for x in made.tensors if x.node is None), None) if made.op in ("mul", "index") else None
                for target in targets if mask is not None else ():
                    y = target.array
                    if mask is None or y.size != ends.size or mask.array.size != y.size or made.op != "mul":
                        continue
                    chosen = mask.array.reshape(-1) != 0
                    is_of_inputs = np.array_equal(chosen, ends.reshape(-1))
                    count = int((chosen & (y.reshape(-1) == padding)).sum())
                    if is_of_inputs and count and (y == padding).sum() > count:
                        problem = f"the mask is that of the inputs: {count} targets that it keeps are {padding}, the "
                        problem += "padding, which the model learns to predict"
                        source = self.facts.flow.maker_past_moves(mask)
                        place = made.place if source is None else source.place
                        advice = f"the mask of the targets: targets != {padding}"
                        self.report("padding-in-loss", place, "mask", problem, advice, count)
        super().begin_backward(backward)

"""Rules on the sizes of terms and predictions: a mean beside a sum, a mean over masked steps, a clamped prediction."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.dataflow.agents.policies import CLAMPS, is_mask
from adjoint.diagnosis.rules.dataflow.losses.signs import SQUARES
from adjoint.diagnosis.rules.probabilities import LIMITED
from adjoint.diagnosis.rules.targets import BINARY, ERRORS
from adjoint.diagnosis.watch.events import Backward, distinct_values
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, LossTerm, Made, factor_of

CLASS_LOSSES = ("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
MIN_BATCH = 8
MIN_VALUES = 16  # of a sample
MEANS = ("squared_error", "entropy", "logit_entropy")  # the ops of errors and of cross-entropies
MIN_CLAMPED = 0.25  # share of a prediction
MAX_UNMASKED = 0.9
MIN_RATIO = 2  # of distances

POWERS = frozenset({"pow", "square"})


class UnevenReductions(WatchRule):
    """A divergence that is summed over the batch, beside an error that is a mean over all elements."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        if len(backward.roots) != 1:
            return
        terms = self.facts.flow.terms(backward.roots[0])
        means = [term.made for term in terms if term.made is not None and term.made.op in MEANS and is_mean(term)]
        powers = {
            kind: term
            for term in terms
            for kind, ops in (("exp", {"exp"}), ("square", SQUARES))
            if term.made is not None and term.made.op in ops
        }
        if len(powers) < 2 or not means:
            return
        exponential = powers["exp"]
        shape, size = exponential.value.array.shape, means[0].tensors[0].array.size
        if len(shape) == 2 and shape[0] >= MIN_BATCH and exponential.factor >= 0.4 and size > shape[0]:
            self.report(
                "uneven-reductions",
                means[0].place,
                "reduction",
                f"the error is a mean over {size} elements and the divergence a sum over {shape[0]} samples: it counts "
                f"{size} times as much, and the code carries nothing",
                'reduction="sum" in the error, or the mean of both over the samples',
                size,
            )
        elif len(shape) == 2 and shape[0] >= MIN_BATCH and size >= MIN_VALUES * shape[0]:
            weight = exponential.factor * shape[0]  # of a sample's divergence
            if any(abs(weight - each) < 1e-3 for each in (0.5, 1.0)):
                self.report(
                    "uneven-reductions",
                    means[0].place,
                    "reduction",
                    f"the error is a mean over the {size // shape[0]} values of each sample and the divergence a sum "
                    f"over its {shape[1]}: the error counts {size // shape[0]} times too little, and the code carries "
                    "nothing",
                    'reduction="sum" in the error, divided by the number of samples',
                    size // shape[0],
                )


def is_mean(term: LossTerm) -> bool:
    """Return whether an error is in the loss by the mean of its elements."""
    size = term.value.array.size
    if term.value.array.ndim:
        return size > 1 and abs(term.factor * size - 1) < 1e-3
    return (getattr(term.value.node, "params", None) or {}).get("reduction") == "mean"


class DividedMean(WatchRule):
    """A mean over the batch that is divided by the number of samples again."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.found: list[tuple[Made, int, tuple[int, ...]]] = []  # divisions, by how much, and the shape of the mean

    def begin_backward(self, backward: Backward) -> None:
        flow, divisor = self.facts.flow, 1.0
        made = flow.maker(backward.roots[0]) if len(backward.roots) == 1 else None
        first = made
        while made is not None and made.op in ("div", "mul") and len(made.tensors) == 1:
            divisor /= factor_of(made)
            made = flow.maker(made.tensors[0])
        if made is None or first is None or not made.tensors:
            return
        reduction = (getattr(made.out.node, "params", None) or {}).get("reduction")
        shape, count = made.tensors[0].array.shape, round(divisor)
        is_whole = made.out.array.size == 1 and (made.op == "mean" or reduction == "mean" or made.op == "mean_nll")
        sizes = {math.prod(shape[:i]) for i in range(1, len(shape) + 1)}
        if is_whole and count in sizes and count >= MIN_BATCH and abs(divisor - count) < 1e-3 * count:
            self.found.append((first, count, shape))

    def finish(self) -> None:
        if len(self.found) == FLOW_PASSES and self.facts.iteration <= self.facts.steps:
            made, count, shape = self.found[0]
            problem = f"the loss is a mean over {shape} already, and is divided by {count} again: the gradients are "
            problem += f"{count} times too small"
            self.report("mean-divided-again", made.place, f"/ {count}", problem, "leave out the division", count)


class InvertedLossMask(WatchRule):
    """A mask of losses that leaves out every class but one: it counts the padding, and not the tokens."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.targets: list[Tensor] = []  # of this pass

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        if call.name in ("cross_entropy", "nll_loss") and call.arguments.get("reduction") == "none":
            self.targets += [] if target is None else [target]

    def begin_backward(self, backward: Backward) -> None:
        targets, self.targets = self.targets, []
        for made in self.facts.flow.makers_behind(*backward.roots) if targets else ():
            mask = next((x for x in made.tensors if is_mask(x)), None) if made.op in ("mul", "index") else None
            labels = [x.array for x in targets if mask is not None and x.array.size == mask.array.size]
            if mask is None or not labels:
                continue
            is_kept = mask.array.ravel() != 0
            kept, left = distinct_values(labels[0].ravel()[is_kept]), distinct_values(labels[0].ravel()[~is_kept])
            if len(kept) == 1 and len(left) > 2 and kept[0] not in left:
                source = self.facts.flow.maker_past_moves(mask)
                self.report(
                    "mask-inverted",
                    made.place if source is None else source.place,
                    "mask",
                    f"the mask {tuple(mask.shape)} keeps the losses of the targets {kept[0]} alone, and leaves out all "
                    f"others, of {left[0]} to {left[-1]}",
                    f"target != {kept[0]} in place of target == {kept[0]}",
                    int(kept[0]),
                )
                return


class MaskedMean(WatchRule):
    """A mean of masked losses over all steps, those that the mask leaves out too."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for root in backward.roots:
            for mean in flow.makers_behind(root):
                product = flow.maker(mean.tensors[0]) if mean.op == "mean" else None
                if product is None or product.op != "mul" or product.out.node is None:
                    continue
                mask = next((x for x in product.tensors if is_mask(x)), None)
                losses = [x for x in product.tensors if x.node is not None and x.array.ndim]
                source = flow.maker_past_moves(losses[0]) if losses else None
                if mask is None or source is None or mask.array.mean() > MAX_UNMASKED:
                    continue
                if source.function.endswith("cross_entropy") and mask.shape == losses[0].shape:
                    share = f"{1 - mask.array.mean():.0%}"
                    self.report(
                        "masked-mean",
                        mean.place,
                        "mask",
                        f"the mean over {mask.array.size} losses counts the {share} that the mask makes 0",
                        "(losses * mask).sum() / mask.sum()",
                        share,
                    )
                    return


class ClampedPrediction(WatchRule):
    """A prediction that is clamped before the loss: where it is outside, it has no gradient."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        """Look for a logarithm of scores that are clamped to probabilities."""
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            below = flow.maker(made.tensors[0]) if made.op == "log" else None
            while below is not None and below.op in ("add", "sub") and len(below.tensors) == 1:
                below = flow.maker(below.tensors[0])
            source = None if below is None or below.op not in CLAMPS else flow.maker_past_moves(below.tensors[0])
            if below is None or source is None or source.op in LIMITED:
                continue
            params = getattr(below.out.node, "params", None) or {}
            if params.get("high") is not None:  # a lower limit alone keeps the logarithm finite
                self._check_share(below)

    def see_call(self, call: LibraryCall) -> None:
        x = call.tensor("input")
        made = self.facts.flow.maker_past_moves(x)
        if call.name not in (*ERRORS, *BINARY) or x is None or made is None or made.op not in CLAMPS:
            return
        self._check_share(made)

    def _check_share(self, made: Made) -> None:
        x = made.out
        share = float(np.mean(made.out.array != made.tensors[0].array))
        if share >= MIN_CLAMPED and made.out.node is not None:
            self.report(
                "clamped-prediction",
                made.place,
                "clamp",
                f"{share:.0%} of the prediction {tuple(x.shape)} are outside of the limits of clamp: they get no "
                "gradient",
                "sigmoid() for a prediction between 0 and 1; clamp only what is evaluated",
                f"{share:.0%}",
            )


class FocalWeight(WatchRule):
    """A focal loss that gives weight to the samples which are sure already."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            parts = made.tensors if made.op == "mul" and len(made.tensors) == 2 else []
            for weight, logp in (parts, parts[::-1]) if parts else ():
                power = flow.maker_past_moves(weight)
                if power is not None and power.op == "neg":
                    power = flow.maker_past_moves(power.tensors[0])
                base = flow.maker_past_moves(power.tensors[0]) if power is not None and power.op in POWERS else None
                below = flow.source(base.tensors[0]) if base is not None and base.op == "exp" else None
                source = flow.source(logp)
                rest = flow.maker_past_moves(base.tensors[-1]) if base is not None and base.op == "sub" else None
                is_of_loss = rest is not None and rest.op == "exp" and flow.source(rest.tensors[0]) is source
                if rest is not None and is_of_loss and rest.out.array.min() >= 1 and rest.out.array.ndim:
                    shape = tuple(rest.out.shape)
                    problem = f"the exponential of losses {shape} is {rest.out.array.min():.3g} or more: it is no "
                    problem += "probability, and gives weight to what is not sure in another way"
                    self.report("focal-weight-inverted", rest.place, "exp", problem, "p = exp(-loss)", shape)
                    return
                if power is not None and below is not None and below is source and logp.node is not None:
                    problem = (
                        f"the logarithms {tuple(logp.shape)} are multiplied by a power of the probability itself: "
                    )
                    problem += "samples that are sure already count most"
                    advice = "(1 - p) ** gamma * logp"
                    self.report("focal-weight-inverted", power.place, "p", problem, advice, tuple(logp.shape))
                    return


class FocalMean(WatchRule):
    """`exp(-loss)` of a loss that is a mean already: one factor for all samples."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            negative = flow.maker(made.tensors[0]) if made.op == "exp" and not made.out.array.ndim else None
            source = flow.maker(negative.tensors[0]) if negative is not None and negative.op == "neg" else None
            if source is None or made.out.node is None or source.function not in CLASS_LOSSES:
                continue
            count = max((x.array.shape[0] for x in source.tensors if x.array.ndim), default=0)
            if count > 1 and any(user.op in ("sub", "mul", "neg") for user in flow.users(made.out)):
                problem = (
                    f"the factor of the loss is made of its mean over {count} samples: it is the same for all, and "
                )
                problem += "weighs no sample"
                advice = 'reduction="none" in the loss, and the mean at the end'
                self.report("mean-before-loss", source.place, source.function, problem, advice, count)
                return


class ContrastPolarity(WatchRule):
    """A contrastive loss whose labels are turned round: it pulls the pairs that differ, and parts those alike."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.found: list[tuple[Place, float]] = []

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        products = []  # the masks and the values that they keep
        for made in flow.makers_behind(*backward.roots):
            for mask, x in (made.tensors, made.tensors[::-1]) if made.op == "mul" and len(made.tensors) == 2 else ():
                if is_mask(mask) and x.node is not None and x.shape == mask.shape:
                    products.append((made, mask.array != 0, flow.maker(x)))
        for made, is_pulled, pulled in products:
            for _, is_parted, parted in products:
                below = None if parted is None else flow.maker(parted.tensors[0])
                is_margin = below is not None and below.op in ("relu", *CLAMPS)
                if pulled is None or pulled.op not in SQUARES or not is_margin or not (is_pulled ^ is_parted).all():
                    continue
                distance = pulled.tensors[0].array
                ratio = float(distance[is_pulled].mean() / max(distance[is_parted].mean(), 1e-12))
                if ratio > MIN_RATIO:
                    self.found.append((made.place, ratio))
                return

    def finish(self) -> None:
        if len(self.found) == FLOW_PASSES:
            place, ratio = self.found[0]
            problem = f"the pairs that the loss pulls together begin {ratio:.2g} times as far apart as those that it "
            problem += "parts: the labels are turned round"
            advice = "same * distance**2 + (1 - same) * relu(margin - distance)**2"
            self.report("contrast-inverted", place, "label", problem, advice, f"{ratio:.2g}")

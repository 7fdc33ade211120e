"""Rules on losses and limits that are written by hand: signed errors, a softmax of everything, limits exchanged."""

from __future__ import annotations

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operands
from adjoint.diagnosis.watch.events import Backward, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made, ValueFlow

REDUCTIONS = frozenset({"mean", "sum"})
LIMITS = frozenset({"relu", "clamp", "clamp_range", "clamp_min", "maximum"})
CLAMPS = frozenset({"clamp_range", "clamp"})
READ = frozenset({"index", "gather", "log"})


class SignedError(WatchRule):
    """The mean of a difference as the loss: it falls without a limit."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        made = self.facts.flow.maker(backward.roots[0]) if len(backward.roots) == 1 else None
        below = self.facts.flow.maker(made.tensors[0]) if made is not None and made.op in REDUCTIONS else None
        if made is None or below is None or below.op != "sub" or len(below.tensors) != 2:
            return
        x, target = below.tensors
        x, target = (x, target) if x.node is not None else (target, x)
        if x.node is not None and target.node is None and x.shape == target.shape and x.array.size > 1:
            shape = tuple(x.shape)
            problem = f"the loss is the mean of the differences {shape} with their signs: it falls without a limit"
            advice = "(pred - target).pow(2).mean(), or abs()"
            self.report("signed-error", below.place, "loss", problem, advice, shape)


class SoftmaxOfAll(WatchRule):
    """Exponentials of a batch that are divided by one sum of all of them."""

    ops = frozenset({"div"})
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.quotients: list[Tensor] = []

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        flow = self.facts.flow
        if not flow.is_open or out.array.ndim != 2 or len(out.array) < 2 or out.node is None or len(inputs) < 2:
            return
        above, below = flow.maker(inputs[0]), flow.maker(inputs[1])
        if above is None or below is None or above.op != "exp" or below.op != "sum" or below.out.array.ndim:
            return
        if below.tensors[0] is inputs[0]:
            self.quotients.append(out)

    def begin_backward(self, backward: Backward) -> None:
        quotients, self.quotients = self.quotients, []
        for out in quotients:
            made = self.facts.flow.maker(out)
            if made is not None and any(user.op in READ for user in self.facts.flow.users(out)):
                shape = tuple(out.shape)
                problem = (
                    f"a softmax written out divides all of {shape} by one sum: the probabilities of a sample sum to "
                )
                problem += f"{float(out.array.sum(1).mean()):.3g}, and not to 1"
                advice = "e / e.sum(dim=1, keepdim=True)"
                self.report("softmax-dimension", made.place, "sum", problem, advice, shape)


class ExchangedLimits(WatchRule):
    """A clamp whose least value is above its greatest: all results are the latter."""

    ops = CLAMPS

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if out.array.size < 2 or not is_array(out) or (out.array != out.array.flat[0]).any():
            return
        frame = find_library_call("clamp", "clip", "clamp_", "clamp_range")
        names = {} if frame is None else frame.f_locals
        low, high = (names.get(name) for name in ("min", "max"))
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low > high:
            problem = (
                f"clamp from {low:g} to {high:g}: the least value is above the greatest, so all results are {high:g}"
            )
            self.report("limits-exchanged", caller_place(), "clamp", problem, f"clamp({high:g}, {low:g})", f"{high:g}")


class TemperatureSign(WatchRule):
    """The temperature of an entropy that grows where the entropy is above its target."""

    max_passes = FLOW_PASSES * 3

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for term in (term for root in backward.roots for term in flow.terms(root)) if flow.is_open else ():
            product = term.made
            if product is None or product.op != "mul" or term.sign < 0 or len(product.tensors) != 2:
                continue
            for scale, weights in (product.tensors, product.tensors[::-1]):
                made = flow.maker(scale)
                leaf = made.tensors[0] if made is not None and made.op == "exp" else scale
                if type(leaf.node) is not Leaf or leaf.array.size != 1 or weights.node is not None:
                    continue
                behind = flow.makers_behind(weights)
                if any(each.function == "log_prob" for each in behind) and all(each.op != "neg" for each in behind[:3]):
                    problem = (
                        "the temperature times log-probability plus target is in the loss with a plus: it grows where "
                    )
                    problem += "the entropy is too large already, and falls where it is too small"
                    advice = "-(log_alpha * (log_prob + target_entropy).detach()).mean()"
                    self.report("temperature-sign", product.place, "alpha", problem, advice, tuple(weights.shape))


class MinimizedLikelihood(WatchRule):
    """The mean of the log-probabilities of the right classes as the loss, without its minus."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        terms = flow.terms(backward.roots[0]) if len(backward.roots) == 1 and flow.is_open else []
        made = flow.maker_past_moves(terms[0].value) if len(terms) == 1 and terms[0].sign > 0 else None
        if made is None or made.op not in ("index", "gather") or len(made.tensors) < 2:
            return
        below = flow.maker_past_moves(made.tensors[0])
        if below is not None and below.op in ("log_softmax", "logsigmoid") and made.tensors[-1].node is None:
            place = flow.maker(backward.roots[0]) or made
            shape = tuple(made.out.shape)
            problem = (
                f"the log-probabilities {shape} of the right classes are the loss, with a plus: they are made small"
            )
            self.report("negated-loss", place.place, "loss", problem, "a minus before it", shape)


class DistanceOverBatch(WatchRule):
    """Distances of pairs that are summed over the samples, and not over the features of each."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            power = flow.maker(made.tensors[0]) if made.op == "sum" and made.tensors else None
            below = flow.maker(power.tensors[0]) if power is not None and power.op in ("pow", "square") else None
            if below is None or power is None or below.op != "sub" or any(x.node is None for x in below.tensors):
                continue
            a = power.out.array
            is_summed = a.ndim == 2 and len(below.tensors) == 2 and made.out.array.shape == a.shape[1:]
            if not is_summed or not np.allclose(made.out.array, a.sum(0)) or np.allclose(a.sum(0), a.sum(-1).sum()):
                continue
            differences = [user for user in flow.users_past_moves(made.out) if user.op == "sub"]
            if any(later.op in LIMITS for user in differences for later in users_of_sums(flow, user.out)):
                problem = (
                    f"the squared differences {tuple(a.shape)} are summed over dimension 0: a distance of all samples "
                )
                problem += "in each feature, and not of each pair"
                self.report("distance-over-batch", made.place, "sum", problem, "sum(dim=1)", tuple(a.shape))
                return


def users_of_sums(flow: ValueFlow, x: Tensor) -> list[Made]:
    """Return the ops that use a value, and those that use a sum of it."""
    users = flow.users(x)
    return [*users, *(later for user in users if user.op == "add" for later in flow.users(user.out))]

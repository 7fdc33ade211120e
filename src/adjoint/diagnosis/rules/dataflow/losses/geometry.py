"""Rules on densities and boxes: the sign of a log-determinant, areas of no intersection, one factor for a batch."""

from __future__ import annotations

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operands
from adjoint.diagnosis.watch.events import Backward, ModuleCall
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made, ValueFlow

SQUARES = frozenset({"pow", "square"})
BOX_SIZE = 4
MIN_NEGATIVE = 0.1  # of the boxes
UNIFORM = frozenset({"uniform", "rand"})


class LogDeterminant(WatchRule):
    """A log-determinant that is added to the negative log-likelihood of a flow."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for root in backward.roots:
            terms = flow.terms(root)
            squares = [
                term.made for term in terms if term.made is not None and term.made.op in SQUARES and term.sign > 0
            ]
            behind = [each for made in squares for each in flow.makers_behind(*made.tensors)]
            scales = {
                id(each.tensors[0])
                for each in behind
                if each.op == "exp" and any(user.op == "mul" for user in flow.users(each.out))
            }
            found = [term for term in terms if id(term.value) in scales]
            if found and all(term.sign > 0 for term in found):
                made = flow.maker(root)
                place = made.place if made is not None else backward.place
                problem = (
                    f"the logarithms of {len(found)} scales are in the loss with a plus, beside the square of what "
                )
                problem += "they scaled: the flow makes all values small without a limit"
                advice = "loss = -(log_prob + log_det).mean()"
                self.report("log-determinant-sign", place, "log_det", problem, advice, len(found))


class BoxOverlap(WatchRule):
    """Sides of the intersection of boxes that may be negative, and whose product is taken for an area."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            if made.op != "mul" or len(made.tensors) != 2:
                continue
            self._check_data(made)
            sides = [find_limit(flow, x) for x in made.tensors]
            if all(sides) and any((x.array < 0).any() for x in made.tensors):
                first = sides[0]
                count = int(sum((x.array < 0).sum() for x in made.tensors))
                problem = (
                    f"{count} sides of an intersection are negative, where boxes do not meet: the product of two of "
                )
                problem += "them counts as an area"
                place = made.place if first is None else first.place
                self.report("negative-intersection", place, "wh", problem, "clamp(min=0) of both sides", count)
                return

    def _check_data(self, area: Made) -> None:
        """Look for the area of boxes of data whose right end is left of the left one."""
        sides = [self.facts.flow.maker_past_moves(x) for x in area.tensors]
        ends = [made.tensors for made in sides if made is not None and made.op == "sub" and len(made.tensors) == 2]
        if len(ends) < 2 or area.out.node is not None or len({id(self._owner(x)) for pair in ends for x in pair}) > 1:
            return
        negative = np.logical_or(*(x.array < 0 for x in area.tensors))
        whole = self._owner(ends[0][0])
        if whole.ndim > 1 and whole.shape[-1] == BOX_SIZE and negative.mean() > MIN_NEGATIVE:
            count = int(negative.sum())
            problem = f"{count} of {negative.size} boxes end before they begin: they are not given by their corners"
            advice = "convert centre and size to corners first: cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2"
            self.report("boxes-without-corners", area.place, "boxes", problem, advice, count)

    def _owner(self, x: Tensor) -> Array:
        return self.facts.flow.source(x).array


def find_limit(flow: ValueFlow, x: Tensor) -> Made | None:
    """Return the difference of a minimum and a maximum that a side is, without a clamp."""
    made = flow.maker_past_moves(x)
    if made is None or made.op != "sub" or len(made.tensors) != 2:
        return None
    ends = [flow.maker_past_moves(each) for each in made.tensors]
    names = [each.op for each in ends if each is not None]
    return made if names == ["minimum", "maximum"] else None


class InterpolationFactor(WatchRule):
    """One random number between real and generated samples, for the whole batch."""

    ops = frozenset({"add"})
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.mixed: dict[int, tuple[Tensor, Made]] = {}  # by memory: what was mixed, and how its factor was drawn

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        flow = self.facts.flow
        if not flow.is_open or out.array.ndim < 2 or len(out.array) < 2:
            return
        parts = [made for x in inputs if (made := flow.maker(x)) is not None and made.op == "mul"]
        factors = [x for made in parts for x in made.tensors if x.array.size == 1]
        drawn = [made for x in factors for made in flow.makers_behind(x) if made.op in UNIFORM]
        if len(parts) == 2 and len(factors) == 2 and len(drawn) == 2 and drawn[0] is drawn[1]:
            self.mixed[id(out.array)] = out, drawn[0]

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        known = None if x is None or type(x.node) is not Leaf else self.mixed.get(id(x.array))
        if known is not None and x is not None and known[0].array is x.array:  # its gradient is wanted
            count = len(x.array)
            problem = f"one random number interpolates all {count} samples: the penalty looks at one distance from the "
            problem += "real ones in each step"
            advice = f"a number for each sample: torch.rand({count}, 1)"
            self.report("one-factor-for-batch", known[1].place, "alpha", problem, advice, count)

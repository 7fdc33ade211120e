"""Rules on the losses of a pass: those that no backward pass takes, and one that stands in the sum twice."""

from __future__ import annotations

from collections import Counter

from adjoint.core.graph.source_location import InstructionLocation
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import Backward
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES

MIN_SEEN = 2  # passes


class UnusedLosses(WatchRule):
    """A line that computes several losses, of which the backward pass takes the last alone."""

    ops = frozenset({"mean_nll", "squared_error", "entropy", "logit_entropy", "smooth_l1", "huber"})
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.losses: list[Tensor] = []  # of this pass
        self.found: dict[Place, list[int]] = {}  # how many a line made, in each pass that took one

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if out.node is not None and not out.array.ndim and self.facts.flow.is_open:
            self.losses.append(out)

    def begin_backward(self, backward: Backward) -> None:
        losses, self.losses = self.losses, []
        behind = {id(made) for made in self.facts.flow.makers_behind(*backward.roots)}
        lines: dict[InstructionLocation, tuple[Place, list[bool]]] = {}  # and not only those of a line
        for loss in losses:
            made = self.facts.flow.maker(loss)
            if made is not None:
                lines.setdefault(made.location, (made.place, []))[1].append(id(made) in behind)
        for place, uses in lines.values():
            if len(uses) > 1 and sum(uses) == 1 and uses[-1]:
                self.found.setdefault(place, []).append(len(uses))

    def finish(self) -> None:
        for place, counts in self.found.items():
            if len(counts) >= MIN_SEEN:
                problem = f"the line computes {counts[-1]} losses in a pass, and backward() takes the last one alone"
                advice = "add them up, loss = loss + …, or backward() for each"
                self.report("loss-overwritten", place, "loss", problem, advice, counts[-1])


class RepeatedLoss(WatchRule):
    """The same loss of the same values twice in a pass: the second was to have another target."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.seen: list[tuple[str, Place, Tensor, Tensor]] = []  # of this pass
        self.counts: Counter[Place] = Counter()

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if x is None or target is None or x.node is None or call.name not in ("cross_entropy", "mse_loss"):
            return  # others are seen at several of their ops
        for name, place, other, known in self.seen:
            if (name, place) == (call.name, call.place) and other is x and known is target:
                self.counts[place] += 1
        self.seen.append((call.name, call.place, x, target))

    def begin_backward(self, backward: Backward) -> None:
        self.seen = []

    def finish(self) -> None:
        for place, count in self.counts.items():
            if count >= MIN_SEEN:
                problem = "the line computes the same loss twice, of the same prediction and the same target"
                self.report("loss-repeated", place, "loss", problem, "the other target, such as y[order]", count)

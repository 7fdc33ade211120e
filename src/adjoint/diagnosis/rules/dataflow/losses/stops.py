"""Rules on gradients that are to stop: at the target of a siamese pair, at a teacher, at the codes of a quantizer."""

from __future__ import annotations

import ast
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.source.text_rule import find_sources, name_of
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import Backward
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made

LAYERS = frozenset({"linear", "addmm", "convolution", "mm", "conv_transpose"})


class StoppedPair(WatchRule):
    """Two similarities of predictions with what they predict, where nothing stops the gradient of the latter."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for root in backward.roots:
            terms = [term for term in flow.terms(root) if term.made is not None and term.sign < 0]
            made = [term.made for term in terms if term.made is not None and term.made.function == "cosine_similarity"]
            if len(made) != 2:
                continue
            one, other = (self._find_operands(each) for each in made)
            if len(one) == len(other) == 2 and self._predict_each_other(one, other):
                shape = tuple(one[0].shape)
                problem = (
                    f"both sides {shape} of each similarity have a gradient, and one is predicted from the other: all "
                )
                problem += "samples come to have the same vector"
                advice = "detach() of the side that is predicted: cosine_similarity(p, z.detach())"
                self.report("gradient-not-stopped", made[0].place, "z", problem, advice, shape)

    def _find_operands(self, made: Made) -> list[Tensor]:
        """Return what a call of cosine_similarity got, with a history."""
        found: list[Tensor] = []
        queue = list(made.tensors)
        for x in queue:
            below = self.facts.flow.maker(x)
            if below is not None and below.function == made.function and below.location == made.location:
                queue += [each for each in below.tensors if all(each is not known for known in queue)]
            elif x.node is not None and all(x is not known for known in found):
                found.append(x)
        return found

    def _predict_each_other(self, one: list[Tensor], other: list[Tensor]) -> bool:
        """Return whether an operand of each was computed from one of the other's."""
        pairs = ((one, other), (other, one))
        return all(
            any(
                part is source
                for x in first
                for made in self.facts.flow.makers_behind(x)
                for part in made.tensors
                for source in second
            )
            for first, second in pairs
        )


class TrainedTeacher(WatchRule):
    """A copy that follows another model by an average, and that the optimizer trains too."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.calls: dict[str, Place] = {}

    def finish(self) -> None:
        trained = self.facts.find_optimizers()
        roots = {root.name: root for root in self.facts.names.models()}
        for source in find_sources(self.facts):
            for loop in source.nodes_of(ast.For):
                if not isinstance(loop.iter, ast.Call) or name_of(loop.iter) != "zip":
                    continue
                names = [text_of(each).partition(".parameters(")[0] for each in loop.iter.args]
                targets = [name_of(each) for each in getattr(loop.target, "elts", ())]
                for name, target in zip(names, targets, strict=False):
                    root = roots.get(name)
                    if root is None or not follows(loop, target):
                        continue
                    own = [p for p in root.module.parameters() if id(p) in trained and p._grad is not None]
                    if any(p._grad is not None and p._grad.array.any() for p in own):
                        known = self.facts.called.get(id(root.module))
                        place = known[1][0].place if known is not None and known[1] else root.made
                        problem = (
                            f"{name} follows by an average, and {len(own)} of its parameters get gradients too: the "
                        )
                        problem += "loss pulls it towards the model that it is to guide"
                        advice = f"{name}(x).detach(), and none of its parameters in the optimizer"
                        self.report("gradient-not-stopped", place, name, problem, advice, len(own))


def follows(loop: ast.For, target: str) -> bool:
    """Return whether a loop over pairs of parameters writes an average into one of them."""
    text = " ".join(text_of(line) for line in loop.body)
    writes = r"(?:\.data)?\.(?:mul_|lerp_|copy_)\(|\.data = "
    return bool(target) and re.search(rf"(?<!\w){re.escape(target)}(?:{writes})", text) is not None


class StraightThrough(WatchRule):
    """Codes of a quantizer that go to the decoder as they are: the encoder gets no gradient from it."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            if made.op not in ("embedding", "index", "index_select") or made.out.node is None or len(made.inputs) < 2:
                continue
            chosen = [each for x in made.tensors if x.node is None for each in flow.makers_behind(x)[:6]]
            if not any(each.op in ("argmin", "argmax") for each in chosen):
                continue
            users = flow.users_past_moves(made.out)
            layers = [each for each in users if each.op in LAYERS and each.tensors[0].array.size == made.out.array.size]
            distance = next((each for each in chosen if each.op in ("argmin", "argmax")), made)
            is_learned = any(
                x.node is not None for each in flow.makers_behind(*distance.tensors)[:8] for x in each.tensors
            )
            if (
                layers
                and is_learned
                and any(each.op in ("squared_error", "sub", "mean_squared_error") for each in users)
            ):
                shape = tuple(made.out.shape)
                problem = (
                    f"the codes {shape} go to the decoder as they are: the choice of a code has no gradient, so the "
                )
                problem += "encoder learns nothing from the reconstruction"
                advice = "z + (codes - z).detach() for the decoder"
                self.report("no-straight-through", layers[0].place, "codes", problem, advice, shape)

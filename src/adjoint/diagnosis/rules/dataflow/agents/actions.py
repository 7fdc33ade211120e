"""Rules on the gradient of policies: actions that are never drawn, advantages turned round, probabilities unlogged."""

from __future__ import annotations

import re

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.dataflow.agents.policies import ERRORS
from adjoint.diagnosis.watch.events import Backward, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, LossTerm, Made

MIN_LOADS = 2
TARGETS = re.compile(r"(?:^|_)(?:t|tgt|target|frozen|old)(?:_|$|net|q)|^tq")
DRAWN = frozenset({"multinomial", "sample", "bernoulli"})
JOINS = frozenset({"stack", "cat"})
INDICES = frozenset({"gather", "index", "take_along", "take_along_dim"})


class BestAction(WatchRule):
    """The log-probability of the best action, where one was to be drawn."""

    ops = INDICES
    max_passes = FLOW_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        flow = self.facts.flow
        made = flow.maker(out)
        if made is None or made.function != "log_prob" or out.node is None or len(made.tensors) < 2:
            return
        chosen = next((each for each in flow.makers_behind(*made.tensors[1:]) if each.op == "argmax"), None)
        if chosen is not None:
            problem = (
                f"the action {tuple(chosen.out.shape)} is the best one, and none is drawn: nothing else is tried, "
            )
            problem += "and its probability only grows or falls"
            self.report("action-not-drawn", chosen.place, "argmax", problem, "dist.sample()", tuple(chosen.out.shape))


class AdvantageOrder(WatchRule):
    """An advantage that is the value less the return: good actions become unlikely."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.pairs: list[tuple[Tensor, Tensor]] = []  # values and their targets, of the errors since the last pass
        self.found: list[Made] = []

    def see_call(self, call: LibraryCall) -> None:
        value, target = call.tensor("input"), call.tensor("target")
        if call.name in ERRORS and value is not None and target is not None and value.node is not None:
            self.pairs.append((value, target))

    see_written_loss = see_call

    def begin_backward(self, backward: Backward) -> None:
        pairs, self.pairs = self.pairs, []
        for term in (term for root in backward.roots for term in self.facts.flow.terms(root)) if pairs else ():
            weight = self._find_weight(term)
            if weight is None or weight.op != "sub" or len(weight.tensors) != 2:
                continue
            first, second = (self._source(x) for x in weight.tensors)
            for value, target in pairs:
                is_turned = first is self._source(value) and second is self._source(target)
                is_right = first is self._source(target) and second is self._source(value)
                if (is_turned and term.sign < 0) or (is_right and term.sign > 0):
                    self.found.append(weight)

    def _source(self, x: Tensor) -> Operand:
        return self.facts.flow.source(x).array

    def _find_weight(self, term: LossTerm) -> Made | None:
        """Return what made the factor of a log-probability."""
        flow = self.facts.flow
        if term.made is None:
            return None
        product = term.made
        if product.function == "log_prob":
            product = next((each for each in flow.users_past_moves(term.value) if each.op == "mul"), product)
        parts = [flow.maker_past_moves(x) for x in product.tensors] if product.op == "mul" else []
        if not any(each is not None and each.function == "log_prob" for each in parts):
            return None
        return next((each for each in parts if each is not None and each.function != "log_prob"), None)

    def finish(self) -> None:
        if self.found:
            place = self.found[0].place
            shape = tuple(self.found[0].out.shape)
            problem = (
                f"the advantage {shape} is the value less the return: actions that were better than expected become "
            )
            problem += "unlikely"
            self.report("advantage-turned", place, "advantage", problem, "returns - values.detach()", len(self.found))


class UnloggedProbability(WatchRule):
    """The probability of a drawn action times its return, where its logarithm was meant."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.found: list[tuple[Place, tuple[int, ...]]] = []

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for term in (term for root in backward.roots for term in flow.terms(root)):
            made = term.made
            chosen = flow.maker_past_moves(term.value) if made is not None else None
            if chosen is not None and chosen.op == "mul":
                self._check_items(term, chosen)
                chosen = next((each for x in chosen.tensors if (each := flow.maker_past_moves(x)) is not None), None)
            if chosen is None or chosen.op not in INDICES or len(chosen.tensors) < 2 or term.sign > 0:
                continue
            below = flow.maker_past_moves(chosen.tensors[0])
            drawn = [each for each in flow.makers_behind(chosen.tensors[1]) if each.name in DRAWN or each.op in DRAWN]
            users = [each for each in flow.users_past_moves(chosen.out) if each.op == "mul"]
            weights = [x for each in users for x in each.tensors if x.node is None and is_array(x)]
            is_weighed = any(x.array.dtype.kind == "f" and x.array.size > 1 for x in weights)
            if below is not None and below.op in ("softmax", "sigmoid") and drawn and is_weighed:
                self.found.append((users[0].place, tuple(chosen.out.shape)))

    def _check_items(self, term: LossTerm, product: Made) -> None:
        """Look for a stack of single probabilities, one of each step of an episode, that is multiplied by returns."""
        flow = self.facts.flow
        learned = [x for x in product.tensors if x.node is not None]
        data = [x for x in product.tensors if x.node is None and is_array(x) and x.array.dtype.kind == "f"]
        stacked = flow.maker(learned[0]) if len(learned) == len(data) == 1 and term.sign < 0 else None
        items = [flow.maker(x) for x in stacked.tensors] if stacked is not None and stacked.op in JOINS else []
        picks = [each for each in items if each is not None and each.op == "select"]
        layers = {below.op for each in picks if (below := flow.maker_past_moves(each.tensors[0])) is not None}
        if len(picks) == len(items) > 1 and layers and layers <= {"softmax", "sigmoid"}:
            self.found.append((picks[0].place, tuple(learned[0].shape)))

    def finish(self) -> None:
        if self.found and not self.facts.has_found("ratio-without-exp"):
            place, shape = self.found[0]
            problem = (
                f"the probabilities {shape} of drawn actions are multiplied by their returns, and not the logarithms: "
            )
            problem += "actions that are likely count twice"
            advice = "-(torch.log(probs) * returns), or Categorical(probs).log_prob(actions)"
            self.report("probability-without-log", place, "probs", problem, advice, len(self.found))


class CriticTarget(WatchRule):
    """A critic whose target is the return less its own value."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        value, target = call.tensor("input"), call.tensor("target")
        if call.name not in ERRORS or value is None or target is None or value.node is None or target.node is not None:
            return
        flow = self.facts.flow
        made = flow.maker_past_moves(target)
        if made is None or made.op != "sub" or len(made.tensors) != 2:
            return
        if flow.source(made.tensors[1]).array is flow.source(value).array:
            problem = (
                f"the target {tuple(target.shape)} of the critic is the advantage, from which its own value was taken: "
            )
            problem += "it moves with the value"
            advice = "the returns as its target"
            self.report("advantage-as-target", call.place, "target", problem, advice, tuple(target.shape))

    see_written_loss = see_call


class UnusedTarget(WatchRule):
    """A copy of the network that gets its weights time and again, and that nothing calls."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.loads: dict[int, tuple[Operand, Place, int]] = {}

    def state_is_loaded(self, module: Operand, *args: object, **kwargs: object) -> None:
        """See `load_state_dict()`."""
        known = self.loads.get(id(module))
        self.loads[id(module)] = module, caller_place(), 1 if known is None else known[2] + 1

    def finish(self) -> None:
        trained = self.facts.find_optimizers()
        for key, (module, place, count) in self.loads.items():
            text = re.search(r"([\w.]+)\.load_state_dict", place.text)
            name = "" if text is None else text[1].removeprefix("self.")
            is_target = TARGETS.search(name) is not None and not any(id(p) in trained for p in module.parameters())
            if count >= MIN_LOADS and is_target and key not in self.facts.called:
                problem = (
                    f"{name} gets new weights {count} times, and nothing calls it: the targets come from the network "
                )
                problem += "that is trained"
                self.report("target-unused", place, name, problem, f"{name}(next_state) in the target", count)

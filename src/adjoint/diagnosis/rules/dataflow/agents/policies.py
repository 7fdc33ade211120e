"""Rules on policies: ratios of probabilities, the choice of surrogates, and values at an episode's end."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import Backward, ModuleCall
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, MODULE_CALLS, Made
from adjoint.nn.module.module import Module

CLAMPS = frozenset({"clamp", "clamp_range"})
ERRORS = ("mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss")


class PolicyRatio(WatchRule):
    """A difference of log-probabilities that is used as a ratio, and the greater of two surrogates."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for root in backward.roots:
            for term in flow.terms(root):
                made = term.made
                if made is None or made.op not in ("minimum", "maximum") or len(made.tensors) != 2:
                    continue
                behind = [list(flow.makers_behind(x)) for x in made.tensors]
                if not any(each.op in CLAMPS for part in behind for each in part):
                    continue
                ratio = next((each for each in behind[0] if self._is_difference(each)), None)
                if ratio is None:
                    continue
                one, other = ratio.tensors
                if one.array is other.array:
                    self.report(
                        "ratio-of-one",
                        ratio.place,
                        "ratio",
                        f"a ratio {tuple(ratio.out.shape)} of probabilities is that of a policy to itself, detached: "
                        "it is 1 in each step, and its clamp limits nothing",
                        "take the old log-probabilities before the updates, when the actions are drawn",
                        tuple(ratio.out.shape),
                    )
                elif not any(user.op == "exp" for user in flow.users(ratio.out)):
                    self.report(
                        "ratio-without-exp",
                        ratio.place,
                        "ratio",
                        f"a difference of log-probabilities {tuple(ratio.out.shape)} is clamped and multiplied as a "
                        "ratio: it is the ratio's logarithm",
                        "ratio = (logp - old_logp).exp()",
                        tuple(ratio.out.shape),
                    )
                elif one.node is None and any(user.op == "exp" for user in flow.users(ratio.out)):
                    problem = f"the ratio {tuple(ratio.out.shape)} is that of the old policy to the new one: the loss "
                    problem += "makes good actions unlikely"
                    advice = "(logp - old_logp).exp()"
                    self.report("ratio-turned", ratio.place, "ratio", problem, advice, tuple(ratio.out.shape))
                elif (made.op == "maximum") == (term.sign < 0):
                    sign = "a minus" if term.sign < 0 else "a plus"
                    right = "min" if made.op == "maximum" else "max"
                    self.report(
                        "surrogate-choice",
                        made.place,
                        made.op,
                        f"the {made.op} of the surrogate and the clamped one, with {sign} in the "
                        "loss, is the better of both: the clamp limits nothing",
                        f"torch.{right} of both",
                        made.op,
                    )

    def _is_difference(self, made: Made) -> bool:
        if made.op != "sub" or made.out.node is None:
            return False
        flow = self.facts.flow
        sources = [flow.maker_past_moves(x) for x in made.tensors]
        summed = [each is not None and each.op == "sum" for each in sources]
        sources = [
            flow.maker_past_moves(each.tensors[0]) if is_sum and each is not None else each
            for each, is_sum in zip(sources, summed, strict=True)
        ]
        histories = {x.node is None for x in made.tensors}
        return len(histories) == 2 and any(each is not None and each.function == "log_prob" for each in sources)


class DuelingMean(WatchRule):
    """Advantages of actions, less their mean over the batch too."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            mean = flow.maker(made.tensors[1]) if made.op == "sub" and len(made.tensors) == 2 else None
            if mean is None or mean.op != "mean" or mean.out.array.ndim or mean.out.node is None:
                continue
            advantages, left = mean.tensors[0], made.tensors[0]
            added = flow.maker(left)
            parts = [] if left is advantages or added is None or added.op != "add" else added.tensors
            if left is advantages:
                parts = [x for user in flow.users(made.out) if user.op == "add" for x in user.tensors]
            shape = advantages.array.shape
            is_dueling = any(x.node is not None and x.array.shape == (*shape[:1], 1) for x in parts)
            if len(shape) == 2 and shape[1] > 1 and is_dueling:
                self.report(
                    "mean-over-batch",
                    mean.place,
                    "mean",
                    f"the advantages {tuple(shape)} of a dueling network are taken less one mean over batch and actions"
                    ": the values of a state depend on the others in the batch",
                    "mean(dim=1, keepdim=True)",
                    tuple(shape),
                )


class GreaterOfCritics(WatchRule):
    """A target of the greater of two critics' values, which overestimates them."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        if call.name not in ERRORS or target is None or target.node is not None:
            return
        for made in self.facts.flow.makers_behind(target):
            sources = [self.facts.flow.maker_past_moves(x) for x in made.tensors] if made.op == "maximum" else []
            places = {
                (each.place, id(each.out)) for each in sources if each is not None and each.function in MODULE_CALLS
            }
            if len(sources) == 2 and len(places) == 2:
                self.report(
                    "greater-of-critics",
                    made.place,
                    "maximum",
                    f"the target {tuple(target.shape)} is made of the greater of two critics' values: their errors "
                    "add up",
                    "torch.min of both",
                    tuple(target.shape),
                )
                return

    see_written_loss = see_call


class BootstrapMask(WatchRule):
    """A reward plus the next value of those episodes alone that have ended."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        found = find_added_target(self.facts, call)
        if found is None:
            return
        target, made = found
        for product in self.facts.flow.makers_behind(made.out):
            mask = next((x for x in product.tensors if is_mask(x)), None) if product.op == "mul" else None
            if mask is None or mask.array.mean() > 0.35:
                continue
            source = self.facts.flow.maker(mask)
            others = [x for x in product.tensors if x is not mask]
            if source is not None and source.op in ("sub", "bitwise_not", "logical_not"):
                continue
            values = [each for x in others for each in self.facts.flow.makers_behind(x)]
            if any(each.op in ("max", "amax", "gather", "linear") for each in values):
                self.report(
                    "bootstrap-mask",
                    product.place,
                    "done",
                    f"the next value counts in {mask.array.mean():.0%} of the targets {tuple(target.shape)}: the "
                    "mask is 1 where an episode ends",
                    "multiply by (1 - done)",
                    f"{mask.array.mean():.0%}",
                )
                return

    see_written_loss = see_call


class CriticValue(WatchRule):
    """A policy that makes small what a critic says of its actions, and a critic that learns returns."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.values: dict[int, tuple[Tensor, Module, bool]] = {}  # of each module, and whether another gave its input
        self.critics: set[int] = set()  # whose values have a reward plus a next value as their target
        self.found: dict[Place, tuple[Module, int]] = {}

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        is_outer = call.parent is None or call.root.module is call.parent.module
        if is_outer and is_array(output) and output.array.shape[-1:] == (1,):
            is_of_action = any(x.node is not None for x in call.tensors())
            self.values[id(output)] = output, call.module, is_of_action

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        made = self.facts.flow.maker_past_moves(target)
        known = self.values.get(id(self.facts.flow.source(call.tensor("input"))))
        is_sum = made is not None and made.op == "add" and target is not None and target.node is None
        if call.name in ERRORS and known is not None and is_sum:
            self.critics.add(id(known[1]))

    see_written_loss = see_call

    def begin_backward(self, backward: Backward) -> None:
        for root in backward.roots:
            terms = self.facts.flow.terms(root)
            if any(term.sign < 0 and id(term.value) in self.values for term in terms):
                continue  # one of several critics may be of costs
            for term in terms:
                known = self.values.get(id(term.value))
                if (
                    known is not None
                    and known[0] is term.value
                    and term.sign > 0
                    and known[2]
                    and term.made is not None
                ):
                    place = (self.facts.flow.maker(root) or term.made).place
                    self.found[place] = known[1], self.found.get(place, (known[1], 0))[1] + 1
        self.values.clear()

    def finish(self) -> None:
        for place, (critic, count) in self.found.items():
            if id(critic) in self.critics:
                name = self.facts.names.name_of_module(critic)
                problem = f"the value that {name} gives an action is in the loss with a plus: the policy makes it small"
                self.report("negated-loss", place, name, problem, f"a minus before it: -{name}(…).mean()", count)


def find_added_target(facts: Facts, call: LibraryCall) -> tuple[Tensor, Made] | None:
    """Return the target of a loss of values that is a sum without a history, and what made it."""
    target = call.tensor("target")
    made = facts.flow.maker_past_moves(target)
    if call.name not in ERRORS or target is None or made is None or made.op != "add" or target.node is not None:
        return None
    return target, made


def is_mask(x: Tensor) -> bool:
    """Return whether data is of 0 and 1, and has both."""
    if not is_array(x) or x.node is not None or x.array.size < 8:
        return False
    return bool(((x.array == 0) | (x.array == 1)).all() and 0 < x.array.mean() < 1)

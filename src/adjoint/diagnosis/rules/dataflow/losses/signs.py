"""Rules on the signs of a loss: terms that are made large or small without a limit, and terms without a gradient."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.graph.node import Leaf
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import Backward, caller_frame
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.names import name_of_value
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, LossTerm, Made, ValueFlow
from adjoint.nn.module.parameter import Parameter

SQUARES = frozenset({"pow", "square"})
PROBABILITIES = frozenset({"sigmoid", "softmax"})
LINEAR = frozenset({"sum", "mean", "add", "mul", "div", "stack", "cat"})
STEP_SIGNS = {"gt": ">", "lt": "<", "ge": ">=", "le": "<="}
STEPS = (*STEP_SIGNS, "round", "floor", "ceil", "sign", "argmax")


class LossSigns(WatchRule):
    """A likelihood or an overlap that is made small, a divergence or a norm that is made large."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.counts: dict[tuple[str, Place], tuple[int, str, str, str]] = {}

    def begin_backward(self, backward: Backward) -> None:
        if len(backward.roots) != 1 or backward.roots[0].array.size != 1:
            return
        terms = self.facts.flow.terms(backward.roots[0])
        has_likelihood = any(self._find_likelihood(term) for term in terms)
        for term in terms:
            if term.made is None:
                continue
            if term.sign > 0 and has_likelihood and term.made.function == "entropy":
                self._note(
                    "entropy-minimized",
                    term.made.place,
                    "entropy",
                    "the entropy is added to the loss of a policy: it is made small, so the policy stops to explore",
                    "subtract it: loss - 0.01 * entropy",
                )
            elif term.sign > 0:
                self._check_likelihood(term)
                self._check_overlap(term.made, self.facts.flow.maker(backward.roots[0]) or term.made)
        self._check_similarity(terms)
        self._check_logits(terms, backward.roots[0])
        self._check_divergence(terms)
        self._check_critic(terms)
        self._check_contrast(terms)

    def _find_likelihood(self, term: LossTerm) -> Made | None:
        """Return the log-probability of an action that a term is the product of."""
        if term.made is None:
            return None
        factors = [term.made, *(made for x in term.made.tensors if (made := maker_of_items(self.facts.flow, x)))]
        return next((each for each in factors if each.function == "log_prob" and each.out.node is not None), None)

    def _check_likelihood(self, term: LossTerm) -> None:
        made = self._find_likelihood(term)
        if made is None or term.made is None:
            return
        weights = [x for x in term.made.tensors if x.node is None and x.array.ndim]
        # log-probabilities of samples with a gradient are an entropy
        is_reparametrised = any(each.function == "rsample" for each in self.facts.flow.steps.values())
        behind = list(self.facts.flow.makers_behind(*weights))
        if any(each.op == "neg" or "loss" in each.function for each in behind) or (
            not weights and (term.made.op == "mul" or is_reparametrised)
        ):
            return
        what = "the log-probability of what was drawn, times its return," if weights else "the log-likelihood"
        self._note(
            "negated-loss",
            term.made.place,
            "log_prob",
            f"{what} is in the loss with a plus: making the loss small makes good choices unlikely",
            "put a minus before it: loss = -(log_prob * returns).mean()",
        )

    def _check_overlap(self, made: Made, root: Made) -> None:
        """Look at a quotient whose numerator is the overlap of probabilities with labels of 0 and 1."""
        if made.op != "div" or len(made.tensors) != 2:
            return
        above, below = made.tensors
        if below.node is not None and above.node is not None:
            whole = [term for term in self.facts.flow.terms(below) if term.value is above and term.sign < 0]
            if whole and sum(term.sign > 0 for term in self.facts.flow.terms(below)) >= 2:
                self._note(
                    "negated-loss",
                    root.place,
                    "the overlap",
                    "the share of overlap of the prediction with its target is the loss: it is made small",
                    "1 - overlap as the loss",
                )
                return
        for term in self.facts.flow.terms(above) if below.node is not None else ():
            if term.sign < 0 or term.made is None or term.made.op not in PROBABILITIES:
                continue
            products = [each for each in self.facts.flow.users_past_moves(term.value) if each.op == "mul"]
            masks = [x for each in products for x in each.tensors if x.node is None]
            if any(((x.array == 0) | (x.array == 1)).all() for x in masks):
                self._note(
                    "negated-loss",
                    root.place,
                    "the overlap",
                    "the share of overlap of the prediction with its target is the loss: it is made small",
                    "1 - overlap as the loss",
                )
                return

    def _check_logits(self, terms: Sequence[LossTerm], root: Tensor) -> None:
        """Look for an overlap of labels of 0 and 1 with what is no probability."""
        flow = self.facts.flow
        for term in terms:
            made = term.made
            if term.sign > 0 or made is None or made.op != "div" or len(made.tensors) != 2:
                continue
            above, below = (flow.terms(x) if x.node is not None else [] for x in made.tensors)
            for each in above:
                x = each.value.array
                products = [user for user in flow.users_past_moves(each.value) if user.op == "mul"]
                masks = [
                    other for user in products for other in user.tensors if other.node is None and other.array.ndim
                ]
                is_overlap = any(((m.array == 0) | (m.array == 1)).all() for m in masks)
                if is_overlap and any(other.value is each.value for other in below) and (x.min() < 0 or x.max() > 1):
                    place = (flow.maker(root) or made).place
                    self._note(
                        "overlap-of-logits",
                        place,
                        "overlap",
                        f"the overlap of labels with values of {x.min():.3g} to {x.max():.3g}, no probabilities, is "
                        "made large without a limit",
                        "sigmoid or softmax of the logits before it",
                    )
                    return

    def _check_similarity(self, terms: Sequence[LossTerm]) -> None:
        """Look for a loss that is nothing but the cosine of what a model gives and of a target, without its sign."""
        made = [term.made for term in terms if term.made is not None and term.sign > 0]
        is_similarity = [each.function == "cosine_similarity" for each in made]
        if made and len(made) == len(terms) and all(is_similarity):
            self._note(
                "negated-loss",
                made[0].place,
                "cosine_similarity",
                "cosine_similarity is the whole loss, with a plus: it is made small, so both are turned away from each "
                "other",
                "1 - F.cosine_similarity(…).mean(), or a minus before it",
            )

    def _check_divergence(self, terms: Sequence[LossTerm]) -> None:
        """Look for the squares and exponentials of a divergence, which have no upper limit, with a minus."""
        negative = [term.made for term in terms if term.sign < 0 and term.made is not None]
        exponential = next((made for made in negative if made.op == "exp"), None)
        square = next((made for made in negative if made.op in SQUARES), None)
        positive = [term.made for term in terms if term.sign > 0 and term.made is not None and term.made.op == "exp"]
        values = {id(term.value) for term in terms if term.sign < 0}
        shape = None if square is None else square.out.shape
        sources = {id(self.facts.flow.source(made.tensors[0])) for made in positive if made.out.shape == shape}
        is_turned = bool(sources & values)
        if square is not None and exponential is None and is_turned:
            self._note(
                "negated-loss",
                square.place,
                "the divergence",
                "the square of the mean in a divergence has another sign than the exponential of the variance: the "
                "loss falls without a limit as it grows",
                "-0.5 * (1 + logvar - mu**2 - logvar.exp()) for the divergence",
            )
        if exponential is None or square is None or exponential.tensors[0] is square.tensors[0]:
            return
        self._note(
            "negated-loss",
            exponential.place,
            "the divergence",
            "the exponential and the square in a divergence are in the loss with a minus: it is made large, "
            "without a limit",
            "-0.5 * (1 + logvar - mu**2 - logvar.exp()) for the divergence",
        )

    def _check_critic(self, terms: Sequence[LossTerm]) -> None:
        """Look for scores that are compared by their difference, as those of a Wasserstein critic, past a sigmoid."""
        made = {term.sign: term.made for term in terms if term.made is not None and term.made.op == "sigmoid"}
        others = [term for term in terms if term.made is None or term.made.op != "sigmoid"]
        if len(made) == 2 and not others:
            self._note(
                "sigmoid-in-critic",
                made[1].place,
                "sigmoid",
                "the loss is the difference of two means of sigmoid: the scores of a critic are not to be "
                "between 0 and 1",
                "leave out the sigmoid, or use binary_cross_entropy",
            )

    def _check_contrast(self, terms: Sequence[LossTerm]) -> None:
        """Look for a square that is in the loss with both signs, each with its samples."""
        positive = [term.made for term in terms if term.sign > 0 and term.made is not None and term.made.op in SQUARES]
        for term in terms:
            square = term.made if term.sign < 0 and term.made is not None and term.made.op in SQUARES else None
            if square is not None and any(made.tensors[0] is square.tensors[0] for made in positive):
                self._note(
                    "negated-loss",
                    square.place,
                    "the distance",
                    "the square of a distance is in the loss with a minus for some samples: it is made "
                    "large, without a limit",
                    "a margin: relu(margin - distance).square()",
                )

    def _note(self, kind: str, place: Place, name: str, problem: str, advice: str) -> None:
        count = self.counts.get((kind, place), (0,))[0]
        self.counts[kind, place] = count + 1, name, problem, advice

    def finish(self) -> None:
        for (kind, place), (count, name, problem, advice) in self.counts.items():
            wanted = 1 if len(self.facts.optimizers) > 1 else min(FLOW_PASSES, self.facts.iteration)
            if count >= wanted and not self.facts.has_found(kind, "maximized-loss"):
                self.report(kind, place, name, problem, advice, count)


def maker_of_items(flow: ValueFlow, x: Tensor) -> Made | None:
    """Return the op that gave a tensor its values, of those that were stacked or joined the first of them."""
    made = flow.maker_past_moves(x)
    if made is not None and made.op in ("stack", "cat") and made.tensors:
        return flow.maker_past_moves(made.tensors[0])
    return made


class LinearPenalty(WatchRule):
    """A penalty that is the sum of the parameters themselves: it falls without a limit."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        if len(backward.roots) != 1 or backward.roots[0].array.size != 1:
            return
        terms = self.facts.flow.terms(backward.roots[0])
        squares = [term.made for term in terms if term.sign < 0 and is_square_of_parameter(term.made)]
        if len(squares) >= 2 and squares[0] is not None:
            root = self.facts.flow.maker(backward.roots[0]) or squares[0]
            problem = (
                f"the squares of {len(squares)} parameters are in the loss with a minus: they grow without a limit"
            )
            self.report("penalty-without-limit", root.place, "penalty", problem, "add the penalty", len(squares))
        found = [term for term in terms if isinstance(term.value, Parameter)]
        if len(found) < 2 or any(term.sign < 0 for term in found) or all(term.value.array.size == 1 for term in found):
            return
        users = self.facts.flow.users(found[0].value)
        made = next((each for each in reversed(users) if each.op in LINEAR), None)
        if made is not None:
            self.report(
                "penalty-without-limit",
                made.place,
                "penalty",
                f"the loss has the sum of {len(found)} parameters as a term: it falls without a limit as they "
                "become negative",
                "p.abs().sum() or p.square().sum()",
                len(found),
            )


def is_square_of_parameter(made: Made | None) -> bool:
    """Return whether a value is the square of a parameter."""
    return made is not None and made.op in SQUARES and isinstance(made.tensors[0], Parameter)


class ConstantTerm(WatchRule):
    """A term of the loss that comes from gradients without a graph: it changes no parameter."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        if len(backward.roots) != 1:
            return
        flow = self.facts.flow
        terms = flow.terms(backward.roots[0])
        for term in terms:
            if term.value.node is not None or term.made is None:
                continue
            step = self._find_step(term)
            if step is not None and not any(term.value.array is each.value.array for each in terms if each is not term):
                name = step.function if step.op == step.function else STEP_SIGNS.get(step.op, step.op)
                problem = f"a term of the loss has no gradient: {name} of {tuple(step.tensors[0].shape)} is made of "
                problem += "steps, and the term changes no parameter"
                self.report("constant-term", step.place, name, problem, "the probabilities, without it", name)
                return
            for source in flow.makers_behind(term.value):
                if source.function == "log_prob" and source.out.node is not None:
                    self._report_likelihood(source, term.made)
                    return
                known = self._find_gradient(*source.tensors)
                if known is not None:
                    self._report_penalty("a term of the loss is computed from the gradient", *known[:2])
                    return
        self._check_residuals(backward.roots[0])

    def _find_gradient(self, *values: Tensor) -> tuple[Tensor, Place, Operands] | None:
        """Return the value that autograd.grad gave without a graph, with its line and what it is a gradient of."""
        known = ((x, place, of) for x in values for each, place, of in self.facts.gradients if each() is x)
        return next(known, None)

    def _check_residuals(self, root: Tensor) -> None:
        """Look at sums of a network's result and of its gradient: an equation whose derivatives are constants."""
        flow = self.facts.flow
        for made in flow.makers_behind(root) if self.facts.gradients else ():
            if made.op not in ("add", "sub") or made.out.node is None or len(made.tensors) != 2:
                continue
            data, result = sorted(made.tensors, key=lambda x: x.node is not None)
            makers = flow.makers_behind(data) if data.node is None else ()
            known = self._find_gradient(data, *(x for each in makers for x in each.tensors))
            if known is not None:
                behind = [result, *(x for each in flow.makers_behind(result) for x in each.tensors)]
                if any(x is source for x in behind for source in known[2]):
                    self._report_penalty("the result of the network is added to its gradient", *known[:2])
                    return

    def _report_penalty(self, what: str, gradient: Tensor, place: Place) -> None:
        problem = f"{what} {tuple(gradient.shape)} of autograd.grad, which has no graph: it changes no parameter"
        advice = "autograd.grad(…, create_graph=True)"
        self.report("constant-penalty", place, "grad", problem, advice, tuple(gradient.shape))

    def _find_step(self, term: LossTerm) -> Made | None:
        """Return the comparison, rounding or choice at which the history of a term ends."""
        if any(each.function == "detach" for each in self.facts.flow.makers_behind(term.value)):
            return None
        for made in self.facts.flow.makers_behind(term.value):
            sources = [self.facts.flow.maker(x) for x in made.tensors] if made.op in STEPS else []
            if made.out.node is None and any(each is not None and each.out.node is not None for each in sources):
                return made  # an argmax gets its operand without a history
        return None

    def _report_likelihood(self, likelihood: Made, term: Made) -> None:
        """Report a log-probability of a policy that has lost its history on the way to the loss."""
        cuts = [cut.place for cut in self.facts.cuts if cut.within is None]
        place = next((cut for cut in reversed(cuts) if "log_prob" in cut.text), None)
        self.report(
            "policy-without-gradient",
            place or (cuts[-1] if cuts else likelihood.place),
            "log_prob",
            f"the log-probabilities {tuple(term.out.shape)} have no history in the loss: its term changes no parameter "
            "of the policy",
            "leave out what ends it, detach(), item() or float(), where the log-probability is kept",
            tuple(likelihood.out.shape),
        )


class AdvantageGradient(WatchRule):
    """A log-probability times an advantage that has a gradient of its own: the actor's loss changes the critic."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        for root in backward.roots:
            for term in self.facts.flow.terms(root):
                if term.made is not None and term.made.op == "mul" and len(term.made.tensors) == 2:
                    self._check(term.made)

    def _check(self, product: Made) -> None:
        flow = self.facts.flow
        for likelihood, factor in (product.tensors, product.tensors[::-1]):
            made, other = maker_of_items(flow, likelihood), flow.maker_past_moves(factor)
            if made is None or other is None or made.function not in ("log_prob", "gather") or factor.node is None:
                continue
            is_difference = other.op in ("sub", "add") and any(
                is_array(x) and x.node is None and x.array.ndim for x in other.tensors
            )
            if is_difference and other.function != "log_prob" and type(factor.node) is not Leaf:
                name = name_of_value(factor, caller_frame())
                self.report(
                    "advantage-with-gradient",
                    product.place,
                    name,
                    f"{name} {tuple(factor.shape)} has a history: the loss of the policy changes the critic "
                    "too, to make advantages large",
                    f"{name}.detach()",
                    tuple(factor.shape),
                )

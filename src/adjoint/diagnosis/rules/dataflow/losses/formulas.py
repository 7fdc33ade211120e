"""Rules on formulas that are written out: branches and signs the wrong way round, factors and terms without a limit."""

from __future__ import annotations

import ast
import os

from adjoint.core.graph.node import Leaf
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.source_expressions import parse_source, text_of
from adjoint.diagnosis.watch.events import Backward, distinct_values
from adjoint.diagnosis.watch.facts import Facts, leaves_below
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.diagnosis.watch.source_lines import nodes_at
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made

SQUARES = frozenset({"pow", "square"})
LOWER = frozenset({"lt", "le"})
COMPARISONS = frozenset({"lt", "le", "gt", "ge"})
LIMITS = frozenset({"relu", "clamp_min", "clamp_range", "clamp"})
PROBABILITIES = frozenset({"softmax", "sigmoid"})
CHOICES = frozenset({"argmax", "argmin"})
LOSSES = frozenset({"cross_entropy", "nll_loss", "binary_cross_entropy_with_logits"})
MIN_SHIFT = 0.1  # of a probability, in its logarithm
MIN_SAMPLES = 4
NEAR = 4  # ops behind a branch
LOSS_OPS = frozenset({"mean_nll", "squared_error", "logit_entropy", "entropy", "smooth_l1", "huber"})


class TurnedBranches(WatchRule):
    """`where` with its branches exchanged: the square of large errors alone, the small slope of positive values."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            test = flow.maker(made.inputs[0]) if made.op == "where" and len(made.inputs) == 3 else None
            limits = [float(x) for x in test.inputs if isinstance(x, (int, float))] if test is not None else []
            if test is None or test.op not in COMPARISONS or len(limits) != 1 or len(test.tensors) != 1:
                continue
            small, large = made.inputs[1:] if test.op in LOWER else made.inputs[:0:-1]
            what = self._find_turned(test.tensors[0], limits[0], small, large)
            if what:
                problem = f"the branches of where {tuple(made.out.shape)} are exchanged: {what}"
                self.report("branches-exchanged", made.place, "where", problem, "exchange both", tuple(made.out.shape))
                return

    def _find_turned(self, x: Tensor, limit: float, small: object, large: object) -> str:
        flow = self.facts.flow
        sides = [flow.makers_behind(each)[:NEAR] if isinstance(each, Tensor) else [] for each in (small, large)]
        squares, others = ([each for each in side if each.op in SQUARES] for side in (sides[1], sides[0]))
        if limit > 0 and squares and not others and any(x is each for made in squares for each in made.tensors):
            return f"errors above {limit:g} are squared, and those below it are not"
        source = flow.source(x)
        slopes = [
            float(n) for made in sides[1][:1] if made.op == "mul" for n in made.inputs if isinstance(n, (int, float))
        ]
        is_same = isinstance(small, Tensor) and flow.source(small) is source
        if limit == 0 and is_same and slopes and 0 <= slopes[0] < 1 and sides[1][0].tensors[0].array is x.array:
            return f"values above 0 are multiplied by {slopes[0]:g}, and those below it are passed on"
        exponentials = [made for made in sides[1] if made.op in ("exp", "expm1")]
        if limit == 0 and is_same and any(x is each for made in exponentials for each in made.tensors):
            return "values above 0 get the exponential, and those below it are passed on"
        return ""


class InvertedHinge(WatchRule):
    """A hinge loss that is 0 where a score has the wrong sign: `1 + y * score`."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for term in (term for root in backward.roots for term in flow.terms(root)):
            made = term.made
            margin = flow.maker(made.tensors[0]) if made is not None and made.op in LIMITS and term.sign > 0 else None
            if margin is None or margin.op != "add" or len(margin.tensors) != 1:
                continue
            product = flow.maker(margin.tensors[0])
            labels = [x.array for x in product.tensors if x.node is None] if product and product.op == "mul" else []
            if len(labels) == 1 and labels[0].size > 1 and set(distinct_values(labels[0]).tolist()) == {-1, 1}:
                problem = f"the loss is 0 where label times score {tuple(margin.out.shape)} is below -1: scores of the "
                problem += "wrong sign are the best"
                advice = "clamp(1 - y * score, min=0)"
                self.report("contrast-inverted", margin.place, "margin", problem, advice, tuple(margin.out.shape))


class ShiftedLogarithm(WatchRule):
    """The logarithm of a probability plus a number that is not small."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            below = flow.maker(made.tensors[0]) if made.op == "log" else None
            if below is None or below.op != "add" or len(below.tensors) != 1:
                continue
            source = flow.maker_past_moves(below.tensors[0])
            shift = next((float(x) for x in below.inputs if isinstance(x, (int, float))), 0.0)
            if source is not None and source.op in PROBABILITIES and shift >= MIN_SHIFT:
                problem = f"the logarithm is taken of a probability {tuple(made.out.shape)} plus {shift:g}: it is no "
                problem += "log-probability, and small ones hardly differ"
                self.report("log-shifted", made.place, "log", problem, "torch.log(p + 1e-8), or log_softmax", shift)
                return


class LearnedFactor(WatchRule):
    """A loss times a factor that is learned and that nothing keeps from 0: the loss falls with it."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        terms = [term for root in backward.roots for term in flow.terms(root) if term.value.node is not None]
        for term in terms:
            made = term.made
            if made is None or made.op != "mul" or term.sign < 0 or len(made.tensors) != 2:
                continue
            for factor, loss in (made.tensors, made.tensors[::-1]):
                if factor.array.size != 1 or loss.node is None or not (loss.array >= 0).all():
                    continue
                leaves = leaves_below((factor,))
                is_exponential = (
                    any(each.op == "exp" for each in flow.makers_behind(factor)) or type(factor.node) is Leaf
                )
                others = [each for each in terms if each.made is None or each.made.op != "mul"]
                free = not any(leaves & leaves_below((each.value,)) for each in others)
                if is_exponential and 0 < len(leaves) < 3 and free and not leaves & leaves_below((loss,)):
                    problem = (
                        f"a loss is multiplied by a learned factor of {float(factor.array.item()):.3g}, and nothing "
                    )
                    problem += "keeps that from 0: the loss falls as it does"
                    advice = "its logarithm as another term: torch.exp(-s) * loss + s"
                    self.report("factor-without-limit", made.place, "factor", problem, advice, 0)
                    return


class PredictedWeights(WatchRule):
    """Weights of classes that are chosen by the prediction of each sample, and not by its label."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for term in (term for root in backward.roots for term in flow.terms(root)):
            factors = [x for x in term.made.tensors if x.node is None] if term.made and term.made.op == "mul" else []
            # a product with data is a sum to the flow, whose terms lie below it
            for made in [each for x in (term.value,) for each in flow.users_past_moves(x) if each.op == "mul"]:
                factors += [x for x in made.tensors if x.node is None]
            for factor in factors:
                taken = flow.maker_past_moves(factor)
                if taken is None or taken.op != "index" or len(taken.tensors) != 2:
                    continue
                chosen = flow.maker_past_moves(taken.tensors[1])
                is_loss = term.made is not None and term.made.function in LOSSES
                scores = flow.maker(chosen.tensors[0]) if chosen is not None and chosen.op in CHOICES else None
                if scores is not None and scores.out.node is not None and is_loss:
                    problem = f"the weights {tuple(factor.shape)} are those of the predicted classes: a sample that is "
                    problem += "predicted wrongly gets the weight of another class"
                    self.report(
                        "weights-by-prediction", taken.place, "weights", problem, "weights[target]", factor.shape
                    )
                    return


class OneSample(WatchRule):
    """The loss of one sample of a batch, where the model gave results for all."""

    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.seen = 0

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if call.name not in LOSSES or x is None or target is None or x.array.ndim != 1 or target.array.ndim > 0:
            return
        made = self.facts.flow.maker(x)
        whole = made.tensors[0].array if made is not None and made.family == "movement" and made.tensors else None
        if whole is not None and whole.ndim == 2 and len(whole) >= MIN_SAMPLES and whole.shape[1] == x.array.size:
            self.seen += 1
            if self.seen == FLOW_PASSES:
                problem = f"the loss is that of one sample, of {len(whole)} in the batch: the others teach nothing"
                self.report(
                    "loss-of-one-sample", call.place, "input", problem, "the whole output and target", len(whole)
                )


class LostTerm(WatchRule):
    """A value that a loop adds up from what the model gives, and that no line reads."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.losses: dict[Place, None] = {}  # the lines of those that no op takes, which a line may read later

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        behind = {id(made) for made in flow.makers_behind(*backward.roots)}
        for made in list(flow.steps.values()):
            if made.out.node is None or id(made) in behind or flow.users(made.out):
                continue
            below = flow.maker(made.tensors[0]) if made.op in ("mean", "sum") and made.tensors else made
            if below is not None and below.op in LOSS_OPS and made.out.array.size == 1:
                self.losses[made.place] = None
            if made.op not in ("add", "sub"):
                continue
            if any(id(flow.maker(x)) in behind for x in made.tensors):  # the loss itself, which is shown later
                continue
            name = find_unread_sum(made)
            if name:
                problem = (
                    f"{name} {tuple(made.out.shape)} is added up here, and no line reads it: it is no part of the "
                )
                problem += "loss"
                self.report("term-unused", made.place, name, problem, f"use {name} in the loss", tuple(made.out.shape))
                return

    def finish(self) -> None:
        for place in self.losses:
            self._check_name(place)

    def _check_name(self, place: Place) -> None:
        """Look for a loss that gets a name which no line reads."""
        source, lines = parse_source(place.site.file), nodes_at(place, ast.Assign)
        for line in lines if len(lines) == 1 else ():
            name = text_of(line.targets[0]) if len(line.targets) == 1 else ""
            if source is None or not name.isidentifier() or name.startswith("_"):
                continue
            scope = source.scope_of(line)
            if isinstance(scope, ast.Module) and not os.path.isfile(source.name):  # another cell may read it
                continue
            names = [x for x in ast.walk(scope) if isinstance(x, ast.Name) and x.id == name]
            if not any(isinstance(x.ctx, ast.Load) for x in names):
                problem = f"{name} is computed with its history here, and no line reads it: it is no part of the loss"
                self.report("term-unused", place, name, problem, f"use {name} in the loss, or leave it out", 1)


def find_unread_sum(made: Made) -> str:
    """Return the variable that the line of a sum changes, if all that reads it are such lines."""
    source = parse_source(made.place.site.file)
    lines: list[ast.Assign | ast.AugAssign] = [*nodes_at(made.place, ast.Assign), *nodes_at(made.place, ast.AugAssign)]
    for line in lines if source is not None else ():
        target = line.target if isinstance(line, ast.AugAssign) else line.targets[0]
        if source is None or not isinstance(target, ast.Name):
            continue
        scope = source.scope_of(line)
        if isinstance(scope, ast.Module) and not os.path.isfile(source.name):  # another cell of a notebook may read it
            continue
        uses = [x for x in ast.walk(scope) if isinstance(x, ast.Name) and x.id == target.id]
        own = [x for each in source.assignments_in(scope).get(target.id, []) for x in ast.walk(each)]
        reads = [x for x in ast.walk(line) if isinstance(x, ast.Name) and x.id == target.id]
        is_sum = isinstance(line, ast.AugAssign) or len(reads) > 1
        if is_sum and all(any(x is each for each in own) for x in uses):
            return target.id
    return ""

"""Rules on likelihoods: a variance without its logarithm, the smaller side of a quantile, all pairs of log_prob."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.rules.dataflow.losses.signs import SQUARES
from adjoint.diagnosis.watch.events import Backward
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, LossTerm, Made

POSITIVE = frozenset({"exp", "softplus", "square", "pow", "sqrt"})


class VarianceTerm(WatchRule):
    """An error divided by a variance that the model predicts, whose logarithm is no term of the loss."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        terms = [term for root in backward.roots for term in flow.terms(root)]
        for term in terms:
            made = term.made
            if made is None or made.op not in ("div", "mul") or len(made.tensors) != 2 or term.sign < 0:
                continue
            error, scale = (flow.maker(x) for x in made.tensors)
            if scale is None or error is None or scale.op not in POSITIVE or not self._is_error(error):
                continue
            source = scale.tensors[0]
            if made.op == "mul":
                negative = flow.maker(source)
                if scale.op != "exp" or negative is None or negative.op not in ("neg", "mul"):
                    continue
                source = negative.tensors[0]
            is_free = source.node is not None and scale.out.node is not None
            if is_free and not self._has_barrier(terms, term, source, scale):
                problem = f"an error is divided by a variance {tuple(scale.out.shape)} that is learned, and nothing "
                problem += "keeps the variance small: the loss falls as it grows"
                advice = "the logarithm of the variance as a term: 0.5 * (logvar + error / logvar.exp())"
                self.report("variance-without-limit", made.place, "variance", problem, advice, tuple(scale.out.shape))
                return

    def _is_error(self, made: Made) -> bool:
        """Return whether a value is the square or the size of a difference, times numbers."""
        while made.op in ("mul", "div") and len(made.tensors) == 1:
            below = self.facts.flow.maker(made.tensors[0])
            if below is None:
                return False
            made = below
        below = self.facts.flow.maker(made.tensors[0]) if made.op in (*SQUARES, "abs") else None
        return below is not None and below.op == "sub"

    def _has_barrier(self, terms: Sequence[LossTerm], term: LossTerm, source: Tensor, scale: Made) -> bool:
        """Return whether another term depends on the source of the variance, beside the error."""
        for other in terms:
            if other is term or other.value.node is None:
                continue
            behind = self.facts.flow.makers_behind(other.value)
            if other.value is source or any(x is source or x is scale.out for made in behind for x in made.tensors):
                return True
        return False


class QuantileChoice(WatchRule):
    """The smaller of both sides of a quantile's error: it falls without a limit."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for root in backward.roots:
            for term in flow.terms(root):
                made = term.made
                if made is None or term.sign < 0 or made.op != "minimum" or len(made.tensors) != 2:
                    continue
                sides = [flow.maker(x) for x in made.tensors]
                if any(side is None or side.op != "mul" or len(side.tensors) != 1 for side in sides):
                    continue
                errors = [side.tensors[0] for side in sides if side is not None]
                factors = [float(x) for side in sides if side for x in side.inputs if isinstance(x, (int, float))]
                if errors[0] is errors[1] and len(factors) == 2 and min(factors) < 0 < max(factors):
                    problem = f"the smaller of {factors[0]:g} and {factors[1]:g} times the error is never above 0: it "
                    problem += "falls without a limit as the error grows"
                    self.report("quantile-choice", made.place, "min", problem, "torch.max of both", "min")
                    return


class LikelihoodPairs(WatchRule):
    """Log-probabilities that meet all advantages, for one of them is a column, or summed over the samples."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            shape = made.out.array.shape
            if made.op != "mul" or len(made.tensors) != 2 or len(shape) != 2 or made.function == "log_prob":
                continue
            for likelihood, weight in (made.tensors, made.tensors[::-1]):
                sizes = likelihood.array.size, weight.array.size
                is_outer = min(sizes) > 1 and sizes[0] * sizes[1] == made.out.array.size
                source = flow.maker_past_moves(likelihood)
                while source is not None and source.op == "sum":
                    source = flow.maker_past_moves(source.tensors[0])
                if is_outer and weight.node is None and source is not None and source.function == "log_prob":
                    one, other = tuple(likelihood.shape), tuple(weight.shape)
                    problem = f"log-probabilities {one} times {other} give {shape}: each meets the advantages of all"
                    advice = "both of the shape (N,): log_prob(a).sum(-1), and no extra dimension"
                    self.report("broadcast-in-loss", made.place, "log_prob", problem, advice, f"{one} and {other}")
                    return

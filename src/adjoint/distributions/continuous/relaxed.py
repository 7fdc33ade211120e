"""Continuous relaxations of discrete distributions, whose samples have gradients (Maddison, Mnih and Teh, 2017)."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.distributions import constraints
from adjoint.distributions.discrete.categorical import Categorical, _CategoricalVector
from adjoint.distributions.parameters import broadcast_all, clamp_probs, formula
from adjoint.distributions.probs_or_logits import ProbsOrLogitsDistribution
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import ExpTransform, SigmoidTransform
from adjoint.functions.creation import creation, random

_NOT_EXPANDED = frozenset({"temperature"})


class LogitRelaxedBernoulli(ProbsOrLogitsDistribution):
    """Log-odds of a relaxed Bernoulli number: (log u/(1 - u) + `logits`) / `temperature` of a uniform u."""

    support = constraints.real
    _fields_not_expanded = _NOT_EXPANDED

    def __init__(
        self,
        temperature: Operand,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The log-odds of a uniform number plus those of p, over the temperature."""
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(random.rand(shape, dtype=probs.dtype))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """log t + d - 2 log(1 + eᵈ), where d = logits - tx."""
        logits, value = broadcast_all(self.logits, self._check_value(value))
        away = logits - value * self.temperature
        return self.temperature.log() + away - 2 * away.exp().log1p()


class _RelaxedDistribution(TransformedDistribution):
    """A function of a relaxed distribution's base, with the base's parameters."""

    has_rsample = True

    temperature = formula("The temperature: near 0, samples are nearly discrete.", lambda p: p.base_dist.temperature)
    logits = formula("The log-odds or logarithms of the probabilities.", lambda p: p.base_dist.logits)
    probs = formula("The probabilities.", lambda p: p.base_dist.probs)


class RelaxedBernoulli(_RelaxedDistribution):
    """Relaxed Bernoulli distribution over (0, 1): the sigmoid of `LogitRelaxedBernoulli`."""

    arg_constraints = constraints.of(probs=constraints.unit_interval, logits=constraints.real)
    support = constraints.unit_interval

    def __init__(
        self,
        temperature: Operand,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(_CategoricalVector):
    """Logarithm of a relaxed one-hot vector: log softmax((`logits` + g) / `temperature`) of Gumbel numbers g."""

    support = constraints.real_vector
    has_rsample = True
    _fields_not_expanded = _NOT_EXPANDED

    def __init__(
        self,
        temperature: Operand,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._init_over_categories(Categorical(probs, logits), validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """log softmax((log p + g) / t)."""
        u = clamp_probs(random.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        """log Γ(K) + (K - 1) log t + Σ log softmax(log p - tx)."""
        logits, value = broadcast_all(self.logits, self._check_value(value))
        count = self._categorical._num_events
        log_scale = creation.full_like(self.temperature, float(count)).lgamma() + self.temperature.log() * (count - 1)
        score = logits - value * self.temperature
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(_RelaxedDistribution):
    """Relaxed one-hot distribution over vectors of sum 1: exp of `ExpRelaxedCategorical`."""

    arg_constraints = constraints.of(probs=constraints.simplex, logits=constraints.real_vector)
    support = constraints.simplex

    def __init__(
        self,
        temperature: Operand,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

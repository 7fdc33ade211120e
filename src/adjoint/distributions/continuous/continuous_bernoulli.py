"""The continuous Bernoulli distribution, over [0, 1] (Loaiza-Ganem and Cunningham, 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import Constraint, can_validate_values
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.parameters import broadcast_all, clamp_probs, formula, lazy_property, logits_to_probs
from adjoint.distributions.probs_or_logits import ProbsOrLogitsDistribution
from adjoint.functions.creation import creation, random
from adjoint.functions.elementwise.pointwise import where
from adjoint.functions.loss.regression import binary_cross_entropy_with_logits


class ContinuousBernoulli(ProbsOrLogitsDistribution, ExponentialFamily):
    """Continuous Bernoulli distribution over [0, 1]: p(x) = C(λ) λˣ (1 - λ)^(1 - x), where λ = `probs`.

    Between `lims`, near λ = ½, a series replaces 0/0.

    Raises: ValueError for a probability outside [0, 1].
    """

    support: Constraint = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._set_probs_or_logits(probs, logits)
        if probs is not None:
            valid = constraints.unit_interval.check(self._param)
            if validate_args is not None and can_validate_values(valid) and not valid.all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = self._param = clamp_probs(self._param)
        self._lims = lims
        Distribution.__init__(self, self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """1 / (1 + e^-logits), kept off 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        return where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Tensor:
        """log C(λ) = log(2 artanh(1 - 2λ) / (1 - 2λ)), near ½ by its series."""
        cut = self._cut_probs()
        below, above = where(cut <= 0.5, cut, 0.0), where(cut >= 0.5, cut, 1.0)
        odds = ((-cut).log1p() - cut.log()).abs().log()
        exact = odds - where(cut <= 0.5, (-2.0 * below).log1p(), (2.0 * above - 1.0).log())
        x = (self.probs - 0.5).pow(2)
        return where(self._outside_unstable_region(), exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        """λ / (2λ - 1) + 1 / 2 artanh(1 - 2λ)."""
        cut = self._cut_probs()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / ((-cut).log1p() - cut.log())
        x = self.probs - 0.5
        return where(self._outside_unstable_region(), exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def variance(self) -> Tensor:
        """λ(λ - 1) / (1 - 2λ)² + 1 / (2 artanh(1 - 2λ))²."""
        cut = self._cut_probs()
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + 1.0 / ((-cut).log1p() - cut.log()).pow(2)
        x = (self.probs - 0.5).pow(2)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return where(self._outside_unstable_region(), exact, series)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The inverse of the cdf at a uniform number."""
        return self.icdf(random.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        """x log λ + (1 - x) log(1 - λ) + log C(λ)."""
        logits, value = broadcast_all(self.logits, self._check_value(value))
        return -binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        """(λˣ (1 - λ)^(1 - x) + λ - 1) / (2λ - 1), and x near λ = ½."""
        value, cut = self._check_value(value), self._cut_probs()
        exact = (cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = where(self._outside_unstable_region(), exact, value)
        ends = where(value >= 1.0, creation.ones_like(value), inside)
        return where(value <= 0.0, creation.zeros_like(value), ends)

    def icdf(self, value: Tensor) -> Tensor:
        """(log(1 - λ + p(2λ - 1)) - log(1 - λ)) / (log λ - log(1 - λ)), and p near λ = ½."""
        cut = self._cut_probs()
        rest = (-cut).log1p()
        exact = ((-cut + value * (2.0 * cut - 1.0)).log1p() - rest) / (cut.log() - rest)
        return where(self._outside_unstable_region(), exact, value)

    def entropy(self) -> Tensor:
        """E[x] (log(1 - λ) - log λ) - log C(λ) - log(1 - λ)."""
        rest = (-self.probs).log1p()
        return self.mean * (rest - self.probs.log()) - self._cont_bern_log_norm() - rest

    _natural_params = formula("The natural parameters θ.", lambda p: (p.logits,))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        outside = (x <= low) | (x > high)
        cut = where(outside, x, low)
        exact = cut.expm1().abs().log() - cut.abs().log()
        return where(outside, exact, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)

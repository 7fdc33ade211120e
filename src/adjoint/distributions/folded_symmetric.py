"""The absolute value of what is distributed evenly around 0: its density folded onto the positive numbers."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import AbsTransform
from adjoint.functions.elementwise.pointwise import where


class FoldedDistribution(TransformedDistribution):
    """p(x) = 2 p₀(x) for x ≥ 0: |x| of an x of the even density p₀, that of `symmetric`, of width `scale`."""

    arg_constraints = constraints.of(scale=constraints.positive)
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, symmetric: Distribution, validate_args: bool | None = None) -> None:
        super().__init__(symmetric, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Any:
        """The width of the density, as it is before it is folded."""
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        """0."""
        return self.scale.new_zeros(self.scale.shape)

    def log_prob(self, value: Any) -> Any:
        """log 2p₀, -∞ below 0."""
        value = self._check_value(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        """2 P₀[x ≤ value] - 1."""
        return 2 * self.base_dist.cdf(self._check_value(value)) - 1

    def icdf(self, prob: Any) -> Any:
        """That of p₀ at (p + 1) / 2."""
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        """log 2 less than that of p₀."""
        return self.base_dist.entropy() - math.log(2)

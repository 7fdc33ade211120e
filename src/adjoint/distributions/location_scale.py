"""Location-scale families, and the absolute values of symmetric distributions."""

from __future__ import annotations

import math

from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import Constraint
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.parameters import formula
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import AbsTransform
from adjoint.functions.elementwise.pointwise import where


class LocationScale(Distribution):
    """A distribution of loc + scale · ε, where ε has the standard distribution of the family."""

    arg_constraints = constraints.of(loc=constraints.real, scale=constraints.positive)
    support: Constraint = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._init_elementwise(validate_args, loc=loc, scale=scale)

    mean = formula("The location.", lambda p: p.loc)
    mode = mean


class FoldedDistribution(TransformedDistribution):
    """Distribution of |x| for an x of even density p₀, that of `symmetric`: p(x) = 2 p₀(x) for x ≥ 0."""

    arg_constraints = constraints.of(scale=constraints.positive)
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, symmetric: Distribution, validate_args: bool | None = None) -> None:
        super().__init__(symmetric, AbsTransform(), validate_args=validate_args)

    scale = formula("The scale of the symmetric distribution.", lambda p: p.base_dist.scale)
    mode = formula("0.", lambda p: p.scale.new_zeros(p.scale.shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """log 2p₀, -∞ below 0."""
        value = self._check_value(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """2 P₀[x ≤ value] - 1."""
        return 2 * self.base_dist.cdf(self._check_value(value)) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        """The inverse of P₀ at (p + 1) / 2."""
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        """H(p₀) - log 2."""
        return self.base_dist.entropy() - math.log(2)

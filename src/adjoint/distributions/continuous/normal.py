"""The normal distribution, and half-normal, log-normal and logistic-normal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.autograd.grad_mode import no_grad
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.location_scale import FoldedDistribution, LocationScale
from adjoint.distributions.parameters import formula, standard_normal
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import ExpTransform, StickBreakingTransform
from adjoint.functions.creation import random
from adjoint.functions.elementwise.pointwise import erf

_LOG_SQRT_2PI = math.log(math.sqrt(2 * math.pi))


class Normal(LocationScale, ExponentialFamily):
    """Normal distribution: p(x) = exp(-(x - μ)² / 2σ²) / (√(2π) σ).

    Args:
        loc: number or tensor, the mean μ.
        scale: number or tensor, the standard deviation σ > 0.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for parameters outside their constraints.

    Example:
        >>> p = ad.distributions.Normal(0.0, 1.0)
        >>> p.log_prob(ad.tensor(0.0))
        tensor(-0.9189)
        >>> _ = ad.manual_seed(0)
        >>> p.sample((2,))
        tensor([ 1.5410, -0.2934])
    """

    _mean_carrier_measure = 0

    stddev = formula("σ.", lambda p: p.scale)
    variance = formula("σ².", lambda p: p.scale.pow(2))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return normal samples without a gradient."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            if not sample_shape:
                return random.normal(self.loc, self.scale)
            return random.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """μ + εσ, where ε is standard normal."""
        return self.loc + standard_normal(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Tensor | float) -> Tensor:
        """-(x - μ)² / 2σ² - log σ - ½ log 2π."""
        value = self._check_value(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - _LOG_SQRT_2PI

    def cdf(self, value: Tensor) -> Tensor:
        """½ (1 + erf((x - μ) / √2σ))."""
        value = self._check_value(value)
        return 0.5 * (1 + erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        """μ + √2σ erf⁻¹(2p - 1)."""
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        """½ + ½ log 2π + log σ."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    _natural_params = formula(
        "The natural parameters θ.", lambda p: (p.loc / p.scale.pow(2), -0.5 * p.scale.pow(2).reciprocal())
    )

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x.pow(2) / y + 0.5 * (-math.pi / y).log()


class HalfNormal(FoldedDistribution):
    """Half-normal distribution: |x| of a normal x; p(x) = √(2/π) exp(-x² / 2σ²) / σ for x ≥ 0, σ = `scale`."""

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args)

    mean = formula("σ √(2/π).", lambda p: p.scale * math.sqrt(2 / math.pi))
    variance = formula("σ² (1 - 2/π).", lambda p: p.scale.pow(2) * (1 - 2 / math.pi))


class LogNormal(TransformedDistribution):
    """Log-normal distribution: exp(x) of a normal x.

    Args:
        loc: number or tensor, the mean of x.
        scale: number or tensor, the standard deviation of x.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for parameters outside their constraints.

    Example:
        >>> ad.distributions.LogNormal(0.0, 1.0).mean
        tensor(1.6487)
    """

    arg_constraints = constraints.of(loc=constraints.real, scale=constraints.positive)
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    loc = formula("μ.", lambda p: p.base_dist.loc)
    scale = formula("σ.", lambda p: p.base_dist.scale)
    mean = formula("exp(μ + σ²/2).", lambda p: (p.loc + p.scale.pow(2) / 2).exp())
    mode = formula("exp(μ - σ²).", lambda p: (p.loc - p.scale.square()).exp())

    @property
    def variance(self) -> Tensor:
        """(exp(σ²) - 1) exp(2μ + σ²)."""
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        """μ more than the normal's."""
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Logistic-normal distribution: stick breaking of normal vectors, to vectors of sum 1 with one element more."""

    arg_constraints = constraints.of(loc=constraints.real, scale=constraints.positive)
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    loc = formula("μ.", lambda p: p.base_dist.base_dist.loc)
    scale = formula("σ.", lambda p: p.base_dist.base_dist.scale)

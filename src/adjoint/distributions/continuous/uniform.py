"""The uniform, Gumbel and generalized Pareto distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.core.dtype.dtype_info import finfo
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import Constraint, dependent_formula
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.location_scale import LocationScale
from adjoint.distributions.parameters import EULER_GAMMA, broadcast_all, formula
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import AffineTransform, ExpTransform
from adjoint.functions.creation import creation, random
from adjoint.functions.elementwise.allclose import isclose
from adjoint.functions.elementwise.pointwise import where


class Uniform(Distribution):
    """Uniform distribution over [low, high): p(x) = 1 / (high - low).

    Args:
        low: number or tensor, lower bound.
        high: number or tensor, upper bound, above `low`.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for parameters outside their constraints.

    Example:
        >>> p = ad.distributions.Uniform(0.0, 4.0)
        >>> p.mean, p.cdf(ad.tensor(1.0))
        (tensor(2.), tensor(0.2500))
    """

    has_rsample = True
    low: Tensor
    high: Tensor

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None) -> None:
        self._init_elementwise(validate_args, low=low, high=high)

    arg_constraints = formula(
        "low < high.", lambda p: {"low": constraints.less_than(p.high), "high": constraints.greater_than(p.low)}
    )

    support = dependent_formula(
        "[low, high].", lambda p: constraints.interval(p.low, p.high), is_discrete=False, event_dim=0
    )

    mean = formula("½(low + high).", lambda p: (p.high + p.low) / 2)
    mode = formula("There is none: NaN.", lambda p: math.nan * p.high)
    stddev = formula("(high - low) / √12.", lambda p: (p.high - p.low) / 12**0.5)
    variance = formula("(high - low)² / 12.", lambda p: (p.high - p.low).pow(2) / 12)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """low + u (high - low)."""
        noise = random.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + noise * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """-log(high - low) within, else -∞."""
        value = self._check_value(value)
        inside = (self.low <= value) & (self.high > value)
        return inside.type_as(self.low).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """(x - low) / (high - low), within [0, 1]."""
        return ((self._check_value(value) - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        """low + p (high - low)."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """log(high - low)."""
        return (self.high - self.low).log()


class Gumbel(TransformedDistribution):
    """Gumbel distribution: P[X ≤ x] = exp(-e^(-(x - μ)/β)), where μ = `loc` and β = `scale`."""

    arg_constraints = constraints.of(loc=constraints.real, scale=constraints.positive)
    support = constraints.real

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        low, high = (creation.full_like(self.loc, bound) for bound in (limits.tiny, 1 - limits.eps))
        transforms = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-creation.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]
        super().__init__(Uniform(low, high, validate_args=validate_args), transforms, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """y - eʸ - log β, where y = (μ - x)/β."""
        y = (self.loc - self._check_value(value)) / self.scale
        return y - y.exp() - self.scale.log()

    mean = formula("μ + γβ.", lambda p: p.loc + p.scale * EULER_GAMMA)
    mode = formula("μ.", lambda p: p.loc)
    stddev = formula("πβ / √6.", lambda p: (math.pi / math.sqrt(6)) * p.scale)
    variance = formula("π²β² / 6.", lambda p: p.stddev.pow(2))

    def entropy(self) -> Tensor:
        """log β + γ + 1."""
        return self.scale.log() + (1 + EULER_GAMMA)


class GeneralizedPareto(LocationScale):
    """Generalized Pareto distribution: P[X > x] = (1 + ξz)^(-1/ξ), z = (x - loc) / scale, ξ = `concentration`.

    For ξ = 0, P[X > x] = e⁻ᶻ.
    """

    arg_constraints = constraints.of(loc=constraints.real, scale=constraints.positive, concentration=constraints.real)
    concentration: Tensor

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self._init_elementwise(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """[loc, ∞), or [loc, loc - scale/ξ] where ξ < 0."""
        bounded = self.concentration < 0
        return constraints.interval(self.loc, where(bounded, self.loc - self.scale / self.concentration, math.inf))

    @property
    def mean(self) -> Tensor:
        """loc + scale / (1 - ξ) where ξ < 1, else NaN."""
        finite = self.concentration < 1
        shape = where(finite, self.concentration, 0.5)
        return where(finite, self.loc + self.scale / (1 - shape), math.nan)

    @property
    def variance(self) -> Tensor:
        """scale² / (1 - ξ)² (1 - 2ξ) where ξ < ½, else NaN."""
        finite = self.concentration < 0.5
        shape = where(finite, self.concentration, 0.25)
        return where(finite, self.scale**2 / ((1 - shape) ** 2 * (1 - 2 * shape)), math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The inverse of the cdf at a uniform number."""
        return self.icdf(random.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Return a mask of ξ = 0, and ξ with 1 where the mask is set."""
        zero = isclose(self.concentration, creation.zeros_like(self.concentration))
        return zero, where(zero, 1.0, self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        """-log scale - (1/ξ + 1) log(1 + ξz), -log scale - z for ξ = 0."""
        z = (self._check_value(value) - self.loc) / self.scale
        zero, shape = self._shape()
        power = 1 / shape + creation.ones_like(z)
        other = where(power == 0, power, power * (shape * z).log1p())
        return -self.scale.log() - where(zero, z, other)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log P[X > x]."""
        z = (self._check_value(value) - self.loc) / self.scale
        zero, shape = self._shape()
        return where(zero, -z, -(shape * z).log1p() / shape)

    def log_cdf(self, value: Tensor) -> Tensor:
        """log P[X ≤ x]."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """1 - P[X > x]."""
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """loc + scale ((1 - p)^(-ξ) - 1) / ξ, loc - scale log(1 - p) for ξ = 0."""
        zero, shape = self._shape()
        rest = (-value).log1p()
        power = self.loc + self.scale / shape * (-shape * rest).expm1()
        return where(zero, self.loc - self.scale * rest, power)

    def entropy(self) -> Tensor:
        """log scale + ξ + 1."""
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)

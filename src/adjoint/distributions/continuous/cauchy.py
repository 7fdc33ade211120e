"""The Cauchy and half-Cauchy distributions, and Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.continuous.gamma import Chi2
from adjoint.distributions.location_scale import FoldedDistribution, LocationScale
from adjoint.distributions.parameters import formula, standard_normal
from adjoint.functions.creation import creation
from adjoint.functions.elementwise.pointwise import where


class Cauchy(LocationScale):
    """Cauchy distribution: p(x) = 1 / πγ(1 + ((x - m)/γ)²), with median m = `loc` and half width γ = `scale`."""

    mean = formula("There is none: NaN.", lambda p: creation.full(p._extended_shape(), math.nan, dtype=p.loc.dtype))
    variance = formula("∞.", lambda p: creation.full(p._extended_shape(), math.inf, dtype=p.loc.dtype))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """m + εγ, where ε is standard Cauchy."""
        shape = self._extended_shape(sample_shape)
        noise = creation.empty(shape, dtype=self.loc.dtype)
        return self.loc + noise.cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """-log π - log γ - log(1 + ((x - m)/γ)²)."""
        value = self._check_value(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """arctan((x - m)/γ) / π + ½."""
        value = self._check_value(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """m + γ tan π(p - ½)."""
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        """log 4πγ."""
        return math.log(4 * math.pi) + self.scale.log()


class HalfCauchy(FoldedDistribution):
    """Half-Cauchy distribution: |x| of a Cauchy x around 0; p(x) = 2 / πγ(1 + (x/γ)²) for x ≥ 0, γ = `scale`."""

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    mean = formula("∞.", lambda p: p.base_dist.variance)
    variance = mean


class StudentT(LocationScale):
    """Student's t-distribution: p(x) ∝ (1 + y²/ν)^(-(ν + 1)/2), with y = (x - μ) / σ.

    Args:
        df: number or tensor, the degrees of freedom ν > 0.
        loc: number or tensor, μ. Default: 0.
        scale: number or tensor, σ > 0. Default: 1.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for parameters outside their constraints.

    Example:
        >>> ad.distributions.StudentT(3.0).variance
        tensor(3.)
    """

    arg_constraints = constraints.of(df=constraints.positive, loc=constraints.real, scale=constraints.positive)
    df: Tensor

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self._init_elementwise(validate_args, df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df)

    mean = formula("μ where ν > 1, else NaN.", lambda p: where(p.df <= 1, math.nan, p.loc))

    @property
    def variance(self) -> Tensor:
        """σ²ν / (ν - 2) where ν > 2, else ∞, and NaN where there is no mean."""
        finite = self.df > 2
        df = where(finite, self.df, 3.0)
        variance = where(finite, self.scale.pow(2) * df / (df - 2), math.inf)
        return where(self.df <= 1, math.nan, variance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """μ + σX / √(Z/ν), where X is normal and Z is χ² of ν degrees."""
        normal = standard_normal(self._extended_shape(sample_shape), self.df)
        return self.loc + self.scale * (normal * (self._chi2.rsample(sample_shape) / self.df).rsqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        """-½(ν + 1) log(1 + y²/ν) - log σ - ½ log πν - log Γ(ν/2) + log Γ((ν + 1)/2)."""
        y = (self._check_value(value) - self.loc) / self.scale
        half = 0.5 * self.df
        constant = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        constant = constant + half.lgamma() - (half + 0.5).lgamma()
        return -0.5 * (self.df + 1.0) * (y**2.0 / self.df).log1p() - constant

    def entropy(self) -> Tensor:
        """log σ + ½(ν + 1)(ψ((ν + 1)/2) - ψ(ν/2)) + ½ log ν + log B(ν/2, ½)."""
        low, high = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = low.lgamma() + math.lgamma(0.5) - high.lgamma()
        return self.scale.log() + high * (high.digamma() - low.digamma()) + 0.5 * self.df.log() + log_beta

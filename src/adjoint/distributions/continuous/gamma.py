"""The gamma distribution and its relatives: chi-squared, inverse gamma, Fisher-Snedecor's F."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.core.dtype.dtype_info import finfo
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.parameters import formula
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import PowerTransform
from adjoint.functions.creation import creation
from adjoint.functions.creation.sampling import _standard_gamma
from adjoint.functions.elementwise.float_functions import igamma, xlogy
from adjoint.functions.elementwise.pointwise import where


class Gamma(ExponentialFamily):
    """Gamma distribution: p(x) = βᵅ xᵅ⁻¹ e^(-βx) / Γ(α) for x ≥ 0.

    Args:
        concentration: number or tensor, the shape α > 0.
        rate: number or tensor, β > 0.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for parameters outside their constraints.

    Example:
        >>> p = ad.distributions.Gamma(2.0, 4.0)
        >>> p.mean, p.variance
        (tensor(0.5000), tensor(0.1250))
    """

    arg_constraints = constraints.of(concentration=constraints.positive, rate=constraints.positive)
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._init_elementwise(validate_args, concentration=concentration, rate=rate)

    mean = formula("α / β.", lambda p: p.concentration / p.rate)
    mode = formula("(α - 1) / β, at least 0.", lambda p: ((p.concentration - 1) / p.rate).clamp(min=0))
    variance = formula("α / β².", lambda p: p.concentration / p.rate.pow(2))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """A standard gamma number of α, over β, with the implicit gradient of the cdf."""
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=finfo(value.dtype).tiny)  # in its memory, past the gradient
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        """α log β + (α - 1) log x - βx - log Γ(α)."""
        if not isinstance(value, Tensor):
            value = creation.tensor(value, dtype=self.rate.dtype)
        value = self._check_value(value)
        powers = xlogy(self.concentration, self.rate) + xlogy(self.concentration - 1, value)
        return powers - self.rate * value - self.concentration.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        """P(α, βx), the regularized incomplete gamma function."""
        return igamma(self.concentration, self.rate * self._check_value(value))

    def entropy(self) -> Tensor:
        """α - log β + log Γ(α) + (1 - α) ψ(α)."""
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    _natural_params = formula("The natural parameters θ.", lambda p: (p.concentration - 1, -p.rate))

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """Chi-squared distribution: the sum of squares of ν = `df` standard normal numbers."""

    arg_constraints = constraints.of(df=constraints.positive)

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    df = formula("ν.", lambda p: p.concentration * 2)


class InverseGamma(TransformedDistribution):
    """Inverse gamma distribution: p(x) = βᵅ x^(-α-1) e^(-β/x) / Γ(α), where α = `concentration`, β = `rate`."""

    arg_constraints = constraints.of(concentration=constraints.positive, rate=constraints.positive)
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(creation.tensor(-1.0, dtype=base.rate.dtype))
        super().__init__(base, power, validate_args=validate_args)

    concentration = formula("α.", lambda p: p.base_dist.concentration)
    rate = formula("β.", lambda p: p.base_dist.rate)

    @property
    def mean(self) -> Tensor:
        """β / (α - 1) where α > 1, else ∞."""
        return where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    mode = formula("β / (α + 1).", lambda p: p.rate / (p.concentration + 1))

    @property
    def variance(self) -> Tensor:
        """β² / (α - 1)²(α - 2) where α > 2, else ∞."""
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        """α + log β + log Γ(α) - (1 + α) ψ(α)."""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class FisherSnedecor(Distribution):
    """Fisher-Snedecor distribution: the ratio of two χ², each over its degrees of freedom d₁ = `df1`, d₂ = `df2`."""

    arg_constraints = constraints.of(df1=constraints.positive, df2=constraints.positive)
    support = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None) -> None:
        self._init_elementwise(validate_args, df1=df1, df2=df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)

    @property
    def mean(self) -> Tensor:
        """d₂ / (d₂ - 2) where d₂ > 2, else NaN."""
        d2 = where(self.df2 <= 2, math.nan, self.df2)
        return d2 / (d2 - 2)

    @property
    def mode(self) -> Tensor:
        """(d₁ - 2)/d₁ · d₂/(d₂ + 2) where d₁ > 2, else NaN."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 <= 2, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        """2 d₂² (d₁ + d₂ - 2) / d₁ (d₂ - 2)² (d₂ - 4) where d₂ > 4, else NaN."""
        d1, d2 = self.df1, where(self.df2 <= 4, math.nan, self.df2)
        return 2 * d2.pow(2) * (d1 + d2 - 2) / (d1 * (d2 - 2).pow(2) * (d2 - 4))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """X₁ / X₂ of gammas with mean 1."""
        top, bottom = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        tiny = finfo(bottom.dtype).tiny
        return (top / bottom.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        """½d₁ log r + (½d₁ - 1) log x - ½(d₁ + d₂) log(1 + rx) - log B(½d₁, ½d₂), where r = d₁/d₂."""
        value = self._check_value(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        constant = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return constant + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()

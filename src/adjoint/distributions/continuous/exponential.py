"""The exponential, Laplace, Pareto and Weibull distributions."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.dtype.dtype_info import finfo
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import dependent_formula
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.location_scale import LocationScale
from adjoint.distributions.parameters import EULER_GAMMA, broadcast_all, formula, uniform
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import AffineTransform, ExpTransform, PowerTransform
from adjoint.functions.creation import creation


class Exponential(ExponentialFamily):
    """Exponential distribution: p(x) = λ e^(-λx) for x ≥ 0.

    Args:
        rate: number or tensor, λ > 0.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for parameters outside their constraints.

    Example:
        >>> ad.distributions.Exponential(2.0).mean
        tensor(0.5000)
    """

    arg_constraints = constraints.of(rate=constraints.positive)
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    rate: Tensor

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._init_elementwise(validate_args, rate=rate)

    mean = formula("1/λ.", lambda p: p.rate.reciprocal())
    stddev = mean
    mode = formula("0.", lambda p: creation.zeros_like(p.rate))
    variance = formula("1/λ².", lambda p: p.rate.pow(-2))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """A standard exponential number, over λ."""
        noise = creation.empty(self._extended_shape(sample_shape), dtype=self.rate.dtype)
        return noise.exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """log λ - λx."""
        return self.rate.log() - self.rate * self._check_value(value)

    def cdf(self, value: Tensor) -> Tensor:
        """1 - e^(-λx)."""
        return 1 - (-self.rate * self._check_value(value)).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """-log(1 - p) / λ."""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """1 - log λ."""
        return 1.0 - self.rate.log()

    _natural_params = formula("The natural parameters θ.", lambda p: (-p.rate,))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -(-x).log()


class Laplace(LocationScale):
    """Laplace distribution: p(x) = exp(-|x - μ| / b) / 2b.

    Args:
        loc: number or tensor, the mean μ.
        scale: number or tensor, b > 0.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for parameters outside their constraints.

    Example:
        >>> ad.distributions.Laplace(0.0, 1.0).log_prob(ad.tensor(0.0)).exp()
        tensor(0.5000)
    """

    variance = formula("2b².", lambda p: 2 * p.scale.pow(2))
    stddev = formula("√2 b.", lambda p: 2**0.5 * p.scale)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """μ - b sgn(u) log(1 - |u|), where u is uniform over (-1, 1)."""
        u = uniform(self._extended_shape(sample_shape), self.loc, finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        """-log 2b - |x - μ|/b."""
        return -(2 * self.scale).log() - (self._check_value(value) - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        """½ - ½ sgn(x - μ) (e^(-|x - μ|/b) - 1)."""
        away = self._check_value(value) - self.loc
        return 0.5 - 0.5 * away.sign() * (-away.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """μ - b sgn(p - ½) log(1 - 2|p - ½|)."""
        away = value - 0.5
        return self.loc - self.scale * away.sign() * (-2 * away.abs()).log1p()

    def entropy(self) -> Tensor:
        """1 + log 2b."""
        return 1 + (2 * self.scale).log()


class Pareto(TransformedDistribution):
    """Pareto distribution: p(x) = α mᵅ / x^(α + 1) for x ≥ m, where m = `scale` and α = `alpha`."""

    arg_constraints = constraints.of(alpha=constraints.positive, scale=constraints.positive)

    def __init__(self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    support = dependent_formula(
        "[m, ∞).", lambda p: constraints.greater_than_eq(p.scale), is_discrete=False, event_dim=0
    )

    @property
    def mean(self) -> Tensor:
        """αm / (α - 1) where α > 1, else ∞."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    mode = formula("m.", lambda p: p.scale)

    @property
    def variance(self) -> Tensor:
        """αm² / (α - 1)² (α - 2) where α > 2, else ∞."""
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Tensor:
        """log(m/α) + 1 + 1/α."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """Weibull distribution: P[X > x] = exp(-(x/λ)ᵏ), where λ = `scale` and k = `concentration`."""

    arg_constraints = constraints.of(scale=constraints.positive, concentration=constraints.positive)
    support = constraints.positive

    def __init__(self, scale: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(creation.ones_like(self.scale), validate_args=validate_args)
        transforms = [PowerTransform(exponent=self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """log Γ(1 + n/k), where E[xⁿ] = λⁿ Γ(1 + n/k)."""
        return (1 + n * self.concentration_reciprocal).lgamma()

    mean = formula("λ Γ(1 + 1/k).", lambda p: p.scale * p._moment(1).exp())

    @property
    def mode(self) -> Tensor:
        """λ ((k - 1) / k)^(1/k)."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    variance = formula(
        "λ² (Γ(1 + 2/k) - Γ(1 + 1/k)²).", lambda p: p.scale.pow(2) * (p._moment(2).exp() - (2 * p._moment(1)).exp())
    )

    def entropy(self) -> Tensor:
        """γ (1 - 1/k) + log(λ/k) + 1."""
        inverse = self.concentration_reciprocal
        return EULER_GAMMA * (1 - inverse) + (self.scale * inverse).log() + 1

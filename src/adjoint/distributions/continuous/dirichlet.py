"""The Dirichlet, beta and Kumaraswamy distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import Constraint
from adjoint.distributions.continuous.uniform import Uniform
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.parameters import EULER_GAMMA, broadcast_all, formula
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import AffineTransform, PowerTransform
from adjoint.functions.creation import creation
from adjoint.functions.creation.sampling import _sample_dirichlet
from adjoint.functions.elementwise.float_functions import xlogy
from adjoint.functions.elementwise.pointwise import where
from adjoint.functions.nn.embedding import one_hot
from adjoint.functions.shape import join


class Dirichlet(ExponentialFamily):
    """Dirichlet distribution over probability vectors: p(x) = Π xᵢ^(αᵢ - 1) · Γ(Σ αᵢ) / Π Γ(αᵢ).

    Args:
        concentration: tensor (…, K), α > 0.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for a scalar, and for parameters outside their constraints.

    Example:
        >>> ad.distributions.Dirichlet(ad.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints = constraints.of(concentration=constraints.independent(constraints.positive, 1))
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Gamma numbers over their sum, with the implicit gradient of the conditional cdfs."""
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Σ (αᵢ - 1) log xᵢ + log Γ(Σ αᵢ) - Σ log Γ(αᵢ)."""
        a = self.concentration
        return xlogy(a - 1.0, self._check_value(value)).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    mean = formula("αᵢ / Σ α.", lambda p: p.concentration / p.concentration.sum(-1, True))

    @property
    def mode(self) -> Tensor:
        """(αᵢ - 1) / Σ (α - 1); the corner of the largest α where all are below 1."""
        over = (self.concentration - 1).clamp(min=0.0)
        mode = over / over.sum(-1, True)
        corner = one_hot(mode.argmax(dim=-1), over.shape[-1]).to(mode.dtype)
        return where((self.concentration < 1).all(dim=-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Tensor:
        """αᵢ (Σ α - αᵢ) / (Σ α)² (Σ α + 1)."""
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        """Σ log Γ(αᵢ) - log Γ(α₀) - (k - α₀) ψ(α₀) - Σ (αᵢ - 1) ψ(αᵢ), where α₀ = Σ α."""
        a, total = self.concentration, self.concentration.sum(-1)
        log_beta = a.lgamma().sum(-1) - total.lgamma()
        return log_beta - (a.size(-1) - total) * total.digamma() - ((a - 1.0) * a.digamma()).sum(-1)

    _natural_params = formula("The natural parameters θ.", lambda p: (p.concentration,))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """Beta distribution over [0, 1]: p(x) = x^(a - 1) (1 - x)^(b - 1) / B(a, b).

    Args:
        concentration1: number or tensor, a > 0.
        concentration0: number or tensor, b > 0.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for parameters outside their constraints.

    Example:
        >>> ad.distributions.Beta(1.0, 3.0).mean
        tensor(0.2500)
    """

    arg_constraints = constraints.of(concentration1=constraints.positive, concentration0=constraints.positive)
    support: Constraint = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ) -> None:
        both = join.stack(list(broadcast_all(concentration1, concentration0)), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    concentration1 = formula("a.", lambda p: p._dirichlet.concentration[..., 0])
    concentration0 = formula("b.", lambda p: p._dirichlet.concentration[..., 1])
    mean = formula("a / (a + b).", lambda p: p.concentration1 / (p.concentration1 + p.concentration0))
    mode = formula("(a - 1) / (a + b - 2); an end where both are below 1.", lambda p: p._dirichlet.mode[..., 0])

    @property
    def variance(self) -> Tensor:
        """ab / (a + b)² (a + b + 1)."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The first element of a Dirichlet sample."""
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        """(a - 1) log x + (b - 1) log(1 - x) - log B(a, b)."""
        value = self._check_value(value)
        return self._dirichlet.log_prob(join.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        """The entropy of the Dirichlet distribution."""
        return self._dirichlet.entropy()

    _natural_params = formula("The natural parameters θ.", lambda p: (p.concentration1, p.concentration0))

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy distribution over [0, 1]: P[X ≤ x] = 1 - (1 - xᵃ)ᵇ, a = `concentration1`, b = `concentration0`."""

    arg_constraints = constraints.of(concentration1=constraints.positive, concentration0=constraints.positive)
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        low, high = creation.zeros_like(self.concentration0), creation.ones_like(self.concentration0)
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(Uniform(low, high, validate_args=validate_args), transforms, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """E[xⁿ] = b B(1 + n/a, b)."""
        a, b = self.concentration1, self.concentration0
        place = 1 + n / a
        return b * (place.lgamma() + b.lgamma() - (place + b).lgamma()).exp()

    mean = formula("b B(1 + 1/a, b).", lambda p: p._moment(1))

    @property
    def mode(self) -> Tensor:
        """((a - 1) / (ab - 1))^(1/a) where both are at least 1, else NaN."""
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return where((b < 1) | (a < 1), math.nan, log_mode).exp()

    variance = formula("E[x²] - E[x]².", lambda p: p._moment(2) - p.mean.pow(2))

    def entropy(self) -> Tensor:
        """1 - 1/b + (1 - 1/a) H(b) - log ab, where H(b) = ψ(b + 1) + γ is the harmonic number."""
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + EULER_GAMMA
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()

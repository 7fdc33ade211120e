"""The binomial, negative binomial and Poisson distributions."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.autograd.grad_mode import no_grad
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import dependent_formula
from adjoint.distributions.continuous.gamma import Gamma
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.parameters import broadcast_all, formula, lazy_property
from adjoint.distributions.probs_or_logits import ProbsOrLogitsDistribution
from adjoint.functions.creation.sampling import binomial, poisson
from adjoint.functions.elementwise.activation import logsigmoid
from adjoint.functions.elementwise.float_functions import xlogy


class Binomial(ProbsOrLogitsDistribution):
    """Binomial distribution: number of successes in n trials of probability p.

    Args:
        total_count: integer or tensor, n. Default: 1.
        probs: number or tensor, p in [0, 1]. Default: None.
        logits: number or tensor, log(p / (1 - p)). Default: None.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError unless exactly one of `probs` and `logits` is given, and for values outside their constraints.

    Example:
        >>> ad.distributions.Binomial(4, 0.5).log_prob(ad.tensor(2.0)).exp()
        tensor(0.3750)
    """

    arg_constraints = constraints.of(
        total_count=constraints.nonnegative_integer, probs=constraints.unit_interval, logits=constraints.real
    )
    has_enumerate_support = True
    total_count: Tensor

    def __init__(
        self,
        total_count: Tensor | float = 1,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._init_probs_or_logits(validate_args, probs, logits, total_count=total_count)

    support = dependent_formula(
        "0, …, n.", lambda p: constraints.integer_interval(0, p.total_count), is_discrete=True, event_dim=0
    )

    mean = formula("np.", lambda p: p.total_count * p.probs)
    mode = formula("⌊(n + 1)p⌋, at most n.", lambda p: ((p.total_count + 1) * p.probs).floor().clamp(max=p.total_count))
    variance = formula("np(1 - p).", lambda p: p.total_count * p.probs * (1 - p.probs))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return binomial samples."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """log C(n, k) + kl - n log(1 + eˡ), where l are the log-odds."""
        value, n, logits = self._check_value(value), self.total_count, self.logits
        # max(l, 0), of slope ½ at 0 from both sides
        positive = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        normalizer = n * positive + n * (-logits.abs()).exp().log1p() - (n + 1).lgamma()
        return value * logits - (value + 1).lgamma() - (n - value + 1).lgamma() - normalizer

    def _count(self, asked: str) -> int:
        """Return n. Raises NotImplementedError where it differs within the batch."""
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked}`.")
        return count

    def entropy(self) -> Tensor:
        """-Σ P[k] log P[k]. Raises NotImplementedError for different n."""
        self._count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0, …, n. Raises NotImplementedError for different n."""
        return self._enumerate_counts(1 + self._count("enumerate_support"), expand)


class NegativeBinomial(ProbsOrLogitsDistribution):
    """Negative binomial distribution: successes of chance p = `probs` before r = `total_count` failures."""

    arg_constraints = constraints.of(
        total_count=constraints.greater_than_eq(0),
        probs=constraints.half_open_interval(0.0, 1.0),
        logits=constraints.real,
    )
    support = constraints.nonnegative_integer
    total_count: Tensor

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._init_probs_or_logits(validate_args, probs, logits, total_count=total_count)

    mean = formula("r p/(1 - p).", lambda p: p.total_count * p.logits.exp())
    mode = formula(
        "⌊(r - 1) p/(1 - p)⌋, at least 0.", lambda p: ((p.total_count - 1) * p.logits.exp()).floor().clamp(min=0.0)
    )
    variance = formula("r p/(1 - p)².", lambda p: p.mean / (-p.logits).sigmoid())

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(concentration=self.total_count, rate=(-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """A Poisson number of a gamma rate."""
        with no_grad():
            return poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """r log(1 - p) + k log p + log Γ(r + k) - log k! - log Γ(r)."""
        value, r = self._check_value(value), self.total_count
        powers = r * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        normalizer = -(r + value).lgamma() + (1.0 + value).lgamma() + r.lgamma()
        return powers - normalizer.masked_fill(r + value == 0.0, 0.0)


class Poisson(ExponentialFamily):
    """Poisson distribution: P[k] = λᵏ e^(-λ) / k!.

    Args:
        rate: number or tensor, λ ≥ 0.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for parameters outside their constraints.

    Example:
        >>> ad.distributions.Poisson(3.0).log_prob(ad.tensor(0.0))
        tensor(-3.)
    """

    arg_constraints = constraints.of(rate=constraints.nonnegative)
    support = constraints.nonnegative_integer
    rate: Tensor

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._init_elementwise(validate_args, rate=rate)

    mean = formula("λ.", lambda p: p.rate)
    variance = mean
    mode = formula("⌊λ⌋.", lambda p: p.rate.floor())

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return Poisson samples."""
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """k log λ - λ - log k!."""
        rate, value = broadcast_all(self.rate, self._check_value(value))
        return xlogy(value, rate) - rate - (value + 1).lgamma()

    _natural_params = formula("The natural parameters θ.", lambda p: (p.rate.log(),))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp()

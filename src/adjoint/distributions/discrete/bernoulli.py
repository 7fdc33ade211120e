"""The Bernoulli and geometric distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.autograd.grad_mode import no_grad
from adjoint.core.dtype.dtype_info import finfo
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import can_validate_values
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.parameters import broadcast_all, formula, uniform
from adjoint.distributions.probs_or_logits import ProbsOrLogitsDistribution
from adjoint.functions.creation import creation, random
from adjoint.functions.elementwise.pointwise import where
from adjoint.functions.loss.regression import binary_cross_entropy_with_logits


class Bernoulli(ProbsOrLogitsDistribution, ExponentialFamily):
    """Bernoulli distribution: 1 with probability p, else 0.

    Args:
        probs: number or tensor, p in [0, 1]. Default: None.
        logits: number or tensor, log(p / (1 - p)). Default: None.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError unless exactly one of `probs` and `logits` is given, and for values outside their constraints.

    Example:
        >>> p = ad.distributions.Bernoulli(0.25)
        >>> p.mean, p.variance
        (tensor(0.2500), tensor(0.1875))
        >>> ad.distributions.Bernoulli(logits=0.0).probs
        tensor(0.5000)
    """

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    mean = formula("p.", lambda p: p.probs)
    mode = formula(
        "The likelier; NaN for p = ½.", lambda p: where(p.probs == 0.5, math.nan, (p.probs >= 0.5).to(p.probs.dtype))
    )
    variance = formula("p(1 - p).", lambda p: p.probs * (1 - p.probs))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """1 with probability p."""
        with no_grad():
            return random.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """x log p + (1 - x) log(1 - p), computed from the log-odds."""
        logits, value = broadcast_all(self.logits, self._check_value(value))
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """-p log p - (1 - p) log(1 - p)."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1."""
        return self._enumerate_counts(2, expand)

    _natural_params = formula("The natural parameters θ.", lambda p: (p.probs.logit(),))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp().log1p()


class Geometric(ProbsOrLogitsDistribution):
    """Geometric distribution: failures before the first success of chance p = `probs`; P[k] = (1 - p)ᵏ p.

    Raises ValueError for p = 0 too.
    """

    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            positive = value > 0
            if can_validate_values(positive) and not positive.all():
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to be positive but found invalid values:\n{value.detach()[~positive]}"
                )

    mean = formula("1/p - 1.", lambda p: 1.0 / p.probs - 1.0)
    mode = formula("0.", lambda p: creation.zeros_like(p.probs))
    variance = formula("(1/p - 1) / p.", lambda p: (1.0 / p.probs - 1.0) / p.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """⌊log u / log(1 - p)⌋ of a uniform u."""
        with no_grad():
            u = uniform(self._extended_shape(sample_shape), self.probs, finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """k log(1 - p) + log p."""
        value, probs = broadcast_all(self._check_value(value), self.probs)
        failure = where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-failure).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """The entropy of one trial, over p."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs

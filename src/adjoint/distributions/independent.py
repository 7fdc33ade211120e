"""The product of independent distributions, taken as one over larger events."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import Constraint
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.parameters import formula, sum_rightmost


class Independent(Distribution):
    """Distribution that joins batch dimensions of another one into its events.

    Its `log_prob` is the sum over these dimensions.

    Args:
        base_distribution: Distribution.
        reinterpreted_batch_ndims: number of last batch dimensions to join.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError if the batch has fewer dimensions.

    Example:
        >>> base = ad.distributions.Normal(ad.zeros(4, 3), ad.ones(3))
        >>> p = ad.distributions.Independent(base, 1)
        >>> p.event_shape, p.log_prob(ad.zeros(4, 3)).shape
        (adjoint.Size([3]), adjoint.Size([4]))
    """

    arg_constraints = constraints.of()

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        cut = len(batch) - reinterpreted_batch_ndims
        event = (*batch[cut:], *base_distribution.event_shape)
        super().__init__(batch[:cut], event, validate_args=validate_args)

    has_rsample = formula("True if the base has `rsample`.", lambda p: p.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:
        """True if the base has `enumerate_support`, and nothing is reinterpreted."""
        return self.reinterpreted_batch_ndims <= 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Constraint:
        """The support of the base, over all of an event."""
        base, dims = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(base, dims) if dims else base

    mean = formula("The mean of the base.", lambda p: p.base_dist.mean)
    mode = formula("The mode of the base.", lambda p: p.base_dist.mode)
    variance = formula("The variance of the base.", lambda p: p.base_dist.variance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples of the base."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples of the base, through which gradients flow."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Σ log p(xᵢ)."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """The sum of the entropies."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The values of the base. Raises NotImplementedError where they would be a product of supports."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"

"""The distribution of a function of another distribution's samples."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Self

from adjoint.autograd.grad_mode import no_grad
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import Constraint
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.independent import Independent
from adjoint.distributions.parameters import formula, sum_rightmost
from adjoint.distributions.transforms import ComposeTransform, Transform


class TransformedDistribution(Distribution):
    """Distribution of y = f(x) for a base distribution of x: p(y) = p(x) / |det dy/dx|.

    Args:
        base_distribution: Distribution of x.
        transforms: Transform, or list of transforms applied in order.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for anything but transforms, and for a base of too few dimensions.

    Example:
        >>> base = ad.distributions.Normal(0.0, 1.0)
        >>> p = ad.distributions.TransformedDistribution(base, ad.distributions.ExpTransform())
        >>> p.log_prob(ad.tensor(1.0))
        tensor(-0.9189)
    """

    arg_constraints = constraints.of()

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        else:
            self.transforms = transforms
        base_shape = Size((*base_distribution.batch_shape, *base_distribution.event_shape))
        base_dims = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        into, out_of = transform.domain.event_dim, transform.codomain.event_dim
        if len(base_shape) < into:
            raise ValueError(f"base_distribution needs to have shape with size at least {into}, but got {base_shape}.")
        shape = tuple(transform.forward_shape(base_shape))
        expanded = tuple(transform.inverse_shape(shape))
        if base_shape != expanded:
            base_distribution = base_distribution.expand(expanded[: len(expanded) - base_dims])
        if into > base_dims:
            base_distribution = Independent(base_distribution, into - base_dims)
        self.base_dist = base_distribution
        cut = len(shape) - max(out_of, base_dims + out_of - into)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Self | None = None) -> Self:
        """The same distributions repeated to `batch_shape`."""
        new = self._get_checked_instance(TransformedDistribution, _instance)
        shape = (*batch_shape, *self.event_shape)
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return super().expand(batch_shape, new)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Constraint:
        """The codomain of the last transform, over all of an event."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    has_rsample = formula("True if the base has `rsample`.", lambda p: p.base_dist.has_rsample)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """f of a sample of the base."""
        with no_grad():
            return self._apply_transforms(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """f of a sample of the base, through which gradients flow."""
        return self._apply_transforms(self.base_dist.rsample(sample_shape))

    def _apply_transforms(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(x) - log |dy/dx| at the x of this y."""
        y = self._check_value(value)
        dims = len(self.event_shape)
        result: Tensor | float = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            change = transform.log_abs_det_jacobian(x, y)
            result = result - sum_rightmost(change, dims - transform.domain.event_dim)
            y = x
        return result + sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """`value`, or 1 - `value` where the transforms decrease."""
        sign: Tensor | int = functools.reduce(operator.mul, (t.sign for t in self.transforms), 1)
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """P[x ≤ f⁻¹(value)], or its complement where f decreases."""
        x = value
        for transform in reversed(self.transforms):
            x = transform.inv(x)
        if self._validate_args:
            self.base_dist._validate_sample(x)
        return self._monotonize_cdf(self.base_dist.cdf(x))

    def icdf(self, value: Tensor) -> Tensor:
        """f of the base's inverse."""
        return self._apply_transforms(self.base_dist.icdf(self._monotonize_cdf(value)))

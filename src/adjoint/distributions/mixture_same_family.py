"""Mixtures of distributions of one family."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.autograd.grad_mode import no_grad
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import MixtureSameFamilyConstraint, dependent_formula
from adjoint.distributions.discrete.categorical import Categorical
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.parameters import formula


class MixtureSameFamily(Distribution):
    """Mixture distribution: p(x) = Σₖ πₖ pₖ(x).

    Args:
        mixture_distribution: Categorical, the weights π.
        component_distribution: Distribution, whose last batch dimension numbers the components.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for other types, and for shapes that do not fit.

    Example:
        >>> weights = ad.distributions.Categorical(ad.ones(2))
        >>> parts = ad.distributions.Normal(ad.tensor([-1.0, 1.0]), ad.ones(2))
        >>> p = ad.distributions.MixtureSameFamily(weights, parts)
        >>> p.mean, p.variance
        (tensor(0.), tensor(2.))
    """

    arg_constraints = constraints.of()
    has_rsample = False

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        batch, components = mixture_distribution.batch_shape, component_distribution.batch_shape
        if any(1 != i != j != 1 for i, j in zip(reversed(batch), reversed(components[:-1]), strict=False)):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({batch}) is not compatible with "
                f"`component_distribution.batch_shape`({components[:-1]})"
            )
        self._num_component = mixture_distribution.logits.shape[-1]
        if self._num_component != components[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({self._num_component}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components[-1]})"
            )
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(batch_shape=components[:-1], event_shape=event, validate_args=validate_args)

    support = dependent_formula(
        "The intersection of the supports of the components.",
        lambda p: MixtureSameFamilyConstraint(p._component_distribution.support),
    )

    mixture_distribution = formula("The distribution of the component's number.", lambda p: p._mixture_distribution)
    component_distribution = formula(
        "The components, along the last batch dimension.", lambda p: p._component_distribution
    )

    def _average_components(self, values: Tensor) -> Tensor:
        """Σₖ πₖ vₖ."""
        probs, dims = self._mixture_distribution.probs, len(self._mixture_distribution.batch_shape)
        lead = 0 if dims == 1 else len(self._batch_shape) - dims
        shape = (*probs.shape[:-1], *(1,) * lead, probs.shape[-1], *(1,) * self._event_ndims)
        return (probs.reshape(shape) * values).sum(dim=-1 - self._event_ndims)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    mean = formula("Σ πₖ mₖ.", lambda p: p._average_components(p._component_distribution.mean))

    @property
    def variance(self) -> Tensor:
        """Σ πₖ (vₖ + (mₖ - m)²)."""
        components = self._component_distribution
        return self._average_components(components.variance) + self._average_components(
            (components.mean - self._pad(self.mean)).pow(2.0)
        )

    def cdf(self, x: Tensor) -> Tensor:
        """Σ πₖ P[xₖ ≤ x]."""
        return (self._component_distribution.cdf(self._pad(x)) * self._mixture_distribution.probs).sum(dim=-1)

    def log_prob(self, x: Tensor) -> Tensor:
        """log Σ πₖ pₖ(x)."""
        each = self._component_distribution.log_prob(self._pad(self._check_value(x)))
        return (each + self._mixture_distribution.logits.log_softmax(dim=-1)).logsumexp(dim=-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Sample all components, and take the one that the mixture draws."""
        with no_grad():
            event = self._event_shape
            chosen = self._mixture_distribution.sample(sample_shape)
            components = self._component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self._batch_shape)
            places = chosen.reshape(*chosen.shape, *(1,) * (len(event) + 1)).expand(*chosen.shape, 1, *event)
            return components.gather(dim, places).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"

"""The exponential family: entropy and divergence from the derivative of the log normalizer."""

from __future__ import annotations

from typing import Any

from adjoint.autograd.backward import grad
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions.distribution import Distribution


class ExponentialFamily(Distribution):
    """p(x) = exp(⟨t(x), θ⟩ - F(θ) + k(x)), of natural parameters θ, log normalizer F and carrier measure k."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """θ."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        """F(θ)."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Tensor | float:
        """E[k(x)]."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """F(θ) - ⟨θ, ∇F(θ)⟩ - E[k(x)] (Nielsen and Nock, 2010)."""
        result = -self._mean_carrier_measure
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        slopes = grad(normalizer.sum(), natural, create_graph=True)
        result = result + normalizer
        for parameter, slope in zip(natural, slopes, strict=True):
            result = result - (parameter * slope).reshape(*self._batch_shape, -1).sum(-1)
        return result

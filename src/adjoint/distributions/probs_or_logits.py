"""Distributions given by the probability of one of two outcomes, or by its log-odds."""

from __future__ import annotations

from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.parameters import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    name_of_given,
    probs_to_logits,
)
from adjoint.functions.creation import creation


class ProbsOrLogitsDistribution(Distribution):
    """Has `probs` p and `logits` log p/(1 - p): the one that is given, and the other computed when it is asked for."""

    _param: Tensor

    def _set_probs_or_logits(self, probs: Any, logits: Any, **others: Any) -> None:
        """Hold the one that is given, and others, broadcast with it, in its dtype."""
        name = name_of_given(probs, logits)
        *rest, self._param = broadcast_all(*others.values(), logits if probs is None else probs)
        vars(self)[name] = self._param
        for other, value in zip(others, rest, strict=True):
            vars(self)[other] = value.type_as(self._param)

    @lazy_property
    def logits(self) -> Any:
        """log p - log(1 - p)."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """1 / (1 + e^-logits)."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    def _enumerate_counts(self, count: int, expand: bool) -> Any:
        """0, 1, … below `count`, along a new first dimension."""
        values = creation.arange(count, dtype=self._param.dtype).view(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

"""Distributions given by the probability of a success, or by its log-odds."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.parameters import (
    broadcast_all,
    formula,
    lazy_property,
    logits_to_probs,
    name_of_given,
    probs_to_logits,
)
from adjoint.functions.creation import creation


class ProbsOrLogitsDistribution(Distribution):
    """A distribution with `probs` p and `logits` log p/(1 - p): one is given, the other is computed on first use."""

    _param: Tensor

    arg_constraints = constraints.of(probs=constraints.unit_interval, logits=constraints.real)

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._init_probs_or_logits(validate_args, probs, logits)

    def _init_probs_or_logits(
        self, validate_args: bool | None, probs: Operand, logits: Operand, **others: Tensor | float
    ) -> None:
        """Set up a distribution of numbers, one for each element of the parameters."""
        self._set_probs_or_logits(probs, logits, **others)
        super().__init__(self._param.shape, validate_args=validate_args)

    def _set_probs_or_logits(self, probs: Operand, logits: Operand, **others: Tensor | float) -> None:
        """Set `probs` or `logits`, and other parameters, broadcast, in its dtype."""
        name = name_of_given(probs, logits)
        *rest, self._param = broadcast_all(*others.values(), logits if probs is None else probs)
        vars(self)[name] = self._param
        for other, value in zip(others, rest, strict=True):
            vars(self)[other] = value.type_as(self._param)

    @lazy_property
    def logits(self) -> Tensor:
        """log p - log(1 - p)."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """1 / (1 + e^-logits)."""
        return logits_to_probs(self.logits, is_binary=True)

    param_shape = formula("The shape of the parameter.", lambda p: p._param.size())

    def _new(self, *args: object, **kwargs: object) -> Tensor:
        return self._param.new(*args, **kwargs)

    def _enumerate_counts(self, count: int, expand: bool) -> Tensor:
        """0, 1, … below `count`, along a new first dimension."""
        values = creation.arange(count, dtype=self._param.dtype).view(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

"""Constraints of numbers and of vectors."""

from __future__ import annotations

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions.constraints.constraint import Constraint


class _Real(Constraint):
    """All numbers but NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value

    def _holds_for_all(self, value: Tensor) -> bool:
        array = value.array
        return bool(np.logical_and.reduce(array == array, None))


class _Boolean(Constraint):
    """{0, 1}."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors of one 1 and zeros."""

    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _BoundConstraint(Constraint):
    """A constraint whose bounds are part of its repr."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={bound}" for name, bound in vars(self).items())
        return f"{self.__class__.__name__.lstrip('_')}({bounds})"


class _LowerBoundConstraint(_BoundConstraint):
    def __init__(self, lower_bound: Tensor | float) -> None:
        self.lower_bound = lower_bound


class _UpperBoundConstraint(_BoundConstraint):
    def __init__(self, upper_bound: Tensor | float) -> None:
        self.upper_bound = upper_bound


class _TwoBoundConstraint(_BoundConstraint):
    def __init__(self, lower_bound: Tensor | float, upper_bound: Tensor | float) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _GreaterThan(_LowerBoundConstraint):
    """(lower_bound, ∞]."""

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_LowerBoundConstraint):
    """[lower_bound, ∞]."""

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_UpperBoundConstraint):
    """[-∞, upper_bound)."""

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_TwoBoundConstraint):
    """[lower_bound, upper_bound]."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_TwoBoundConstraint):
    """[lower_bound, upper_bound)."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    """The integers of [lower_bound, upper_bound]."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)

    def _holds_for_all(self, value: Tensor) -> bool:
        array, low, high = value.array, self.lower_bound, self.upper_bound
        if array.dtype.kind not in "iu" or not array.size or type(low) is not int or type(high) is not int:
            return super()._holds_for_all(value)
        if not array.shape:
            return low <= array.item() <= high
        return low <= int(np.minimum.reduce(array, None)) and int(np.maximum.reduce(array, None)) <= high


class _IntegerLessThan(_UpperBoundConstraint):
    """The integers up to upper_bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_LowerBoundConstraint):
    """The integers from lower_bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Simplex(Constraint):
    """Vectors of non-negative elements of sum 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts of sum up to upper_bound."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Tensor | float) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(dim=-1) & (value.sum(dim=-1) <= self.upper_bound)

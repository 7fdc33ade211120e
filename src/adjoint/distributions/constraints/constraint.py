"""The base class of constraints, and constraints composed of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions.parameters import formula
from adjoint.functions.shape import join


class Constraint:
    """A set of values, each with `event_dim` dimensions."""

    is_discrete: Any = False  # bool and int, in some classes as properties
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Test each event: a bool tensor of the shape of the batch."""
        raise NotImplementedError

    def _holds_for_all(self, value: Tensor) -> bool:
        """Return whether `check` holds for all events of a tensor without history, in a mode that watches nothing."""
        valid: Any = self.check(value)
        return bool(np.logical_and.reduce(valid.array, None)) if type(valid) is Tensor else bool(valid.all())

    def __repr__(self) -> str:
        return f"{self.__class__.__name__.lstrip('_')}()"


class _Dependent(Constraint):
    """A constraint that depends on other values and cannot be checked."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> Any:
        """True for a set of discrete values. Raises NotImplementedError where it is not known."""
        return _require_static(self._is_discrete, "is_discrete")

    @property
    def event_dim(self) -> Any:
        """The number of dimensions of an event. Raises NotImplementedError where it is not known."""
        return _require_static(self._event_dim, "event_dim")

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        """Raise ValueError: there is nothing to check against."""
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property whose value is a constraint; accessed on the class, it is a dependent constraint."""

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def dependent_formula(doc: str, value: Callable[[Any], Constraint], **known: bool | int) -> Constraint:
    """Return a property as `formula` does, for a constraint; `known`: its `is_discrete` and `event_dim`, if fixed."""
    value.__doc__ = doc
    return _DependentProperty(value, **known)


class _DerivedConstraint(Constraint):
    """A constraint derived from another one."""

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint

    is_discrete = formula("True if `base_constraint` is discrete.", lambda c: c.base_constraint.is_discrete)
    event_dim = formula("The dimensions of an event.", lambda c: c.base_constraint.event_dim)


class _IndependentConstraint(_DerivedConstraint):
    """Constraint of events: `base_constraint` holds over all of the last `reinterpreted_batch_ndims` dimensions."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        super().__init__(base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int):
            found = type(reinterpreted_batch_ndims).__name__
            raise AssertionError(f"reinterpreted_batch_ndims must be an int, got {found}")
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}")
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def event_dim(self) -> int:
        """The dimensions of the base, and the reinterpreted ones."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        """Test the base over all of an event. Raises ValueError for too few dimensions."""
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return all_rightmost(result, self.reinterpreted_batch_ndims)

    def _holds_for_all(self, value: Tensor) -> bool:
        if value.ndim < self.event_dim:
            return super()._holds_for_all(value)  # which raises
        return self.base_constraint._holds_for_all(value)

    def __repr__(self) -> str:
        name = self.__class__.__name__.lstrip("_")
        return f"{name}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_DerivedConstraint):
    """Support of a mixture: `base_constraint`, the support of the components, holds for all of them.

    Raises: ValueError for too few dimensions.
    """

    def check(self, value: Tensor) -> Tensor:
        """Test the value against all components. Raises ValueError for too few dimensions."""
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return all_rightmost(result, result.dim() - (value.dim() - self.event_dim))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_constraint!r})"


class _ConstraintSequence(Constraint):
    """Constraints of the slices along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq, self.dim = list(cseq), dim

    is_discrete = formula("True if one constraint is discrete.", lambda c: any(part.is_discrete for part in c.cseq))
    event_dim = formula("The largest of the constraints.", lambda c: max(part.event_dim for part in c.cseq))

    def _check_dim(self, value: Tensor) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dimensions")


class _Cat(_ConstraintSequence):
    """Tensors joined along `dim` from parts of these `lengths`, each in its set."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")

    def check(self, value: Tensor) -> Tensor:
        """Test each part by its own constraint."""
        self._check_dim(value)
        parts = value.split(self.lengths, self.dim)
        return join.cat([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_ConstraintSequence):
    """Tensors stacked along `dim` from parts, each in its set."""

    @property
    def event_dim(self) -> int:
        """The largest of the constraints; one more where `dim` is one of an event's dimensions."""
        dim = super().event_dim
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        """Test each part by its own constraint."""
        self._check_dim(value)
        checks = [c.check(v) for c, v in zip(self.cseq, value.unbind(self.dim), strict=False)]
        return join.stack(checks, self.dim)


def of(**parameters: Constraint) -> dict[str, Constraint]:
    """Return the constraints of parameters by name."""
    return parameters


def is_dependent(constraint: Constraint) -> bool:
    """Test whether the constraint depends on other values."""
    return isinstance(constraint, _Dependent)


def can_validate_values(x: Tensor) -> bool:
    """Test whether `x` has values: it has none while a step is traced."""
    return hasattr(x.array, "flags") and not (nondefault.count and mode.interpreter is not None)


def all_rightmost(holds: Tensor, dims: int) -> Tensor:
    """Reduce by logical and over the last `dims` dimensions."""
    return holds.reshape(*holds.shape[: holds.dim() - dims], -1).all(-1)


def _require_static(value: object, name: str) -> object:
    if value is NotImplemented:
        raise NotImplementedError(f".{name} cannot be determined statically")
    return value

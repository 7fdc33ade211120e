"""Transforms from real numbers onto a constraint: `biject_to` one to one, `transform_to` onto it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.distributions import constraints, transforms
from adjoint.distributions.constraints.constraint import Constraint
from adjoint.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


Factory = Callable[[Any], Transform]  # of a constraint, whose class it is registered for


class ConstraintRegistry:
    """Registry of functions that make a transform for a constraint, by its class."""

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: type[Constraint] | Constraint, factory: Function | None = None) -> Function:
        """Register `factory` for a class of constraints, or for that of an instance; usable as a decorator.

        Raises TypeError for anything but a constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind: object = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform onto `constraint`. Raises NotImplementedError where none is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _compose_affine(loc: Tensor | float, scale: Tensor | float, first: Transform) -> Transform:
    return transforms.ComposeTransform([first, transforms.AffineTransform(loc, scale)])


def _transform_to_interval(c: Any) -> Transform:
    """σ(x), stretched from the lower to the upper bound."""
    bounds = (c.lower_bound, c.upper_bound)
    if all(isinstance(b, int | float) for b in bounds) and bounds == (0, 1):
        return transforms.SigmoidTransform()
    return _compose_affine(c.lower_bound, c.upper_bound - c.lower_bound, transforms.SigmoidTransform())


# Of a class of constraints the transform, the same in both registries.
_COMMON_FACTORIES: dict[type[Constraint] | Constraint, Factory] = {
    constraints.real: lambda c: transforms.identity_transform,
    constraints.greater_than: lambda c: _compose_affine(c.lower_bound, 1, transforms.ExpTransform()),
    constraints.greater_than_eq: lambda c: _compose_affine(c.lower_bound, 1, transforms.ExpTransform()),
    constraints.less_than: lambda c: _compose_affine(c.upper_bound, -1, transforms.ExpTransform()),
    constraints.interval: _transform_to_interval,
    constraints.half_open_interval: _transform_to_interval,
    constraints.corr_cholesky: lambda c: transforms.CorrCholeskyTransform(),
}


def _register_common() -> None:
    for registry in (biject_to, transform_to):
        for constraint, factory in _COMMON_FACTORIES.items():
            registry.register(constraint, factory)
        _register_parts(registry)
    biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
    transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
    transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
    for definite in (constraints.positive_definite, constraints.positive_semidefinite):
        transform_to.register(definite, lambda c: transforms.PositiveDefiniteTransform())


def _register_parts(registry: ConstraintRegistry) -> None:
    """Register the transforms of composed constraints: the registry's own transforms of their parts."""

    def to_independent(c: Any) -> Transform:
        return transforms.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims)

    def to_cat(c: Any) -> Transform:
        return transforms.CatTransform([registry(part) for part in c.cseq], c.dim, c.lengths)

    def to_stack(c: Any) -> Transform:
        return transforms.StackTransform([registry(part) for part in c.cseq], c.dim)

    registry.register(constraints.independent, to_independent)
    registry.register(constraints.cat, to_cat)
    registry.register(constraints.stack, to_stack)


_register_common()

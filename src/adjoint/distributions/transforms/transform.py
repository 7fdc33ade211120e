"""The base class of transforms, inverses and compositions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import StateDict
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import Constraint, dependent_formula
from adjoint.distributions.parameters import formula, lazy_property, sum_rightmost
from adjoint.functions.creation import creation

Shape = tuple[int, ...]


class Transform:
    """y = f(x), from `domain` to `codomain`, with log |det dy/dx|.

    Where f is not one to one, `bijective` is False, and the inverse picks an x; `sign` is that of a monotone f. With a
    `cache_size` of 1, x is remembered for its y and y for its x. Raises ValueError for any other size but 0.
    """

    bijective: bool = False
    domain: Constraint
    codomain: Constraint
    _settings: tuple[str, ...]  # the attributes that the constructor takes, before `cache_size`

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Transform | None = None
        self._cached_x_y: tuple[Any, Any] = (None, None)

    def __getstate__(self) -> StateDict:
        return {**vars(self), "_inv": None}

    @property
    def event_dim(self) -> int:
        """The dimensions of an event on both sides. Raises ValueError where they differ."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def sign(self) -> Tensor | int:
        """The sign of dy/dx. Raises NotImplementedError where it is not the same everywhere."""
        raise NotImplementedError(f"{self.__class__.__name__} is not monotone")

    @property
    def inv(self) -> Transform:
        """The inverse transform."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return this transform with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        owner = next((c for c in type(self).__mro__ if "_settings" in vars(c)), None)
        if owner is None:
            raise NotImplementedError(f"{type(self)}.with_cache is not implemented")
        return owner(*[getattr(self, name) for name in self._settings], cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return self._equals(other)

    __hash__ = None  # type: ignore[assignment]  # the settings may be tensors

    def _equals(self, other: object) -> bool:
        return self is other

    def __call__(self, x: Tensor) -> Tensor:
        old, known = self._cached_x_y
        if self._cache_size and x is old:
            return known
        y = self._call(x)
        self._cache_pair(x, y)
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        known, old = self._cached_x_y
        if self._cache_size and y is old:
            return known
        x = self._inverse(y)
        self._cache_pair(x, y)
        return x

    def _cache_pair(self, x: Tensor, y: Tensor) -> None:
        if self._cache_size:
            self._cached_x_y = (x, y)

    def _call(self, x: Tensor) -> Tensor:
        """y of x."""
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        """x of y."""
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det dy/dx| at x, where y is its image."""
        raise NotImplementedError

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of y for that of x."""
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of x for that of y."""
        return shape

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"


class _InverseTransform(Transform):
    """The inverse of another transform."""

    _inv: Transform

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self) -> StateDict:
        return vars(self)

    domain = dependent_formula("The codomain of the other.", lambda t: t._inv.codomain, is_discrete=False)
    codomain = dependent_formula("The domain of the other.", lambda t: t._inv.domain, is_discrete=False)

    bijective = formula("True if the other transform is bijective.", lambda t: t._inv.bijective)
    sign = formula("The sign of the other transform.", lambda t: t._inv.sign)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the inverse of the other transform with a cache."""
        return self.inv.with_cache(cache_size).inv

    def _equals(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-log |det dx/dy|."""
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of the other transform's input."""
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of the other transform's output."""
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """The composition f_n(… f₂(f₁(x))) of the `parts`, which share the caching."""

    _settings = ("parts",)

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def _equals(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    domain = dependent_formula(
        "The domain of the first part, over as many dimensions as the later parts need.",
        lambda t: t._end_constraint([(p.codomain, p.domain) for p in reversed(t.parts)]),
        is_discrete=False,
    )

    codomain = dependent_formula(
        "The codomain of the last part, over as many dimensions as the earlier parts make.",
        lambda t: t._end_constraint([(p.domain, p.codomain) for p in t.parts]),
        is_discrete=False,
    )

    def _end_constraint(self, steps: Sequence[tuple[Constraint, Constraint]]) -> Constraint:
        """The constraint at the end of the steps, each from a constraint to a constraint."""
        if not steps:
            return constraints.real
        dims, end = steps[0][0].event_dim, steps[-1][1]
        for before, after in steps:
            dims = max(dims + after.event_dim - before.event_dim, after.event_dim)
        return constraints.independent(end, dims - end.event_dim) if dims > end.event_dim else end

    @lazy_property
    def bijective(self) -> bool:
        """True if all parts are bijective."""
        return all(p.bijective for p in self.parts)

    @lazy_property
    def sign(self) -> int:
        """The product of the signs of the parts."""
        return functools.reduce(operator.mul, (p.sign for p in self.parts), 1)

    @property
    def inv(self) -> Transform:
        """The composition of the inverses in reverse order."""
        if self._inv is None:
            self._inv = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of the terms of the parts, each summed over the dimensions of the whole's events."""
        if not self.parts:
            return creation.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        terms, dims = [], self.domain.event_dim
        for part, before, after in zip(self.parts, values, values[1:], strict=False):
            term = part.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(term, dims - part.domain.event_dim))
            dims += part.codomain.event_dim - part.domain.event_dim
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape: Shape) -> Shape:
        """Through all parts."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """Back through all parts."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(p) for p in self.parts)
        return f"{self.__class__.__name__}(\n    {parts}\n)"


identity_transform = ComposeTransform([])

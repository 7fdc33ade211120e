"""Transforms of the parts of a tensor, and by the cdf of a distribution."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import dependent_formula
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.parameters import formula, lazy_property, sum_rightmost
from adjoint.distributions.transforms.transform import Transform
from adjoint.functions.shape import join


class _JoinedTransform(Transform):
    """Transforms of parts along `dim`."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    bijective = formula("True if all transforms are bijective.", lambda t: all(part.bijective for part in t.transforms))

    def _check_and_split(self, value: Tensor, name: str = "tensor") -> Sequence[Tensor]:
        """Split `value` into the parts of the transforms. Raises AssertionError where the sizes do not fit."""
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for {name} with {value.dim()} dimensions")
        return self._split(value)

    def _split(self, value: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._join([t(part) for t, part in zip(self.transforms, self._check_and_split(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._check_and_split(y), strict=True)])

    def _log_abs_det_jacobians(self, x: Tensor, y: Tensor) -> list[Tensor]:
        parts = zip(self.transforms, self._check_and_split(x, "x"), self._check_and_split(y, "y"), strict=True)
        return [t.log_abs_det_jacobian(before, after) for t, before, after in parts]


class CatTransform(_JoinedTransform):
    """Transforms of parts of given lengths along `dim`, joined again.

    Raises: AssertionError for lengths that do not fit.
    """

    _settings = ("transforms", "dim", "lengths")

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @lazy_property
    def event_dim(self) -> int:
        """The largest of the transforms."""
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        """The sum of the lengths."""
        return sum(self.lengths)

    def _split(self, value: Tensor) -> Sequence[Tensor]:
        if value.size(self.dim) != self.length:
            raise AssertionError(f"x.size({self.dim}) = {value.size(self.dim)} must equal length {self.length}")
        return value.split(self.lengths, self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return join.cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The terms of the parts, joined, or summed where `dim` is within an event."""
        terms = [
            sum_rightmost(term, self.event_dim - t.event_dim)
            for t, term in zip(self.transforms, self._log_abs_det_jacobians(x, y), strict=True)
        ]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return join.cat(terms, dim=dim) if dim < 0 else functools.reduce(operator.add, terms)

    domain = dependent_formula(
        "The domains, joined.", lambda c: constraints.cat([t.domain for t in c.transforms], c.dim, c.lengths)
    )

    codomain = dependent_formula(
        "The codomains, joined.", lambda c: constraints.cat([t.codomain for t in c.transforms], c.dim, c.lengths)
    )


class StackTransform(_JoinedTransform):
    """Transforms of the slices along `dim`, stacked again. Raises AssertionError for another number of slices."""

    _settings = ("transforms", "dim")

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def _split(self, value: Tensor) -> Sequence[Tensor]:
        count = len(self.transforms)
        if value.size(self.dim) != count:
            raise AssertionError(f"x.size({self.dim}) = {value.size(self.dim)} must equal len(transforms) {count}")
        return value.unbind(self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return join.stack(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The terms of the parts, stacked."""
        return self._join(self._log_abs_det_jacobians(x, y))

    domain = dependent_formula(
        "The domains, stacked.", lambda c: constraints.stack([t.domain for t in c.transforms], c.dim)
    )

    codomain = dependent_formula(
        "The codomains, stacked.", lambda c: constraints.stack([t.codomain for t in c.transforms], c.dim)
    )


class CumulativeDistributionTransform(Transform):
    """y = P[X ≤ x] for X of `distribution`."""

    _settings = ("distribution",)
    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    domain = formula("The support of the distribution.", lambda t: t.distribution.support)

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log of the density at x."""
        return self.distribution.log_prob(x)

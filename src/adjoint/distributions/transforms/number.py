"""Transforms of single numbers."""

from __future__ import annotations

import math

from adjoint.core.dtype.dtype_info import finfo
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import dependent_formula
from adjoint.distributions.parameters import broadcast_all, formula, lazy_property, sum_rightmost
from adjoint.distributions.transforms.transform import Shape, Transform
from adjoint.functions.creation import creation
from adjoint.functions.elementwise.activation import softplus
from adjoint.functions.shape.shape import broadcast_shapes


class _FixedTransform(Transform):
    """A transform without settings: two of a class are equal."""

    def _equals(self, other: object) -> bool:
        return isinstance(other, type(self))


class _IncreasingTransform(_FixedTransform):
    """An increasing function of all real numbers."""

    domain = constraints.real
    bijective = True
    sign = +1


class ExpTransform(_IncreasingTransform):
    """y = eˣ."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """x."""
        return x


class SigmoidTransform(_IncreasingTransform):
    """y = 1 / (1 + e⁻ˣ), kept off 0 and 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        y = clip_probabilities(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log y(1 - y) = -softplus(-x) - softplus(x)."""
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_IncreasingTransform):
    """y = log(1 + eˣ)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x)."""
        return -softplus(-x)


class TanhTransform(_IncreasingTransform):
    """y = tanh x."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log(1 - tanh² x) = 2 (log 2 - x - softplus(-2x))."""
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(_FixedTransform):
    """y = |x|; the inverse gives the positive x."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """y = x^exponent for positive x."""

    _settings = ("exponent",)
    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self) -> Tensor:
        """The sign of the exponent."""
        return self.exponent.sign()

    def _equals(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |exponent · y / x|."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Size:
        """Broadcast with the exponent."""
        return broadcast_shapes(tuple(shape), tuple(self.exponent.shape))

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """y = loc + scale · x; `event_dim` dimensions are an event."""

    _settings = ("loc", "scale", "event_dim")
    bijective = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = formula("The dimensions of an event.", lambda t: t._event_dim)

    domain = dependent_formula(
        "Real events.",
        lambda t: constraints.independent(constraints.real, t.event_dim) if t.event_dim else constraints.real,
        is_discrete=False,
    )

    codomain = domain

    def _equals(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _is_equal(self.loc, other.loc) and _is_equal(self.scale, other.scale)

    @property
    def sign(self) -> Tensor | int:
        """The sign of the scale."""
        scale = self.scale
        return scale.sign() if isinstance(scale, Tensor) else (scale > 0) - (scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |scale|, summed over the event."""
        scale, shape = self.scale, tuple(x.shape)
        if isinstance(scale, Tensor):
            result = scale.abs().log()
        else:
            result = creation.full_like(x, math.log(abs(scale)))
        if self.event_dim:
            result, shape = sum_rightmost(result, self.event_dim), shape[: -self.event_dim]
        return result.expand(shape)

    def forward_shape(self, shape: Shape) -> Size:
        """Broadcast with loc and scale."""
        settings = (tuple(getattr(v, "shape", ())) for v in (self.loc, self.scale))
        return broadcast_shapes(tuple(shape), *settings)

    inverse_shape = forward_shape


def clip_probabilities(p: Tensor) -> Tensor:
    """Clamp probabilities away from 0, by the smallest normal number, and from 1."""
    limits = finfo(p.dtype)
    return p.clamp(min=limits.tiny, max=1.0 - limits.eps)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e⁻ˣ), kept off 0 and 1."""
    return clip_probabilities(x.sigmoid())


def _is_equal(a: Tensor | float, b: Tensor | float) -> bool:
    equal = a == b
    return bool(equal.all()) if isinstance(equal, Tensor) else bool(equal)

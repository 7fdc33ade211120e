"""Draws of further distributions, and the gradients of gamma and Dirichlet numbers by their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec, broadcast_shapes
from adjoint.core.random import samplers
from adjoint.core.typing import Array, NumpyDtype, Operand, Shape
from adjoint.ops.movement import movement
from adjoint.ops.random.draws import draw_op
from adjoint.ops.reduction import reduction
from adjoint.ops.special import implicit_reparam

if TYPE_CHECKING:
    from adjoint.core.random.generator import Generator
    from adjoint.core.tensor.tensor import Tensor


def _like(x: Operand, *rest: Any, **_: object) -> Spec:
    return Spec(broadcast_shapes(x.shape, *(y.shape for y in rest)), x.dtype)


@draw_op
def cauchy(*, shape: Shape, dtype: NumpyDtype, median: float, sigma: float, generator: Generator) -> Array:
    """Cauchy numbers with this median and half width at half height."""
    return samplers.cauchy(generator, shape, dtype, median, sigma)


@draw_op
def log_normal(*, shape: Shape, dtype: NumpyDtype, mean: float, std: float, generator: Generator) -> Array:
    """Numbers whose logarithm is normal with this mean and standard deviation."""
    return samplers.log_normal(generator, shape, dtype, mean, std)


@draw_op
def geometric(*, shape: Shape, dtype: NumpyDtype, p: float, generator: Generator) -> Array:
    """The number of trials up to the first success, at probability p each."""
    return samplers.geometric(generator, shape, dtype, p)


@primitive(family="random", effect=True, raises=True, spec=_like, drate=lambda g: g * 0.0)
def poisson(rate: Array, *, generator: Generator) -> Array:
    """Poisson numbers of the rates."""
    return samplers.poisson(generator, rate)


@primitive(family="random", effect=True, raises=True, spec=_like)
def binomial(count: Array, chance: Array, *, generator: Generator) -> Array:
    """The number of successes in `count` trials of this chance."""
    return samplers.binomial(generator, count, chance)


@primitive(
    family="random",
    effect=True,
    raises=True,
    spec=lambda weights, *, count, **_: Spec((*weights.shape[:-1], count), np.dtype(np.int64)),
)
def multinomial(weights: Array, *, count: int, replacement: bool, by_column: bool, generator: Generator) -> Array:
    """Positions along the last dimension, each as likely as its weight."""
    return samplers.multinomial(generator, weights, count, replacement, by_column)


@primitive(
    family="random",
    effect=True,
    raises=True,
    spec=_like,
    node="StandardGammaBackward0",
    dshape=lambda g, shape, out: g * standard_gamma_gradient(shape, out),
)
def standard_gamma(shape: Array, *, generator: Generator) -> Array:
    """Gamma numbers of these shapes with scale 1."""
    return samplers.standard_gamma(generator, shape)


@primitive(spec=_like)
def standard_gamma_gradient(shape: Array, sample: Array) -> Array:
    """The derivative of a gamma number by its shape, at a constant quantile."""
    return implicit_reparam.gamma_gradient(shape, sample)


@primitive(
    family="random",
    effect=True,
    raises=True,
    spec=_like,
    dconcentration=lambda g, concentration, out: _dirichlet_rule(g, concentration, out),
)
def dirichlet(concentration: Array, *, generator: Generator) -> Array:
    """Dirichlet numbers along the last dimension."""
    return samplers.dirichlet(generator, concentration)


@primitive(spec=_like)
def dirichlet_gradient(sample: Array, concentration: Array, total: Array) -> Array:
    """The derivative of a Dirichlet number by its concentration, at a constant quantile, over 1 less the number."""
    return implicit_reparam.dirichlet_gradient(sample, concentration, total)


def _dirichlet_rule(g: Operand, concentration: Operand, x: Operand) -> Tensor:
    total = movement.expand(reduction.sum(concentration, axes=(-1 % concentration.ndim,), keepdims=True), shape=x.shape)
    weighed = reduction.sum(x * g, axes=(-1 % x.ndim,), keepdims=True)
    return dirichlet_gradient(x, concentration, total) * (g - weighed)

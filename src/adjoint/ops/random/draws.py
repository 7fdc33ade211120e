"""Draws from a generator: ops with an effect, so that a compiled step draws the same numbers in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.random import samplers
from adjoint.core.random.generator import Generator
from adjoint.core.typing import Array, NumpyDtype, Operand, Shape

if TYPE_CHECKING:
    from adjoint.core.random.generator import Generator


# declares an op of a shape, a dtype, the settings of a distribution, and a generator
draw_op = primitive(family="random", effect=True, spec=lambda *, shape, dtype, **_: Spec(shape, dtype))


@draw_op
def uniform(*, shape: Shape, dtype: NumpyDtype, low: float, high: float, generator: Generator) -> Array:
    """Uniform over [low, high)."""
    return generator.uniform(shape, dtype, low, high)


@draw_op
def normal(*, shape: Shape, dtype: NumpyDtype, mean: float, std: float, generator: Generator) -> Operand:
    """Normal with this mean and standard deviation."""
    return generator.normal(shape, dtype, mean, std)


@draw_op
def serial_normal(*, shape: Shape, dtype: NumpyDtype, mean: float, std: float, generator: Generator) -> Array:
    """Normal with this mean and standard deviation, drawn in pairs for any size, as PyTorch fills memory with gaps."""
    return samplers.serial_normal(generator, shape, dtype, mean, std)


@primitive(spec=lambda std: Spec(std.shape, std.dtype), raises=True)
def standard_deviation(std: Array) -> Array:
    """std itself. Raises RuntimeError for a negative one."""
    if not np.greater_equal(std, 0).all():
        raise RuntimeError("normal expects all elements of std >= 0.0")
    return std.copy()


@draw_op
def random_integers(*, shape: Shape, dtype: NumpyDtype, low: int | None, generator: Generator) -> Array:
    """Integers from `low` to the largest of the dtype; None is for `random_`: from 0, with the fewest words."""
    return generator.random(shape, dtype) if low is None else generator.randint(low, None, shape, dtype)


@draw_op
def randint(*, shape: Shape, dtype: NumpyDtype, low: int, high: int, generator: Generator) -> Array:
    """Integers of [low, high), all equally likely."""
    return generator.randint(low, high, shape, dtype)


@primitive(family="random", effect=True, spec=lambda *, count, dtype, generator: Spec((count,), dtype))
def randperm(*, count: int, dtype: NumpyDtype, generator: Generator) -> Array:
    """The integers below `count` in random order."""
    return generator.randperm(count, dtype)


@primitive(
    family="random",
    effect=True,
    raises=True,
    spec=lambda p, *, dtype, generator: Spec(p.shape, dtype),
    dp=lambda g: g * 0.0,
)
def bernoulli(p: Array, *, dtype: NumpyDtype, generator: Generator) -> Array:
    """1 with the probability p of the element, else 0."""
    return generator.bernoulli(p.shape, p, dtype)


@draw_op
def coin(*, shape: Shape, dtype: NumpyDtype, p: float, generator: Generator) -> Array:
    """1 with probability p, else 0."""
    return generator.bernoulli(shape, p, dtype)


@draw_op
def exponential(*, shape: Shape, dtype: NumpyDtype, rate: float, generator: Generator) -> Array:
    """Exponential with this rate."""
    return generator.exponential(shape, dtype, rate)


@draw_op
def dropout_factor(*, shape: Shape, dtype: NumpyDtype, p: float, generator: Generator) -> Array:
    """0 with probability p, else 1 / (1 - p)."""
    return generator.dropout(shape, p, dtype)


@primitive(family="random", effect=True, spec=lambda x, *, low, high, generator: Spec(x.shape, x.dtype))
def rrelu_slopes(x: Array, *, low: float, high: float, generator: Generator) -> Array:
    """1 where x > 0, else uniform over [low, high): one draw for each element that is not above 0, in order."""
    below = np.less_equal(x, 0)
    out = np.ones(x.shape, x.dtype)
    out[below] = generator.uniform((int(below.sum()),), np.float64, low, high)
    return out

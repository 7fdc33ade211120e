"""Activation functions that let through, shrink or gate: soft and hard ones, with learned and computed slopes."""

from __future__ import annotations

import numpy as np

from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.elementwise_composite import elementwise_composite
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.random.generator import default_generator
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand
from adjoint.functions.api.compute_dtype import autocast_lower, in_float32
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.out import with_out
from adjoint.functions.elementwise.activation import apply_in_place, softmax
from adjoint.functions.shape.split import split
from adjoint.ops.elementwise import arithmetic, comparison, select, transcendental
from adjoint.ops.indexing import scatter
from adjoint.ops.movement import movement
from adjoint.ops.nn import activation as ops
from adjoint.ops.random import draws

__all__ = ["celu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "mish", "prelu", "softshrink"]
__all__ += ["softsign"]


@in_float32
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x where x > 0, else alpha (e^(x / alpha) - 1).

    Args:
        input: tensor of real numbers.
        alpha: negative of the limit on the left, not 0. Default: 1.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Raises: RuntimeError for an alpha of 0.

    Source: Barron, 2017.

    Example:
        >>> F.celu(ad.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    if inplace:
        return apply_in_place(lambda x: ops.celu(x, alpha=alpha), input, "celu_")
    return ops.celu(input, alpha=alpha)


@with_out
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return x where |x| > lambd, else 0.

    Args:
        input: tensor of real numbers.
        lambd: size up to which numbers become 0. Default: 0.5.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> F.hardshrink(ad.tensor([-1.0, 0.25, 2.0]))
        tensor([-1.,  0.,  2.])
    """
    return ops.hardshrink(input, lambd=lambd)


@with_out
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return x moved towards 0 by lambd, and 0 where |x| ≤ lambd.

    Args:
        input: tensor of real numbers.
        lambd: distance to move, at least 0. Default: 0.5.

    Shapes:
        input of any shape -> the same shape

    Raises: RuntimeError for lambd < 0.

    Example:
        >>> F.softshrink(ad.tensor([-1.0, 0.25, 2.0]))
        tensor([-0.5000,  0.0000,  1.5000])
    """
    if lambd < 0:
        raise RuntimeError(f"lambda must be in range [0, inf), but found {lambd}")
    return ops.softshrink(input, lambd=lambd)


def softsign(input: Tensor) -> Tensor:
    """Return x / (1 + |x|).

    Args:
        input: tensor of real numbers.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> F.softsign(ad.tensor([-1.0, 3.0]))
        tensor([-0.5000,  0.7500])
    """
    return arithmetic.div(input, arithmetic.add(arithmetic.abs(input), 1.0))


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x / 6 + 1/2, clamped to [0, 1]; at the limits the gradient is 0.

    Args:
        input: tensor of real numbers.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> F.hardsigmoid(ad.tensor([-4.0, 0.0, 1.5]))
        tensor([0.0000, 0.5000, 0.7500])
    """
    if inplace:
        return apply_in_place(ops.hardsigmoid, input, "hardsigmoid_")
    return ops.hardsigmoid(input)


@in_float32
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x (x + 3) / 6 between -3 and 3, 0 below and x above.

    Args:
        input: tensor of real numbers.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Source: Howard et al., 2019.

    Example:
        >>> F.hardswish(ad.tensor([-4.0, 1.0, 5.0]))
        tensor([0.0000, 0.6667, 5.0000])
    """
    if inplace:
        return apply_in_place(ops.hardswish, input, "hardswish_")
    return ops.hardswish(input)


@in_float32
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x tanh(ln(1 + eˣ)).

    Args:
        input: tensor of real numbers.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Source: Misra, 2019.

    Example:
        >>> F.mish(ad.tensor([-1.0, 2.0]))
        tensor([-0.3034,  1.9440])
    """
    if inplace:
        return apply_in_place(ops.mish, input, "mish_")
    return ops.mish(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return a σ(b) of the two halves a and b along `dim`.

    Args:
        input: tensor of floating point numbers.
        dim: dimension to halve, of even size. Default: -1.

    Shapes:
        input (…, 2 N) -> (…, N), along `dim`

    Raises: RuntimeError for odd sizes.

    Source: Dauphin et al., 2016.

    Example:
        >>> F.glu(ad.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """
    if not input.ndim:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    axis = one_dim(dim, input.ndim)
    size = input.array.shape[axis]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {size}")
    out: Tensor = _gate_half(input, axis=axis)
    return out


def _gate_half_composite(x: Tensor, *, axis: int) -> Tensor:
    size = x.shape[axis] // 2
    a, b = split(x, [size, size], axis)
    gate = transcendental.sigmoid(b)
    return arithmetic.mul(a, gate)


def _gate_half_dx(g: Operand, x: Operand, axis: int) -> Operand:
    if isinstance(g, np.ndarray):
        out = np.empty(x.shape, x.dtype)
        (a, b), (da, db) = _halves(x, axis), _halves(out, axis)
        gate = _sigmoid(b)
        np.multiply(g, gate, da)
        np.multiply(da, a, db)
        db *= 1 - gate
        return out
    value, control = split(x, [x.shape[axis] // 2] * 2, axis)
    share = transcendental.sigmoid(control)
    through = arithmetic.mul(g, share)
    return movement.cat(through, arithmetic.mul(arithmetic.mul(through, value), 1.0 - share), axis=axis)


@with_eager_fast_path(composite=_gate_half_composite, node="GluBackward0", dx=_gate_half_dx, preserves_strides=True)
def _gate_half(x: Array, *, axis: int) -> Operand:
    a, b = _halves(x, axis)
    return a * _sigmoid(b)


def _halves(x: Array, axis: int) -> tuple[Array, Array]:
    lead, half = (slice(None),) * axis, x.shape[axis] // 2
    return x[(*lead, slice(half))], x[(*lead, slice(half, None))]


_sigmoid = op_of(transcendental.sigmoid).evaluate


@autocast_lower
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return x where x > 0, else weight · x, with one weight for all or one for each channel (dimension 1).

    Raises RuntimeError for other numbers of weights. Source: He et al., 2015.
    """
    shape = input.array.shape
    channels = shape[1] if len(shape) > 1 else 1
    if weight.numel() not in (1, channels) or weight.ndim > 1:
        raise RuntimeError(
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
            f"{weight.numel()} and channel size = {channels}."
        )
    if weight.ndim and len(shape) != 1:
        weight = movement.reshape(weight, shape=(1, weight.numel(), *(1 for _ in shape[2:])) if len(shape) > 1 else ())
    out: Tensor = _slope_negative(input, weight)
    return out


@elementwise_composite(
    node="PreluKernelBackward0",
    same_bits=True,
    small=lambda x, weight: select.select_elements(x > 0, x, weight * x),
    dx=lambda g, x, weight: select.where(comparison.gt(x, 0.0), g, arithmetic.mul(weight, g)),
    dweight=lambda g, x: select.where(comparison.gt(x, 0.0), 0.0, arithmetic.mul(g, x)),
)
def _slope_negative(x: Tensor, weight: Tensor) -> Operand:
    return select.where(comparison.gt(x, 0.0), x, arithmetic.mul(weight, x))


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """softmax((x + g) / tau) along `dim`, g standard Gumbel; `hard` gives 1 for the largest, with the same gradient.

    Shapes:
        logits of any shape -> the same shape

    Source: Jang et al., 2017; Maddison et al., 2017.
    """
    if eps != 1e-10:
        warn_user("`eps` parameter is deprecated and has no effect.")
    drawn = draws.exponential(shape=logits.array.shape, dtype=logits.array.dtype, rate=1.0, generator=default_generator)
    noise = arithmetic.neg(transcendental.log(drawn))
    soft = softmax(arithmetic.div(arithmetic.add(logits, noise), tau), dim)
    if not hard:
        return soft
    axis = one_dim(dim, logits.ndim)
    best = soft.detach().argmax(axis, True)
    zeros = arithmetic.mul(soft.detach(), 0.0)
    chosen = scatter.scatter(select.copy(zeros), 1.0, best, axis=axis)
    return arithmetic.add(arithmetic.sub(chosen, soft.detach()), soft)

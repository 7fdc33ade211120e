"""Activation functions and the softmax family."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider, with_eager_kernel
from adjoint.core.op.elementwise_composite import elementwise_composite, with_elementwise_kernel
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, DtypeLike, Operand
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.out import with_out, write_out
from adjoint.functions.api.publish import in_place, public, rename_node
from adjoint.ops.elementwise import arithmetic, select, transcendental
from adjoint.ops.nn import activation as ops
from adjoint.ops.reduction import reduction
from adjoint.ops.reduction.summation import add_up
from adjoint.ops.special.erf import erf_array

__all__ = [
    "elu", "gelu", "hardtanh", "leaky_relu", "log_softmax", "logsigmoid", "relu6", "selu", "silu", "softmax",
    "softmin", "softplus", "tanhshrink",
]  # fmt: skip

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
MAX_TRANSPOSED_ELEMENTS = 2**12  # elements that are copied sooner than NumPy's calls take
GELU, GELU_DX, SILU = SmallArrayKernel("gelu"), SmallArrayKernel("gelu_dx"), SmallArrayKernel("silu")
SOFTMAX, SOFTMAX_DX = SmallArrayKernel("softmax"), SmallArrayKernel("softmax_dx")
LOG_SOFTMAX, LOG_SOFTMAX_DX = SmallArrayKernel("log_softmax"), SmallArrayKernel("log_softmax_dx")


def apply_in_place(function: Callable[[Tensor], Tensor], input: Tensor, name: str) -> Tensor:
    """Write what a function of a tensor gives into it; the gradient needs the values that are overwritten."""
    out = function(select.copy(input))
    return in_place(lambda _: out, name)(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return x where x > 0, else negative_slope · x.

    Args:
        input: tensor of real numbers.
        negative_slope: factor of negative numbers. Default: 0.01.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> F.leaky_relu(ad.tensor([-1.0, 2.0]))
        tensor([-0.0100,  2.0000])
    """
    if inplace:
        return apply_in_place(lambda x: ops.leaky_relu(x, negative_slope=negative_slope), input, "leaky_relu_")
    return ops.leaky_relu(input, negative_slope=negative_slope)


@in_float32
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x where x > 0, else alpha (eˣ - 1).

    Args:
        input: tensor of real numbers.
        alpha: negative of the limit on the left. Default: 1.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Source: Clevert et al., 2016.

    Example:
        >>> F.elu(ad.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    if inplace:
        return apply_in_place(lambda x: ops.elu(x, alpha=alpha, scale=1.0), input, "elu_")
    return ops.elu(input, alpha=alpha, scale=1.0)


@in_float32
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return scale · elu(x, alpha) with the two constants that keep mean 0 and variance 1.

    Args:
        input: tensor of real numbers.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Source: Klambauer et al., 2017.

    Example:
        >>> F.selu(ad.tensor([-1.0, 2.0]))
        tensor([-1.1113,  2.1014])
    """
    if inplace:
        return apply_in_place(lambda x: ops.elu(x, alpha=SELU_ALPHA, scale=SELU_SCALE), input, "selu_")
    return ops.elu(input, alpha=SELU_ALPHA, scale=SELU_SCALE)


def _normal_cdf(x: Operand) -> Tensor:
    """Return Φ(x), the share of the normal distribution below x."""
    return (transcendental.erf(x * math.sqrt(0.5)) + 1.0) * 0.5


@with_eager_kernel(6e-8)
def _gelu_dx(g: Operand, x: Operand) -> Operand:
    if kernel_provider.enabled and (found := GELU_DX.call(g, x)) is not None:
        return found
    density = transcendental.exp(arithmetic.square(x) * -0.5) * (1 / math.sqrt(2 * math.pi))
    return g * (_normal_cdf(x) + x * density)


@with_eager_fast_path(
    composite=lambda x: x * _normal_cdf(x), native=6e-8, node="GeluBackward0", preserves_strides=True, dx=_gelu_dx
)
def _gelu(x: Array) -> Array:
    if kernel_provider.enabled and (found := GELU.call(x)) is not None:
        return found
    below = erf_array(x * math.sqrt(0.5))
    below += 1.0
    below *= 0.5
    return np.multiply(x, below)


GELU_CUBIC_COEFFICIENT = 0.044715


def _gelu_tanh_share(x: Operand) -> Tensor:
    """Return (1 + tanh u) / 2 as 1 / (1 + e⁻²ᵘ), which keeps its digits where tanh is nearly -1."""
    return transcendental.sigmoid((x + x * x * x * GELU_CUBIC_COEFFICIENT) * (2 * math.sqrt(2 / math.pi)))


@partial(with_elementwise_kernel, same_bits=False)
def _gelu_tanh_dx(g: Operand, x: Operand) -> Tensor:
    share = _gelu_tanh_share(x)
    steepness = (x * x * (3 * GELU_CUBIC_COEFFICIENT) + 1.0) * (2 * math.sqrt(2 / math.pi))
    return g * (share * (x * ((1.0 - share) * steepness) + 1.0))


@elementwise_composite(node="GeluBackward0", dx=_gelu_tanh_dx)
def _gelu_tanh(x: Operand) -> Operand:
    return x * _gelu_tanh_share(x)


def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """Return x Φ(x), with the normal distribution function Φ.

    Args:
        input: tensor of real numbers.
        approximate: "tanh" for an approximation by tanh. Default: "none".
        out: tensor that takes the result. Default: None.

    Shapes:
        input of any shape -> the same shape

    Raises: RuntimeError for other values of `approximate`, and for tensors that are not floating.

    Source: Hendrycks and Gimpel, 2016.

    Example:
        >>> F.gelu(ad.tensor([-1.0, 2.0]))
        tensor([-0.1587,  1.9545])
    """
    if out is not None:
        return write_out(out, gelu, input, approximate)
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    if input.array.dtype.kind not in "fV":
        raise RuntimeError(f"gelu: not implemented for {input.dtype}")
    return _gelu(input) if approximate == "none" else _gelu_tanh(input)


@partial(with_elementwise_kernel, same_bits=False)
def _silu_dx(g: Operand, x: Operand) -> Tensor:
    share = transcendental.sigmoid(x)
    return g * (share * (x * (1.0 - share) + 1.0))


@with_eager_fast_path(
    composite=lambda x: x * transcendental.sigmoid(x), node="SiluBackward0", preserves_strides=True, dx=_silu_dx
)
def _silu(x: Array) -> Array:
    if kernel_provider.enabled and (found := SILU.call(x)) is not None:
        return found
    return np.multiply(x, op_of(transcendental.sigmoid).evaluate(x))


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x / (1 + e⁻ˣ).

    Args:
        input: floating or complex tensor.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Raises: RuntimeError for integers.

    Example:
        >>> F.silu(ad.tensor([-1.0, 2.0]))
        tensor([-0.2689,  1.7616])
    """
    if input.array.dtype.kind not in "fVc":
        raise RuntimeError(f"silu: not implemented for {input.dtype}")
    if inplace:
        return apply_in_place(silu, input, "silu_")
    if input.array.dtype.kind == "c":
        return rename_node(arithmetic.mul(input, transcendental.sigmoid(input)), "SiluBackward0")
    return _silu(input)


@with_out
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return ln(1 + e^(beta x)) / beta, and x itself where beta x exceeds the threshold.

    Args:
        input: tensor of real numbers.
        beta: steepness. Default: 1.
        threshold: value of beta x beyond which the result is x. Default: 20.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> F.softplus(ad.tensor([-1.0, 0.0, 30.0]))
        tensor([ 0.3133,  0.6931, 30.0000])
    """
    return ops.softplus(input, beta=beta, threshold=threshold)


@with_out
def logsigmoid(input: Tensor) -> Tensor:
    """Return ln(1 / (1 + e⁻ˣ)), computed so that nothing overflows.

    Args:
        input: tensor of real numbers.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> F.logsigmoid(ad.tensor([-100.0, 0.0]))
        tensor([-100.0000,   -0.6931])
    """
    return ops.logsigmoid(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x clamped to [min_val, max_val]; at the limits the gradient is 0.

    Args:
        input: tensor of real numbers.
        min_val: lower limit. Default: -1.
        max_val: upper limit. Default: 1.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Raises: ValueError where min_val is larger than max_val.

    Example:
        >>> F.hardtanh(ad.tensor([-2.0, 0.5, 3.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.array.dtype.kind in "iu":
        min_val, max_val = int(min_val), int(max_val)
    if inplace:
        return apply_in_place(lambda x: ops.hardtanh(x, low=min_val, high=max_val), input, "hardtanh_")
    return ops.hardtanh(input, low=min_val, high=max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x clamped to [0, 6].

    Args:
        input: tensor of real numbers.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> F.relu6(ad.tensor([-1.0, 3.0, 8.0]))
        tensor([0., 3., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def tanhshrink(input: Tensor) -> Tensor:
    """Return x - tanh x.

    Args:
        input: tensor of real numbers.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> F.tanhshrink(ad.tensor([0.0, 1.0]))
        tensor([0.0000, 0.2384])
    """
    return arithmetic.sub(input, transcendental.tanh(input))


def _call_along(kernel: SmallArrayKernel, axis: int, *operands: Operand) -> Array | None:
    """Call a kernel of rows along a dimension of arrays: small ones are laid out anew where another one is last."""
    first = operands[0]
    if axis == len(first.shape) - 1:
        return kernel.call(*operands)
    for x in operands:
        if type(x) is not np.ndarray or x.size > MAX_TRANSPOSED_ELEMENTS:
            return None
    found: Array | None = kernel.call(*[x.swapaxes(axis, -1) for x in operands])
    return found if found is None else np.ascontiguousarray(found.swapaxes(axis, -1))


def _subtract_max(x: Tensor, axis: int) -> Tensor:
    """Return x less its largest element along `axis`, which carries no gradient; rows of -inf become NaN."""
    if 0 in x.array.shape:  # of nothing there is no largest
        return x
    return arithmetic.sub(x, reduction.max(x.detach(), axes=(axis,), keepdims=True))


def _softmax_composite(x: Tensor, *, axis: int) -> Tensor:
    e = transcendental.exp(_subtract_max(x, axis))
    return e / reduction.sum(e, axes=(axis,), keepdims=True)


@with_eager_kernel(5e-9)
def _softmax_dx(g: Operand, out: Operand, axis: int) -> Operand:
    if kernel_provider.enabled and (found := _call_along(SOFTMAX_DX, axis, g, out)) is not None:
        return found
    weighted = g * out
    return weighted - out * reduction.sum(weighted, axes=(axis,), keepdims=True)


@with_eager_fast_path(composite=_softmax_composite, native=5e-9, node="SoftmaxBackward0", dx=_softmax_dx)
def _softmax(x: Array, *, axis: int) -> Array:
    if kernel_provider.enabled and (found := _call_along(SOFTMAX, axis, x)) is not None:
        return found
    if not x.size:
        return x.copy()
    e = np.subtract(x, reduction.maximum_reduce(x, axis, None, None, True), order="C")
    np.exp(e, out=e)
    e /= add_up(e, (axis,), True)
    return e


def _log_softmax_composite(x: Tensor, *, axis: int) -> Tensor:
    shifted = _subtract_max(x, axis)
    return shifted - transcendental.log(reduction.sum(transcendental.exp(shifted), axes=(axis,), keepdims=True))


@with_eager_kernel(5e-9)
def _log_softmax_dx(g: Operand, out: Operand, axis: int) -> Operand:
    if kernel_provider.enabled and (found := _call_along(LOG_SOFTMAX_DX, axis, g, out)) is not None:
        return found
    return g - transcendental.exp(out) * reduction.sum(g, axes=(axis,), keepdims=True)


@with_eager_fast_path(composite=_log_softmax_composite, native=5e-9, node="LogSoftmaxBackward0", dx=_log_softmax_dx)
def _log_softmax(x: Array, *, axis: int) -> Array:
    if kernel_provider.enabled and (found := _call_along(LOG_SOFTMAX, axis, x)) is not None:
        return found
    if not x.size:
        return x.copy()
    shifted = np.subtract(x, reduction.maximum_reduce(x, axis, None, None, True), order="C")
    shifted -= np.log(add_up(np.exp(shifted), (axis,), True))
    return shifted


def _cast_or_check_floating(input: Tensor, dtype: DtypeLike, name: str) -> Tensor:
    x = input if dtype is None else input.to(dtype)
    if x.array.dtype.kind not in "fV":
        raise NotImplementedError(f'"{name}" not implemented for {x.dtype}')
    return x


@public()
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DtypeLike = None) -> Tensor:
    """Return eˣ / Σ eˣ along `dim`: positive numbers whose sum along `dim` is 1.

    The largest element is subtracted first, so that nothing overflows.

    Args:
        input: floating tensor.
        dim: dimension of the sum. Default: 0 for tensors of 0, 1 or 3 dimensions, else 1.
        dtype: floating type to which `input` is converted first. Default: None, no conversion.

    Shapes:
        input of any shape -> the same shape

    Raises: RuntimeError for integers without a `dtype`.

    Example:
        >>> ad.softmax(ad.tensor([[1.0, 2.0, 3.0]]), dim=1)
        tensor([[0.0900, 0.2447, 0.6652]])
    """
    array = input.array
    x = input if dtype is None and array.dtype.kind == "f" else _cast_or_check_floating(input, dtype, "softmax")
    rank = len(array.shape)
    if not rank:
        one_dim(0 if dim is None else dim, 0)
        return arithmetic.add(arithmetic.mul(x, 0.0), 1.0)
    return _softmax(
        x, axis=rank - 1 if dim == -1 else one_dim(_default_softmax_dim(rank) if dim is None else dim, rank)
    )


@public()
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DtypeLike = None) -> Tensor:
    """Return x - ln Σ eˣ along `dim`, the logarithm of softmax.

    Args:
        input: tensor of floating point numbers.
        dim: dimension over which the results are normalized. Default: None, 0 for 0, 1 and 3 dimensions, else 1.
        dtype: dtype to compute in. Default: None, the input's.

    Shapes:
        input of any shape -> the same shape

    Raises: RuntimeError for integers.

    Example:
        >>> F.log_softmax(ad.tensor([0.0, 1.0]), dim=0)
        tensor([-1.3133, -0.3133])
    """
    array = input.array
    x = input if dtype is None and array.dtype.kind == "f" else _cast_or_check_floating(input, dtype, "log_softmax")
    rank = len(array.shape)
    if not rank:
        one_dim(0 if dim is None else dim, 0)
        return arithmetic.mul(x, 0.0)
    return _log_softmax(
        x, axis=rank - 1 if dim == -1 else one_dim(_default_softmax_dim(rank) if dim is None else dim, rank)
    )


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DtypeLike = None) -> Tensor:
    """Return e⁻ˣ / Σ e⁻ˣ along `dim`.

    Args:
        input: tensor of floating point numbers.
        dim: dimension over which the results are normalized. Default: None, 0 for 0, 1 and 3 dimensions, else 1.
        dtype: dtype to compute in. Default: None, the input's.

    Shapes:
        input of any shape -> the same shape

    Raises: RuntimeError for integers.

    Example:
        >>> F.softmin(ad.tensor([0.0, 1.0]), dim=0)
        tensor([0.7311, 0.2689])
    """
    return softmax(arithmetic.neg(input), dim, dtype=dtype)


def _default_softmax_dim(rank: int) -> int:
    """Return PyTorch's guess of the dimension: the first for 0, 1 and 3 dimensions, else the second."""
    return 0 if rank in (0, 1, 3) else 1

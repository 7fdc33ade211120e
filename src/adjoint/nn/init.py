"""First values of parameters. Each function writes into its tensor, unrecorded, and returns it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import ParamSpec

import numpy as np

from adjoint.core.random import samplers
from adjoint.core.random.generator import Generator, default_generator
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array
from adjoint.functions.api.memory_format import draw_in_memory_order, memory_order
from adjoint.ops.linalg import lapack

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal",
    "kaiming_normal_", "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal",
    "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_",
    "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip
P = ParamSpec("P")


def draw_truncated_from_normal(
    like: Tensor, mean: float, std: float, low: float, high: float, source: Generator
) -> Array:
    """Draw normal numbers, again where they lie outside [low, high]."""
    kind = like.array.dtype
    sample = _draw_normal(like, mean, std, source, not like.is_contiguous())
    first, last, gappy = kind.type(low), kind.type(high), memory_order(like) is not None
    while (outside := (sample < first) | (sample > last)).any():
        sample = np.where(outside, _draw_normal(like, mean, std, source, gappy), sample)
    return sample


def draw_truncated_from_uniform(
    like: Tensor, mean: float, std: float, low: float, high: float, source: Generator
) -> Array:
    """Draw uniform numbers of [low, high), again unless the density is above its peak times a uniform number."""
    kind = like.array.dtype
    wide = np.dtype(np.float32) if kind.itemsize == 2 else kind
    peak = -0.5 * ((max(low, min(mean, high)) - mean) / std) ** 2
    sample = np.zeros(like.shape, kind)
    pending = np.ones(like.shape, np.bool_)
    while pending.any():
        candidate = _draw_uniform(like, low, high, source)
        sample = np.where(pending, candidate, sample)
        density = candidate
        for step in (lambda x: x - mean, lambda x: x / std, np.square, lambda x: x * -0.5, lambda x: x - peak):
            density = step(density.astype(wide)).astype(kind)
        with np.errstate(divide="ignore"):
            pending &= np.log(_draw_uniform(like, 0.0, 1.0, source)) > density
    return sample


def _draw_normal(like: Tensor, mean: float, std: float, source: Generator, serial: bool) -> Array:
    kind = like.array.dtype
    if serial:
        return draw_in_memory_order(like, lambda n: wrap(samplers.serial_normal(source, n, kind, mean, std))).array
    return draw_in_memory_order(like, lambda n: wrap(source.normal(n, kind, mean, std))).array


def _draw_uniform(like: Tensor, low: float, high: float, source: Generator) -> Array:
    return draw_in_memory_order(like, lambda n: wrap(source.uniform(n, like.array.dtype, low, high))).array


GAINS = {"sigmoid": 1, "tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 3 / 4}
LINEAR_NONLINEARITIES = ("linear", *(f"{conv}{rank}d" for conv in ("conv", "conv_transpose") for rank in (1, 2, 3)))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with uniform random numbers in [a, b), and return it.

    Args:
        tensor: tensor to fill in place.
        a, b: bounds. Default: 0 and 1.
        generator: source of random numbers. Default: the global one.

    Example:
        >>> bool((nn.init.uniform_(ad.empty(3), 2.0, 3.0) >= 2).all())
        True
    """
    with ModeScope(recording=False):
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with normal random numbers, and return it.

    Args:
        tensor: tensor to fill in place.
        mean, std: mean and standard deviation. Default: 0 and 1.
        generator: source of random numbers. Default: the global one.

    Example:
        >>> nn.init.normal_(ad.empty(2, 3), std=0.02).shape
        adjoint.Size([2, 3])
    """
    with ModeScope(recording=False):
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a tensor with one value, and return it.

    Args:
        tensor: tensor to fill in place.
        val: number.

    Example:
        >>> nn.init.constant_(ad.empty(2), 0.5)
        tensor([0.5000, 0.5000])
    """
    with ModeScope(recording=False):
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill a tensor with ones, and return it."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill a tensor with zeros, and return it."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity, and return it. Raises ValueError unless there are two dimensions."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _assign_values(tensor, np.eye(*tensor.shape))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a weight with uniform random numbers within ±gain √(6 / (fan_in + fan_out)), and return it.

    Args:
        tensor: weight (out, in, …) to fill in place.
        gain: factor, as of `calculate_gain`. Default: 1.
        generator: source of random numbers. Default: the global one.

    Raises: ValueError for fewer than two dimensions.

    Source: Glorot and Bengio, 2010.

    Example:
        >>> bool((nn.init.xavier_uniform_(ad.empty(2, 4)).abs() <= 1).all())
        True
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a weight with normal random numbers of std gain √(2 / (fan_in + fan_out)), and return it.

    Args:
        tensor: weight (out, in, …) to fill in place.
        gain: factor, as of `calculate_gain`. Default: 1.
        generator: source of random numbers. Default: the global one.

    Raises: ValueError for fewer than two dimensions.

    Source: Glorot and Bengio, 2010.

    Example:
        >>> nn.init.xavier_normal_(ad.empty(2, 4)).shape
        adjoint.Size([2, 4])
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a weight with uniform random numbers within ±gain √(3 / fan), and return it.

    Args:
        tensor: weight (out, in, …) to fill in place.
        a: negative slope of a following leaky ReLU. Default: 0.
        mode: "fan_in" to preserve the variance in the forward pass, "fan_out" in the backward. Default: "fan_in".
        nonlinearity: name of the following function, for `calculate_gain`. Default: "leaky_relu".
        generator: source of random numbers. Default: the global one.

    Raises: ValueError for fewer than two dimensions, another mode and an unknown nonlinearity.

    Source: He et al., 2015.

    Example:
        >>> bool((nn.init.kaiming_uniform_(ad.empty(2, 6)).abs() <= 1).all())
        True
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a weight with normal random numbers of std gain / √fan, and return it.

    Args:
        tensor: weight (out, in, …) to fill in place.
        a, mode, nonlinearity: as for `kaiming_uniform_`. Default: 0, "fan_in" and "leaky_relu".
        generator: source of random numbers. Default: the global one.

    Raises: ValueError for fewer than two dimensions, another mode and an unknown nonlinearity.

    Source: He et al., 2015.

    Example:
        >>> nn.init.kaiming_normal_(ad.empty(8, 3, 5, 5), mode="fan_out", nonlinearity="relu").shape
        adjoint.Size([8, 3, 5, 5])
    """
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill a weight with a random matrix of orthonormal rows or columns, whichever are fewer, and return it.

    Args:
        tensor: weight to fill in place; dimensions after the first count as one.
        gain: factor. Default: 1.
        generator: source of random numbers. Default: the global one.

    Raises: ValueError for fewer than two dimensions.

    Source: Saxe, McClelland and Ganguli, 2013.

    Example:
        >>> q = nn.init.orthogonal_(ad.empty(2, 3))
        >>> bool((q @ q.T - ad.eye(2)).abs().max() < 1e-5)
        True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel() or tensor.is_meta:
        return tensor
    rows = tensor.shape[0]
    source = generator or default_generator
    drawn = source.normal((rows, tensor.numel() // rows), tensor.array.dtype)
    q, r = lapack.qr(drawn.T if rows < drawn.shape[1] else drawn)
    q = q * np.sign(np.diag(r))  # makes Q unique
    return _assign_values(tensor, (q.T if rows < drawn.shape[1] else q).reshape(tensor.shape) * gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with normal numbers of mean 0, and a share of zeros in each column. Raises ValueError unless 2-D.

    As in PyTorch the places come from the default generator, whatever `generator` is. Source: Martens, 2010.
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    if tensor.is_meta:
        return tensor
    zeros = math.ceil(sparsity * rows)
    normal_(tensor, 0.0, std, generator)
    places = [default_generator.randperm(rows)[:zeros] for _ in range(columns)]
    values = tensor.detach().numpy().copy()
    for column, rows_of_zeros in enumerate(places):
        values[rows_of_zeros, column] = 0
    return _assign_values(tensor, values)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight (out, in, K…) with the identity, in each group, as far as channels go.

    Raises ValueError unless there are three to five dimensions, the first divisible by `groups`.
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out, inputs, *size = tensor.shape
    if out % groups:
        raise ValueError("dim 0 must be divisible by groups")
    values = np.zeros(tensor.shape)
    for first in range(0, out, max(out // groups, 1)):
        for channel in range(min(out // groups, inputs)):
            values[(first + channel, channel, *(n // 2 for n in size))] = 1
    return _assign_values(tensor, values)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with normal random numbers given that they lie in [a, b], and return it.

    Args:
        tensor: tensor to fill in place.
        mean, std: mean and standard deviation before the truncation. Default: 0 and 1.
        a, b: bounds. Default: -2 and 2.
        generator: source of random numbers. Default: the global one.

    Example:
        >>> bool((nn.init.trunc_normal_(ad.empty(100)).abs() <= 2).all())
        True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    if tensor.is_meta:
        return tensor
    source = generator or default_generator
    inside = math.erf((b - mean) / std / math.sqrt(2)) / 2 - math.erf((a - mean) / std / math.sqrt(2)) / 2
    draw = draw_truncated_from_normal if inside > 0.3 else draw_truncated_from_uniform
    return _assign_values(tensor, draw(tensor, mean, std, a, b, source))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor by which a nonlinearity shrinks the standard deviation, inverted.

    Raises: ValueError for an unknown nonlinearity.
    """
    if nonlinearity in LINEAR_NONLINEARITIES:
        return 1
    if nonlinearity in GAINS:
        return GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, int | float):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


def _deprecated_alias(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    name = function.__name__.removesuffix("_")

    def call_with_warning(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    call_with_warning.__name__ = call_with_warning.__qualname__ = name
    call_with_warning.__doc__ = f"`{name}_` under the name it had once: it warns."
    return call_with_warning


uniform = _deprecated_alias(uniform_)
normal = _deprecated_alias(normal_)
constant = _deprecated_alias(constant_)
eye = _deprecated_alias(eye_)
dirac = _deprecated_alias(dirac_)
xavier_uniform = _deprecated_alias(xavier_uniform_)
xavier_normal = _deprecated_alias(xavier_normal_)
kaiming_uniform = _deprecated_alias(kaiming_uniform_)
kaiming_normal = _deprecated_alias(kaiming_normal_)
orthogonal = _deprecated_alias(orthogonal_)
sparse = _deprecated_alias(sparse_)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return fan_in and fan_out of a weight (out, in, K…): inputs of an output, and outputs of an input."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    out, inputs, *size = tensor.shape
    return inputs * math.prod(size), out * math.prod(size)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """Return the fan that `mode` names. Raises ValueError for another name."""
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {list(modes)}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _is_empty(tensor: Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def _assign_values(tensor: Tensor, values: Array) -> Tensor:
    with ModeScope(recording=False):
        return tensor.copy_(wrap(values))

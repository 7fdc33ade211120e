"""Normalisation to mean 0 and variance 1, over a layer's features or over a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjoint.core.op.elementwise_kernels import KERNEL_TYPES
from adjoint.core.op.op_timer import find_op_timer
from adjoint.core.op.recorder import is_evaluated_alone, wrap_unrecorded
from adjoint.core.runtime.mode import ModeScope, mode, nondefault
from adjoint.core.tensor.tensor import Tensor, tangents_of, wrap
from adjoint.core.typing import Operand
from adjoint.functions.api.channels_last import preserve_channels_last
from adjoint.functions.api.compute_dtype import in_float32, input_in_float32
from adjoint.functions.api.out import write_out
from adjoint.functions.api.quiet_write import mark_quiet_write, quiet_array
from adjoint.functions.elementwise.pointwise import clamp
from adjoint.functions.linalg.norms import norm
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.movement import movement
from adjoint.ops.nn.native_norms import move_statistic, normalize_by_statistics, normalize_rows
from adjoint.ops.nn.normalization import (
    moments,
    standardize,
    standardize_by_ops,
    standardize_groups,
    with_moments,
)
from adjoint.ops.nn.pooling import window_sum
from adjoint.ops.reduction.variance import unit_vectors

__all__ = ["batch_norm", "instance_norm", "layer_norm"]


@input_in_float32
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Return (x - mean) / √(var + eps) over the last dimensions, which are `normalized_shape`; then · weight + bias.

    Raises RuntimeError if the input does not end in `normalized_shape`. Source: Ba, Kiros & Hinton, 2016.
    """
    if (found := _try_rows(input, normalized_shape, weight, bias, eps)) is not None:
        return found
    check_floating("layer_norm", input)
    axes = normalized_axes(input, normalized_shape)
    form = standardize if can_use_one_op(input, weight, bias) else standardize_by_ops
    return form(input, weight, bias, axes=axes, eps=eps)


def _try_rows(
    input: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor | None:
    """Return `layer_norm` over the last dimension by native code; None where that is not for it."""
    if weight is None or bias is None or len(shape) != 1 or (nondefault.count and mode.alters_ops):
        return None
    x, w, b = input.array, weight.array, bias.array
    if type(x) is not np.ndarray or x.dtype not in KERNEL_TYPES or not w.shape == b.shape == x.shape[-1:] == (*shape,):
        return None
    rows = normalize_rows(x, w, b, eps)
    return None if rows is None else standardize(input, weight, bias, computed=rows, axes=(x.ndim - 1,), eps=eps)


def normalized_axes(input: Tensor, normalized_shape: Sequence[int]) -> tuple[int, ...]:
    """Return the last dimensions. Raises RuntimeError if their sizes are not those of `normalized_shape`."""
    shape, rank = tuple(normalized_shape), len(input.array.shape)
    if tuple(input.array.shape[rank - len(shape) :]) != shape or not shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*{''.join(f', {n}' for n in shape)}], "
            f"but got input of size{list(input.array.shape)}"
        )
    return tuple(range(rank - len(shape), rank))


def check_floating(name: str, input: Tensor) -> None:
    """Raise NotImplementedError for integers and truths."""
    if input.array.dtype.kind not in "fcV":
        raise NotImplementedError(f"{name} is not implemented for tensors of type {input.dtype}: convert with float()")


def scale_and_shift(x: Operand, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Return x · weight + bias, of those that are given, for the channels in dimension 1."""
    x = x if weight is None else arithmetic.mul(x, _beside_channels(weight, x))
    return x if bias is None else arithmetic.add(x, _beside_channels(bias, x))


def _beside_channels(t: Tensor, x: Tensor) -> Tensor:
    """Return a number for each channel so that it broadcasts with x."""
    rank = len(x.array.shape)
    return t if rank == 2 else movement.reshape(t, shape=(1, x.array.shape[1], *(1,) * (rank - 2)))


def can_use_one_op(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> bool:
    """True for an eager call of one type: compiled steps, forward mode and `vmap` see what it is made of."""
    if nondefault.count and mode.is_intercepted and find_op_timer() is None:
        return False
    dtype = x.array.dtype
    if dtype.kind not in "fV" or dtype.itemsize < 4:
        return False
    return (weight is None or weight.array.dtype == dtype) and (bias is None or bias.array.dtype == dtype)


@input_in_float32
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: Tensor | float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Return (x - mean) / √(var + eps) for each channel (dimension 1), then · weight + bias.

    Training takes the batch's statistics and moves the running ones towards them by `momentum`, in place; otherwise the
    running ones are taken. Raises ValueError for a batch with one value per channel, RuntimeError if a tensor does not
    have one element for each channel. Source: Ioffe & Szegedy, 2015.
    """
    if eps <= 0:
        raise ValueError(f"batch_norm eps must be positive, but got {eps}")
    return _normalize_channels(input, running_mean, running_var, weight, bias, training, momentum, eps)


@preserve_channels_last
def _normalize_channels(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: Tensor | float,
    eps: float,
) -> Tensor:
    shape = input.array.shape
    check_floating("batch_norm", input)
    if len(shape) == 1 and not shape[0]:
        return select.copy(input)
    if len(shape) < 2:
        raise RuntimeError(f"batch_norm: expected at least 2 dimensions, (N, C, ...), got {len(shape)}")
    given = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for name, tensor in given.items():
        if tensor is not None and tuple(tensor.array.shape) != (shape[1],):
            raise RuntimeError(f"batch_norm: {name} should contain {shape[1]} elements not {tensor.numel()}")
    in_forward_mode = nondefault.count and mode.forward_levels is not None and tangents_of(input) is not None
    if in_forward_mode and any(tangents_of(t) is not None for t in (running_mean, running_var)):
        raise RuntimeError("batch_norm is not differentiable wrt running_mean and running_var")
    axes = (0, *range(2, len(shape)))
    if training:
        count = movement.numel(tuple(shape[a] for a in axes))
        if count == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(shape)}")
        # One node with a gradient of its own, where nothing asks for the steps in between; else the ops one by one.
        if can_use_one_op(input, weight, bias):
            out = standardize(input, weight, bias, axes=axes, eps=eps)
            mean, var = moments(input, axes) if running_mean is not None else (input, input)
            weight = bias = None
        else:
            out, mean, var = with_moments(input, axes, eps)
        if running_mean is not None and running_var is not None and count:
            # The statistics have no history: they are written under the tensors, without the calls of ops, where nobody
            # could notice.
            if _try_quiet_update((running_mean, running_var), (mean, var), momentum, count):
                return scale_and_shift(out, weight, bias)
            with ModeScope(recording=False):
                _update_running_statistic(
                    running_mean, movement.reshape(mean.detach(), shape=running_mean.array.shape), momentum
                )
                unbiased = movement.reshape(var.detach(), shape=running_var.array.shape) * (count / (count - 1))
                _update_running_statistic(running_var, unbiased, momentum)
    elif running_mean is None or running_var is None:
        missing = "running_mean" if running_mean is None else "running_var"
        raise RuntimeError(f"batch_norm: {missing} must be defined in evaluation mode")
    else:
        normal = _try_running_statistics(input, running_mean, running_var, weight, bias, eps)
        if normal is not None:
            return normal
        mean, var = _beside_channels(running_mean, input), _beside_channels(running_var, input)
        out = arithmetic.sub(input, mean) * arithmetic.rsqrt(var + eps)
    return scale_and_shift(out, weight, bias)


def _try_running_statistics(
    input: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor | None:
    """Normalise by running statistics at once where no op is recorded; None where ops should do it."""
    for t in (input, mean, var, weight, bias):
        if t is not None and not is_evaluated_alone(t):
            return None
    w, b = (None if t is None else t.array for t in (weight, bias))
    out = normalize_by_statistics(input.array, mean.array, var.array, w, b, eps)
    return None if out is None else wrap_unrecorded(out)


def _try_quiet_update(
    running: tuple[Tensor, Tensor], batch: tuple[Tensor, Tensor], momentum: Tensor | float, count: int
) -> bool:
    """Let NumPy move the running mean and variance, as `_update_running_statistic` does, if nothing else changes."""
    if type(momentum) is not float:
        return False
    arrays = [quiet_array(t) for t in running]
    moves = [t.array for t in batch]
    writable = [array for array in arrays if array is not None]
    if len(writable) < 2 or any(type(new) is not np.ndarray for new in moves) or batch[0].node is not None:
        return False
    if any(new.dtype is not old.dtype for old, new in zip(writable, moves, strict=True)):
        return False
    for t, old, new, factor in zip(running, writable, moves, (1, count / (count - 1)), strict=True):
        batch_statistic = new.reshape(old.shape)
        if not move_statistic(old, batch_statistic, momentum, factor):
            old[...] = old * (1 - momentum) + batch_statistic * factor * momentum
        mark_quiet_write(t, old)
    return True


def _update_running_statistic(running: Tensor, batch: Tensor, momentum: Tensor | float) -> None:
    batch = select.cast(batch, dtype=running.array.dtype) if batch.array.dtype != running.array.dtype else batch
    old, new = running.array, batch.array
    if type(old) is np.ndarray is type(new) and type(momentum) is float and not mode.is_intercepted:  # three calls less
        moved = wrap(old * (1 - momentum) + new * momentum)
    else:
        moved = running * (1 - momentum) + batch * momentum
    running.copy_(moved)


@input_in_float32
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Return (x - mean) / √(var + eps) for each channel of each sample of (N, C, …), then · weight + bias.

    Statistics of the input move the running ones, by their average over the samples; without `use_input_stats` the
    running ones are taken. Raises ValueError where a channel of a sample has one value, RuntimeError as `batch_norm`
    does. Source: Ulyanov, Vedaldi & Lempitsky, 2016.
    """
    n, c, *rest = input.array.shape
    if not use_input_stats:
        return _normalize_channels(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if movement.numel(tuple(rest)) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {list(input.array.shape)}"
        )
    if running_mean is None and running_var is None and can_use_one_op(input, weight, bias):
        return standardize_groups(input, weight, bias, groups=c, eps=eps)
    mean, var = (None if t is None else t.repeat(n) for t in (running_mean, running_var))
    flat = movement.reshape(input, shape=(1, n * c, *rest))
    out = movement.reshape(
        _normalize_channels(flat, mean, var, None, None, True, momentum, eps), shape=input.array.shape
    )
    for given, moved in ((running_mean, mean), (running_var, var)):
        if given is not None and moved is not None:
            given.copy_(moved.reshape(n, c).mean(0))
    return scale_and_shift(out, weight, bias)


@in_float32
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Return x / max(‖x‖ₚ, eps) along `dim`."""
    if out is not None:
        return write_out(out, normalize, input, p, dim, eps)
    rank = len(input.array.shape)
    is_plain = type(dim) is int and type(eps) is float and input.array.dtype in KERNEL_TYPES
    if is_plain and p == 2 and eps > 0 and -rank <= dim < rank:
        return unit_vectors(input, axis=dim % rank, least=float(eps))
    return arithmetic.div(input, clamp(norm(input, p, dim, keepdim=True), min=eps))


@in_float32
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Return x / (k + alpha mean x²)ᵇᵉᵗᵃ of (N, C, …), the mean over `size` neighbouring channels.

    Channels that are missing at the ends count as 0. Raises ValueError below three dimensions. Source: Krizhevsky et
    al., 2012.
    """
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if not input.numel():
        return input
    rest = tuple(range(2, input.ndim))
    squared = arithmetic.mul(input, input)
    framed = movement.pad(squared, widths=((0, 0), (size // 2, (size - 1) // 2), *((0, 0) for _ in rest)))
    last = movement.permute(framed, axes=(0, *rest, 1))
    none = (0,)
    total: Operand = window_sum(last, size=(size,), stride=(1,), padding=none, dilation=(1,), extra=none)
    total = movement.permute(total, axes=(0, input.ndim - 1, *range(1, input.ndim - 1)))
    mean = total / float(size) if input.array.dtype.kind in "fV" else arithmetic.floor_divide(total, size)
    return arithmetic.div(input, arithmetic.pow(mean * alpha + k, beta))

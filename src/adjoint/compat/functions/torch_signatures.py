"""Functions of the top level whose arguments PyTorch orders otherwise than in `nn.functional`; and `detach`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.tensor import tensor as tensors
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.out import with_out
from adjoint.functions.nn import embedding as tables
from adjoint.functions.nn import grid_sample as grids
from adjoint.functions.nn import group_norm as normalizations
from adjoint.functions.nn import normalization
from adjoint.functions.reduction import statistics

__all__ = [
    "detach",
    "embedding",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "group_norm",
    "native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
    "rms_norm",
]


def detach(input: Tensor) -> Tensor:
    """Return a tensor over the same memory, without history."""
    return tensors.detach(input)


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Call `nn.functional.embedding`, with the weight (V, D) first; a negative `padding_idx` means none."""
    padding: Any = padding_idx if padding_idx >= 0 else None
    return tables.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Call `nn.functional.grid_sample` with the places of its modes in their lists.

    Args:
        input: images (N, C, H, W) or volumes (N, C, D, H, W).
        grid: places (N, H', W', 2) or (N, D', H', W', 3), from -1 to 1.
        interpolation_mode: 0 for "bilinear", 1 for "nearest", 2 for "bicubic".
        padding_mode: 0 for "zeros", 1 for "border", 2 for "reflection".
        align_corners: True if -1 and 1 are the centres of the outermost elements.

    Raises: ValueError for other modes, RuntimeError for shapes that do not fit.
    """
    for name, mode, modes in (
        ("interpolation_mode", interpolation_mode, grids.MODES),
        ("padding_mode", padding_mode, grids.PADDINGS),
    ):
        if mode not in range(len(modes)):
            raise ValueError(f"grid_sampler(): expected {name} 0, 1 or 2, for {', '.join(modes)}, but got {mode!r}")
    return grids.grid_sample(
        input, grid, grids.MODES[interpolation_mode], grids.PADDINGS[padding_mode], bool(align_corners)
    )


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Call `grid_sampler` for images. Raises RuntimeError for anything but four dimensions."""
    _check_grid_rank(input, grid, 4)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Call `grid_sampler` for volumes. Raises RuntimeError for anything but five dimensions."""
    _check_grid_rank(input, grid, 5)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _check_grid_rank(input: Tensor, grid: Tensor, rank: int) -> None:
    if input.ndim != rank or grid.ndim != rank:
        raise RuntimeError(
            f"grid_sampler(): expected {rank}D input and grid with same number of dimensions, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Call `nn.functional.group_norm`."""
    return normalizations.group_norm(input, num_groups, weight, bias, eps)


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `nn.functional.layer_norm`, and of each row the mean and 1/√(variance + eps), without history."""
    out = normalization.layer_norm(input, normalized_shape, weight, bias, eps)
    axes = normalization.normalized_axes(input, normalized_shape)
    return (out, *_mean_and_scale(input.detach(), axes, True, eps))


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `nn.functional.group_norm`, and of each group the mean and 1/√(variance + eps).

    Args:
        input: tensor (N, C, ...) of N · C · HxW elements.
        weight, bias: tensors (C,), or None.
        N, C, HxW: examples, channels, and elements of a channel.
        group: number of groups.
        eps: small number that is added to the variances.
    """
    out = normalizations.group_norm(input, group, weight, bias, eps)
    mean, scale = _mean_and_scale(input.reshape(N, group, C // group * HxW), (2,), False, eps)
    return out, mean, scale


@with_out
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `nn.functional.batch_norm`, and of each channel the mean and 1/√(variance + eps), without history.

    The last two have no elements where the running statistics are used. See `nn.functional.batch_norm`.
    """
    out = normalization.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return out, input.detach().new_empty(0), input.detach().new_empty(0)
    axes = tuple(axis for axis in range(input.ndim) if axis != 1)
    return (out, *_mean_and_scale(input.detach(), axes, False, eps))


@in_float32
def _mean_and_scale(x: Tensor, axes: tuple[int, ...], keepdim: bool, eps: float) -> tuple[Tensor, Tensor]:
    var, mean = statistics.var_mean(x, axes, correction=0, keepdim=keepdim)
    return mean, (var + eps).rsqrt()


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Call `nn.functional.rms_norm`."""
    return normalizations.rms_norm(input, normalized_shape, weight, eps)

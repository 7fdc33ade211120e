"""Channels beside each other: their order, how they hold each other back; and a choice of classes at random."""

from __future__ import annotations

from typing import Any

from adjoint.core.graph.source_location import warn_user
from adjoint.core.random.generator import default_generator
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api.channels_last import preserve_channels_last
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.publish import rename_node
from adjoint.functions.elementwise.activation import softmax
from adjoint.ops.elementwise import arithmetic, select, transcendental
from adjoint.ops.indexing import scatter
from adjoint.ops.movement import movement
from adjoint.ops.nn.pooling import window_sum
from adjoint.ops.random import draws

__all__ = ["channel_shuffle", "gumbel_softmax", "local_response_norm", "native_channel_shuffle"]


@preserve_channels_last
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """(N, C, …) with channels in the order 0, C/g, 2 C/g, …, 1, …: g groups dealt out as cards are.

    Raises RuntimeError if the channels do not divide into groups.
    """
    if input.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.array.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    n, c, *rest = input.array.shape
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    apart = movement.reshape(input, shape=(n, groups, c // groups, *rest))
    mixed = movement.permute(apart, axes=(0, 2, 1, *range(3, input.ndim + 1)))
    return rename_node(movement.reshape(mixed, shape=(n, c, *rest)), "ChannelShuffleBackward0")


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Another name of `channel_shuffle`."""
    return channel_shuffle(input, groups)


@in_float32
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha mean x²)ᵇᵉᵗᵃ of (N, C, …), the mean over `size` neighbouring channels.

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
    total: Any = window_sum(last, size=(size,), stride=(1,), padding=none, dilation=(1,), extra=none)
    total = movement.permute(total, axes=(0, input.ndim - 1, *range(1, input.ndim - 1)))
    mean = total / float(size) if input.array.dtype.kind in "fV" else arithmetic.floor_divide(total, size)
    return arithmetic.div(input, arithmetic.pow(mean * alpha + k, beta))


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """softmax((x + g) / tau) along `dim`, g standard Gumbel; `hard` gives 1 for the largest, with the same gradient.

    Source: Jang et al., 2017; Maddison et al., 2017.
    """
    if eps != 1e-10:
        warn_user("`eps` parameter is deprecated and has no effect.")
    drawn: Any = draws.exponential(
        shape=logits.array.shape, dtype=logits.array.dtype, rate=1.0, generator=default_generator
    )
    noise = arithmetic.neg(transcendental.log(drawn))
    soft = softmax(arithmetic.div(arithmetic.add(logits, noise), tau), dim)
    if not hard:
        return soft
    axis = one_dim(dim, logits.ndim)
    best = soft.detach().argmax(axis, True)
    zeros = arithmetic.mul(soft.detach(), 0.0)
    chosen = scatter.scatter(select.copy(zeros), 1.0, best, axis=axis)
    return arithmetic.add(arithmetic.sub(chosen, soft.detach()), soft)

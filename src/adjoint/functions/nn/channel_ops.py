"""Rearrangements of channels: channel shuffle, and pixel shuffle and unshuffle."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Shape
from adjoint.functions.api.channels_last import preserve_channels_last
from adjoint.functions.api.publish import rename_node
from adjoint.ops.movement import movement

__all__ = ["channel_shuffle", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


@preserve_channels_last
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return the tensor with its channels in the order 0, C/g, 2 C/g, …, 1, …, for g groups.

    Args:
        input: tensor whose dimension 1 holds the channels.
        groups: number of groups; it divides the channels.

    Shapes:
        input (N, C, …) -> the same shape

    Raises: RuntimeError if `groups` does not divide the channels.

    Source: Zhang et al., ShuffleNet, 2018.

    Example:
        >>> F.channel_shuffle(ad.arange(4.0).reshape(1, 4, 1), 2).flatten()
        tensor([0., 2., 1., 3.])
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
    """Call `channel_shuffle` by another name."""
    return channel_shuffle(input, groups)


@preserve_channels_last
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Return images r times as large, whose pixels come from r² channels each.

    Args:
        input: tensor of images.
        upscale_factor: the factor r.

    Shapes:
        input (…, C·r², H, W) -> (…, C, H·r, W·r)

    Raises: RuntimeError if r² does not divide the channels.

    Source: Shi et al., 2016.

    Example:
        >>> F.pixel_shuffle(ad.arange(4.0).reshape(1, 4, 1, 1), 2)
        tensor([[[[0., 1.],
                  [2., 3.]]]])
    """
    r = upscale_factor
    *lead, c, h, w = _check_image_shape("pixel_shuffle", input)
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={c} is not divisible by {r * r}"
        )
    k = len(lead)
    apart = movement.reshape(input, shape=(*lead, c // (r * r), r, r, h, w))
    mixed = movement.permute(apart, axes=(*range(k), k, k + 3, k + 1, k + 4, k + 2))
    return rename_node(movement.reshape(mixed, shape=(*lead, c // (r * r), h * r, w * r)), "PixelShuffleBackward0")


@preserve_channels_last
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Return images r times smaller, with r² channels for each: the inverse of `pixel_shuffle`.

    Args:
        input: tensor of images.
        downscale_factor: the factor r; it divides height and width.

    Shapes:
        input (…, C, H·r, W·r) -> (…, C·r², H, W)

    Raises: RuntimeError if r does not divide height and width.

    Example:
        >>> F.pixel_unshuffle(ad.arange(4.0).reshape(1, 1, 2, 2), 2).shape
        adjoint.Size([1, 4, 1, 1])
    """
    r = downscale_factor
    *lead, c, h, w = _check_image_shape("pixel_unshuffle", input)
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    for name, d, n in (("height", -2, h), ("width", -1, w)):
        if n % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({d})={n} is not "
                f"divisible by {r}"
            )
    k = len(lead)
    apart = movement.reshape(input, shape=(*lead, c, h // r, r, w // r, r))
    mixed = movement.permute(apart, axes=(*range(k), k, k + 2, k + 4, k + 1, k + 3))
    return rename_node(movement.reshape(mixed, shape=(*lead, c * r * r, h // r, w // r)), "PixelUnshuffleBackward0")


def _check_image_shape(name: str, input: Tensor) -> Shape:
    if input.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    return tuple(input.array.shape)

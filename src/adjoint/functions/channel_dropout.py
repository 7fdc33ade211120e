"""Dropout of whole channels."""

from __future__ import annotations

from typing import Any

from adjoint.core.generator import default_generator
from adjoint.core.site import warn_user
from adjoint.core.tensor import Tensor
from adjoint.functions.surface import in_place
from adjoint.ops import arithmetic, random

__all__ = ["dropout1d", "dropout2d", "dropout3d"]


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each channel of (N, C, L) or (C, L) 0 with probability p, else divided by 1 - p. Raises as `dropout` does."""
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input.")
    return _by_channel("dropout1d", input, p, training, inplace, 2 if input.ndim == 3 else 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each channel of (N, C, H, W) 0 with probability p, else divided by 1 - p. Raises as `dropout` does.

    Warns where there are not four dimensions; the first two are batch and channel all the same.
    """
    if input.ndim == 3:
        warn_user(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L): use dropout1d for that.",
        )
    elif input.ndim != 4:
        _warn("dropout2d", input.ndim)
    return _by_channel("dropout2d", input, p, training, inplace, 2)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each channel of (N, C, D, H, W) or (C, D, H, W) 0 with probability p, else divided by 1 - p.

    Warns for another number of dimensions; the first is the channel then.
    """
    if input.ndim not in (4, 5):
        _warn("dropout3d", input.ndim)
    return _by_channel("dropout3d", input, p, training, inplace, 2 if input.ndim == 5 else 1)


def _by_channel(name: str, input: Tensor, p: float, training: bool, inplace: bool, kept: int) -> Any:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    shape = input.array.shape
    if len(shape) < kept:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    factor = random.dropout_factor(
        shape=(*shape[:kept], *(1 for _ in shape[kept:])), dtype=input.array.dtype, p=p, generator=default_generator
    )
    out = arithmetic.mul(input, factor)
    return in_place(lambda _: out, f"{name}_")(input) if inplace else out


def _warn(name: str, ndim: int) -> None:
    warn_user(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an error in a future "
        "release. To retain the behavior and silence this warning, please use dropout instead.",
    )

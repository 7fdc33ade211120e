"""Dropout of whole channels."""

from __future__ import annotations

import math

from adjoint.core.graph.source_location import warn_user
from adjoint.core.random.generator import default_generator
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.functions.api.memory_format import draw_in_memory_order
from adjoint.functions.api.publish import in_place
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.random import draws

__all__ = ["alpha_dropout", "alpha_dropout_", "dropout", "dropout1d", "dropout2d", "dropout3d", "dropout_"]
__all__ += ["feature_alpha_dropout", "feature_alpha_dropout_", "feature_dropout", "feature_dropout_"]


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set each channel of (N, C, L) or (C, L) to 0 with probability p, else divide it by 1 - p.

    Raises: RuntimeError for other ranks.
    """
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input.")
    return _dropout_channels("dropout1d", input, p, training, inplace, 2 if input.ndim == 3 else 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set each channel of (N, C, H, W) to 0 with probability p, else divide it by 1 - p. Raises as `dropout` does.

    Warns where there are not four dimensions; the first two are batch and channel all the same.
    """
    if input.ndim == 3:
        warn_user(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L): use dropout1d for that."
        )
    elif input.ndim != 4:
        _warn("dropout2d", input.ndim)
    return _dropout_channels("dropout2d", input, p, training, inplace, 2)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set each channel of (N, C, D, H, W) or (C, D, H, W) to 0 with probability p, else divide it by 1 - p.

    Warns for another number of dimensions; the first is the channel then.
    """
    if input.ndim not in (4, 5):
        _warn("dropout3d", input.ndim)
    return _dropout_channels("dropout3d", input, p, training, inplace, 2 if input.ndim == 5 else 1)


def check_probability(p: float) -> None:
    """Raise ValueError for a probability outside [0, 1]."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _dropout_channels(name: str, input: Tensor, p: float, training: bool, inplace: bool, kept: int) -> Tensor:
    check_probability(p)
    if not training or p == 0 or not input.numel():
        return input
    shape = input.array.shape
    if len(shape) < kept and p < 1:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    sizes, kind = (*shape[:kept], *(1 for _ in shape[kept:])), input.array.dtype
    factor = draws.dropout_factor(shape=sizes, dtype=kind, p=p, generator=default_generator) if p < 1 else 0.0
    out = arithmetic.mul(input, factor)
    return in_place(lambda _: out, f"{name}_")(input) if inplace else out


def _warn(name: str, ndim: int) -> None:
    warn_user(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an error in a future "
        "release. To retain the behavior and silence this warning, please use dropout instead."
    )


SATURATION = 1.7580993408473766  # -scale · alpha of selu: what a dropped element becomes, but for the sign


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set each element to 0 with probability p, else divide it by 1 - p; return the input itself when not training.

    Raises ValueError for a probability outside [0, 1].
    """
    check_probability(p)
    if not training or p == 0 or not input.numel():
        return input
    kind, source = input.array.dtype, default_generator
    factor: Operand = 0.0  # of p = 1, for which nothing is drawn
    if p < 1:
        factor = draw_in_memory_order(
            input, lambda shape: draws.dropout_factor(shape=shape, dtype=kind, p=p, generator=source)
        )
    out = arithmetic.mul(input, factor)
    return in_place(lambda _: out, "dropout_")(input) if inplace else out


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Set each element to SELU's lower limit with probability p, then scale all to keep mean 0 and variance 1.

    Raises RuntimeError for a probability outside [0, 1]. Source: Klambauer et al., 2017.
    """
    return _apply_dropout(input, p, train, False, True)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Apply `alpha_dropout` in place."""
    return _apply_dropout_inplace(input, p, train, False, True, "alpha_dropout_")


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Apply `dropout` in place. Raises RuntimeError for a probability outside [0, 1]."""
    return _apply_dropout_inplace(input, p, train, False, False, "dropout_")


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Apply `alpha_dropout` to whole features (n, c, …). Raises RuntimeError below two dimensions."""
    return _apply_dropout(input, p, train, True, True)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Apply `feature_alpha_dropout` in place."""
    return _apply_dropout_inplace(input, p, train, True, True, "feature_alpha_dropout_")


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Set each feature (n, c, …) to 0 with probability p, else divide it by 1 - p. Raises RuntimeError below 2-D."""
    return _apply_dropout(input, p, train, True, False)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Apply `feature_dropout` in place."""
    return _apply_dropout_inplace(input, p, train, True, False, "feature_dropout_")


def _apply_dropout_inplace(input: Tensor, p: float, train: bool, by_feature: bool, alpha: bool, name: str) -> Tensor:
    return in_place(lambda x: _apply_dropout(x, p, train, by_feature, alpha), name)(input)


def _apply_dropout(x: Tensor, p: float, train: bool, by_feature: bool, alpha: bool) -> Tensor:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not train or p == 0 or not x.numel():
        return x
    if p == 1:
        return arithmetic.mul(x, 0.0)
    if by_feature and x.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    kind, shape = x.array.dtype, x.array.shape
    if by_feature:
        sizes = (*shape[:2], *(1 for _ in shape[2:]))
        kept = draws.coin(shape=sizes, dtype=kind, p=1 - p, generator=default_generator)
    else:
        kept = draw_in_memory_order(
            x, lambda order: draws.coin(shape=order, dtype=kind, p=1 - p, generator=default_generator)
        )
    if not alpha:
        return arithmetic.mul(x, kept / (1 - p))
    scale = 1 / math.sqrt((SATURATION**2 * p + 1) * (1 - p))
    shift = (kept - 1.0) * (SATURATION * scale) + SATURATION * scale * p
    return arithmetic.add(arithmetic.mul(x, kept * scale), shift)

"""Interpolation of sequences, images and volumes to other sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.graph.source_location import warn_user
from adjoint.core.tensor.size import has_symbolic
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, NumpyDtype, Operand, Params, Shape
from adjoint.functions.api.channels_last import preserve_channels_last
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.publish import rename_node
from adjoint.functions.linalg.matmul import matmul
from adjoint.functions.nn.adaptive_pooling import average_parts
from adjoint.functions.nn.resampling import (
    Taps,
    find_cubic_weights,
    resample,
    resample_in_call,
    resize_whole,
    scale_size,
)
from adjoint.ops.elementwise import arithmetic, select

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

RADII = {"bilinear": 1.0, "bicubic": 2.0, "lanczos": 3.0}  # of the kernels, in elements of the coarser grid


def interpolate_antialiased(
    image: Tensor, new: Sequence[int], scales: Sequence[float | None], mode: str, aligned: bool
) -> Tensor:
    """Resample (N, C, H, W) to the `new` sizes: Σ k((j + ½ - c) / s) x_j / Σ k for a centre c and s ≥ 1.

    The kernels k are a triangle, Keys' cubic with a = -½, and sinc(x) sinc(x / 3).
    """
    out = image
    for d, (size, scale) in enumerate(zip(new, scales, strict=True), 2):
        weights = _weights(image.array.shape[d], size, scale, mode, aligned).astype(image.array.dtype)
        out = matmul(out, constant(weights.T)) if d == 3 else matmul(constant(weights), out)
    return out


def _weights(old: int, new: int, scale: float | None, mode: str, aligned: bool) -> Array:
    """Return the weights (new, old); each row has the sum 1."""
    if aligned:
        step = (old - 1) / (new - 1) if new > 1 else 0.0
    else:
        step = 1.0 / scale if scale else old / new
    radius = RADII[mode] * max(step, 1.0)
    centres = step * (np.arange(new) + 0.5)
    first = np.maximum((centres - radius + 0.5).astype(np.int64), 0)
    last = np.minimum((centres + radius + 0.5).astype(np.int64), old)
    places = np.arange(old)
    distances = (places - centres[:, None] + 0.5) / max(step, 1.0)
    kept = (places >= first[:, None]) & (places < last[:, None])
    weights = np.where(kept, KERNELS[mode](np.abs(distances)), 0.0)
    total = weights.sum(1, keepdims=True)
    return weights / np.where(total == 0, 1.0, total)


def _cubic(x: Array) -> Array:
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


KERNELS: dict[str, Callable[[Array], Array]] = {
    "bilinear": lambda x: np.maximum(1.0 - x, 0.0),
    "bicubic": _cubic,
    "lanczos": lambda x: np.where(x < 3, np.sinc(x) * np.sinc(x / 3.0), 0.0),
}
RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2, "lanczos": 2}  # of modes that interpolate
NEAREST = ("nearest", "nearest-exact", "area")


@in_float32
@preserve_channels_last
def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return the tensor with its last dimensions resampled to `size`, or to ⌊size · scale_factor⌋.

    `mode` is "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area" or "lanczos".
    `align_corners` aligns the centers of the corner elements. `antialias` widens the kernel where sizes shrink.

    Shapes:
        input (N, C, L), (N, C, H, W) or (N, C, D, H, W) -> the same N and C, with the new sizes

    Raises: ValueError for settings that contradict each other, TypeError for sizes that are no integers,
    NotImplementedError for a mode of another number of dimensions.
    """
    _check_settings(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    new, scales = _output_sizes(input, size, scale_factor)
    if mode == "area":
        return average_parts(input, new)
    if recompute_scale_factor:
        scales = [None] * len(new)
    dtype, aligned = input.array.dtype, bool(align_corners)
    if dtype.kind not in "fV" and dtype != np.uint8:
        raise NotImplementedError(f"interpolate: \"{mode}\" not implemented for '{scalar_type(input.dtype)}'")
    if dtype.kind not in "fV" and mode not in NEAREST:
        real = select.cast(input, dtype=np.dtype(np.float32))
        precise = interpolate(real, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
        return select.cast(arithmetic.round(precise.clamp(0, 255)), dtype=dtype)
    if antialias:
        smooth = interpolate_antialiased(input, new, scales, mode, aligned)
        return _name_upsample_node(smooth, mode, new, scales, aligned, "Aa")
    if (whole := resize_whole(input, new, scales, mode, aligned)) is not None:
        return whole
    out: Operand = input
    dims = list(enumerate(zip(input.array.shape[2:], new, scales, strict=True), 2))
    for axis, (old_size, new_size, scale) in reversed(dims) if mode in NEAREST else dims:  # whole rows are copied last
        if has_symbolic(old_size, new_size):
            out = resample_in_call(out, axis, new_size, scale, mode, aligned, mode in NEAREST)
            continue
        taps = _taps(old_size, new_size, scale, mode, aligned, dtype)
        out = resample(out, axis, taps)
    return _name_upsample_node(out, mode, new, scales, aligned)


def _check_settings(
    input: Tensor,
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
    mode: str,
    align_corners: bool | None,
    recompute: bool | None,
    antialias: bool,
) -> None:
    rank = input.ndim - 2
    for is_wrong, message in (
        (
            mode in NEAREST and align_corners is not None,
            (
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            ),
        ),
        (size is not None and scale_factor is not None, "only one of size or scale_factor should be defined"),
        (size is None and scale_factor is None, "either size or scale_factor should be defined"),
        (recompute and size is not None, "recompute_scale_factor is not meaningful with an explicit size."),
        (
            antialias and (rank != 2 or mode not in RADII),
            (
                "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as "
                "input"
            ),
        ),
        (mode == "lanczos" and not antialias, "Lanczos mode requires antialias=True"),
        (mode == "lanczos" and align_corners, "Lanczos mode does not support align_corners=True"),
    ):
        if is_wrong:
            raise ValueError(message)
    if rank not in (1, 2, 3) or RANKS.get(mode, rank if mode in NEAREST else None) != rank:
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {RANKS.get(mode, 1) + 2}D input")


def _output_sizes(input: Tensor, size: Operand, scale_factor: Operand) -> tuple[list[int], Sequence[float | None]]:
    """Return the new sizes, and for each dimension the scale, None where a size was given."""
    old = input.array.shape[2:]
    scales: Sequence[float | None] = [None] * len(old)
    if size is not None:
        new = _per_dimension(size, len(old), old, "size")
        if not all(hasattr(n, "__index__") and not (isinstance(n, Tensor) and n.is_floating_point()) for n in new):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size "
                f"with types {[type(n) for n in new]}"
            )
        new = [n.__index__() if isinstance(n, Tensor) else n for n in new]
    else:
        scales = factors = _per_dimension(scale_factor, len(old), old, "scale_factor")
        new = [scale_size(n, factor) for n, factor in zip(old, factors, strict=True)]
    if any(n >= 2**31 for n in new):
        raise RuntimeError(f"interpolate: the output would have a size of {max(new)}, which is too large")
    if any(n <= 0 for n in new):
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {list(old)} and output {list(new)}"
        )
    return new, scales


def _name_upsample_node(
    out: Tensor, mode: str, new: Sequence[int], scales: Sequence[float | None], aligned: bool, suffix: str = ""
) -> Tensor:
    """Give the node of `out` the name and the settings that PyTorch's has for the mode."""
    rank = len(new)
    fields = ("scales",) if rank == 1 else ("scales_d", "scales_h", "scales_w")[-rank:]
    settings: Params = {"output_size": tuple(new), **dict(zip(fields, scales, strict=True))}
    if mode not in NEAREST:
        settings["align_corners"] = aligned
    word = mode.title().replace("-", "")
    return rename_node(out, f"Upsample{word}{rank}D{suffix}Backward0", **settings)


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Call `interpolate` by its old name, with a warning."""
    _warn_deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Call `interpolate` in the mode "nearest" by an old name, with a warning."""
    _warn_deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Call `interpolate` in the mode "bilinear" with aligned corners by an old name, with a warning."""
    _warn_deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", True)


def _warn_deprecated(name: str) -> None:
    warn_user(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.", UserWarning)


def _per_dimension(given: Operand, rank: int, old: Shape, what: str) -> list[Any]:
    if not isinstance(given, (list, tuple)):
        return [given] * rank
    if len(given) != rank:
        raise ValueError(
            f"interpolate: the input has {rank} spatial dimensions, {list(old)}, but {what} is {given}: one number "
            "for each is needed"
        )
    return list(given)


@lru_cache(64)
def _taps(old: int, new: int, scale: float | None, mode: str, aligned: bool, kind: NumpyDtype) -> Taps:
    """Return the positions along one dimension that each new element is made of, and their weights."""
    # PyTorch's rounding decides on the places
    wide: type[np.floating[Any]] = np.float32 if kind == np.float32 or mode in NEAREST else np.float64
    step = wide(1.0 / scale) if scale is not None else wide(old) / wide(new)
    to = np.arange(new, dtype=wide)
    if mode in NEAREST:
        at = np.floor((to + wide(0.5 if mode == "nearest-exact" else 0.0)) * step)
        return Taps([(np.minimum(at.astype(np.int64), old - 1), None)])
    if aligned:
        step = wide(old - 1) / wide(new - 1) if new > 1 else wide(0)
        source = to * step
    else:
        source = step * (to + wide(0.5)) - wide(0.5)
    if mode != "bicubic":
        source = np.maximum(source, wide(0))
        low = np.minimum(source.astype(np.int64), old - 1)
        upper = np.minimum(source - low.astype(wide), wide(1))
        return Taps([(low, (1 - upper).astype(kind)), (np.minimum(low + 1, old - 1), upper.astype(kind))])
    low = np.floor(source).astype(np.int64)
    t = source - low.astype(wide)
    weights = find_cubic_weights(t)
    return Taps([(np.clip(low + d, 0, old - 1), w.astype(kind)) for d, w in zip((-1, 0, 1, 2), weights, strict=True)])

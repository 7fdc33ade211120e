"""Samples of the less usual distributions, with PyTorch's CPU numbers: each function moves a generator as that does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.random import rejection_sampling
from adjoint.core.random.generator import Generator, cast_sample
from adjoint.core.random.libm_functions import apply_libm, exp, log
from adjoint.core.runtime.libm import fused_multiply_add
from adjoint.core.typing import Array, NumpyDtype, Operand

if TYPE_CHECKING:
    pass

Shape = tuple[int, ...]


def cauchy(generator: Generator, shape: Shape, dtype: NumpyDtype, median: float, sigma: float) -> Array:
    """median + sigma tan(π (u - ½)), with u uniform on [0, 1) in float64."""
    angle = math.pi * (generator.uniform_doubles(math.prod(shape)) - 0.5)
    if not angle.size or not math.isfinite(median):
        sample = angle + median
    else:
        sample = fused_multiply_add(apply_libm(math.tan, angle), np.float64(sigma), np.float64(median))
    return cast_sample(sample, dtype).reshape(shape)


def serial_normal(generator: Generator, shape: Shape, dtype: NumpyDtype, mean: float, std: float) -> Array:
    """z std + mean, with z standard normal in float64."""
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    return cast_sample(_normal(generator, shape, mean, std), dtype).reshape(shape)


def normal_around(generator: Generator, mean: Operand, std: Operand) -> Array | None:
    """z std + mean, rounded twice, of arrays of one shape and floating type; None for any others, and drawing none."""
    if type(mean) is not np.ndarray or type(std) is not np.ndarray or mean.shape != std.shape or not mean.size:
        return None
    if mean.dtype is not std.dtype or mean.dtype.char not in "fd" or not std.min() >= 0:
        return None
    drawn = generator.normal(std.shape, std.dtype)
    np.multiply(drawn, std, drawn)
    return np.add(drawn, mean, drawn)


def log_normal(generator: Generator, shape: Shape, dtype: NumpyDtype, mean: float, std: float) -> Array:
    """exp(z std + mean), with z standard normal in float64."""
    normal = _normal(generator, shape, mean, std)
    sample = apply_libm(exp, normal)
    return cast_sample(sample, dtype).reshape(shape)


def geometric(generator: Generator, shape: Shape, dtype: NumpyDtype, p: float) -> Array:
    """⌈ln u / ln(1 - p)⌉, with u uniform on [0, 1) in float64: how many trials the first success takes."""
    unit = generator.uniform_doubles(math.prod(shape))
    trials = np.ceil(apply_libm(log, unit) / math.log1p(-p))
    if np.dtype(dtype).kind in "iu":
        trials = trials.astype(np.int64)
    return cast_sample(trials, dtype).reshape(shape)


def poisson(generator: Generator, rate: Array) -> Array:
    """Poisson numbers of the rates, in their dtype. Raises RuntimeError for a negative one."""
    if not (rate >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    with generator.numbers() as (uniform, _):
        sample = [rejection_sampling.poisson(float(x), uniform) for x in rate.ravel().tolist()]
    return cast_sample(np.array(sample, np.float64), rate.dtype).reshape(rate.shape)


def binomial(generator: Generator, count: Array, chance: Array) -> Array:
    """Binomial numbers of counts and chances, broadcast, in the dtype of the counts."""
    counts, chances = np.broadcast_arrays(_wide(count), _wide(chance))
    with generator.numbers() as (uniform, _):
        sample = [rejection_sampling.binomial(n, p, uniform) for n, p in zip(counts.flat, chances.flat, strict=True)]
    return np.array(sample, count.dtype).reshape(counts.shape)


def standard_gamma(generator: Generator, shape: Array) -> Array:
    """Gamma numbers of these shapes with scale 1, in their dtype; above 0."""
    alphas = _wide(shape)
    with generator.numbers() as (uniform, normal):
        sample = [rejection_sampling.gamma(alpha, uniform, normal) for alpha in alphas.flat]
    above = np.maximum(np.array(sample, np.float64).astype(alphas.dtype), np.finfo(alphas.dtype).tiny)
    return above.astype(shape.dtype, copy=False).reshape(shape.shape)


def dirichlet(generator: Generator, concentration: Array) -> Array:
    """Dirichlet numbers along the last dimension: gamma numbers in float64, divided by their sum; between 0 and 1."""
    kind = _wide(concentration).dtype
    sample = standard_gamma(generator, concentration.astype(np.float64))
    total = np.apply_along_axis(math.fsum, -1, sample) if sample.size else sample.sum(-1)
    share = (sample / np.expand_dims(total, -1)).astype(kind)
    inside = np.clip(share, np.finfo(kind).tiny, np.nextafter(kind.type(1), kind.type(0)))
    return inside.astype(concentration.dtype, copy=False)


def multinomial(generator: Generator, weights: Array, count: int, replacement: bool, by_column: bool) -> Array:
    """`count` positions along the last dimension of the weights, (…, count) int64, each as likely as its weight.

    Without replacement, or where one is asked for, they are those of the largest w / e, with e exponential, drawn
    column by column if `by_column`.
    Raises RuntimeError for weights that are negative, not finite, or all zero.
    """
    wide = _wide(weights)
    replacement = replacement and count > 1
    # of arrays, the methods take twice as long
    if not (wide.size and np.minimum.reduce(wide, None) >= 0 and _has_positive_rows(wide)):  # or the checks all pass
        _refuse_weights(wide, replacement)
    return _with_replacement(generator, wide, count) if replacement else _races(generator, weights, count, by_column)


def _has_positive_rows(wide: Array) -> bool:
    """Return whether the largest of each row is above 0 and finite; of NaN it is neither."""
    largest = np.maximum.reduce(wide, -1)
    if largest.ndim:
        return bool(np.minimum.reduce(largest) > 0 and np.maximum.reduce(largest) < np.inf)
    return bool(0 < largest < np.inf)


def _refuse_weights(wide: Array, replacement: bool) -> None:
    """Raise RuntimeError for weights that are negative, not finite, or all zero."""
    if not replacement and not ((wide >= 0) & (wide < np.inf)).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (wide < 0).any():
        raise RuntimeError("invalid multinomial distribution (encountering probability entry < 0)")
    if not np.isfinite(wide).all():
        raise RuntimeError("invalid multinomial distribution (encountering probability entry = infinity or NaN)")
    if not (wide.sum(-1) > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def _races(generator: Generator, weights: Array, count: int, by_column: bool) -> Array:
    """Return the positions of the largest w / e, with e exponential."""
    kind, wide = weights.dtype, _wide(weights)
    shape = weights.shape[::-1] if by_column else weights.shape
    waiting = generator.exponential(shape, kind)
    races = wide / (waiting.T if by_column else waiting).astype(wide.dtype, copy=False)
    if kind is not races.dtype:
        races = races.astype(kind).astype(wide.dtype)
    if count == 1 and not math.isnan(races.max()):  # NaN, if one is
        return races.argmax(-1, keepdims=True)
    return np.argsort(-races, -1, kind="stable")[..., :count]


def _with_replacement(generator: Generator, weights: Array, count: int) -> Array:
    total = np.add.accumulate(weights, -1)
    total /= total[..., -1:].copy()
    total[..., -1] = 1
    rows = total.astype(np.float64, copy=False).reshape(-1, weights.shape[-1])
    unit = generator.uniform_doubles(len(rows) * count).reshape(-1, count)
    found = np.empty(unit.shape, np.int64)
    for i, u in enumerate(unit):
        found[i] = rows[i].searchsorted(u)
    return found.reshape(*weights.shape[:-1], count)


def _normal(generator: Generator, shape: Shape, mean: float, std: float) -> Array:
    normal = generator.normals(math.prod(shape))
    return fused_multiply_add(normal, np.float64(std), np.float64(mean)) if normal.size else normal


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x

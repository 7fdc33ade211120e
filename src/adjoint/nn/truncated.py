"""Numbers of a normal distribution that is cut off at both ends, in the order in which a tensor lies in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core import distributions
from adjoint.core.generator import Generator
from adjoint.core.tensor import Tensor, wrap
from adjoint.functions.memory_order import as_it_lies, memory_order

Array = Any


def from_normal(like: Tensor, mean: float, std: float, low: float, high: float, source: Generator) -> Array:
    """Normal numbers, drawn again where they lie outside [low, high]."""
    kind = like.array.dtype
    sample = _normal(like, mean, std, source, not like.is_contiguous())
    first, last, gappy = kind.type(low), kind.type(high), memory_order(like) is not None
    while (outside := (sample < first) | (sample > last)).any():
        sample = np.where(outside, _normal(like, mean, std, source, gappy), sample)
    return sample


def from_uniform(like: Tensor, mean: float, std: float, low: float, high: float, source: Generator) -> Array:
    """Uniform numbers of [low, high), drawn again unless the density there is above its peak times a uniform."""
    kind = like.array.dtype
    wide = np.dtype(np.float32) if kind.itemsize == 2 else kind
    peak = -0.5 * ((max(low, min(mean, high)) - mean) / std) ** 2
    sample = np.zeros(like.shape, kind)
    pending = np.ones(like.shape, np.bool_)
    while pending.any():
        candidate = _uniform(like, low, high, source)
        sample = np.where(pending, candidate, sample)
        density = candidate
        for step in (lambda x: x - mean, lambda x: x / std, np.square, lambda x: x * -0.5, lambda x: x - peak):
            density = step(density.astype(wide)).astype(kind)
        with np.errstate(divide="ignore"):
            pending &= np.log(_uniform(like, 0.0, 1.0, source)) > density
    return sample


def _normal(like: Tensor, mean: float, std: float, source: Generator, serial: bool) -> Array:
    kind = like.array.dtype
    if serial:
        return as_it_lies(like, lambda n: wrap(distributions.serial_normal(source, n, kind, mean, std))).array
    return as_it_lies(like, lambda n: wrap(source.normal(n, kind, mean, std))).array


def _uniform(like: Tensor, low: float, high: float, source: Generator) -> Array:
    return as_it_lies(like, lambda n: wrap(source.uniform(n, like.array.dtype, low, high))).array

"""The frequencies that belong to the elements of a spectrum, and spectra with frequency 0 in the middle."""

from __future__ import annotations

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, default, numpy_dtype
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, DeviceLike, DtypeLike, Function
from adjoint.functions.api.dim_args import Dims, one_dim
from adjoint.functions.api.out import with_out
from adjoint.functions.shape.flip_roll import roll

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


@with_out
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return 0, 1, …, -2, -1 over n d: the frequencies of `fft` of n samples at distance d.

    Raises RuntimeError for integer types.
    """
    positive = (n + 1) // 2
    steps = np.concatenate([np.arange(positive), np.arange(positive - n, 0)]) if n >= 0 else np.zeros(0)
    return _make_frequencies("fftfreq", n, steps, d, dtype, requires_grad)


@with_out
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return 0, 1, …, n // 2 over n d: the frequencies of `rfft` of n samples at distance d.

    Raises RuntimeError for integer types.
    """
    return _make_frequencies("rfftfreq", n, np.arange(n // 2 + 1) if n >= 0 else np.zeros(0), d, dtype, requires_grad)


def _make_frequencies(name: str, n: int, steps: Array, d: float, dtype: DtypeLike, requires_grad: bool) -> Tensor:
    kind = numpy_dtype(dtype or default.floating)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if DTYPES[kind].rank < 2:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    with np.errstate(all="ignore"):
        out = constant(steps.astype(kind) * (1.0 / np.float64(n * d)).astype(kind))
    return out.requires_grad_() if requires_grad else out


def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Return `input` with frequency 0 moved from the front to the middle of the dimensions, all unless given."""
    return _roll_dims(input, dim, lambda n: n // 2)


def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Return `input` with frequency 0 moved from the middle to the front: the inverse of `fftshift`."""
    return _roll_dims(input, dim, lambda n: (n + 1) // 2)


def _roll_dims(x: Tensor, dim: Dims, by: Function) -> Tensor:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = tuple(one_dim(d, x.ndim) for d in dims)
    return roll(x, tuple(by(x.array.shape[a]) for a in axes), axes) if axes else x

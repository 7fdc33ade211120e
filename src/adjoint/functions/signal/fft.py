"""Discrete Fourier transforms: of complex, real and conjugate symmetric signals, over one dimension or several.

Each is one of three kinds, forward or inverse. `norm` says which direction is divided by the number N of elements:
"backward", the inverse, unless it is "forward", or "ortho", both by √N. `n`, or `s`, cuts the input or fills it up with
zeros; -1 in `s` leaves a size as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import index

from numpy import ndarray

from adjoint.core.dtype.dtype import DTYPES, complex_type, default
from adjoint.core.tensor.size import as_size
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Shape
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.out import with_out
from adjoint.ops.elementwise import select
from adjoint.ops.elementwise.complex import conj
from adjoint.ops.linalg.fft import fft_c2c, fft_c2r, fft_r2c
from adjoint.ops.movement import movement

__all__ = [
    "fft", "fft2", "fftn", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ihfft", "ihfft2", "ihfftn", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftn",
]  # fmt: skip

Sizes = Sequence[int] | int | None
LAST_TWO = (-2, -1)


def _transform_c2c(name: str, x: Tensor, s: Sizes, dim: Sizes, norm: str | None, inverse: bool) -> Tensor:
    x = _promote_to_floating(x)
    axes, sizes = _canonicalize_dims_and_sizes(x, s, dim)
    x = _resize_fft_input(
        select.cast(x, dtype=complex_type(x.array.dtype)) if x.array.dtype.kind != "c" else x, axes, sizes
    )
    return fft_c2c(x, axes=axes, inverse=inverse, scale=_normalization_factor(norm, sizes, inverse))


def _transform_r2c(name: str, x: Tensor, s: Sizes, dim: Sizes, norm: str | None, inverse: bool) -> Tensor:
    x = _promote_to_floating(x)
    if x.array.dtype.kind == "c":
        raise RuntimeError(f"{name} expects a real input tensor, but got {x.dtype}")
    axes, sizes = _canonicalize_dims_and_sizes(x, s, dim, name)
    out = fft_r2c(_resize_fft_input(x, axes, sizes), axes=axes, scale=_normalization_factor(norm, sizes, inverse))
    return conj(out) if inverse else out


def _transform_c2r(name: str, x: Tensor, s: Sizes, dim: Sizes, norm: str | None, inverse: bool) -> Tensor:
    x = _promote_to_floating(x)
    if x.array.dtype.kind != "c":
        x = select.cast(x, dtype=complex_type(x.array.dtype))
    axes, sizes = _canonicalize_dims_and_sizes(x, s, dim, name, half=True)
    x = _resize_fft_input(x, axes, (*sizes[:-1], sizes[-1] // 2 + 1))
    return fft_c2r(x if inverse else conj(x), axes=axes, n=sizes[-1], scale=_normalization_factor(norm, sizes, inverse))


def _promote_to_floating(x: Tensor) -> Tensor:
    kind = DTYPES[x.array.dtype]
    if kind.rank < 2:
        return select.cast(x, dtype=default.floating.numpy)
    if kind.itemsize < 4:
        raise RuntimeError(f"Unsupported dtype {kind.name}")
    return x


def _canonicalize_dims_and_sizes(
    x: Tensor, s: Sizes, dim: Sizes, name: str | None = None, half: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the dimensions to be transformed, and the size of the signal along each.

    `name`: of the function which needs at least one; `half`: the last size is that of a spectrum's half.
    """
    is_known = type(x.array) is ndarray and _are_plain_sizes(s) and _are_plain_sizes(dim)
    return (_find_known_dims if is_known else _find_dims_and_sizes)(x.array.shape, s, dim, name, half)


def _are_plain_sizes(sizes: Sizes) -> bool:
    """Return whether sizes are None, an integer or a tuple of integers, of Python's own type."""
    if type(sizes) is not tuple:
        return sizes is None or type(sizes) is int
    for n in sizes:  # noqa: SIM110  half the time of `all` and a generator
        if type(n) is not int:
            return False
    return True


def _find_dims_and_sizes(
    shape: Shape, s: Sizes, dim: Sizes, name: str | None, half: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = len(shape)
    wanted = None if s is None else tuple(map(index, s if isinstance(s, Sequence) else (s,)))
    if dim is not None:
        dims = dim if isinstance(dim, Sequence) else (dim,)
        if dims and not rank:
            raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
        axes = tuple(one_dim(d, rank) for d in dims)
        if len(set(axes)) < len(axes):
            raise RuntimeError("FFT dims must be unique")
        if wanted is not None and len(wanted) != len(axes):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    else:
        if wanted is not None and len(wanted) > rank:
            raise RuntimeError(f"Got shape with {len(wanted)} values but input tensor only has {rank} dimensions.")
        axes = tuple(range(rank - (rank if wanted is None else len(wanted)), rank))
    if name is not None and not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    sizes = [shape[a] if wanted is None or wanted[i] == -1 else wanted[i] for i, a in enumerate(axes)]
    if half and (wanted is None or wanted[-1] == -1):
        sizes[-1] = 2 * (sizes[-1] - 1)
    for n in sizes:
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return axes, tuple(sizes)


_find_known_dims = lru_cache(512)(_find_dims_and_sizes)


def _resize_fft_input(x: Tensor, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Tensor:
    """Return `x` cut, or filled up with zeros, to these sizes."""
    shape = tuple(x.array.shape)
    if type(x.array) is ndarray and sizes == tuple([shape[axis] for axis in axes]):
        return x
    wanted = list(shape)
    for axis, n in zip(axes, sizes, strict=True):
        wanted[axis] = n
    if any(n < m for n, m in zip(wanted, shape, strict=True)):
        x = movement.slice(x, bounds=tuple((0, min(n, m), 1) for n, m in zip(wanted, shape, strict=True)))
    if any(n > m for n, m in zip(wanted, shape, strict=True)):
        x = movement.pad(x, widths=tuple((0, max(n - m, 0)) for n, m in zip(wanted, shape, strict=True)))
    return x


def _normalization_factor(norm: str | None, sizes: tuple[int, ...], inverse: bool) -> float:
    if norm not in (None, "backward", "forward", "ortho"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    count = math.prod(sizes)
    if norm == "ortho":
        return 1.0 / math.sqrt(count)
    return 1.0 / count if (norm == "forward") != inverse else 1.0


def _transform_one_dim(
    transform: Function, name: str, x: Tensor, n: int | None, dim: int, norm: str | None, inverse: bool
) -> Tensor:
    if n is not None and as_size(n) < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return transform(name, x, None if n is None else (n,), (index(dim),), norm, inverse)


@with_out
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the discrete Fourier transform X[k] = Σₙ x[n] e^(-2πikn/N) along `dim`.

    Args:
        input: tensor; real elements are taken as complex.
        n: length N; the signal is cut or filled up with zeros to it. Default: the size of `dim`.
        dim: dimension to transform. Default: -1.
        norm: "backward" for no factor, "ortho" for 1/√N, "forward" for 1/N. Default: None, the same as "backward".
        out: tensor that takes the result.

    Raises: RuntimeError for N < 1 and for another `norm`.

    Example:
        >>> ad.fft.fft(ad.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return _transform_one_dim(_transform_c2c, "fft", input, n, dim, norm, False)


@with_out
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return 1/N Σₖ x[k] e^(2πikn/N) over one dimension: the inverse of `fft`."""
    return _transform_one_dim(_transform_c2c, "ifft", input, n, dim, norm, True)


@with_out
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the first N // 2 + 1 elements of the Fourier transform of a real signal along `dim`.

    The other elements are the conjugates of these.

    Args:
        input: tensor of real numbers.
        n: length N; the signal is cut or filled up with zeros to it. Default: the size of `dim`.
        dim: dimension to transform. Default: -1.
        norm: "backward" for no factor, "ortho" for 1/√N, "forward" for 1/N. Default: None, the same as "backward".
        out: tensor that takes the result.

    Raises: RuntimeError for complex elements, for N < 1, and for another `norm`.

    Example:
        >>> ad.fft.rfft(ad.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    return _transform_one_dim(_transform_r2c, "rfft", input, n, dim, norm, False)


@with_out
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse of `rfft`, of n elements, 2 (size - 1) unless given."""
    return _transform_one_dim(_transform_c2r, "irfft", input, n, dim, norm, True)


@with_out
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return `fft` of a conjugate symmetric signal, given by its first half: n real elements, or 2 (size - 1)."""
    return _transform_one_dim(_transform_c2r, "hfft", input, n, dim, norm, False)


@with_out
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the first N // 2 + 1 elements of `ifft` of a real signal: the inverse of `hfft`."""
    return _transform_one_dim(_transform_r2c, "ihfft", input, n, dim, norm, True)


@with_out
def fftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """Return `fft` over several dimensions, all unless given."""
    return _transform_c2c("fftn", input, s, dim, norm, False)


@with_out
def ifftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """Return `ifft` over several dimensions, all unless given."""
    return _transform_c2c("ifftn", input, s, dim, norm, True)


@with_out
def rfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """Return `fftn` of a real signal, the first half of the last dimension transformed."""
    return _transform_r2c("rfftn", input, s, dim, norm, False)


@with_out
def irfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """Return the inverse of `rfftn`."""
    return _transform_c2r("irfftn", input, s, dim, norm, True)


@with_out
def hfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """Return `fftn` of a conjugate symmetric signal, given by the first half of its last dimension."""
    return _transform_c2r("hfftn", input, s, dim, norm, False)


@with_out
def ihfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """Return `ifftn` of a real signal, the first half of the last dimension transformed."""
    return _transform_r2c("ihfftn", input, s, dim, norm, True)


def _make_two_dim_variant(transform: Function, what: str) -> Function:
    def over_two(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
        return transform(input, s, dim, norm)

    over_two.__name__ = over_two.__qualname__ = what
    over_two.__doc__ = f"`{transform.__name__}` over the last two dimensions unless others are given."
    return with_out(over_two)


fft2, ifft2 = _make_two_dim_variant(fftn, "fft2"), _make_two_dim_variant(ifftn, "ifft2")
rfft2, irfft2 = _make_two_dim_variant(rfftn, "rfft2"), _make_two_dim_variant(irfftn, "irfft2")
hfft2, ihfft2 = _make_two_dim_variant(hfftn, "hfft2"), _make_two_dim_variant(ihfftn, "ihfft2")

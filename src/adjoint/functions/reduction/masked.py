"""Reductions and normalizations of the elements that a mask admits: `adjoint.masked`, as `torch.masked` has them.

Each function replaces what its mask leaves out by the element that changes nothing: 0 in a sum, -inf in a maximum. So
elements that are left out do not count, whatever they are, and their gradient is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import numpy_dtype
from adjoint.core.dtype.dtype_info import iinfo
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DtypeLike, Operand
from adjoint.functions.api.dim_args import Dims, all_dims, one_dim
from adjoint.functions.creation.creation import full
from adjoint.functions.elementwise import activation
from adjoint.functions.linalg.norms_det import vector_norm
from adjoint.functions.reduction import cumulative, reduce, sort_quantile_unique
from adjoint.functions.shape.shape import broadcast_to
from adjoint.ops.elementwise import arithmetic, complex, float_functions, select
from adjoint.ops.movement.movement import numel

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

Masked = Callable[..., Tensor]
ARGUMENTS = """

    Args:
        input: tensor.
        dim: {dim}
        {keepdim}dtype: type of the result. Default: {dtype}.
        mask: tensor, true for the elements that count, of a shape that broadcasts to that of `input`. Default: None,
            all elements count.

    Raises: IndexError if the mask has more dimensions than `input`, RuntimeError if it does not broadcast.
    """
KEEPDIM = "keepdim: True to keep the reduced dimensions with size 1. Default: False.\n        "


def _lowest(x: Tensor) -> float:
    """Return the identity of a maximum."""
    kind = x.array.dtype.kind
    return False if kind == "b" else iinfo(x.dtype).min if kind in "iu" else -math.inf


def _highest(x: Tensor) -> float:
    """Return the identity of a minimum."""
    kind = x.array.dtype.kind
    return True if kind == "b" else iinfo(x.dtype).max if kind in "iu" else math.inf


def broadcast_mask(input: Tensor, mask: Tensor) -> Tensor:
    """Return the mask as truths, one for each element of `input`."""
    shape = input.array.shape
    if len(mask.array.shape) > len(shape):
        raise IndexError(
            "masked: expected a mask that broadcasts to the input, got more dimensions than the input has: mask "
            f"{tuple(mask.array.shape)}, input {tuple(shape)}"
        )
    truths = select.cast(mask, dtype=np.dtype(np.bool_))
    return truths if truths.array.shape == shape else broadcast_to(truths, shape)


def fill_masked(input: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """Return `input` with `value` in place of the elements that the mask leaves out."""
    if mask is None:
        return input
    return select.choose(broadcast_mask(input, mask), input, full((), value, dtype=input.dtype))


def _cast(x: Tensor, dtype: DtypeLike) -> Tensor:
    return select.cast(x, dtype=numpy_dtype(dtype))


def masked_reduction(
    identity: Callable[[Tensor], float], *, dim: int | None = None, result: str = "that of `input`"
) -> Callable[[Masked], Masked]:
    """Declare f(x, dim, keepdim, dtype), a fold of `x` over `dim`, with a mask; `dim` is its default."""
    first_dim = dim

    def declare(fold: Masked) -> Masked:
        def call(
            input: Tensor,
            dim: Dims = first_dim,
            *,
            keepdim: bool = False,
            dtype: DtypeLike = None,
            mask: Tensor | None = None,
        ) -> Tensor:
            out = fold(fill_masked(input, mask, identity(input)), dim, bool(keepdim), dtype)
            if result != "that of `input`":
                return out
            return _cast(out, input.dtype if dtype is None else dtype)

        dims = "dimension" if fold.__name__.startswith("arg") else "dimension or tuple of dimensions"
        words = f"{dims} to reduce. Default: {'None, all of them' if first_dim is None else first_dim}."
        return _describe(call, fold, dim=words, keepdim=KEEPDIM, dtype=result)

    return declare


def masked_normalization(identity: Callable[[Tensor], float]) -> Callable[[Masked], Masked]:
    """Declare f(x, dim, dtype), which has an element for each of `x`, with a mask."""

    def declare(function: Masked) -> Masked:
        def call(input: Tensor, dim: int, *, dtype: DtypeLike = None, mask: Tensor | None = None) -> Tensor:
            filled = fill_masked(input, mask, identity(input))
            return function(filled, one_dim(dim, input.ndim), input.dtype if dtype is None else dtype)

        words = "dimension along which the elements are taken together."
        return _describe(call, function, dim=words, keepdim="", dtype="that of `input`")

    return declare


def _describe(call: Masked, function: Masked, **words: str) -> Masked:
    """Give the public function the name of its declaration, and a docstring with all arguments."""
    call.__name__ = call.__qualname__ = function.__name__
    call.__module__ = function.__module__
    call.__doc__ = f"{function.__doc__}{ARGUMENTS.format(**words)}"
    return call


@masked_reduction(lambda x: 0, result="that of `input`, int64 for integers and truths")
def sum(x: Tensor, dim: Dims, keepdim: bool, dtype: DtypeLike) -> Tensor:
    """Return the sum over `dim` of the elements that the mask admits."""
    return reduce.sum(x, dim, keepdim, dtype=dtype)


@masked_reduction(lambda x: 1, result="that of `input`, int64 for integers and truths")
def prod(x: Tensor, dim: Dims, keepdim: bool, dtype: DtypeLike) -> Tensor:
    """Return the product over `dim` of the elements that the mask admits."""
    integral = x.array.dtype.kind in "iub"
    out = _cast(x, dtype if dtype is not None else np.int64 if integral else x.dtype)
    for axis in reversed(all_dims(dim, x.ndim)):
        out = reduce.prod(out, axis, keepdim, dtype=out.dtype)
    return out


@masked_reduction(_lowest)
def amax(x: Tensor, dim: Dims, keepdim: bool, dtype: DtypeLike) -> Tensor:
    """Return the largest over `dim` of the elements that the mask admits; the lowest number of the type if none."""
    return reduce.amax(x, () if dim is None else dim, keepdim)


@masked_reduction(_highest)
def amin(x: Tensor, dim: Dims, keepdim: bool, dtype: DtypeLike) -> Tensor:
    """Return the smallest over `dim` of the elements that the mask admits; the highest number of the type if none."""
    return reduce.amin(x, () if dim is None else dim, keepdim)


@masked_reduction(_lowest)
def argmax(x: Tensor, dim: int | None, keepdim: bool, dtype: DtypeLike) -> Tensor:
    """Return the index along `dim` of the largest element that the mask admits, in the type of `input`; 0 if none."""
    return reduce.argmax(x, dim, keepdim)


@masked_reduction(_highest)
def argmin(x: Tensor, dim: int | None, keepdim: bool, dtype: DtypeLike) -> Tensor:
    """Return the index along `dim` of the smallest element that the mask admits, in the type of `input`; 0 if none."""
    return reduce.argmin(x, dim, keepdim)


@masked_reduction(_lowest)
def logsumexp(x: Tensor, dim: Dims, keepdim: bool, dtype: DtypeLike) -> Tensor:
    """Return ln Σ eˣ over `dim` of the elements that the mask admits; -inf if there are none."""
    return reduce.logsumexp(x, dim, keepdim)


@masked_normalization(lambda x: 0)
def cumsum(x: Tensor, dim: int, dtype: DtypeLike) -> Tensor:
    """Return the running sums along `dim` of the elements that the mask admits."""
    return cumulative.cumsum(x, dim, dtype=dtype)


@masked_normalization(lambda x: 1)
def cumprod(x: Tensor, dim: int, dtype: DtypeLike) -> Tensor:
    """Return the running products along `dim` of the elements that the mask admits."""
    return cumulative.cumprod(x, dim, dtype=dtype)


@masked_normalization(_lowest)
def softmax(x: Tensor, dim: int, dtype: DtypeLike) -> Tensor:
    """Return eˣ / Σ eˣ along `dim`, 0 where the mask is false; NaN along a `dim` where it is false everywhere."""
    return activation.softmax(x, dim, dtype=dtype)


@masked_normalization(_lowest)
def log_softmax(x: Tensor, dim: int, dtype: DtypeLike) -> Tensor:
    """Return x - ln Σ eˣ along `dim`, -inf where the mask is false; NaN along a `dim` where it is false everywhere."""
    return activation.log_softmax(x, dim, dtype=dtype)


@masked_normalization(_highest)
def softmin(x: Tensor, dim: int, dtype: DtypeLike) -> Tensor:
    """Return e⁻ˣ / Σ e⁻ˣ along `dim`, 0 where the mask is false; NaN along a `dim` where it is false everywhere."""
    return activation.softmin(x, dim, dtype=dtype)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DtypeLike = None, mask: Tensor | None = None
) -> Tensor:
    """Return the mean over `dim` of the elements that the mask admits; NaN if there are none. See `sum`.

    Raises: ValueError if the result would be integers.
    """
    if numpy_dtype(input.dtype if dtype is None else dtype).kind not in "fcV":
        raise ValueError(
            f"mean(): Could not infer output dtype. {'Input' if dtype is None else 'Optional'} dtype must be either a "
            f"floating point or complex dtype. Got: {input.dtype if dtype is None else dtype}"
        )
    total = sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return arithmetic.div(total, _count(input, dim, bool(keepdim), mask))


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Operand:
    """Count the elements that the mask admits over `dim`."""
    if mask is None:
        return numel(tuple([input.array.shape[d] for d in all_dims(dim, input.ndim)]))
    return reduce.sum(broadcast_mask(input, mask), dim, keepdim)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DtypeLike = None, mask: Tensor | None = None
) -> Tensor:
    """Return the lower median along `dim` of the elements that the mask admits and that are not NaN. See `sum`.

    Where there are none the median of floating numbers is NaN.

    Raises: ValueError for integers none of which are admitted.
    """
    axis = one_dim(dim, input.ndim)
    floating = input.array.dtype.kind in "fV"
    x = fill_masked(input if floating else _cast(input, np.float32), mask, math.nan)
    out: Tensor = sort_quantile_unique.nanmedian(x, axis, keepdim).values
    if floating:
        return out
    if mask is not None and not reduce.all(reduce.any(broadcast_mask(input, mask), axis)):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return _cast(out, input.dtype if dtype is None else dtype)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the vector norm of order `ord` over `dim` of the elements that the mask admits. See `sum`."""
    order = 2.0 if ord is None else ord
    filled = fill_masked(input, mask, math.inf if order == -math.inf else 0)
    return vector_norm(filled, order, dim, bool(keepdim), dtype=input.dtype if dtype is None else dtype)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return `input` / max(norm, eps) along `dim`, 0 where the mask is false, with the norm of order `ord`.

    See `cumsum` for the other arguments.
    """
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return arithmetic.div(fill_masked(input, mask, 0), arithmetic.maximum(size, full((), eps, dtype=size.dtype)))


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DtypeLike = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Return ln(eˣ + eʸ) of the elements that their masks admit; -inf where neither does.

    Args:
        input, other: tensors x and y.
        dtype: type of the result. Default: that of `input`.
        input_mask, other_mask: tensors, true for the elements of `input` and of `other` that count.

    Raises: IndexError if a mask has more dimensions than its tensor, RuntimeError if it does not broadcast.
    """
    x, y = (fill_masked(t, mask, _lowest(t)) for t, mask in ((input, input_mask), (other, other_mask)))
    return _cast(float_functions.logaddexp(x, y), input.dtype if dtype is None else dtype)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the variance over `dim` of the elements that the mask admits; NaN if there are none. See `sum`.

    The sum of squared differences is divided by the number of elements less `correction`, which is 1 by default, or 0
    with `unbiased=False`.

    Raises: AssertionError if both `unbiased` and `correction` are given.
    """
    assert unbiased is None or correction is None, "Only one of unbiased and correction may be given"
    less = float(correction) if correction is not None else float(unbiased is not False)
    wanted = numpy_dtype(input.dtype if dtype is None else dtype)
    single = np.dtype(np.float32)
    if dtype is None and wanted.kind not in "fcV":
        wanted = single
    inner = wanted if wanted.kind in "fcV" else single
    count = _count(input, dim, True, mask)
    x = fill_masked(input, mask, 0)
    away = arithmetic.sub(x, arithmetic.div(sum(x, dim, keepdim=True, dtype=wanted), count))
    squares = arithmetic.mul(away, complex.conj(away))
    total = sum(squares, dim, keepdim=keepdim, dtype=inner, mask=mask)
    count = _count(input, dim, bool(keepdim), mask)
    if less:
        kind = np.dtype(f"f{inner.itemsize // 2}") if inner.kind == "c" else inner
        count = full((), count, dtype=kind) if mask is None else _cast(count, kind)
        count = select.clamp_range(arithmetic.sub(count, less), low=0.0, high=None)
    return _cast(arithmetic.div(total, count), wanted)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the square root of `var`."""
    arguments: dict[str, Any] = {"correction": correction, "keepdim": keepdim, "dtype": dtype, "mask": mask}
    return arithmetic.sqrt(var(input, dim, unbiased, **arguments))

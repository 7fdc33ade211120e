"""Variances, standard deviations, covariances and correlations."""

from __future__ import annotations

import numpy as np

from adjoint.core.dtype.dtype import DTYPES
from adjoint.core.graph.source_location import warn_user
from adjoint.core.tensor.size import as_float
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.dim_args import Dims, all_dims
from adjoint.functions.api.publish import public
from adjoint.functions.elementwise import pointwise
from adjoint.functions.linalg import matmul
from adjoint.functions.reduction.reduce import squared_size
from adjoint.functions.shape import shape
from adjoint.functions.shape.diag_tril import diag
from adjoint.ops.elementwise import arithmetic, comparison
from adjoint.ops.elementwise.complex import is_complex
from adjoint.ops.movement import movement
from adjoint.ops.multi_output import split_outputs
from adjoint.ops.reduction import reduction
from adjoint.ops.reduction import variance as deviation

__all__ = ["corrcoef", "cov", "std", "std_mean", "var", "var_mean"]


@public()
@in_float32
def var(
    input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """Return the variance Σ(x - mean)² / max(0, n - correction) over `dim`.

    Args:
        input: floating or complex tensor.
        dim: dimension or tuple of dimensions. Default: None, all of them.
        unbiased: False for a correction of 0. Default: True, a correction of 1.
        keepdim: True to keep the reduced dimensions with size 1. Default: False.
        correction: number to subtract from the count n; it overrides `unbiased`. Default: None.

    Raises: RuntimeError for integers. A UserWarning tells where n - correction is not positive.

    Example:
        >>> x = ad.tensor([1.0, 2.0, 3.0, 4.0])
        >>> ad.var(x), ad.var(x, correction=0)
        (tensor(1.6667), tensor(1.2500))
    """
    return _var_or_std(deviation.variance, input, dim, unbiased, keepdim, correction)


@public()
@in_float32
def std(
    input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """Return the standard deviation, the square root of `var`, over `dim`; its gradient at 0 is taken as 0.

    Args:
        input: floating or complex tensor.
        dim: dimension or tuple of dimensions. Default: None, all of them.
        unbiased: False for a correction of 0. Default: True, a correction of 1.
        keepdim: True to keep the reduced dimensions with size 1. Default: False.
        correction: number to subtract from the count n; it overrides `unbiased`. Default: None.

    Raises: RuntimeError for integers.

    Example:
        >>> ad.std(ad.tensor([[1.0, 3.0], [2.0, 8.0]]), dim=1)
        tensor([1.4142, 4.2426])
    """
    return _var_or_std(deviation.deviation, input, dim, unbiased, keepdim, correction)


def _var_or_std(of: Function, x: Tensor, dim: Dims, unbiased: bool, keepdim: bool, correction: float | None) -> Tensor:
    if x.array.dtype.kind not in "fcV":
        raise RuntimeError("std and var only support floating point and complex dtypes")
    if isinstance(dim, bool):  # var(input, unbiased)
        unbiased, dim = dim, None
    axes, shape = all_dims(dim, x.ndim), x.array.shape
    count = movement.numel(tuple([shape[a] for a in axes]))
    freedom = count - (unbiased if correction is None else correction)
    if freedom <= 0:
        warn_user(
            f"{'var' if of is deviation.variance else 'std'}(): degrees of freedom is <= 0. Correction should be "
            "strictly less than the reduction factor (input numel divided by output numel).",
            UserWarning,
        )
    if not count:
        freedom = 0  # nothing has no variance, whatever is added to its count
    if freedom > 0 and x.array.dtype.kind == "f":
        return of(x, axes=axes, keepdims=keepdim, freedom=as_float(freedom))
    centred = arithmetic.sub(x, reduction.mean(x, axes=axes, keepdims=True))
    total = reduction.sum(squared_size(centred), axes=axes, keepdims=keepdim)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = arithmetic.div(total, float(freedom) if freedom > 0 else 0.0)
    return variance if of is deviation.variance else deviation.safe_sqrt(variance)


@public(method=False)
@in_float32
def var_mean(
    input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, ...]:
    """Return `var` and `mean` over `dim`."""
    return _spread_and_mean(input, dim, unbiased, keepdim, correction, var, "VarMeanBackward0")


@public(method=False)
@in_float32
def std_mean(
    input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, ...]:
    """Return `std` and `mean` over `dim`."""
    return _spread_and_mean(input, dim, unbiased, keepdim, correction, std, "StdMeanBackward0")


def _spread_and_mean(
    x: Tensor, dim: Dims, unbiased: bool, keepdim: bool, correction: float | None, spread: Function, kind: str
) -> tuple[Tensor, ...]:
    if isinstance(dim, bool):
        unbiased, dim = dim, None
    first = spread(x, dim, unbiased, keepdim, correction=correction)
    mean = reduction.mean(x, axes=all_dims(dim, x.ndim), keepdims=keepdim)
    if is_complex(x):  # the spread of which is real
        return first, mean
    both = movement.cat(shape.unsqueeze(first, -1), shape.unsqueeze(mean, -1), axis=first.ndim)
    return split_outputs(both, ((), ()), kind)


@public()
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Return Σ (x - x̄)(y - ȳ) / (N - correction) for pairs of rows of `input` (variables, observations).

    `fweights` tells how often an observation was made, `aweights` how much it counts. Raises RuntimeError for more than
    two dimensions, truths, and weights of another type or number, below 0, or of the sum 0.
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.array.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x: Operand = input if input.ndim == 2 else shape.reshape(input, (1, input.numel()))
    count = x.array.shape[1]
    weights = _weights(count, fweights, aweights)
    total = count if weights is None else weights.sum()
    if _try_read_number(total) == 0 and weights is not None:
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    weighed = reduction.widen_integers(x if weights is None else x * weights)
    mean = reduction.sum(weighed, axes=(1,), keepdims=True) / total
    freedom = total - correction
    if aweights is not None and correction:
        freedom = total - (weights * aweights).sum() * correction / total
    if (known := _try_read_number(freedom)) is not None and known <= 0:
        warn_user(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
            UserWarning,
        )
    freedom = pointwise.clamp(freedom, min=0) if isinstance(freedom, Tensor) else as_float(max(freedom, 0))
    apart = x - mean
    other = apart if weights is None else apart * weights
    other = shape.transpose(other, 0, 1)
    products = matmul.mm(apart, other.conj() if other.array.dtype.kind == "c" else other)
    return shape.squeeze(arithmetic.div(products, freedom))


def _try_read_number(value: Tensor | float) -> Operand:
    """Return a number, or the one that a tensor holds; None while a step is traced."""
    if not isinstance(value, Tensor):
        return value
    return value.array.item() if type(value.array) is np.ndarray else None


def _weights(count: int, fweights: Tensor | None, aweights: Tensor | None) -> Tensor | None:
    out: Operand = None
    for name, given, rank, kind in (("fweights", fweights, 1, "integral"), ("aweights", aweights, 2, "floating point")):
        if given is None:
            continue
        if given.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {given.ndim} dimensions"
            )
        if DTYPES[given.array.dtype].rank != rank:
            raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {given.dtype} dtype")
        if given.numel() != count:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{given.numel()} != {count}"
            )
        below = reduction.any(comparison.lt(given, 0), axes=tuple(range(given.ndim)), keepdims=False)
        if _try_read_number(below):
            raise RuntimeError(f"cov(): {name} cannot be negative")
        out = given if out is None else out * given
    return out


@public()
def corrcoef(input: Tensor) -> Tensor:
    """Return the covariances of the rows of `input` over the product of their standard deviations, within [-1, 1].

    Raises RuntimeError for more than two dimensions.
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    c = cov(input)
    if not c.ndim:
        return c / c
    variances = diag(c)
    complex_ones = c.array.dtype.kind == "c"
    deviations = (variances.real if complex_ones else variances).sqrt()
    c = c / deviations[:, None] / deviations[None, :]
    return c if complex_ones else pointwise.clamp(c, -1, 1)

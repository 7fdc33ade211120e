"""Sums, means, extremes and truths over dimensions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, default, is_floating, numpy_dtype
from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.op.autocast import autocast_up
from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.op import op_of
from adjoint.core.op.op_errors import refuse_numbers
from adjoint.core.op.recorder import is_evaluated_alone, wrap_unrecorded
from adjoint.core.op.spec import describe
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor, constant, wrap
from adjoint.core.typing import DtypeLike, Function, NumpyDtype, Operand
from adjoint.functions.api import return_types
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.dim_args import Dims, all_dims, check_keepdim, one_dim, parse_shape
from adjoint.functions.api.out import write_out
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.api.return_types import Extreme
from adjoint.ops.elementwise import arithmetic, comparison, select, transcendental
from adjoint.ops.elementwise.complex import imag, is_complex, real
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import memory_format, movement
from adjoint.ops.reduction import reduction
from adjoint.ops.reduction import variance as deviation
from adjoint.ops.reduction.logsumexp import logsumexp as _logsumexp
from adjoint.ops.reduction.summation import HALF, SINGLE, add_up

__all__ = [
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "hash_tensor", "logsumexp", "max",
    "mean", "min", "nanmean", "nansum", "prod", "sum",
]  # fmt: skip

# kinds of elements and of their sum; those of bfloat16 are V
WIDENED_KINDS = {"bi", "bu", "bf", "bc", "ui", "uu", "uf", "uc", "ii", "iu", "if", "ic", "ff", "fc", "Vf"}
ROW_KERNELS = {name: SmallArrayKernel(name) for name in ("max", "min")}


def sum_dtype(input: Tensor, dtype: DtypeLike) -> NumpyDtype:
    """Return the type of a sum: `dtype`, or int64 for integers and truths."""
    kind = input.array.dtype
    return numpy_dtype(dtype) if dtype is not None else np.dtype(np.int64) if kind.kind in "iub" else kind


def fold_as(fold: Function, input: Tensor, dtype: NumpyDtype, axes: tuple[int, ...], keepdim: bool) -> Tensor | None:
    """Fold elements that are converted one by one: of a mask no array of integers is made.

    None where a gradient, or a mode, is to see the conversion.
    """
    x = input.array
    if not is_evaluated_alone(input) or (x.dtype.kind + dtype.kind) not in WIDENED_KINDS:
        return None
    out = reduction.row_major(fold(x, axes, keepdim, dtype), keepdim)
    return wrap_unrecorded(np.asarray(reduction.round_to(out, dtype)))


@public()
def sum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DtypeLike = None) -> Tensor:
    """Return the sum of all elements, or of those along `dim`.

    Args:
        input: tensor; integers and truths are summed as int64.
        dim: dimension or tuple of dimensions to sum over. Default: None, all of them.
        keepdim: True to keep the summed dimensions with size 1. Default: False.
        dtype: type to which the elements are converted first. Default: that of `input`.

    Example:
        >>> x = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> ad.sum(x), ad.sum(x, dim=0)
        (tensor(10.), tensor([4., 6.]))
    """
    if keepdim is not False and keepdim is not True:
        check_keepdim("sum", keepdim)
    axes = all_dims(dim, len(input.array.shape))
    if dtype is not None or input.array.dtype.kind != "f":
        target = sum_dtype(input, dtype)
        own = target == input.array.dtype
        if not own or target.kind == "V":
            found = fold_as(add_up, input, SINGLE if own else target, axes, keepdim)
            if found is not None:
                return select.cast(found, dtype=target) if own else found
            input = input if own else select.cast(input, dtype=target)
    return reduction.sum(input, axes=axes, keepdims=keepdim)


@public()
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DtypeLike = None) -> Tensor:
    """Return Σ over `dim`, NaN counting as 0."""
    if keepdim is not False and keepdim is not True:
        check_keepdim("nansum", keepdim)
    check_ordered("nansum", input)
    x: Operand = _replace_nan_by_zero(input) if input.array.dtype.kind in "fcV" else input
    return rename_node(x.sum(dim, keepdim, dtype=dtype), "NansumBackward0")


@public()
def mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DtypeLike = None) -> Tensor:
    """Return the mean of all elements, or of those along `dim`.

    Args:
        input: floating or complex tensor.
        dim: dimension or tuple of dimensions to average over. Default: None, all of them.
        keepdim: True to keep these dimensions with size 1. Default: False.
        dtype: type to which the elements are converted first. Default: that of `input`.

    Raises: RuntimeError for integers without a `dtype`.

    Example:
        >>> ad.mean(ad.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
        tensor([1.5000, 3.5000])
    """
    if keepdim is not False and keepdim is not True:
        check_keepdim("mean", keepdim)
    axes = all_dims(dim, len(input.array.shape))
    x = input
    target = input.array.dtype if dtype is None else numpy_dtype(dtype)
    own = target == input.array.dtype
    if not own or target.kind == "V":
        wide = SINGLE if own or target == HALF else target
        total = fold_as(add_up, input, wide, axes, keepdim) if wide.kind == "f" else None
        if total is not None:
            out = arithmetic.div(total, float(math.prod([input.shape[d] for d in axes])))
            return out if wide == target else select.cast(out, dtype=target)
        x = input if own else select.cast(input, dtype=target)
    check_mean_dtype(x)
    return reduction.mean(x, axes=axes, keepdims=keepdim)


def check_mean_dtype(x: Tensor) -> None:
    """Raise RuntimeError for integers and truths, whose mean has no dtype of its own."""
    if x.array.dtype.kind not in "fcV":
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {x.dtype}"
        )


@public()
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DtypeLike = None) -> Tensor:
    """Return the mean over `dim` of the elements that are not NaN. Raises RuntimeError for integers."""
    if keepdim is not False and keepdim is not True:
        check_keepdim("nanmean", keepdim)
    if DTYPES[input.array.dtype].rank < 2:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {scalar_type(input.dtype)}"
        )
    there = select.cast(comparison.logical_not(comparison.isnan(input.detach())), dtype=input.array.dtype)
    return arithmetic.div(nansum(input, dim, keepdim, dtype=dtype), there.sum(dim, keepdim))


def _replace_nan_by_zero(input: Tensor) -> Tensor:
    return select.where(comparison.isnan(input), np.zeros((), input.array.dtype), input)


@public()
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DtypeLike = None) -> Tensor:
    """Return Π over `dim`, or over all dimensions."""
    if keepdim is not False and keepdim is not True:
        check_keepdim("prod", keepdim)
    if nondefault.count and mode.autocast is not None:
        input = autocast_up(input)
    axes, target = all_dims(dim, input.ndim), sum_dtype(input, dtype)
    if target != input.array.dtype:
        found = fold_as(
            lambda x, axes, keepdim, dtype: reduction.multiply_reduce(
                x, axes, SINGLE if dtype == HALF else dtype, None, keepdim
            ),
            input,
            target,
            axes,
            keepdim,
        )
        if found is not None:
            return found
        input = select.cast(input, dtype=target)
    return reduction.prod(input, axes=axes, keepdims=keepdim)


@public()
@in_float32
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """Return ln Σ eˣ over `dim`, computed so that nothing overflows.

    Args:
        input: tensor; integers become the default dtype.
        dim: dimension or tuple of dimensions.
        keepdim: True to keep the reduced dimensions with size 1. Default: False.

    Example:
        >>> ad.logsumexp(ad.tensor([1000.0, 1000.0]), dim=0)
        tensor(1000.6932)
    """
    if keepdim is not False and keepdim is not True:
        check_keepdim("logsumexp", keepdim)
    x = input if is_floating(input.array) else select.cast(input, dtype=default.floating.numpy)
    axes = all_dims(dim, x.ndim)
    if not x.numel():
        return transcendental.log(reduction.sum(transcendental.exp(x), axes=axes, keepdims=keepdim))
    return _logsumexp(x, axes=axes, keepdims=keepdim)


@public()
def amax(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the largest elements over `dim`; ties share the gradient equally."""
    if keepdim is not False and keepdim is not True:
        check_keepdim("amax", keepdim)
    check_ordered("amax", input)
    _check_not_empty("amax", input, dim, RuntimeError)
    return reduction.max(input, axes=all_dims(dim, input.ndim), keepdims=keepdim)


@public()
def amin(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the smallest elements over `dim`; ties share the gradient equally."""
    if keepdim is not False and keepdim is not True:
        check_keepdim("amin", keepdim)
    check_ordered("amin", input)
    _check_not_empty("amin", input, dim, RuntimeError)
    return reduction.min(input, axes=all_dims(dim, input.ndim), keepdims=keepdim)


class AminmaxResult(NamedTuple):
    """Result of `aminmax`."""

    min: Tensor
    max: Tensor


@public()
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: tuple[Tensor, ...] | None = None
) -> AminmaxResult:
    """Return `amin` and `amax` over `dim`, or over all dimensions."""
    if out is not None:
        return write_out(out, aminmax, input, dim=dim, keepdim=keepdim)
    x: Operand = input
    over = () if dim is None else dim
    return AminmaxResult(x.amin(over, keepdim), x.amax(over, keepdim))


def _check_not_empty(name: str, input: Tensor, dim: Dims, error: type[Exception]) -> None:
    """Raise `error` where nothing is left to reduce, IndexError where a named dimension is empty."""
    shape = input.array.shape
    if 0 not in shape:
        return
    if dim is None or dim == ():
        raise error(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    for d in all_dims(dim, len(shape)):
        if not shape[d]:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


@public()
def max(input: Tensor, dim: Operand = None, keepdim: bool = False) -> Any:
    """Return the largest element, or with `dim` the pair (values, indices) of the largest along it.

    With a tensor as second argument the result is `maximum` of the two. Without `dim`, equal largest elements share the
    gradient; with `dim`, the element at the returned index takes it all.

    Args:
        input: tensor of real numbers.
        dim: dimension to reduce, or a tensor to compare with. Default: None, all elements.
        keepdim: True to keep `dim` with size 1. Default: False.

    Raises: RuntimeError if there are no elements and no `dim`, IndexError if `dim` has size 0.

    Example:
        >>> x = ad.tensor([[1, 5], [7, 2]])
        >>> ad.max(x)
        tensor(7)
        >>> ad.max(x, dim=1)
        adjoint.return_types.max(
        values=tensor([5, 7]),
        indices=tensor([1, 0]))
    """
    return _max_or_min("max", input, dim, keepdim, reduction.max, reduction.argmax, arithmetic.maximum)


@public()
def min(input: Tensor, dim: Operand = None, keepdim: bool = False) -> Any:
    """Return the smallest element, or with `dim` the pair (values, indices) of the smallest along it.

    With a tensor as second argument the result is `minimum` of the two. Without `dim`, equal smallest elements share
    the gradient; with `dim`, the element at the returned index takes it all.

    Args:
        input: tensor of real numbers.
        dim: dimension to reduce, or a tensor to compare with. Default: None, all elements.
        keepdim: True to keep `dim` with size 1. Default: False.

    Raises: RuntimeError if there are no elements and no `dim`, IndexError if `dim` has size 0.

    Example:
        >>> ad.min(ad.tensor([[1, 5], [7, 2]]), dim=1).values
        tensor([1, 2])
    """
    return _max_or_min("min", input, dim, keepdim, reduction.min, reduction.argmin, arithmetic.minimum)


def check_ordered(name: str, x: Tensor) -> None:
    """Raise NotImplementedError for complex numbers: none is the larger of two."""
    if x.array.dtype.kind == "c":
        raise NotImplementedError(f"{name} is not implemented for complex numbers, given {describe(x.array)}")


def _max_or_min(
    name: str, x: Tensor, dim: Operand, keepdim: bool, over_all: Function, where_is: Function, of_two: Function
) -> Any:
    if not isinstance(x, Tensor):
        refuse_numbers(name, ("input", "other"), "y", x, dim)
    if isinstance(dim, Tensor):
        return of_two(x, dim)
    rank = len(x.array.shape)
    check_ordered(name, x)
    _check_not_empty(name, x, dim, RuntimeError)
    if dim is None:
        out = over_all(x, axes=all_dims(None, rank), keepdims=False)
        return out if out.node is None else rename_node(out, f"{name.capitalize()}Backward1")
    axis, kind = one_dim(dim, rank), getattr(return_types, name)
    if rank == 0:
        return _scalar_extreme(x, kind)
    array = x.array
    if type(array) is np.ndarray and not keepdim and not (nondefault.count and mode.alters_ops):
        if axis != rank - 1:
            array = array.transpose(movement.axis_to_end(rank, axis))
        places = np.empty(array.shape[:-1], np.int64)
        found = ROW_KERNELS[name].call(array, places) if kernel_provider.enabled else None
        if found is not None:
            return kind(indexing.take_along(x, indices := wrap_unrecorded(places), axis=axis, computed=found), indices)
    indices = find_positions(where_is, x, axis=axis, keepdims=True)
    return _gather_extremes(x, indices, axis, keepdim, kind)


def _detach_or_rewrap(x: Tensor) -> Tensor:
    """Return the values of x, for an op that has no gradient and gives no view."""
    return x.detach() if nondefault.count and mode.needs_slow_path else wrap(x.array)


def find_positions(search: Function, x: Tensor, **params: object) -> Tensor:
    """Return the positions in x that an op without a gradient finds."""
    array = x.array
    if type(array) is np.ndarray and array.dtype.kind != "V" and not (nondefault.count and mode.alters_ops):
        return wrap_unrecorded(np.asarray(op_of(search).evaluate(array, **params)))  # of a vector, a scalar of NumPy's
    found: Tensor = search(_detach_or_rewrap(x), **params)
    return found


def _scalar_extreme(x: Tensor, kind: type[Extreme]) -> Extreme:
    """Return a 0-d tensor as its own extreme, at 0."""
    return kind(select.copy(x), constant(np.zeros((), np.int64)))


def _gather_extremes(x: Tensor, indices: Tensor, axis: int, keepdim: bool, kind: type[Extreme]) -> Extreme:
    values = indexing.gather(x, indices, axis=axis)
    if not keepdim:
        shape = values.array.shape
        shape = shape[:axis] + shape[axis + 1 :]
        values, indices = movement.reshape_unshared(values, shape), movement.reshape_unshared(indices, shape)
    return kind(values, indices)


@public()
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the index of the first largest element along `dim`, or in the flattened tensor.

    Args:
        input: tensor of real numbers.
        dim: dimension to reduce. Default: None, all of them flattened.
        keepdim: True to keep the reduced dimensions with size 1. Default: False.

    Example:
        >>> ad.argmax(ad.tensor([[1, 5], [7, 2]]), dim=1)
        tensor([1, 0])
    """
    if keepdim is not False and keepdim is not True:
        check_keepdim("argmax", keepdim)
    return _arg_extreme(input, dim, keepdim, reduction.argmax)


@public()
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the index of the first smallest element along `dim`, or in the flattened tensor."""
    if keepdim is not False and keepdim is not True:
        check_keepdim("argmin", keepdim)
    return _arg_extreme(input, dim, keepdim, reduction.argmin)


def _arg_extreme(input: Tensor, dim: int | None, keepdim: bool, where_is: Function) -> Tensor:
    name = op_of(where_is).name
    if input.array.dtype.kind == "b":
        raise RuntimeError(f"{name}(): does not support bool input")
    check_ordered(name, input)
    _check_not_empty(name, input, dim, IndexError)
    array, rank = input.array, len(input.array.shape)
    if dim is not None and rank:
        return find_positions(where_is, input, axis=one_dim(dim, rank), keepdims=keepdim)
    if dim is not None:
        one_dim(dim, 0)
    if type(array) is np.ndarray and array.dtype.kind != "V" and not (nondefault.count and mode.alters_ops):
        flat = wrap_unrecorded(np.asarray(op_of(where_is).evaluate(array.reshape(-1), axis=0, keepdims=False)))
    else:
        x = _detach_or_rewrap(input)
        flat = where_is(movement.reshape_unshared(x, (movement.numel(x.array.shape),)), axis=0, keepdims=False)
    return movement.reshape_unshared(flat, (1,) * rank) if keepdim else flat


@public()
def any(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return whether any element along `dim` is not zero.

    Args:
        input: tensor; the result is bool, for uint8 it is uint8.
        dim: dimension or tuple of dimensions; an empty tuple tests each element alone. Default: None, all.
        keepdim: True to keep the reduced dimensions with size 1. Default: False.

    Example:
        >>> ad.any(ad.tensor([[0, 1], [0, 0]]), dim=1)
        tensor([ True, False])
    """
    if keepdim is not False and keepdim is not True:
        check_keepdim("any", keepdim)
    return _reduce_truth(reduction.any, input, dim, keepdim)


@public()
def all(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return whether all elements along `dim` are different from zero.

    Args:
        input: tensor; the result is bool, for uint8 it is uint8.
        dim: dimension or tuple of dimensions; an empty tuple tests each element alone. Default: None, all.
        keepdim: True to keep the reduced dimensions with size 1. Default: False.

    Example:
        >>> ad.all(ad.tensor([[1, 1], [0, 1]]), dim=1)
        tensor([ True, False])
    """
    if keepdim is not False and keepdim is not True:
        check_keepdim("all", keepdim)
    return _reduce_truth(reduction.all, input, dim, keepdim)


def _reduce_truth(over: Function, input: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    axes = () if isinstance(dim, (tuple, list)) and not dim else all_dims(dim, input.ndim)
    is_constant = input.array.dtype.kind == "b" or is_evaluated_alone(input)
    constant = input if is_constant else input.detach()
    out: Tensor = over(constant, axes=axes, keepdims=keepdim)
    return select.cast(out, dtype=input.array.dtype) if input.array.dtype == np.uint8 else out


@public()
def count_nonzero(input: Tensor, dim: Dims = None, *others: int) -> Tensor:
    """Count the elements over `dim`, or several dimensions one by one, that are not zero."""
    x = input.array
    dim = parse_shape((dim, *others)) if others else dim
    if type(x) is np.ndarray and not (nondefault.count and mode.alters_ops):
        return wrap_unrecorded(np.asarray(np.count_nonzero(x, axis=all_dims(dim, x.ndim) or None), np.int64))
    return sum(input.detach() if x.dtype.kind == "b" else comparison.ne(input.detach(), 0), dim)


@public()
def hash_tensor(input: Tensor, dim: Dims = None, *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """Return a checksum over `dim`, in uint64: the exclusive or of the bits of all elements.

    Floating numbers count as float64, integers and truths as int64.

    Args:
        input: tensor of real numbers.
        dim: dimension or tuple of dimensions. Default: None, all of them.
        keepdim: True to keep the reduced dimensions with size 1. Default: False.
        mode: 0, for this checksum, is the only one. Default: 0.

    Raises: RuntimeError for another `mode`, and if there are no elements and no `dim`; IndexError if `dim` has size 0.
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    check_ordered("hash_tensor", input)
    _check_not_empty("hash_tensor", input, dim, RuntimeError)
    kind = input.array.dtype
    wide = np.dtype(np.float64) if kind.kind in "fV" else kind if kind == np.uint64 else np.dtype(np.int64)
    x = _detach_or_rewrap(input)
    bits = memory_format.reinterpret(x if kind == wide else select.cast(x, dtype=wide), dtype=np.dtype(np.uint64))
    return reduction.xor(bits, axes=all_dims(dim, input.ndim), keepdims=keepdim)


def squared_size(x: Tensor) -> Tensor:
    """Return |x|²: of complex numbers the sum of the squares of both parts, which is real."""
    if not is_complex(x):
        return arithmetic.square(x)
    return arithmetic.add(arithmetic.square(real(x)), arithmetic.square(imag(x)))


@in_float32
def power_norm(
    input: Tensor, p: Operand = 2, dim: Dims = None, keepdim: bool = False, *, dtype: DtypeLike = None
) -> Tensor:
    """Return (Σ|x|ᵖ)^(1/p) over `dim`; "fro" is p = 2, ±inf the extremes, 0 counts. The gradient at 0 is taken as 0.

    Raises: RuntimeError for integers.
    """
    x = cast_floats(input, dtype)
    axes = all_dims(dim, x.ndim)
    power = 2.0 if p in ("fro", None) else float(p)

    def total(terms: Operand) -> Tensor:
        return reduction.sum(terms, axes=axes, keepdims=keepdim)

    if power == 2 and x.array.dtype.kind != "c":
        return deviation.euclidean_norm(x, axes=axes, keepdims=keepdim)
    if power == 2:
        return rename_node(deviation.safe_sqrt(total(squared_size(x))), "LinalgVectorNormBackward0")
    if power == 0:
        return total(select.where(comparison.ne(x, 0), 1.0, arithmetic.sign(arithmetic.abs(x))))
    size = arithmetic.abs(x)
    if power == 1:
        return total(size)
    if math.isinf(power):
        extreme = reduction.max if power > 0 else reduction.min
        return extreme(size, axes=axes, keepdims=keepdim)
    if power < 1:
        still = comparison.eq(size, 0.0)  # whose slope is infinite, and is taken as 0
        powers = arithmetic.pow(select.where(still, 1.0, size), power)
        summed = total(select.where(still, 0.0 if power > 0 else math.inf, powers))
    else:
        summed = total(arithmetic.pow(size, power))
    zero = comparison.eq(summed, 0.0)
    nothing = 0.0 if power > 0 else math.inf  # of a negative power only infinities leave no sum
    return select.where(zero, nothing, arithmetic.pow(select.where(zero, 1.0, summed), 1.0 / power))


def cast_floats(input: Tensor, dtype: DtypeLike) -> Tensor:
    """Return `input`, in type `dtype` if that is given. Raises RuntimeError for integers."""
    x = input if dtype is None else select.cast(input, dtype=numpy_dtype(dtype))
    if not is_floating(x.array):
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {x.dtype}")
    return x

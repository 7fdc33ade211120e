"""Element-wise functions of sparse tensors: those that keep zero, sums, products, and in-place forms."""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Number

import numpy as np

from adjoint.core.tensor.memory_format import sparse_coo
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand
from adjoint.functions.sparse.conversion import coalesce, convert_like, take_rows, to_coo, to_dense
from adjoint.functions.sparse.row_gradient import join_rows
from adjoint.functions.sparse.sparse_tensor import (
    SparsePattern,
    SparseTensor,
    empty_of,
    handlers,
    handles,
    make_sparse,
    replace_content,
    values_at,
    with_values,
)

# Functions that are linear: values at equal indices may stay apart.
LINEAR = "neg negative positive real imag conj conj_physical deg2rad rad2deg"
# Functions that send zero to zero.
ZERO_PRESERVING = """
    abs absolute sin sinh asin arcsin asinh arcsinh tan tanh atan arctan atanh arctanh sqrt expm1 log1p relu sign sgn
    ceil floor round trunc fix frac erf erfinv isnan isinf isposinf isneginf signbit nan_to_num square angle
"""


def _register_unary() -> None:
    for name in (LINEAR + ZERO_PRESERVING).split():
        linear = name in LINEAR.split()
        handles(name, f"special_{name}")(_make_unary(name, linear))
        handles(f"{name}_")(_make_in_place(name))


def _make_unary(name: str, linear: bool) -> Callable[..., Operand]:
    def apply_to_values(x: SparseTensor, *args: Operand, **kwargs: Operand) -> SparseTensor:
        kwargs.pop("inplace", None)
        held = x if linear or not x.is_sparse else coalesce(x)
        return with_values(held, getattr(held.entries, name)(*args, **kwargs))

    return apply_to_values


def _make_in_place(name: str) -> Callable[..., Operand]:
    def write(x: Operand, *args: Operand, **kwargs: Operand) -> Operand:
        found = handlers[name](x, *args, **kwargs)
        if not isinstance(x, SparseTensor):
            return x.copy_(to_dense(found) if isinstance(found, SparseTensor) else found)
        if not isinstance(found, SparseTensor):
            raise RuntimeError(f"{name}_: a sparse tensor cannot hold the result, which is dense")
        return replace_content(x, convert_like(found, x))

    return write


_register_unary()


def _is_number(x: Operand) -> bool:
    return isinstance(x, Number) or (isinstance(x, Tensor) and not isinstance(x, SparseTensor) and x.ndim == 0)


@handles("add")
def add(input: Operand, other: Operand, *, alpha: Operand = 1) -> Operand:
    """Return input + alpha · other: sparse for two sparse tensors, dense for a dense first one.

    Raises RuntimeError for a dense second one, and for different shapes.
    """
    if not isinstance(input, SparseTensor):
        return _add_to_dense(input, other, alpha)
    if not isinstance(other, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    _require_same_shape("add", input, other)
    x, y = to_coo(input), to_coo(other)
    if x.pattern.is_symbolic or y.pattern.is_symbolic:
        return join_rows(x, y if _is_one(alpha) else mul(y, alpha))
    dtype = np.result_type(x.entries.array.dtype, y.entries.array.dtype)
    left, right = (_cast(v, dtype) for v in (x.entries, y.entries if _is_one(alpha) else y.entries * alpha))
    if x.pattern is y.pattern:
        return convert_like(with_values(x, left + right), input)
    indices = np.concatenate([x.pattern.arrays, y.pattern.arrays], 1)
    joined = make_sparse(SparsePattern(sparse_coo, x.pattern.shape, wrap(indices)), _join(left, right))
    ordered = not input.is_sparse or (x.pattern.is_coalesced and y.pattern.is_coalesced)
    return convert_like(coalesce(joined) if ordered else joined, input)


def _is_one(alpha: Operand) -> bool:
    return type(alpha) in (int, float) and alpha == 1


def _cast(values: Operand, dtype: Operand) -> Operand:
    return values if values.array.dtype == dtype else values.to(wrap(np.zeros(0, dtype)).dtype)


def _join(first: Operand, second: Operand) -> Tensor:
    from adjoint.functions.shape.join import cat

    return cat([first, second])


def _add_to_dense(dense: Operand, x: SparseTensor, alpha: Operand) -> Tensor:
    if _is_number(dense) or not isinstance(dense, Tensor):
        raise RuntimeError("add(scalar, sparse) is not supported: zeros would get a value. Use x.to_dense() first.")
    values = to_coo(x) if x.pattern.block else x
    if dense.shape != x.shape:
        return dense + to_dense(x) * alpha
    entries = values.entries if _is_one(alpha) else values.entries * alpha
    return dense.index_put(values.pattern.coordinates, _cast(entries, dense.array.dtype), accumulate=True)


@handles("sub", "subtract")
def sub(input: Operand, other: Operand, *, alpha: Operand = 1) -> Operand:
    """Return input - alpha · other, as `add` does."""
    if isinstance(input, SparseTensor) and not isinstance(other, SparseTensor):
        raise RuntimeError("sub(sparse, dense) is not supported. Use sub(dense, sparse) instead.")
    return add(input, other, alpha=-alpha)


@handles("__rsub__", "rsub")
def rsub(input: Operand, other: Operand, *, alpha: Operand = 1) -> Operand:
    """Return other - alpha · input."""
    return sub(other, input, alpha=alpha)


@handles("mul", "multiply", "__rmul__")
def mul(input: Operand, other: Operand) -> Operand:
    """Return the product, which has values where both have: sparse, also beside a dense tensor."""
    x, y = (input, other) if isinstance(input, SparseTensor) else (other, input)
    if _is_number(y):
        return with_values(x, x.entries * y)
    if not isinstance(y, SparseTensor):
        return _mul_dense(x, y)
    _require_same_shape("mul", x, y)
    like, x, y = x, coalesce(to_coo(x)), coalesce(to_coo(y))
    if x.pattern is y.pattern:
        return convert_like(with_values(x, x.entries * y.entries), like)
    _, first, second = np.intersect1d(x.pattern.keys, y.pattern.keys, assume_unique=True, return_indices=True)
    pattern = SparsePattern(sparse_coo, x.pattern.shape, wrap(np.ascontiguousarray(x.pattern.arrays[:, first])), True)
    product: Operand = take_rows(x.entries, first)
    return convert_like(make_sparse(pattern, product * take_rows(y.entries, second)), like)


def _mul_dense(x: SparseTensor, y: Operand) -> SparseTensor:
    if x.pattern.block:  # zeros within a block stay in it
        return convert_like(_mul_dense(to_coo(x), y), x)
    return with_values(x, x.entries * values_at(y.expand(x.shape), x.pattern))


@handles("div", "divide", "true_divide")
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Operand:
    """Return a sparse tensor divided by a number, or by a dense tensor where it has values."""
    return _divide("div", input, other, lambda x, y: x.div(y, rounding_mode=rounding_mode))


@handles("floor_divide", "__floordiv__")
def floor_divide(input: Operand, other: Operand) -> Operand:
    """Return a sparse tensor divided by a number, rounded down."""
    return _divide("floor_divide", input, other, operator.floordiv)


def _divide(name: str, input: Operand, other: Operand, function: Callable[[Operand, Operand], Operand]) -> Operand:
    if not isinstance(input, SparseTensor) or isinstance(other, SparseTensor):
        raise RuntimeError(f"{name}: a division by a sparse tensor divides by zero")
    if _is_number(other):
        held = input if name == "div" or not input.is_sparse else coalesce(input)
        return with_values(held, function(held.entries, other))
    held = coalesce(to_coo(input))
    quotient = function(held.entries, values_at(other.expand(input.shape), held.pattern))
    return convert_like(with_values(held, quotient), input)


@handles("pow")
def pow(input: Operand, exponent: Operand) -> Operand:
    """Return the values to a positive power.

    Raises RuntimeError for a power that does not send zero to zero.
    """
    if not isinstance(input, SparseTensor) or not _is_number(exponent):
        raise RuntimeError("pow: only a sparse tensor to the power of a number is there; use x.to_dense() first")
    if isinstance(exponent, (int, float)) and not exponent > 0:
        raise RuntimeError("pow: negative powers and zero are not supported on sparse tensors: zeros would get a value")
    held = coalesce(input) if input.is_sparse else input
    return with_values(held, held.entries**exponent)


@handles("zero_")
def zero_(x: SparseTensor) -> SparseTensor:
    """Remove all values, in place."""
    if not x.is_sparse:
        return replace_content(x, empty_of(x.shape, x.layout, x.dtype))
    values = wrap(np.zeros((0, *x.entries.array.shape[1:]), x.entries.array.dtype))
    none = wrap(np.zeros((x.pattern.sparse_dim, 0), np.int64))
    return replace_content(x, make_sparse(SparsePattern(sparse_coo, x.pattern.shape, none, True), values))


@handles("add_", "__iadd__")
def add_(input: Operand, other: Operand, *, alpha: Operand = 1) -> Operand:
    """Add in place; into a dense tensor only where the sparse one has values."""
    if isinstance(input, SparseTensor):
        return replace_content(input, add(input, other, alpha=alpha))
    if input.shape != other.shape:
        return input.add_(to_dense(other), alpha=alpha)
    held = to_coo(other)
    entries = held.entries if _is_one(alpha) else held.entries * alpha
    return input.index_put_(held.pattern.coordinates, _cast(entries, input.array.dtype), accumulate=True)


@handles("sub_", "__isub__", "subtract_")
def sub_(input: Operand, other: Operand, *, alpha: Operand = 1) -> Operand:
    """Subtract in place, as `add_` adds."""
    return add_(input, other, alpha=-alpha)


for _name in ("mul", "div", "pow", "floor_divide", "multiply", "divide"):
    handles(f"{_name}_")(_make_in_place(_name))


def _require_same_shape(name: str, x: Tensor, y: Tensor) -> None:
    if x.shape != y.shape:
        raise RuntimeError(
            f"{name}: expected sizes of 'self' and 'other' to match, but {list(x.shape)} != {list(y.shape)}"
        )

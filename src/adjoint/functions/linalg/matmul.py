"""Matrix products, and the layer made of one."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.op.autocast import autocast_down
from adjoint.core.op.families import OPERANDS, with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.op.recorder import is_evaluated_alone, wrap_unrecorded
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.runtime.explanation_slot import with_explanation
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, Operand
from adjoint.functions.api.compute_dtype import autocast_lower, in_float32
from adjoint.functions.api.legacy_overloads import with_leading_factors
from adjoint.functions.api.out import with_out, write_out
from adjoint.functions.api.publish import public
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.linalg import matmul as contraction
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.movement import movement
from adjoint.ops.operators import as_reflected_operator
from adjoint.ops.reduction import reduction

__all__ = ["addmm", "bilinear", "bmm", "dot", "linear", "matmul", "mm", "mv", "outer"]


_multiply = op_of(contraction.mm).evaluate


def _check_same_dtype(name: str, x: Tensor, y: Tensor) -> None:
    if x.array.dtype != y.array.dtype:
        if name == "dot":
            raise RuntimeError(
                "dot : expected both vectors to have same dtype, but found "
                f"{scalar_type(x.dtype)} and {scalar_type(y.dtype)}"
            )
        message = f"{name}: expected m1 and m2 to have the same dtype, but got: {x.dtype.name} != {y.dtype.name}"
        raise with_explanation(RuntimeError(message))


def _check_inner_sizes(name: str, x: Tensor, y: Tensor) -> None:
    if x.array.shape[-1] != y.array.shape[-2]:
        message = (
            f"{name}: inner sizes differ, {tuple(x.array.shape)} @ {tuple(y.array.shape)}: mat1 and mat2 shapes cannot "
            f"be multiplied ({x.array.shape[-2]}x{x.array.shape[-1]} and {y.array.shape[-2]}x{y.array.shape[-1]})"
        )
        raise with_explanation(RuntimeError(message))


def _check_vector_length(x: Tensor, y: Tensor) -> None:
    x_shape, y_shape = x.array.shape, y.array.shape
    if x_shape[-1] != y_shape[0]:
        row, column = (1, *x_shape)[-2:], (*y_shape, 1)[:2]
        message = (
            f"matmul: inner sizes differ, {row} @ {column}: mat1 and mat2 shapes cannot be multiplied "
            f"({row[0]}x{row[1]} and {column[0]}x{column[1]})"
        )
        raise with_explanation(RuntimeError(message))


@public()
def matmul(input: Operand, other: Operand, *, out: Operand = None) -> Tensor:
    """Return the matrix product of two tensors, which `input @ other` also computes.

    The product is taken over the last two dimensions; the others broadcast. A vector on the left stands for a row, on
    the right for a column.

    Args:
        input, other: tensors of one dtype with at least one dimension each.
        out: tensor that takes the result.

    Shapes: (*, n, k), (*, k, m) -> (*, n, m); (k,), (k,) -> ().

    Raises: RuntimeError, with both shapes, if the inner sizes differ, and for different dtypes.

    Example:
        >>> ad.matmul(ad.tensor([[1.0, 2.0], [3.0, 4.0]]), ad.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    if out is not None:
        return write_out(out, matmul, input, other)
    if nondefault.count and mode.autocast is not None:
        input, other = autocast_down(input), autocast_down(other)
    return _product(input, other)


def _are_plain(x: Tensor, y: Tensor) -> bool:
    """Return whether the product of two tensors is one of arrays and no more: of one type, without a history."""
    is_alone = is_evaluated_alone(x) and is_evaluated_alone(y)
    return is_alone and type(x.array) is type(y.array) is np.ndarray and x.array.dtype is y.array.dtype


def _product(input: Operand, other: Operand) -> Tensor:
    if isinstance(input, Tensor) and isinstance(other, Tensor):
        x_shape, y_shape = input.array.shape, other.array.shape
        if len(x_shape) == 2 == len(y_shape) and x_shape[1] == y_shape[0] and input.array.dtype is other.array.dtype:
            return contraction.mm(input, other)  # the common case, at once
        if len(x_shape) > 2 <= len(y_shape) and x_shape[-1] == y_shape[-2] and input.array.dtype is other.array.dtype:
            return _fold_rows(input, other) if len(y_shape) == 2 else contraction.bmm(input, other)
        if len(x_shape) == 2 and y_shape == x_shape[1:] and input.array.dtype is other.array.dtype:
            return contraction.mv(input, other)
        if len(x_shape) == 1 and x_shape == y_shape and input.array.dtype is other.array.dtype:
            return contraction.dot(input, other)
        if len(x_shape) == 1 and len(y_shape) == 2 and x_shape == y_shape[:1] and _are_plain(input, other):
            product = op_of(contraction.mv).evaluate(other.array.T, input.array)
            return wrap_unrecorded(np.asarray(product))
    for given in (input, other):
        if not isinstance(given, Tensor):
            raise TypeError(f"matmul(): both arguments must be Tensors, not {type(given).__name__}")
    _check_same_dtype("matmul", input, other)
    x_rank, y_rank = input.ndim, other.ndim
    if x_rank == 2 and y_rank == 2:
        _check_inner_sizes("matmul", input, other)
        return contraction.mm(input, other)
    if x_rank == 0 or y_rank == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {x_rank}D and {y_rank}D")
    if x_rank == 1 and y_rank == 1:
        return dot(input, other)
    if x_rank + y_rank == 3:  # a matrix and a vector
        _check_vector_length(input, other)
        x, y = (input, other) if y_rank == 1 else (movement.permute(other, axes=(1, 0), called="t"), input)
        return contraction.mv(x, y)
    x = movement.reshape_unshared(input, (1, *input.array.shape)) if x_rank == 1 else input
    y = movement.reshape_unshared(other, (*other.array.shape, 1)) if y_rank == 1 else other
    _check_inner_sizes("matmul", x, y)
    if x.ndim == y.ndim == 2:
        product = contraction.mm(x, y)
    else:
        product = _fold_rows(x, y) if y.ndim == 2 else contraction.bmm(x, y)
    if x_rank == 1:
        product = movement.reshape_unshared(product, (*product.array.shape[:-2], product.array.shape[-1]))
    return movement.reshape_unshared(product, product.array.shape[:-1]) if y_rank == 1 else product


def _rows_of(x: Array) -> Array:
    return x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _fold_rows_dx(g: Operand, y: Operand) -> Operand:
    if type(g) is np.ndarray:
        rows: Operand = contraction.multiply(contraction.mm, _rows_of(g), y.T if type(y) is np.ndarray else y.mT)
        return rows.reshape(*g.shape[:-1], y.shape[0])
    product = contraction.mm(_as_rows(g), movement.permute(y, axes=(1, 0), called="t"))
    return movement.reshape(product, shape=(*g.shape[:-1], y.shape[0]))


@with_eager_fast_path(
    composite=lambda x, y: contraction.bmm(x, y),
    node="UnsafeViewBackward0",
    dx=_fold_rows_dx,
    dy=lambda g, x: (
        contraction.multiply(contraction.mm, _rows_of(x).T, _rows_of(g))
        if type(g) is type(x) is np.ndarray
        else contraction.mm(movement.permute(_as_rows(x), axes=(1, 0), called="t"), _as_rows(g))
    ),
)
def _fold_rows(x: Array, y: Array) -> Array:
    """A stack of matrices times a matrix: all rows at once, as in `_linear`."""
    return _multiply(_rows_of(x), y).reshape(*x.shape[:-1], y.shape[1])


def _call_as_operator(x: Tensor, y: Operand) -> Operand:
    """Return `x @ y`."""
    if type(y) is Tensor and not (nondefault.count and mode.autocast is not None):
        return _product(x, y)
    if isinstance(y, OPERANDS):
        return matmul(x, y)
    return NotImplemented


for _name, _f in {"__matmul__": _call_as_operator, "__rmatmul__": as_reflected_operator(matmul)}.items():
    setattr(Tensor, _name, _f)


@public()
@with_out
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices. Raises RuntimeError for other ranks."""
    for name, given in (("self", input), ("mat2", mat2)):
        if len(given.array.shape) != 2:
            raise RuntimeError(f"{name} must be a matrix")
    return matmul(input, mat2)


@public()
@with_out
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the products of the matrices in two stacks, one by one.

    Args:
        input, mat2: stacks of matrices of one dtype and one length b.
        out: tensor that takes the result.

    Shapes: (b, n, k), (b, k, m) -> (b, n, m).

    Raises: RuntimeError for other shapes; `matmul` broadcasts.

    Example:
        >>> ad.bmm(ad.ones(4, 2, 3), ad.ones(4, 3, 5)).shape
        adjoint.Size([4, 2, 5])
    """
    if input.ndim != 3 or mat2.ndim != 3 or input.array.shape[0] != mat2.array.shape[0]:
        raise RuntimeError(f"bmm: expected (b, n, k) and (b, k, m), got {tuple(input.shape)} and {tuple(mat2.shape)}")
    return matmul(input, mat2)


@public()
@with_out
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Return a matrix times a vector. Raises RuntimeError for other ranks."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"mv: expected a matrix and a vector, got {input.ndim}D and {vec.ndim}D")
    return _product(input, vec)


@public()
@with_out
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Return Σ x[i] y[i] of two vectors of equal length. Raises RuntimeError for other ranks, lengths or dtypes."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    _check_same_dtype("dot", input, tensor)
    if input.array.shape != tensor.array.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {list(input.array.shape)} and src {list(tensor.array.shape)} "
            f"to have the same number of elements, but got {input.numel()} and {tensor.numel()} elements respectively"
        )
    return contraction.dot(input, tensor)


@public()
@with_out
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Return x[i] y[j] of two vectors. Raises RuntimeError for other ranks."""
    for name, given in (("self", input), ("vec2", vec2)):
        if given.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {given.ndim}-D")
    return arithmetic.mul(movement.reshape(input, shape=(input.numel(), 1)), vec2)


@public()
@with_leading_factors
@with_out
@autocast_lower
@in_float32
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta · input + alpha · mat1 @ mat2."""
    kind, given, shape = input.array.dtype, tuple(input.array.shape), (*mat1.array.shape[:1], *mat2.array.shape[1:])
    of_one_type = kind.kind in "fV" and mat1.array.dtype == kind == mat2.array.dtype
    fits = given == shape or (
        len(given) <= 2 and all(n in (1, m) for n, m in zip(given[::-1], shape[::-1], strict=False))
    )
    if not (of_one_type and mat1.ndim == mat2.ndim == 2 and fits):
        return _addmm_composite(input, mat1, mat2, beta=beta, alpha=alpha)
    _check_inner_sizes("addmm", mat1, mat2)
    return _addmm(input, mat1, mat2, beta=beta, alpha=alpha)


def _addmm_composite(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float, alpha: float) -> Tensor:
    return add_scaled_product("addmm", input, mm(mat1, mat2), beta, alpha)


def add_scaled_product(name: str, input: Operand, product: Tensor, beta: float, alpha: float) -> Tensor:
    """Return beta · input + alpha · product. With a beta of 0 it does not matter what `input` holds, NaN included.

    Where elements are integers or truths, so are alpha and beta: fractions are left out. Raises RuntimeError if
    `input` does not broadcast to the product.
    """
    shape = product.array.shape
    try:
        fits = input.array.shape == shape or broadcast_shapes(input.array.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(f"{name}: input of shape {list(input.shape)} does not expand to {list(shape)}")
    if product.array.dtype.kind in "iub":
        of_kind = bool if product.array.dtype.kind == "b" else int
        alpha, beta = of_kind(alpha), of_kind(beta)
    scaled = product if alpha == 1 else arithmetic.mul(product, alpha)
    if beta == 0:
        return select.where(constant(np.asarray(True)), scaled, input)
    return arithmetic.add(scaled, input if beta == 1 else arithmetic.mul(input, beta))


def _scale_grad(g: Operand, factor: float) -> Operand:
    return g if factor == 1 else arithmetic.mul(g, factor)


@with_eager_fast_path(
    composite=_addmm_composite,
    node="AddmmBackward0",
    dinput=lambda g, beta: _scale_grad(g, beta),
    dmat1=lambda g, mat2, alpha: _scale_grad(contraction.mm(g, movement.permute(mat2, axes=(1, 0))), alpha),
    dmat2=lambda g, mat1, alpha: _scale_grad(contraction.mm(movement.permute(mat1, axes=(1, 0)), g), alpha),
)
def _addmm(input: Array, mat1: Array, mat2: Array, *, beta: float, alpha: float) -> Array:
    out = multiply_matrices(mat1, mat2)
    if alpha != 1:
        out *= alpha
    if beta != 0:
        out += input if beta == 1 else input * beta
    return out


def _linear_composite(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if len(x.array.shape) == 1:
        row = movement.reshape(x, shape=(1, *x.array.shape))
        return movement.reshape_unshared(_linear_composite(row, weight, bias), (weight.array.shape[0],))
    out = matmul(x, movement.permute(weight, axes=(1, 0), called="t"))
    return out if bias is None else arithmetic.add(out, bias)


def _linear_dx(g: Operand, weight: Operand) -> Operand:
    """Return g W, with the leading dimensions of g taken as one."""
    if type(g) is np.ndarray:
        rows = g if g.ndim == 2 else g.reshape(math.prod(g.shape[:-1]), g.shape[-1])
        out = contraction.multiply(contraction.mm, rows, weight)
        return out if g.ndim == 2 else out.reshape(*g.shape[:-1], weight.shape[1])
    product = contraction.mm(_as_rows(g), weight)
    return product if len(g.shape) == 2 else movement.reshape(product, shape=(*g.shape[:-1], weight.shape[1]))


def _linear_dweight(g: Operand, x: Operand) -> Operand:
    if type(g) is np.ndarray:
        rows = [a if a.ndim == 2 else a.reshape(math.prod(a.shape[:-1]), a.shape[-1]) for a in (g, x)]
        return contraction.multiply(contraction.mm, rows[0].T, rows[1])
    return contraction.mm(movement.permute(_as_rows(g), axes=(1, 0)), _as_rows(x))


def _as_rows(x: Operand) -> Operand:
    return x if len(x.shape) == 2 else movement.reshape(x, shape=(movement.numel(x.shape[:-1]), x.shape[-1]))


@with_eager_fast_path(
    composite=_linear_composite,
    node=lambda node: "MmBackward0" if node.parents[2:] == (None,) else "AddmmBackward0",
    dx=_linear_dx,
    dweight=_linear_dweight,
    dbias=lambda g: g,
)
def _linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    # all rows at once: NumPy multiplies stacks one by one, which takes 17 times as long for 64 stacks of 12 rows
    flat = x.ndim == 2
    out = _multiply(x if flat else x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), weight.T)
    if bias is not None:
        out += bias
    return out if flat else out.reshape(*x.shape[:-1], out.shape[-1])


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return x Wᵀ + b: (…, in) with W (out, in) and b (out,) gives (…, out). `out`: tensor that takes the result.

    Raises RuntimeError naming the shapes if the last size of the input is not that of the weight.
    """
    if out is not None:
        written: Tensor = write_out(out, linear, input, weight, bias)
        return written
    if nondefault.count and mode.autocast is not None:
        input, weight, bias = autocast_down(input), autocast_down(weight), autocast_down(bias)
    x, w = input.array, weight.array
    rows, columns = x.shape, w.shape
    if rows and len(columns) == 2 and rows[-1] == columns[1] and x.dtype is w.dtype:  # as nearly all are
        return _linear(input, weight, bias)
    if not input.ndim or not weight.ndim:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {input.ndim}D and {weight.ndim}D"
        )
    if weight.ndim != 2 or input.array.shape[-1] != weight.array.shape[1]:
        raise RuntimeError(
            f"linear: input is {tuple(input.array.shape)}, weight {tuple(weight.array.shape)} expects last size "
            f"{weight.array.shape[-1]}: mat1 and mat2 shapes cannot be multiplied"
        )
    _check_same_dtype("linear", input, weight)
    return _linear(input, weight, bias)


@in_float32
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1ᵀ W[o] x2 + b[o]: (…, I) and (…, J) with W (O, I, J) give (…, O). Raises RuntimeError where sizes differ."""
    if weight.ndim != 3:
        raise RuntimeError(f"bilinear(): weight must have 3 dimensions, got {tuple(weight.array.shape)}")
    lead = input1.array.shape[:-1]
    o, i, j = weight.array.shape
    for name, x, size in (("input1", input1, i), ("input2", input2, j)):
        if x.array.shape[:-1] != lead or x.array.shape[-1] != size:
            raise RuntimeError(
                f"bilinear(): {name} is {tuple(x.array.shape)}, but (…, {size}) is expected by the weight "
                f"{tuple(weight.array.shape)}, with leading sizes {tuple(lead)}"
            )
    rows = movement.reshape(weight, shape=(o * i, j))
    inner = movement.reshape(linear(input2, rows), shape=(*lead, o, i))
    each = movement.reshape(input1, shape=(*lead, 1, i))
    out = reduction.sum(arithmetic.mul(inner, each), axes=(len(lead) + 1,), keepdims=False)
    return out if bias is None else arithmetic.add(out, bias)

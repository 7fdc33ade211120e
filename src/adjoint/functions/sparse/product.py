"""Products of sparse matrices: with dense matrices and vectors, with each other, and at the places of a pattern."""

from __future__ import annotations

import numpy as np

from adjoint.core.tensor.memory_format import sparse_coo
from adjoint.core.tensor.sparse_array import is_sparse
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand
from adjoint.functions.sparse.conversion import add_rows, coalesce, convert_like, take_rows, to_coo, to_dense
from adjoint.functions.sparse.elementwise import add, mul
from adjoint.functions.sparse.movement import join_ranges, t, transpose
from adjoint.functions.sparse.sparse_tensor import SparsePattern, SparseTensor, handles, make_sparse, with_values
from adjoint.ops.linalg import sparse_product


@handles("mm", "matmul", "__matmul__", "spmm", "dsmm")
def mm(input: Operand, mat2: Operand, reduce: str = "sum") -> Operand:
    """Return the product of matrices of which one is sparse, or of a sparse matrix and a vector.

    Dense beside a dense matrix, sparse for two sparse ones; `reduce` is "sum", "mean", "amax" or "amin".
    """
    if input.ndim > 2 or mat2.ndim > 2:
        return _multiply_batches(input, mat2)
    _require_product("mm", input, mat2)
    if reduce != "sum":
        return _reduce_product(input, mat2, reduce)
    if isinstance(input, SparseTensor) and isinstance(mat2, SparseTensor):
        return convert_like(_multiply_sparse(coalesce(to_coo(input)), coalesce(to_coo(mat2))), input)
    if isinstance(input, SparseTensor):
        return mv(input, mat2) if mat2.ndim == 1 else _multiply_dense(input, mat2)
    if input.ndim == 1:
        return mv(t(mat2), input)
    return _multiply_dense(t(mat2), input.t()).t()


@handles("__rmatmul__")
def rmatmul(mat2: Operand, input: Operand) -> Operand:
    """Return input @ mat2: the operator, asked of its right operand."""
    return mm(input, mat2)


def _require_product(name: str, x: Operand, y: Operand) -> None:
    for one in (x, y):
        if isinstance(one, SparseTensor) and (one.sparse_dim() != 2 or one.ndim != 2):
            raise RuntimeError(
                f"{name}: expected a sparse matrix, got {one.ndim} dimensions, {one.sparse_dim()} sparse"
            )
    if y.ndim not in (1, 2) or x.ndim not in (1, 2) or x.shape[-1] != y.shape[0]:
        raise RuntimeError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, x.shape))} and "
            f"{'x'.join(map(str, y.shape))})"
        )
    if x.dtype != y.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {x.dtype} != {y.dtype}")


def _multiply_dense(x: SparseTensor, dense: Operand) -> Tensor:
    """Return x @ dense for a matrix (m, k) of any layout and (k, n)."""
    held = to_coo(x) if x.pattern.block else x
    rows, columns = held.pattern.coordinates
    return sparse_product.sparse_product(held.entries, dense, rows, columns, height=x.shape[0])


def _reduce_product(x: Operand, dense: Operand, reduce: str) -> Tensor:
    if not isinstance(x, SparseTensor) or isinstance(dense, SparseTensor):
        raise RuntimeError("sparse.mm: reduce needs a sparse matrix and a dense one")
    held = coalesce(to_coo(x))
    rows, columns = held.pattern.arrays
    parts = take_rows(dense, columns) * held.entries.unsqueeze(-1)
    index = wrap(np.ascontiguousarray(np.broadcast_to(rows[:, None], parts.shape)))
    empty = wrap(np.zeros((x.shape[0], dense.shape[1]), parts.array.dtype))
    return empty.scatter_reduce(0, index, parts, reduce, include_self=False)


def _multiply_sparse(x: SparseTensor, y: SparseTensor) -> SparseTensor:
    """Return the product of two coalesced matrices: each entry of `x` meets the row of `y` that its column names."""
    inner, (y_rows, y_columns) = x.pattern.arrays[1], y.pattern.arrays
    starts, stops = (np.searchsorted(y_rows, inner, side) for side in ("left", "right"))
    second, first = join_ranges(starts, stops)
    values = take_rows(x.entries, first) * take_rows(y.entries, second)
    indices = np.stack([x.pattern.arrays[0][first], y_columns[second]])
    pattern = SparsePattern(sparse_coo, (x.shape[0], y.shape[1]), wrap(indices))
    return coalesce(make_sparse(pattern, values))


@handles("mv")
def mv(input: SparseTensor, vec: Operand) -> Tensor:
    """Return the product of a sparse matrix and a vector."""
    _require_product("mv", input, vec)
    return _multiply_dense(input, vec.unsqueeze(-1)).squeeze(-1)


@handles("addmm")
def addmm(input: Operand, mat1: Operand, mat2: Operand, *, beta: Operand = 1, alpha: Operand = 1) -> Operand:
    """Return beta · input + alpha · mat1 @ mat2, where one of the matrices is sparse."""
    product, given = _scale(mm(mat1, mat2), alpha), _scale(input, beta)
    if isinstance(given, SparseTensor):
        return add(given, product if isinstance(product, SparseTensor) else product.to_sparse())
    return add(given, product) if isinstance(product, SparseTensor) else given + product


@handles("smm")
def smm(input: SparseTensor, mat: Operand) -> SparseTensor:
    """Return the product of a sparse matrix and a dense one, with an entry for each column of its rows."""
    if not isinstance(input, SparseTensor):
        raise RuntimeError("smm: expected a sparse first matrix; x.to_sparse() makes one")
    if isinstance(mat, SparseTensor):
        product: SparseTensor = mm(input, mat)
        return product
    whole_rows = hspmm(input, mat)
    rows, wide = whole_rows.pattern.arrays[0], mat.shape[1]
    indices = np.stack([rows.repeat(wide), np.tile(np.arange(wide), len(rows))])
    # not marked as coalesced, as PyTorch has it: a caller's .coalesce() is no error and finds nothing to add
    return make_sparse(SparsePattern(sparse_coo, whole_rows.shape, wrap(indices)), whole_rows.entries.reshape(-1))


@handles("sspaddmm")
def sspaddmm(input: Operand, mat1: Operand, mat2: Operand, *, beta: Operand = 1, alpha: Operand = 1) -> SparseTensor:
    """Return beta · input + alpha · mat1 @ mat2, sparse. Raises RuntimeError for a dense `input` or `mat1`."""
    if not (isinstance(input, SparseTensor) and isinstance(mat1, SparseTensor)):
        raise RuntimeError("sspaddmm: expected a sparse input and a sparse first matrix; x.to_sparse() makes one")
    out: SparseTensor = add(_scale(input, beta), _scale(smm(mat1, mat2), alpha))
    return out


def _scale(x: Operand, factor: Operand) -> Operand:
    if type(factor) in (int, float) and factor == 1:
        return x
    return mul(x, factor) if isinstance(x, SparseTensor) else x * factor


def _multiply_batches(x: Operand, y: Operand) -> Tensor:
    """Return the products of a stack of sparse matrices (b, m, k) and dense ones, or of one for all; or the reverse."""
    if not isinstance(x, SparseTensor):
        return _multiply_batches(transpose(y, -2, -1), x.mT).mT
    return bmm(x, y.expand(x.shape[0], *y.shape) if not isinstance(y, SparseTensor) and y.ndim == 2 else y)


@handles("bmm")
def bmm(input: SparseTensor, mat2: Operand) -> Tensor:
    """Return the products of a stack of sparse matrices (b, m, k) and dense ones (b, k, n)."""
    if is_sparse(mat2) and not is_sparse(input):
        return _multiply_batches(input, mat2)
    if is_sparse(mat2) or not is_sparse(input):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    x = to_coo(input)
    if x.ndim != 3 or mat2.ndim != 3 or x.shape[0] != mat2.shape[0] or x.shape[2] != mat2.shape[1]:
        raise RuntimeError(f"bmm: shapes do not fit: {list(input.shape)} and {list(mat2.shape)}")
    batch, rows, columns = x.pattern.arrays
    count, high, deep = x.shape
    wide = mat2.shape[2]
    places = wrap(batch * high + rows), wrap(batch * deep + columns)
    dense = mat2.reshape(count * deep, wide)
    out: Operand = sparse_product.sparse_product(x.entries, dense, *places, height=count * high)
    return out.reshape(count, high, wide)


@handles("hspmm")
def hspmm(mat1: SparseTensor, mat2: Operand) -> SparseTensor:
    """Return the product as a tensor of dense rows, for the rows that the sparse matrix has."""
    if not isinstance(mat1, SparseTensor):
        raise RuntimeError("hspmm: expected a sparse first matrix; x.to_sparse() makes one")
    _require_product("hspmm", mat1, mat2)
    x = coalesce(to_coo(mat1))
    rows, inverse = np.unique(x.pattern.arrays[0], return_inverse=True)
    parts = take_rows(mat2, x.pattern.arrays[1]) * x.entries.unsqueeze(-1)
    pattern = SparsePattern(sparse_coo, (mat1.shape[0], mat2.shape[1]), wrap(rows[None]), True)
    return make_sparse(pattern, add_rows(parts, inverse.reshape(-1), len(rows)))


@handles("sampled_addmm", "sparse_sampled_addmm")
def sampled_addmm(
    input: SparseTensor, mat1: Operand, mat2: Operand, *, beta: Operand = 1.0, alpha: Operand = 1.0, out: Operand = None
) -> SparseTensor:
    """Return beta · input + alpha · (mat1 @ mat2), computed only where `input` has values.

    Raises RuntimeError for shapes that do not fit.
    """
    if mat1.shape[0] != input.shape[0] or mat2.shape[1] != input.shape[1] or mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"sampled_addmm: shapes do not fit: {list(input.shape)} for {list(mat1.shape)} @ {list(mat2.shape)}"
        )
    held = to_coo(input) if input.pattern.block else input
    rows, columns = held.pattern.coordinates
    products: Operand = sparse_product.sample_products(mat1, mat2.t(), rows, columns)
    return with_values(held, held.entries * beta + products * alpha)


@handles("dot", "vdot")
def dot(input: Operand, tensor: Operand) -> Tensor:
    """Return the sum of products of two vectors."""
    x, y = (input, tensor) if isinstance(input, SparseTensor) else (tensor, input)
    other = to_dense(y) if isinstance(y, SparseTensor) else y
    return (x * other).sum()

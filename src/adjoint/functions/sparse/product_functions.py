"""Products of sparse matrices under the names that PyTorch gave them before `sparse.mm`."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.functions.api.publish import public
from adjoint.functions.sparse import product
from adjoint.functions.sparse.sparse_tensor import SparseTensor

__all__ = ["dsmm", "hspmm", "smm", "spmm", "sspaddmm"]


@public(method=False)
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of a sparse matrix and a dense one, or of two dense ones: `sparse.mm`.

    Example:
        >>> ad.spmm(ad.eye(2).to_sparse(), ad.ones(2, 1))
        tensor([[1.],
                [1.]])
    """
    return input.mm(mat2)


@public(method=False)
def dsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of a sparse matrix and a dense one, or of two dense ones: `sparse.mm`.

    Example:
        >>> ad.dsmm(ad.eye(2).to_sparse(), ad.ones(2, 1))
        tensor([[1.],
                [1.]])
    """
    return input.mm(mat2)


@public()
def smm(input: SparseTensor, mat: Tensor) -> SparseTensor:
    """Return the product of a sparse matrix and a dense one, as a sparse tensor.

    It has an entry for each column of the rows that `input` has, and is not marked as coalesced.

    Example:
        >>> ad.smm(ad.eye(2).to_sparse(), ad.ones(2, 1)).coalesce().values()
        tensor([1., 1.])
    """
    return product.smm(input, mat)


@public()
def sspaddmm(
    input: SparseTensor, mat1: SparseTensor, mat2: Tensor, *, beta: Operand = 1, alpha: Operand = 1
) -> SparseTensor:
    """Return beta · input + alpha · mat1 @ mat2, sparse, for a sparse `input` and `mat1`.

    Example:
        >>> x = ad.eye(2).to_sparse()
        >>> ad.sspaddmm(x, x, ad.eye(2), alpha=2).coalesce().values()
        tensor([3., 0., 0., 3.])
    """
    return product.sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)


@public(method=False)
def hspmm(mat1: SparseTensor, mat2: Tensor) -> SparseTensor:
    """Return the product with one sparse dimension: whole rows, for the rows that `mat1` has.

    Example:
        >>> x = ad.tensor([[0.0, 0.0], [3.0, 0.0]]).to_sparse()
        >>> ad.hspmm(x, ad.ones(2, 2)).values()
        tensor([[3., 3.]])
    """
    return product.hspmm(mat1, mat2)

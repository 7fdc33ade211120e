"""The methods of every tensor that concern sparse layouts."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.tensor.memory_format import layout as Layout
from adjoint.core.tensor.memory_format import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand
from adjoint.functions.api.publish import public
from adjoint.functions.sparse import conversion, elementwise, movement, printing, product, reduction  # noqa: F401  they register handlers
from adjoint.functions.sparse.sparse_tensor import SparseTensor, handles, values_at, with_values

__all__: list[str] = []  # the package has none of them as functions


@public()
@handles("to_sparse")
def to_sparse(
    input: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Layout | None = None,
    blocksize: Sequence[int] | None = None,
    dense_dim: int | None = None,
) -> SparseTensor:
    """Return the tensor as a sparse one, of its nonzero values.

    Args:
        input: a dense or sparse tensor.
        sparse_dim: number of sparse dimensions, the first ones. Default: None, all.
        layout: `sparse_coo`, `sparse_csr`, `sparse_csc`, `sparse_bsr` or `sparse_bsc`. Default: None, the first.
        blocksize: rows and columns of a block, for the last two.
        dense_dim: number of dense dimensions, the last ones. Default: None, none.

    Example:
        >>> ad.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse().indices()
        tensor([[0],
                [1]])
    """
    if layout is None and not isinstance(input, SparseTensor):
        return conversion.dense_to_coo(input, sparse_dim)
    return conversion.convert(input, sparse_coo if layout is None else layout, blocksize, dense_dim)


@public()
@handles("to_sparse_coo")
def to_sparse_coo(input: Tensor) -> SparseTensor:
    """Return the tensor in the layout `sparse_coo`.

    Example:
        >>> ad.eye(2).to_sparse_coo().layout
        adjoint.sparse_coo
    """
    return conversion.convert(input, sparse_coo)


@public()
@handles("to_sparse_csr")
def to_sparse_csr(input: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """Return the matrix in the layout `sparse_csr`: by rows.

    Example:
        >>> ad.eye(2).to_sparse_csr().layout
        adjoint.sparse_csr
    """
    return conversion.convert(input, sparse_csr, dense_dim=dense_dim)


@public()
@handles("to_sparse_csc")
def to_sparse_csc(input: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """Return the matrix in the layout `sparse_csc`: by columns.

    Example:
        >>> ad.eye(2).to_sparse_csc().layout
        adjoint.sparse_csc
    """
    return conversion.convert(input, sparse_csc, dense_dim=dense_dim)


@public()
@handles("to_sparse_bsr")
def to_sparse_bsr(input: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> SparseTensor:
    """Return the matrix in the layout `sparse_bsr`: blocks, by rows of them.

    Example:
        >>> ad.eye(2).to_sparse_bsr((2, 1)).layout
        adjoint.sparse_bsr
    """
    return conversion.convert(input, sparse_bsr, blocksize)


@public()
@handles("to_sparse_bsc")
def to_sparse_bsc(input: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> SparseTensor:
    """Return the matrix in the layout `sparse_bsc`: blocks, by columns of them.

    Example:
        >>> ad.eye(2).to_sparse_bsc((2, 1)).layout
        adjoint.sparse_bsc
    """
    return conversion.convert(input, sparse_bsc, blocksize)


@public()
@handles("sparse_mask")
def sparse_mask(input: Tensor, mask: SparseTensor) -> SparseTensor:
    """Return the values of a tensor at the places where `mask` has one.

    Raises: RuntimeError for different shapes.

    Example:
        >>> mask = ad.tensor([[0.0, 1.0]]).to_sparse()
        >>> ad.tensor([[5.0, 6.0]]).sparse_mask(mask).values()
        tensor([6.])
    """
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask: mask must be a sparse tensor")
    if input.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(input.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    return with_values(mask, values_at(input, mask.pattern))


@public()
def sparse_dim(input: Tensor) -> int:
    """Return the number of sparse dimensions, the first ones: 0 for a dense tensor.

    Example:
        >>> ad.eye(2).to_sparse().sparse_dim()
        2
    """
    return 0


@public()
def coalesce(input: SparseTensor) -> SparseTensor:
    """Return the sparse tensor with sorted indices that differ: values at equal ones are added.

    Raises: RuntimeError for another layout than `sparse_coo`.

    Example:
        >>> x = ad.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0], (2,))
        >>> x.coalesce().values()
        tensor([2., 4.])
    """
    if not isinstance(input, SparseTensor):
        raise _wrong_layout("coalesce")
    return conversion.coalesce(input)


@public()
def sparse_resize_(input: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> SparseTensor:
    """Give the sparse tensor another size, in place: one that has room for its values.

    Raises: RuntimeError for a smaller size, or other numbers of dimensions, of a tensor with values.

    Example:
        >>> ad.eye(2).to_sparse().sparse_resize_((2, 3), 2, 0).to_dense()
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    raise _wrong_layout("sparse_resize_")


@public()
def sparse_resize_and_clear_(input: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> SparseTensor:
    """Give the sparse tensor another size, in place, and remove its values.

    Raises: RuntimeError for numbers of dimensions that do not fit the size.

    Example:
        >>> ad.eye(2).to_sparse().sparse_resize_and_clear_((3,), 1, 0).to_dense()
        tensor([0., 0., 0.])
    """
    raise _wrong_layout("sparse_resize_and_clear_")


@public()
def resize_as_sparse_(input: SparseTensor, the_template: SparseTensor) -> SparseTensor:
    """Give the sparse tensor the size of another, in place.

    Raises: RuntimeError for a smaller one, if the tensor has values.

    Example:
        >>> ad.eye(2).to_sparse().resize_as_sparse_(ad.eye(3).to_sparse()).shape
        adjoint.Size([3, 3])
    """
    raise _wrong_layout("resize_as_sparse_")


def _wrong_layout(name: str) -> RuntimeError:
    return RuntimeError(f"{name} expected a sparse tensor but got a dense one; to_sparse() makes a sparse one of it")


QUERIES = "indices values crow_indices col_indices ccol_indices row_indices _indices _values _nnz"


def _refuse(name: str) -> Function:
    """Return a query of sparse tensors for dense ones: an error that says what it is for."""

    def query(self: Tensor) -> Operand:
        raise _wrong_layout(name)

    query.__name__ = query.__qualname__ = name
    query.__doc__ = f"`{name}` of a sparse tensor. Raises: RuntimeError for a dense one."
    return query


for _name in QUERIES.split():
    setattr(Tensor, _name, _refuse(_name))

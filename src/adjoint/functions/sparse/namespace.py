"""`adjoint.sparse`: functions of sparse tensors under PyTorch's names."""

from __future__ import annotations

import numpy as np

from adjoint.core.tensor.memory_format import sparse_coo
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import DtypeLike, Operand
from adjoint.functions.sparse import methods, product, reduction
from adjoint.functions.sparse.conversion import to_dense
from adjoint.functions.sparse.scipy_interop import from_scipy, to_scipy
from adjoint.functions.sparse.sparse_tensor import SparsePattern, SparseTensor, make_sparse

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "from_scipy",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
    "to_scipy",
]


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """Return the product of a sparse matrix with a dense one, dense, or with a sparse one, sparse.

    The gradient of a sparse operand has its pattern.

    Args:
        mat1: (m, k).
        mat2: (k, n).
        reduce: what is made of the products in a row: "sum" (default), "mean", "amax" or "amin".

    Example:
        >>> x = ad.tensor([[0.0, 2.0], [1.0, 0.0]]).to_sparse()
        >>> ad.sparse.mm(x, ad.ones(2, 1))
        tensor([[2.],
                [1.]])
    """
    return mat1.mm(mat2) if reduce == "sum" else product.mm(mat1, mat2, reduce)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Operand = 1.0, alpha: Operand = 1.0) -> Tensor:
    """Return beta · mat + alpha · mat1 @ mat2 for a sparse `mat1`.

    Example:
        >>> x = ad.eye(2).to_sparse()
        >>> ad.sparse.addmm(ad.ones(2, 1), x, ad.ones(2, 1))
        tensor([[2.],
                [2.]])
    """
    return product.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(
    input: SparseTensor, mat1: Tensor, mat2: Tensor, *, beta: Operand = 1.0, alpha: Operand = 1.0, out: Operand = None
) -> SparseTensor:
    """Return beta · input + alpha · (mat1 @ mat2), computed only where `input` has values.

    Raises: RuntimeError for shapes that do not fit.

    Example:
        >>> pattern = ad.eye(2).to_sparse_csr()
        >>> ad.sparse.sampled_addmm(pattern, ad.ones(2, 3), ad.ones(3, 2), beta=0.0).values()
        tensor([3., 3.])
    """
    return product.sampled_addmm(input, mat1, mat2, beta=beta, alpha=alpha)


def sum(input: SparseTensor, dim: Operand = None, dtype: DtypeLike = None) -> Operand:
    """Return the sum over dimensions: a number for all, dense if no sparse dimension is left, else sparse.

    Example:
        >>> x = ad.tensor([[0.0, 2.0], [1.0, 0.0]]).to_sparse()
        >>> ad.sparse.sum(x, dim=0).to_dense()
        tensor([1., 2.])
    """
    return reduction.sum(input, dim, dtype=dtype)


def softmax(input: SparseTensor, dim: int, *, dtype: DtypeLike = None) -> SparseTensor:
    """Return softmax along a dimension over the values that are there.

    Example:
        >>> x = ad.tensor([[0.0, 2.0], [1.0, 1.0]]).to_sparse()
        >>> ad.sparse.softmax(x, dim=1).values()
        tensor([1.0000, 0.5000, 0.5000])
    """
    return reduction.softmax(input, dim, dtype=dtype)


def log_softmax(input: SparseTensor, dim: int, *, dtype: DtypeLike = None) -> SparseTensor:
    """Return the logarithm of `softmax`.

    Example:
        >>> x = ad.tensor([[0.0, 2.0], [0.0, 5.0]]).to_sparse()
        >>> ad.sparse.log_softmax(x, dim=1).values()
        tensor([0., 0.])
    """
    return reduction.log_softmax(input, dim, dtype=dtype)


def spsolve(input: SparseTensor, other: Tensor, *, left: bool = True) -> Tensor:
    """Return the solution x of input @ x = other, by the dense solver: memory for the dense matrix is needed.

    Example:
        >>> ad.sparse.spsolve(2 * ad.eye(2).to_sparse_csr(), ad.ones(2))
        tensor([0.5000, 0.5000])
    """
    from adjoint.functions.linalg.solve import solve

    return solve(to_dense(input), other, left=left)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: tuple[int, int], layout: Operand = None) -> Tensor:
    """Return a sparse matrix with the rows of `diagonals` on the diagonals `offsets`, as SciPy's `spdiags`.

    Value j of a row stands in column j.

    Raises: RuntimeError for other numbers of offsets than of rows, and for an offset that comes twice.

    Example:
        >>> ad.sparse.spdiags(ad.ones(1, 2), ad.tensor([0]), (2, 2)).to_dense()
        tensor([[1., 0.],
                [0., 1.]])
    """
    rows = diagonals.reshape(1, -1) if diagonals.ndim == 1 else diagonals
    lines = np.atleast_1d(offsets.numpy_view("spdiags()"))
    if len(lines) != rows.shape[0]:
        raise RuntimeError(f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets ({len(lines)})")
    if len(set(lines.tolist())) < len(lines):
        raise RuntimeError("Offset tensor contains duplicate values")
    number, column = np.indices((len(lines), min(int(rows.shape[1]), shape[1])))
    row = column - lines[:, None]
    held = (row >= 0) & (row < shape[0])
    indices = np.stack([row[held], column[held]])
    values = rows[wrap(number[held]), wrap(column[held])]
    made = methods.coalesce(make_sparse(SparsePattern(sparse_coo, tuple(shape), wrap(indices)), values))
    return made if layout is None else methods.to_sparse(made, layout=layout)


class check_sparse_tensor_invariants:
    """A context manager and decorator that PyTorch has for its checks; here tensors are always checked when made."""

    def __init__(self, enable: bool = True) -> None:
        self.enabled = enable

    @staticmethod
    def is_enabled() -> bool:
        """Return True."""
        return True

    @staticmethod
    def enable() -> None:
        """Do nothing: the checks are on."""

    @staticmethod
    def disable() -> None:
        """Do nothing: the checks stay on."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, function: Operand) -> Operand:
        return function


def as_sparse_gradcheck(gradcheck: Operand) -> Operand:
    """Return `gradcheck` for functions of sparse tensors: each is checked by its values, at its pattern."""

    def check(function: Operand, inputs: Operand, **options: Operand) -> bool:
        given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        patterns = [x.pattern if isinstance(x, SparseTensor) else None for x in given]
        options.pop("masked", None)

        def on_values(*values: Operand) -> Operand:
            made = [v if p is None else make_sparse(p, v) for p, v in zip(patterns, values, strict=True)]
            out = function(*made)
            outs = out if isinstance(out, tuple) else (out,)
            dense = tuple(to_dense(x) if isinstance(x, SparseTensor) else x for x in outs)
            return dense if isinstance(out, tuple) else dense[0]

        entries = [
            x.entries.detach().requires_grad_(x.requires_grad) if isinstance(x, SparseTensor) else x for x in given
        ]
        return bool(gradcheck(on_values, tuple(entries), **options))

    return check

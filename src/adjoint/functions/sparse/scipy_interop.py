"""SciPy's sparse matrices in and out: values and indices share memory where their types allow it."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from adjoint.core.tensor.memory_format import sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from adjoint.core.typing import Array, Operand
from adjoint.functions.creation.creation import from_numpy
from adjoint.functions.sparse.creation import sparse_compressed_tensor, sparse_coo_tensor
from adjoint.functions.sparse.sparse_tensor import SparseTensor

COMPRESSED = {"csr": sparse_csr, "csc": sparse_csc, "bsr": sparse_bsr}


def from_scipy(matrix: Operand) -> SparseTensor:
    """Return a matrix or array of `scipy.sparse` as a sparse tensor, with its values in the same memory.

    CSR, CSC, BSR and COO stay what they are; other formats become COO. Indices of compressed
    formats are shared, those of COO where they are the rows of one int64 array.

    Raises: TypeError for what is no sparse matrix.

    Example:
        >>> import scipy.sparse
        >>> x = ad.sparse.from_scipy(scipy.sparse.eye_array(2, format="csr"))
        >>> x.layout
        adjoint.sparse_csr
    """
    kind = getattr(matrix, "format", None)
    if kind is None or not hasattr(matrix, "tocoo"):
        raise TypeError(f"from_scipy: expected a matrix of scipy.sparse, got {type(matrix).__name__}")
    if kind in COMPRESSED:
        if not matrix.has_canonical_format and kind != "bsr":
            matrix = matrix.copy()
            matrix.sum_duplicates()  # in the copy, so that each place comes once, in order
        bounds, others, values = map(from_numpy, (matrix.indptr, matrix.indices, matrix.data))
        return sparse_compressed_tensor(bounds, others, values, matrix.shape, layout=COMPRESSED[kind])
    held = matrix.tocoo()
    return sparse_coo_tensor(from_numpy(_join_coordinates(held.coords)), from_numpy(held.data), held.shape)


def _join_coordinates(coordinates: tuple[Array, ...]) -> Array:
    """Return the coordinates as rows of one int64 array: that of which they are the rows, if there is one."""
    whole = coordinates[0].base
    if isinstance(whole, np.ndarray) and whole.dtype == np.int64 and len(whole) == len(coordinates):
        rows, given = (
            [(a.ctypes.data, a.shape, a.strides, a.dtype) for a in arrays] for arrays in (whole, coordinates)
        )
        if rows == given:
            return whole
    return np.stack([np.asarray(c, np.int64) for c in coordinates])


def to_scipy(x: SparseTensor) -> Operand:
    """Return a sparse tensor as an array of `scipy.sparse`, with its values and indices in the same memory.

    Raises: ImportError without SciPy, RuntimeError for a tensor that requires a gradient or has dense dimensions.

    Example:
        >>> ad.sparse.to_scipy(ad.eye(2).to_sparse_csr()).format
        'csr'
    """
    sparse: Operand = import_module("scipy.sparse")  # SciPy is no requirement

    if x.requires_grad:
        raise RuntimeError("to_scipy: the tensor requires a gradient; use to_scipy(x.detach())")
    if x.dense_dim():
        raise RuntimeError(f"to_scipy: SciPy has no dense dimensions, the tensor has {x.dense_dim()}")
    if x.pattern.batch:
        raise RuntimeError(f"to_scipy: SciPy has no batches of matrices, the tensor has one of {list(x.pattern.batch)}")
    values = x.entries.numpy_view("to_scipy()")
    if x.layout is sparse_coo:
        made = sparse.coo_array(tuple(x.shape), dtype=values.dtype)
        made.data, made.coords = values, tuple(x.pattern.arrays)
        return made
    names = {layout: name for name, layout in COMPRESSED.items()}
    if x.layout not in names or x.pattern.compressed is None:
        raise RuntimeError(f"to_scipy: SciPy has no {x.layout!r}; use x.to_sparse_csr()")
    bounds, others = (part.numpy_view("to_scipy()") for part in x.pattern.compressed)
    options = {"blocksize": x.pattern.block} if x.pattern.block else {}
    made = getattr(sparse, f"{names[x.layout]}_array")(tuple(x.shape), dtype=values.dtype, **options)
    made.data, made.indices, made.indptr = values, others, bounds  # as they are: the constructor would copy int64
    return made

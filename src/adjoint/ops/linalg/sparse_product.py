"""Products of a sparse matrix, given by the row, column and value of each entry: with a dense matrix, and sampled.

Each is the other's gradient. The indices of a tensor may be written after its making, so that kernels look at their
range in each call, and leave what is out of it to NumPy, which raises IndexError.
"""

from __future__ import annotations

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, Operand

PRODUCT, SAMPLES = SmallArrayKernel("sparse_product"), SmallArrayKernel("sampled_products")
MAX_GATHERED_ELEMENTS = 2**20  # that NumPy gathers at once, so that they stay in cache


@primitive(
    family="index",
    raises=True,
    spec=lambda values, dense, rows, columns, *, height: Spec((height, dense.shape[1]), dense.dtype),
    node="SparseAddmmBackward0",
    dvalues=lambda g, dense, rows, columns: sample_products(g, dense, rows, columns),
    ddense=lambda g, values, dense_shape, rows, columns: sparse_product(
        values, g, columns, rows, height=dense_shape[0]
    ),
)
def sparse_product(values: Operand, dense: Operand, rows: Array, columns: Array, *, height: int) -> Operand:
    """The product of a sparse matrix (height, k) with entries `values` at `rows` and `columns`, and a dense (k, n)."""
    values, dense = np.ascontiguousarray(values), np.ascontiguousarray(dense)
    shape = height, dense.shape[1]
    if kernel_provider.enabled and height and dense.shape[1]:
        out = np.empty(shape, dense.dtype)
        if PRODUCT.call(values, rows, columns, dense, out) is not None:
            return out
    out = np.zeros(shape, dense.dtype)
    step = max(1, MAX_GATHERED_ELEMENTS // max(1, dense.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        np.add.at(out, rows[part], values[part, None] * dense[columns[part]])
    return out


@primitive(
    family="index",
    raises=True,
    spec=lambda x, y, rows, columns: Spec(rows.shape, x.dtype),
    dx=lambda g, y, x_shape, rows, columns: sparse_product(g, y, rows, columns, height=x_shape[0]),
    dy=lambda g, x, y_shape, rows, columns: sparse_product(g, x, columns, rows, height=y_shape[0]),
)
def sample_products(x: Operand, y: Operand, rows: Array, columns: Array) -> Operand:
    """The elements of x @ y.T at `rows` and `columns`: of (m, n) and (k, n), one for each entry."""
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    if kernel_provider.enabled and x.size and y.size:
        found = SAMPLES.call(x, y, rows, columns)
        if found is not None:
            return found
    out = np.empty(len(rows), x.dtype)
    step = max(1, MAX_GATHERED_ELEMENTS // max(1, x.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        out[part] = np.einsum("ij,ij->i", x[rows[part]], y[columns[part]])
    return out

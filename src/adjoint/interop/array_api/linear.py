"""Products of vectors and matrices, which the namespace itself has, and its extension `linalg` too."""

from __future__ import annotations

from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.elementwise import complex as parts
from adjoint.functions.linalg import matmul as linear
from adjoint.functions.linalg import products
from adjoint.interop.array_api.operands import promote_operands
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Product of matrices in the last two dimensions, the others broadcast; vectors stand for a row or a column."""
    out: Tensor = linear.matmul(*promote_operands("matmul", x1, x2))
    return out


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two dimensions exchanged. Raises ValueError below two dimensions."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected two dimensions or more, got {x.ndim}")
    out: Tensor = movement.swap(x, -2, -1)
    return out


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Σ over the last `axes` dimensions of x1 and the first of x2, or over two lists of dimensions."""
    x, y = promote_operands("tensordot", x1, x2)
    out: Tensor = products.tensordot(x, y, axes if isinstance(axes, int) else tuple(map(list, axes)))
    return out


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Σ conj(x1) x2 along `axis`, counted from the end; the others broadcast. Raises ValueError if the sizes differ."""
    x, y = promote_operands("vecdot", x1, x2)
    d = axis if axis < 0 else axis - max(x.ndim, y.ndim)
    if x.array.shape[d] != y.array.shape[d]:
        raise ValueError(f"vecdot: sizes along axis {axis} differ, {x.array.shape[d]} and {y.array.shape[d]}")
    product = arithmetic.mul(parts.conj_physical(x), y)
    return reduction.sum(product, axes=(product.ndim + d,), keepdims=False)

"""Products of matrices, and stacks of them."""

from __future__ import annotations

import numpy as np

from adjoint.core.dtype.dtype import default
from adjoint.core.op.eager_kernels import FixedShapes
from adjoint.core.op.elementwise_kernels import ArithmeticKernel
from adjoint.core.op.evaluation import compute
from adjoint.core.op.families import primitive, with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec, broadcast_shapes
from adjoint.core.runtime.mode import mode
from adjoint.core.typing import Array, Function, Operand
from adjoint.ops.elementwise.arithmetic import mul
from adjoint.ops.linalg.blas_products import (
    MAX_UNTHREADED,
    MAX_UNTHREADED_MATRICES,
    multiply_by_vector,
    multiply_matrices,
)
from adjoint.ops.movement.movement import reshape, reshape_unshared, swap

ndarray = np.ndarray
MULTIPLY = ArithmeticKernel("multiply", np.multiply)
SECONDS_PER_MULTIPLICATION = 3e-11  # in products of a stack by NumPy, which calls BLAS for each matrix


def multiply(product: Function, x: Operand, y: Operand) -> Operand:
    """Return `product` of a gradient and an operand; of arrays without the call of an op, where nothing watches it."""
    return call_bare(product, x, y)


def call_bare(function: Function, *operands: Operand, **params: Operand) -> Operand:
    """Return a function's result; of arrays alone, in a gradient rule, without the call of its op."""
    for x in operands:
        if type(x) is not ndarray:
            return function(*operands, **params)
    if default.narrow or mode.needs_slow_path:
        return function(*operands, **params)
    op = op_of(function)
    return op.evaluate(*operands, **params) if op.native is None else compute(op, operands, params)


def transpose(x: Operand) -> Operand:
    """Return x with its last two dimensions exchanged: a view of an array, or a tensor."""
    return x.swapaxes(-1, -2) if type(x) is ndarray else swap(x, -1, -2)


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
    dx=lambda g, y: multiply(mm, g, transpose(y)),
    dy=lambda g, x: multiply(mm, transpose(x), g),
)
def mm(x: Array, y: Array) -> Operand:
    """Σₖ x[i, k] y[k, j]."""
    if len(x) * y.size <= MAX_UNTHREADED_MATRICES and x.size <= MAX_UNTHREADED >= y.size and x.dtype.kind == "f":
        return x.dot(y)  # BLAS keeps to this thread; the product of `np.matmul`, 0.6 µs earlier
    if (len(x) == 1 or y.shape[1] == 1) and x.dtype.kind == "f" and len(x) * y.size <= MAX_UNTHREADED_MATRICES:
        return multiply_by_vector(x, y)
    return multiply_matrices(x, y)


@primitive(
    family="contraction",
    spec=matmul_spec,
    linear=True,
    native=FixedShapes(
        lambda x, y: x.size * y.shape[-1] * SECONDS_PER_MULTIPLICATION if x.dtype.kind == "f" and x.ndim > 2 else 0.0
    ),
    dx=lambda g, y: multiply(bmm, g, transpose(y)),
    dy=lambda g, x: multiply(bmm, transpose(x), g),
)
def bmm(x: Array, y: Array) -> Array:
    """Σₖ x[…, i, k] y[…, k, j]; the leading dimensions broadcast."""
    if x.shape[-1] == 1:
        product: Array = MULTIPLY.call(x, y)  # a tenth of the time
        return product
    return multiply_matrices(x, y)


def _outer(x: Operand, y: Operand) -> Operand:
    if type(x) is ndarray and type(y) is ndarray:
        product: Operand = x.reshape(-1, 1) * y
        return product
    return mul(reshape(x, shape=(*x.shape, 1)), y)


@with_eager_fast_path(
    composite=lambda x, y: reshape_unshared(mm(x, reshape_unshared(y, (y.array.shape[0], 1))), (x.array.shape[0],)),
    node="MvBackward0",
    linear=True,
    dx=lambda g, y: _outer(g, y),
    dy=lambda g, x: multiply(mv, transpose(x), g),
)
def mv(x: Array, y: Array) -> Operand:
    """Σₖ x[i, k] y[k]."""
    if x.size <= MAX_UNTHREADED_MATRICES and x.dtype.kind == "f":
        return multiply_by_vector(x, y)
    return multiply_matrices(x, y.reshape(-1, 1)).reshape(-1)


@with_eager_fast_path(
    composite=lambda x, y: reshape_unshared(
        mm(reshape_unshared(x, (1, x.array.shape[0])), reshape_unshared(y, (x.array.shape[0], 1))), ()
    ),
    node="DotBackward0",
    linear=True,
    dx=lambda g, y: g * y,
    dy=lambda g, x: g * x,
)
def dot(x: Array, y: Array) -> Operand:
    """Σₖ x[k] y[k]."""
    if x.size <= MAX_UNTHREADED and x.dtype.kind == "f":
        return x.dot(y)
    return multiply_matrices(x.reshape(1, -1), y.reshape(-1, 1)).reshape(())

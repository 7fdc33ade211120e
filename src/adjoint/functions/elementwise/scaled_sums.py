"""`addcmul`, `addcdiv` and `lerp`: sums with a product, a quotient or a share of others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy import ndarray

from adjoint.core.op.elementwise_composite import compute_into_first
from adjoint.core.op.elementwise_kernels import KERNEL_TYPES
from adjoint.core.op.families import NUMBERS
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, NumpyDtype, Operand
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public
from adjoint.functions.elementwise.pointwise import accept_leading_factor
from adjoint.ops.elementwise import arithmetic, comparison, scaled_sums, select

__all__ = ["addcdiv", "addcmul", "lerp"]


def _are_plain_floats(*operands: Operand) -> bool:
    """Return whether operands are tensors of one type, float32 or float64, on which an op that is fused is called."""
    if nondefault.count and mode.alters_ops:
        return False
    dtype = None
    for x in operands:
        if type(x) is not Tensor:
            return False
        if dtype is None:
            dtype = x.array.dtype
            if dtype not in KERNEL_TYPES:
                return False
        elif x.array.dtype is not dtype:
            return False
    return True


def _add_scaled(fused: Function) -> Callable[..., Array | None]:
    """Return the function of arrays that `addcmul` or `addcdiv` writes in place."""

    def compute(x: Array, tensor1: Array, tensor2: Array, *, value: float = 1) -> Array | None:
        if type(tensor1) is not ndarray or type(tensor2) is not ndarray or value is None:
            return None
        if not tensor1.dtype is tensor2.dtype is x.dtype:
            return None
        return compute_into_first(fused, x, tensor1, tensor2, np.asarray(value, x.dtype))

    return compute


@public(inplace=_add_scaled(scaled_sums.add_product))
@with_out
@in_float32
def addcmul(input: Tensor, tensor1: Operand, tensor2: Tensor, last: Operand = None, *, value: Operand = 1) -> Tensor:
    """Return input + value · tensor1 · tensor2; of four operands, as programs of old have them, value is the second."""
    if last is not None:
        tensor1, tensor2, value = tensor2, last, accept_leading_factor("addcmul", "value", tensor1)
    if type(value) in NUMBERS and _are_plain_floats(input, tensor1, tensor2):
        return scaled_sums.add_product(input, tensor1, tensor2, np.asarray(value, input.array.dtype))
    scaled = tensor1 if type(value) is int and value == 1 else arithmetic.mul(tensor1, value)
    return arithmetic.add(input, arithmetic.mul(scaled, tensor2))


@public(inplace=_add_scaled(scaled_sums.add_quotient))
@with_out
@in_float32
def addcdiv(input: Tensor, tensor1: Operand, tensor2: Tensor, last: Operand = None, *, value: Operand = 1) -> Tensor:
    """Return input + value · tensor1 / tensor2; of four operands, as programs of old have them, value is the second.

    Raises RuntimeError where tensor1 and tensor2 are integers.
    """
    if last is not None:
        tensor1, tensor2, value = tensor2, last, accept_leading_factor("addcdiv", "value", tensor1)
    if type(value) in NUMBERS and _are_plain_floats(input, tensor1, tensor2):
        return scaled_sums.add_quotient(input, tensor1, tensor2, np.asarray(value, input.array.dtype))
    if all(isinstance(x, Tensor) and x.array.dtype.kind in "iub" for x in (tensor1, tensor2)):
        raise RuntimeError("Integer division with addcdiv is no longer supported: make tensor1 or tensor2 floating")
    scaled = tensor1 if type(value) is int and value == 1 else arithmetic.mul(tensor1, value)
    return arithmetic.add(input, arithmetic.div(scaled, tensor2))


def _lerp_array(x: Array, end: Array, weight: float) -> Array | None:
    """Compute `lerp` of arrays; None for a weight that is no number, or another type."""
    if type(weight) not in NUMBERS or type(end) is not ndarray or end.dtype is not x.dtype:
        return None
    fused, shares = _lerp_op(weight, x.dtype)
    return compute_into_first(fused, x, end, *shares)


def _lerp_op(weight: float, dtype: NumpyDtype) -> tuple[Function, tuple[Array, Array]]:
    """Return the op that begins at the nearer end, and the shares of both ends."""
    fused = scaled_sums.approach if abs(weight) < 0.5 else scaled_sums.reach
    return fused, (np.asarray(weight, dtype), np.asarray(1.0 - weight, dtype))


@public(inplace=_lerp_array)
@with_out
@in_float32
def lerp(input: Tensor, end: Tensor, weight: Operand) -> Tensor:
    """Return input + weight (end - input), computed from the nearer end. Raises RuntimeError for two types."""
    kind = getattr(end, "dtype", input.dtype)
    if kind is not input.dtype:
        raise RuntimeError(f"expected dtype {input.dtype.name} for `end` but got dtype {kind.name}")
    if isinstance(weight, Tensor):
        if weight.array.shape and _are_plain_floats(input, end, weight):
            return scaled_sums.interpolate(input, end, weight)
    elif type(weight) in NUMBERS and _are_plain_floats(input, end):
        fused, shares = _lerp_op(weight, input.array.dtype)
        return fused(input, end, *shares)
    gap = arithmetic.sub(end, input)
    if isinstance(weight, Tensor):
        near = arithmetic.add(input, arithmetic.mul(gap, weight))
        far = arithmetic.sub(end, arithmetic.mul(gap, arithmetic.sub(1.0, weight)))
        return select.where(comparison.lt(arithmetic.abs(weight), 0.5), near, far)
    if abs(weight) < 0.5:
        return arithmetic.add(input, arithmetic.mul(gap, weight))
    return arithmetic.sub(end, arithmetic.mul(gap, 1.0 - weight))

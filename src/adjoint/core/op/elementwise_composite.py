"""Functions of single elements that are composed of ops: in eager mode each is one op and one kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adjoint.core.op.elementwise_kernels import KERNEL_TYPES, MIN_ELEMENTS, ElementwiseKernel, copy_names
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.op.op import Rule, op_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operand

ndarray = np.ndarray


def with_elementwise_kernel(function: Function) -> Function:
    """Let kernels compute a function of elements, whose arguments are arrays, tensors or numbers."""
    kernel = ElementwiseKernel(function)

    def call(*operands: Operand) -> Operand:
        first = operands[0]
        if type(first) is ndarray and (first.size >= MIN_ELEMENTS or first.size == 1):  # of one: it may be spread
            found = kernel.find(operands, {})
            if found is not None:
                return found
        return function(*operands)

    return copy_names(call, function)


def elementwise_composite(
    *, node: str | None = None, small: Function | None = None, **rules: Rule
) -> Callable[[Function], Function]:
    """Declare a function of elements that is composed of ops: one op, and one kernel, for float32 and float64.

    bfloat16 is rounded once, as of any op. Traced steps see its ops; tensors of other types take them too. `small` is
    the same in NumPy's functions, for arrays that no kernel takes: each op of a few elements costs more than they do.
    `rules` are the gradient rules; they become kernels as well.
    """

    def declare(composite: Function) -> Function:
        kernel = ElementwiseKernel(composite)

        def evaluate(*operands: Operand, **params: object) -> Array:
            found = kernel.find(operands, params)
            if found is not None:
                return found
            if small is not None:
                return np.asarray(small(*operands, **params))
            out: Array = composite(*operands, **params).array
            return out

        fast = {name: with_elementwise_kernel(rule) for name, rule in rules.items()}
        publish = with_eager_fast_path(composite=composite, node=node, preserves_strides=True, **fast)
        whole = publish(copy_names(evaluate, composite))

        def call(*inputs: Operand, **params: object) -> Tensor:
            dtype = inputs[0].array.dtype
            plain = (dtype in KERNEL_TYPES or dtype.kind == "V") and all(
                isinstance(x, Tensor) and x.array.dtype == dtype for x in inputs
            )
            out: Tensor = whole(*inputs, **params) if plain else composite(*inputs, **params)
            return out

        vars(call)["op"] = op_of(whole)
        return copy_names(call, composite)

    return declare

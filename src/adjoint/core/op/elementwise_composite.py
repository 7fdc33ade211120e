"""Functions of single elements that are composed of ops: in eager mode each is one op and one kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adjoint.core.graph.node import Node
from adjoint.core.op.eager_kernels import kernel_provider
from adjoint.core.op.elementwise_kernels import ARRAY, KERNEL_TYPES, MIN_ELEMENTS, ElementwiseKernel, copy_names
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.op.op import Op, Rule, op_of
from adjoint.core.op.recorder import record_output, wrap_unrecorded
from adjoint.core.op.signature import parameters_of
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.external_aliases import copy_if_aliased, externally_aliased
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, NumpyDtype, Operand, Operands

ndarray = np.ndarray
MIN_SIZE_TO_WRITE_INTO = 2**14  # elements: fewer are computed and copied in less time than it takes to look at memory


def with_elementwise_kernel(function: Function, *, same_bits: bool = True, small: Function | None = None) -> Function:
    """Let kernels compute a function of elements, whose arguments are arrays, tensors or numbers.

    `same_bits`: they give the bits that NumPy gives. If not, small arrays take them from the first call on, or else
    `small`, the same in NumPy's functions.
    """
    kernel = ElementwiseKernel(function, same_bits=same_bits, min_elements=_min_elements(same_bits, small))
    is_small_first = small is not None and not same_bits

    def call(*operands: Operand) -> Operand:
        first = operands[0]
        if type(first) is ndarray:
            native = kernel.of_arrays
            if native is not None and first.size >= kernel.min_taken and kernel_provider.enabled:
                found = native(*operands)
                if found is not None:
                    return found
            # of fewer elements no kernel is ever made whose bits differ from those of NumPy
            found = None if is_small_first and first.size < MIN_ELEMENTS else kernel.find(operands, {})
            if found is not None:
                return found
            if small is not None and all(type(x) is ndarray or isinstance(x, (int, float)) for x in operands):
                return small(*operands)
        return function(*operands)

    whole = copy_names(call, function)
    vars(whole)["kernel"] = kernel
    return whole


def compute_into_first(function: Function, *arrays: Array) -> Array:
    """Compute a function that `elementwise_composite` declares; into the first array where a kernel may write there.

    Else the result is a new array.
    """
    kernel: ElementwiseKernel = vars(function)["kernel"]
    first, *others = arrays
    if first.size >= MIN_SIZE_TO_WRITE_INTO and kernel_provider.enabled:
        for x in others:
            if x is not first and (x.base is not None or first.base is not None) and np.may_share_memory(x, first):
                break
        else:
            if kernel.write_into_first(arrays):
                return first
    out: Array = op_of(function).evaluate(*arrays)
    return out


def _have_dtype(operands: Operands, dtype: NumpyDtype) -> bool:
    """Return whether all operands are tensors of this type, or numbers as arrays of it."""
    for x in operands:
        if isinstance(x, Tensor):
            if x.array.dtype != dtype:
                return False
        elif type(x) is not ndarray or x.dtype != dtype or x.shape:
            return False
    return True


def _min_elements(same_bits: bool, small: Function | None) -> int:
    """Return the number of elements from which on a kernel computes them whenever it is called."""
    return MIN_ELEMENTS if same_bits or small is not None else 1


def elementwise_composite(
    *, node: str | None = None, small: Function | None = None, same_bits: bool = False, **rules: Rule
) -> Callable[[Function], Function]:
    """Declare a function of elements that is composed of ops: one op, and one kernel, for float32 and float64.

    bfloat16 is rounded once, as of any op. Traced steps see its ops; tensors of other types take them too. `small` is
    the same in NumPy's functions, for arrays that no kernel takes: each op of a few elements costs more than they do.
    `rules` are the gradient rules; they become kernels as well. `same_bits`: all these kernels give the bits that NumPy
    gives.
    """

    def declare(composite: Function) -> Function:
        kernel = ElementwiseKernel(composite, same_bits=same_bits, min_elements=_min_elements(same_bits, small))

        def evaluate(*operands: Operand, **params: object) -> Array:
            found: Array | None = None
            x = operands[0]
            if len(operands) == 1 and kernel.natives and x.ndim and x.size >= kernel.min_taken:  # as `find` begins
                native = kernel.find_native((ARRAY, *params.values()))
                if native is not None and kernel_provider.enabled:
                    found = native(x)
                    if found is not None:
                        return found
            elif not params and kernel.of_arrays is not None and x.size >= kernel.min_taken and kernel_provider.enabled:
                found = kernel.of_arrays(*operands)
                if found is not None:
                    return found
            found = kernel.find(operands, params)
            if found is not None:
                return found
            if small is not None:
                return np.asarray(small(*operands, **params))
            out: Array = composite(*operands, **params).array
            return out

        fast = {
            name: rule  # one that passes its gradient on as it is needs no kernel
            if "kernel" in vars(rule) or len(parameters_of(rule).positional) == 1
            else with_elementwise_kernel(rule, same_bits=same_bits)
            for name, rule in rules.items()
        }
        publish = with_eager_fast_path(composite=composite, node=node, preserves_strides=True, **fast)
        whole = publish(copy_names(evaluate, composite))
        op = op_of(whole)

        def call(*inputs: Operand, **params: object) -> Tensor:
            dtype = inputs[0].array.dtype
            if (dtype in KERNEL_TYPES or dtype.kind == "V") and (len(inputs) == 1 or _have_dtype(inputs, dtype)):
                out: Tensor = whole(*inputs, **params)
                return out
            out = composite(*inputs, **params)
            if node is not None and type(out.node) is Node:
                out.node.called = node
            return out

        published = copy_names(call if len(op.inputs) > 1 else _make_call_of_one(op, kernel, call), composite)
        vars(published)["op"], vars(published)["kernel"] = op, kernel
        return published

    return declare


def _make_call_of_one(op: Op, kernel: ElementwiseKernel, otherwise: Function) -> Function:
    """Make the call for one tensor, written out like those of `families`; it leaves to `otherwise` what is unusual."""
    saves_input, saves_out = op.saved_mask((True,)) or (False, False)

    def call(x: Operand, **params: object) -> Tensor:
        modes = mode.__dict__ if nondefault.count else None
        native = kernel.find_native((ARRAY, *params.values()))
        if native is None or type(x) is not Tensor or (modes is not None and modes["alters_ops"]):
            return otherwise(x, **params)
        array, node = x.array, x.node
        if not (kernel_provider.enabled and array.ndim and array.size >= kernel.min_taken):
            return otherwise(x, **params)
        data = native(array)
        if data is None:
            return otherwise(x, **params)
        if node is None or (modes is not None and not modes["recording"]):
            return wrap_unrecorded(data)
        if saves_input and externally_aliased and x.storage_ is not None:
            array = copy_if_aliased(array)
        saved = (array if saves_input else None, data if saves_out else None) if saves_input or saves_out else None
        return record_output(data, op, (node,), params or None, None, saved)

    return call

"""The call of an op with one input and parameters, written out like those of `families`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from adjoint.core.dtype.dtype import FLOATING, default
from adjoint.core.op.apply import apply
from adjoint.core.op.eager_kernels import kernel_provider
from adjoint.core.op.op import Op
from adjoint.core.op.op_errors import EVALUATION_ERRORS, retry_ignoring_fp_errors
from adjoint.core.op.recorder import record_output
from adjoint.core.runtime.mode import nondefault
from adjoint.core.tensor.external_aliases import copy_if_aliased, externally_aliased
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

ndarray = np.ndarray
new = object.__new__


def make_one_input_call(op: Op) -> Callable[..., Tensor]:
    """Make the call of an op with one input and parameters."""
    keeps_x, keeps_out = (name in op.needs[0] for name in (op.inputs[0], "out"))
    evaluated, weight = op.evaluate, 0.0
    if op.native is not None:
        weight = math.inf if callable(op.native.weight) else op.native.weight

    def call(x: Operand, **params: object) -> Tensor:
        array = x.array if isinstance(x, Tensor) else None
        if (
            type(array) is not ndarray
            or nondefault.count
            or default.narrow
            or array.size * weight >= kernel_provider.min_seconds
        ):
            return apply(op, (x,), params)
        try:
            data = evaluated(array, **params)
        except EVALUATION_ERRORS as error:
            data = retry_ignoring_fp_errors(op, (array,), params, error)
        if type(data) is not ndarray:
            data = np.asarray(data)
        if x.node is None or data.dtype.kind not in FLOATING:
            out = new(Tensor)
            out.array = data
            out.node = out._grad = out.storage_ = None
            return out
        if not op.differentiable:
            return apply(op, (x,), params)
        shapes = (array.shape,) if op.saves_shapes else None
        if not (keeps_x or keeps_out):
            return record_output(data, op, (x.node,), params, shapes, None)
        kept = copy_if_aliased(array) if keeps_x and externally_aliased else array
        saved = (kept if keeps_x else None, data if keeps_out else None)
        return record_output(data, op, (x.node,), params, shapes, saved)

    return call

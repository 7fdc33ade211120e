"""The call of an op with one input, and parameters, written out as those of `families` are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import FLOATING, default
from adjoint.core.op.apply import apply
from adjoint.core.op.eager_kernels import source
from adjoint.core.op.op import Op
from adjoint.core.op.op_errors import FAULTS, again
from adjoint.core.op.recorder import make
from adjoint.core.runtime.mode import unusual
from adjoint.core.tensor.external_aliases import apart, exposed
from adjoint.core.tensor.tensor import Tensor

ndarray = np.ndarray
new = object.__new__


def of_one(op: Op) -> Callable[..., Tensor]:
    """The call of an op of one input, and parameters, that has a gradient or whose result cannot have one."""
    keeps_x, keeps_out = (name in op.needs[0] for name in (op.inputs[0], "out"))
    evaluated, weight = op.evaluate, 0.0
    if op.native is not None:
        weight = math.inf if callable(op.native.weight) else op.native.weight

    def call(x: Any, **params: Any) -> Tensor:
        array = x.array if isinstance(x, Tensor) else None
        if type(array) is not ndarray or unusual.count or default.narrow or array.size * weight >= source.enough:
            return apply(op, (x,), params)
        try:
            data = evaluated(array, **params)
        except FAULTS as error:
            data = again(op, (array,), params, error)
        if type(data) is not ndarray:
            data = np.asarray(data)
        if x.node is None or data.dtype.kind not in FLOATING:
            out = new(Tensor)
            out.array = data
            out.node = out._grad = out.memory = None
            return out
        if not op.differentiable:
            return apply(op, (x,), params)
        shapes = (array.shape,) if op.kept_shapes else None
        if not (keeps_x or keeps_out):
            return make.recorded(data, op, (x.node,), params, shapes, None)
        kept = apart(array) if keeps_x and exposed else array
        saved = (kept if keeps_x else None, data if keeps_out else None)
        return make.recorded(data, op, (x.node,), params, shapes, saved)

    return call

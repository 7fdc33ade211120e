"""The call of an op with one input, and parameters, written out as those of `families` are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtype import FLOATING, default
from adjoint.core.exposure import apart, exposed
from adjoint.core.mode import unusual
from adjoint.core.native import source
from adjoint.core.node import Node, tick
from adjoint.core.op import Op, apply, evaluate
from adjoint.core.site import user_place
from adjoint.core.tensor import Tensor

ndarray = np.ndarray
new = object.__new__


def of_one(op: Op) -> Callable[..., Tensor]:
    """The call of a differentiable op of one input, and parameters."""
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
        except (RuntimeWarning, FloatingPointError, ValueError, TypeError, IndexError, OverflowError):
            data = evaluate(op, (array,), params)
        if type(data) is not ndarray:
            data = np.asarray(data)
        out = new(Tensor)
        out.array = data
        out._grad = out.memory = None
        if x.node is None or data.dtype.kind not in FLOATING:
            out.node = None
            return out
        node = Node()
        node.op, node.parents, node.params = op, (x.node,), params
        node.shape, node.dtype = data.shape, data.dtype
        node.shapes = (array.shape,) if op.kept_shapes else None
        node.saved = node.hooks = None
        if keeps_x or keeps_out:
            kept = apart(array) if keeps_x and exposed else array
            node.saved = (kept if keeps_x else None, data if keeps_out else None)
        node.code, node.at = user_place(2)
        node.order = tick()
        out.node = node
        return out

    return call

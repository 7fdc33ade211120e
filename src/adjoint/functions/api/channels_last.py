"""Functions of images whose channels come last in memory: results and gradients do so too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from adjoint.core.graph.node import OutputSlot
from adjoint.core.op.op_timer import find_op_timer
from adjoint.core.op.signature import with_parameters_of
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.functions.api.publish import rename_node
from adjoint.ops.movement.memory_format import CHANNELS_LAST, copy_in_order, is_channels_last

ndarray = np.ndarray
Function = TypeVar("Function", bound=Callable[..., Any])
Order = tuple[int, ...]


def preserve_channels_last(function: Function) -> Function:
    """Let results and gradients of `function` be channels last if one of its images or weights is.

    It still computes in row-major order, with the same numbers. This is for eager calls: the kernels of a compiled step
    choose the order of values between ops.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        rank = _rank_of_images(args) or (_rank_of_images(kwargs.values()) if kwargs else 0)
        if not rank or (nondefault.count and mode.is_intercepted and find_op_timer() is None):
            return function(*args, **kwargs)
        order = CHANNELS_LAST[rank]
        images = {id(x): x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.ndim == rank}
        entered = {key: copy_in_order(x, order=tuple(range(rank)), back=order) for key, x in images.items()}
        out = function(
            *[entered.get(id(x), x) for x in args], **{name: entered.get(id(x), x) for name, x in kwargs.items()}
        )
        left = {id(entered[key]): images[key] for key in entered}  # a function may give back what it was given
        if isinstance(out, tuple):
            return tuple(left[id(x)] if id(x) in left else _convert_to_order(x, order) for x in out)
        return left[id(out)] if id(out) in left else _convert_to_order(out, order)

    published: Any = with_parameters_of(call, function)
    return published


def _rank_of_images(values: Iterable[Any]) -> int:
    """Return the rank of the first tensor that is channels last, 0 if there is none."""
    for x in values:
        if isinstance(x, Tensor):
            array = x.array
            if type(array) is ndarray and array.ndim in CHANNELS_LAST:
                steps = array.strides
                if steps[1] <= steps[-1] and is_channels_last(array):  # most are told by the first
                    return array.ndim
    return 0


def _convert_to_order(out: Operand, order: Order) -> Tensor:
    """Convert `out` to that order, and keep the name of its node. Tensors of that order or of another rank stay."""
    if not isinstance(out, Tensor) or out.ndim != len(order) or is_channels_last(out.array):
        return out
    ordered = copy_in_order(out, order=order, back=tuple(range(len(order))))
    node = out.node
    return ordered if node is None or type(node) is OutputSlot else rename_node(ordered, node.name())

"""`Variable`: what tensors with a history were called once; old programs still say it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from adjoint.autograd.engine import engine
from adjoint.core.tensor.tensor import Tensor, detach

__all__ = ["Variable"]


class ExecutionEngine:
    """The engine under the name by which old programs reach it."""

    @staticmethod
    def queue_callback(callback: Callable[[], Any]) -> None:
        """Call `callback()` when the backward pass that is running has ended. Raises RuntimeError if none is."""
        engine.queue_callback(callback)


class VariableMeta(type):
    """The class of `Variable`: every tensor is an instance."""

    _execution_engine = ExecutionEngine()

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, data: Tensor, requires_grad: bool = False, volatile: Any = None) -> Tensor:
        """A leaf over the memory of `data`."""
        if volatile is not None:
            warnings.warn(
                "volatile was removed (Variable.volatile is always False); use `with no_grad():` instead",
                UserWarning,
                stacklevel=2,
            )
        return detach(data).requires_grad_(requires_grad)


class Variable(metaclass=VariableMeta):
    """`Variable(data, requires_grad=False)` is a leaf over the memory of a tensor."""

    __slots__ = ()

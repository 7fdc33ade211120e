"""A level of `vmap`: tensors stand for all examples of a batch at once, and ops are done for all of them.

Tracing replaces evaluation and nothing else: within a level a tensor's array is a `Batch`, which has the shape of one
example. An op on such tensors is recorded as ever, and evaluated by ops of the level around, on tensors which have the
batch as their first dimension. These are recorded, traced, batched or differentiated forward there, as any others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.graph.node import tick
from adjoint.core.op.evaluation import target_dtype
from adjoint.core.op.spec import describe
from adjoint.core.runtime.mode import Scope, mode, setting
from adjoint.core.tensor.storage import view_of
from adjoint.core.tensor.tensor import Tensor, constant, detach, twin, wrap
from adjoint.ops.elementwise.select import cast
from adjoint.ops.movement.movement import expand, reshape
from adjoint.ops.mutation.inplace import write
from adjoint.transforms.vmap.batching_rules import Operand, batched

AROUND = ("tracer", "floor", "duals", "packers", "watcher", "deferred")  # what a level sets anew for those inside


class Batch:
    """One example of a batch: the array of a tensor within a level.

    `physical` is a tensor of the level around, with the batch in front if `batched`; else the examples do not differ.
    """

    __slots__ = ("__weakref__", "batched", "dtype", "level", "physical", "shape")

    def __init__(self, physical: Tensor, batched: bool, level: Batcher) -> None:
        array = physical.array
        self.physical = physical
        self.batched = batched
        self.level = level
        self.shape: tuple[int, ...] = tuple(array.shape[1:] if batched else array.shape)
        self.dtype: np.dtype[Any] = array.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions of one example."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of one example."""
        return int(np.prod(self.shape, dtype=np.int64))

    def refuse(self, reader: str) -> Any:
        """The values, where all examples have the same; else raise RuntimeError."""
        if not self.batched:
            with self.level.outside():
                return self.physical.numpy_view(reader)
        if reader == "bool()":
            raise RuntimeError(
                "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. The "
                "examples of a batch cannot go different ways: choose between values with adjoint.where."
            )
        called = f".{reader}" if reader.isidentifier() or reader.endswith("()") else reader
        raise RuntimeError(
            f"vmap: It looks like you're calling {called} on a Tensor. We don't support vmap over calling {called} on "
            "a Tensor, which has another value for each example; please try to rewrite it with other operations."
        )

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("this tensor belongs to a vmap that has ended: return it from the function that is mapped")

    def __repr__(self) -> str:
        return f"<{describe(self)}, {f'one of {self.level.size}' if self.batched else 'the same for all'}>"


class Batcher:
    """The tracer that evaluates ops for all examples of a batch at once.

    `randomness`: what a random op does, "error", "different" numbers for each example, or the "same"; "never" is
    "error" in words for those who called no vmap. A `Function` runs op by op here: `FunctionVmapLevel` knows better.
    """

    def __init__(self, size: int, randomness: str) -> None:
        self.size, self.randomness = size, randomness
        self._around: dict[str, Any] = {}
        self._recording = False

    def inside(self) -> Scope:
        """A block at this level, within what is now. What was recorded before is constant there."""
        self._around = {name: getattr(mode, name) for name in AROUND}
        self._recording = mode.recording
        return Scope(tracer=self, floor=tick(), packers=(), watcher=None)

    def outside(self) -> Scope:
        """A block at the level around."""
        return Scope(**self._around, recording=self._recording and (mode.recording or mode.deferred))

    def enter(self, physical: Tensor, batched: bool = True) -> Tensor:
        """The tensor of this level that stands for one of the level around."""
        return wrap(Batch(physical, batched, self))

    def leave(self, tensor: Tensor) -> Tensor:
        """The tensor of the level around, the batch in front. To be called outside."""
        physical, batched = self.physical(tensor)
        if batched:
            return physical
        shape = physical.array.shape
        return expand(reshape(physical, shape=(1, *shape)), shape=(self.size, *shape))

    def owns(self, tensor: Tensor) -> bool:
        """True for a tensor made at this level; others are of a level around."""
        return type(tensor.array) is Batch and tensor.array.level is self

    def physical(self, x: Any) -> Operand:
        """An input of an op as the level around has it."""
        if isinstance(x, Tensor) and self.owns(x):
            return Operand(x.array.physical, x.array.batched)
        return Operand(x, False)

    def emit(self, op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> Batch:
        """An op call, done for all examples by ops of the level around."""
        target = target_dtype(op, tuple(x.array if isinstance(x, Tensor) else x for x in inputs))
        operands = [self.physical(x) for x in inputs]
        with self.outside():
            if target is not None:  # decided by the shapes of one example
                operands = [_typed(operand, target) for operand in operands]
            return Batch(*batched(op, operands, params, self.size, self.randomness), self)

    def symbol(self, x: Tensor) -> Batch:
        """What stands for a tensor in a node of this level: with its history, if it is of a level around."""
        if self.owns(x):
            return x.array
        kept = twin(x)
        kept.node = x.node
        return Batch(kept, False, self)

    def lifted(self, x: Tensor) -> Tensor:
        """`x` as a tensor of this level."""
        out = twin(x)
        out.array, out.node = self.symbol(x), x.node
        return out

    def symbols(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """What a node keeps of the inputs of its op."""
        return tuple(self.symbol(x) if isinstance(x, Tensor) else x for x in inputs)

    def detached(self, tensor: Tensor) -> Batch:
        """The array of a tensor that is cut off from its history, at the levels around as well."""
        physical, batched = self.physical(tensor)
        with self.outside():
            return Batch(detach(physical), batched, self)

    def replacement(self, x: Tensor, out: Tensor, called: str, since: int | None) -> Tensor | None:
        """`out` at this level. Memory of a level around is written there; None then.

        Raises RuntimeError where that would have to hold another value for each example.
        """
        view = view_of(x)
        base = x if view is None else view.base
        if self.owns(base):
            return out if self.owns(out) else self.lifted(out)
        (target, _), (value, several) = self.physical(x), self.physical(out)
        if several:
            raise RuntimeError(
                f"vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
                f"extra_args that has more elements than `self`. This happened due to `other` being vmapped over but "
                f"`self` not being vmapped over in a vmap: {called} writes to a tensor of shape {list(x.array.shape)} "
                f"that was made outside, and would have to hold {self.size} values of it. Please use an out-of-place "
                "operator instead, or make the tensor inside."
            )
        with self.outside():
            write(target, value, called, since)
        return None

    def constant(self, array: Any) -> Batch:
        """An array made from Python data: the same for all examples."""
        with self.outside():
            return Batch(constant(array), False, self)

    def adopt(self, tensor: Tensor) -> Any:
        """The tensor's array; the level around may take it as part of its state."""
        tracer = self._around["tracer"]
        if tracer is not None and not self.owns(tensor):
            with self.outside():
                tracer.adopt(tensor)
        return tensor.array

    def read_setting(self, holder: Any, key: Any) -> Any:
        """A Python number, as the level around reads it."""
        with self.outside():
            return setting(holder, key)

    def refuse_write(self, called: str) -> None:
        """Raise RuntimeError: an in-place op reached memory that a tensor without a common base sees."""
        raise RuntimeError(f"vmap: {called} writes to memory that a detached tensor shares; clone() it first")

    def __getattr__(self, name: str) -> Any:
        """What else a tracer is told is for the level around."""
        if name not in ("watch", "touch_gradient", "follow", "enter_module", "leave_module"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        tracer = self._around["tracer"]
        return _unheard if tracer is None else getattr(tracer, name)


def _unheard(*_: Any) -> None:
    """Nobody traces the level around."""


def _typed(operand: Operand, target: np.dtype[Any]) -> Operand:
    value, several = operand
    if getattr(getattr(value, "array", value), "dtype", target) == target:
        return operand
    return Operand(cast(value, dtype=target), several)

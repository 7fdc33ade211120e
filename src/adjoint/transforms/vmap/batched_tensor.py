"""A level of `vmap`: tensors stand for all examples of a batch at once, and ops are done for all of them.

Tracing replaces evaluation and nothing else: within a level a tensor's array is a `BatchedArray`, which has the shape
of one example. An op on such tensors is recorded as ever, and evaluated by ops of the level around, on tensors which
have the batch as their first dimension. These are recorded, traced, batched or differentiated forward there, as any
others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from adjoint.core.graph.node import next_sequence_nr
from adjoint.core.op.evaluation import target_dtype
from adjoint.core.op.spec import Shaped, describe
from adjoint.core.runtime.interpreter import EAGER, Interpreter
from adjoint.core.runtime.mode import ModeScope, mode, runtime_input
from adjoint.core.tensor.storage import view_of
from adjoint.core.tensor.tensor import Tensor, constant, detach, shallow_copy, wrap
from adjoint.core.typing import Array, Function, NumpyDtype, Operand, Operands, Params
from adjoint.ops.elementwise.select import cast
from adjoint.ops.movement.movement import expand, reshape
from adjoint.ops.mutation.inplace import write_in_place
from adjoint.ops.reduction.reduction import all as all_of
from adjoint.transforms.vmap.batching_rules import BatchOperand, apply_batching_rule

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

OUTER_MODES = (
    "interpreter",
    "level_floor",
    "forward_levels",
    "saved_tensor_hooks",
    "anomaly_detector",
    "recorded_by_caller",
)  # what a level sets anew for those inside


class BatchedArray(Shaped):
    """One example of a batch: the array of a tensor within a level.

    `physical` is a tensor of the level around, with the batch in front if `batched`; else the examples do not differ.
    """

    __slots__ = ("__weakref__", "batched", "dtype", "level", "physical", "shape")

    def __init__(self, physical: Tensor, batched: bool, level: VmapLevel) -> None:
        array = physical.array
        self.physical = physical
        self.batched = batched
        self.level = level
        self.shape = tuple(array.shape[1:] if batched else array.shape)
        self.dtype: NumpyDtype = array.dtype

    def refuse(self, reader: str) -> Array:
        """Return the values, where all examples have the same; else raise RuntimeError."""
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

    def __array__(self, *_: object, **__: object) -> Any:
        raise RuntimeError("this tensor belongs to a vmap that has ended: return it from the function that is mapped")

    def __repr__(self) -> str:
        return f"<{describe(self)}, {f'one of {self.level.size}' if self.batched else 'the same for all'}>"


class VmapLevel(Interpreter):
    """The tracer that evaluates ops for all examples of a batch at once.

    `randomness`: what a random op does, "error", "different" numbers for each example, or the "same"; "never" is
    "error" in words for those who called no vmap. A `Function` runs op by op here: `FunctionVmapLevel` knows better.
    """

    def __init__(self, size: int, randomness: str) -> None:
        self.size, self.randomness = size, randomness
        self._outer_modes: dict[str, Any] = {}
        self._recording = False

    def inside(self) -> ModeScope:
        """Return a block at this level, within what is now. What was recorded before is constant there."""
        self._outer_modes = {name: getattr(mode, name) for name in OUTER_MODES}
        self._recording = mode.recording
        return ModeScope(interpreter=self, level_floor=next_sequence_nr(), saved_tensor_hooks=(), anomaly_detector=None)

    def outside(self) -> ModeScope:
        """Return a block at the level around."""
        return ModeScope(**self._outer_modes, recording=self._recording and (mode.recording or mode.recorded_by_caller))

    def enter(self, physical: Tensor, batched: bool = True) -> Tensor:
        """Return the tensor of this level that stands for one of the level around."""
        return wrap(BatchedArray(physical, batched, self))

    def unwrap_tensor(self, tensor: Tensor) -> Tensor:
        """Return the tensor of the level around, the batch in front. To be called outside."""
        physical, batched = self.physical(tensor)
        if batched:
            return physical
        shape = physical.array.shape
        return expand(reshape(physical, shape=(1, *shape)), shape=(self.size, *shape))

    def owns(self, tensor: Tensor) -> bool:
        """Return whether a tensor was made at this level; others are of a level around."""
        return type(tensor.array) is BatchedArray and tensor.array.level is self

    def physical(self, x: Operand) -> BatchOperand:
        """Return an input of an op as the level around has it."""
        if isinstance(x, Tensor) and self.owns(x):
            return BatchOperand(x.array.physical, x.array.batched)
        return BatchOperand(x, False)

    def emit(self, op: Op, inputs: Operands, params: Params) -> BatchedArray:
        """Call an op for all examples by ops of the level around."""
        target = target_dtype(op, tuple(x.array if isinstance(x, Tensor) else x for x in inputs))
        operands = [self.physical(x) for x in inputs]
        with self.outside():
            if target is not None:  # decided by the shapes of one example
                operands = [_cast_operand(operand, target) for operand in operands]
            return BatchedArray(*apply_batching_rule(op, operands, params, self.size, self.randomness), self)

    def symbol(self, x: Tensor) -> BatchedArray:
        """Return the stand-in for a tensor in a node of this level, with its history if it is of a level around."""
        if self.owns(x):
            return x.array
        kept = shallow_copy(x)
        kept.node = x.node
        return BatchedArray(kept, False, self)

    def lift_tensor(self, x: Tensor) -> Tensor:
        """Return `x` as a tensor of this level."""
        out = shallow_copy(x)
        out.array, out.node = self.symbol(x), x.node
        return out

    def symbols(self, inputs: Operands) -> tuple[Operand, ...]:
        """Return the values of the inputs that a node saves."""
        return tuple(self.symbol(x) if isinstance(x, Tensor) else x for x in inputs)

    def detach_array(self, tensor: Tensor) -> BatchedArray:
        """Return the array of a tensor that is cut off from its history, at the levels around as well."""
        physical, batched = self.physical(tensor)
        with self.outside():
            return BatchedArray(detach(physical), batched, self)

    def tensor_around(self, tensor: Tensor) -> tuple[BatchOperand, ModeScope]:
        """Return the tensor of the level around that holds all examples, and a block at that level."""
        return self.physical(tensor), self.outside()

    def replacement(self, x: Tensor, out: Tensor, called: str, since: int | None) -> Tensor | None:
        """Return `out` at this level; None if its memory is of a level around, where it is written.

        Raises RuntimeError where that would have to hold another value for each example.
        """
        view = view_of(x)
        base = x if view is None else view.base
        if self.owns(base):
            return out if self.owns(out) else self.lift_tensor(out)
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
            write_in_place(target, value, called, since)
        return None

    def constant(self, array: Operand) -> BatchedArray:
        """Return an array made from Python data: the same for all examples."""
        with self.outside():
            return BatchedArray(constant(array), False, self)

    def is_batched(self, x: Operand) -> bool:
        """Return whether a tensor has another value for each example, here or at a level around."""
        value, several = self.physical(x)
        return several or self._outer.is_batched(value)

    def holds_for_all(self, truth: Operand) -> bool:
        """Return whether the truth of one element holds for all examples, of the levels around too."""
        value, several = self.physical(truth)
        with self.outside():
            if several:
                value = all_of(value, axes=(0,), keepdims=False)
            return self._outer.holds_for_all(value)

    def adopt(self, tensor: Tensor) -> Operand:
        """Return the tensor's array; the level around may take it as part of its state."""
        if not self.owns(tensor):
            with self.outside():
                self._outer.adopt(tensor)
        return tensor.array

    def read_setting(self, holder: object, key: Any) -> Any:
        """Return a Python number, as the level around reads it."""
        with self.outside():
            return runtime_input(holder, key)

    def refuse_write(self, called: str) -> None:
        """Raise RuntimeError: an in-place op reached memory that a tensor without a common base sees."""
        raise RuntimeError(f"vmap: {called} writes to memory that a detached tensor shares; clone() it first")

    def refuse_sparse_gradient(self, use: str) -> NoReturn:
        """Raise NotImplementedError: each example has indices of its own."""
        raise NotImplementedError(f"vmap: {use}, which are others for each example; return it from the mapped function")

    # Notices are for the level around.

    def watch(self, subject: object, probe: Function, what: str, at_end: bool, contents: Function | None) -> None:
        self._outer.watch(subject, probe, what, at_end, contents)

    def touch_gradient(self, tensor: Tensor, kind: str) -> None:
        self._outer.touch_gradient(tensor, kind)

    def follow(self, node: object) -> None:
        self._outer.follow(node)

    def enter_module(self, name: str) -> None:
        self._outer.enter_module(name)

    def leave_module(self) -> None:
        self._outer.leave_module()

    @property
    def _outer(self) -> Interpreter:
        """The interpreter of the level around."""
        return self._outer_modes["interpreter"] or EAGER


def _cast_operand(operand: BatchOperand, target: NumpyDtype) -> BatchOperand:
    value, several = operand
    if getattr(getattr(value, "array", value), "dtype", target) == target:
        return operand
    return BatchOperand(cast(value, dtype=target), several)

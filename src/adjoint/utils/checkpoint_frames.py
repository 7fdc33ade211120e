"""Frames of checkpointed calls: slots in place of saved values, and the recomputation that fills them in backward.

An op within the call saves a `SavedSlot` instead of a value. When backward opens the first slot, the function runs
again; the values that its ops save then, in the same order, are those of the slots. A pass can take each value once,
after which it is freed.

Checkpoints nest: an inner one saves its inputs as an op does, so in slots of the outer one.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Self

from adjoint.autograd.engine.engine import running_pass
from adjoint.autograd.saved.hooks import SavedArgument, SavedTensorPacker, push_packer
from adjoint.core.graph.node import PackedValue
from adjoint.core.op.autocast import capture_autocast
from adjoint.core.random.generator import default_generator
from adjoint.core.runtime.mode import ModeScope, set_modes
from adjoint.core.runtime.mode import mode as current
from adjoint.core.tensor.tensor import Tensor, detach
from adjoint.core.typing import Function, Operand


class CheckpointError(RuntimeError):
    """Error for a function that behaves differently when it runs again."""


class SavedMetadata(NamedTuple):
    """Properties that a recomputed value must share with the original."""

    shape: tuple[int, ...]
    dtype: str


Check = Callable[[Tensor], SavedMetadata | None]
CHECKS: dict[str, Check] = {
    "default": lambda x: SavedMetadata(tuple(x.array.shape), x.array.dtype.name),
    "none": lambda _: None,
}


class CheckpointFrame:
    """Checkpointed call. Slots own their frame, which refers to them weakly: a slot that is gone needs no value."""

    def __init__(
        self,
        function: Function,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        preserve_rng_state: bool,
        again: AbstractContextManager[Any],
        check: Check,
        early_stop: bool,
        explain: Callable[[CheckpointError], CheckpointError] | None,
    ) -> None:
        self.function, self.kwargs = function, kwargs
        self.args = [SavedArgument(x) if isinstance(x, Tensor) else (lambda x=x: x) for x in args]
        self.random = default_generator.place() if preserve_rng_state else None
        self.precision = capture_autocast()
        self.again, self.check, self.early_stop, self.explain = again, check, early_stop, explain
        self.slots: list[weakref.ref[SavedSlot]] = []
        self.facts: list[SavedMetadata | None] = []
        self.complete = False  # the first call has ended
        # recomputed values of each backward pass, or group of passes, that is running
        self.rounds: weakref.WeakKeyDictionary[Any, Recomputation] = weakref.WeakKeyDictionary()

    def value(self, slot: SavedSlot) -> Tensor:
        """Return the recomputed value of a slot. Raises CheckpointError if this pass has taken it, or if it differs."""
        occasion = _group.active or running_pass() or _OutsideBackward()
        round = self.rounds.get(occasion)
        if round is None:
            round = Recomputation()
            self._recompute(round)
            self.rounds[occasion] = round
        value = round.values.pop(slot, None)
        if value is None:
            overlap = (
                "Performing two backward calls that overlap (i.e. require the same saved activation in order to "
                "compute gradients) is not allowed while under the GraphExecGroup context. "
            )
            raise CheckpointError(
                "checkpoint: Unpack is being triggered for a tensor that was already unpacked once. "
                f"{overlap if _group.active is not None else ''}If you are calling ctx.saved_tensors in backward, make "
                "sure to do so only once."
            )
        return value

    def _recompute(self, round: Recomputation) -> None:
        try:
            self._call_function(round)
            self._check_recomputed(round)
        except CheckpointError as error:
            if self.explain is None:
                raise
            raise self.explain(error) from error

    def _call_function(self, round: Recomputation) -> None:
        args = [arg() for arg in self.args]
        random = default_generator.place()
        try:
            if self.random is not None:
                default_generator.load_state_array(self.random)
            with ModeScope(recording=True, saved_tensor_hooks=current.saved_tensor_hooks), self.precision, self.again:
                push_packer(_SlotFiller(weakref.ref(self), round))
                self.function(*args, **self.kwargs)
        except StopRecomputation:
            pass
        finally:
            if self.random is not None:
                default_generator.load_state_array(random)

    def _check_recomputed(self, round: Recomputation) -> None:
        if round.went_on:
            return
        if round.count != len(self.slots):
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.slots)}\n"
                f"Number of tensors saved during recomputation: {round.count}.\n{TIP}"
            )
        differences = []
        for i, (reference, before) in enumerate(zip(self.slots, self.facts, strict=True)):
            slot = reference()
            value = None if slot is None else round.values.get(slot)
            if value is not None and (after := self.check(value)) != before:
                differences.append(f"tensor at position {i}:\nsaved metadata: {before}\nrecomputed metadata: {after}")
        if differences:
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata than during the "
                "forward pass.\n" + "\n".join(differences) + f"\n{TIP}"
            )


TIP = "Tip: pass debug=True to checkpoint(), or use set_checkpoint_debug_enabled(True), to see which ops ran each time."


class SavedSlot(PackedValue):
    """Placeholder that a node saves for a value that will be computed again."""

    __slots__ = ("__weakref__", "frame")
    recomputed = True

    def __init__(self, frame: CheckpointFrame) -> None:
        self.frame = frame

    def unpack(self) -> Tensor:
        """Return the value, recomputed if necessary."""
        return self.frame.value(self)

    def kept_values(self) -> list[Operand]:
        """Return the arguments of the call, and the state of the generator: the value is computed from them."""
        return [*(arg.value for arg in self.frame.args if isinstance(arg, SavedArgument)), self.frame.random]


class Recomputation:
    """Values of one recomputation so far, by slot."""

    __slots__ = ("count", "values", "went_on")

    def __init__(self) -> None:
        self.values: weakref.WeakKeyDictionary[SavedSlot, Tensor] = weakref.WeakKeyDictionary()
        self.count = 0
        self.went_on = False  # it saved more than the first call, which is still running


class SlotRecorder:
    """Context of the first call, in which nodes get slots."""

    __slots__ = ("before", "frame")

    def __init__(self, frame: CheckpointFrame) -> None:
        self.frame = frame

    def __enter__(self) -> Self:
        self.before = current.saved_tensor_hooks
        push_packer(self)
        return self

    def __exit__(self, *error: object) -> None:
        set_modes(saved_tensor_hooks=self.before)
        self.frame.complete = error[0] is None

    def pack(self, tensor: Tensor) -> PackedValue:
        """Return a new slot."""
        frame, slot = self.frame, SavedSlot(self.frame)
        frame.slots.append(weakref.ref(slot))
        frame.facts.append(frame.check(tensor))
        return slot

    def before_write(self, tensor: Tensor) -> None:
        """Do nothing: packed values cannot be overwritten."""


class StopRecomputation(BaseException):
    """Signal that all values are there. It is no Exception, so that user code does not catch it."""


class _SlotFiller(SavedTensorPacker):
    """Packer of a later call, which fills the slots. Nodes save the values too, for passes within the function."""

    __slots__ = ("frame", "round")

    def __init__(self, frame: weakref.ref[CheckpointFrame], round: Recomputation) -> None:
        self.frame = frame
        self.round = round

    def pack(self, tensor: Tensor) -> PackedValue:
        frame, round = self.frame(), self.round
        assert frame is not None  # it is running
        i = round.count
        round.count += 1
        value = tensor if tensor.node is None else detach(tensor)
        if i >= len(frame.slots):
            if frame.complete and frame.explain is None:  # to be explained, the call goes on to its end
                raise CheckpointError(
                    "checkpoint: trying to save more tensors during recomputation than during the original forward "
                    f"pass.\n{TIP}"
                )
            round.went_on = not frame.complete
            return _PlainValue(value)
        slot = frame.slots[i]()
        if slot is not None:
            round.values[slot] = value
        if frame.early_stop and round.count == len(frame.slots):
            raise StopRecomputation
        return _PlainValue(value)


class _PlainValue(PackedValue):
    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def unpack(self) -> Tensor:
        return self.tensor


class GraphExecGroup:
    """Context whose backward passes share one recomputation of a checkpointed call.

    They must not need the same values, since each can be taken once. Raises RuntimeError inside another group.
    """

    def __enter__(self) -> Self:
        if _group.active is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {_group.active}")
        _group.active = self
        return self

    def __exit__(self, *error: object) -> None:
        _group.active = None


class _Group(threading.local):
    active: GraphExecGroup | None = None


_group = _Group()


class _OutsideBackward:
    """Key of a recomputation outside of any backward pass."""

"""Checkpoints in a compiled step: the program computes values again, and what else the function does happens twice."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from adjoint.autograd.engine.engine import running_pass
from adjoint.autograd.saved.hooks import SavedTensorPacker, pop_packer, push_packer
from adjoint.core.graph.node import PackedValue
from adjoint.core.op.autocast import capture_autocast
from adjoint.core.runtime.interpreter import EAGER
from adjoint.core.runtime.mode import ModeScope, mode
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand
from adjoint.utils.checkpoint_frames import StopRecomputation


def call_traced(
    function: Callable[[], object],
    preserve_rng_state: bool,
    early_stop: bool = False,
    again: AbstractContextManager[object] | None = None,
) -> Any:
    """Call the function in a scope of the tracer whose equations are computed again for the gradient.

    A backward pass in the step that needs a value of it calls it once more, as an eager one does.
    """
    with (mode.interpreter or EAGER).checkpoint_scope() as draws:
        if draws is None or not mode.recording:
            return function()
        block = TracedBlock(function, draws if preserve_rng_state else None, early_stop, again)
        push_packer(block)
        try:
            return function()
        finally:
            pop_packer()


class TracedBlock(SavedTensorPacker):
    """A checkpointed call of a traced step, as the packer of the values that its nodes save."""

    __slots__ = ("again", "draws", "early_stop", "function", "packed", "passes", "precision", "repeated")

    def __init__(
        self,
        function: Callable[[], object],
        draws: object,
        early_stop: bool,
        again: AbstractContextManager[object] | None,
    ) -> None:
        self.function, self.draws, self.early_stop = function, draws, early_stop
        self.again = nullcontext() if again is None else again
        self.precision = capture_autocast()
        self.packed = 0  # values in the first call
        self.repeated: int | None = None  # values in the call that is running again
        self.passes: weakref.WeakSet[object] = weakref.WeakSet()  # which have called it

    def pack(self, tensor: Tensor) -> PackedValue:
        """Return a value that calls the function again when it is needed."""
        if self.repeated is None:
            self.packed += 1
            return ValueOfBlock(wrap(tensor.array), self)
        self.repeated += 1
        if self.early_stop and self.repeated == self.packed:
            raise StopRecomputation
        return ValueOfBlock(wrap(tensor.array), None)

    def repeat(self) -> None:
        """Call the function again, once in each backward pass, for what it does besides computing."""
        occasion, interpreter = running_pass(), mode.interpreter or EAGER
        if occasion is None or occasion in self.passes:
            return
        self.passes.add(occasion)
        with interpreter.repeat_scope(self.draws) as wanted:
            if not wanted:
                return
            self.repeated = 0
            try:
                with ModeScope(recording=True, saved_tensor_hooks=(self,)), self.precision, self.again:
                    self.function()
            except StopRecomputation:
                pass
            finally:
                self.repeated = None


class ValueOfBlock(PackedValue):
    """A value of a checkpointed call."""

    __slots__ = ("block", "tensor")

    def __init__(self, tensor: Tensor, block: TracedBlock | None) -> None:
        self.tensor, self.block = tensor, block

    def unpack(self) -> Tensor:
        """Return the value, after the function was called again."""
        if self.block is not None:
            self.block.repeat()
        return self.tensor

    def value_outside(self) -> Operand:
        """Return the array: outside of the step nothing is called again."""
        return self.tensor.array

"""The observer of a profile: the value of a thread's `mode.anomaly_detector` while ops are timed."""

from __future__ import annotations

import inspect
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np

from adjoint.autograd.engine.graph_task import GraphTask
from adjoint.autograd.engine.node_call import call_node
from adjoint.core.graph.node import GraphNode, OutputSlot
from adjoint.core.graph.source_location import library_files, user_instruction
from adjoint.core.op.op_timer import TimedSpan
from adjoint.core.runtime import pytree
from adjoint.core.runtime.mode import has_interpreter, mode, set_modes
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operand, Operands
from adjoint.utils.profile_events import Event

MAX_OPEN_OPS = 1000  # begun and not ended, as those are that raise


class LiveBytes:
    """The bytes of the arrays that ops, gradients and compiled steps have made, while these are alive.

    `samples`: (time in nanoseconds, bytes) after each change.
    """

    def __init__(self) -> None:
        self.total = 0
        self.samples: list[tuple[int, int]] = []
        self._held: dict[int, weakref.ref[Array]] = {}

    def add(self, value: Operand) -> None:
        """Count an array, or a tensor's, unless it is a view of another or counted already."""
        array = value.array if isinstance(value, Tensor) else value
        if type(array) is not np.ndarray or array.base is not None or id(array) in self._held or not array.nbytes:
            return
        key, size = id(array), array.nbytes

        def forget(_: object) -> None:
            if self._held.pop(key, None) is not None:
                self._change(-size)

        self._held[key] = weakref.ref(array, forget)
        self._change(size)

    def clear(self) -> None:
        """Forget the samples, not the arrays."""
        self.samples = []

    def _change(self, size: int) -> None:
        self.total += size
        self.samples.append((time.perf_counter_ns(), self.total))


class ProfileObserver:
    """Times the ops of its thread, the nodes of its backward passes and its compiled steps, and tells `record`.

    What was observing before goes on doing so. `memory` counts the bytes of results, if that is wanted.
    """

    def __init__(self, record: Callable[[Event], None], shapes: bool, memory: LiveBytes | None) -> None:
        self.record, self.shapes, self.memory = record, shapes, memory
        self.programs: dict[object, Operand] = {}
        self.other: Operand = None
        self.is_watching = False
        self._begun: list[tuple[str, int]] = []

    def start(self) -> None:
        """Begin to time the ops of this thread."""
        if not self.is_watching:
            self.other, self.is_watching = mode.anomaly_detector, True
            set_modes(anomaly_detector=self)

    def stop(self) -> None:
        """Time no more ops."""
        self.is_watching = False
        if mode.anomaly_detector is self:
            set_modes(anomaly_detector=self.other)

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Return a block whose ops are left to what was observing before."""
        set_modes(anomaly_detector=self.other)
        try:
            yield
        finally:
            if self.is_watching and mode.anomaly_detector is self.other:
                set_modes(anomaly_detector=self)

    def begin_op(self, name: str) -> None:
        """Note that an op begins."""
        if len(self._begun) == MAX_OPEN_OPS:
            self._begun.clear()
        self._begun.append((name, time.perf_counter_ns()))

    def observe_op(self, op: Operand, inputs: Operands, out: Operand) -> None:
        """Record an op that has ended."""
        end = time.perf_counter_ns()
        if self.other is not None:
            self.other.observe_op(op, inputs, out)
        begin = self._take_begin(op.name) if self._begun and not has_interpreter() else None
        if begin is None or not self.is_watching:
            return
        node = out.node if isinstance(out, Tensor) else None
        number = getattr(getattr(node, "owner", node), "sequence_nr", None)
        shapes = [list(x.shape) if hasattr(x, "shape") else [] for x in inputs] if self.shapes else []
        self.note(TimedSpan(op.name, "op", begin, end, user_instruction(2), sequence_nr=number), shapes)
        self.note_arrays(out)

    def _take_begin(self, name: str) -> int | None:
        """Return when the op that ended began; None if nobody has told."""
        for i in range(len(self._begun) - 1, -1, -1):
            if self._begun[i][0] == name:
                begin = self._begun[i][1]
                del self._begun[i:]
                return begin
        return None

    def pull(
        self, gradients: GraphTask, node: GraphNode | OutputSlot, g: Operand, mask: Operand = None
    ) -> Sequence[Operand]:
        """Return what `call_node` does, and record how long it took."""
        run = getattr(self.other, "pull", call_node)
        if not self.is_watching or isinstance(node, OutputSlot) or has_interpreter():
            pulled: Sequence[Operand] = run(gradients, node, g, mask)
            return pulled
        begin = time.perf_counter_ns()
        pulled = run(gradients, node, g, mask)
        end = time.perf_counter_ns()
        line = node.code, node.instruction_offset
        self.note(TimedSpan(node.name(), "backward", begin, end, line, sequence_nr=node.sequence_nr))
        self.note_arrays(pulled)
        return pulled

    def time_block(self, name: str, function: Function, args: Operands, kwargs: dict[str, Operand]) -> Operand:
        """Return `function(*args, **kwargs)`, and record it as a block.

        The library's own code runs unobserved, unless it is given functions: observed, it may take other ways.
        """
        given = [x for x in (*args, *kwargs.values()) if inspect.isfunction(x) or inspect.ismethod(x)]
        is_own = library_files[inspect.unwrap(function).__code__.co_filename] and not given
        begin = time.perf_counter_ns()
        try:
            with self.suspend() if is_own else nullcontext():
                return function(*args, **kwargs)
        finally:
            self.note(TimedSpan(name, "block", begin, time.perf_counter_ns(), user_instruction(2)))

    def note(self, span: TimedSpan, shapes: list[list[int]] | None = None) -> None:
        """Record what took place in this thread."""
        thread = threading.get_native_id()
        taken = max(span.end - span.begin, 0)
        self.record(Event(span.name, span.begin, taken, thread=thread, span=span, input_shapes=shapes or []))

    def note_arrays(self, value: Operand) -> None:
        """Count the memory of results."""
        if self.memory is not None:
            for leaf in pytree.flatten(value)[0]:
                self.memory.add(leaf)

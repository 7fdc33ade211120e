"""The observer of ops: the value of a thread's `mode.anomaly_detector` while a program is watched."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from adjoint.core.graph.source_location import library_files, user_instruction
from adjoint.core.op.op import Op
from adjoint.core.runtime.mode import has_interpreter, mode, set_modes
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import place_of_instruction
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.rule import WatchRule, guard, is_overridden

ndarray = np.ndarray


class OpObserver:
    """Passes the results of ops to the rules that ask for them, and on to the watcher that was there before."""

    def __init__(self, facts: Facts, rules: Sequence[WatchRule]) -> None:
        self.facts = facts
        self.other: Operand = None
        self.is_watching = False
        self.thread = threading.get_ident()
        see = {rule: guard(rule, rule.see_op) for rule in rules if is_overridden(rule, "see_op")}
        self.of_all = [handler for rule, handler in see.items() if not rule.ops]
        names = {name for rule in rules for name in rule.ops}
        self.by_name = {name: [handler for rule, handler in see.items() if name in rule.ops] for name in names}
        self.seen_records: set[tuple[Operand, int, int]] = set()

    def __getattr__(self, name: str) -> Operand:
        """Return `pull` of the watcher that was there before, if it runs the nodes of the walk."""
        if name == "pull" and self.other is not None:
            return self.other.pull
        raise AttributeError(name)

    def start(self) -> None:
        """Begin to see the ops of this thread."""
        self.other = mode.anomaly_detector
        self.is_watching = True
        set_modes(anomaly_detector=self)

    def stop(self) -> None:
        """See no more ops."""
        self.pause()
        self.is_watching = False

    def pause(self) -> None:
        """Leave the next ops to the watcher that was there before."""
        if mode.anomaly_detector is self:
            set_modes(anomaly_detector=self.other)

    def resume(self) -> None:
        """See ops again after `pause`."""
        if self.is_watching and mode.anomaly_detector is self.other:
            set_modes(anomaly_detector=self)

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Return a block whose ops are not seen."""
        was_seeing = mode.anomaly_detector is self
        self.pause()
        try:
            yield
        finally:
            if was_seeing:
                self.resume()

    def observe_op(self, op: Op, inputs: Operands, out: Operand) -> None:
        """See the result of an op."""
        if self.other is not None:
            self.other.observe_op(op, inputs, out)
        if not self.is_watching or not isinstance(out, Tensor) or type(out.array) is not ndarray:
            return
        if has_interpreter():
            return
        for see in self.of_all:
            see(op, inputs, out)
        wanted = self.by_name.get(op.name)
        if wanted is not None:
            for see in wanted:
                see(op, inputs, out)
        if out.node is None:
            self._note_lost_history(op, inputs)

    def _note_lost_history(self, op: Op, inputs: Operands) -> None:
        """Note an op without a gradient of something that has a history, and a block that switches recording off."""
        if not any(isinstance(x, Tensor) and x.node is not None for x in inputs):
            return
        record = mode.detach_record
        if mode.recording:
            location = user_instruction(3)
            if not library_files[location[0].co_filename] and not getattr(op, "differentiable", True):
                self.facts.cut(f"{op.name}()", place_of_instruction(location))
        elif record is not None:
            key = record.code, record.instruction_offset, self.facts.iteration
            if key not in self.seen_records and not library_files[record.code.co_filename]:
                self.seen_records.add(key)
                self.facts.cut(record.what, place_of_instruction(key[:2]))

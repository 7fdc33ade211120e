"""The observer of ops: the value of a thread's `mode.anomaly_detector` while a program is watched."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from adjoint.core.graph.source_location import library_files, user_instruction
from adjoint.core.op.op import Op
from adjoint.core.runtime.mode import has_interpreter, mode, nondefault, set_modes
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand, Operands
from adjoint.diagnosis.findings import place_of_instruction
from adjoint.diagnosis.watch.facts import Facts, leaves_below
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.library_calls import FUNCTIONS_OF_OP, find_running_call
from adjoint.diagnosis.watch.rule import RuleHandlers, WatchRule

ndarray = np.ndarray
CHOICES = ("argmax", "argmin")
FIRST_PASSES = 2  # in which their operands' histories are walked


class WholeOp(NamedTuple):
    """A function that ran as one op, as rules see it."""

    name: str
    family: str = "fused"


class OpObserver:
    """Passes the results of ops to the rules that ask for them, and on to the watcher that was there before."""

    def __init__(self, facts: Facts, rules_of_ops: Sequence[WatchRule], rules_of_calls: Sequence[WatchRule]) -> None:
        self.facts = facts
        self.other: Operand = None
        self.is_watching = False
        self.thread = threading.get_ident()
        self.of_all = RuleHandlers([rule for rule in rules_of_ops if not rule.ops], "see_op")
        by_name: dict[str, list[WatchRule]] = {}
        for rule in rules_of_ops:
            for name in rule.ops:
                by_name.setdefault(name, []).append(rule)
        self.by_name = {name: RuleHandlers(rules, "see_op") for name, rules in by_name.items()}
        self.of_calls = RuleHandlers(rules_of_calls, "see_call")
        self.seen_records: set[tuple[Operand, int, int]] = set()

    def start(self) -> None:
        """Begin to see the ops of this thread."""
        self.other = mode.anomaly_detector
        if hasattr(self.other, "pull"):  # it runs the nodes of the walk
            self.pull = self.other.pull
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
    def resume_at_end(self) -> Iterator[None]:
        """Return a block after which ops are seen again."""
        try:
            yield
        finally:
            self.resume()

    def run_whole(self, function: Function, inputs: Operands, *args: object) -> Operands | None:
        """Call a function of many ops as one of its name; None where something else must see each of them."""
        self.pause()
        try:
            results = None if mode.needs_slow_path or nondefault.meta_tensors else function(*args)
        finally:
            self.resume()
        op: Operand = WholeOp(function.__name__)
        for out in results or ():
            self.observe_op(op, inputs, out)
        return results

    def observe_op(self, op: Op, inputs: Operands, out: Operand) -> None:
        """See the result of an op."""
        if self.other is not None:
            self.other.observe_op(op, inputs, out)
        if not self.is_watching or not isinstance(out, Tensor) or type(out.array) is not ndarray:
            return
        if has_interpreter():
            return
        iteration = self.facts.round
        if self.facts.flow.is_open:
            self.facts.flow.note(op, inputs, out)
        self.of_all.call(iteration, op, inputs, out)
        handlers = self.by_name.get(op.name)
        if handlers is not None:
            handlers.call(iteration, op, inputs, out)
        if op.name in FUNCTIONS_OF_OP:
            call = find_running_call(op.name)
            if call is not None:
                self.of_calls.call(iteration, call)
        if out.node is None:
            self._note_lost_history(op, inputs)

    def _note_choice(self, op: Op) -> None:
        """Note an argmax of something that has a history, which it leaves out before the op runs."""
        frame = find_library_call(*CHOICES) if self.facts.iteration < FIRST_PASSES else None
        x = None if frame is None else frame.f_locals.get("input")
        location = user_instruction(3)
        if isinstance(x, Tensor) and x.node is not None and not library_files[location[0].co_filename]:
            parameters = frozenset(id(leaf.variable) for leaf in leaves_below((x,)))
            self.facts.cut(f"{op.name}()", place_of_instruction(location), parameters)

    def _note_conversion(self, x: Tensor) -> None:
        """Note a conversion to integers of something that has a history."""
        location = user_instruction(4)
        if not library_files[location[0].co_filename]:
            parameters = frozenset(id(leaf.variable) for leaf in leaves_below((x,)))
            self.facts.cut("the conversion to integers", place_of_instruction(location), parameters)

    def _note_lost_history(self, op: Op, inputs: Operands) -> None:
        """Note an op without a gradient of something that has a history, and a block that switches recording off."""
        record = mode.detach_record
        if op.name in CHOICES and mode.recording:
            self._note_choice(op)
            return
        if not any(isinstance(x, Tensor) and x.node is not None for x in inputs):
            return
        if op.name == "cast" and mode.recording and self.facts.iteration < FIRST_PASSES:
            self._note_conversion(inputs[0])
            return
        if mode.recording:
            location = user_instruction(3)
            if not library_files[location[0].co_filename] and not getattr(op, "differentiable", True):
                self.facts.cut(f"{op.name}()", place_of_instruction(location))
        elif record is not None:
            key = record.code, record.instruction_offset, self.facts.iteration
            if key not in self.seen_records and not library_files[record.code.co_filename]:
                self.seen_records.add(key)
                self.facts.cut(record.what, place_of_instruction(key[:2]))

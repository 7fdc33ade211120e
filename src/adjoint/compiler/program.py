"""A compiled step, bound to memory: what to check, what to run, where the results go.

A program's `run` is a flat Python function written for it: compare the arguments with what was traced, call the native
segments and the NumPy functions in turn, put new gradients in place, wrap the results. `program.source` shows it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from adjoint.compiler.bind import Binding, GradientSlot
from adjoint.compiler.fuse import Fusion, Group
from adjoint.compiler.graph import Argument, Graph, Setting, Value
from adjoint.compiler.kernels.nest import Kernel
from adjoint.compiler.outcome import Outcome
from adjoint.compiler.runtime import Segment
from adjoint.core.mode import mode, unusual
from adjoint.core.op import evaluate
from adjoint.core.site import Site
from adjoint.core.storage import mark_written, storage_of
from adjoint.core.tensor import Tensor, fill
from adjoint.core.writes import writes

HERE = Site("a compiled step", 0, "run")
MISS: Any = type("Miss", (), {"__repr__": lambda self: "<made for another call>"})()


class Program:
    """One signature of a compiled function: `run(*tensors)` gives a tuple of tensors, or MISS if made for others.

    `run(…, fresh=True)`, right after the trace, takes the Python state as it was when the trace began. `lost(tensor)`
    gives the node of a result whose history stays inside.
    """

    def __init__(
        self,
        graph: Graph,
        fusion: Fusion,
        kernels: dict[Group, Kernel],
        outcome: Outcome,
        lost: Callable[[Tensor], Any],
    ) -> None:
        self.graph, self.fusion, self.kernels, self.outcome = graph, fusion, kernels, outcome
        self.binding = Binding(graph, fusion, kernels, outcome)
        self._names: dict[str, Any] = {
            "MISS": MISS, "Tensor": Tensor, "ndarray": np.ndarray, "matmul": np.matmul, "copyto": np.copyto, "empty":
            np.empty, "unusual": unusual, "mode": mode, "new": object.__new__, "fill": fill, "lock": threading.Lock(),
            "lost": lost, "getrefcount": getrefcount, "renew": self._renew, "wrote": mark_written, "HERE": HERE,
            "stamp": writes.stamp, "settings": self.binding.settings,
        }  # fmt: skip
        self._segments: list[Segment] = []  # kept alive: their functions point into them
        self._lines: list[str] = []
        self._write()
        self.source = "\n".join(self._lines) + "\n"
        exec(compile(self.source, f"<compiled {graph.name}>", "exec"), self._names)
        self.run: Callable[..., Any] = self._names["run"]
        for k, slot in enumerate(self.binding.gradients):
            self._names[f"held{k}"] = getrefcount(slot.tensor.array)  # all of them the program's own

    def holds(self) -> bool:
        """True while watched facts and captured tensors are as they were traced; replaced memory is bound anew."""
        if not all(w.holds() for w in self.outcome.watches):
            return False
        if any(tensor.node is not node for tensor, node, s in self.outcome.state if not isinstance(s.source, Argument)):
            return False
        if not self.binding.refresh(self._names):
            return False
        for k, place in self._located():
            self._names[f"A{k}"] = place().array
        for k, watch in enumerate(self.outcome.watches):
            self._names[f"E{k}"] = watch.expected
        self._names["written"], self._names["storages"] = self._written()
        return True

    def _written(self) -> tuple[list[Any], list[Any]]:
        """What counts the writes into captured memory, so that graphs outside which kept the old values notice."""
        found = [s.source.locate() for s, _ in self.outcome.writes if not isinstance(s.source, Argument)]
        return [writes.of(t.array) for t in found], [storage_of(t) for t in found]

    def _located(self) -> list[tuple[int, Callable[[], Any]]]:
        """The states whose memory is bound where it lies: their numbers, and how to find them."""
        return [
            (k, symbol.source.locate)
            for k, (_, _, symbol) in enumerate(self.outcome.state)
            if not isinstance(symbol.source, Argument) and symbol not in self.binding.copied_in
        ]

    def _say(self, line: str, depth: int = 1) -> None:
        self._lines.append("    " * depth + line)

    def _name(self, thing: Any, stem: str) -> str:
        name = f"{stem}{len(self._names)}"
        self._names[name] = thing
        return name

    def _write(self) -> None:
        taken = "".join(f"x{i}, " for i in range(self.outcome.arguments))
        self._lines.append(f"def run({taken}fresh=False):")
        self._check_arguments()
        self._check_state()
        self._say("with lock:")
        self._inputs()
        self._outputs()
        self._steps()
        self._finish()
        self._results()

    def _check_arguments(self) -> None:
        # while no thread has left the default modes, this one records and traces nothing
        usual = "unusual.count" if mode.recording else "not unusual.count"
        join = "and" if mode.recording else "or"
        self._say(f"if {usual} {join} (mode.tracer is not None or mode.recording is not {mode.recording}): return MISS")
        for v in self.graph.of_kind(Argument):
            i = v.source.number
            self._say(f"a{i} = x{i}.array")
            dtype, shape = self._name(v.dtype, "dtype"), self._name(v.shape, "shape")
            differs = f"a{i}.dtype is not {dtype} or a{i}.shape != {shape}"
            self._say(f"if type(a{i}) is not ndarray or {differs}: return MISS")
            if v.shape:
                self._say(f"if not a{i}.flags.c_contiguous: a{i} = a{i}.copy()")

    def _check_state(self) -> None:
        """Captured tensors hold the very memory that was bound, and the watched facts hold."""
        tests = []
        located = dict(self._located())
        for k, (tensor, node, symbol) in enumerate(self.outcome.state):
            if isinstance(symbol.source, Argument):
                continue
            place = self._name(tensor, "t")
            tests.append(f"{place}.node is {self._name(node, 'node')}")
            if k in located:
                found = located[k]()
                self._names[f"A{k}"] = found.array
                where = place if found is tensor else f"{self._name(located[k], 'locate')}()"
                tests.append(f"{where}.array is A{k}")
        # a gradient must exist before its memory is looked at: facts come first
        facts = []
        for k, watch in enumerate(self.outcome.watches):
            self._names[f"E{k}"] = watch.expected
            facts.append(f"{self._name(watch.probe, 'probe')}({self._name(watch.subject, 'subject')}) == E{k}")
        if facts or tests:
            self._say("if not fresh:")
        for test in (*facts, *tests):
            self._say(f"if not {test}: return MISS", 2)

    def _inputs(self) -> None:
        """Settings are read, and state is copied that kernels cannot take as it lies."""
        for i, v in enumerate(self.graph.of_kind(Setting)):
            path = "".join(f"[{key!r}]" for key in v.source.path)
            self._say(f"settings[{i}] = {self._name(v.source.holder, 'holder')}{path}", 2)
        for v in self.binding.copied_in:
            into, place = self.binding.array_of(v, self._names), self._name(v.source.locate, "locate")
            self._say(f"copyto({into}, {place}().array)", 2)

    def _outputs(self) -> None:
        """Fresh memory for results; that of gradients is used again unless somebody still holds it."""
        for name, v in self.binding.fresh.items():
            self._say(f"{name} = empty({self._name(v.shape, 'shape')}, {self._name(v.dtype, 'dtype')})", 2)
        for k, slot in enumerate(self.binding.gradients):
            self._names[f"G{k}"] = slot.tensor
            self._say(f"if getrefcount(G{k}) > {GradientSlot.HELD} or getrefcount(G{k}.array) > held{k}: renew({k})", 2)

    def _renew(self, k: int) -> None:
        slot = self.binding.gradients[k]
        slot.renew()
        self._names[f"G{k}"] = slot.tensor
        self.binding.rebind(self._names)

    def _steps(self) -> None:
        """Runs of kernels as one native call each, NumPy's share between them."""
        pending: list[Group] = []
        for group in (*self.fusion.order, None):
            if group is not None and not group.call:
                pending.append(group)
                continue
            if pending:
                segment, arrays = self.binding.segment(pending)
                self._segments.append(segment)
                self._say(f"{self._name(segment.call, 'segment')}({', '.join(arrays)})", 2)
                pending = []
            if group is not None:
                self._call(group.equations[0])

    def _call(self, value: Value) -> None:
        operands = [
            self.binding.array_of(x, self._names) if isinstance(x, Value) else self._name(x, "k") for x in value.inputs
        ]
        if value.op.family == "contraction":
            self._say(f"matmul({', '.join(operands)}, out={self.binding.array_of(value, self._names)})", 2)
            return
        said = f"{self._name(_explained_call(value), value.op.name + '_')}({', '.join(operands)})"
        if value.op.family != "check":
            said = f"copyto({self.binding.array_of(value, self._names)}, {said})"
        self._say(said, 2)

    def _finish(self) -> None:
        """State that could not be written in place, and .grad."""
        gradients = self.binding.gradients
        for into, value in self.binding.copied_out:
            source = self.binding.array_of(value, self._names)
            if isinstance(into, GradientSlot):
                self._say(f"copyto(G{gradients.index(into)}.array, {source})", 2)
            elif isinstance(into.source, Argument):
                self._say(f"copyto(a{into.source.number}, {source})", 2)
            else:
                self._say(f"copyto({self._name(into.source.locate, 'locate')}().array, {source})", 2)
        for symbol, _ in self.outcome.writes:
            if isinstance(symbol.source, Argument):
                i = symbol.source.number
                self._say(f"if a{i} is not x{i}.array: copyto(x{i}.array, a{i})", 2)
                self._say(f"wrote(x{i}, HERE)", 2)
        self._names["written"], self._names["storages"] = self._written()
        if self._names["written"]:
            self._say("stamp(written, HERE)", 2)
            self._say("for storage in storages: storage.version += 1", 2)
        slots = iter(range(len(gradients)))
        for place, v in self.outcome.gradients:
            tensor = f"x{place}" if isinstance(place, int) else self._name(place, "t")
            self._say(f"{tensor}._grad = {'None' if v is None else f'G{next(slots)}'}", 2)

    def _results(self) -> None:
        for i, history in enumerate(self.outcome.history):
            self._say(f"r{i} = fill(new(Tensor), {self.binding.result_names[i]})")
            if history:
                self._say(f"r{i}.node = lost(r{i})")
        self._say(f"return ({''.join(f'r{i}, ' for i in range(len(self.outcome.history)))})")


def _explained_call(value: Value) -> Callable[..., Any]:
    op, params, origin = value.op, value.params, value.origin

    def call(*operands: Any) -> Any:
        try:
            return evaluate(op, operands, params)
        except Exception as error:
            if origin is not None:
                error.add_note(f"in the compiled step: {op.name}, from {origin.site}")
            raise

    return call

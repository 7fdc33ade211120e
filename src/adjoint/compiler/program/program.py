"""A compiled step, bound to memory: what to check, what to run, where the results go.

A program's `run` is a flat Python function written for it: compare the arguments with what was traced, call the native
segments and the NumPy functions in turn, put new gradients in place, wrap the results. `program.source` shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from weakref import WeakMethod

import numpy as np

from adjoint.compiler.ir.graph import Argument, Graph, Value
from adjoint.compiler.ir.shared_memory import have_overlaps, is_memory_shared, overlapping_inputs
from adjoint.compiler.ir.strided_view import is_expanded_input
from adjoint.compiler.ir.symbolic_size import has_symbols
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.passes.cost_model import estimate_seconds
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.program.backward_node import BackwardProgram, CompiledBackward, ConsumedHistory
from adjoint.compiler.program.buffer_binding import Binding
from adjoint.compiler.program.check_codegen import BoundStep
from adjoint.compiler.program.entry_codegen import EntryCodegen
from adjoint.compiler.program.placed_gradients import PlacedGradients
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.call_turn import COMPUTATION_FAILED, CallTurn
from adjoint.compiler.runtime.guard_checks import GuardChecks, always_stale, install_checks
from adjoint.compiler.runtime.native_entry import MAX_GIL_HELD_SECONDS
from adjoint.compiler.runtime.object_checks import PointerCheck
from adjoint.compiler.runtime.result_buffers import take_reusable_result
from adjoint.compiler.runtime.write_marks import make_write_marker
from adjoint.compiler.trace.frames.constants import is_same_constant
from adjoint.compiler.trace.guards import GuardFailure, describe_object
from adjoint.compiler.trace.numbers.symbolic_number import GUARD_NAMES
from adjoint.compiler.trace.step_outputs import Parent, StepEffects
from adjoint.compiler.trace.symbolic_strides import lies_with_strides, strides_unless_contiguous
from adjoint.core.graph.node import next_sequence_nr
from adjoint.core.graph.source_location import PACKAGE, Site
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.mutation_log import Write, mutation_log
from adjoint.core.tensor.storage import INFERENCE, InferenceStorage, StorageCount, mark_written, storage_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand

PROGRAM_SITE = Site("a compiled step", 0, "run")
GUARD_FAILED: Any = type("Miss", (), {"__repr__": lambda self: "<made for another call>"})()
NO_TURN = SimpleNamespace(is_running=True)  # of a function that another has replaced
MAX_RELOCATIONS = 2  # of a state to other memory, for each of which it is bound anew; from then on each call finds it
LOOKUP_ERRORS = (
    LookupError,
    AttributeError,
    NameError,
    TypeError,
    ValueError,
)  # where a guarded place does not exist any more


class Program:
    """One signature of a compiled function.

    `run(*arguments)` gives a tuple of leaves, or GUARD_FAILED if it was made for others. `run(…, first_call=True)`,
    right after the trace, takes the Python state as it was when the trace began. `backward` is the half that runs when
    `backward()` is called outside.
    """

    def __init__(
        self,
        graph: Graph,
        fusion: Fusion,
        kernels: dict[Group, Kernel],
        outcome: StepEffects,
        backward: BackwardProgram[Program] | None = None,
        parents: list[Parent] | None = None,
    ) -> None:
        self.graph, self.fusion, self.kernels, self.outcome = graph, fusion, kernels, outcome
        self.backward, self._parents = backward, parents or []
        self.binding = Binding(graph, fusion, kernels, outcome)
        self.gradients = PlacedGradients(self.binding, outcome.gradients)
        self.relocated: dict[int, str] = {}  # states, by number, that each call finds anew: the names of their memory
        self._relocations: Counter[int] = Counter()  # how often a state had other memory
        self._unsteady: set[int] = set()  # guards, by number, that only Python can tell to hold
        self._turn = CallTurn()
        self.own_sizes: set[tuple[int, ...]] = set()  # values of its symbols for which there are other programs
        self.is_timed = False  # a profile has put clocks around its kernels and calls
        self._write_entry()

    def _write_entry(self) -> None:
        """Write the function that each call runs."""
        if self.graph.sizes is not None:
            self.graph.sizes.seal()
        self.names: dict[str, Any] = {
            "GUARD_FAILED": GUARD_FAILED, "COMPUTATION_FAILED": COMPUTATION_FAILED,
            "Tensor": Tensor, "ndarray": np.ndarray,
            "copyto": np.copyto, "empty": np.empty, "nondefault": nondefault, "mode": mode, "new": object.__new__,
            **self._turn_names(),
            "mark_written": mark_written, "gradients": self.gradients,
            "PROGRAM_SITE": PROGRAM_SITE, "writes": mutation_log, "next_sequence_nr": next_sequence_nr,
            "mark": _hold_weakly(self._count_writes),
            "settings": self.binding.settings, "integers": self.binding.integers, "LOOKUP_ERRORS": LOOKUP_ERRORS,
            "CompiledBackward": CompiledBackward, "ConsumedHistory": ConsumedHistory, "half": self.backward,
            "array": np.array, "is_memory_shared": is_memory_shared, "mark_inference_results": mark_inference_results,
            "take_reusable_result": take_reusable_result, "unchanged": always_stale, "always_stale": always_stale,
            "own_sizes": self.own_sizes, "sizes": self.graph.sizes, "last_sizes": None,
            "resize": _hold_weakly(self.binding.resize), **{f"last_{name}": None for name in self.graph.symbols},
            "install_checks": _hold_weakly(self._install_checks), "autocast": mode.autocast, **GUARD_NAMES,
        }  # fmt: skip
        located = {k for k, _ in self.state_locators()}
        arguments = self.graph.inputs_of_kind(Argument)
        state = enumerate(self.outcome.state)
        unread = {k for k, (*_, symbol) in state if symbol not in self.binding.buffers}
        moving = [*self.relocated]
        self.guard_checks = GuardChecks(self.outcome, arguments, located, moving, self._unsteady, unread)
        self.names["take_checks"] = self.guard_checks.retake
        self._writer = EntryCodegen(self._bound_step(), self.names)
        self.source = self._writer.write(self._parents)
        exec(compile(self.source, f"{PACKAGE}<compiled {self.graph.name}>", "exec"), self.names)
        self.run: Function = self.names.pop("run")
        self.fusion.spaces.clear()
        self.numpy_calls, self.native_calls = self._writer.numpy_calls, self._writer.native_calls
        self.matmul_calls = self._writer.matmul_calls
        self.gradients.watch()

    def _bound_step(self) -> BoundStep:
        """Return the facts that the entry function is written from."""
        half = None if self.backward is None else self.backward.half
        states, counters = dict(self.state_locators()), self.write_counters()
        return BoundStep(
            self.graph,
            self.fusion,
            self.binding,
            self.outcome,
            self.guard_checks,
            half,
            self.is_one_call(),
            states,
            counters,
            self.relocated,
        )

    def is_one_call(self) -> bool:
        """True if one native call, which keeps Python's lock, is all that touches what calls share: it needs no other.

        Captured memory may be bound anew before it: both the old and the new are alive until that is done.
        """
        binding, outcome = self.binding, self.outcome
        if (
            self.graph.symbols
            or binding.numbers
            or binding.copies_in
            or binding.copies_out
            or self.backward is not None
        ):
            return False
        if outcome.gradients or outcome.writes or outcome.effects or outcome.rebindings or outcome.leaf_changes:
            return False
        if any(group.call for group in self.fusion.order):
            return False
        if any(kernel.generator for kernel in self.kernels.values()) or not cpython_layout.can_read_arrays():
            return False
        return sum(estimate_seconds(group, self.fusion) for group in self.fusion.order) <= MAX_GIL_HELD_SECONDS

    def share_turn(self, turn: CallTurn) -> None:
        """Run in turn with the other programs of a compiled function."""
        self._turn = turn
        self.names.update(self._turn_names())
        if self.graph.symbols and self.backward is not None:
            self.backward.turn = turn

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep the calls of the compiled function waiting meanwhile."""
        with self._turn.lock:
            yield

    def _turn_names(self) -> dict[str, object]:
        turn = self._turn
        methods = (turn.lock.acquire, turn.lock.release, turn.complete_acquire)
        return {"turn": turn, **{method.__name__: method for method in methods}}

    def is_running(self) -> bool:
        """Return whether a call is running: to this thread's own calls, one that a signal handler interrupted."""
        return self._turn.is_running

    def holds(self) -> bool:
        """True while guards and captured tensors are as they were traced; replaced memory is bound anew."""
        if not all(guard.holds() for guard in self.outcome.guards):
            return False
        for tensor, node, symbol in self._captured_state():
            now = self._current_tensor(tensor, symbol)
            if now is None or now.node is not node or not lies_with_strides(now.array, symbol.source.strides):
                return False
            if now.array.shape != symbol.shape or now.array.dtype != symbol.dtype:
                return False
        with self._turn.lock:  # another thread may be running the kernels
            if not self.binding.refresh(self.names) or self._has_aliased_state():
                return False
            self._adapt_entry()
            for k, place in self.state_locators():
                self.names[f"A{k}"] = place().array
            for k, guard in enumerate(self.outcome.guards):
                self.names[f"E{k}"] = guard.expected_value
            self.names["written"], self.names["storages"] = self.write_counters()
            for memory in self._writer.captured_memory:
                memory.forget()
            self.names["unchanged"], self.names["mark"] = always_stale, _hold_weakly(self._count_writes)
            return True

    def _adapt_entry(self) -> None:
        """Let each call find the states that had other memory more than once, instead of binding it anew.

        And let Python test the guards whose objects keep changing, so that they fail no check of the others.
        """
        found = {}
        met = Counter(id(symbol) for _, _, symbol in self.outcome.state)
        related = {v for relation in self.outcome.memory.relations for v in relation[:2]}
        for k, place in self.state_locators():
            _, node, symbol = self.outcome.state[k]
            self._relocations[k] += place().array is not self.names[f"A{k}"]
            alone = met[id(symbol)] == 1 and symbol in self.binding.buffers and symbol not in related
            without_history = (node is None or symbol.source.expression is None) and not is_expanded_input(symbol)
            if self._relocations[k] >= MAX_RELOCATIONS and alone and without_history:
                found[k] = f"b{k}"
        unsteady = self.guard_checks.find_unsteady()
        if not found and not unsteady:
            return
        self.names["turn"] = NO_TURN  # a thread that waits in the former function, or a signal handler, gives it up
        self.gradients.renew_all()  # the former function knows those that there were until now
        self.binding.bind_at_each_call({self.outcome.state[k][2]: name for k, name in found.items()})
        self.relocated.update(found)
        self._unsteady |= unsteady
        self._write_entry()

    def _has_aliased_state(self) -> bool:
        """Return whether captured tensors share memory that the step writes, otherwise than when it was traced."""
        memory = self.outcome.memory
        if not memory.written:
            return False
        states = {v: v.source.locate() for v in memory.inputs if not isinstance(v.source, Argument)}
        related = {frozenset(relation[:2]) for relation in memory.relations}
        for a, b in overlapping_inputs((s, tensor.array) for s, tensor in states.items() if tensor is not None):
            if (a in memory.written or b in memory.written) and frozenset((a, b)) not in related:
                return True
        known = tuple(r for r in memory.relations if r.first in states and r.second in states)
        return not have_overlaps(known, ())

    def changes(self, given: list[Operand]) -> list[GuardFailure]:
        """The guards that fail for a call with these tensors and numbers."""
        found = [*self._state_changes(), *self._size_changes(given), *self._stride_changes(given)]
        found += self._number_changes(given)
        return found or [GuardFailure("a tensor among the arguments", "memory of its own", "memory of another", None)]

    def _size_changes(self, given: list[Operand]) -> list[GuardFailure]:
        """The sizes of arguments, beside symbols, that the program has as numbers."""
        return [
            GuardFailure(f"dimension {d} of argument {v.source.number}", str(n), str(now), None)
            for v in self.graph.inputs_of_kind(Argument)
            if isinstance(x := given[v.source.number], Tensor)
            for d, (n, now) in enumerate(zip(v.shape, x.shape, strict=False))
            if not has_symbols(n) and n != now
        ]

    def _stride_changes(self, given: list[Operand]) -> list[GuardFailure]:
        """The arguments that lie otherwise in memory than those that the step was traced with."""
        return [
            GuardFailure(
                f"argument {v.source.number}",
                _describe_strides(v.source.strides),
                _describe_strides(strides_unless_contiguous(x.array)),
                None,
            )
            for v in self.graph.inputs_of_kind(Argument)
            if isinstance(x := given[v.source.number], Tensor) and not lies_with_strides(x.array, v.source.strides)
        ]

    def _number_changes(self, given: list[Operand]) -> list[GuardFailure]:
        """The first decision on Python numbers that this call takes otherwise."""
        names = {**self.names, **{f"x{i}": x for i, x in enumerate(given)}}
        arithmetic = self.outcome.arithmetic
        try:
            for source in arithmetic.sources:
                names[source.name] = eval(source.code(self._writer.name), {**self.names, **names})
                if type(names[source.name]) is not source.kind:
                    return [GuardFailure(source.what, source.kind.__name__, describe_object(names[source.name]), None)]
            for line in arithmetic.required_lines(()):
                value = eval(line.code, names)
                if line.name:
                    names[line.name] = value
                elif not is_same_constant(value, line.expected_value):
                    return [
                        GuardFailure(
                            arithmetic.describe_code(line.code),
                            describe_object(line.expected_value),
                            describe_object(value),
                            line.site,
                        )
                    ]
        except (*LOOKUP_ERRORS, ArithmeticError) as error:
            return [GuardFailure("the step's arithmetic on Python numbers", "a number", repr(error), None)]
        return []

    def takes_other_branch(self, given: list[Operand]) -> bool:
        """True if the first decision on Python numbers that this call takes otherwise is one between true and false."""
        return any(change.old in ("True", "False") for change in self._number_changes(given)[:1])

    def _state_changes(self) -> list[GuardFailure]:
        """Return the guards and captured tensors that have changed."""
        found = [guard.change() for guard in self.outcome.guards if not guard.holds()]
        for tensor, node, symbol in self._captured_state():
            now = self._current_tensor(tensor, symbol)
            name = symbol.source.name or "a captured tensor"
            if now is None:
                found.append(GuardFailure(name, "a tensor", "nothing", None))
            elif now.node is not node:
                old, new = ("does not require grad" if n is None else "requires grad" for n in (node, now.node))
                found.append(GuardFailure(name, *((old, new) if old != new else ("its history", "another")), None))
            elif now.array.shape != symbol.shape or now.array.dtype != symbol.dtype:
                old, new = (f"{x.dtype}{list(x.shape)}" for x in (symbol, now.array))
                found.append(GuardFailure(name, old, new, None))
            elif not lies_with_strides(now.array, symbol.source.strides):
                found.append(
                    GuardFailure(
                        name,
                        _describe_strides(symbol.source.strides),
                        _describe_strides(strides_unless_contiguous(now.array)),
                        None,
                    )
                )
        return found

    def _captured_state(self) -> list[tuple[Tensor, object, Value]]:
        return [entry for entry in self.outcome.state if not isinstance(entry[2].source, Argument)]

    @staticmethod
    def _current_tensor(tensor: Tensor, symbol: Value) -> Tensor | None:
        """The tensor that is now where `tensor` was when the step was traced."""
        return symbol.source.locate() if symbol.source.expression is not None else tensor

    def moved_objects(self) -> list[GuardFailure]:
        """Return the state that has other memory than the last call saw, and the guards that hold by other objects."""
        found = []
        for k, place in self.state_locators():
            tensor = place()
            if tensor is not None and tensor.array is not self.names[f"A{k}"]:
                name = self.outcome.state[k][2].source.name or "a captured tensor"
                found.append(GuardFailure(f"the memory of {name}", "", "", None))
        guards = self.outcome.guards
        return found + [GuardFailure(guards[k].what, "", "", guards[k].site) for k in self.guard_checks.moved_guards()]

    def write_counters(self) -> tuple[list[Write], list[StorageCount]]:
        """Return the counters of writes into captured memory, with how many a call makes into each storage."""
        own = self.binding.buffers.keys() - set(self.binding.copies_in)  # the others may be elsewhere in each call
        found = [(s.source.locate(), s) for s, _ in self.outcome.writes if s in own]
        counts: dict[int, StorageCount] = {}
        for tensor, s in found:
            storage = storage_of(tensor)
            if not isinstance(storage, InferenceStorage):
                _, count = counts.get(id(storage), (storage, 0))
                counts[id(storage)] = storage, count + self.outcome.write_counts.get(s, 1)
        return [mutation_log.of(t.array) for t, _ in found], [*counts.values()]

    def state_locators(self) -> list[tuple[int, Callable[[], Operand]]]:
        """The states whose memory is bound where it lies: their numbers, and how to find them."""
        return [
            (k, symbol.source.locate)
            for k, (_, _, symbol) in enumerate(self.outcome.state)
            if not isinstance(symbol.source, Argument) and symbol not in self.binding.copies_in
            if k not in self.relocated and symbol in self.binding.buffers
        ]

    def _install_checks(self, looks: list[PointerCheck], given: tuple[Operand, ...]) -> None:
        """Check by these looks from now on: they were taken before the checks that found nothing wrong."""
        self.names["unchanged"] = install_checks(looks, given) or always_stale
        self.names["mark"] = make_write_marker(
            self.names["written"], self.names["storages"], PROGRAM_SITE
        ) or _hold_weakly(self._count_writes)

    def _count_writes(self, order: int) -> None:
        """Count the writes into captured memory, at their place in the order of the nodes."""
        mutation_log.stamp(self.names["written"], PROGRAM_SITE, order)
        for storage, count in self.names["storages"]:
            storage.version += count


def _hold_weakly(method: Function) -> Function:
    """Return a bound method for a program's names: a cycle would have a dropped program wait for the collector."""
    held = WeakMethod(method)

    def call(*arguments: object) -> object:
        bound = held()
        assert bound is not None, "a program runs no longer than it is held"
        return bound(*arguments)

    return call


def _describe_strides(strides: tuple[int, ...] | None) -> str:
    return "contiguous" if strides is None else f"of strides {strides}"


def mark_inference_results(results: tuple[Tensor, ...]) -> None:
    """Make results tensors of inference mode."""
    for tensor in results:
        tensor.storage_ = INFERENCE

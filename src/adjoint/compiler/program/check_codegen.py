"""The first part of a program's entry function: the comparison of a call with what was traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from adjoint.compiler.ir.graph import Argument, Graph
from adjoint.compiler.ir.shared_memory import CapturedMemory, RelocatedMemory, are_exported, have_overlaps
from adjoint.compiler.ir.strided_view import is_expanded_input
from adjoint.compiler.ir.symbolic_size import has_symbols
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.partition import BackwardGraph
from adjoint.compiler.program.buffer_binding import Binding, has_layout_of, is_usable
from adjoint.compiler.runtime.guard_checks import GuardChecks
from adjoint.compiler.runtime.new_tensors import owns_memory, take_own_memory
from adjoint.compiler.trace.guards import repeated_argument_code
from adjoint.compiler.trace.step_outputs import StepEffects
from adjoint.core.graph.node import Leaf as AccumulateGrad
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.mutation_log import Write
from adjoint.core.tensor.storage import StorageCount
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand


class BoundStep(NamedTuple):
    """A step tied to memory. `half`: what runs when `backward()` is called outside.

    `located`: how to find the states whose memory is bound where it lies, by their numbers. `written`: what counts the
    writes into captured memory, and the storages of that. `relocated`: the states that each call finds anew, by their
    numbers, and the names of their memory.
    """

    graph: Graph
    fusion: Fusion
    binding: Binding
    outcome: StepEffects
    guard_checks: GuardChecks
    half: BackwardGraph | None
    is_one_call: bool
    located: dict[int, Callable[[], Operand]]
    written: tuple[list[Write], list[StorageCount]]
    relocated: dict[int, str]


class CheckCodegen:
    """Writes the lines that check a call; the objects that they speak of have their names in `names`."""

    def __init__(self, step: BoundStep, names: dict[str, object]) -> None:
        self.step, self.names = step, names
        self.graph, self.outcome = step.graph, step.outcome
        self._object_names: dict[int, str] = {}  # objects that have a name already
        self._lines: list[str] = []
        self.captured_memory: list[CapturedMemory | RelocatedMemory] = []
        self._depth = 0  # of what is being said, beyond what its caller tells

    def _emit_line(self, line: str, depth: int = 1) -> None:
        self._lines.append("    " * (depth + self._depth) + line)

    def name(self, thing: object, stem: str = "o") -> str:
        name = self._object_names.get(id(thing))
        if name is None:
            name = self._object_names[id(thing)] = f"{stem}_{len(self.names)}"
            self.names[name] = thing
        return name

    def _arguments(self) -> str:
        """Return the names of the arguments, each with a comma."""
        return "".join(f"x{i}, " for i in range(self.outcome.arguments))

    def check_modes(self) -> None:
        """Compare the modes of this thread with those of the trace."""
        # while no thread has left the default modes, this one records, traces nothing and casts nothing
        default = mode.recording and not mode.inference and mode.autocast is None
        usual, join = ("nondefault.count", "and") if default else ("not nondefault.count", "or")
        modes = {"recording": mode.recording, "inference": mode.inference, "autocast": "autocast"}
        other = " or ".join(f"m[{name!r}] is not {value}" for name, value in modes.items())
        odd = f"(m := mode.__dict__)['is_intercepted'] or {other}"
        self._emit_line(f"if {usual} {join} ({odd}): return GUARD_FAILED")

    def check(self) -> None:
        """Compare the call with what was traced: by native code, and where that finds a difference, in full."""
        if same := repeated_argument_code(self.outcome.tensor_arguments()):
            self._emit_line(f"if {same}: return GUARD_FAILED")
        guard_checks = self.step.guard_checks
        facts, tests = self._tests()
        self._find_relocated()
        if not guard_checks.possible:
            self._check_arguments()
            self._check_relocated()
            self._check_state([*facts.values(), *tests.values()], "if not first_call:")
        else:
            taken = self._arguments() + "".join(f"h{k}, " for k in self.step.relocated)
            self._emit_line(f"if first_call or not unchanged({taken}):")
            self._depth += 1
            self._check_arguments()
            self._check_relocated()
            self._prefer_others([*facts, *tests])
            # once more when checks were taken: nothing was wrong after that
            self._emit_line("checks = None")
            self._emit_line("while not first_call:")
            self._depth += 1
            self._check_state([*facts.values(), *tests.values()])
            self._emit_line(f"if checks is not None: install_checks(checks, ({taken}))")
            self._emit_line("if checks is not None or (checks := take_checks()) is None: break")
            self._depth -= 2
            self._emit_line("else:")
            self._depth += 1
            arguments = [v.source.number for v in self.graph.inputs_of_kind(Argument)]
            arrays = [f"a{i} = x{i}.array" for i in arguments]
            arrays += [f"{name} = h{k}.array" for k, name in self.step.relocated.items()]
            self._emit_line("; ".join(arrays) or "pass")
            unseen = [test for k, test in facts.items() if k not in guard_checks.facts]
            self._check_state(unseen + [test for k, test in tests.items() if k not in guard_checks.state])
            self._depth -= 1
        self._check_symbols()
        self._check_memory()

    def _check_arguments(self) -> None:
        given = {s.source.number: (t, node) for t, node, s in self.outcome.state if isinstance(s.source, Argument)}
        arguments = self.graph.inputs_of_kind(Argument)
        for v in arguments:
            i = v.source.number
            tensor, node = given.get(i, (None, None))
            hooked = type(node) is AccumulateGrad and node.hooks is not None
            is_any = type(tensor) in (Tensor, type(None)) and not hooked
            other = f"type(x{i}) is not Tensor" if is_any else f"x{i} is not {self.name(tensor, 't')}"
            self._emit_line(f"if {other}: return GUARD_FAILED")
            self._emit_line(f"a{i} = x{i}.array")
            dtype, shape = self.name(v.dtype, "dtype"), f"a{i}.shape != {self.name(v.shape, 'shape')}"
            if has_symbols(v.shape):
                known = [f"a{i}.shape[{d}] != {n}" for d, n in enumerate(v.shape) if not has_symbols(n)]
                shape = " or ".join([f"a{i}.ndim != {len(v.shape)}", *known])
            differs = f"a{i}.dtype is not {dtype} and a{i}.dtype != {dtype} or {shape}"
            self._emit_line(f"if type(a{i}) is not ndarray or {differs}: return GUARD_FAILED")
            self._emit_line(f"if x{i}.node is {'not ' if node is None else ''}None: return GUARD_FAILED")
            if node is not None:  # a leaf, or a tensor with a history: `x.is_leaf` is a fact like any other
                is_leaf = f"type(x{i}.node) is {self.name(AccumulateGrad, 'Leaf')}"
                self._emit_line(f"if {'not ' if type(node) is AccumulateGrad else ''}{is_leaf}: return GUARD_FAILED")
            if type(node) is AccumulateGrad and node.hooks is None:
                self._emit_line(f"if x{i}.node.hooks is not None: return GUARD_FAILED")
            if v.shape and v.source.strides is None:
                self._emit_line(f"if not a{i}.flags.c_contiguous: return GUARD_FAILED")
            elif v.shape:
                if v.source.strides != "any":
                    strides = tuple(s * v.dtype.itemsize for s in v.source.strides)
                    self._emit_line(f"if a{i}.strides != {strides}: return GUARD_FAILED")
                if not is_expanded_input(v):
                    self._emit_line(f"if not a{i}.flags.c_contiguous: a{i} = a{i}.copy()")

    def _prefer_others(self, checked: list[int]) -> None:
        """Give up for now where a fact is not as it was: another program may fit, and this one be asked again."""
        if checked:
            # no check passes an argument that must be copied: only the facts themselves can tell
            shaped = [v.source.number for v in self.graph.inputs_of_kind(Argument) if v.shape]
            whole = "".join(f" and a{i} is x{i}.array" for i in shaped)
            self._emit_line(f"if unchanged is not always_stale and not first_call{whole}: return GUARD_FAILED")

    def _find_relocated(self) -> None:
        """Find the tensors that lie now where the step reads those that move."""
        found = []
        for k in self.step.relocated:
            tensor, _, symbol = self.outcome.state[k]
            place = symbol.source.expression
            found.append(f"h{k} = {self.name(tensor, 't') if place is None else place(self.name)}")
        if found:
            self._emit_line(f"try: {'; '.join(found)}")
            self._emit_line("except LOOKUP_ERRORS: return GUARD_FAILED")

    def _check_relocated(self) -> None:
        for k, array in self.step.relocated.items():
            symbol = self.outcome.state[k][2]
            if symbol.source.expression is not None:
                self._emit_line(f"if type(h{k}) is not Tensor or h{k}.node is not None: return GUARD_FAILED")
            dtype, shape = self.name(symbol.dtype, "dtype"), self.name(symbol.shape, "shape")
            self._emit_line(f"{array} = h{k}.array")
            differs = f"{array}.dtype != {dtype} or {array}.shape != {shape}"
            self._emit_line(f"if type({array}) is not ndarray or {differs}: return GUARD_FAILED")
            self._emit_line(f"if not {self.name(is_usable)}({array}): return GUARD_FAILED")

    def _check_symbols(self) -> None:
        """Compare sizes that are one symbol. Those made of symbols are of a backward half, as its step left them."""
        found: dict[str, str] = {}
        for v in self.graph.inputs_of_kind(Argument):
            for d, size in enumerate(v.shape):
                if repr(size) in self.graph.symbols:
                    place = f"a{v.source.number}.shape[{d}]"
                    first = found.setdefault(repr(size), place)
                    self._emit_line(f"if {place} {'< 2' if first == place else f'!= {first}'}: return GUARD_FAILED")

    def _check_memory(self) -> None:
        self._check_relocated_memory()
        memory = self.outcome.memory
        located = {self.outcome.state[k][2] for k in self.step.located}  # whose memory is compared by itself
        for v in memory.inputs if memory.written else ():  # memory of its own needs no further look
            if not isinstance(v.source, Argument):
                continue
            i = v.source.number
            if any(symbol is v for symbol, _ in self.outcome.writes):
                self._emit_line(f"if not x{i}.array.flags.writeable: return GUARD_FAILED")
            partners = memory.partners(v)
            others = "".join(f"x{p.source.number}, " for p in partners if isinstance(p.source, Argument))
            if partners:
                # what nothing reads or writes may lie anywhere
                states = [p for p in partners if not isinstance(p.source, Argument) and p in self.step.binding.buffers]
                moving = [p for p in states if p not in located]
                captured = CapturedMemory([p for p in states if p in located], moving)
                self.captured_memory.append(captured)
                shared = f"x{i}.storage_ is not None and is_memory_shared(x{i}, ({others}), {self.name(captured)})"
                self._emit_line(f"if {shared}: return GUARD_FAILED")
        relations = tuple(r for r in memory.relations if not (r.first in located and r.second in located))
        every = "".join(f"x{i}, " for i in range(self.outcome.arguments))
        for holds, inputs in ((have_overlaps, relations), (are_exported, memory.exported)):
            if inputs:
                self._emit_line(f"if not {self.name(holds)}({self.name(inputs)}, ({every})): return GUARD_FAILED")
        for tensor in self.outcome.renewed:
            t = self.name(tensor, "t")
            self._emit_line(
                f"if not {self.name(owns_memory)}({t}): {self.name(take_own_memory)}({t}); return GUARD_FAILED"
            )

    def _check_relocated_memory(self) -> None:
        """Compare shared memory of states that move with that of others, where either is written."""
        memory, located = self.outcome.memory, {self.outcome.state[k][2] for k in self.step.located}
        symbols = {k: self.outcome.state[k][2] for k in self.step.relocated}
        partners = {k: found for k, symbol in symbols.items() if (found := memory.partners(symbol))}
        if partners:
            relocated = RelocatedMemory({symbols[k]: found for k, found in partners.items()}, located)
            self.captured_memory.append(relocated)
            is_any = " or ".join(f"h{k}.storage_ is not None" for k in partners)
            moved = "".join(f"h{k}, " for k in partners)
            shared = f"({is_any}) and {self.name(relocated)}.is_shared(({moved}), ({self._arguments()}))"
            self._emit_line(f"if {shared}: return GUARD_FAILED")

    def _tests(self) -> tuple[dict[int, str], dict[int, str]]:
        """Write the checks that guards hold and that captured tensors have the memory that was bound."""
        facts = {}
        for k, guard in enumerate(self.outcome.guards):
            self.names[f"E{k}"] = guard.expected_value
            facts[k] = guard.code(self.name, f"E{k}")
        tests = {}
        located = self.step.located
        for k, (tensor, node, symbol) in enumerate(self.outcome.state):
            if isinstance(symbol.source, Argument):
                continue
            place = self.name(tensor, "t")
            bare = "None" if node is None else self.name(node, "node")
            test = f"{place}.node is {bare}"
            if type(node) is AccumulateGrad and node.hooks is None:
                test += f" and {bare}.hooks is None"
            if symbol.source.expression is not None:
                if k in self.step.relocated:
                    continue
                place, test = "t", f"(t := {symbol.source.expression(self.name)}).node is {bare}"
            if k in located:
                self.names[f"A{k}"] = located[k]().array
                test = f"({test} and {place}.array is A{k})"
            elif symbol in self.step.binding.copies_in:
                test = f"({test} and {self.name(has_layout_of)}({self.name(symbol)}, {place}.array))"
            tests[k] = test
        return facts, tests

    def _check_state(self, tests: list[str], when: str = "") -> None:
        # a gradient must exist before its memory is looked at: guards come first
        if tests:
            if when:
                self._emit_line(when)
            depth = 2 if when else 1
            self._emit_line("try:", depth)
            for test in tests:
                self._emit_line(f"if not {test}: return GUARD_FAILED", depth + 1)
            self._emit_line("except LOOKUP_ERRORS: return GUARD_FAILED", depth)

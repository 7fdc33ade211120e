"""The function that each call of a program runs: flat Python, written for it."""

from __future__ import annotations

from adjoint.compiler.ir.graph import Argument, ScalarInput, Setting, Value
from adjoint.compiler.ir.interpreter import call_with_note, operand_array
from adjoint.compiler.ir.strided_view import is_expanded_input
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.program.buffer_binding import GradientSlot
from adjoint.compiler.program.result_codegen import ResultCodegen
from adjoint.compiler.runtime.new_tensors import (
    owns_memory,
    take_own_memory,
)
from adjoint.compiler.runtime.result_buffers import MIN_REUSED_BYTES
from adjoint.compiler.trace.guards import repeated_argument_code
from adjoint.compiler.trace.step_outputs import Parent
from adjoint.compiler.trace.symbolic_number import guard_code
from adjoint.core.graph.node import Leaf as AccumulateGrad
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor


class EntryCodegen(ResultCodegen):
    """Writes the lines of `run`; the objects that they speak of have their names in `names`."""

    def write(self, parents: list[Parent]) -> str:
        """The function as text. `parents`: the tensors whose gradients the backward half gives."""
        taken = "".join(f"x{i}, " for i in range(self.outcome.arguments))
        self._lines.append(f"def run({taken}first_call=False):")
        self._check_modes()
        if not self.step.is_one_call:  # a call is alone from the first check to the last effect
            self._emit_line("with lock:")
            self._emit_line("if turn.is_running: return GUARD_FAILED", 2)
            self._emit_line("turn.is_running = True", 2)
            self._emit_line("try:", 2)
            self._depth = 2
        self._check()
        self._numbers()
        self._inputs()
        self._states()
        self._outputs()
        self._steps()
        self._finish()
        self._results(parents)
        if not self.step.is_one_call:
            self._depth = 0
            self._emit_line("finally: turn.is_running = False", 2)
        return "\n".join(self._lines) + "\n"

    def _check_modes(self) -> None:
        """Compare the modes of this thread with those of the trace."""
        # while no thread has left the default modes, this one records, traces nothing and casts nothing
        default = mode.recording and not mode.inference and mode.autocast is None
        usual, join = ("nondefault.count", "and") if default else ("not nondefault.count", "or")
        modes = {"recording": mode.recording, "inference": mode.inference, "autocast": "autocast"}
        other = " or ".join(f"m[{name!r}] is not {value}" for name, value in modes.items())
        odd = f"(m := mode.__dict__)['is_intercepted'] or {other}"
        self._emit_line(f"if {usual} {join} ({odd}): return GUARD_FAILED")

    def _check(self) -> None:
        """Compare the call with what was traced: by native code, and where that finds a difference, in full."""
        if same := repeated_argument_code(self.outcome.tensor_arguments()):
            self._emit_line(f"if {same}: return GUARD_FAILED")
        guard_checks = self.step.guard_checks
        facts, tests = self._tests()
        if not guard_checks.possible:
            self._check_arguments()
            self._check_state([*facts.values(), *tests.values()])
        else:
            taken = "".join(f"x{i}, " for i in range(self.outcome.arguments))
            self._emit_line(f"if first_call or not unchanged({taken}):")
            self._depth += 1
            self._emit_line("checks = None if first_call else take_checks()")
            self._check_arguments()
            self._check_state([*facts.values(), *tests.values()])
            self._emit_line(f"if checks is not None: install_checks(checks, ({taken}))")
            self._depth -= 1
            self._emit_line("else:")
            self._depth += 1
            arguments = [v.source.number for v in self.graph.inputs_of_kind(Argument)]
            self._emit_line("; ".join(f"a{i} = x{i}.array" for i in arguments) or "pass")
            unseen = [test for k, test in facts.items() if k not in guard_checks.facts]
            self._check_state(unseen + [test for k, test in tests.items() if k not in guard_checks.state])
            self._depth -= 1
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
            dtype, shape = self.name(v.dtype, "dtype"), self.name(v.shape, "shape")
            differs = f"a{i}.dtype is not {dtype} and a{i}.dtype != {dtype} or a{i}.shape != {shape}"
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

    def _check_memory(self) -> None:
        arguments = self.graph.inputs_of_kind(Argument)
        if self.outcome.writes:
            every = "".join(f"({v.source.number}, x{v.source.number}), " for v in arguments)
            written = self.name(self.outcome.writes)
            into = self.outcome.written_inputs()
            for v in arguments:  # memory of its own needs no further look
                i = v.source.number
                if v in into:
                    self._emit_line(f"if not x{i}.array.flags.writeable: return GUARD_FAILED")
                self._emit_line(
                    f"if x{i}.storage_ is not None and is_memory_shared({i}, x{i}, ({every}), {written}): "
                    "return GUARD_FAILED"
                )

        for tensor in self.outcome.renewed:
            t = self.name(tensor, "t")
            self._emit_line(
                f"if not {self.name(owns_memory)}({t}): {self.name(take_own_memory)}({t}); return GUARD_FAILED"
            )

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
                place, test = "t", f"(t := {symbol.source.expression(self.name)}).node is {bare}"
            if k in located:
                self.names[f"A{k}"] = located[k]().array
                test = f"({test} and {place}.array is A{k})"
            tests[k] = test
        return facts, tests

    def _check_state(self, tests: list[str]) -> None:
        # a gradient must exist before its memory is looked at: guards come first
        if tests:
            self._emit_line("if not first_call:")
            self._emit_line("try:", 2)
            for test in tests:
                self._emit_line(f"if not {test}: return GUARD_FAILED", 3)
            self._emit_line("except LOOKUP_ERRORS: return GUARD_FAILED", 2)

    def _numbers(self) -> None:
        """The step's arithmetic on Python numbers, and what it relies on."""
        arithmetic = self.outcome.arithmetic
        wanted = [v.source.name for v in self.graph.inputs_of_kind(ScalarInput)]
        wanted += [leaf.of for leaf in self.outcome.all_output_refs() if leaf.kind == "number"]
        needed = arithmetic.required_lines(wanted)
        lines = [line for line in needed if line.name not in arithmetic.late_names]
        self._late_exprs = [line for line in needed if line.name in arithmetic.late_names]
        if not lines and not arithmetic.sources:
            return
        self._emit_line("try:")
        for source in arithmetic.sources:
            self._emit_line(f"{source.name} = {source.code(self.name)}", 2)
            self._emit_line(f"if type({source.name}) is not {source.kind.__name__}: return GUARD_FAILED", 2)
        for line in lines:
            if line.name:
                self._emit_line(f"{line.name} = {line.code}", 2)
            else:
                self._emit_line(f"if not ({guard_code(line)}): return GUARD_FAILED", 2)
        self._emit_line("except (*LOOKUP_ERRORS, ArithmeticError): return GUARD_FAILED")

    def _inputs(self) -> None:
        """Numbers are put into memory, and state is copied that kernels cannot take as it lies."""
        for i, v in enumerate(self.binding.numbers):
            if isinstance(v.source, Setting):
                path = "".join(f"[{key!r}]" for key in v.source.path)
                self._emit_line(f"settings[{i}] = {self.name(v.source.holder, 'holder')}{path}")
            else:
                self._emit_line(f"{'integers' if v.dtype.kind == 'i' else 'settings'}[{i}] = {v.source.name}")
        for v in self.binding.copies_in:
            into, place = self.binding.array_of(v, self.names), self.name(v.source.locate, "locate")
            self._emit_line(f"copyto({into}, {place}().array)")

    def _outputs(self) -> None:
        """Fresh memory for results; that of gradients is used again unless somebody still holds it."""
        for name, v in self.binding.fresh.items():
            new = f"({self.name(v.shape, 'shape')}, {self.name(v.dtype, 'dtype')})"
            if v.nbytes >= MIN_REUSED_BYTES:
                new = f"({self.name(list[object](), 'kept')}, {new[1:]}"
            self._emit_line(f"{name} = {'take_reusable_result' if v.nbytes >= MIN_REUSED_BYTES else 'empty'}{new}")
        if self.binding.gradients:
            self._emit_line("untouched = gradients_untouched()")
            self._emit_line("if not untouched:")
        places = [place for place, v in self.outcome.gradients if v is not None]
        for k, (slot, place) in enumerate(zip(self.binding.gradients, places, strict=True)):
            self.names[f"G{k}"] = slot.tensor
            leaf = f"x{place}" if isinstance(place, int) else self.name(place, "t")
            own = f"{GradientSlot.OWN_REFCOUNT} - ({leaf}._grad is not G{k})"  # that of the leaf may be gone
            test = f"getrefcount(G{k}) > {own} or getrefcount(G{k}.array) > held{k}"
            self._emit_line(f"if {test}: renew_gradient({k})", 2)
            self._emit_line(f"G{k}.storage_ = None", 2)  # a new gradient was never written

    def _steps(self) -> None:
        """Runs of kernels and checks as one native call each, NumPy's share between them."""
        pending: list[Group] = []
        for group in (*self.fusion.order, None):
            if group is not None and self.binding.is_native(group):
                pending.append(group)
                continue
            if pending:
                self._segment(pending)
                pending = []
            if group is not None:
                self._call(group.equations[0])

    def _segment(self, groups: list[Group]) -> None:
        """One native call; if a check ends it, the check's op is evaluated, which raises the user's error."""
        segment, arrays = self.binding.segment(groups)
        self._segments.append(segment)
        checks = [group.equations[0] for group in groups if group.call]
        said = f"{self.name(segment.call, 'segment')}({', '.join(arrays)})"
        drawn = {id(k.generator): k.generator for g in groups if (k := self.binding.kernels.get(g)) and k.generator}
        if drawn:  # always in one order, so that no two programs wait for each other
            self._emit_line(f"with {', '.join(self.name(drawn[i].lock, 'stream') for i in sorted(drawn))}:")
        self._emit_line(f"failed = {said}" if checks else said, 2 if drawn else 1)
        for i, value in enumerate(checks):
            self._emit_line(f"if failed == {i}:")
            self._call(value, 2)
            self._emit_line("raise AssertionError('a check failed, and its op did not')", 2)

    def _call(self, value: Value, depth: int = 1) -> None:
        operands = [
            self.binding.array_of(x, self.names)
            if isinstance(x, Value)
            else self.name(operand_array(value, i, x, {}), "k")
            for i, x in enumerate(value.inputs)
        ]
        if value.op.family == "contraction":
            self._emit_line(f"matmul({', '.join(operands)}, out={self.binding.array_of(value, self.names)})", depth)
            return
        said = f"{self.name(call_with_note(value), value.op.name)}({', '.join(operands)})"
        if value.op.family != "check" or value in self.graph.outputs:
            said = f"copyto({self.binding.array_of(value, self.names)}, {said})"
        self._emit_line(said, depth)

    def _finish(self) -> None:
        """State that could not be written in place, and .grad."""
        gradients = self.binding.gradients
        for into, value in self.binding.copies_out:
            source = self.binding.array_of(value, self.names)
            if isinstance(into, GradientSlot):
                self._emit_line(f"copyto(G{gradients.index(into)}.array, {source})")
            elif isinstance(into.source, Argument):
                self._emit_line(f"copyto(a{into.source.number}, {source})")
            else:
                self._emit_line(f"copyto({self.name(into.source.locate, 'locate')}().array, {source})")
        for symbol, _ in self.outcome.writes:
            if isinstance(symbol.source, Argument):
                i = symbol.source.number
                self._emit_line(f"if a{i} is not x{i}.array: copyto(x{i}.array, a{i})")
                count = self.outcome.write_counts.get(symbol, 1)
                self._emit_line(f"mark_written(x{i}, PROGRAM_SITE{'' if count == 1 else f', None, {count}'})")
        self.names["written"], self.names["storages"] = self.step.written
        if self.names["written"]:
            self._emit_line("order = next_sequence_nr()")
            self._emit_line("if order > writes.last: writes.last = order")
            self._emit_line("mark(order)")
        slots = iter(range(len(gradients)))
        if gradients:
            self._emit_line("if not untouched:")
        for place, v in self.outcome.gradients:
            tensor = f"x{place}" if isinstance(place, int) else self.name(place, "t")
            self._emit_line(f"{tensor}._grad = {'None' if v is None else f'G{next(slots)}'}", 2 if gradients else 1)
            if any(place is x for x in self.outcome.lost):
                self._emit_line(f"{tensor}._grad.node = lost({tensor}._grad)", 2)
        if gradients:
            self._emit_line("watch_gradients()", 2)

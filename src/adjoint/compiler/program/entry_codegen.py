"""The function that each call of a program runs: flat Python, written for it."""

from __future__ import annotations

from adjoint.compiler.ir.graph import Argument, ScalarInput, Setting, Value
from adjoint.compiler.ir.interpreter import call_with_note, operand_array
from adjoint.compiler.ir.symbolic_size import has_symbols
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.program.check_codegen import BoundStep
from adjoint.compiler.program.placed_gradients import GradientSlot
from adjoint.compiler.program.result_codegen import ResultCodegen
from adjoint.compiler.runtime.result_buffers import MIN_REUSED_BYTES
from adjoint.compiler.trace.guards import guard_code
from adjoint.compiler.trace.step_outputs import Parent
from adjoint.core.random.generator_state import put_back, take_places
from adjoint.core.runtime.exchange_log import ExchangeTimes
from adjoint.ops.linalg.blas_products import multiply_matrices


class EntryCodegen(ResultCodegen):
    """Writes the lines of `run`."""

    def __init__(self, step: BoundStep, names: dict[str, object]) -> None:
        super().__init__(step, names)
        self.numpy_calls: dict[str, Value] = {}  # the names of the functions that call NumPy, and what these compute
        self.matmul_calls: dict[str, Value] = {}  # the same of products that NumPy makes
        self.native_calls: dict[str, list[Group]] = {}  # the names of the native segments, and what these run

    def write(self, parents: list[Parent]) -> str:
        """The function as text. `parents`: the tensors whose gradients the backward half gives."""
        self._lines.append(f"def run({self._arguments()}first_call=False):")
        self.check_modes()
        if not self.step.is_one_call:  # a call is alone from the first check to the last effect
            self._emit_line("try:")  # as `with` does, which takes twice as long
            self._emit_line("acquire()", 2)
            self._emit_line("if turn.is_running: return GUARD_FAILED", 2)
            self._emit_line("turn.is_running = True", 2)
            self._emit_line("try:", 2)
            self._depth = 2
        self.check()
        self.names["segments"] = self._segments  # kept alive by the function itself: another may replace it
        self._numbers()
        self._resize()
        self._inputs()
        self._states()
        self._outputs()
        self._guarded_steps()
        self._finish()
        self._results(parents)
        if not self.step.is_one_call:
            self._depth = 0
            self._emit_line("finally: turn.is_running = False", 2)
            self._emit_line("except BaseException: complete_acquire(); raise")
            self._emit_line("finally: release()")
        return "\n".join(self._lines) + "\n"

    def _numbers(self) -> None:
        """The step's arithmetic on Python numbers, and what it relies on."""
        arithmetic = self.outcome.arithmetic
        wanted = [v.source.name for v in self.graph.inputs_of_kind(ScalarInput)]
        wanted += [leaf.of for leaf in self.outcome.all_output_refs() if leaf.kind == "number"]
        needed = arithmetic.required_lines([*wanted, *self.graph.symbols])
        lines = [line for line in needed if line.name not in arithmetic.late_names]
        self._known_names = {source.name for source in arithmetic.sources} | {line.name for line in lines}
        self._late_exprs = [line for line in needed if line.name in arithmetic.late_names]
        if not lines and not arithmetic.sources:
            return
        self._emit_line("try:")
        for source in arithmetic.sources:
            self._emit_line(f"{source.name} = {source.code(self.name)}", 2)
            kind = source.kind.__name__ if source.kind.__module__ == "builtins" else self.name(source.kind)
            self._emit_line(f"if type({source.name}) is not {kind}: return GUARD_FAILED", 2)
        for line in lines:
            if line.name:
                self._emit_line(f"{line.name} = {line.code}", 2)
            else:
                self._emit_line(f"if not ({guard_code(line)}): return GUARD_FAILED", 2)
        self._emit_line("except (*LOOKUP_ERRORS, ArithmeticError): return GUARD_FAILED")

    def _resize(self) -> None:
        """Leave sizes to their own programs; bring memory and tables up to date where a size is another than before."""
        # a symbol that is another program's is of no use here
        if symbols := [name if name in self._known_names else "2" for name in self.graph.symbols]:
            if self.graph.sizes is not None and (placed := self.graph.sizes.places):
                self._emit_line(f"if ({', '.join(placed)},) in own_sizes: return GUARD_FAILED")
            known = [name for name in symbols if name in self._known_names]
            differs = " or ".join(f"{name} != last_{name}" for name in known) or "last_sizes is None"
            self._emit_line(f"if {differs}: resize(({', '.join(symbols)},), globals())")
            self._emit_line("else: sizes.values = last_sizes")  # a backward half shares them with its step

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
            shape = f"{v.shape!r}" if has_symbols(v.shape) else self.name(v.shape, "shape")
            new = f"({shape}, {self.name(v.dtype, 'dtype')})"
            if v.nbytes >= MIN_REUSED_BYTES:
                new = f"({self.name(list[object](), 'kept')}, {new[1:]}"
            self._emit_line(f"{name} = {'take_reusable_result' if v.nbytes >= MIN_REUSED_BYTES else 'empty'}{new}")
        if self.outcome.gradients:
            self._emit_line(f"placed = gradients.are_free({self._arguments()})")
        if self.binding.gradients:
            self._emit_line(f"if placed is False: gradients.renew(({self._arguments()}), globals())")
        for k, slot in enumerate(self.binding.gradients):
            self.names[f"g{k}"] = slot

    def _guarded_steps(self) -> None:
        """The steps; where one fails, which is before anything is written, the call is to run eagerly.

        So it leaves what eager code leaves that raises. What generators gave until then they give again.
        """
        exchanges = any(v.op.family == "collective" for v in self.graph.equations)  # the other ranks make them once
        if not self.outcome.reruns_eagerly or exchanges or self.binding.last_step_that_may_raise() < 0:
            self._steps()
            return
        drawn = {id(g): g for v in self.graph.equations if (g := v.params.get("generator")) is not None}
        if drawn:
            self._emit_line(f"places = {self.name(take_places)}({self.name([*drawn.values()])})")
        self._emit_line("try:")
        self._depth += 1
        self._emit_line("pass")
        self._steps()
        self._depth -= 1
        self._emit_line("except Exception:")
        if drawn:
            self._emit_line(f"{self.name(put_back)}(places)", 2)
        self._emit_line("return COMPUTATION_FAILED", 2)

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
        name = self.name(segment.call, "segment")
        self.native_calls[name] = groups
        said = f"{name}({', '.join(arrays)})"
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
            product = f"matmul{len(self.names)}"  # a name of its own, under which it can be timed
            self.names[product], self.matmul_calls[product] = multiply_matrices, value
            self._emit_line(f"{product}({', '.join(operands)}, out={self.binding.array_of(value, self.names)})", depth)
            return
        times = None
        if value.op.family == "collective":
            times = self.binding.exchange_times.setdefault(value, ExchangeTimes())
        called = self.name(call_with_note(value, times), value.op.name)
        if depth == 1:  # not where a check has failed
            self.numpy_calls[called] = value
        said = f"{called}({', '.join(operands)})"
        copied = value.op.family != "check" or value in self.graph.outputs
        if copied and value not in self.binding.exchanged_in_place:
            said = f"copyto({self.binding.array_of(value, self.names)}, {said})"
        self._emit_line(said, depth)

    def _finish(self) -> None:
        """Set the flags of tensors, write state that could not be written in place, and place .grad."""
        for place, requires_grad in self.outcome.leaf_changes:
            tensor = f"x{place}" if isinstance(place, int) else self.name(place, "t")
            self._emit_line(f"{tensor}.requires_grad_({requires_grad})")
        gradients = self.binding.gradients
        for into, value in self.binding.copies_out:
            source = self.binding.array_of(value, self.names)
            if isinstance(into, GradientSlot):
                self._emit_line(f"copyto(g{gradients.index(into)}.tensor.array, {source})")
            elif isinstance(into.source, Argument):
                self._emit_line(f"copyto(a{into.source.number}, {source})")
            elif into in self.binding.local_names:
                self._emit_line(f"copyto({self.binding.local_names[into]}, {source})")
            else:
                self._emit_line(f"copyto({self.name(into.source.locate, 'locate')}().array, {source})")
        for symbol, _ in self.outcome.writes:
            count = self.outcome.write_counts.get(symbol, 1)
            again = "" if count == 1 else f", None, {count}"
            if isinstance(symbol.source, Argument):
                i = symbol.source.number
                self._emit_line(f"if a{i} is not x{i}.array: copyto(x{i}.array, a{i})")
                self._emit_line(f"mark_written(x{i}, PROGRAM_SITE{again})")
            elif symbol in self.binding.copies_in or symbol in self.binding.local_names:
                found = [f"h{k}" for k in self.step.relocated if self.outcome.state[k][2] is symbol]
                tensor = found[0] if found else f"{self.name(symbol.source.locate, 'locate')}()"
                self._emit_line(f"mark_written({tensor}, PROGRAM_SITE{again})")
        self.names["written"], self.names["storages"] = self.step.written
        if self.names["written"]:
            self._emit_line("order = next_sequence_nr()")
            self._emit_line("if order > writes.last: writes.last = order")
            self._emit_line("mark(order)")
        self._place_gradients()

    def _place_gradients(self) -> None:
        """Put gradients into `.grad` where they do not lie there still."""
        slots = iter(range(len(self.binding.gradients)))
        lost = []
        if any(not isinstance(place, int) for place, _ in self.outcome.gradients):
            self._emit_line("if placed is not None: gradients.place()")
        for place, v in self.outcome.gradients:
            gradient = "None" if v is None else f"g{next(slots)}.tensor"
            if isinstance(place, int):
                self._emit_line(f"x{place}._grad = {gradient}")
            if v is not None and any(place is x for x in self.outcome.lost):
                lost.append((gradient, v, isinstance(place, int)))
        for gradient, v, is_of_argument in lost:
            test = "" if is_of_argument else "if placed is not None: "  # `placed` tells nothing of arguments
            self._consume_history(test + gradient, v)

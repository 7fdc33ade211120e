"""Cuts: a traced step that asks for values becomes programs in turn, each up to what the next question takes.

What comes before the last decision computes and writes nothing: all writes are those of one program, the last that
computes, which runs when it is known that the call goes this way. Calls outside of the graph that cannot fail, and
whose results no kernel reads, take place after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.build import FinishedTrace, build
from adjoint.compiler.cuts.staged_entry import PathStage, StagedEntry, WriteFlag
from adjoint.compiler.ir.graph import Argument, Graph, ScalarInput, Value
from adjoint.compiler.passes.index_checks import is_refusable
from adjoint.compiler.passes.materialize import may_raise
from adjoint.compiler.trace.events.step_events import StepEvent, StepEvents
from adjoint.compiler.trace.numbers.symbolic_number import NumberArithmetic, NumberSource
from adjoint.compiler.trace.step_outputs import Effect, OutputRef, ResultFacts, StepEffects
from adjoint.core.op.spec import Spec
from adjoint.core.runtime import pytree
from adjoint.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.compiler.trace.guards import Guard
    from adjoint.compiler.trace.sizes.argument_sizes import ArgumentSizes


PLAIN_RESULT = ResultFacts(Tensor, None, 0, False, None)


class AskingTrace(NamedTuple):
    """A finished trace with its events.

    `is_guard_of(guard, event)` tells whether the step had relied on a fact when it came to an event. `sizes`: its
    symbols.
    """

    traced: FinishedTrace
    events: StepEvents
    is_guard_of: Callable[[Guard, StepEvent], bool]
    sizes: ArgumentSizes


class StageBuilder:
    """Cuts one trace into the programs of its path."""

    def __init__(self, asking: AskingTrace) -> None:
        self.traced, self.is_guard_of, self.sizes = asking.traced, asking.is_guard_of, asking.sizes
        self.events = asking.events.events
        self.graph, self.outcome = self.traced.graph, self.traced.outcome
        self.arithmetic = self.outcome.arithmetic
        self.first_result = asking.events.first_slot  # behind the arguments of the step
        self.slots = asking.events.slots  # with the results of calls
        self.written = WriteFlag()
        self.slot_of: dict[Value, int] = {}  # values that an earlier program keeps: their numbers as arguments
        self.checked: set[int] = set()  # guards of earlier programs, by their ids
        self.drawn: set[Value] = set()  # what has an effect, and took place in an earlier program
        self.position = {v: i for i, v in enumerate(self.graph.equations)}
        past = self.traced.joint_gradient
        kept = self.traced.history.values if self.traced.history is not None else ()
        self.outputs = [*self.graph.outputs, *(past.gradients if past is not None else ()), *kept]
        self.keeps_all = past is None  # else values are made again, so that gradients of gradients see where they begin
        self.wanted = [list(self._values_of(event)) for event in self.events]
        self.always = [v for v in self.graph.equations if v.op.effect or may_raise(v)]
        self.computed: set[Value] = set()  # in earlier programs
        self.live = self._closure_from(0)
        self.first_late = self._find_commit()

    def build(self) -> StagedEntry:
        """The path as an entry of a compiled function."""
        drafts: list[tuple[FinishedTrace, tuple[int, ...], StepEvent | None]] = []
        for i, event in enumerate(self.events[: self.first_late]):
            drafts.append(self._draft_question(i, event))
        generators = [
            generator
            for traced, *_ in drafts
            for v in traced.graph.equations
            if (generator := v.params.get("generator")) is not None
        ]
        commit = len(drafts)
        drafts += self._draft_rest()
        total = self.slots
        stages = []
        for traced, slots, asked in drafts:
            traced.outcome.arguments = total
            self.sizes.guard_in(traced.outcome.arithmetic)
            stages.append(PathStage(build(traced, sizes=self.sizes).program, slots, asked))
        structure, drawn_from = self.outcome.structure, list({id(g): g for g in generators}.values())
        arguments = self.first_result
        return StagedEntry(stages, commit, arguments, total, structure, self.events, drawn_from, self.written)

    def _values_of(self, event: StepEvent) -> Iterator[Value]:
        """The values of the graph that an event takes."""
        for leaf in event.leaves:
            if leaf.kind == "value":
                yield leaf.of
            elif leaf.kind == "number":
                yield from (value for _, value in self._pending_of(leaf.of))

    def _pending_of(self, name: str) -> Iterator[tuple[str, Value]]:
        """The numbers that are read from tensors, behind a number."""
        lines = self.arithmetic.required_lines([name])
        needed = {name, *(need for line in lines for need in line.needs)}
        yield from ((n, t.array) for n, t in self.arithmetic.pending.items() if n in needed)

    def _closure(self, values: Iterable[Value]) -> set[Value]:
        """The equations that lead to these values, beyond those whose values are kept."""
        found: set[Value] = set()
        stack = list(values)
        while stack:
            v = stack.pop()
            if v.op is not None and v not in found and v not in self.slot_of and v not in self.drawn:
                found.add(v)
                stack.extend(v.operands)
        return found

    def _closure_from(self, i: int) -> set[Value]:
        """The equations that lead to what events from the i-th on take, and to all that the step leaves."""
        always = (v for v in self.always if v not in self.computed)
        return self._closure([*self.outputs, *always, *(v for values in self.wanted[i:] for v in values)])

    def _find_commit(self) -> int:
        """Return the number of events before the writes."""
        read = {v.source.number for v in self.graph.inputs_of_kind(Argument)}
        numbers = [v.source.name for v in self.graph.inputs_of_kind(ScalarInput)]
        numbers += self.graph.symbols
        needs = {*numbers, *(need for line in self.arithmetic.required_lines(numbers) for need in line.needs)}
        outcome = self.outcome
        if outcome.aliases or outcome.rebindings or outcome.result_gradients or outcome.leaf_hooks:
            return len(self.events)  # what shares memory is put together where the memory is made
        last = 0
        for i, event in enumerate(self.events):
            used = any(slot in read or f"x{slot}" in needs for slot in event.slots if slot is not None)
            later = event.is_ordered and any(self.position[v] >= event.mark.equations for v in self.live)
            if event.kind == "decision" or not event.is_trusted or event.is_sized or used or later:
                last = i + 1
        return last

    def _draft_question(self, i: int, event: StepEvent) -> tuple[FinishedTrace, tuple[int, ...], StepEvent]:
        """The program that computes what one event takes, and keeps what comes later needs of it."""
        asked = self.wanted[i]
        inside = self._closure(asked)
        before = (v for v in self._closure_from(i) if self.position[v] < event.mark.equations)
        if event.kind == "call":  # what raises before it, raises before it
            inside |= self._closure(v for v in before if event.is_ordered or is_refusable(v))
        drawn = [self.position[v] for v in inside if v.op.effect]
        if drawn:  # draws come in their order
            inside |= self._closure(v for v in self.graph.equations[: max(drawn)] if v.op.effect)
        kept = self._choose_kept(inside, i)
        graph, local = self._cut(inside)
        outcome = StepEffects(0)
        if graph.equations or i == 0:  # else it looks at no memory
            outcome.memory = self.outcome.memory
        outcome.arithmetic = self.arithmetic.until(event.mark.sources, event.lines)
        results = list(dict.fromkeys([*kept, *asked]))
        outcome.results = [local(v) for v in results]
        outcome.history = [None] * len(results)
        outcome.result_facts = [PLAIN_RESULT] * len(results)
        outcome.leaves = [OutputRef("result", n) for n in range(len(kept))]
        self._add_event_leaves(outcome, event, results)
        used = {x for v in graph.equations for x in v.operands} | set(outcome.results)
        # the first program compares all arguments of the step: no event takes place for others
        given = self.first_result if i == 0 else 0
        graph.inputs = [
            v for v in graph.inputs if v in used or (isinstance(v.source, Argument) and v.source.number < given)
        ]
        graph.outputs = outcome.outputs()
        read = {*graph.inputs, *(outcome.memory.inputs if outcome.memory.written else ())}
        outcome.state = [entry for entry in self.outcome.state if entry[2] in read]
        outcome.guards = [g for g in self.outcome.guards if id(g) not in self.checked and self.is_guard_of(g, event)]
        self.checked.update(map(id, outcome.guards))  # which hold until the call ends
        slots = tuple(range(self.slots, self.slots + len(kept)))
        self.slot_of.update(zip(kept, slots, strict=True))
        self.drawn.update(v for v in inside if v.op.effect)
        self.computed |= inside
        self.slots += len(kept)
        return FinishedTrace(graph, outcome, None, [], []), slots, event

    def _add_event_leaves(self, outcome: StepEffects, event: StepEvent, results: list[Value]) -> None:
        for leaf in event.leaves:
            if leaf.kind == "value":
                outcome.leaves.append(OutputRef("result", results.index(leaf.of)))
                continue
            outcome.leaves.append(leaf)
            if leaf.kind == "number":
                outcome.pending.update((name, results.index(value)) for name, value in self._pending_of(leaf.of))

    def _choose_kept(self, inside: set[Value], i: int) -> list[Value]:
        """Choose the values of a program that what comes after it reads."""
        if not self.keeps_all:
            return sorted((v for v in inside if v.op.effect and v.op.family != "check"), key=self.position.__getitem__)
        later = {x for v in self.live if v not in inside and v not in self.slot_of for x in v.operands}
        later.update(self.outputs, *self.wanted[i + 1 :])
        return sorted(inside & later, key=self.position.__getitem__)

    def _cut(self, inside: set[Value]) -> tuple[Graph, Callable[[Value], Value]]:
        """The graph of these equations, and what becomes of a value in it."""
        out = Graph(self.graph.name, self.graph.sizes)
        out.inputs = list(self.graph.inputs)
        renamed: dict[Value, Value] = {}

        def local(v: Value) -> Value:
            if v.op is None:
                return v
            if v not in renamed:
                slot = self.slot_of[v]
                renamed[v] = out.input(Spec(v.shape, v.dtype), Argument(slot, f"value {slot}"))
            return renamed[v]

        for v in self.graph.equations:
            if v in inside:
                renamed[v] = out.add_like(v, local)
        return out, local

    def _draft_rest(self) -> list[tuple[FinishedTrace, tuple[int, ...], StepEvent | None]]:
        """The program that computes all else and writes, and those after it."""
        traced, late = self.traced, self.events[self.first_late :]
        inside = self._closure_from(self.first_late)
        graph, local = self._cut(inside)
        outcome = self._copy_outcome(local)
        if self.first_late and not any(event.function for event in self.events[: self.first_late]):
            # the first program has compared the memory of arguments, and no call of Python's came between
            memory = outcome.memory
            inputs = [v for v in memory.inputs if v in memory.written or not isinstance(v.source, Argument)]
            outcome.memory = memory._replace(inputs=tuple(inputs))
        past = traced.joint_gradient
        if past is not None:
            past = past._replace(gradients=[local(v) for v in past.gradients])
        history = traced.history and traced.history.with_values([local(v) for v in traced.history.values])
        extra = list(dict.fromkeys(v for values in self.wanted[self.first_late :] for v in values))
        used = {x for v in graph.equations for x in v.operands} | set(outcome.outputs()) | set(map(local, extra))
        called = {slot for event in self.events for slot in event.slots if slot is not None}
        graph.inputs = [
            v for v in graph.inputs if v in used or not isinstance(v.source, Argument) or v.source.number not in called
        ]
        specs = [local(v) for v in traced.specs]
        if not late:
            outcome.effects.insert(0, Effect(self.written.set, pytree.LEAF, [OutputRef("object", None)], "a mark"))
            graph.outputs = outcome.outputs()
            return [(FinishedTrace(graph, outcome, past, specs, traced.parents, history), (), None)]
        results = len(outcome.results)
        outcome.results += [local(v) for v in extra]
        outcome.history += [None] * len(extra)
        outcome.result_facts += [PLAIN_RESULT] * len(extra)
        slots = tuple(range(self.slots, self.slots + len(outcome.results)))
        self.slots += len(slots)
        places = {v: slots[results + n] for n, v in enumerate(extra)}
        events = [(self._draft_late_event(event, places), (), event) for event in late]
        end = self._draft_end(outcome, slots)
        outcome.effects, outcome.pending = [], {}
        outcome.leaves = [OutputRef("result", n) for n in range(len(outcome.results))]
        part = outcome.arithmetic = self.arithmetic.until(len(self.arithmetic.sources), len(self.arithmetic.lines))
        absent = {f"x{slot}" for event in late for slot in event.slots if slot is not None}
        part.sources = [source for source in part.sources if source.name not in absent]
        kept = []
        for line in part.lines:
            if absent.isdisjoint(line.needs):
                kept.append(line)
            elif line.name:
                absent.add(line.name)
        part.lines = kept
        graph.outputs = outcome.outputs()
        return [
            (FinishedTrace(graph, outcome, past, specs, traced.parents, history), slots, None),
            *events,
            (end, (), None),
        ]

    def _copy_outcome(self, local: Callable[[Value], Value]) -> StepEffects:
        """The outcome of the step in the values of another graph."""
        out = StepEffects(0)
        for name in StepEffects.__slots__:
            setattr(out, name, getattr(self.outcome, name))
        out.results = [local(v) for v in self.outcome.results]
        out.history, out.result_facts = list(self.outcome.history), list(self.outcome.result_facts)
        out.writes = [(symbol, local(v)) for symbol, v in self.outcome.writes]
        out.gradients = [(place, v and local(v)) for place, v in self.outcome.gradients]
        out.effects = list(self.outcome.effects)
        out.guards = [guard for guard in self.outcome.guards if id(guard) not in self.checked]
        return out

    def _draft_late_event(self, event: StepEvent, places: dict[Value, int]) -> FinishedTrace:
        """The program that hands an event its leaves, when all is computed."""
        outcome = StepEffects(0)
        pending = {
            name: places[v] for leaf in event.leaves if leaf.kind == "number" for name, v in self._pending_of(leaf.of)
        }
        outcome.arithmetic = self._late_arithmetic(event.mark.sources, event.lines, pending)
        outcome.leaves = [
            OutputRef("argument", places[leaf.of]) if leaf.kind == "value" else leaf for leaf in event.leaves
        ]
        return FinishedTrace(Graph(self.graph.name), outcome, None, [], [])

    def _draft_end(self, whole: StepEffects, slots: tuple[int, ...]) -> FinishedTrace:
        """The program of what the step returns, and does to Python objects."""
        outcome = StepEffects(0)
        pending = {name: slots[number] for name, number in whole.pending.items()}
        arithmetic = self.arithmetic
        outcome.arithmetic = self._late_arithmetic(len(arithmetic.sources), len(arithmetic.lines), pending)
        outcome.leaves = [_place_leaf(leaf, slots) for leaf in whole.leaves]
        outcome.effects = [
            Effect(write, structure, [_place_leaf(leaf, slots) for leaf in leaves], what)
            for write, structure, leaves, what in whole.effects
        ]
        return FinishedTrace(Graph(self.graph.name), outcome, None, [], [])

    def _late_arithmetic(self, sources: int, lines: int, pending: dict[str, int]) -> NumberArithmetic:
        """Arithmetic on numbers that are all there when it begins: those of `pending` in arguments."""
        part = self.arithmetic.until(sources, lines)
        part.lines = [line for line in part.lines if line.name]  # what they rely on was checked before
        part.pending, part.late_names = {}, set()
        part.sources = part.sources + [
            NumberSource(name, kind_of_number(self.arithmetic.pending[name].array), item_code(slot), "item()")
            for name, slot in pending.items()
        ]
        return part


def build_staged(asking: AskingTrace) -> StagedEntry:
    """The entry of a trace that asked for values."""
    return StageBuilder(asking).build()


def kind_of_number(value: Value) -> type:
    """The type of the number in a value."""
    return {"b": bool, "f": float, "V": float}.get(value.dtype.kind, int)


def item_code(slot: int) -> Callable[[Callable[[object], str]], str]:
    """The code that reads the number in an argument."""
    return lambda name: f"x{slot}.item()"


def _place_leaf(leaf: OutputRef, slots: tuple[int, ...]) -> OutputRef:
    """A leaf of the result where the tensors that a program made are arguments of the next."""
    return OutputRef("argument", slots[leaf.of]) if leaf.kind == "result" else leaf

"""Events of a step in each call, in the program's order: decisions by a value, and calls outside of the graph.

A decision is a question that only values can answer; the trace takes the answer of the call that is traced, and what
follows is the program for that answer alone. A host call takes place once in each call of the step; its numbers are
inputs of what follows. What was answered and called stands in a log: where a step is traced again, or runs eagerly in
the end, nothing takes place twice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from adjoint.compiler.ir.graph import Argument, OverlapError, StaticSizeError, TraceError
from adjoint.compiler.ir.size_terms import MIN_SYMBOL
from adjoint.compiler.ir.symbolic_size import SymbolicSize, as_number
from adjoint.compiler.passes.index_checks import is_refusable
from adjoint.compiler.program.tree_codegen import write_rebuilder
from adjoint.compiler.trace.events.host_arrays import HostArray, as_argument, has_few_integers, is_array_result
from adjoint.compiler.trace.events.host_calls import holds_symbols, return_number
from adjoint.compiler.trace.events.shown_history import ShownHistory, history_to_show, show_with_history
from adjoint.compiler.trace.events.traced_values import TracedValues
from adjoint.compiler.trace.frames.constants import is_same_constant
from adjoint.compiler.trace.guards import describe_object
from adjoint.compiler.trace.numbers.number_text import is_late_text
from adjoint.compiler.trace.numbers.symbolic_number import NumberArithmetic, is_number, is_symbolic_number
from adjoint.compiler.trace.step_outputs import OutputRef
from adjoint.core.graph.source_location import Site, user_site
from adjoint.core.op.spec import Spec
from adjoint.core.runtime import pytree
from adjoint.core.runtime.mode import has_interpreter, tracing_paused
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Function, Operand, Operands

if TYPE_CHECKING:
    from adjoint.compiler.trace.tracer import Tracer


MAX_EVENTS = 64  # of one call: each is a program of its own


class ManyEventsError(TraceError):
    """A step asks so often that programs between its questions would gain nothing."""

    runs_eagerly = True


class Outcome(NamedTuple):
    """The outcome of an event in a call: the answer to a decision, or what a host call returned or raised.

    `is_replayed`: an eager run of the step would make the call, and takes this instead.
    """

    kind: str
    value: Operand
    is_replayed: bool = False

    def result(self) -> Operand:
        """Return what the event brought, or raise it."""
        if self.kind == "raised":
            raise self.value
        return self.value


class Mark(NamedTuple):
    """The progress of a trace: equations, reads of Python objects, probes, and lines of arithmetic."""

    equations: int
    reads: int
    probes: int
    sources: int
    lines: int


class StepEvent:
    """One question or host call of a step: `leaves` are what it takes of the program, `answer` what it brought.

    `slots`: where the leaves of the result go among the program's arguments, None for those that are as they were in
    the trace. `is_trusted`: it raises nothing. `is_ordered`: it takes place when all before it was computed.
    `is_sized`: the first size of each tensor that it brings is a symbol, unless it is 0 or 1.
    """

    def __init__(self, kind: str, leaves: list[OutputRef], structure: pytree.Structure, mark: Mark) -> None:
        self.kind, self.leaves, self.structure, self.mark = kind, leaves, structure, mark
        self.what = ""
        self.site: Site = user_site()
        self.answer: Operand = None
        self.function: Function | None = None
        self.slots: list[int | None] = []
        self.result_leaves: list[Operand] = []
        self.result_structure = pytree.LEAF
        self.keeps_result = True
        self.histories: list[ShownHistory | None] = []  # of the tensors that it takes, by leaf
        self.lines = 0  # of arithmetic, with those that make what it takes
        self.is_trusted = self.is_ordered = self.is_replayed = self.is_sized = False

    def __str__(self) -> str:
        place = self.site.describe_briefly()
        if self.function is not None:
            return f"calls {self.what}(), at {place}"
        return f"{self.what} is {describe_object(self.answer)}, at {place}"

    def is_like(self, other: StepEvent) -> bool:
        """True for the same question with the same answer, and for the same call."""
        if (self.site, self.what, self.kind) != (other.site, other.what, other.kind):
            return False
        return self.kind == "call" or is_same_answer(self.answer, other.answer)

    def take_place(self, leaves: Operands) -> Outcome:
        """Make the host call with these leaves, or read the answer."""
        if self.function is None:
            (answer,) = leaves
            return Outcome("decision", answer.numpy().copy() if isinstance(answer, Tensor) else answer)
        args, kwargs = self._rebuild_arguments(list(map(show_with_history, leaves, self.histories)))
        return call_host(self.function, args, kwargs, self.is_replayed)

    @cached_property
    def _rebuild_arguments(self) -> Callable[[Sequence[Operand]], Operand]:
        """A function of the leaves of a host call's arguments: these, by position and by name."""
        return write_rebuilder(self.structure)


def call_host(function: Function, args: Operands, kwargs: dict[str, Operand], is_replayed: bool) -> Outcome:
    """The result of a call outside of the step."""
    watching = sys.gettrace()
    try:
        if watching is None and not has_interpreter():  # most often: nothing is traced
            return Outcome("returned", function(*args, **kwargs), is_replayed)
        sys.settrace(None)
        with tracing_paused():
            return Outcome("returned", function(*args, **kwargs), is_replayed)
    except StaticSizeError:  # of the trace, not of the call, which the next trace makes
        raise
    except Exception as error:  # noqa: BLE001  the user's, who may catch it
        return Outcome("raised", error, is_replayed)
    finally:
        if watching is not None:
            sys.settrace(watching)


def is_same_answer(now: Operand, then: Operand) -> bool:
    """True where an answer leads to the same continuation."""
    if isinstance(then, np.ndarray):
        return isinstance(now, np.ndarray) and now.dtype == then.dtype and bool(np.array_equal(now, then))
    return type(now) is type(then) and (now == then or (now != now and then != then))


class StepEvents:
    """The events of one trace. `log` has the outcomes of those that took place already, and takes the others."""

    def __init__(self, tracer: Tracer, log: list[Outcome]) -> None:
        self.tracer, self.log = tracer, log
        self.values = TracedValues(tracer)
        self.refusal: TraceError | None = None  # which ends the trace, even if the step has caught it
        self.events: list[StepEvent] = []
        self.first_slot = self.slots = 0  # arguments of the step; and with them results of host calls
        self._checked = 0  # equations that have not refused their values
        self.observed: Callable[[], int] = lambda: 0  # how many reads the observer has seen
        self.has_changed: Callable[[object], bool] = lambda thing: False  # whether the step has written an object
        tracer.arithmetic.ask = self.decide
        tracer.arithmetic.bring = lambda number: self.call(return_number, (number,))
        tracer.arithmetic.read_number = self._read_number

    @property
    def arithmetic(self) -> NumberArithmetic:
        """The step's arithmetic on Python numbers."""
        return self.tracer.arithmetic

    def start(self, arguments: int, specialize: bool) -> None:
        """Number the results of host calls after so many arguments; to `specialize`, have no symbols for numbers."""
        self.first_slot = self.slots = arguments
        if specialize:
            self.arithmetic.find_size = None

    def end(self) -> None:
        """Answer no more: the step has run."""
        arithmetic = self.arithmetic
        self.tracer.events = arithmetic.ask = arithmetic.bring = arithmetic.read_number = None

    def decide(self, code: str, needs: tuple[str, ...]) -> Operand:
        """Answer what an expression of late numbers is in this call; what follows holds for this answer."""
        arithmetic = self.tracer.arithmetic
        mark = self._mark()
        answer = self._take("decision", lambda: Outcome("decision", arithmetic.evaluate(code, needs))).value
        event = StepEvent("decision", [OutputRef("number", arithmetic.name_line(code, needs))], pytree.LEAF, mark)
        event.what, event.answer = arithmetic.describe_code(code), answer
        self._append(event)
        return answer

    def show_values(self, tensor: Tensor, reader: str) -> Operand:
        """Return an array that each call computes on, or answer which values a small tensor has in this call."""
        value = self.tracer.adopt(tensor)
        is_array = reader == "numpy()" or (reader == "tolist()" and not has_few_integers(value))
        return HostArray(tensor, self) if is_array and value.dtype.kind != "V" else self.decide_values(tensor, reader)

    def decide_values(self, tensor: Tensor, reader: str) -> Array:
        """Answer which values a few integers have in this call, for which what follows holds; refuse others."""
        value = self.tracer.adopt(tensor)
        if not has_few_integers(value):
            self.refuse(partial(value.refuse, reader))
        mark = self._mark()
        answer = self._take("decision", lambda: Outcome("decision", self.values.array(value).copy())).value
        event = StepEvent("decision", [OutputRef("value", value)], pytree.LEAF, mark)
        event.what, event.answer = reader, answer
        self._append(event)
        return np.array(answer)

    def call(
        self,
        function: Function,
        args: Operands,
        kwargs: dict[str, Operand] | None = None,
        is_replayed: bool = False,
        is_trusted: bool = False,
        is_ordered: bool = False,
        keeps_result: bool = True,
        is_sized: bool = False,
    ) -> Operand:
        """Call `function` outside of the step: once in each call, with the values that its arguments have then.

        `is_sized`: the values decide how many elements its results have.
        """
        mark = self._mark()
        given: list[Operand] = []
        leaves, structure = self._flatten_arguments((args, kwargs or {}), given)
        event = StepEvent("call", leaves, structure, mark)
        event.histories = list(map(history_to_show, given))
        event.function, event.what = function, getattr(function, "__qualname__", repr(function))
        event.is_trusted, event.is_ordered, event.is_replayed = is_trusted, is_ordered, is_replayed
        event.is_sized = is_sized and self.arithmetic.find_size is not None

        def compute() -> Outcome:
            self._check_values_before(mark.equations)
            return event.take_place(tuple(map(self.leaf_value, leaves)))

        event.lines = len(self.tracer.arithmetic.lines)
        outcome = self._take("returned", compute)
        self._append(event)
        if outcome.kind == "raised":
            event.answer = outcome.value
            raise outcome.value
        event.keeps_result = keeps_result
        return self._stand_in(event, outcome.value) if keeps_result else None

    def _check_values_before(self, equations: int) -> None:
        """Let the call be an eager one if an op that comes before refuses its values, and raises there."""
        for v in self.tracer.graph.equations[self._checked : equations]:
            if is_refusable(v):
                try:
                    self.values.array(v)
                except Exception as error:  # noqa: BLE001  the eager run raises it, at its place
                    self.refusal = self.refusal or OverlapError(f"{v.op.name} refuses its values: {error}")
                    raise self.refusal from None
        self._checked = equations

    def refuse(self, refuse: Callable[[], None]) -> None:
        """Let `refuse` raise a TraceError, for good."""
        try:
            refuse()
        except TraceError as error:
            self.refusal = self.refusal or error
            raise

    def _append(self, event: StepEvent) -> None:
        if len(self.events) == MAX_EVENTS:
            self.refusal = self.refusal or ManyEventsError(
                f"asks for values, or calls what is no part of it, more than {MAX_EVENTS} times in a call"
            )
            raise self.refusal
        event.lines = event.lines or len(self.tracer.arithmetic.lines)
        self.events.append(event)

    def _take(self, kind: str, compute: Callable[[], Outcome]) -> Outcome:
        """The outcome of the next event: from the log, if it took place already."""
        if len(self.events) < len(self.log):
            outcome = self.log[len(self.events)]
            if (outcome.kind == "decision") is not (kind == "decision"):
                raise TraceError(
                    f"the compiled step {self.tracer.graph.name!r} did other things when it was traced again, at "
                    f"{user_site()}: compile with fallback=True to run it eagerly"
                )
            return outcome
        outcome = compute()
        self.log.append(outcome)
        return outcome

    def _mark(self) -> Mark:
        tracer = self.tracer
        arithmetic = tracer.arithmetic
        return Mark(
            len(tracer.graph.equations),
            self.observed(),
            len(tracer.probe_guards),
            len(arithmetic.sources),
            len(arithmetic.lines),
        )

    def _flatten_arguments(self, arguments: Operand, given: list[Operand]) -> tuple[list[OutputRef], pytree.Structure]:
        """The leaves of a call's arguments; a container in which nothing is symbolic is a leaf itself.

        `given` gets them as they are in the trace.
        """
        leaves: list[OutputRef] = []

        def walk(value: Operand, depth: int) -> pytree.Structure:
            if depth < 2 or holds_symbols(value):
                held, structure = pytree.flatten(value)
                if structure.kind is not None:
                    parts = value.values() if isinstance(value, dict) else value
                    if structure.kind in (tuple, list, dict):
                        return structure._replace(parts=tuple([walk(part, depth + 1) for part in parts]))
                    leaves.extend(map(self._leaf, held))
                    given.extend(held)
                    return structure
            leaves.append(self._leaf(value))
            given.append(value)
            return pytree.LEAF

        return leaves, walk(arguments, 0)

    def _leaf(self, x: Operand) -> OutputRef:
        x = as_number(x)
        if is_symbolic_number(x):
            return OutputRef("number", x.name)
        if is_late_text(x):
            return OutputRef("number", self.tracer.arithmetic.name_text(x))
        if isinstance(x, Tensor):
            return OutputRef("value", self.tracer.adopt(x))
        if self.has_changed(x):
            raise TraceError(
                f"the compiled step {self.tracer.graph.name!r} hands a {type(x).__name__} which it has changed to a "
                f"call outside of it, at {user_site()}: pass what is to be shown, or compile with fallback=True"
            )
        return OutputRef("object", x)

    def leaf_value(self, leaf: OutputRef) -> Operand:
        """The value of a leaf in the call that is traced."""
        if leaf.kind == "number":
            return self.tracer.arithmetic.evaluate(leaf.of, (leaf.of,))
        return wrap(self.values.array(leaf.of).copy()) if leaf.kind == "value" else leaf.of

    def _read_number(self, tensor: Tensor) -> Operand:
        return self.values.array(tensor.array).item()

    def _stand_in(self, event: StepEvent, result: Operand) -> Operand:
        """Return the trace's form of a result: numbers, texts and tensors are of each call, the rest is compared."""
        event.result_leaves, event.result_structure = pytree.flatten(result)
        shown: list[Operand] = []
        arithmetic, sizes = self.tracer.arithmetic, dict[int, SymbolicSize]()
        for x in event.result_leaves:
            name = f"x{self.slots}"
            given = as_argument(x) if is_array_result(x) else x
            if is_number(given) or (type(x) is str and event.is_trusted):
                number = arithmetic.add_source(
                    name, given, partial(return_name, name), f"a result of {event.what}()", True
                )
                shown.append(number if type(x) is not str else arithmetic.show_text(name, (name,)))
            elif isinstance(given, Tensor) and given.node is None:
                shape = given.array.shape
                if event.is_sized:
                    shape = self.tracer.sizes.make_result_shape(shape, self.slots, sizes)
                symbol = self.tracer.graph.input(Spec(shape, given.array.dtype), Argument(self.slots, name))
                self.values.set_array(symbol, given.array)
                shown.append(wrap(symbol) if given is x else HostArray(wrap(symbol), self))
            else:
                shown.append(x)
                event.slots.append(None)
                continue
            event.slots.append(self.slots)
            self.slots += 1
        return pytree.unflatten(event.result_structure, iter(shown))


def describe_path(log: Iterable[Outcome]) -> Operands:
    """Describe the way of a call, to be counted: answers, and the sizes and types of results."""
    found: list[Operand] = []
    for outcome in log:
        for x in pytree.flatten(outcome.value)[0] if outcome.kind != "decision" else (outcome.value,):
            if isinstance(x, np.ndarray) and outcome.kind == "decision":
                found.append(x.tobytes())
            elif isinstance(x, Tensor | np.ndarray):
                found.append(tuple(x.shape))
            else:
                found.append(repr(x) if outcome.kind == "decision" else type(x))
    return tuple(found)


def fits_result(event: StepEvent, result: Operand) -> list[Operand] | None:
    """The leaves of a host call's result; None where the program was made for results of another kind."""
    if not event.keeps_result:
        return []
    if type(result) is float and event.result_structure is pytree.LEAF and event.slots[0] is not None:
        return [result] if type(event.result_leaves[0]) is float else None
    leaves, structure = pytree.flatten(result)
    if structure != event.result_structure:
        return None
    for now, then, slot in zip(leaves, event.result_leaves, event.slots, strict=True):
        if slot is None and now is not then and not is_same_constant(now, then):
            return None
        if slot is not None and type(now) is not type(then):
            return None
        if slot is None or not isinstance(then, Tensor | np.ndarray) or has_same_shape(now, then):
            continue
        if not (event.is_sized and differ_in_first_size(now, then)):
            return None
    return [x if slot is None else as_argument(x) for x, slot in zip(leaves, event.slots, strict=True)]


def differ_in_first_size(now: Operand, then: Operand) -> bool:
    """True for tensors or arrays of one type whose first sizes are two values of a symbol, and the others equal."""
    if not (now.ndim == then.ndim > 0 and now.shape[1:] == then.shape[1:] and now.dtype == then.dtype):
        return False
    return min(now.shape[0], then.shape[0]) >= MIN_SYMBOL


def has_same_shape(now: Operand, then: Operand) -> bool:
    """True for tensors or arrays of one shape and type."""
    return bool(now.shape == then.shape and now.dtype == then.dtype)


def return_name(name: str, _: Callable[[object], str]) -> str:
    """Return the expression for a number that a call has under its name."""
    return name

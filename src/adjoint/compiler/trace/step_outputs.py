"""The outputs of a traced step: its results, the state it wrote, the gradients it set, the facts it relied on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from adjoint.compiler.ir.graph import Argument, OverlapError, StateInput, TraceError, Value, op_of
from adjoint.compiler.trace.guards import Guard, ProbeGuard
from adjoint.compiler.trace.symbolic_number import NumberArithmetic, is_symbolic_number
from adjoint.compiler.trace.symbolic_strides import Sizes, dense_dim_order, strides_unless_contiguous
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.op.spec import Spec
from adjoint.core.runtime import pytree
from adjoint.core.tensor.storage import ViewStep, view_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand
from adjoint.ops.movement.movement import permute

PERMUTE_OP = op_of(permute)


class OutputRef(NamedTuple):
    """One leaf of what a step returns or keeps: a `kind`, and what that kind says of it.

    "result": the n-th tensor which the program makes; "argument": the n-th argument itself; "state": a tensor that was
    there before, by the function that finds it; "gradient": the new `.grad` of a tensor, or of an argument by its
    number; "view": the leaf of its base, and the steps from there; "number": the name of a Python number; "object":
    anything else.
    """

    kind: str
    of: Any


class Effect(NamedTuple):
    """Something that the step did to Python objects: `write` is called with the value, put together from leaves."""

    write: Callable[[Any], object]
    structure: pytree.Structure
    leaves: list[OutputRef]
    what: str


class StepEffects:
    """The effects of one call, told in values of the graph.

    `results` are tensors that each call makes: `open` says whether somebody may want their gradient. `saved` are
    values that the backward half needs, `given` the inputs that it needs.
    """

    __slots__ = (
        "arguments", "arithmetic", "effects", "gradients", "guards", "history", "leaves", "lost", "pending", "results",
        "saved", "state", "structure", "result_permutations", "writes",
    )  # fmt: skip

    def __init__(self, arguments: int) -> None:
        self.arguments = arguments  # how many tensors and numbers a call brings
        self.arithmetic = NumberArithmetic()
        self.results: list[Value] = []
        self.result_permutations: dict[int, tuple[int, ...]] = {}  # how results are seen that are made in another order
        self.history: list[
            int | str | Exception | None
        ] = []  # for each result: None, "lost", or its number among those of the backward half
        self.saved: list[Value] = []
        self.writes: list[tuple[Value, Value]] = []  # the symbol of a state or argument, its new value
        self.gradients: list[tuple[Tensor | int, Value | None]] = []  # a tensor or argument number, its new .grad
        self.lost: list[Tensor | int] = []  # those whose new .grad had a history, of which the step leaves none
        self.state: list[tuple[Tensor, Any, Value]] = []  # every tensor met, its node, its symbol
        self.guards: list[Guard] = []
        self.effects: list[Effect] = []
        self.pending: dict[str, int] = {}  # numbers that are read from results: of which
        self.structure = pytree.LEAF
        self.leaves: list[OutputRef] = []

    def all_output_refs(self) -> list[OutputRef]:
        """Return the references of the return value, and of the values that the step keeps."""
        return [*self.leaves, *(leaf for effect in self.effects for leaf in effect.leaves)]

    def written_inputs(self) -> set[Value]:
        """Return the states and arguments whose memory the step writes."""
        return {symbol for symbol, _ in self.writes}

    def tensor_arguments(self) -> list[int]:
        """Return the numbers of the arguments that are tensors."""
        return sorted({symbol.source.number for _, _, symbol in self.state if isinstance(symbol.source, Argument)})

    def outputs(self) -> list[Value]:
        """All values that the graph must compute."""
        gradients = [v for _, v in self.gradients if v is not None]
        return [*self.results, *self.saved, *(v for _, v in self.writes), *gradients]

    def follow(self, outputs: list[Value]) -> None:
        """Take, for each of `outputs()`, the value that a pass made of it.

        By position, not by identity: of a value that is two outputs, `materialize_views` makes two.
        """
        fresh = iter(outputs)
        self.results = [next(fresh) for _ in self.results]
        self.saved = [next(fresh) for _ in self.saved]
        self.writes = [(symbol, next(fresh)) for symbol, _ in self.writes]
        self.gradients = [(place, v and next(fresh)) for place, v in self.gradients]


class ResultTable:
    """The tensors that a call is to make, each once however often it is returned or kept."""

    def __init__(self, tracer: Tracer, outcome: StepEffects, given: list[Operand]) -> None:
        self.tracer, self.outcome = tracer, outcome
        self.tensors: list[Tensor] = []
        self._numbers: dict[int, int] = {}
        self._arguments = {id(x): i for i, x in enumerate(given) if isinstance(x, Tensor)}
        self._returned: set[int] = set()
        self._states: dict[int, Value | None] = {id(t): None for t in tracer.captured_tensors()}
        self._states.update((id(t), symbol) for t, _, symbol in tracer.state)
        self._gradients = {
            id(t._grad): self._arguments.get(id(t), t)
            for t, before, _ in tracer.gradients.values()
            if t._grad is not None and t._grad is not before and t._grad.node is None
        }

    def leaves(self, value: object) -> tuple[list[OutputRef], pytree.Structure]:
        """Return the leaves of a tree, and its structure."""
        leaves, structure = pytree.flatten(value)
        self._returned |= {id(x) for x in leaves}
        return [self._leaf(x) for x in leaves], structure

    def _leaf(self, x: Any) -> OutputRef:
        if is_symbolic_number(x):
            self._note_pending(x.name)
            return OutputRef("number", x.name)
        if not isinstance(x, Tensor):
            return OutputRef("object", x)
        if id(x) in self._arguments:
            return OutputRef("argument", self._arguments[id(x)])
        if type(x.array) is np.ndarray:
            location = self.tracer.locate(x)  # a tensor that the step only handed on
            return OutputRef("object", x) if location is None else OutputRef("state", location[0])
        if id(x) in self._states:
            source = getattr(self._states[id(x)], "source", None)
            if isinstance(source, StateInput) and source.expression is not None:
                return OutputRef("state", source.locate)
            return OutputRef("state", lambda: x)
        if id(x) in self._gradients:
            return OutputRef("gradient", self._gradients[id(x)])
        source, steps = self._visible_base(x)
        if source is not None:
            return OutputRef("view", (self._leaf(source), steps))
        return OutputRef("result", self._result_number(x))

    def _result_number(self, x: Tensor) -> int:
        """Return the number of `x` among the tensors that the program makes."""
        if id(x) not in self._numbers:
            self._numbers[id(x)] = len(self.tensors)
            self.tensors.append(x)
            self.outcome.results.append(self._result_value(x))
            self.outcome.history.append(None if x.node is None else "lost")
        return self._numbers[id(x)]

    def _result_value(self, x: Tensor) -> Value:
        """Return the value to compute: the tensor's; where `x` is a view, one in the order of the eager result."""
        value = self.tracer.adopt(x)
        order = dense_dim_order(value) if x.node is None else None
        if order is None:
            return value
        self.outcome.result_permutations[len(self.outcome.results)] = tuple(map(order.index, range(len(order))))
        spec = Spec(tuple(value.shape[d] for d in order), value.dtype)
        return self.tracer.graph.add(PERMUTE_OP, (value,), {"axes": order}, spec, value.origin)

    def _note_pending(self, name: str) -> None:
        """Have the tensors made that a number is read from when the program has run."""
        arithmetic = self.outcome.arithmetic
        needed = {name} | {need for line in arithmetic.required_lines([name]) for need in line.needs}
        for late in needed & arithmetic.pending.keys():
            self.outcome.pending[late] = self._result_number(arithmetic.pending[late])

    def _visible_base(self, x: Tensor) -> tuple[Tensor | None, tuple[ViewStep, ...]]:
        """A tensor, seen by others when the call is over, of which `x` is a view, and the steps from there."""
        view = view_of(x) if x.node is None else None
        if view is None:
            return None, ()
        is_outside = any(id(view.base) in known for known in (self._returned, self._arguments, self._states))
        return (view.base, view.steps) if view.base.node is None and is_outside else (None, ())


def collect_effects(tracer: Tracer, result: object, given: list[Operand]) -> tuple[StepEffects, ResultTable]:
    """The outcome of a finished trace that was called with these tensors and numbers."""
    outcome = StepEffects(len(given))
    outcome.arithmetic = tracer.arithmetic
    results = ResultTable(tracer, outcome, given)
    outcome.leaves, outcome.structure = results.leaves(result)
    _collect_gradients(tracer, given, outcome)
    return outcome, results


def complete_effects(tracer: Tracer, outcome: StepEffects) -> None:
    """Add what can be told only when nothing more is traced."""
    _collect_writes(tracer, outcome)
    _rely_on_strides(tracer)
    _name_states(tracer)
    for watch in tracer.probe_guards:
        if watch.at_end:
            watch.update_expected()
    guards = {(id(w.subject), w.probe if w.contents else w.what): w for w in reversed(tracer.probe_guards)}
    outcome.guards += list(guards.values())[::-1]
    tracer.graph.outputs = outcome.outputs()


def _rely_on_strides(tracer: Tracer) -> None:
    """Note with the inputs how they lay in memory, where that told a view from a copy."""
    for symbol, strides in tracer.strides.queried_inputs.items():
        if isinstance(symbol.source, (Argument, StateInput)):
            symbol.source = symbol.source._replace(strides=strides)
    for tensor, _, symbol in tracer.state:
        if isinstance(symbol.source, StateInput) and symbol.source.strides not in ("any", None):
            # a program copies such a tensor's values in each call, wherever they lie
            watch = ProbeGuard(tensor, _strides_of, "how a captured tensor lies in memory")
            watch.expected_value = symbol.source.strides
            tracer.probe_guards.append(watch)


def _strides_of(tensor: Tensor) -> Sizes | None:
    """Return a tensor's strides unless it is contiguous; None in the trace itself, where it holds a symbol."""
    return strides_unless_contiguous(tensor.array) if type(tensor.array) is np.ndarray else None


def _collect_gradients(tracer: Tracer, given: list[Operand], outcome: StepEffects) -> None:
    numbers = {id(x): i for i, x in enumerate(given)}
    for tensor, before, kind in tracer.gradients.values():
        final = tensor._grad
        place = numbers.get(id(tensor), tensor)
        if final is not before and id(tensor) in tracer.outside:
            raise TraceError(
                f"backward() inside the step {tracer.graph.name!r} reaches a tensor whose history lies outside of it, "
                "where it cannot go on: detach() the tensor, or call backward() outside"
            )
        if final is None:
            if kind == "write" or before is not None:
                outcome.gradients.append((place, None))
        elif final is not before and type(final.array) is not np.ndarray:
            outcome.gradients.append((place, final.array))
            if final.node is not None:
                outcome.lost.append(place)
        if kind == "read":
            watch = ProbeGuard(tensor, _has_gradient, "whether a tensor has a .grad when the step begins")
            watch.expected_value = before is not None
            tracer.probe_guards.append(watch)


def _has_gradient(tensor: Tensor) -> bool:
    return tensor._grad is not None


def _collect_writes(tracer: Tracer, outcome: StepEffects) -> None:
    written: dict[Value, Value] = {}
    for tensor, _, symbol in tracer.state:
        if tensor.array is not symbol:
            written[symbol] = tensor.array
        _, node = tracer.outside.get(id(tensor), (tensor, tensor.node))
        outcome.state.append((tensor, node, symbol))
    for a, b in overlapping_inputs((symbol, array) for _, array, symbol in tracer.state):
        if a in written or b in written:
            kind = OverlapError if isinstance(a.source, Argument) or isinstance(b.source, Argument) else TraceError
            raise kind(
                f"the step {tracer.graph.name!r} writes in place to memory that it also reads through another tensor "
                "(one that NumPy made of it, before the step); a compiled step cannot do that yet: clone() one of them"
            )
    outcome.writes = list(written.items())


def overlapping_inputs(memories: Iterable[tuple[Value, Array]]) -> Iterator[tuple[Value, Value]]:
    """Yield the pairs of inputs whose memory overlaps, told by where it begins and ends."""
    arrays = {symbol: array for symbol, array in memories if array.size}
    spans = sorted(((*byte_bounds(array), symbol) for symbol, array in arrays.items()), key=lambda span: span[:2])
    before: list[tuple[int, Value]] = []
    for low, high, symbol in spans:
        before = [(end, other) for end, other in before if end > low]
        yield from ((symbol, other) for _, other in before)
        before.append((high, symbol))


def _name_states(tracer: Tracer) -> None:
    """Name captured tensors as the modules and optimizers know them that the step used."""
    names: dict[int, str] = {}
    for watch in tracer.probe_guards:
        holder = watch.subject
        for list_names in ("named_parameters", "named_buffers"):
            for name, tensor in getattr(holder, list_names, lambda: ())():
                names.setdefault(id(tensor), name)
    for watch in tracer.probe_guards:
        entries = getattr(watch.subject, "state", None)
        for tensor, kept in entries.items() if isinstance(entries, dict) else ():
            for key, value in kept.items() if isinstance(kept, dict) else ():
                names.setdefault(id(value), f"{names.get(id(tensor), '')} {key}".strip())
    for tensor, _, symbol in tracer.state:
        if isinstance(symbol.source, StateInput) and id(tensor) in names:
            symbol.source = symbol.source._replace(name=names[id(tensor)])

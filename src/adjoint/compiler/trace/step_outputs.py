"""The outputs of a traced step: its results, the state it wrote, the gradients it set, the facts it relied on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from adjoint.compiler.ir.graph import Argument, OverlapError, StateInput, TraceError, Value
from adjoint.compiler.ir.shared_memory import MemoryFacts, MemoryRelation, describe_overlap, overlapping_inputs
from adjoint.compiler.ir.strided_view import repeats_elements
from adjoint.compiler.trace.guards import ArgumentGradientGuard, Guard, ProbeGuard
from adjoint.compiler.trace.numbers.symbolic_number import NumberArithmetic
from adjoint.compiler.trace.symbolic_strides import Sizes, strides_unless_contiguous
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.graph.hooks import NodeHooks
from adjoint.core.runtime import pytree
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.sparse_array import is_sparse
from adjoint.core.tensor.storage import CreationMeta, ViewStep
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.ops.movement.split import SplitOutputs


class OutputRef(NamedTuple):
    """One leaf of what a step returns or keeps: a `kind`, and what that kind says of it.

    "result": the n-th tensor which the program makes; "argument": the n-th argument itself; "state": a tensor that was
    there before, by the function that finds it; "gradient": the new `.grad` of a tensor, or of an argument by its
    number; "alias": the n-th of the tensors that share the memory of one of these; "number": the name of a Python
    number; "object": anything else.
    """

    kind: str
    of: Any


class AliasRef(NamedTuple):
    """A tensor that shares the memory of `base`, to which `steps` lead from there.

    It is a view, made as `meta` says, or a detached tensor. A view that is `recorded` has the history of its base;
    `is_leaf` is true for one that asks for a gradient itself. `piece`: of one that a split made, its node, whose like
    each call makes, and its number.
    """

    base: OutputRef
    steps: tuple[ViewStep, ...]
    is_view: bool
    recorded: bool
    piece: tuple[SplitOutputs, int] | None
    is_leaf: bool
    meta: CreationMeta
    retains_grad: bool
    type: type[Tensor]
    attributes: dict[str, object] | None


class ResultFacts(NamedTuple):
    """Facts of a tensor that each call makes, beyond its values.

    `version` counts the writes into it. `permutation`: how it is seen, if it is made in another order of dimensions.
    """

    type: type[Tensor]
    attributes: dict[str, object] | None
    version: int
    retains_grad: bool
    permutation: tuple[int, ...] | None


class MadeLeaf(NamedTuple):
    """A leaf that each call makes."""

    ref: OutputRef


Parent = Tensor | int | MadeLeaf  # whose gradients a backward half gives: captured tensors, arguments by their numbers


class Rebinding(NamedTuple):
    """A tensor, or an argument by its number, that takes the memory of `value`, as `.data = value` says."""

    place: Tensor | int
    value: OutputRef


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
        "aliases", "arguments", "arithmetic", "effects", "gradients", "guards", "history", "leaf_changes",
        "leaf_hooks", "leaves", "lost", "memory", "pending", "rebindings", "renewed", "reruns_eagerly",
        "result_facts", "result_gradients", "results", "saved", "state", "structure", "unread", "write_counts",
        "writes",
    )  # fmt: skip

    def __init__(self, arguments: int) -> None:
        self.arguments = arguments  # how many tensors and numbers a call brings
        self.arithmetic = NumberArithmetic()
        self.results: list[Value] = []
        self.result_facts: list[ResultFacts] = []
        self.result_gradients: list[tuple[OutputRef, OutputRef]] = []  # new tensors and their .grad
        self.leaf_hooks: list[tuple[OutputRef, NodeHooks]] = []  # new leaves and their hooks
        self.aliases: list[AliasRef] = []
        self.rebindings: list[Rebinding] = []
        self.renewed: list[Tensor] = []  # tensors whose `.data =` writes their memory, which must be their own
        self.history: list[
            int | str | Exception | None
        ] = []  # for each result: None, "lost", "leaf", or its number among those of the backward half
        self.saved: list[Value] = []
        self.writes: list[tuple[Value, Value]] = []  # the symbol of a state or argument, its new value
        self.unread: set[Value] = set()  # symbols of tensors of which the step reads no values
        self.write_counts: dict[Value, int] = {}  # how often eager calls write these: 1 where nothing is said
        self.gradients: list[tuple[Tensor | int, Value | None]] = []  # a tensor or argument number, its new .grad
        self.leaf_changes: list[tuple[Tensor | int, bool]] = []  # a tensor or argument number, its new `requires_grad`
        self.lost: list[Tensor | int] = []  # those whose new .grad had a history, of which the step leaves none
        self.state: list[tuple[Tensor, Any, Value]] = []  # every tensor met, its node, its symbol
        self.memory = MemoryFacts()
        self.reruns_eagerly = False  # where the program fails, before it writes, the call runs eagerly
        self.guards: list[Guard] = []
        self.effects: list[Effect] = []
        self.pending: dict[str, int] = {}  # numbers that are read from results: of which
        self.structure = pytree.LEAF
        self.leaves: list[OutputRef] = []

    def count_effects(self) -> str:
        """Return how many guards, writes and effects there are, in words."""
        counts = {"guard": len(self.guards), "write": len(self.writes), "effect": len(self.effects)}
        return ", ".join(pluralize(count, noun) for noun, count in counts.items()) + " in Python"

    def all_output_refs(self) -> list[OutputRef]:
        """Return the references of the return value, and of the values that the step keeps."""
        kept = [leaf for effect in self.effects for leaf in effect.leaves]
        shared = [*(alias.base for alias in self.aliases), *(each.value for each in self.rebindings)]
        return [*self.leaves, *kept, *shared, *(gradient for _, gradient in self.result_gradients)]

    def written_inputs(self) -> set[Value]:
        """Return the states and arguments whose memory the step writes."""
        return {symbol for symbol, _ in self.writes}

    def changed_inputs(self) -> list[Value]:
        """Return the states and arguments whose memory the step writes, be it through others."""
        related = [v for relation in self.memory.relations for v in relation[:2]] if self.writes else []
        return list(dict.fromkeys([*(symbol for symbol, _ in self.writes), *related]))

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


def complete_effects(tracer: Tracer, outcome: StepEffects) -> None:
    """Add what can be told only when nothing more is traced."""
    _collect_writes(tracer, outcome)
    _rely_on_strides(tracer, outcome.written_inputs())
    _name_states(tracer)
    for watch in tracer.probe_guards:
        if watch.at_end:
            watch.update_expected()
    guards = {(id(w.subject), w.probe if w.contents else w.what): w for w in reversed(tracer.probe_guards)}
    outcome.guards += [*list(guards.values())[::-1], *tracer.view_guards]
    tracer.graph.outputs = outcome.outputs()


def _rely_on_strides(tracer: Tracer, written: set[Value]) -> None:
    """Note with the inputs how they lay in memory, where that told a view from a copy, or saves one."""
    for _, array, symbol in tracer.state:
        strides = strides_unless_contiguous(array)
        if symbol not in written and repeats_elements(array.shape, strides, array.itemsize):
            symbol.source = symbol.source._replace(strides=strides)
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


def collect_gradients(tracer: Tracer, given: list[Operand], outcome: StepEffects) -> list[Tensor]:
    """Collect the `.grad` that the step leaves, and whether it found one; return tensors that it leaves a sparse one.

    Raises SparseGradientError where the step uses a sparse gradient that it found.
    """
    leaves_sparse: list[Tensor] = []
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
        elif is_sparse(final):
            if final is not before:
                leaves_sparse.append(tensor)
        elif final is not before and type(final.array) is not np.ndarray:
            outcome.gradients.append((place, final.array))
            if final.node is not None:
                outcome.lost.append(place)
        if kind == "read":
            if isinstance(place, Tensor):
                watch = ProbeGuard(tensor, _has_gradient, "whether a tensor has a .grad when the step begins")
                watch.expected_value = before is not None
                tracer.probe_guards.append(watch)
            else:  # of the tensor that each call brings, not of this one
                outcome.guards.append(ArgumentGradientGuard(place, before is not None))
            if is_sparse(before) and not tracer.is_unread(before):
                tracer.refuse_sparse_gradient("the step uses a sparse gradient from before it")
    return leaves_sparse


def _has_gradient(tensor: Tensor) -> bool:
    return tensor._grad is not None


def _collect_writes(tracer: Tracer, outcome: StepEffects) -> None:
    written: dict[Value, Value] = {}
    seen: dict[Value, Value] = {}
    counted: set[int] = set()
    for tensor, _, symbol in tracer.state:
        replaced = tracer.replaced.get(id(tensor))
        now = tensor.array if replaced is None or replaced.former is None else replaced.former.array
        if seen.setdefault(symbol, now) is not now:
            raise OverlapError(
                f"the step {tracer.graph.name!r} writes to memory of an argument that is also that of a captured tensor"
            )
        if now is not symbol and tracer.blocks.is_written(symbol):
            if symbol not in written:  # of several in one storage the first counts for all
                storage, count = tracer.count_writes(tensor)
                outcome.write_counts[symbol] = 0 if storage in counted else count
                counted.add(storage)
            written[symbol] = now
        _, node = tracer.leaves_before.get(id(tensor)) or tracer.outside.get(id(tensor), (tensor, tensor.node))
        outcome.state.append((tensor, node, symbol))
        if id(tensor) in tracer.leaves_before and (node is None) is not (tensor.node is None):
            place = symbol.source.number if isinstance(symbol.source, Argument) else tensor
            outcome.leaf_changes.append((place, tensor.node is not None))
    used = {x for v in tracer.graph.equations for x in v.operands}.union(outcome.outputs(), written, written.values())
    outcome.unread = {symbol for _, _, symbol in tracer.state}.difference(used)
    arrays = {symbol: array for _, array, symbol in tracer.state if symbol in used or symbol in tracer.blocks.carried}
    relations = [
        MemoryRelation(a, b, describe_overlap(arrays[a], arrays[b]))
        for a, b in overlapping_inputs(arrays.items())
        if a in written or b in written
    ]
    exported = {symbol: None for tensor, _, symbol in tracer.state if id(tensor) in tracer.blocks.exported}
    records = bool(outcome.leaf_changes) or any(node is not None for _, node, _ in outcome.state)  # for `backward`
    outcome.memory = MemoryFacts(
        frozenset(written), tuple(arrays), tuple(relations), tuple(exported) if records else ()
    )
    outcome.writes = list(written.items())


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

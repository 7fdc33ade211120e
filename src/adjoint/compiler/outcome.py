"""What a traced step leaves behind: its results, the state it wrote, the gradients it set, the facts it relied on."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.compiler import tree
from adjoint.compiler.graph import State, TraceError, Value
from adjoint.compiler.trace import Tracer, Watch
from adjoint.core.tensor import Tensor


class Outcome:
    """The effects of one call, told in values of the graph."""

    __slots__ = ("arguments", "gradients", "history", "results", "state", "watches", "writes")

    def __init__(self, arguments: int) -> None:
        self.arguments = arguments  # how many tensors a call brings
        self.results: list[Value] = []
        self.history: list[bool] = []  # for each result: does it require grad?
        self.writes: list[tuple[Value, Value]] = []  # the symbol of a state or argument, its new value
        self.gradients: list[tuple[Tensor | int, Value | None]] = []  # a tensor or argument number, its new .grad
        self.state: list[tuple[Tensor, Any, Value]] = []  # every tensor met, its node, its symbol
        self.watches: list[Watch] = []

    def outputs(self) -> list[Value]:
        """All values that the graph must compute."""
        gradients = [v for _, v in self.gradients if v is not None]
        return [*self.results, *(v for _, v in self.writes), *gradients]

    def follow(self, outputs: list[Value]) -> None:
        """Take, for each of `outputs()`, the value that a pass made of it."""
        fresh = iter(outputs)
        self.results = [next(fresh) for _ in self.results]
        self.writes = [(symbol, next(fresh)) for symbol, _ in self.writes]
        self.gradients = [(place, v and next(fresh)) for place, v in self.gradients]


def outcome_of(tracer: Tracer, result: Any, tensors: list[Tensor]) -> tuple[Outcome, tree.Structure, list[Any]]:
    """The outcome of a finished trace, and how its return value is put together.

    That is a structure with, for each leaf, the number of a result, or the leaf itself in a tuple.
    """
    outcome = Outcome(len(tensors))
    leaves, structure = tree.flatten(result)
    places: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            places.append(len(outcome.results))
            outcome.results.append(tracer.adopt(leaf))
            outcome.history.append(leaf.node is not None)
        else:
            places.append((leaf,))
    _gradients(tracer, tensors, outcome)
    _writes(tracer, outcome)
    _name_states(tracer)
    for watch in tracer.watches:
        if watch.settled:
            watch.settle()
    outcome.watches = list({(id(w.subject), w.what): w for w in reversed(tracer.watches)}.values())[::-1]
    tracer.graph.outputs = outcome.outputs()
    return outcome, structure, places


def _gradients(tracer: Tracer, tensors: list[Tensor], outcome: Outcome) -> None:
    numbers = {id(tensor): i for i, tensor in enumerate(tensors)}
    for tensor, before, kind in tracer.gradients.values():
        final = tensor._grad
        place = numbers.get(id(tensor), tensor)
        if final is None:
            if kind == "write" or before is not None:
                outcome.gradients.append((place, None))
        elif final is not before and type(final.array) is not np.ndarray:
            outcome.gradients.append((place, final.array))
        if kind == "read":
            watch = Watch(tensor, _has_gradient, "whether a tensor has a .grad when the step begins")
            watch.expected = before is not None
            tracer.watches.append(watch)


def _has_gradient(tensor: Tensor) -> bool:
    return tensor._grad is not None


def _writes(tracer: Tracer, outcome: Outcome) -> None:
    written: dict[Value, Value] = {}
    for tensor, _, symbol in tracer.state:
        if tensor.array is not symbol:
            written[symbol] = tensor.array
        outcome.state.append((tensor, tensor.node, symbol))
    arrays = {symbol: array for _, array, symbol in tracer.state}
    for symbol in written:
        for other, array in arrays.items():
            if other is not symbol and np.may_share_memory(arrays[symbol], array):
                raise TraceError(
                    f"the step {tracer.graph.name!r} writes in place to memory that it also reads through another "
                    "tensor (a view of it, made before the step); a compiled step cannot do that yet: clone() one of "
                    "them"
                )
    outcome.writes = list(written.items())


def _name_states(tracer: Tracer) -> None:
    """Name captured tensors as the modules and optimizers know them that the step used."""
    names: dict[int, str] = {}
    for watch in tracer.watches:
        holder = watch.subject
        for list_names in ("named_parameters", "named_buffers"):
            for name, tensor in getattr(holder, list_names, lambda: ())():
                names.setdefault(id(tensor), name)
    for watch in tracer.watches:
        entries = getattr(watch.subject, "state", None)
        for tensor, kept in entries.items() if isinstance(entries, dict) else ():
            for key, value in kept.items() if isinstance(kept, dict) else ():
                names.setdefault(id(value), f"{names.get(id(tensor), '')} {key}".strip())
    for tensor, _, symbol in tracer.state:
        if isinstance(symbol.source, State) and id(tensor) in names:
            symbol.source = symbol.source._replace(name=names[id(tensor)])

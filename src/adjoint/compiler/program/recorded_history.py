"""The nodes that lead to the results of a step, kept so that each call can have them with its own values.

A gradient of a compiled step that is differentiated again takes the way that eager code takes: through the nodes that
the step recorded. So whatever eager code holds constant is constant, a Function has its own rule, and a hook sees each
gradient. A traced node holds symbols; here they become numbered slots, which a call fills with arrays.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import NamedTuple

import numpy as np

from adjoint.autograd.function.node import FunctionNodeState
from adjoint.autograd.function.saved import PackedVariable, SavedVariable
from adjoint.autograd.saved.hooks import PackedByHook
from adjoint.compiler.ir.graph import Value, op_of
from adjoint.compiler.ir.symbolic_size import SymbolicSize, evaluate_size
from adjoint.compiler.trace.numbers.symbolic_number import SymbolicNumber
from adjoint.core.graph.hooks import NodeHooks
from adjoint.core.graph.node import GraphNode, Leaf, Node, OutputSlot, PackedValue
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Function, Operand
from adjoint.ops.elementwise.select import copy

COPY = op_of(copy)
ATOM_TYPES = frozenset({type(None), bool, int, float, complex, str, bytes, type, np.ndarray, CodeType, type(COPY)})
HOLDER_TYPES = (SavedVariable, PackedVariable, PackedByHook, FunctionNodeState, NodeHooks)


class ArraySlot(NamedTuple):
    """The place of an array."""

    number: int


class NumberSlot(NamedTuple):
    """The place of a Python number, which an array of one element gives."""

    number: int


class LeafSlot(NamedTuple):
    """The place of a node from outside: of a tensor to which the step sends a gradient."""

    number: int


class TensorSlot:
    """The place of a tensor that a hook or a Function keeps, with its node."""

    __slots__ = ("node", "number")

    def __init__(self, number: int, node: Operand) -> None:
        self.number, self.node = number, node


class NodeCopier:
    """Copies nodes and what hangs on them, each once; what has nothing to replace stays the same object.

    `replace` gives by its type what takes the place of an object.
    """

    def __init__(self, replace: Mapping[type, Function]) -> None:
        self.replace = replace
        self.vertices: dict[Operand, Operand] = {}
        self._waiting: list[Operand] = []
        self._memo: dict[int, tuple[object, object]] = {}  # by identity: the original, kept alive, and its copy

    def copy_vertex(self, vertex: Operand) -> Operand:
        """Return the copy of a node, which `finish` fills in."""
        found = self.vertices.get(vertex)
        if found is None:
            found = self.vertices[vertex] = object.__new__(type(vertex))
            self._waiting.append(vertex)
        return found

    def finish(self) -> None:
        """Fill in all copies, and those that come up with them."""
        slots = []
        while self._waiting:
            vertex = self._waiting.pop()
            made = self.vertices[vertex]
            for name in slots_of(type(vertex)):
                value = getattr(vertex, name, None)
                object.__setattr__(made, name, value if type(value) in ATOM_TYPES else self.copy(value))
            if type(vertex) is OutputSlot:
                slots.append(made)
        self.replace = {}  # what it calls leads back here
        for slot in slots:  # which their owner knows weakly
            if hasattr(slot.owner, "_output_nodes"):
                slot.owner._output_nodes[slot.number] = weakref.ref(slot)
            if slot.hooks is not None and slot.owner.hooks is not None:
                slot.owner.hooks.outputs[slot.number] = weakref.ref(slot)

    def copy(self, x: Operand) -> Operand:
        """Return a copy of an object in which all is replaced, itself if there is nothing."""
        kind = type(x)
        if kind in ATOM_TYPES:
            return x
        if kind in self.replace:
            return self.replace[kind](x)
        if isinstance(x, GraphNode) or kind is OutputSlot:
            return self.copy_vertex(x)
        known = self._memo.get(id(x))
        if known is None:
            self._memo[id(x)] = x, x  # for what leads back to itself
            known = self._memo[id(x)] = x, self._copy_object(x, kind)
        return known[1]

    def _copy_object(self, x: Operand, kind: type) -> Operand:
        if isinstance(x, Tensor):
            return self.replace[Tensor](x)
        # A container in which nothing is replaced stays itself, so that what is shared remains shared.
        if isinstance(x, tuple):
            parts = [self.copy(part) for part in x]
            if _are_same(parts, x):
                return x
            return kind(*parts) if hasattr(x, "_fields") else kind(parts)
        if kind is list:
            parts = [self.copy(part) for part in x]
            return x if _are_same(parts, x) else parts
        if kind is dict or kind is OrderedDict:
            parts = [self.copy(value) for value in x.values()]
            return x if _are_same(parts, x.values()) else kind(zip(x, parts, strict=True))
        if kind is weakref.ref:
            return weakref.ref(self.copy_vertex(x())) if isinstance(x(), OutputSlot) else x
        if kind is FunctionType:
            return self._copy_function(x)
        if kind is MethodType:
            owner = self.copy(x.__self__)
            return x if owner is x.__self__ else MethodType(x.__func__, owner)
        if kind is partial:
            held = x.func, x.args, x.keywords
            function, args, keywords = map(self.copy, held)
            return x if _are_same((function, args, keywords), held) else partial(function, *args, **keywords)
        if isinstance(x, PackedValue) and (value := x.value_outside()) is not x:
            return self.copy(value)
        if kind in HOLDER_TYPES:
            made = object.__new__(kind)
            for name in slots_of(kind):
                setattr(made, name, self.copy(getattr(x, name)))
            return made
        return x

    def _copy_function(self, function: FunctionType) -> Operand:
        """Return a function with other values in its closure and defaults."""
        cells = function.__closure__ or ()
        held = [cell.cell_contents if _is_filled(cell) else None for cell in cells]
        values = [self.copy(value) for value in held]
        defaults = self.copy(function.__defaults__)
        if _are_same(values, held) and defaults is function.__defaults__:
            return function
        closure = tuple(
            cell if new is old else CellType(new) for cell, old, new in zip(cells, held, values, strict=True)
        )
        made = FunctionType(function.__code__, function.__globals__, function.__name__, defaults, closure)
        made.__kwdefaults__ = function.__kwdefaults__
        return made


class RecordedHistory:
    """The nodes of a traced step without its symbols. `values`: those that stood in the slots, by number.

    `roots`: the nodes of the results that have a history.
    """

    __slots__ = ("nodes", "roots", "values")

    def __init__(self, roots: list[Operand], nodes: list[Operand], values: list[Value]) -> None:
        self.roots, self.nodes, self.values = roots, nodes, values

    def with_values(self, values: list[Value]) -> RecordedHistory:
        """Return the same nodes for the values of another graph."""
        return RecordedHistory(self.roots, self.nodes, values)

    def revive(
        self, arrays: Sequence[Array], parents: Sequence[Operand], sequence_nr: int, sizes: Mapping[str, int]
    ) -> tuple[list[Operand], list[Operand]]:
        """Return the nodes of the results of one call, and for each parent the node at which its gradient arrives.

        The nodes come after that with `sequence_nr`, and before the next. `sizes`: of the call, by their symbols.
        """
        tensors: dict[int, Tensor] = {}
        ends = [None if parent is None else _make_end(parent) for parent in parents]

        def revive_tensor(slot: TensorSlot) -> Tensor:
            if id(slot) not in tensors:
                tensor = tensors[id(slot)] = wrap(arrays[slot.number])
                tensor.node = None if slot.node is None else copier.copy(slot.node)
            return tensors[id(slot)]

        copier = NodeCopier(
            {
                ArraySlot: lambda slot: arrays[slot.number],
                NumberSlot: lambda slot: arrays[slot.number].item(),
                LeafSlot: lambda slot: ends[slot.number],
                TensorSlot: revive_tensor,
                SymbolicSize: lambda size: evaluate_size(size, sizes),
                Tensor: lambda tensor: tensor,
            }
        )
        roots = [copier.copy_vertex(root) for root in self.roots]
        copier.finish()
        for n, node in enumerate(self.nodes, 1):
            made = copier.vertices.get(node)
            if made is not None:
                made.sequence_nr = sequence_nr + n / (len(self.nodes) + 1)
        return roots, ends


def record_history(
    roots: Sequence[Operand],
    leaves: Sequence[Leaf],
    is_known: Callable[[Tensor], bool],
    value_of_number: Callable[[SymbolicNumber], Value],
) -> RecordedHistory:
    """Keep the nodes below these, which lead to these leaves.

    `is_known`: true for the tensors that are the same in each call.
    """
    numbers: dict[Value, int] = {}
    places = {leaf: LeafSlot(i) for i, leaf in enumerate(leaves)}

    def number_of(value: Value) -> int:
        return numbers.setdefault(value, len(numbers))

    def keep_saved(saved: SavedVariable) -> SavedVariable:
        made = object.__new__(SavedVariable)
        made.array, made.number, made.memory = copier.copy(saved.array), saved.number, None
        made.node, made.reference = copier.copy(saved.node), _refer_to_nothing
        return made

    def keep_tensor(tensor: Tensor) -> Operand:
        if type(tensor.array) is not Value or is_known(tensor):
            return tensor
        return TensorSlot(number_of(tensor.array), copier.copy(tensor.node))

    copier = NodeCopier(
        {
            Value: lambda value: ArraySlot(number_of(value)),
            SymbolicNumber: lambda number: NumberSlot(number_of(value_of_number(number))),
            Leaf: places.get,
            SavedVariable: keep_saved,
            Tensor: keep_tensor,
        }
    )
    kept = [copier.copy_vertex(root) for root in roots]
    copier.finish()
    nodes = sorted(copier.vertices.values(), key=lambda node: node.sequence_nr)
    return RecordedHistory(kept, nodes, list(numbers))


def _make_end(parent: Operand) -> Node:
    """Make a node through which a gradient goes on to `parent`."""
    node = Node()
    node.op, node.parents, node.params, node.shapes = COPY, (parent,), None, None
    node.shape, node.dtype, node.code, node.instruction_offset = (
        parent.shape,
        parent.dtype,
        _refer_to_nothing.__code__,
        0,
    )
    node.saved_values = node.hooks = None
    node.sequence_nr = parent.sequence_nr + 0.5  # newer than the parent, older than all that was made of it
    return node


def _refer_to_nothing() -> None:
    """Stand for a reference whose tensor is gone."""


def _are_same(parts: Operand, others: Operand) -> bool:
    return all(part is other for part, other in zip(parts, others, strict=True))


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def slots_of(kind: type) -> tuple[str, ...]:
    """Return the slots of a class that hold values."""
    found = _slots.get(kind)
    if found is None:
        names = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
        found = _slots[kind] = tuple(name for name in names if name != "__weakref__")
    return found


_slots: dict[type, tuple[str, ...]] = {}

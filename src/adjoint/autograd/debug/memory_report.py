"""Memory report of a graph: the values saved for its backward pass, by line and op, in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from adjoint.autograd.function.saved import PackedVariable, SavedVariable
from adjoint.autograd.saved.hooks import PackedByHook
from adjoint.core.graph.node import GraphNode, Leaf, Node, PackedValue, Vertex, reachable
from adjoint.core.graph.source_location import Site
from adjoint.core.runtime.notebook import show_in_notebook
from adjoint.core.runtime.text_table import format_columns, pluralize
from adjoint.core.tensor.as_strided import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, NumpyDtype, Operand

ndarray = np.ndarray
CHECKPOINT = "checkpoint"

TABLE_COLUMNS = ("bytes", "times", "line", "op", "value", "shape", "dtype")
NUMBER_COLUMNS = (0, 1)


class KeptValue(NamedTuple):
    """One array that a node keeps. `nbytes` is the memory it holds on to, 0 where a value above holds it already.

    `of_leaf`: it is that of a leaf, which is there anyway. `what`: the op's input, `out`, the place in a Function's
    saved tensors, or CHECKPOINT for an argument of a checkpoint, from which the op's values are computed again.
    """

    site: Site | None
    node: str
    what: str
    shape: tuple[int, ...]
    dtype: NumpyDtype
    nbytes: int
    of_leaf: bool


class MemoryReport:
    """The values that a graph keeps, oldest first, and their `total` of bytes. Prints as a table, largest first."""

    def __init__(self, values: tuple[KeptValue, ...]) -> None:
        self.values = values
        self.total = sum(value.nbytes for value in values)
        self.of_leaves = sum(value.nbytes for value in values if value.of_leaf)

    _repr_html_ = show_in_notebook

    def __repr__(self) -> str:
        return "\n".join([*format_columns([TABLE_COLUMNS, *self.rows()], NUMBER_COLUMNS), self.foot])

    @property
    def foot(self) -> str:
        """The totals in a sentence."""
        buffers = pluralize(sum(value.nbytes > 0 for value in self.values), "buffer")
        leaves = f"of which {self.of_leaves:,} are those of leaves, which are there anyway"
        return f"{self.total:,} bytes in {buffers}, {leaves}"

    def rows(self) -> list[tuple[str, ...]]:
        """One row for the values of one line, op and shape, largest first."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for value in self.values:
            where = "" if value.site is None else str(value.site)
            key = (where, value.node, value.what, str(list(value.shape)), str(value.dtype))
            groups.setdefault(key, []).append(value.nbytes)
        ordered = sorted(groups.items(), key=lambda item: -sum(item[1]))
        return [(f"{sum(sizes):,}", str(len(sizes)), *key) for key, sizes in ordered]


def memory_report(root: Tensor) -> MemoryReport:
    """Return what the graph of `root` saves for its backward pass, as a table by the user's line and op.

    Memory that several values see is counted once and whole: a saved slice holds on to all of its base. A checkpoint
    keeps its arguments. After backward() nothing is left, unless `retain_graph=True`.
    """
    nodes = reachable([] if root.node is None else [root.node], lambda node: node.parents)
    return MemoryReport(tuple(value for _, value in iter_kept_values(nodes)))


def iter_kept_values(nodes: Iterable[Vertex]) -> Iterator[tuple[GraphNode, KeptValue]]:
    """Yield what the nodes of a graph keep, each value with its node, the oldest node first."""
    nodes = list(nodes)
    tensors = [node.variable for node in nodes if type(node) is Leaf]
    of_leaves = {id(owner(tensor.array)) for tensor in tensors if tensor is not None}
    seen = set()
    for node in sorted((n for n in nodes if isinstance(n, GraphNode)), key=lambda n: n.sequence_nr):
        site = None
        for what, array in iter_saved_arrays(node):
            site = site or getattr(node, "site", None)
            memory = owner(array)
            if what == CHECKPOINT and id(memory) in seen:
                continue  # each value of a checkpoint names all of its arguments
            nbytes = 0 if id(memory) in seen else memory.nbytes
            seen.add(id(memory))
            is_leaf = id(memory) in of_leaves
            yield node, KeptValue(site, node.name(), what, array.shape, array.dtype, nbytes, is_leaf)


def iter_saved_arrays(node: GraphNode) -> Iterator[tuple[str, Array]]:
    """Yield the arrays that a node saved, each with its role in the node."""
    if isinstance(node, Node):
        last = len(node.op.inputs) - 1
        for i, value in enumerate(node.saved_values or ()):
            name = "out" if i == len(node.saved_values) - 1 else node.op.inputs[min(i, last)]
            if isinstance(value, PackedValue) and value.recomputed:
                name = CHECKPOINT
            yield from ((name, array) for array in _arrays(value))
        return
    state = getattr(node, "context", None)
    kept = getattr(state, "saved_tensors", None)
    for i, value in enumerate(kept if type(kept) is tuple else ()):
        yield from ((f"saved_tensors[{i}]", array) for array in _arrays(value))
    for holder in (getattr(state, "own", {}), getattr(state, "attributes", {})):
        for name, value in holder.items():
            yield from ((f"ctx.{name}", array) for array in _arrays(value))


def _arrays(value: Operand) -> Iterator[Array]:
    """Yield the arrays in a saved value."""
    if isinstance(value, (Tensor, SavedVariable)):
        value = value.array
    if isinstance(value, PackedVariable):
        value = value.packed
    if isinstance(value, PackedByHook):
        value = value.data
    elif isinstance(value, PackedValue):
        value = tuple(value.kept_values())
    if type(value) is ndarray:
        yield value
    elif isinstance(value, Tensor):
        yield from _arrays(value.array)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _arrays(one)

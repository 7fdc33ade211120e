"""Contents of a recorded graph: its nodes with what they keep, and the edges between them, in the viewer's words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as short_repr
from types import CodeType

import numpy as np

from adjoint.autograd.debug.memory_report import KeptValue, iter_kept_values
from adjoint.autograd.engine.saved_values import check_saved
from adjoint.core.graph.node import (
    FREED,
    GraphNode,
    Leaf,
    Node,
    OutputSlot,
    PackedValue,
    SavedValues,
    Vertex,
    reachable,
)
from adjoint.core.graph.source_location import Site
from adjoint.core.op.spec import Spec, describe
from adjoint.core.tensor.as_strided import address
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.core.viewer.document import DetailTable, DrawnEdge, DrawnNode, Rows
from adjoint.core.viewer.op_kinds import kind_of_op
from adjoint.ops.movement.split import SplitOutputs

MAX_DETAIL_LENGTH = 200
IN_PLACE_OPS = frozenset({"put_view", "put_slice", "put_index", "replace_content"})
SAVED_BYTES = "saved bytes"


@dataclass
class GraphContents:
    """The nodes below some tensors, oldest first, and their keys in the drawing; `roots`: (name, tensor).

    `leaf_names`: the user's names. `inputs`: (name, tensor) of tensors without history, such as a batch.
    """

    roots: Sequence[tuple[str, Tensor]]
    leaf_names: Mapping[Leaf, str]
    inputs: Sequence[tuple[str, Tensor]] = ()
    vertices: list[GraphNode | Leaf] = field(init=False)
    keys: dict[Vertex, str] = field(init=False)
    kept: dict[GraphNode, list[KeptValue]] = field(init=False)
    sites: dict[GraphNode, Site] = field(init=False)

    def __post_init__(self) -> None:
        found = reachable([root.node for _, root in self.roots if root.node is not None], lambda node: node.parents)
        places = [vertex for vertex in found if not isinstance(vertex, OutputSlot)]
        self.vertices = sorted(places, key=lambda vertex: vertex.sequence_nr)
        self.keys = {vertex: f"n{i}" for i, vertex in enumerate(self.vertices)}
        self.keys |= {slot: self.keys[slot.owner] for slot in found if isinstance(slot, OutputSlot)}
        self.kept = {}
        for node, value in iter_kept_values(found):
            self.kept.setdefault(node, []).append(value)
        self.sites = _find_sites(self.nodes)

    @property
    def nodes(self) -> list[GraphNode]:
        """The nodes that ops and Functions made, oldest first."""
        return [vertex for vertex in self.vertices if isinstance(vertex, GraphNode)]

    @property
    def leaves(self) -> list[Leaf]:
        """The leaves, oldest first."""
        return [vertex for vertex in self.vertices if isinstance(vertex, Leaf)]

    def edges(self) -> list[DrawnEdge]:
        """Return the edges: from what made an input to the node that used it, and from the results to their names."""
        edges = [
            DrawnEdge(self.keys[parent], self.keys[node], *_label(parent))
            for node in self.nodes
            for parent in node.parents
            if parent is not None
        ]
        for i, (_, root) in enumerate(self.roots):
            if root.node is not None:
                edges.append(DrawnEdge(self.keys[root.node], f"out{i}"))
        return edges

    def input_edges(self) -> list[tuple[int, str]]:
        """Return (number of the input, key of the node) for the nodes that have saved an input without history."""
        exact: dict[object, int] = {}
        near: dict[object, int] = {}
        for i, (_, tensor) in enumerate(self.inputs):
            if type(tensor.array) is np.ndarray and tensor.node is None and tensor.array.size:
                exact.setdefault((address(tensor.array), tensor.array.shape), i)
                near.setdefault((address(tensor.array), tensor.array.size), i)
        found: list[tuple[int, str]] = []
        for node in self.nodes if exact else ():
            saved = node.saved_values if isinstance(node, Node) and type(node.saved_values) is tuple else ()
            for parent, value in zip(node.parents, saved, strict=False):
                if parent is None and type(value) is np.ndarray and value.size:
                    number = exact.get((address(value), value.shape), near.get((address(value), value.size)))
                    if number is not None:
                        found.append((number, self.keys[node]))
        return found

    def draw_leaf(self, leaf: Leaf, group: str) -> DrawnNode:
        """Return the node of a leaf."""
        tensor: Operand = leaf.variable
        told: list[tuple[str, str]] = [("leaf", type(tensor).__name__ if tensor is not None else "its tensor is gone")]
        told.append(("gradient", "none" if tensor is None or tensor.grad is None else describe(tensor.grad.array)))
        told.append(("memory", f"{_nbytes(leaf):,} bytes"))
        name = self.leaf_names.get(leaf, "leaf")
        return DrawnNode(
            self.keys[leaf],
            name.rpartition(".")[2] if group else name,
            "leaf",
            group,
            describe(leaf),
            badges=tuple(_hook_badges(leaf)),
            details=(("name", name), *told),
        )

    def draw_node(self, node: GraphNode, group: str) -> DrawnNode:
        """Return the node of an op or a Function."""
        kept = self.kept.get(node, [])
        own = sum(value.nbytes for value in kept if not value.of_leaf)
        badges = [*_hook_badges(node), *_state_badges(node)]
        return DrawnNode(
            self.keys[node],
            label_of(node),
            _kind_of(node),
            group,
            f"saves {_short_size(own)}" if own else "",
            (self.sites[node],),
            tuple(badges),
            tuple(_describe_node(node, self.sites[node])),
            tuple(_saved_table(kept)),
            {SAVED_BYTES: own} if own else {},
        )

    def draw_root(self, i: int) -> DrawnNode:
        """Return the node that stands for the i-th result."""
        name, root = self.roots[i]
        array = root.array
        is_number = isinstance(array, np.ndarray) and array.size == 1 and array.dtype.kind in "fiub"
        value = f" = {array.item():.6g}" if is_number else ""
        return DrawnNode(f"out{i}", name, "output", subtitle=describe(array) + value)


def _find_sites(nodes: Iterable[GraphNode]) -> dict[GraphNode, Site]:
    """Return the user's lines of nodes; that of an instruction is looked up once."""
    places: dict[tuple[CodeType, int], Site] = {}
    found: dict[GraphNode, Site] = {}
    for node in nodes:
        key = node.code, node.instruction_offset
        if key not in places:
            places[key] = node.site
        found[node] = places[key]
    return found


def label_of(node: GraphNode) -> str:
    """Return a node's name in the drawing: that of its op, or of the Function."""
    if node.op is None:
        return str(node.name()).removesuffix("0").removesuffix("Backward")
    return "in-place write" if node.op.name in IN_PLACE_OPS else node.op.name


def _kind_of(node: GraphNode) -> str:
    """Return the kind of a node: that of its op; "function" for a Function of the user."""
    if node.op is not None:
        return kind_of_op(node.op)
    if isinstance(node, SplitOutputs):
        return "movement"
    home = getattr(getattr(node, "_forward_cls", type(node)), "__module__", "")
    return "call" if home.startswith("adjoint.") else "function"


def _label(vertex: Vertex) -> tuple[str, int]:
    """Return type and bytes of what flows; a leaf tells them itself."""
    if isinstance(vertex, Leaf) or not _has_spec(vertex):
        return "", 0
    return describe(vertex), _nbytes(vertex)


def _has_spec(vertex: Operand) -> bool:
    return vertex.shape is not None and hasattr(vertex.dtype, "itemsize")


def _nbytes(value: Operand) -> int:
    return int(np.prod(value.shape, dtype=np.int64)) * value.dtype.itemsize


def _short_size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _hook_badges(vertex: GraphNode | Leaf) -> Iterable[str]:
    hooks = vertex.hooks
    if hooks is None:
        return
    count = sum(map(len, (hooks.before, hooks.after, hooks.tensor_pre_hooks, hooks.post_accumulate_hooks)))
    if count:
        yield "hook" if count == 1 else f"{count} hooks"
    if hooks.retaining_tensor is not None:
        yield "retains grad"


def _state_badges(node: GraphNode) -> Iterable[str]:
    saved = node.saved_values
    if saved is FREED:
        yield "freed"
    if type(saved) is SavedValues and any(isinstance(value, PackedValue) for value in saved):
        yield "recomputed in backward" if checkpoint_of(node) is not None else "packed by hooks"
    if node.op is None and "Checkpoint" in node.name():
        yield "recomputed in backward"
    if _find_overwriting(node):
        yield "a saved value was overwritten"


def _find_overwriting(node: GraphNode) -> str:
    """Return what backward would say of an in-place write to what the node saved; "" if there was none."""
    if isinstance(node, Node) and node.saved_values is not FREED:
        try:
            check_saved(node)
        except RuntimeError as error:
            return str(error)
    return ""


def checkpoint_of(node: GraphNode) -> object:
    """Return the frame of the checkpointed call in which a node was made; None outside of one."""
    saved = node.saved_values
    if type(saved) is not SavedValues:
        return None
    return next((value.frame for value in saved if isinstance(value, PackedValue) and hasattr(value, "frame")), None)


def _describe_node(node: GraphNode, site: Site) -> Iterable[tuple[str, str]]:
    yield "grad_fn", node.name()
    specs = [Spec(*spec) for spec in getattr(node, "_specs", ()) if spec is not None]
    if specs:
        yield "outputs" if len(specs) > 1 else "output", ", ".join(map(describe, specs))
    elif _has_spec(node):
        yield "output", describe(node)
    if written := _find_overwriting(node):
        yield "backward will raise", written
    yield "line", f"{site.describe_briefly()} in {site.function}"
    params = node.params if isinstance(node, Node) else getattr(getattr(node, "context", None), "attributes", None)
    for name, value in (params or {}).items():
        if name != "needs_input_grad":
            yield name, _describe_value(value)


def _describe_value(value: object) -> str:
    """Return type and shape of a tensor or array, else a short text; the name of the class where that fails."""
    array = value.array if isinstance(value, Tensor) else value
    try:
        text = describe(array) if isinstance(array, np.ndarray) else short_repr(value)
    except Exception:  # noqa: BLE001  it is the user's, and only shown
        text = type(value).__name__
    return text if len(text) <= MAX_DETAIL_LENGTH else f"{text[:MAX_DETAIL_LENGTH]}…"


def _saved_table(kept: Sequence[KeptValue]) -> Iterable[DetailTable]:
    if not kept:
        return
    rows: list[tuple[str, ...]] = []
    for value in kept:
        note = "of a leaf" if value.of_leaf else "counted with another node" if not value.nbytes else ""
        rows.append((value.what, describe(value), f"{value.nbytes:,}", note))
    yield DetailTable("saved for backward", ("value", "type", "bytes", ""), tuple(rows), right=(2,))


def summarize(contents: GraphContents) -> Rows:
    """Return the rows about the whole graph."""
    kept = [value for values in contents.kept.values() for value in values]
    own = sum(value.nbytes for value in kept if not value.of_leaf)
    parameters = sum(int(np.prod(leaf.shape, dtype=np.int64)) for leaf in contents.leaves)
    freed = sum(node.saved_values is FREED for node in contents.nodes)
    rows = (
        ("nodes", f"{len(contents.nodes):,}"),
        ("leaves", f"{len(contents.leaves):,} with {parameters:,} elements"),
        ("saved for backward", f"{own:,} bytes"),
    )
    return (*rows, ("freed nodes", f"{freed:,}")) if freed else rows


def iter_tensors(value: Operand, name: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in nested tuples, lists and dictionaries, and the fields of such objects, with their places."""
    if isinstance(value, Tensor):
        yield name or "output", value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from iter_tensors(one, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (tuple, list)):
        fields = getattr(value, "_fields", range(len(value)))
        for key, one in zip(fields, value, strict=True):
            yield from iter_tensors(one, f"{name or 'output'}[{key}]" if isinstance(key, int) else str(key))
    elif hasattr(value, "__dataclass_fields__"):
        for key in value.__dataclass_fields__:
            yield from iter_tensors(getattr(value, key), f"{name}.{key}" if name else key)

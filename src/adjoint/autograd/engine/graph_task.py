"""The state of one backward pass: the gradients that have arrived, and how they add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from adjoint.core.graph.grad_dtype import ANY_DTYPE
from adjoint.core.graph.hooks import HookDict, hooked_leaf_references
from adjoint.core.graph.node import Leaf, Node, SavedValues, Vertex
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.op.elementwise_kernels import ADD
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.sparse_array import SparseArray, is_sparse, tensor_of_gradient
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.arithmetic import add

Root = tuple[Vertex, Tensor]
UNDEFINED = type("Nothing", (), {"__slots__": (), "__repr__": lambda self: "<no gradient>"})()


class OutputGrads(list[Operand]):
    """The gradients of a node with several outputs, None where nothing has arrived."""


class GraphTask:
    """One backward pass: its options, and the gradients that have arrived.

    - `input_buffers`: for each waiting node its gradient, as a bare array. It is a Tensor if the pass itself is
      recorded, traced or pushed forward (`on_arrays` is False). It is `OutputGrads` for a node with several outputs,
      and UNDEFINED where a rule returned None.
    - `owned_buffers`: the nodes whose gradient is a sum of our own. All other gradients are borrowed, since a rule may
      hand one array to several inputs.
    - `needed_nodes`, `running`: with targets, only edges to the first are followed, and only the second run.
    - `where_masks`: for a node the gradient that has arrived, and where it holds none, since `where` chose otherwise.
    - `pending_edges`: for each leaf with hooks, how many edges have yet to deliver to it.
    - `capture_only`: the leaves take no part, their gradients go to the caller.
    - `line`: the user's that called for a pass that is recorded, which the nodes of its ops name.
    """

    __slots__ = (
        "__weakref__", "callbacks", "capture_nodes", "capture_only", "captured_grads", "create_graph", "input_buffers",
        "needed_nodes", "on_arrays", "owned_buffers", "pending_edges", "retain_graph", "retained_grads", "exec_nodes",
        "unpacked_values", "where_masks", "line",
    )  # fmt: skip

    def __init__(
        self, roots: Sequence[Root], retain_graph: bool, create_graph: bool, targets: Iterable[Vertex] | None = None
    ) -> None:
        lifted = nondefault.count and (
            nondefault.meta_tensors or mode.interpreter is not None or mode.forward_levels is not None
        )
        self.on_arrays = not (create_graph or lifted)
        self.create_graph, self.retain_graph = create_graph, retain_graph
        self.line = user_instruction(2) if create_graph else None
        self.input_buffers: dict[Vertex, Operand] = {}
        self.where_masks: dict[Vertex, tuple[Operand, Operand]] = {}
        self.callbacks: list[Callable[[], object]] = []
        self.unpacked_values: tuple[Node | None, Operand] = (None, None)  # of the last node that saved packed values
        self.owned_buffers: set[Vertex] = set()
        self.capture_nodes: set[Vertex] | None = None if targets is None else set(targets)
        self.exec_nodes = (
            None if self.capture_nodes is None else nodes_leading_to(self.capture_nodes, [node for node, _ in roots])
        )
        self.pending_edges = self._count_pending_edges(roots) if hooked_leaf_references else {}
        self.capture_only = False
        self.needed_nodes = (
            None if self.capture_nodes is None or self.exec_nodes is None else self.exec_nodes | self.capture_nodes
        )
        self.captured_grads: dict[Vertex, Operand] = {}
        self.retained_grads: list[tuple[Tensor, Operand]] = []
        for node, g in roots:
            if self.needed_nodes is None or node in self.needed_nodes:
                self.add_gradient(node, g.array if self.on_arrays else g)

    def _count_pending_edges(self, roots: Sequence[Root]) -> dict[Leaf, int]:
        if self.exec_nodes is None or self.capture_nodes is None:
            return count_leaf_edges(node for node, _ in roots)
        parents = (parent for node in self.exec_nodes for parent in node.parents)
        wanted = self.capture_nodes
        return Counter(p for p in parents if type(p) is Leaf and p.hooks is not None and p in wanted)

    def add_gradient(self, node: Vertex, g: Operand) -> bool:
        """Add `g` to what has arrived for `node`; True if it is the first."""
        have = self.input_buffers.get(node)
        if have is None:
            self.input_buffers[node] = g
        elif g is UNDEFINED:
            pass
        elif have is UNDEFINED:
            self.input_buffers[node] = g
        elif type(have) is OutputGrads:
            for i, one in enumerate(g):
                have[i] = one if have[i] is None else have[i] if one is None else self.total(have[i], one)
        elif node in self.owned_buffers and self.on_arrays:
            np.add(have, g, out=have)
        else:
            self.input_buffers[node] = total = self.total(have, g)
            if type(total) is np.ndarray or not is_sparse(total):  # sparse gradients are joined, not added in place
                self.owned_buffers.add(node)
        return have is None

    def include_hooked_targets(self, targets: Iterable[Vertex]) -> None:
        """Let the targets that nobody else needs run too where they have hooks: these see what comes to rest there."""
        for node in targets:
            hooks = node.hooks
            hooked = type(node) is not Leaf and hooks is not None and (hooks.before or hooks.after)
            if hooked and self.exec_nodes is not None:
                self.exec_nodes.add(node)

    def add_slice_gradient(self, node: Any, parent: Vertex, g: Array) -> None:
        """Add `g`, the gradient of a part of what `parent` made, into what has arrived there.

        In place, in a sum of our own: n slices of one tensor cost what n small additions cost.
        """
        have = self.input_buffers[parent]
        if have is UNDEFINED or parent not in self.owned_buffers:
            dtype = g.dtype if parent.dtype is ANY_DTYPE else parent.dtype
            have = np.zeros(parent.shape, dtype) if have is UNDEFINED else have.copy()
            self.input_buffers[parent] = have
            self.owned_buffers.add(parent)
        part = node.op.grad_slice(have, **node.params)
        np.add(part, g, out=part, casting="same_kind")

    def block(self, node: Vertex, mask: Operand, before: Operand) -> None:
        """Note that the gradient just delivered to `node`, where `before` had arrived, holds none where `mask`.

        The mask is stored with the gradient object. A gradient without a mask that is added later makes a new object,
        so the stored mask no longer applies.
        """
        if before is not None:
            held, other = self.where_masks.get(node, (None, None))
            if held is not before:
                return
            mask = mask & other
            self.owned_buffers.discard(node)
        self.where_masks[node] = (self.input_buffers[node], mask)

    def take_where_mask(self, node: Vertex, g: Operand) -> Operand:
        """Return the mask of `g`, which has arrived for `node`: where it holds no gradient; None if unknown."""
        held, mask = self.where_masks.pop(node, (None, None))
        return mask if held is g else None

    def total(self, x: Operand, y: Operand) -> Operand:
        """Return x + y in memory of its own."""
        if self.on_arrays:
            total = ADD.call(x, y)
            return total if type(total) is SparseArray else np.asarray(total)
        if is_sparse(x) or is_sparse(y):
            return x + y if is_sparse(y) else y + x  # a dense one first
        return add(x, y)

    def run_tensor_hooks(self, node: Vertex, g: Operand) -> Operand:
        """Let the hooks of a tensor see, and replace, its gradient; keep it for `retain_grad` and for the caller."""
        if type(g) is OutputGrads:
            return g
        hooks = node.hooks
        if hooks is not None and hooks.tensor_pre_hooks:
            g = self.unwrap_gradient(run_gradient_hooks(hooks.tensor_pre_hooks, self.wrap_gradient(g)))
        if g is UNDEFINED:
            return g
        if hooks is not None:
            keeper = hooks.retaining_tensor and hooks.retaining_tensor()
            if isinstance(keeper, Tensor):
                self.retained_grads.append((keeper, g))
        if self.capture_nodes is not None and node in self.capture_nodes:
            self.captured_grads[node] = g
        return g

    def wrap_gradient(self, g: Operand) -> Tensor | None:
        """Return a gradient as users see it."""
        return None if g is None or g is UNDEFINED else tensor_of_gradient(g) if self.on_arrays else g

    def unwrap_gradient(self, g: Tensor | None) -> Operand:
        """Return a user's gradient as the walk keeps it."""
        return UNDEFINED if g is None else g.array if self.on_arrays else g


def count_leaf_edges(roots: Iterable[Vertex]) -> dict[Leaf, int]:
    """Return for each reachable leaf with hooks the number of edges that lead to it."""
    counts: dict[Leaf, int] = {}
    reached = {root for root in roots if type(root) is not Leaf}
    stack = list(reached)
    while stack:
        for parent in stack.pop().parents:
            if type(parent) is Leaf:
                if parent.hooks is not None:
                    counts[parent] = counts.get(parent, 0) + 1
            elif parent is not None and parent not in reached:
                reached.add(parent)
                stack.append(parent)
    return counts


def runs_user_code(roots: Iterable[Vertex]) -> bool:
    """Return whether hooks, or functions that are not the library's, run in a pass from these roots."""
    reached = {*roots}
    stack = list(reached)
    while stack:
        node = stack.pop()
        if node.hooks is not None:
            return True
        if type(node) is Leaf:
            continue
        if type(node) is not Node or node.op.runs_user_code or type(node.saved_values) is SavedValues:
            return True
        fresh = {parent for parent in node.parents if parent is not None} - reached
        reached |= fresh
        stack.extend(fresh)
    return False


def nodes_leading_to(wanted: set[Vertex], roots: Iterable[Vertex]) -> set[Vertex]:
    """Return the nodes below the roots from which a path leads to a wanted one."""
    oldest = min([node.sequence_nr for node in wanted], default=0)  # what is older cannot lead to any of them
    reached: set[Vertex] = {root for root in roots if type(root) is not Leaf}
    stack = list(reached)
    dead_end = False
    while stack:
        for parent in stack.pop().parents:
            if parent is None or parent in reached:
                continue
            if type(parent) is Leaf:
                dead_end = dead_end or parent not in wanted
            elif parent.sequence_nr >= oldest:
                reached.add(parent)
                stack.append(parent)
            else:
                dead_end = True
    if not dead_end and wanted.isdisjoint(reached):  # all paths end at wanted leaves
        return reached
    leading: set[Vertex] = set()
    for node in sorted(reached, key=attrgetter("sequence_nr")):  # parents before those made from them
        for parent in node.parents:
            if parent in wanted or parent in leading:
                leading.add(node)
                break
    return leading


def run_gradient_hooks(hooks: HookDict, g: Tensor | None) -> Tensor | None:
    """Pass `g` through hooks, each of which may replace it by one of the same shape and type.

    They see None where no gradient arrived, and cannot replace that.
    """
    for hook in list(hooks.values()):
        replaced = hook(g)
        if replaced is None:
            continue
        if g is None:
            raise RuntimeError("can't replace a None gradient with a non-None value")
        if not isinstance(replaced, Tensor):
            raise TypeError(f"expected Variable, but hook returned {type(replaced).__name__!r}")
        name = getattr(hook, "__name__", repr(hook))
        if replaced.array.shape != g.array.shape:
            raise RuntimeError(
                f"hook {name!r} has changed the size of value: {list(g.shape)} became {list(replaced.shape)}"
            )
        if replaced.array.dtype != g.array.dtype:
            raise RuntimeError(f"hook {name!r} has changed the type of value: {g.dtype} became {replaced.dtype}")
        g = replaced
    return g

"""The end of a backward pass: gradients are added to `.grad`, all of them or none, or go to the caller."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from operator import call
from sys import getrefcount
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from adjoint.autograd.engine.graph_task import UNDEFINED, GraphTask
from adjoint.autograd.engine.node_call import run_post_hooks, run_pre_hooks
from adjoint.core.graph.node import Leaf, Vertex
from adjoint.core.op.apply import make_node
from adjoint.core.op.op import op_of
from adjoint.core.runtime.fork_safety import reset_after_fork
from adjoint.core.runtime.mode import mode, touch_gradient
from adjoint.core.tensor.as_strided import match_stride_order
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.sparse_array import is_sparse, tensor_of_gradient
from adjoint.core.tensor.tensor import Tensor, shallow_copy, wrap
from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.arithmetic import add
from adjoint.ops.elementwise.select import copy
from adjoint.ops.mutation.inplace import write_in_place
from adjoint.ops.mutation.view_update import replace_content

if TYPE_CHECKING:
    from adjoint.core.graph.hooks import NodeHooks

ndarray = np.ndarray
Key = TypeVar("Key")
_set_grad: Callable[[Tensor, Tensor], None] = vars(Tensor)["_grad"].__set__
_set_array: Callable[[Tensor, Operand], None] = vars(Tensor)["array"].__set__
_store_lock = reset_after_fork(threading.RLock())  # two threads may accumulate in one leaf


def collect_captures(gradients: GraphTask) -> dict[Vertex, Tensor]:
    """Return the gradients that arrived at the targets."""
    _finish_leaves(gradients, captured=True)
    found = gradients.captured_grads
    return {
        # no name holds the gradient: `take_array` copies what somebody else sees
        node: (
            tensor_of_gradient(take_array(found, node)) if gradients.on_arrays else _own_symbol(gradients, found[node])
        )
        for node in found
    }


def accumulate(gradients: GraphTask, targets: Iterable[Tensor] | None = None) -> None:
    """Add the gradients to the `.grad` of the leaves, or of `targets`, and of the tensors that retain theirs."""
    is_plain = targets is None and gradients.on_arrays and gradients.capture_nodes is None
    if is_plain and not gradients.retained_grads and _accumulate_in_plain_leaves(gradients):
        return
    leaves = _finish_leaves(gradients)
    found: dict[Any, Operand] = leaves if targets is None else gradients.captured_grads
    tensors: list[tuple[Any, Any]] = (
        [(leaf.reference(), leaf) for leaf in found] if targets is None else [(t, t.node) for t in targets]
    )
    # a leaf that no longer asks for its gradient gets none
    resting = {
        t: node for t, node in tensors if t is not None and (t.node is node or t.requires_grad) and node in found
    }
    if len(resting) < len(tensors) and targets is None:
        _merge_leaves(tensors, resting, gradients)
    if targets is None and any(t.node is not node and not t.is_leaf for t, node in resting.items()):
        raise RuntimeError(
            "leaf variable has been moved into the graph interior: its memory was written through another tensor that "
            "sees it"
        )
    retained = {tensor: g for tensor, g in gradients.retained_grads if tensor not in resting}
    gradients.retained_grads.clear()
    with _store_lock:
        stores = [_make_store(tensor, found, node, gradients) for tensor, node in resting.items()]
        stores += [_make_store(tensor, retained, tensor, gradients) for tensor in retained]
        deque(map(call, stores), maxlen=0)  # one call into C: no signal comes between two leaves
    for tensor, node in resting.items():
        if type(node) is Leaf and node.hooks is not None:
            _run_post_accumulate_hooks(gradients, node.hooks, tensor, found[node])


def _accumulate_in_plain_leaves(gradients: GraphTask) -> bool:
    """Add the gradients of arrays to the `.grad` of the leaves, or return False, having added none.

    It does what `accumulate` does in general, where no leaf has hooks or a sparse gradient, in half the time.
    """
    leaves = gradients.input_buffers
    stores: list[Callable[[], object]] = []
    with _store_lock:
        for leaf in leaves:
            if type(leaf) is not Leaf or leaf.hooks is not None or type(leaves[leaf]) is not ndarray:
                return False
            tensor = leaf.reference()
            if not isinstance(tensor, Tensor) or tensor.node is not leaf:
                return False
            have, array = tensor._grad, tensor.array
            if have is None:  # as `_make_store` does it
                if getrefcount(leaves[leaf]) > 2 or leaves[leaf].base is not None:
                    leaves[leaf] = leaves[leaf].copy()
                g = leaves[leaf]
                stores.append(partial(_set_grad, tensor, wrap(match_stride_order(g, array))))
            elif type(have) is Tensor and have.node is None and type(have.array) is ndarray:
                stores.append(_make_store(tensor, leaves, leaf, gradients))
            else:
                return False
        deque(map(call, stores), maxlen=0)  # one call into C: no signal comes between two leaves
    return True


def _merge_leaves(tensors: Iterable[tuple[Any, Vertex]], resting: dict[Tensor, Vertex], gradients: GraphTask) -> None:
    """Add up what arrived at several leaves of one tensor, which `set_` gives a new one."""
    found = gradients.input_buffers
    for tensor, leaf in tensors:
        if tensor in resting and resting[tensor] is not leaf:
            found[resting[tensor]] = gradients.total(found[resting[tensor]], found[leaf])


def finish_hooked_leaf(gradients: GraphTask, leaf: Leaf) -> None:
    """Run the hooks of a leaf whose last gradient has arrived.

    If a post-accumulate hook will read its `.grad`, that is set first. Otherwise it is set with the other gradients.
    """
    leaves = gradients.input_buffers
    _run_leaf_hooks(gradients, leaf, gradients.capture_only)
    if gradients.capture_nodes is not None:
        return
    tensor, hooks = leaf.reference(), leaf.hooks
    if not isinstance(tensor, Tensor) or not tensor.requires_grad:
        return
    if hooks is None or not (hooks.post_accumulate_hooks or hooks.after):
        return
    if leaves[leaf] is not UNDEFINED:
        with _store_lock:
            _make_store(tensor, leaves, leaf, gradients)()
    _run_post_accumulate_hooks(gradients, hooks, tensor, leaves.pop(leaf))


def _run_post_accumulate_hooks(gradients: GraphTask, hooks: NodeHooks, tensor: Tensor, g: Operand) -> None:
    """Let the hooks that follow the `.grad` of a leaf see it."""
    for hook in list(hooks.post_accumulate_hooks.values()):
        if hook(tensor) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    run_post_hooks(hooks, [], [gradients.wrap_gradient(g)])


def _run_leaf_hooks(gradients: GraphTask, leaf: Vertex, captured: bool = False) -> None:
    """Pass what arrived at a leaf through its hooks."""
    leaves = gradients.input_buffers
    leaves[leaf] = gradients.run_tensor_hooks(leaf, leaves[leaf])
    if leaf.hooks is not None and leaf.hooks.before and not captured:
        leaves[leaf] = gradients.unwrap_gradient(run_pre_hooks(leaf.hooks, [gradients.wrap_gradient(leaves[leaf])])[0])
        if leaf in gradients.captured_grads:
            gradients.captured_grads[leaf] = leaves[leaf]


def take_array(holder: dict[Key, Operand], key: Key) -> Array:
    """Return the array `holder[key]` itself if nobody else sees it, else a copy: two tensors never get one array.

    The copy takes its place there, so that of those to whom one array was handed, the last gets it itself.
    """
    # references: the holder's, and that of getrefcount's argument; a view of it would hold one too
    if getrefcount(holder[key]) > 2 or holder[key].base is not None:
        holder[key] = holder[key].copy()
    return holder[key]


def _finish_leaves(gradients: GraphTask, captured: bool = False) -> dict[Any, Operand]:
    """Return the gradients that arrived at leaves, as their hooks leave them.

    `captured`: they go to the caller, the leaves themselves take no part.
    """
    leaves, captures = gradients.input_buffers, gradients.capture_nodes
    for leaf in list(leaves):
        if leaf.hooks is None:  # as `_run_leaf_hooks` does it where there are none
            if captures is not None and leaf in captures and leaves[leaf] is not UNDEFINED:
                gradients.captured_grads[leaf] = leaves[leaf]
        elif leaf not in gradients.pending_edges:
            _run_leaf_hooks(gradients, leaf, captured)
        if leaves[leaf] is UNDEFINED:
            del leaves[leaf]
    if captures is not None:
        leaves.clear()
    return leaves


def _make_store(tensor: Tensor, holder: dict[Key, Operand], key: Key, gradients: GraphTask) -> Callable[[], object]:
    """Return the call that stores one gradient: a new one replaces None, a later one is added in place."""
    touch_gradient(tensor, "read")
    have, g = tensor._grad, holder[key]
    if (type(g) is not ndarray and is_sparse(g)) or (have is not None and type(have) is not Tensor and is_sparse(have)):
        return _make_sparse_store(tensor, have, tensor_of_gradient(g) if gradients.on_arrays else g)
    if not gradients.on_arrays:
        dual = not gradients.create_graph and mode.interpreter is None
        if have is None:
            g = copy(g) if dual else _as_grad(g) if gradients.create_graph else _own_symbol(gradients, g, tensor, key)
            return partial(_set_grad, tensor, g)
        interpreter = mode.interpreter
        if interpreter is not None and interpreter.writes_symbols and have.node is None and not gradients.create_graph:
            # when it is stored: two leaves may have one gradient
            return lambda: interpreter.write_symbol(have, add(have, g), "accumulation", None)
        total = add(have, g)
        if dual:
            return partial(write_in_place, have, total, "accumulation")
        return partial(_set_grad, tensor, total) if gradients.create_graph else partial(_set_array, have, total.array)
    if have is None:
        del g
        g = take_array(holder, key)
        return partial(_set_grad, tensor, wrap(match_stride_order(g, tensor.array) if type(key) is Leaf else g))
    if have.node is not None or have.array.shape != g.shape or not have.array.flags.writeable:
        return partial(_set_grad, tensor, wrap(np.asarray(have.array + g)))
    mutation_log.record(have.array, None)
    return partial(np.add, have.array, g, have.array)


def _make_sparse_store(tensor: Tensor, have: Any, g: Any) -> Callable[[], object]:
    """Return the call that stores a gradient where it, or the one that is there, is sparse."""
    if have is None:
        return partial(_set_grad, tensor, g)
    if is_sparse(have):
        return partial(_set_grad, tensor, have + g if is_sparse(g) else g + have)
    return partial(have.add_, g)


def _own_symbol(gradients: GraphTask, g: Tensor, tensor: Tensor | None = None, key: object = None) -> Tensor:
    """Return the gradient; in a traced step, in a symbol of its own, so that no other leaf's is written with it."""
    if gradients.create_graph or mode.interpreter is None or is_sparse(g):
        return g
    own: Tensor = mode.interpreter.own_gradient(g, tensor if type(key) is Leaf else None)
    return own


def _as_grad(g: Tensor) -> Tensor:
    """Return `g` for `.grad`: with a node of its own, so that the two are told apart."""
    out = shallow_copy(g)
    if g.node is not None and mode.recording:
        shapes = ((), g.array.shape)
        out.node = make_node(op_of(replace_content), (None, g.node), {}, shapes, g.array)
    return out

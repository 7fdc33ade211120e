"""The backward walk: each node runs once, after all that used its output. `reference` is the same walk in plain form.

The newest node that a gradient has reached runs next. A node is always newer than those it was made from, so all its
users have run by then. No dependencies are counted, and branches that lead nowhere are never met. The walk is
iterative. (`debug.backward_steps` shows the same walk with PyTorch's dependency counts.)

Unless the walk itself is recorded or traced, gradients are bare arrays: an op's rules are NumPy programs too. One turn
of `run_nodes` for a product of two 16-element tensors costs about 2.4 µs, of which NumPy takes 0.9 and the two rules
0.1 (benchmarks/overhead.py).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heapify, heappop, heappush, heappushpop
from typing import Any, TypeVar

import numpy as np

from adjoint.autograd.engine.accumulate_grad import accumulate, collect_captures, finish_hooked_leaf
from adjoint.autograd.engine.error_notes import add_node_note, last_pass
from adjoint.autograd.engine.graph_task import UNDEFINED, GraphTask, Root, runs_user_code
from adjoint.autograd.engine.masked_node import MaskLink, passes_masks, run_masked_node
from adjoint.autograd.engine.node_call import call_node, deliver_to_owner, recompute_typed, sum_to_input
from adjoint.autograd.engine.recorded_node import can_run_recorded, run_recorded_node
from adjoint.autograd.engine.saved_values import free_saved_values, make_rule_call, saved_arrays
from adjoint.autograd.engine.where_masks import propagate_where_mask
from adjoint.core.graph.node import FREED, Leaf, Node, OutputSlot, Vertex
from adjoint.core.graph.not_implemented import refuse_gradient
from adjoint.core.graph.source_location import InstructionLocation, recorded_pass, user_instruction
from adjoint.core.runtime.explanation_slot import explanation_slot
from adjoint.core.runtime.mode import (
    INHERITED_BY_THREADS,
    ModeScope,
    mode,
    nondefault,
    set_backward_origin,
    set_modes,
    switch_recording,
)
from adjoint.core.runtime.threads import IN_BROWSER
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

ndarray = np.ndarray
Result = TypeVar("Result")
NO_SLOTS = ()  # of a rule that asks for nothing: the empty tuple is one object
COMPLEX_DTYPES = np.dtype(np.complex64), np.dtype(np.complex128)


def run_backward(
    roots: Sequence[Root], *, retain_graph: bool, create_graph: bool, targets: Sequence[Tensor] | None = None
) -> None:
    """Send each root's gradient back and add what arrives to `.grad` of the leaves, or of `targets` only.

    All of them or, after an exception, none.
    """
    nodes = None if targets is None else [t.node for t in targets if t.node is not None]
    gradients = GraphTask(roots, retain_graph, create_graph, nodes)
    gradients.include_hooked_targets(gradients.capture_nodes or ())
    _run_pass(gradients, lambda: accumulate(gradients, targets))
    last_pass.note(roots, targets is not None)


def run_grad(
    roots: Sequence[Root], *, retain_graph: bool, create_graph: bool, targets: Sequence[Vertex]
) -> dict[Vertex, Tensor]:
    """Send each root's gradient back; return what arrives at the nodes `targets`."""
    gradients = GraphTask(roots, retain_graph, create_graph, targets)
    gradients.capture_only = True
    return _run_pass(gradients, lambda: collect_captures(gradients))


class _RunningPasses(threading.local):
    """The backward passes that this thread is in, the innermost last: a node may start another."""

    def __init__(self) -> None:
        self.passes: list[GraphTask] = []


_running = _RunningPasses()


def _find_line() -> InstructionLocation:
    """Return the user's line that called for the pass that this thread runs, which is recorded."""
    line = _running.passes[-1].line if _running.passes else None
    return user_instruction(3) if line is None else line


recorded_pass.set(run_recorded_node.__code__, _find_line)
MAX_NESTED_PASSES = 40  # so many passes within each other fit in the frames that Python gives a thread


def _run_pass(gradients: GraphTask, finish: Callable[[], Result]) -> Result:
    """Run the whole pass, then `finish`, then the callbacks that were queued meanwhile."""
    passes = _running.passes
    if passes and len(passes) % MAX_NESTED_PASSES == 0 and not IN_BROWSER:
        return _run_pass_in_thread(gradients, finish, passes)
    depth, recording = len(passes), mode.recording
    try:
        passes.append(gradients)
        with np.errstate(all="ignore"):
            if recording is gradients.create_graph:
                result = _run_nodes_and_finish(gradients, finish)
                if mode.recording is not recording:  # a hook has set it
                    set_modes(recording=recording)
            else:
                switch_recording(gradients.create_graph)
                try:
                    result = _run_nodes_and_finish(gradients, finish)
                finally:
                    switch_recording(recording)
        return result
    except Exception as error:
        if mode.recording is not recording:
            set_modes(recording=recording)
        add_node_note(error, run_nodes.__code__)
        explanation_slot.call(error)
        raise
    except BaseException:  # Ctrl-C, perhaps just as the block was about to be left
        set_modes(recording=recording)
        raise
    finally:
        del passes[depth:]


def _run_nodes_and_finish(gradients: GraphTask, finish: Callable[[], Result]) -> Result:
    interpreter = None if gradients.on_arrays else mode.interpreter
    if interpreter is None or runs_user_code(gradients.input_buffers):
        deque(run_nodes(gradients), 0)
    else:
        interpreter.run_library_code(deque, run_nodes(gradients), 0)
    result = finish()
    for callback in gradients.callbacks:
        callback()
    return result


def _run_pass_in_thread(gradients: GraphTask, finish: Callable[[], Result], passes: list[GraphTask]) -> Result:
    """Call `_run_pass` in a thread with an empty stack, under the modes of this thread."""
    modes = {name: getattr(mode, name) for name in INHERITED_BY_THREADS}
    outcome: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        _running.passes = [passes[-1]]
        try:
            with ModeScope(**modes):
                outcome.append(_run_pass(gradients, finish))
        except BaseException as error:  # noqa: BLE001  it is raised again in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, name="backward")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]


@contextmanager
def pass_scope(gradients: GraphTask) -> Iterator[None]:
    """Count this pass, which the caller walks by itself, among those that run."""
    _running.passes.append(gradients)
    try:
        yield
    finally:
        _running.passes.pop()


def running_pass() -> GraphTask | None:
    """Return the backward pass that this thread is in, the innermost of several."""
    return _running.passes[-1] if _running.passes else None


def queue_callback(callback: Callable[[], object]) -> None:
    """Call `callback()` when the backward pass that is running has ended. Raises RuntimeError if none is."""
    if not _running.passes:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    _running.passes[-1].callbacks.append(callback)


def outermost_pass() -> GraphTask | None:
    """Return the backward pass that this thread is in, the outermost of several."""
    return _running.passes[0] if _running.passes else None


def call_at_end_of_all(callback: Callable[[], object]) -> None:
    """Call `callback()` when the outermost of the backward passes that run has ended."""
    _running.passes[0].callbacks.append(callback)


def is_leaf(node: Vertex) -> bool:
    """Return whether a node is that of a leaf."""
    return type(node) is Leaf


def run_nodes(gradients: GraphTask, stepwise: bool = False) -> Iterator[tuple[Vertex, Operand]]:
    """Run the nodes, newest first. `stepwise`: before each, yield it with its gradient.

    Without unrolling, one turn is: `node = heappop(ready)`, then for each parent `add_gradient(parent, d)` with the d
    of `call_node(gradients, node, g)`, and `heappush(ready, parent)` if it is the first to arrive there.
    """
    arrived, owned, useful, running = (
        gradients.input_buffers,
        gradients.owned_buffers,
        gradients.needed_nodes,
        gradients.exec_nodes,
    )
    # arrivals at leaves are captured when the walk is over
    watched = stepwise or not all(map(is_leaf, gradients.capture_nodes or ()))
    free, bare, where_masks = not gradients.retain_graph, gradients.on_arrays, gradients.where_masks
    pending = gradients.pending_edges
    watcher = mode.anomaly_detector if nondefault.count else None
    run = getattr(watcher, "pull", call_node)
    plain = bare and run is call_node
    recorded = gradients.create_graph and not (nondefault.count and mode.needs_slow_path)
    complex64, complex128 = COMPLEX_DTYPES
    ready = [(-node.sequence_nr, node) for node in arrived if type(node) is not Leaf]
    heapify(ready)
    node: Any = heappop(ready)[1] if ready else None
    while node is not None:
        g = arrived.pop(node)
        if watched or node.hooks is not None:
            g = gradients.run_tensor_hooks(node, g)
            if stepwise:
                yield node, g
            if running is not None and node not in running:
                node = heappop(ready)[1] if ready else None
                continue
        newest = None
        op = node.op
        mask = gradients.take_where_mask(node, g) if where_masks and node in where_masks else None
        if mask is not None and op is not None and not passes_masks(op):
            mask = None
        dtype = node.dtype
        # An op of real arrays, without hooks and masks. Plain code: the other branch. Unrolled are `call_node`,
        # `apply_rules`, `call_gradient_rule`, `rule_arguments` and `add_gradient`: for a product, 22 Python calls
        # become the two of its rules.
        if (
            plain
            and op is not None
            and op.fast_backward
            and node.hooks is None
            and mask is None
            and g is not UNDEFINED
            and dtype is not complex64
            and dtype is not complex128
        ):
            rules, positions, calls, saved = op.rules, op.saved_slots, op.rule_calls, node.saved_values
            if op.variadic:  # the last rule serves all further inputs
                further = len(node.parents) - len(rules)
                rules, positions = rules + rules[-1:] * further, positions + positions[-1:] * further
                calls = calls + calls[-1:] * further
            # Plain code: `saved = saved_arrays(gradients, node)`. Skipped if nothing was packed and no array written
            # since the node was made.
            if saved is not None and (type(saved) is not tuple or node.sequence_nr < mutation_log.last):
                saved = saved_arrays(gradients, node)
            i = -1
            for parent in node.parents:
                i += 1
                if parent is None or (useful is not None and parent not in useful):
                    continue
                rule = rules[i]
                if rule is None:
                    refuse_gradient(parent)
                # Plain code: `d = rule(g, *rule_arguments(node, rule, saved, i))`. `saved_slots` tells where the
                # rule's arguments stand in `saved_values`: an int for one, a tuple for several, None for any others.
                slots = positions[i]
                if type(slots) is int:
                    d = rule(g, saved[slots])
                elif slots is NO_SLOTS:
                    d = rule(g)
                else:
                    if slots is None and op.grad_slice is not None and parent in arrived:
                        gradients.add_slice_gradient(node, parent, g)
                        continue
                    d = (calls[i] or make_rule_call(op, i))(g, node, saved, i)
                if type(d) is not ndarray or d.dtype is not dtype:
                    d = recompute_typed(gradients, node, rule, d, g, i)
                if d.shape != parent.shape or parent.dtype is not dtype:
                    d = sum_to_input(gradients, d, parent)
                # Plain code: `if gradients.add_gradient(parent, d): heappush(ready, (-parent.sequence_nr, parent))`.
                # The first new parent is held back in `newest`: a chain then never touches the heap.
                have = arrived.get(parent)
                if have is None:
                    arrived[parent] = d
                    if type(parent) is Leaf:
                        continue
                    if newest is None:
                        newest = parent
                    else:
                        heappush(ready, (-parent.sequence_nr, parent))
                elif parent in owned:
                    have += d
                else:
                    gradients.add_gradient(parent, d)
            if free and saved is not None:
                node.saved_values = FREED
        elif (  # the same, with masks
            plain
            and isinstance(node, Node)
            and node.hooks is None
            and g is not UNDEFINED
            and type(g) is ndarray
            and dtype is not complex64
            and dtype is not complex128
        ):
            for parent in run_masked_node(gradients, node, g, mask):
                heappush(ready, (-parent.sequence_nr, parent))
            if free and node.saved_values is not None:
                node.saved_values = FREED
        elif type(node) is OutputSlot and not watched and mask is None and g is not UNDEFINED and run is call_node:
            owner = node.owner
            if (useful is None or owner in useful) and deliver_to_owner(gradients, node, g):
                heappush(ready, (-owner.sequence_nr, owner))
        elif recorded and can_run_recorded(node, g) and mask is None:
            for parent in run_recorded_node(gradients, node, g):
                heappush(ready, (-parent.sequence_nr, parent))
            if free and node.saved_values is not None:
                free_saved_values(node, keep_numbers=True)
        else:
            mask = mask.array() if type(mask) is MaskLink else mask
            if not bare:
                set_backward_origin(node)
            masks = (
                propagate_where_mask(gradients, node, mask)
                if mask is not None or (op is not None and op.where_mask)
                else None
            )
            for i, (parent, d) in enumerate(zip(node.parents, run(gradients, node, g, mask), strict=True)):
                if parent is None or (useful is not None and parent not in useful):
                    continue
                before = arrived.get(parent)
                first = gradients.add_gradient(parent, d)
                if masks is not None and masks[i] is not None:
                    blocked = masks[i]
                    gradients.block(parent, MaskLink.of_array(node, blocked) if bare else blocked, before)
                if first and type(parent) is not Leaf:
                    heappush(ready, (-parent.sequence_nr, parent))
            if free and type(node) is not OutputSlot and node.saved_values is not None:
                free_saved_values(node, keep_numbers=not bare)
        if pending:
            for parent in node.parents:
                if parent in pending:
                    pending[parent] -= 1
                    if not pending[parent]:
                        finish_hooked_leaf(gradients, parent)
        # Plain code: push `newest`, then pop. One heap operation instead of two; none if nothing else waits.
        if newest is None:
            node = heappop(ready)[1] if ready else None
        else:
            node = heappushpop(ready, (-newest.sequence_nr, newest))[1] if ready else newest
    if not bare:
        set_backward_origin(None)

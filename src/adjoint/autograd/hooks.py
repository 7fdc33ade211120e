"""Hooks on tensors: functions that see a gradient when it arrives."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary, ref

from adjoint.autograd.engine.engine import running_pass
from adjoint.autograd.engine.graph_task import GraphTask
from adjoint.core.graph.hooks import RemovableHandle, add_hook, hooks_of
from adjoint.core.graph.node import Leaf, OutputSlot, Vertex
from adjoint.core.runtime.fork_safety import reset_after_fork
from adjoint.core.tensor.tensor import Tensor, method

_lock = reset_after_fork(RLock())
_reached: WeakKeyDictionary[GraphTask, set[Vertex]] = WeakKeyDictionary()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn(gradients)` once a backward pass has computed the gradients of `tensors`: None for those it leaves out.

    With `mode="any"`, `fn(gradient)` gets the first that is computed. Raises RuntimeError for a tensor that does not
    require grad, ValueError for another mode.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        once = _FirstGradientHook(fn)
        return Handles([t.register_hook(once) for t in tensors if t.node is not None])
    for i, tensor in enumerate(tensors):
        if tensor.node is None:
            raise RuntimeError(f"register_multi_grad_hook: tensor {i} does not require grad")
    gathering = _AllGradientsHook(fn, [tensor.node for tensor in tensors if tensor.node is not None])
    hooks = [gathering.make_hook(i) for i in range(len(tensors))]
    return Handles([t.register_hook(h) for t, h in zip(tensors, hooks, strict=True)])


class Handles(RemovableHandle):
    """Takes several hooks off."""

    __slots__ = ("handles",)

    def __init__(self, handles: Iterable[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take them off; once they are, do nothing."""
        for handle in self.handles:
            handle.remove()


class _FirstGradientHook:
    """Passes on the first gradient of each pass."""

    __slots__ = ("fn", "seen")

    def __init__(self, fn: Callable[[Tensor], None]) -> None:
        self.fn = fn
        self.seen: WeakKeyDictionary[GraphTask, bool] = WeakKeyDictionary()

    def __call__(self, g: Tensor) -> None:
        walk = _current_pass()
        with _lock:
            seen = self.seen.get(walk, False)
            self.seen[walk] = True
        if not seen:
            self.fn(g)


class _AllGradientsHook:
    """The gradients of several tensors that have arrived, for each running pass."""

    __slots__ = ("fn", "nodes", "passes")

    def __init__(self, fn: Callable[[Sequence[Tensor | None]], None], nodes: list[Vertex]) -> None:
        self.fn = fn
        self.nodes = list(map(ref, nodes))  # the nodes hold the hooks, and these hold this
        self.passes: WeakKeyDictionary[GraphTask, tuple[list[Tensor | None], list[int]]] = WeakKeyDictionary()

    def make_hook(self, i: int) -> Callable[[Tensor], None]:
        """Return the hook of tensor i."""

        def receive_gradient(g: Tensor) -> None:
            walk = _current_pass()
            with _lock:
                if walk not in self.passes:
                    nodes = [node() for node in self.nodes]
                    will_run = _nodes_to_run(walk, nodes[i])
                    self.passes[walk] = ([None] * len(nodes), [sum(node in will_run for node in nodes)])
                gradients, missing = self.passes[walk]
                gradients[i] = g
                missing[0] -= 1
                complete = missing[0] == 0
            if complete:
                del self.passes[walk]
                self.fn(gradients)

        return receive_gradient


def _current_pass() -> GraphTask:
    walk = running_pass()
    if walk is None:
        raise RuntimeError("a hook on several gradients was called outside of a backward pass")
    return walk


def _nodes_to_run(walk: GraphTask, node: Vertex | None) -> set[Vertex]:
    """Return the nodes that the pass has still to run, `node` the one that is running."""
    reached = _reached.get(walk)
    if reached is None:
        reached = _reached[walk] = {vertex for vertex in (node, *walk.input_buffers) if vertex is not None}
        useful, stack = walk.needed_nodes, list(reached)
        while stack:
            for parent in stack.pop().parents:
                if parent is not None and parent not in reached and (useful is None or parent in useful):
                    reached.add(parent)
                    stack.append(parent)
    return reached


@method
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(gradient)` each time a gradient of this tensor is computed.

    A tensor that the hook returns replaces the gradient; after None it stays.

    Args:
        hook: function of the gradient that returns a tensor or None.

    Returns: a handle, whose `remove()` takes the hook off.

    Raises: RuntimeError for a tensor that does not require grad.

    Example:
        >>> x = ad.ones(2, requires_grad=True)
        >>> handle = x.register_hook(lambda g: 10 * g)
        >>> x.sum().backward()
        >>> x.grad
        tensor([10., 10.])
    """
    if self.node is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if type(self.node) is OutputSlot:  # the hook also learns that other outputs got gradients and this one none
        hooks_of(self.node.owner).outputs[self.node.number] = weakref.ref(self.node)
    return add_hook(hooks_of(self.node).tensor_pre_hooks, hook)


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook(tensor)` each time after a gradient was added to the `.grad` of this leaf.

    Raises RuntimeError for a tensor that does not require grad, or is no leaf.
    """
    if self.node is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if type(self.node) is not Leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return add_hook(hooks_of(self.node).post_accumulate_hooks, hook)

"""Functions that users attach to tensors, nodes and modules, and the handles that take them off again."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from adjoint.core.tensor import Tensor

Hook = Callable[..., Any]
HookDict = OrderedDict[int, Hook]
_next_id = count().__next__


class RemovableHandle:
    """Takes a hook off with `remove()`, or at the end of a `with` block. Holds the dictionary of hooks weakly."""

    __slots__ = ("_hooks", "id")

    def __init__(self, hooks: HookDict) -> None:
        self.id = _next_id()
        self._hooks = weakref.ref(hooks)

    def remove(self) -> None:
        """Take the hook off; once it is off, do nothing."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def attach(hooks: HookDict, hook: Hook) -> RemovableHandle:
    """Add `hook` after those that are there."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


class NodeHooks:
    """What was attached to one node, in the order in which it takes part when a gradient arrives.

    `on_gradient` see, and may replace, the gradient of one tensor; `retained_by` is the tensor that keeps it; `before`
    see the gradients of the node's outputs, `after` those of its inputs as well; `accumulated` see a leaf that got its
    own.
    """

    __slots__ = ("accumulated", "after", "before", "on_gradient", "retained_by")

    def __init__(self) -> None:
        self.on_gradient: HookDict = OrderedDict()
        self.retained_by: weakref.ref[Tensor] | None = None
        self.before: HookDict = OrderedDict()
        self.after: HookDict = OrderedDict()
        self.accumulated: HookDict = OrderedDict()


class Hooked:
    """A node that takes hooks."""

    __slots__ = ()
    hooks: NodeHooks | None

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` when the node has run; a tuple it returns replaces `grad_inputs`."""
        return attach(hooks_of(self).after, hook)

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(grad_outputs)` before the node runs; a tuple it returns replaces `grad_outputs`."""
        return attach(hooks_of(self).before, hook)


def hooks_of(node: Any) -> NodeHooks:
    """The node's hooks, made on first use."""
    if node.hooks is None:
        node.hooks = NodeHooks()
    hooks: NodeHooks = node.hooks
    return hooks

"""Functions that users attach to tensors, nodes and modules, and the handles that remove them."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from itertools import count
from types import BuiltinMethodType
from typing import TYPE_CHECKING, Any, Self

from adjoint.core.runtime.mode import guard_on, mode, nondefault
from adjoint.core.runtime.notebook import show_in_notebook
from adjoint.core.typing import Function

if TYPE_CHECKING:
    from adjoint.core.graph.tensor_like import TensorLike

Hook = Function
HookDict = OrderedDict[int, Hook]
Metadata = dict[Any, Any]  # what users keep with a node
_next_id = count().__next__


class RemovableHandle:
    """A handle that removes a hook: by `remove()`, or at the end of a `with` block. It holds the dictionary weakly.

    `extra_dict`: another dictionary, or a list of them, that may have an entry under the hook's id.
    """

    __slots__ = ("__weakref__", "extra_dict_ref", "hooks_dict_ref", "id")

    def __init__(
        self, hooks_dict: HookDict, *, extra_dict: OrderedDict[int, Any] | list[OrderedDict[int, Any]] | None = None
    ) -> None:
        self.id = _next_id()
        while self.id in hooks_dict:  # hooks that were unpickled keep the ids that another process gave them
            self.id = _next_id()
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        extra = extra_dict if isinstance(extra_dict, list) else [] if extra_dict is None else [extra_dict]
        self.extra_dict_ref = tuple(map(weakref.ref, extra))

    def remove(self) -> None:
        """Remove the hook. A second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            held = reference()
            if held is not None:
                held.pop(self.id, None)

    def __getstate__(self) -> tuple[object, ...]:
        return self.hooks_dict_ref(), self.id, tuple(reference() for reference in self.extra_dict_ref)

    def __setstate__(self, state: tuple[HookDict | None, int, tuple[HookDict | None, ...]]) -> None:
        hooks, self.id, extra = state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)  # the empty one is gone at once
        self.extra_dict_ref = tuple(weakref.ref(held) for held in extra if held is not None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def add_hook(hooks: HookDict, hook: Hook) -> RemovableHandle:
    """Append `hook` to the dictionary of hooks."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook if type(hook) is not BuiltinMethodType else ContainerMethodHook(hook)
    return handle


class ContainerMethodHook:
    """A hook like `seen.append`. A traced step is told of the container, in which the call would leave symbols."""

    __slots__ = ("hook",)

    def __init__(self, hook: BuiltinMethodType) -> None:
        self.hook = hook

    def __call__(self, *args: object) -> object:
        if nondefault.count and mode.interpreter is not None:
            mode.interpreter.note_container_write(self.hook.__self__)
        return self.hook(*args)


class NodeHooks:
    """The hooks of one node, in the order in which they run when a gradient arrives.

    `tensor_pre_hooks` see, and may replace, the gradient of one tensor; `retaining_tensor` is the tensor that keeps it;
    `before` see the gradients of the node's outputs, `after` those of its inputs as well; `post_accumulate_hooks` see a
    leaf that got its own; `outputs` are those of several that have hooks; `metadata` is the users' own.
    """

    __slots__ = (
        "after",
        "before",
        "metadata",
        "outputs",
        "post_accumulate_hooks",
        "retaining_tensor",
        "tensor_pre_hooks",
    )

    def __init__(self) -> None:
        self.outputs: dict[int, weakref.ref[Any]] = {}
        self.metadata: Metadata = {}
        self.tensor_pre_hooks: HookDict = OrderedDict()
        self.retaining_tensor: weakref.ref[TensorLike] | None = None
        self.before: HookDict = OrderedDict()
        self.after: HookDict = OrderedDict()
        self.post_accumulate_hooks: HookDict = OrderedDict()


class HookableNode:
    """A node that takes hooks."""

    __slots__ = ()
    hooks: NodeHooks | None

    def name(self) -> str:
        """The node's name, PyTorch's for the same op: `MulBackward0`."""
        return type(self).__name__

    @property
    def metadata(self) -> Metadata:
        """A dictionary in which users may keep data with the node."""
        return hooks_of(self).metadata

    _repr_html_ = show_in_notebook

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` when the node has run; a tuple it returns replaces `grad_inputs`."""
        return add_hook(hooks_of(self).after, hook)

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(grad_outputs)` before the node runs; a tuple it returns replaces `grad_outputs`."""
        return add_hook(hooks_of(self).before, hook)


# A backward pass counts what is to arrive at these, so that their hooks run as soon as it has.
hooked_leaves: weakref.WeakSet[HookableNode] = weakref.WeakSet()
hooked_leaf_references: set[object] = vars(hooked_leaves)["data"]  # which tells sooner whether there are any


def hook_ids_of(node: HookableNode) -> tuple[tuple[int, ...], ...]:
    """Return the ids of the hooks of a node."""
    hooks = node.hooks
    if hooks is None:
        return (), (), (), ()
    return tuple(map(tuple, (hooks.tensor_pre_hooks, hooks.before, hooks.after, hooks.post_accumulate_hooks)))


def guard_on_hooks(leaf: HookableNode) -> None:
    """Retrace the step when the hooks of a leaf, which run inside the step, change."""
    guard_on(leaf, hook_ids_of, "the hooks of a tensor")


def hooks_of(node: Any) -> NodeHooks:
    """Return the node's hooks, which are made on first use."""
    if not node.parents:
        guard_on_hooks(node)
    if node.hooks is None:
        node.hooks = NodeHooks()
        if not node.parents:
            hooked_leaves.add(node)
    return node.hooks

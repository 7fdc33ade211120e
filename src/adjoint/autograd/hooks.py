"""Hooks on tensors: functions that see a gradient when it arrives."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from adjoint.core.hooks import RemovableHandle, attach, hooks_of
from adjoint.core.node import Leaf, Output
from adjoint.core.tensor import Tensor, method


@method
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(gradient)` each time this tensor's gradient is computed; a tensor it returns replaces the gradient.

    Raises RuntimeError for a tensor that does not require grad.
    """
    if self.node is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if type(self.node) is Output:  # the hook also learns that other outputs got gradients and this one none
        hooks_of(self.node.owner).outputs[self.node.number] = weakref.ref(self.node)
    return attach(hooks_of(self.node).on_gradient, hook)


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call `hook(tensor)` each time after a gradient was added to the `.grad` of this leaf.

    Raises RuntimeError for a tensor that does not require grad, or is no leaf.
    """
    if self.node is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if type(self.node) is not Leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return attach(hooks_of(self.node).accumulated, hook)

"""The recorded graph: its nodes and edges, and hooks on what it keeps and on several gradients."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any

from adjoint.autograd.context import Context
from adjoint.autograd.edges import GradientEdge, get_gradient_edge
from adjoint.autograd.gathering import register_multi_grad_hook
from adjoint.autograd.mutation import allow_mutation_on_saved_tensors
from adjoint.autograd.saved import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from adjoint.core.hooks import Hook, Hooked, RemovableHandle
from adjoint.core.site import user_site
from adjoint.core.storage import mark_written
from adjoint.core.tensor import Tensor


class Node(abc.ABC):
    """What `isinstance(y.grad_fn, Node)` asks for: any node of the graph, and the ctx of a Function."""

    @abc.abstractmethod
    def name(self) -> str:
        """PyTorch's name for it: `MulBackward0`."""

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """For each input, the node that made it and the number of its output."""

    @property
    @abc.abstractmethod
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for whatever users want to attach."""

    @abc.abstractmethod
    def register_hook(self, fn: Hook) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` when the node has run; what it returns replaces `grad_inputs`."""

    @abc.abstractmethod
    def register_prehook(self, fn: Hook) -> RemovableHandle:
        """Call `fn(grad_outputs)` before the node runs; what it returns replaces `grad_outputs`."""


for _kind in (Hooked, Context):
    Node.register(_kind)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write into the memory of each tensor, for those who wrote it behind the library's back."""
    for written in (tensor,) if isinstance(tensor, Tensor) else tensor:
        mark_written(written, user_site())


__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip

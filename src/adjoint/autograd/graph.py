"""The recorded graph: its nodes and edges, and hooks on what it keeps and on several gradients."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any, NamedTuple

from adjoint.autograd.function.context import Context
from adjoint.autograd.hooks import register_multi_grad_hook
from adjoint.autograd.saved.copy_on_write import allow_mutation_on_saved_tensors
from adjoint.autograd.saved.hooks import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from adjoint.core.graph.hooks import Hook, HookableNode, Metadata, RemovableHandle
from adjoint.core.graph.node import Edge, Leaf, edge
from adjoint.core.graph.source_location import user_site
from adjoint.core.tensor.storage import mark_written
from adjoint.core.tensor.tensor import Tensor, wrap

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks"]
__all__ += ["get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu"]
__all__ += ["saved_tensors_hooks"]


class GradientEdge(NamedTuple):
    """Output `output_nr` of `node`. `grad` and `backward` take edges for tensors.

    `ownership_token` is what stands in the graph at this place.
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge along which the gradient of `tensor` arrives; later writes into the tensor do not change it.

    Raises RuntimeError for a tensor that does not require grad.
    """
    if tensor.node is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*edge(tensor.node), tensor.node)


def resolve_node(x: Tensor | GradientEdge) -> Any:
    """Return the node that stands in the graph for a tensor or an edge, None if none does.

    Raises: RuntimeError for an edge made by hand from a node whose outputs are not known by number.
    """
    if isinstance(x, Tensor):
        return x.node
    if x.ownership_token is not None:
        return x.ownership_token
    if hasattr(x.node, "output_node"):
        return x.node.output_node(x.output_nr)
    if getattr(x.node, "outputs", 1) > 1:
        raise RuntimeError(f"output {x.output_nr} of {x.node!r} is found by get_gradient_edge(tensor) only")
    return x.node


def accumulation_tensor(x: Tensor | GradientEdge) -> Tensor:
    """Return the tensor whose `.grad` gets the gradient; for an edge to a non-leaf, a hidden one."""
    if isinstance(x, Tensor):
        return x
    place = resolve_node(x)
    leaf = place.variable if type(place) is Leaf else None
    if isinstance(leaf, Tensor) and leaf.node is place:
        return leaf
    holder = wrap(None)
    holder.node = place
    return holder


class Node(abc.ABC):
    """Base class for `isinstance(y.grad_fn, Node)`: any node of the graph, and the ctx of a Function."""

    @abc.abstractmethod
    def name(self) -> str:
        """PyTorch's name for it: `MulBackward0`."""

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple[Edge, ...]:
        """Return for each input the node that made it and the number of its output."""

    @property
    @abc.abstractmethod
    def metadata(self) -> Metadata:
        """A dictionary for whatever users want to attach."""

    @abc.abstractmethod
    def register_hook(self, fn: Hook) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` when the node has run; what it returns replaces `grad_inputs`."""

    @abc.abstractmethod
    def register_prehook(self, fn: Hook) -> RemovableHandle:
        """Call `fn(grad_outputs)` before the node runs; what it returns replaces `grad_outputs`."""


for _kind in (HookableNode, Context):
    Node.register(_kind)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write into the memory of each tensor, for those who wrote it behind the library's back."""
    for written in (tensor,) if isinstance(tensor, Tensor) else tensor:
        mark_written(written, user_site())

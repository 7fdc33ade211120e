"""Edges of the recorded graph: where a gradient flows, whatever becomes of the tensor."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.core.node import Leaf, edge
from adjoint.core.tensor import Tensor, wrap


class GradientEdge(NamedTuple):
    """Output `output_nr` of `node`. `grad` and `backward` take edges for tensors.

    `ownership_token` is what stands in the graph at this place.
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge along which the gradient of `tensor` comes in; it stays what it is when the tensor is written in place.

    Raises RuntimeError for a tensor that does not require grad.
    """
    if tensor.node is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*edge(tensor.node), tensor.node)


def place_of(x: Tensor | GradientEdge) -> Any:
    """What stands in the graph for a tensor, None if nothing does, or for an edge.

    Raises RuntimeError for an edge that was put together by hand from a node whose outputs are not known by number.
    """
    if isinstance(x, Tensor):
        return x.node
    if x.ownership_token is not None:
        return x.ownership_token
    if hasattr(x.node, "made"):
        return x.node.made(x.output_nr)
    if getattr(x.node, "outputs", 1) > 1:
        raise RuntimeError(f"output {x.output_nr} of {x.node!r} is found by get_gradient_edge(tensor) only")
    return x.node


def holder_of(x: Tensor | GradientEdge) -> Tensor:
    """The tensor in which the gradient comes to rest; for an edge to a non-leaf, one that nobody sees."""
    if isinstance(x, Tensor):
        return x
    place = place_of(x)
    leaf = place.variable if type(place) is Leaf else None
    if leaf is not None and leaf.node is place:
        return leaf
    holder = wrap(None)
    holder.node = place
    return holder

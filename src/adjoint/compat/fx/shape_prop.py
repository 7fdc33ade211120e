"""`adjoint.fx.passes.shape_prop`: shapes and types of the values of a graph, found by running it."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compat.fx.immutable_collections import Argument, iterate_leaves
from adjoint.compat.fx.interpreter import Interpreter
from adjoint.compat.fx.node import Node, map_aggregate
from adjoint.core.dtype.dtype import dtype
from adjoint.core.tensor.memory_format import channels_last, channels_last_3d, contiguous_format, memory_format
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """Facts about a tensor without its elements."""

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Argument]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    formats = (contiguous_format, channels_last, channels_last_3d) if include_contiguity else ()
    facts: Argument = result
    order = next((each for each in formats if facts.is_contiguous(memory_format=each)), None)
    return TensorMetadata(facts.shape, facts.dtype, facts.requires_grad, facts.stride(), order, False, {})


class ShapeProp(Interpreter):
    """Interpreter that writes `meta["tensor_meta"]` and `meta["type"]` of each node.

    Example:
        >>> gm = ad.fx.symbolic_trace(lambda x: ad.relu(x).sum(0))
        >>> _ = ad.fx.passes.shape_prop.ShapeProp(gm).propagate(ad.ones(3, 4))
        >>> [tuple(node.meta["tensor_meta"].shape) for node in gm.graph.nodes]
        [(3, 4), (3, 4), (4,), (4,)]
    """

    def run_node(self, n: Node) -> Argument:
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        if any(isinstance(x, Tensor) for x in iterate_leaves((result,))):
            n.meta["tensor_meta"] = map_aggregate(
                result, lambda x: _extract_tensor_metadata(x) if isinstance(x, Tensor) else x
            )
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Argument) -> Argument:
        """Run the graph for these arguments, and return its result."""
        return self.run(*args)

"""A backward that is not itself differentiable."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.graph.hooks import NodeHooks
from adjoint.core.graph.node import Edge, GraphNode, Leaf, Parents, next_sequence_nr
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.runtime.mode import ModeScope, mode
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Function, Operand

if TYPE_CHECKING:
    from adjoint.autograd.function.context import Context


def once_differentiable(backward: Function) -> Function:
    """Above a `backward` that is not itself differentiable: to differentiate its gradients raises RuntimeError."""

    @wraps(backward)
    def call(ctx: Context, *grads: Any) -> Operand:
        with ModeScope(recording=False):
            result = backward(ctx, *grads)
        parents = tuple(g.node for g in grads if isinstance(g, Tensor) and g.node is not None)
        if not parents or not mode.recording:
            return result
        several = isinstance(result, tuple)
        results = result if several else (result,)
        pattern = tuple(isinstance(g, Tensor) for g in results)
        returned = tuple(_attach_error_node(g, parents, pattern) if isinstance(g, Tensor) else g for g in results)
        return returned if several else returned[0]

    return call


class NonDifferentiableBackward(GraphNode):
    """The node of a gradient that was computed by a once-differentiable backward: it cannot be walked."""

    __slots__ = (
        "__weakref__",
        "instruction_offset",
        "code",
        "dtype",
        "hooks",
        "sequence_nr",
        "parents",
        "pattern",
        "saved_values",
        "shape",
    )
    op = None
    code: CodeType
    hooks: NodeHooks | None

    def __init__(self, parents: Parents, pattern: tuple[bool, ...], g: Tensor) -> None:
        self.parents, self.pattern = parents, pattern
        self.shape, self.dtype = g.array.shape, g.array.dtype
        self.saved_values = self.hooks = None
        self.code, self.instruction_offset = user_instruction()
        self.sequence_nr = next_sequence_nr()

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """Return, as in PyTorch, a new leaf for each gradient that the backward returned: the graph ends here."""
        return tuple((Leaf(wrap(np.empty(0, self.dtype))) if tensor else None, 0) for tensor in self.pattern)

    def pull(self, arrived: Sequence[Tensor]) -> list[Any]:
        """Raise RuntimeError."""
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


NonDifferentiableBackward.__name__ = NonDifferentiableBackward.__qualname__ = "Error"


def _attach_error_node(g: Tensor, parents: Parents, pattern: tuple[bool, ...]) -> Tensor:
    refused = wrap(g.array)
    refused.node = NonDifferentiableBackward(parents, pattern, g)
    return refused

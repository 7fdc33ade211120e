"""The node in place of a gradient rule that an op does not have: it raises an error when backward reaches it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from adjoint.core.graph.node import Node, Vertex, next_sequence_nr
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from adjoint.core.op.op import Op


class Undifferentiable(Node):
    """A node between an op and an input that wants a gradient for which the op has no rule."""

    __slots__ = ()

    def __init__(self, op: Op, maker: Vertex, array: Operand) -> None:
        self.op = op
        self.parents = (maker,)
        self.params = self.shapes = self.saved_values = self.hooks = None
        self.shape, self.dtype = array.shape, array.dtype
        self.sequence_nr = next_sequence_nr()
        self.code, self.instruction_offset = user_instruction()


def refuse_gradient(node: Vertex | None) -> NoReturn:
    """Raise NotImplementedError, which is a RuntimeError: the op of an `Undifferentiable` has no such gradient."""
    assert isinstance(node, Undifferentiable)
    name = node.op.name
    raise NotImplementedError(
        f"the derivative for {name} is not implemented: no gradient rule for {name}, used at {node.site}"
    )

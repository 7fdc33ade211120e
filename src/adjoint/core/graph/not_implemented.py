"""The node in place of a gradient rule that an op does not have: it raises an error when backward reaches it."""

from __future__ import annotations

from typing import Any

from adjoint.core.graph.node import Node, next_sequence_nr
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.typing import Operand


class Undifferentiable(Node):
    """A node between an op and an input that wants a gradient for which the op has no rule."""

    __slots__ = ()

    def __init__(self, op: Any, maker: Any, array: Operand) -> None:
        self.op = op
        self.parents = (maker,)
        self.params = self.shapes = self.saved = self.hooks = None
        self.shape, self.dtype = array.shape, array.dtype
        self.order = next_sequence_nr()
        self.code, self.at = user_instruction()

    def refuse(self) -> None:
        """Raise NotImplementedError, which is a RuntimeError: the op has no such gradient."""
        name = self.op.name
        raise NotImplementedError(
            f"the derivative for {name} is not implemented: no gradient rule for {name}, used at {self.site}"
        )

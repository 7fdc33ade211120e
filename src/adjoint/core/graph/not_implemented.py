"""What stands in a graph where a gradient is wanted that no rule gives: it complains when the walk comes by."""

from __future__ import annotations

from typing import Any

from adjoint.core.graph.node import Node, next_sequence_nr
from adjoint.core.graph.source_location import user_instruction


class Undifferentiable(Node):
    """Stands between an op and an input for which it has no gradient rule, though a gradient is wanted there."""

    __slots__ = ()

    def __init__(self, op: Any, maker: Any, array: Any) -> None:
        self.op = op
        self.parents = (maker,)
        self.params = self.shapes = self.saved = self.hooks = None
        self.shape, self.dtype = array.shape, array.dtype
        self.order = next_sequence_nr()
        self.code, self.at = user_instruction()

    def refuse(self) -> None:
        """Raise NotImplementedError, which is a RuntimeError: the gradient that is asked for does not exist."""
        name = self.op.name
        raise NotImplementedError(
            f"the derivative for {name} is not implemented: no gradient rule for {name}, used at {self.site}"
        )

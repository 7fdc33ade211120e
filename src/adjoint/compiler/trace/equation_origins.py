"""Origins of the equations of a traced step: the user's line, the module that runs, the op whose gradient it is."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from adjoint.compiler.ir.graph import ValueOrigin
from adjoint.compiler.trace.untraced import without_frame_tracing
from adjoint.core.graph.node import next_sequence_nr
from adjoint.core.graph.source_location import user_site


class EquationOrigins:
    """The part of a tracer that tells the origin of each equation.

    A backward pass runs far from the lines of its forward pass: each forward equation is noted with its number in the
    order of the nodes, by which the equations of a node's gradient find it.
    """

    checkpoint: int

    def __init__(self) -> None:
        self._modules: list[str] = []
        self._sequence_nrs: list[int] = []
        self._origins: list[ValueOrigin] = []
        self._backward_origin: ValueOrigin | None = None

    def enter_module(self, name: str) -> None:
        self._modules.append(name)

    def leave_module(self) -> None:
        self._modules.pop()

    @without_frame_tracing
    def follow(self, node: Any) -> None:
        """Equations belong to the gradient of this node until told otherwise; None ends it."""
        if node is None or not self._sequence_nrs:
            self._backward_origin = None
            return
        at = bisect_left(self._sequence_nrs, getattr(node, "sequence_nr", 0)) - 1
        forward = self._origins[max(at, 0)]
        self._backward_origin = forward._replace(backward=True, of=node.op.name if node.op is not None else "")

    def origin(self) -> ValueOrigin:
        """Return the origin of the next equation."""
        if self._backward_origin is not None:
            return self._backward_origin
        origin = ValueOrigin(user_site(), ".".join(self._modules), False, checkpoint=self.checkpoint)
        self._sequence_nrs.append(next_sequence_nr())
        self._origins.append(origin)
        return origin

"""Origins of the equations of a traced step: the user's line, the module that runs, the op whose gradient it is."""

from __future__ import annotations

import sys
from bisect import bisect_left
from types import CodeType
from typing import Any

from adjoint.compiler.ir.graph import ValueOrigin
from adjoint.compiler.trace.untraced import without_frame_tracing
from adjoint.core.graph.node import next_sequence_nr
from adjoint.core.graph.source_location import Site, user_frame


class EquationOrigins:
    """The part of a tracer that tells the origin of each equation.

    A backward pass runs far from the lines of its forward pass: each forward equation is noted with its number in the
    order of the nodes, by which the equations of a node's gradient find it.
    """

    checkpoint: int

    def __init__(self) -> None:
        self._modules: list[str] = []
        self._path = ""  # of the modules, with dots
        self._places: dict[tuple[object, ...], tuple[CodeType, ValueOrigin]] = {}  # by instruction, path and block
        self._gradients: dict[tuple[int, str], ValueOrigin] = {}  # of these equations, by the op
        self._sequence_nrs: list[int] = []
        self._origins: list[ValueOrigin] = []
        self._backward_origin: ValueOrigin | None = None

    def enter_module(self, name: str) -> None:
        self._modules.append(name)
        self._path = ".".join(self._modules)

    def leave_module(self) -> None:
        self._modules.pop()
        self._path = ".".join(self._modules)

    @without_frame_tracing
    def follow(self, node: Any) -> None:
        """Equations belong to the gradient of this node until told otherwise; None ends it."""
        if node is None or not self._sequence_nrs:
            self._backward_origin = None
            return
        at = bisect_left(self._sequence_nrs, getattr(node, "sequence_nr", 0)) - 1
        forward, of = self._origins[max(at, 0)], node.op.name if node.op is not None else ""
        origin = self._gradients.get((id(forward), of))
        if origin is None:
            origin = self._gradients[id(forward), of] = forward._replace(backward=True, of=of)
        self._backward_origin = origin

    def origin(self) -> ValueOrigin:
        """Return the origin of the next equation: the same one for all turns of a loop."""
        if self._backward_origin is not None:
            return self._backward_origin
        frame = user_frame(sys._getframe(1))
        code = frame.f_code
        place = id(code), frame.f_lasti, self._path, self.checkpoint
        known = self._places.get(place)
        if known is None:
            site = Site(code.co_filename, frame.f_lineno, code.co_name)
            known = self._places[place] = code, ValueOrigin(site, self._path, False, checkpoint=self.checkpoint)
        self._sequence_nrs.append(next_sequence_nr())
        self._origins.append(known[1])
        return known[1]

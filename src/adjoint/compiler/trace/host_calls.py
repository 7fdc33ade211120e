"""Calls outside of a step's graph, as the tracer and the frame observer ask for them."""

from __future__ import annotations

from typing import Protocol

from adjoint.compiler.ir.graph import Value
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operand, Operands

MAX_DECIDED_ELEMENTS = 64  # of a tensor whose values, all of them, decide how a step goes on


class HostCalls(Protocol):
    """Answers what a step asks of the call that is traced, and calls what is no part of its graph."""

    def decide_values(self, tensor: Tensor, reader: str) -> Array:
        """Answer which values a small tensor has; what follows holds for these."""

    def call(self, function: Function, args: Operands, kwargs: dict[str, Operand] | None = None) -> Operand:
        """Call `function` once in each call of the step, with the values that its arguments have then."""


def can_decide(symbol: Value) -> bool:
    """True for a tensor small enough that all its values together can be an answer: of integers or truths."""
    return symbol.size <= MAX_DECIDED_ELEMENTS and symbol.dtype.kind in "biu"


def return_number(number: float) -> float:
    """Return the number: a call that makes an input of the program's arithmetic on late numbers."""
    return number

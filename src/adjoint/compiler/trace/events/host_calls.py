"""Calls outside of a step's graph: what becomes arithmetic of the program, and what each call makes anew."""

from __future__ import annotations

import math
from typing import Protocol

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.trace.frames.host_functions import (
    COMPUTES,
    CONVERSIONS,
    ORDERED_EFFECTS,
    SHOWS,
    TRUSTED_EFFECTS,
    HostFunction,
)
from adjoint.compiler.trace.frames.impure_calls import find_effect
from adjoint.compiler.trace.symbolic_number import NumberArithmetic, is_symbolic_number
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operand, Operands

MAX_DECIDED_ELEMENTS = 64  # of a tensor whose values, all of them, decide how a step goes on
QUESTIONS = (math.isfinite, math.isinf, math.isnan)  # which raise nothing


class HostCalls(Protocol):
    """Answers what a step asks of the call that is traced, and calls what is no part of its graph."""

    def decide_values(self, tensor: Tensor, reader: str) -> Array:
        """Answer which values a small tensor has; what follows holds for these."""

    @property
    def arithmetic(self) -> NumberArithmetic:
        """The step's arithmetic on Python numbers."""

    def call(
        self,
        function: Function,
        args: Operands,
        kwargs: dict[str, Operand] | None = None,
        is_replayed: bool = False,
        is_trusted: bool = False,
        is_ordered: bool = False,
        keeps_result: bool = True,
    ) -> Operand:
        """Call `function` once in each call of the step, with the values that its arguments have then."""


def can_decide(symbol: Value) -> bool:
    """True for a tensor small enough that all its values together can be an answer: of integers or truths."""
    return symbol.size <= MAX_DECIDED_ELEMENTS and symbol.dtype.kind in "biu"


def return_number(number: float) -> float:
    """Return the number: a call that makes an input of the program's arithmetic on late numbers."""
    return number


def call_for_step(events: HostCalls, host: HostFunction, args: Operands, kwargs: dict[str, Operand]) -> Operand:
    """The result of a host function in a traced step."""
    function, effect = host.function, host.effect
    if effect == COMPUTES:
        return _compute(events, host, args) if not kwargs else function(*args, **kwargs)
    if effect != SHOWS and find_effect(function, args) is None:  # the time of a moment that is given
        return function(*args, **kwargs)
    return events.call(
        function,
        args,
        kwargs,
        is_replayed=True,
        is_trusted=effect in TRUSTED_EFFECTS,
        is_ordered=effect in ORDERED_EFFECTS,
        keeps_result=effect != SHOWS,
    )


def _compute(events: HostCalls, host: HostFunction, args: Operands) -> Operand:
    """The result of a function of numbers: a line of arithmetic, or, where that may raise in a call, a call."""
    function, arithmetic = host.function, events.arithmetic
    numbers = tuple([x.item() if isinstance(x, Tensor) and x.numel() == 1 else x for x in args])
    symbols = [x for x in numbers if is_symbolic_number(x)]
    if not symbols:
        return function(*args)
    needs = tuple(x.name for x in symbols)
    may_raise = function not in QUESTIONS and not (function is float or type(symbols[0].value) is int is function)
    if arithmetic.is_asked(needs) and may_raise:
        return events.call(function, numbers)
    values = [x.value if is_symbolic_number(x) else x for x in numbers]
    name = function.__name__ if function in CONVERSIONS else f"__import__('math').{function.__name__}"
    code = ", ".join(x.name if is_symbolic_number(x) else repr(x) for x in numbers)
    return arithmetic.derive(f"{name}({code})", needs, function(*values))

"""Calls of host functions in a traced step: what becomes arithmetic of the program, and what each call makes anew."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from adjoint.compiler.trace.frames.host_functions import (
    COMPUTES,
    CONVERSIONS,
    ORDERED_EFFECTS,
    SHOWS,
    TRUSTED_EFFECTS,
    HostFunction,
)
from adjoint.compiler.trace.frames.impure_calls import find_effect
from adjoint.compiler.trace.symbolic_number import is_symbolic_number
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands

if TYPE_CHECKING:
    from adjoint.compiler.trace.step_events import StepEvents

QUESTIONS = (math.isfinite, math.isinf, math.isnan)  # which raise nothing


def call_for_step(events: StepEvents, host: HostFunction, args: Operands, kwargs: dict[str, Operand]) -> Operand:
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


def _compute(events: StepEvents, host: HostFunction, args: Operands) -> Operand:
    """The result of a function of numbers: a line of arithmetic, or, where that may raise in a call, a call."""
    function, arithmetic = host.function, events.tracer.arithmetic
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

"""Calls outside of a step's graph: what becomes arithmetic of the program, and what each call makes anew."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from adjoint.compiler.ir.symbolic_size import SymbolicSize, as_number, is_symbolic_size
from adjoint.compiler.trace.events.host_arrays import HostArray
from adjoint.compiler.trace.frames.host_functions import (
    CHOICES,
    COMPUTES,
    CONVERSIONS,
    CONVERTS,
    ORDERED_EFFECTS,
    SHOWS,
    TRUSTED_EFFECTS,
    HostFunction,
)
from adjoint.compiler.trace.frames.impure_calls import find_effect
from adjoint.compiler.trace.numbers.number_text import is_late_text
from adjoint.compiler.trace.numbers.symbolic_number import NumberArithmetic, SymbolicNumber, is_symbolic_number
from adjoint.core.runtime import pytree
from adjoint.core.tensor.printing import format_tensor
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Function, Operand, Operands

QUESTIONS = (math.isfinite, math.isinf, math.isnan)  # which raise nothing


class HostCalls(Protocol):
    """Answers what a step asks of the call that is traced, and calls what is no part of its graph."""

    def show_values(self, tensor: Tensor, reader: str) -> Array:
        """Return an array that each call computes on, or the values of a few integers in the call that is traced."""

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
        is_sized: bool = False,
    ) -> Operand:
        """Call `function` once in each call of the step, with the values that its arguments have then."""


def return_number(number: float) -> float:
    """Return the number: a call that makes an input of the program's arithmetic on late numbers."""
    return number


def call_for_step(events: HostCalls, host: HostFunction, args: Operands, kwargs: dict[str, Operand]) -> Operand:
    """The result of a host function in a traced step."""
    function, effect = host.function, host.effect
    if effect == COMPUTES:
        return _compute(events, host, args) if not kwargs else function(*args, **kwargs)
    if effect == CONVERTS:
        return _make_array(events, function, args, kwargs)
    if function.__name__ == "shuffle" and args and is_list_of_numbers(args[0]):
        args[0][:] = events.call(return_shuffled, (function, list(args[0])), is_replayed=True, is_trusted=True)
        return None
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
        is_sized=holds_sizes((args, kwargs)),
    )


def _make_array(events: HostCalls, function: Function, args: Operands, kwargs: dict[str, Operand]) -> Operand:
    """The result of a function that makes an array of what it is given."""
    if not args or not holds_symbols(args[0]):
        return function(*args, **kwargs)
    first = args[0].numpy() if isinstance(args[0], Tensor) else args[0]
    if type(first) is HostArray and len(args) == 1 and not kwargs and function is not np.array:
        return first
    return events.call(function, (first, *args[1:]), kwargs)


def show_tensor(events: HostCalls | None, tensor: Tensor) -> str:
    """The text of a tensor: one that stands for it where the instruction makes a text that nobody looks into."""
    if events is None or not events.arithmetic.texts.are_shown:
        return format_tensor(wrap(tensor.numpy_view("str()")))  # the step must not keep what the text would be
    events.arithmetic.texts.are_shown = False  # what shows it is a call
    try:
        return str.__str__(events.call(repr, (tensor,), is_trusted=True))
    finally:
        events.arithmetic.texts.are_shown = True


def is_list_of_numbers(x: object) -> bool:
    """True for a list in which there are but Python numbers, those that each call computes among them."""
    return type(x) is list and all(type(part) in (bool, int, float) or is_symbolic_number(part) for part in x)


def return_shuffled(shuffle: Function, numbers: list[float]) -> list[float]:
    """Return a list with the same numbers, shuffled."""
    found = list(numbers)
    shuffle(found)
    return found


def _compute(events: HostCalls, host: HostFunction, args: Operands) -> Operand:
    """The result of a function of numbers: a line of arithmetic, or, where that may raise in a call, a call."""
    function, arithmetic = host.function, events.arithmetic
    kinds = {type(x.value) if is_symbolic_number(x) else type(x) for x in args}
    if function in CHOICES and not (len(args) > 1 and kinds in ({int}, {float})):
        return function(*args)
    if function is len:
        return args[0].shape[0] if len(args) == 1 and isinstance(args[0], Tensor) and args[0].shape else len(*args)
    if function is int and len(args) == 1 and is_symbolic_size(args[0]):
        return args[0]
    numbers = tuple([x.item() if isinstance(x, Tensor) and x.numel() == 1 else as_number(x) for x in args])
    symbols = [x for x in numbers if is_symbolic_number(x)]
    if not symbols:
        return function(*args)
    needs = tuple(x.name for x in symbols)
    if function in CHOICES and not arithmetic.is_asked(needs):
        return function(*args)
    may_raise = function not in (*QUESTIONS, *CHOICES, float)
    may_raise = may_raise and not type(symbols[0].value) is int is function
    if arithmetic.is_asked(needs) and may_raise:
        return events.call(function, numbers)
    values = [x.value if is_symbolic_number(x) else x for x in numbers]
    is_builtin = function in CONVERSIONS or function in CHOICES
    name = function.__name__ if is_builtin else f"__import__('math').{function.__name__}"
    code = ", ".join(x.name if is_symbolic_number(x) else repr(x) for x in numbers)
    return arithmetic.derive(f"{name}({code})", needs, function(*values))


def holds_symbols(value: Operand) -> bool:
    """True if something in a tree has no value while a step is traced."""
    leaves: Iterable[Operand] = pytree.flatten(value)[0]
    kinds = (Tensor, SymbolicNumber, SymbolicSize)
    return any(isinstance(x, kinds) or is_symbolic_number(x) or is_late_text(x) for x in leaves)


def holds_sizes(value: Operand) -> bool:
    """True if something in a tree is a symbolic size."""
    return any(map(is_symbolic_size, pytree.flatten(value)[0]))

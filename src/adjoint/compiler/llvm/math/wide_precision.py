"""Evaluation in another precision than the argument's, or by the C library.

A float32 function evaluated in float64 with a polynomial good to 1e-8 is within 0.75 ulp, without any care for the
order of its additions: the short way to write all but the functions that training spends its time in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from adjoint.compiler.llvm.memory import Memory
from adjoint.compiler.llvm.types import F32, F64, Reg


def elementary(function: Callable[[Memory, Reg], Reg]) -> Callable[[Memory, Reg], Reg]:
    """A function of one float; TypeError for anything else."""

    @wraps(function)
    def call_checked(b: Memory, x: Reg) -> Reg:
        if not x.type.is_float:
            raise TypeError(f"{function.__name__}: needs floats, got {x.type}")
        return function(b, x)

    return call_checked


def computed_in_float64(function: Callable[[Memory, Reg], Reg]) -> Callable[[Memory, Reg], Reg]:
    """A function of one float from one of float64 that is good enough for float32; of float64 the C library's."""

    @elementary
    @wraps(function)
    def call_widened(b: Memory, x: Reg) -> Reg:
        return library(b, function.__name__, x) if x.type.bits == 64 else narrow(b, function(b, widen(b, x)))

    return call_widened


def parse_coefficients(text: str) -> tuple[float, ...]:
    """Return the numbers of a table in text."""
    return tuple(map(float, text.split()))


def widen(b: Memory, x: Reg) -> Reg:
    """float32 as float64, where no float32 is denormal."""
    return b.cast(x, F64)


def narrow(b: Memory, x: Reg) -> Reg:
    """float64 rounded to float32."""
    return b.cast(x, F32)


def library(b: Memory, name: str, *arguments: Reg) -> Reg:
    """The C library's float64 function, called for each lane."""
    lanes = arguments[0].type.lanes
    result = b.constant(0.0, F64.of(lanes))
    for lane in range(lanes):
        value = b.external(name, [b.extract(argument, lane) for argument in arguments], F64)
        result = b.insert(result, value, lane)
    return result

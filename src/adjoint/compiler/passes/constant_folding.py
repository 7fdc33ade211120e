"""Constant folding: equations of constants are computed at once, and values that repeat one number are literals."""

from __future__ import annotations

import math

import numpy as np

from adjoint.compiler.ir.graph import Constant, Value
from adjoint.compiler.ir.interpreter import ELEMENTWISE_FAMILIES, evaluate_equation
from adjoint.compiler.ir.symbolic_size import has_symbols
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.typing import Operand, Operands

MAX_FOLDED_ELEMENTS = 1 << 16  # elements of what is computed, or read, before a program runs
SPLAT_PRESERVING_OPS = ("expand", "reshape", "permute")
OPS_WITH_LITERALS = frozenset(
    {"add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "where"}
)


def fold_constant(value: Value) -> Operand:
    """The array that an equation of constants gives, as the reference executor has it; None if it is not one.

    None too for effects, errors, and where many elements would be kept in place of few.
    """
    operands = value.operands
    if not operands or type(operands[0].source) is not Constant or value.op.effect:
        return None
    if not all(isinstance(x.source, Constant) for x in operands):
        return None
    if (
        has_symbols(value.shape)
        or value.size > max(1, *(x.size for x in operands))
        or sum(x.size for x in operands) > MAX_FOLDED_ELEMENTS
    ):
        return None
    try:
        return np.array(evaluate_equation(value, {x: x.source.array for x in operands}), order="C")
    except (ValueError, TypeError, IndexError, RuntimeError, OverflowError):
        return None  # the program raises it, when it runs


def simplify_inputs(value: Value) -> Operands:
    """The inputs of an elementwise equation: numbers for what repeats one, nothing expanded that broadcasts anyway."""
    if value.op.family not in ELEMENTWISE_FAMILIES:
        return value.inputs
    inputs, changed = list(value.inputs), False
    for i, x in enumerate(inputs):
        if not isinstance(x, Value):
            continue
        if not (x.source is not None if x.op is None else x.op.name in SPLAT_PRESERVING_OPS or x.op.family == "full"):
            continue  # neither a number that repeats nor expanded, as most values are
        number = _find_literal(value, i, inputs) if value.op.name in OPS_WITH_LITERALS else None
        narrow = number if number is not None else x.inputs[0] if x.op is not None and x.op.name == "expand" else x
        shapes = (y.shape for y in [*inputs[:i], narrow, *inputs[i + 1 :]] if isinstance(y, Value))
        if narrow is not x and broadcast_shapes(*shapes) == value.shape:
            inputs[i] = narrow
            changed = True
    return tuple(inputs) if changed else value.inputs


def _find_literal(value: Value, i: int, inputs: list[Operand]) -> float | None:
    """The number that input `i` repeats, where the equation gives it the same type as a literal."""
    x = inputs[i]
    if value.op.name == "where":
        typed = i > 0 and x.dtype == value.dtype
    else:
        typed = any(isinstance(y, Value) and y.dtype == x.dtype for j, y in enumerate(inputs) if j != i)
    return splat_value(x) if typed and x.dtype.kind in "fiu" else None


def splat_value(value: Value) -> float | None:
    """The finite number that all elements of a value are; None if that is not known."""
    while value.op is not None and value.op.name in SPLAT_PRESERVING_OPS:
        value = value.inputs[0]
    if value.op is not None and value.op.family == "full":
        number = np.full((), value.params["value"], value.dtype).item()
    elif isinstance(value.source, Constant) and value.size == 1:
        number = value.source.array.item()
    else:
        return None
    return number if not isinstance(number, complex) and math.isfinite(number) else None

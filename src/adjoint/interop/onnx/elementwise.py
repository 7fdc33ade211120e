"""Translation of the ops of single elements."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.typing import NumpyDtype
from adjoint.interop.onnx.free_numbers import TracedValue
from adjoint.interop.onnx.graph_writer import OnnxWriter
from adjoint.interop.onnx.translation import BOOL, INT32, Calculator, operand_kind, translates

# ops that are one node
DIRECT = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "add": "Add",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "ceil": "Ceil",
    "conj": "Identity",
    "copy": "Identity",
    "copy_in_order": "Identity",
    "cos": "Cos",
    "cosh": "Cosh",
    "detach": "Identity",
    "div": "Div",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "maximum": "Max",
    "minimum": "Min",
    "mul": "Mul",
    "neg": "Neg",
    "pow": "Pow",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "round": "Round",
    "sgn": "Sign",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "sub": "Sub",
    "tan": "Tan",
    "tanh": "Tanh",
}
# of bools, which ONNX has no arithmetic of
OF_BOOLS = {
    "add": "Or",
    "mul": "And",
    "maximum": "Or",
    "minimum": "And",
    "bitwise_and": "And",
    "bitwise_or": "Or",
    "bitwise_xor": "Xor",
    "bitwise_not": "Not",
    "ne": "Xor",
}
COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
BITWISE = {
    "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
    "bitwise_not": "BitwiseNot",
}
LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not"}


@translates(*DIRECT, *BITWISE)
def translate_direct(w: OnnxWriter, value: TracedValue) -> str:
    """One node."""
    names, inputs = (OF_BOOLS, DIRECT | BITWISE)[operand_kind(value) != BOOL], w.operands(value)
    kind = names.get(value.name) or DIRECT[value.name]
    if len(inputs) == 1 and operand_kind(value).kind in "iub" and kind in ("Ceil", "Floor", "Round"):
        kind = "Identity"
    return w.node(kind, *inputs)


@translates(*COMPARISONS, "ne")
def translate_comparison(w: OnnxWriter, value: TracedValue) -> str:
    """A comparison; bools are compared as integers, and `ne` is the contrary of `eq`."""
    inputs = w.operands(value)
    if operand_kind(value) == BOOL and value.name not in ("eq", "ne"):
        inputs = [w.cast(x, INT32) for x in inputs]
    if value.name == "ne":
        return w.chain(w.node("Equal", *inputs), "Not")
    return w.node(COMPARISONS[value.name], *inputs)


@translates(*LOGICAL)
def translate_logic(w: OnnxWriter, value: TracedValue) -> str:
    """Logic of truths: numbers are true where they are not 0."""
    dtypes = [operand_kind(value, i) for i in range(len(value.inputs))]
    inputs = [x if dtype == BOOL else w.cast(x, BOOL) for x, dtype in zip(w.operands(value), dtypes, strict=True)]
    return w.node(LOGICAL[value.name], *inputs)


@translates("cast")
def translate_cast(w: OnnxWriter, value: TracedValue) -> str:
    """Conversion."""
    return w.cast(w.operand(value, 0), value.dtype)


@translates("where")
def translate_where(w: OnnxWriter, value: TracedValue) -> str:
    """Choice; of bools by logic, since runtimes choose between numbers only."""
    condition, x, y = w.operands(value)
    if value.dtype != BOOL:
        return w.node("Where", condition, x, y)
    return w.node("Or", w.node("And", condition, x), w.node("And", w.chain(condition, "Not"), y))


def _formula(value: TracedValue, c: Calculator, x: str, y: str) -> str:
    """Return the result of an op that is composed: of x, or of x and y."""
    match value.name:
        case "square":
            return c("Mul", x, x)
        case "rsqrt":
            return c("Reciprocal", c("Sqrt", x))
        case "trunc":
            return c.truncate(x)
        case "frac":
            return c("Sub", x, c.truncate(x))
        case "exp2":
            return c("Pow", 2.0, x)
        case "expm1":
            return c.expm1(x)
        case "log1p":
            return c.log1p(x)
        case "log2":
            return c("Mul", c("Log", x), 1.0 / math.log(2.0))
        case "log10":
            return c("Mul", c("Log", x), 1.0 / math.log(10.0))
        case "isinf":
            return c("IsInf", x)
        case "isfinite":
            return c("Not", c("Or", c("IsInf", x), c("IsNaN", x)))
        case "erfc":
            return c("Sub", 1.0, c("Erf", x))
        case "sinc":
            angle = c("Mul", x, math.pi)
            is_zero = c("Equal", x, 0.0)
            return c("Where", is_zero, 1.0, c("Div", c("Sin", angle), c("Where", is_zero, 1.0, angle)))
        case "signbit":
            return c.is_negative(x)
        case "angle":
            return c("Where", c("IsNaN", x), x, c("Where", c("Less", x, 0.0), math.pi, 0.0))
        case "entr":
            inside = c("Neg", c("Mul", x, c("Log", c("Where", c("Greater", x, 0.0), x, 1.0))))
            return c("Where", c("Less", x, 0.0), -math.inf, c("Where", c("IsNaN", x), x, inside))
        case "entropy":
            logarithms = (c("Max", c("Log", x), -100.0), c("Max", c.log1p(c("Neg", x)), -100.0))
            return c("Neg", c("Add", c("Mul", y, logarithms[0]), c("Mul", c("Sub", 1.0, y), logarithms[1])))
        case "atan2":
            half = c("Where", c.is_negative(x), -math.pi, math.pi)
            quotient = c("Atan", c("Div", x, c("Where", c("Equal", y, 0.0), 1.0, y)))
            beside = c("Mul", c("Sign", x), math.pi / 2)
            moved = c("Where", c.is_negative(y), c("Add", quotient, half), quotient)
            is_upright = c("And", c("Equal", y, 0.0), c("Not", c("Equal", x, 0.0)))
            return c("Where", is_upright, beside, moved)
        case "hypot":
            return c("Sqrt", c("Add", c("Mul", x, x), c("Mul", y, y)))
        case "logaddexp":
            larger, distance = c("Max", x, y), c("Neg", c("Abs", c("Sub", x, y)))
            farther = c("Add", larger, c.log1p(c("Exp", distance)))
            return c("Where", c("Equal", x, y), c("Add", x, math.log(2.0)), farther)
        case "xlogy":
            is_zero = c("And", c("Equal", x, 0.0), c("Not", c("IsNaN", y)))
            return c("Where", is_zero, 0.0, c("Mul", x, c("Log", c("Where", is_zero, 1.0, y))))
        case "xlog1py":
            is_zero = c("And", c("Equal", x, 0.0), c("Not", c("IsNaN", y)))
            return c("Where", is_zero, 0.0, c("Mul", x, c.log1p(c("Where", is_zero, 1.0, y))))
        case "copysign":
            size = c("Abs", x)
            return c("Where", c.is_negative(y), c("Neg", size), size)
        case "heaviside":
            step = c("Where", c("Less", x, 0.0), 0.0, c("Where", c("Equal", x, 0.0), y, 1.0))
            return c("Where", c("IsNaN", x), x, step)
        case "fmax":
            return c("Where", c("IsNaN", x), y, c("Where", c("IsNaN", y), x, c("Max", x, y)))
        case "fmin":
            return c("Where", c("IsNaN", x), y, c("Where", c("IsNaN", y), x, c("Min", x, y)))
    raise AssertionError(value.name)


FORMULAS = """
    angle atan2 copysign entr entropy erfc exp2 expm1 fmax fmin frac heaviside hypot isfinite isinf log10 log1p log2
    logaddexp rsqrt signbit sinc square trunc xlog1py xlogy
"""


@translates(*FORMULAS.split())
def translate_formula(w: OnnxWriter, value: TracedValue) -> str:
    """A formula of several nodes; of integers, some ops are trivial."""
    x, y = (*w.operands(value), "")[:2]
    dtype = operand_kind(value)
    if dtype.kind in "iub" and value.name in ("trunc", "isinf", "isfinite", "isnan", "signbit", "frac"):
        return _translate_of_integers(w, value, x, dtype)
    return _formula(value, Calculator(w, dtype), x, y)


def _translate_of_integers(w: OnnxWriter, value: TracedValue, x: str, dtype: NumpyDtype) -> str:
    c = Calculator(w, dtype)
    match value.name:
        case "trunc":
            return c("Identity", x)
        case "signbit":
            return c("Less", x, 0)
        case "frac":
            return c("Sub", x, x)
    is_equal = c("Equal", x, x)
    return is_equal if value.name == "isfinite" else w.chain(is_equal, "Not")


@translates("isnan")
def translate_isnan(w: OnnxWriter, value: TracedValue) -> str:
    """Test of a float for NaN; no integer is."""
    x, dtype = w.operand(value, 0), operand_kind(value)
    if dtype.kind in "iub":
        return _translate_of_integers(w, value, x, dtype)
    return w.node("IsNaN", x)


@translates("floor_divide", "remainder")
def translate_division(w: OnnxWriter, value: TracedValue) -> str:
    """The quotient rounded down, or what remains, with the sign of the divisor."""
    x, y = w.operands(value)
    c = Calculator(w, operand_kind(value))
    if c.dtype.kind in "iu":
        rest = c("Mod", x, y)
        return rest if value.name == "remainder" else c("Div", c("Sub", x, rest), y)
    if value.name == "floor_divide":
        return c("Floor", c("Div", x, y))
    rest = w.node("Mod", x, y, fmod=1)
    is_other = c("And", c("Not", c("Equal", rest, 0.0)), c("Less", c("Mul", c("Sign", rest), c("Sign", y)), 0.0))
    return c("Where", is_other, c("Add", rest, y), rest)


@translates("fmod")
def translate_fmod(w: OnnxWriter, value: TracedValue) -> str:
    """The remainder of a quotient rounded towards 0."""
    return w.node("Mod", *w.operands(value), fmod=1)


@translates("bitwise_left_shift", "bitwise_right_shift")
def translate_shift(w: OnnxWriter, value: TracedValue) -> str:
    """A product with a power of two, or the quotient rounded down: ONNX shifts unsigned integers only."""
    x, y = w.operands(value)
    c = Calculator(w, operand_kind(value))
    power = c("Pow", 2, y)
    if value.name == "bitwise_left_shift":
        return c("Mul", x, power)
    return c("Div", c("Sub", x, c("Mod", x, power)), power)


@translates("logit")
def translate_logit(w: OnnxWriter, value: TracedValue) -> str:
    """ln(x / (1 - x)), of x limited to [eps, 1 - eps]."""
    c, x, eps = Calculator(w, value.dtype), w.operand(value, 0), value.params["eps"]
    if eps is not None:
        x = c("Max", c("Min", x, 1.0 - eps), eps)
    return c("Log", c("Div", x, c("Sub", 1.0, x)))


@translates("threshold")
def translate_threshold(w: OnnxWriter, value: TracedValue) -> str:
    """x where it is above the threshold, else a value."""
    c, x = Calculator(w, value.dtype), w.operand(value, 0)
    return c("Where", c("LessOrEqual", x, value.params["threshold"]), value.params["value"], x)


@translates("nan_to_num")
def translate_nan_to_num(w: OnnxWriter, value: TracedValue) -> str:
    """x with numbers in place of NaN and infinities."""
    c, x, params = Calculator(w, value.dtype), w.operand(value, 0), value.params
    if value.dtype.kind != "f":
        return c("Identity", x)
    limits = np.finfo(value.dtype)
    high = float(limits.max) if params["posinf"] is None else params["posinf"]
    low = float(limits.min) if params["neginf"] is None else params["neginf"]
    ended = c("Where", c("Equal", x, math.inf), high, c("Where", c("Equal", x, -math.inf), low, x))
    return c("Where", c("IsNaN", x), params["nan"] or 0.0, ended)

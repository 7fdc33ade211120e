"""Translation of the ops that make elements; random ones are others than here, of the same distributions."""

from __future__ import annotations

import numpy as np

from adjoint.core.typing import Operand
from adjoint.interop.onnx.free_numbers import TracedValue, has_free_number, pointwise
from adjoint.interop.onnx.graph_writer import INT64, OnnxWriter
from adjoint.interop.onnx.translation import Calculator, translates


@translates("full")
def translate_full(w: OnnxWriter, value: TracedValue) -> str:
    """One number everywhere."""
    fill = w.number(value.params["value"], value.dtype, value)
    return w.node("Expand", fill, w.integers(value.shape, value))


@translates("iota")
def translate_iota(w: OnnxWriter, value: TracedValue) -> str:
    """start, start + step, …: counted in integers, and scaled where these are not whole."""
    count, start, step = (value.params[key] for key in ("count", "start", "step"))
    numbers = w.node("Range", *(w.number(n, INT64, value) for n in (0, count, 1)))
    if (start, step) == (0, 1):
        return numbers if value.dtype == INT64 else w.cast(numbers, value.dtype)
    is_whole = not has_free_number((start, step)) and float(start).is_integer() and float(step).is_integer()
    dtype = INT64 if is_whole else np.dtype(np.float64)
    numbers = numbers if is_whole else w.cast(numbers, dtype)
    scaled = w.node("Mul", numbers, w.number(step, dtype, value))
    moved = w.node("Add", scaled, w.number(start, dtype, value))
    return moved if value.dtype == dtype else w.cast(moved, value.dtype)


@translates("even_steps")
def translate_even_steps(w: OnnxWriter, value: TracedValue) -> str:
    """Numbers from a start to an end at even distances, computed in float64."""
    wide = np.dtype(np.float64)
    start, end = (w.cast(x, wide) for x in w.operands(value))
    steps = value.params["steps"]
    numbers = w.cast(w.node("Range", *(w.number(n, INT64, value) for n in (0, steps, 1))), wide)
    intervals = pointwise(lambda n: max(n - 1, 1), steps)
    share = w.node("Div", numbers, w.number(intervals, wide, value))
    moved = w.node("Add", start, w.node("Mul", w.node("Sub", end, start), share))
    return w.cast(moved, value.dtype)


def draw(w: OnnxWriter, kind: str, value: TracedValue, **settings: Operand) -> str:
    """Append a node that draws numbers of the shape and type of a value."""
    from onnx import helper

    dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
    if not has_free_number(value.shape):
        return w.node(kind, shape=list(value.shape), dtype=dtype, **settings)
    zeros = w.node("Expand", w.scalar(0, value.dtype), w.integers(value.shape, value))
    return w.node(f"{kind}Like", zeros, dtype=dtype, **settings)


@translates("uniform")
def translate_uniform(w: OnnxWriter, value: TracedValue) -> str:
    """Uniform numbers."""
    return draw(w, "RandomUniform", value, low=float(value.params["low"]), high=float(value.params["high"]))


@translates("normal", "serial_normal")
def translate_normal(w: OnnxWriter, value: TracedValue) -> str:
    """Normal numbers."""
    return draw(w, "RandomNormal", value, mean=float(value.params["mean"]), scale=float(value.params["std"]))


@translates("exponential")
def translate_exponential(w: OnnxWriter, value: TracedValue) -> str:
    """-ln(1 - u) / rate for uniform u."""
    c = Calculator(w, value.dtype)
    return c("Div", c("Neg", c("Log", c("Sub", 1.0, draw(w, "RandomUniform", value)))), value.params["rate"])


@translates("coin", "dropout_factor")
def translate_coin(w: OnnxWriter, value: TracedValue) -> str:
    """1 with probability p, else 0; of dropout, 0 with probability p, else 1 / (1 - p)."""
    c, p = Calculator(w, value.dtype), value.params["p"]
    is_below = c("Less", draw(w, "RandomUniform", value), p)
    ends = (1.0, 0.0) if value.name == "coin" else (0.0, 1.0 / (1.0 - p) if p < 1 else 0.0)
    return c("Where", is_below, *ends)


@translates("bernoulli")
def translate_bernoulli(w: OnnxWriter, value: TracedValue) -> str:
    """1 with the probability of each element, else 0."""
    from onnx import helper

    dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
    return w.node("Bernoulli", w.operand(value, 0), dtype=dtype)

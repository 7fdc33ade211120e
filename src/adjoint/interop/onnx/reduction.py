"""Translation of reductions, running sums, and positions in an order."""

from __future__ import annotations

import numpy as np

from adjoint.interop.onnx.free_numbers import TracedValue, pointwise
from adjoint.interop.onnx.graph_writer import INT64, OnnxWriter
from adjoint.interop.onnx.modes import OnnxExporterError
from adjoint.interop.onnx.movement import as_integers
from adjoint.interop.onnx.translation import BOOL, INT32, operand_kind, shape_of, translates

REDUCTIONS = {
    "sum": "ReduceSum",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "prod": "ReduceProd",
    "mean": "ReduceMean",
    "any": "ReduceMax",
    "all": "ReduceMin",
}
FIRST_OPSET_WITH_AXES_INPUT = {"ReduceSum": 13}
DEFAULT_FIRST_OPSET = 18


def reduce_axes(w: OnnxWriter, kind: str, x: str, axes: tuple[int, ...], keepdims: bool, owner: TracedValue) -> str:
    """Append a reduction, whose axes are an input from some opset on, and an attribute before."""
    if not axes:
        return w.node("Identity", x)
    if w.opset >= FIRST_OPSET_WITH_AXES_INPUT.get(kind, DEFAULT_FIRST_OPSET):
        return w.node(kind, x, w.integers(axes, owner), keepdims=int(keepdims))
    return w.node(kind, x, axes=list(axes), keepdims=int(keepdims))


@translates(*REDUCTIONS)
def translate_reduction(w: OnnxWriter, value: TracedValue) -> str:
    """A reduction; of truths as integers."""
    x, dtype = w.operand(value, 0), operand_kind(value)
    if value.name in ("any", "all") and dtype != BOOL:
        x = w.cast(x, BOOL)
    if value.dtype == BOOL:
        x = w.cast(x, INT32)
    out = reduce_axes(w, REDUCTIONS[value.name], x, value.params["axes"], value.params["keepdims"], value)
    return w.cast(out, BOOL) if value.dtype == BOOL else out


@translates("argmax", "argmin")
def translate_argument(w: OnnxWriter, value: TracedValue) -> str:
    """The first position of an extreme; without an axis, in the flat array."""
    x, axis, keepdims = w.operand(value, 0), value.params["axis"], value.params["keepdims"]
    x, _ = as_integers(w, x, operand_kind(value))
    kind = "ArgMax" if value.name == "argmax" else "ArgMin"
    if axis is not None:
        return w.node(kind, x, axis=axis, keepdims=int(keepdims))
    flat = w.node("Reshape", x, w.integers([-1], value))
    return w.node("Reshape", w.node(kind, flat, axis=0, keepdims=0), w.integers(value.shape, value))


@translates("cumsum")
def translate_cumsum(w: OnnxWriter, value: TracedValue) -> str:
    """Running sums."""
    x = w.operand(value, 0)
    x = x if operand_kind(value) == value.dtype else w.cast(x, value.dtype)
    return w.node("CumSum", x, w.scalar(value.params["axis"]))


@translates("cumprod", "logcumsumexp", "where_extreme")
def translate_running(w: OnnxWriter, value: TracedValue) -> str:
    """Running products, sums of exponentials, or positions of extremes: for each place, of the elements up to it."""
    x, axis, rank = w.operand(value, 0), value.params["axis"], len(value.shape)
    kind, beyond = {"cumprod": ("ReduceProd", 1.0), "logcumsumexp": ("ReduceLogSumExp", -np.inf)}.get(
        value.name, ("", -np.inf if value.params.get("largest") else np.inf)
    )
    dtype = operand_kind(value)
    if not kind:  # an extreme, and NaN is one
        dtype = np.dtype(np.float64)
        x = w.cast(x, dtype)
        x = w.node("Where", w.node("IsNaN", x), w.scalar(-beyond, dtype), x)
    zero, one = w.scalar(0), w.scalar(1)
    places = w.node("Range", zero, w.number(shape_of(value)[axis], INT64, value), one)
    column = w.node("Unsqueeze", places, w.integers([1], value))
    is_later = w.node("Greater", places, column)  # (place, element)
    aligned = [1] * axis + [-1, shape_of(value)[axis]] + [1] * (rank - axis - 1)
    mask = w.node("Reshape", is_later, w.integers(aligned, value))
    rows = w.node("Unsqueeze", x, w.integers([axis], value))
    fill = w.constant(np.asarray(beyond).astype(dtype))
    up_to = w.node("Where", mask, fill, rows)
    if kind:
        return reduce_axes(w, kind, up_to, (axis + 1,), False, value)
    best = reduce_axes(w, "ReduceMax" if value.params["largest"] else "ReduceMin", up_to, (axis + 1,), True, value)
    own = w.node("Reshape", places, w.integers([-1 if d == axis + 1 else 1 for d in range(rank + 1)], value))
    attained = w.node("Where", w.node("Equal", up_to, best), own, zero)
    return reduce_axes(w, "ReduceMax", attained, (axis + 1,), False, value)


@translates("leading", "argsort", "median_index", "index_at_rank")
def translate_order(w: OnnxWriter, value: TracedValue) -> str:
    """Positions in sorted order, from TopK, for which the first of equals comes first."""
    x, axis = w.operand(value, 0), value.params["axis"]
    n = shape_of(value)[axis]
    size = w.integers([n], value)
    descending = value.params.get("descending", False)
    if value.name == "leading":
        size = w.integers([value.params["count"]], value)
    if value.params.get("ignore_nan"):
        raise OnnxExporterError(f"torch.onnx.export: {value.describe()} ignores NaN, which ONNX's TopK cannot")
    x, _ = as_integers(w, x, operand_kind(value))
    order = w.nodes_outputs(2, "TopK", x, size, axis=axis, largest=int(descending), sorted=1)[1]
    if value.name in ("leading", "argsort"):
        return order
    rank = pointwise(lambda n: (n - 1) // 2, n) if value.name == "median_index" else value.params["rank"]
    found = w.node("Gather", order, w.integers([rank], value), axis=axis)
    if value.name == "index_at_rank" or operand_kind(value).kind != "f":
        return found
    is_nan = w.cast(w.node("IsNaN", x), INT32)
    any_nan = w.cast(reduce_axes(w, "ReduceMax", is_nan, (axis,), True, value), BOOL)
    return w.node("Where", any_nan, w.node("ArgMax", is_nan, axis=axis), found)


@translates("searchsorted")
def translate_searchsorted(w: OnnxWriter, value: TracedValue) -> str:
    """Position of values in sorted ones: how many of them are smaller, or not larger."""
    x, values = w.operands(value)
    last = w.integers([-1], value)
    rank, value_rank = len(shape_of(value, 0)), len(value.shape)
    column = w.node("Unsqueeze", values, last)
    beside = w.node("Unsqueeze", x, w.integers([-2], value)) if rank > 1 else x
    is_before = w.node("LessOrEqual" if value.params["right"] else "Less", beside, column)
    return w.cast(reduce_axes(w, "ReduceSum", w.cast(is_before, INT64), (value_rank,), False, value), value.dtype)


@translates("isin")
def translate_isin(w: OnnxWriter, value: TracedValue) -> str:
    """Membership of elements among others: any is equal."""
    x, among = w.operands(value)
    flat = w.node("Reshape", among, w.integers([-1], value))
    is_equal = w.node("Equal", w.node("Unsqueeze", x, w.integers([-1], value)), flat)
    found = w.cast(reduce_axes(w, "ReduceSum", w.cast(is_equal, INT32), (len(value.shape),), False, value), BOOL)
    return w.chain(found, "Not") if value.params["invert"] else found

"""Translation of the ops that move elements: shapes, orders, slices, padding, joins; and those that make them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from adjoint.core.typing import Array, NumpyDtype
from adjoint.interop.onnx.free_numbers import Number, Sizes, TracedValue, has_free_number, pointwise
from adjoint.interop.onnx.graph_writer import INT64, OnnxWriter, are_fixed
from adjoint.interop.onnx.translation import BOOL, INT32, shape_of, translates

Bounds = Sequence[tuple[Number, Number, Number]]


@translates("reshape")
def translate_reshape(w: OnnxWriter, value: TracedValue) -> str:
    """Another shape; one free dimension alone is left for ONNX to find."""
    x, shape = w.operand(value, 0), list(value.shape)
    free = [axis for axis, n in enumerate(shape) if has_free_number(n)]
    if len(free) == 1 and 0 not in shape:
        shape[free[0]] = -1
    return w.node("Reshape", x, w.integers(shape, value))


@translates("permute")
def translate_permute(w: OnnxWriter, value: TracedValue) -> str:
    """Another order of the dimensions."""
    return w.node("Transpose", w.operand(value, 0), perm=list(value.params["axes"]))


@translates("expand")
def translate_expand(w: OnnxWriter, value: TracedValue) -> str:
    """x repeated."""
    return w.node("Expand", w.operand(value, 0), w.integers(value.shape, value))


def slice_value(w: OnnxWriter, x: str, bounds: Bounds, shape: Sizes, owner: TracedValue) -> str:
    """Append a slice along the dimensions that are not taken whole."""
    cut = [(axis, *b) for axis, (b, n) in enumerate(zip(bounds, shape, strict=True)) if tuple(b) != (0, n, 1)]
    if not cut:
        return w.node("Identity", x)
    axes, starts, stops, steps = zip(*cut, strict=True)
    return w.node("Slice", x, *(w.integers(part, owner) for part in (starts, stops, axes, steps)))


@translates("slice")
def translate_slice(w: OnnxWriter, value: TracedValue) -> str:
    """A part."""
    return slice_value(w, w.operand(value, 0), value.params["bounds"], shape_of(value), value)


@translates("flip")
def translate_flip(w: OnnxWriter, value: TracedValue) -> str:
    """The order reversed: slices with the step -1."""
    axes = value.params["axes"]
    ends = ([-1] * len(axes), [np.iinfo(np.int64).min] * len(axes), list(axes), [-1] * len(axes))
    return w.node("Slice", w.operand(value, 0), *(w.integers(part, value) for part in ends))


@translates("select")
def translate_select(w: OnnxWriter, value: TracedValue) -> str:
    """One element of a dimension."""
    at = w.number(value.params["at"], INT64, value)
    return w.node("Gather", w.operand(value, 0), at, axis=value.params["axis"])


def pad_value(w: OnnxWriter, x: str, widths: Sequence[Sizes], fill: str, owner: TracedValue) -> str:
    """Append padding with (before, after) elements for each dimension."""
    ends = [before for before, _ in widths] + [after for _, after in widths]
    return w.node("Pad", x, w.integers(ends, owner), fill)


def as_integers(w: OnnxWriter, x: str, dtype: NumpyDtype) -> tuple[str, NumpyDtype]:
    """Return bools as integers: some nodes take no bools."""
    return (w.cast(x, INT32), INT32) if dtype == BOOL else (x, dtype)


@translates("pad")
def translate_pad(w: OnnxWriter, value: TracedValue) -> str:
    """x with a margin."""
    x, dtype = as_integers(w, w.operand(value, 0), value.dtype)
    out = pad_value(w, x, value.params["widths"], w.scalar(value.params.get("value", 0), dtype), value)
    return w.cast(out, BOOL) if value.dtype == BOOL else out


@translates("unslice")
def translate_unslice(w: OnnxWriter, value: TracedValue) -> str:
    """Zeros with x at bounds: by padding, or, for steps, written into zeros."""
    x, bounds = w.operand(value, 0), value.params["bounds"]
    zero = w.scalar(0, value.dtype)
    if are_fixed([step for _, _, step in bounds], 1):
        widths = [
            (start, pointwise(lambda n, stop: n - stop, n, stop))
            for n, (start, stop, _) in zip(value.shape, bounds, strict=True)
        ]
        return pad_value(w, x, widths, zero, value)
    zeros = w.node("Expand", zero, w.integers(value.shape, value))
    return put_bounds(w, zeros, x, bounds, value.shape, value)


@translates("put_slice")
def translate_put_slice(w: OnnxWriter, value: TracedValue) -> str:
    """x with a value at bounds."""
    x, part = w.operands(value)
    return put_bounds(w, x, part, value.params["bounds"], value.shape, value)


def put_bounds(w: OnnxWriter, x: str, part: str, bounds: Bounds, shape: Sizes, owner: TracedValue) -> str:
    """Replace the part of x at bounds: dimension by dimension, what lies before and behind is joined to it."""
    cut = [axis for axis, (b, n) in enumerate(zip(bounds, shape, strict=True)) if tuple(b) != (0, n, 1)]
    if not cut:
        inside = [pointwise(lambda start, stop, step: len(range(start, stop, step)), *b) for b in bounds]
        return w.node("Expand", part, w.integers(inside, owner))
    axis = cut[0]
    start, stop, step = bounds[axis]

    def piece(begin: Number, end: Number, by: Number) -> str:
        parts = [(begin, end, by) if d == axis else (0, n, 1) for d, n in enumerate(shape)]
        return slice_value(w, x, parts, shape, owner)

    middle = piece(start, stop, step)
    inner = [*bounds]
    count = pointwise(lambda a, b, c: len(range(a, b, c)), start, stop, step)
    inner[axis] = (0, count, 1)
    inner_shape = [count if d == axis else n for d, n in enumerate(shape)]
    middle = put_bounds(w, middle, part, inner, inner_shape, owner)
    if step != 1:
        return _put_steps(w, x, middle, (start, stop, step), axis, inner_shape, owner)
    parts = [middle]
    if start != 0:
        parts.insert(0, piece(0, start, 1))
    if stop != shape[axis]:
        parts.append(piece(stop, shape[axis], 1))
    return w.node("Concat", *parts, axis=axis)


def _put_steps(
    w: OnnxWriter,
    x: str,
    middle: str,
    bounds: tuple[Number, Number, Number],
    axis: int,
    shape: Sizes,
    owner: TracedValue,
) -> str:
    positions = w.node("Range", *(w.number(n, INT64, owner) for n in bounds))
    column = [-1 if d == axis else 1 for d in range(len(shape))]
    spread = w.node("Reshape", positions, w.integers(column, owner))
    return w.node("ScatterElements", x, w.node("Expand", spread, w.integers(shape, owner)), middle, axis=axis)


@translates("replace_content")
def translate_replacement(w: OnnxWriter, value: TracedValue) -> str:
    """The new content."""
    return w.node("Identity", w.operand(value, 1))


@translates("put_view")
def translate_put_view(w: OnnxWriter, value: TracedValue) -> str:
    """x with a value in place of a view: the positions of its elements are found, and written at."""
    x, part = w.operands(value)
    steps, shape = value.params["steps"], value.require_fixed(shape_of(value))
    positions: Array = np.arange(int(np.prod(shape))).reshape(shape)
    for step in steps:
        positions = step.op.evaluate(
            positions, **{key: value.require_fixed(param) for key, param in step.params.items()}
        )
    flat, minus = w.node("Reshape", x, w.integers([-1], value)), w.integers([-1], value)
    indices = w.constant(np.ascontiguousarray(positions).reshape(-1))
    whole = w.node("Expand", part, w.integers(positions.shape, value))
    written = w.node("ScatterElements", flat, indices, w.node("Reshape", whole, minus), axis=0)
    return w.node("Reshape", written, w.integers(shape, value))


@translates("cat")
def translate_cat(w: OnnxWriter, value: TracedValue) -> str:
    """A join."""
    return w.node("Concat", *w.operands(value), axis=value.params["axis"])


@translates("diagonal")
def translate_diagonal(w: OnnxWriter, value: TracedValue) -> str:
    """Elements with equal indices of two dimensions, which come first and are indexed by pairs."""
    above, rows, columns = value.params["at"]
    rank, n = len(shape_of(value)), value.shape[-1]
    kept = [d for d in range(rank) if d not in (rows, columns)]
    x = w.node("Transpose", w.operand(value, 0), perm=[rows, columns, *kept])
    places = w.node("Range", *(w.number(k, INT64, value) for k in (0, n, 1)))
    pairs = [w.node("Add", places, w.number(max(shift, 0), INT64, value)) for shift in (-above, above)]
    last = w.integers([1], value)
    indices = w.node("Concat", *(w.node("Unsqueeze", p, last) for p in pairs), axis=1)
    return w.node("Transpose", w.node("GatherND", x, indices), perm=[*range(1, rank - 1), 0])


def window_positions(w: OnnxWriter, places: Number, size: int, step: int, dilation: int, owner: TracedValue) -> str:
    """Return the positions (places, size) that the windows along one dimension take."""
    starts = w.node("Range", *(w.number(n, INT64, owner) for n in (0, places, 1)))
    moved = w.node("Mul", starts, w.scalar(step, INT64))
    column = w.node("Unsqueeze", moved, w.integers([1], owner))
    return w.node("Add", column, w.constant(np.arange(size, dtype=np.int64) * dilation))


@translates("unfold")
def translate_unfold(w: OnnxWriter, value: TracedValue) -> str:
    """Windows along one dimension, whose elements are the last one."""
    axis, rank = value.params["dimension"], len(value.shape)
    size, step = value.require_fixed(value.params["size"]), value.require_fixed(value.params["step"])
    positions = window_positions(w, value.shape[axis], size, step, 1, value)
    taken = w.node("Gather", w.operand(value, 0), positions, axis=axis)
    return w.node("Transpose", taken, perm=[*range(axis + 1), *range(axis + 2, rank), axis + 1])


@translates("windows")
def translate_windows(w: OnnxWriter, value: TracedValue) -> str:
    """Windows along the last dimensions, taken one dimension after the other."""
    x = w.operand(value, 0)
    size, stride, dilation = (value.require_fixed(value.params[key]) for key in ("size", "stride", "dilation"))
    count = len(size)
    lead = len(shape_of(value)) - count
    for i in range(count):
        positions = window_positions(w, value.shape[lead + i], size[i], stride[i], dilation[i], value)
        x = w.node("Gather", x, positions, axis=lead + 2 * i)
    order = [*range(lead), *range(lead, lead + 2 * count, 2), *range(lead + 1, lead + 2 * count, 2)]
    return w.node("Transpose", x, perm=order)


@translates("fold")
def translate_fold(w: OnnxWriter, value: TracedValue) -> str:
    """Windows added up where they came from."""
    stride, dilation = (list(value.require_fixed(value.params[key])) for key in ("stride", "dilation"))
    count = len(stride)
    given, lead = shape_of(value), len(value.shape) - count
    places, size = given[lead : lead + count], list(value.require_fixed(given[lead + count :]))
    flat = w.node("Reshape", w.operand(value, 0), w.integers([-1, *places, *size], value))
    order = [0, *range(count + 1, 2 * count + 1), *range(1, count + 1)]
    blocks = pointwise(lambda *n: math.prod(n), *places)
    columns = w.node("Reshape", w.node("Transpose", flat, perm=order), w.integers([-1, math.prod(size), blocks], value))
    image, block = w.integers(value.shape[lead:], value), w.integers(size, value)
    added = w.node("Col2Im", columns, image, block, strides=stride, dilations=dilation, pads=[0] * (2 * count))
    return w.node("Reshape", added, w.integers(value.shape, value))


@translates("as_strided")
def translate_as_strided(w: OnnxWriter, value: TracedValue) -> str:
    """Elements that another shape and other strides lead to: gathered from the flat array."""
    return gather_positions(w, value)


def gather_positions(w: OnnxWriter, value: TracedValue) -> str:
    """Gather from the flat operand what the op takes, found by running it on the positions of the elements."""
    shape = value.require_fixed(shape_of(value))
    positions = np.arange(int(np.prod(shape))).reshape(shape)
    params = {key: value.require_fixed(param) for key, param in value.params.items()}
    assert value.op is not None
    taken = np.ascontiguousarray(value.op.evaluate(positions, **params))
    flat = w.node("Reshape", w.operand(value, 0), w.integers([-1], value))
    return w.node("Gather", flat, w.constant(taken), axis=0)

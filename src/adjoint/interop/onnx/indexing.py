"""Translation of indexing with tensors, gathers and scatters."""

from __future__ import annotations

import numpy as np

from adjoint.core.typing import Operand
from adjoint.interop.onnx.free_numbers import Number, TracedValue
from adjoint.interop.onnx.graph_writer import OnnxWriter
from adjoint.interop.onnx.movement import slice_value
from adjoint.interop.onnx.translation import translates

REDUCTIONS = {"prod": "mul", "amax": "max", "amin": "min", "sum": "add"}
FIRST_OPSET_WITH_EXTREMES = 18


class Indexing:
    """An index pattern: x with the indexed dimensions in front, and the index tensors as one of rows."""

    def __init__(self, w: OnnxWriter, owner: TracedValue, shape: tuple[Number, ...], first: int) -> None:
        self.w, self.owner = w, owner
        pattern = (*owner.params["pattern"], *[None] * (len(shape) - len(owner.params["pattern"])))
        self.at = [d for d, slot in enumerate(pattern) if slot is not None]
        kept = [d for d, slot in enumerate(pattern) if slot is None]
        self.order = [*self.at, *kept]
        numbers = [first + slot for slot in pattern if slot is not None]
        self.index_rank = max(len(owner.inputs[i].shape) for i in numbers)
        self._numbers = numbers
        adjacent = self.at[-1] - self.at[0] + 1 == len(self.at)
        self.front = self.at[0] if adjacent else 0  # of the result: where the dimensions of the indices stand
        self.shape = shape

    def bring_to_front(self, x: str) -> str:
        """Return x with the indexed dimensions first."""
        return self._transpose(x, self.order)

    def bring_back(self, x: str) -> str:
        """Undo `bring_to_front`."""
        return self._transpose(x, np.argsort(self.order).tolist())

    def _transpose(self, x: str, order: list[int]) -> str:
        return x if order == sorted(order) else self.w.node("Transpose", x, perm=order)

    def place_result(self, x: str, back: bool = False) -> str:
        """Move the dimensions of the indices from the front to their place in the result, or back."""
        rank = self.index_rank + len(self.order) - len(self.at)
        moved = list(range(self.index_rank, self.index_rank + self.front))
        order = [*moved, *range(self.index_rank), *range(self.index_rank + self.front, rank)]
        return self._transpose(x, np.argsort(order).tolist() if back else order)

    def rows(self) -> str:
        """Return the indices, broadcast together, as the last dimension of one tensor."""
        w = self.w
        names = [w.operand(self.owner, i) for i in self._numbers]
        if len(names) > 1:
            total = names[0]
            for name in names[1:]:
                total = w.node("Add", total, name)
            shape = w.node("Shape", total)
            names = [w.node("Expand", name, shape) for name in names]
        last = w.integers([-1], self.owner)
        columns = [w.node("Unsqueeze", name, last) for name in names]
        return columns[0] if len(columns) == 1 else w.node("Concat", *columns, axis=-1)


@translates("index")
def translate_index(w: OnnxWriter, value: TracedValue) -> str:
    """x at index tensors."""
    pattern, x = value.params["pattern"], w.operand(value, 0)
    at = [d for d, slot in enumerate(pattern) if slot is not None]
    if len(at) == 1:
        return w.node("Gather", x, w.operand(value, 1 + pattern[at[0]]), axis=at[0])
    indexing = Indexing(w, value, value.inputs[0].shape, 1)
    found = w.node("GatherND", indexing.bring_to_front(x), indexing.rows())
    return indexing.place_result(found)


@translates("index_add")
def translate_index_add(w: OnnxWriter, value: TracedValue) -> str:
    """x added at index tensors into zeros."""
    indexing = Indexing(w, value, value.shape, 1)
    front = [value.shape[d] for d in indexing.order]
    zeros = w.node("Expand", w.scalar(0, value.dtype), w.integers(front, value))
    part = indexing.place_result(w.operand(value, 0), back=True)
    return indexing.bring_back(w.node("ScatterND", zeros, indexing.rows(), part, reduction="add"))


@translates("put_index")
def translate_put_index(w: OnnxWriter, value: TracedValue) -> str:
    """x with a value at index tensors."""
    indexing = Indexing(w, value, value.shape, 2)
    x, part, rows = indexing.bring_to_front(w.operand(value, 0)), w.operand(value, 1), indexing.rows()
    kept = w.integers([value.shape[d] for d in indexing.order[len(indexing.at) :]], value)
    counts = w.node("Slice", w.node("Shape", rows), w.integers([0], value), w.integers([-1], value))
    whole = w.node("Concat", counts, kept, axis=0)
    if indexing.front:  # a value broadcasts in the order of the result
        rank, end = indexing.index_rank, indexing.index_rank + len(value.shape) - len(indexing.at)
        order = np.r_[rank : rank + indexing.front, :rank, rank + indexing.front : end]
        placed = w.node("Gather", whole, w.constant(order), axis=0)
        part = indexing.place_result(w.node("Expand", part, placed), back=True)
    else:
        part = w.node("Expand", part, whole)
    return indexing.bring_back(w.node("ScatterND", x, rows, part))


@translates("gather")
def translate_gather(w: OnnxWriter, value: TracedValue) -> str:
    """Elements at indices along one dimension."""
    x, indices = w.operands(value)
    return w.node("GatherElements", x, indices, axis=value.params["axis"])


@translates("scatter")
def translate_scatter(w: OnnxWriter, value: TracedValue) -> str:
    """x with elements at indices along one dimension."""
    x, _, indices = w.operands(value)
    return w.node("ScatterElements", x, indices, _source(w, value, 1, 2), axis=value.params["axis"])


@translates("scatter_add")
def translate_scatter_add(w: OnnxWriter, value: TracedValue) -> str:
    """Elements added at indices into zeros."""
    zeros = w.node("Expand", w.scalar(0, value.dtype), w.integers(value.shape, value))
    source = _source(w, value, 0, 1)
    return str(
        w.node("ScatterElements", zeros, w.operand(value, 1), source, axis=value.params["axis"], reduction="add")
    )


@translates("scatter_reduce")
def translate_scatter_reduce(w: OnnxWriter, value: TracedValue) -> str:
    """The product or extreme of what comes to each position."""
    x, _, indices = w.operands(value)
    axis, source = value.params["axis"], _source(w, value, 1, 2)
    kind = REDUCTIONS[value.params["reduce"]]
    if not value.params["include_self"]:
        neutral = {"mul": 1, "max": -np.inf, "min": np.inf, "add": 0}[kind]
        if value.dtype.kind in "iu" and kind in ("max", "min"):
            ends = np.iinfo(value.dtype)
            neutral = ends.min if kind == "max" else ends.max
        fill = w.node("Expand", w.scalar(neutral, value.dtype), w.node("Shape", indices))
        x = w.node("ScatterElements", x, indices, fill, axis=axis)
    return w.node("ScatterElements", x, indices, source, axis=axis, reduction=kind)


def _source(w: OnnxWriter, value: TracedValue, i: int, indices: int) -> str:
    """Return the source of a scatter, a part of the size of the indices; a number fills it."""
    source: Operand = value.inputs[i]
    shape = value.inputs[indices].shape
    if not isinstance(source, TracedValue):
        return w.node("Expand", w.number(source, value.dtype, value), w.integers(shape, value))
    name = w.operand(value, i)
    if tuple(source.shape) == tuple(shape):
        return name
    if len(source.shape) != len(shape):
        return w.node("Expand", name, w.integers(shape, value))
    return slice_value(w, name, [(0, n, 1) for n in shape], source.shape, value)

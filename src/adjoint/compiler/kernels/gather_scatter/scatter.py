"""Kernels that write at positions which are data: gradients of embeddings and gathers, index assignment, folds.

The result is filled, with a number or with another array, and then what is written is taken in the order of its memory:
an element gets its addends one after the other, on any number of threads. A tile owns a range of one dimension of the
result in which writing stays where it is, and goes through all the indices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView, row_major
from adjoint.compiler.ir.symbolic_size import is_symbolic_size, size_value
from adjoint.compiler.kernels.gather_scatter.gather import ViewOf
from adjoint.compiler.kernels.gather_scatter.index_space import (
    MIN_STRIP_BYTES,
    Bounds,
    GridPoint,
    GridSweep,
    IndexMap,
    Shape,
    count_tiles,
    gather_positions,
    index_positions,
    load_strided,
    slice_positions,
    tile_range,
)
from adjoint.compiler.kernels.index_arithmetic import Index, add_strided
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I64, Reg, Type, from_dtype
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.typing import NumpyDtype, Operand
from adjoint.ops.indexing.scatter import IDENTITIES

UNROLLED_REGISTERS = 4

FOLDS = {"prod": "mul", "amax": "maximum", "amin": "minimum"}
Number = int | float | bool


class ScatterPass(NamedTuple):
    """One walk over the grid: what is written, an array or a number, and how it meets what is there; None: replaces."""

    source: StridedView | Number
    combine: str | None


class ScatterPlan(NamedTuple):
    """The plan of a write; `arguments` are the arrays and the indices, in the order of the table, before the result.

    The result is filled with `start`, unless that is an array which lies where the result is to be.
    """

    shape: Shape
    kind: Type
    start: StridedView | Number
    places: IndexMap
    passes: tuple[ScatterPass, ...]
    arguments: list[Value]
    tiled: tuple[int, int] | None  # the dimension that tiles cut, in the grid and in the result
    tiles: int


def plan_scatter(value: Value, target: Target, view_of: ViewOf = StridedView.whole) -> ScatterPlan | None:
    """Plan the write that an equation asks for; None if NumPy must do it.

    It is one of index_add, scatter_add, put_index, scatter, scatter_reduce, put_slice, unslice and pad. Operands may
    be views. Indices are taken to be checked: a wrong one writes to some other element, nothing outside.
    """
    if value.op.name not in _FORMS or value.dtype.kind not in "fiub" or value.dtype == np.float16:
        return None
    out = StridedView.whole(value)
    operands = [view_of(x) if isinstance(x, Value) else x for x in value.inputs]
    start, places, passes = _FORMS[value.op.name](value, out, operands)
    if not places.valid or (value.dtype.kind == "b" and any(p.combine not in (None, "add") for p in passes)):
        return None
    start = _fit_source(start, value.dtype, value.shape)
    sources = [_fit_source(p.source, value.dtype, places.shape) for p in passes]
    if start is None or None in sources:
        return None
    passes = tuple(
        ScatterPass(source, p.combine) for source, p in zip(sources, passes, strict=True) if source is not None
    )
    views = [v for v in (start, *(p.source for p in passes)) if isinstance(v, StridedView)]
    arguments = dict.fromkeys([*(v.base for v in views), *(k.indices.base for k in places.lookups)])
    tiled, tiles = _choose_tiling(places, out.shape, value.dtype.itemsize, len(passes))
    return ScatterPlan(value.shape, from_dtype(value.dtype), start, places, passes, list(arguments), tiled, tiles)


def can_write_into(value: Value, symbol: Value, views: Mapping[Value, StridedView]) -> bool:
    """True if the kernel of a write can have its result where `symbol` lies: it writes into nothing else, or reads it
    nowhere.
    """
    if value.op.name in FORMS_WITH_START:
        start, *others = value.operands
        begins = views[start]
        whole = begins.base is symbol and begins.is_linear
    else:
        others, whole = list(value.operands), False
    unread = all(views[x].base is not symbol for x in others)
    return unread and (whole or all(views[x].base is not symbol for x in value.operands))


def count_replaced(value: Value, views: Mapping[Value, StridedView]) -> int:
    """Return how many elements a write into its first operand replaces."""
    out = StridedView.whole(value)
    operands = [views[x] if isinstance(x, Value) else x for x in value.inputs]
    return min(value.count, math.prod(map(size_value, _FORMS[value.op.name](value, out, operands)[1].shape)))


FORMS_WITH_START = frozenset({"put_index", "scatter", "scatter_reduce", "put_slice"})  # which their first operand has
Form = tuple[StridedView | Number, IndexMap, tuple[ScatterPass, ...]]


def _scatter_add(value: Value, out: StridedView, operands: list[StridedView]) -> Form:
    source, indices = operands
    part = source._replace(shape=indices.shape)  # of a larger source the first elements count
    return 0, gather_positions(out, indices, value.params["axis"]), (ScatterPass(part, "add"),)


def _put_index(value: Value, out: StridedView, operands: list[Operand]) -> Form:
    start, source, *indices = operands
    pattern = value.params["pattern"] + (None,) * (len(out.shape) - len(value.params["pattern"]))
    at = [d for d, slot in enumerate(pattern) if slot is not None]
    middle = broadcast_shapes(*(view.shape for view in indices))
    kept = [n for n, slot in zip(out.shape, pattern, strict=True) if slot is None]
    front = at[0] if at[-1] - at[0] + 1 == len(at) else 0
    shape = (*kept[:front], *middle, *kept[front:])
    return start, index_positions(out, indices, pattern, shape), (ScatterPass(source, None),)


def _scatter_reduce(value: Value, out: StridedView, operands: list[StridedView]) -> Form:
    start, source, indices = operands
    reduce = value.params["reduce"]
    places = gather_positions(out, indices, value.params["axis"])
    fold = ScatterPass(source._replace(shape=indices.shape), FOLDS[reduce])
    if value.params["include_self"]:
        return start, places, (fold,)
    identity: Number = IDENTITIES[reduce]
    if value.dtype.kind in "iu" and reduce != "prod":
        limits = np.iinfo(value.dtype)
        identity = int(limits.min if reduce == "amax" else limits.max)
    return start, places, (ScatterPass(identity, None), fold)


def _pad(value: Value, out: StridedView, operands: list[StridedView]) -> Form:
    inner = operands[0].shape
    bounds = [(low, low + n, 1) for (low, _), n in zip(value.params["widths"], inner, strict=True)]
    return value.params.get("value", 0.0), slice_positions(out, bounds), (ScatterPass(operands[0], None),)


_FORMS: dict[str, Any] = {
    "index_add": lambda v, out, x: (
        0,
        index_positions(out, x[1:], v.params["pattern"], x[0].shape),
        (ScatterPass(x[0], "add"),),
    ),
    "scatter_add": _scatter_add,
    "put_index": _put_index,
    "scatter": lambda v, out, x: (x[0], gather_positions(out, x[2], v.params["axis"]), (ScatterPass(x[1], None),)),
    "scatter_reduce": _scatter_reduce,
    "put_slice": lambda v, out, x: (x[0], slice_positions(out, v.params["bounds"]), (ScatterPass(x[1], None),)),
    "unslice": lambda v, out, x: (0, slice_positions(out, v.params["bounds"]), (ScatterPass(x[0], None),)),
    "pad": _pad,
}


def _fit_source(source: StridedView | Number, dtype: NumpyDtype, shape: Shape) -> StridedView | Number | None:
    """Return the values to write, over the whole grid; None if their type is not the result's."""
    if isinstance(source, StridedView):
        return source.expand(shape) if source.base.dtype == dtype else None
    return int(source) if dtype.kind in "iu" else source


def _choose_tiling(places: IndexMap, shape: Shape, itemsize: int, passes: int) -> tuple[tuple[int, int] | None, int]:
    """The dimension that can be cut into most parts, the first of several, and the number of tiles."""
    best, most = None, 1
    for d, e in enumerate(places.along):
        if e is None:
            continue
        parts = size_value(shape[e])
        parts = parts if e < len(shape) - 1 else parts * itemsize // MIN_STRIP_BYTES
        if parts > most:
            best, most = (d, e), parts
    size = size_value(math.prod(shape) + 2 * passes * math.prod(places.shape)) * itemsize
    tiles = count_tiles(size, most) if best else 1
    return (best, tiles) if tiles > 1 else (None, 1)


def write_scatter(plan: ScatterPlan, target: Target, offsets: Sequence[int] = ()) -> str:
    """The module of the kernel, called NAME: its table is `arguments`, then the result, then those `offsets`."""
    b = Builder(target)
    with b.kernel(NAME_PLACEHOLDER) as (args, tile, _):
        pointers = {base: b.argument(args, i) for i, base in enumerate(plan.arguments)}
        out = b.argument(args, len(plan.arguments))
        numbers = {offset: b.number(args, i) for i, offset in enumerate(offsets, len(plan.arguments) + 1)}
        _ScatterWriter(plan, b, pointers, out, target, numbers).write(tile)
    return b.text()


class _ScatterWriter:
    def __init__(
        self,
        plan: ScatterPlan,
        b: Builder,
        pointers: dict[Value, Reg],
        out: Reg,
        target: Target,
        offsets: dict[int, Reg],
    ) -> None:
        self.plan, self.b, self.pointers, self.out, self.offsets = plan, b, pointers, out, offsets
        self.most = target.lanes(plan.kind)

    def write(self, tile: Reg) -> None:
        plan, b = self.plan, self.b
        grid_bounds: Bounds = {}
        result_bounds: Bounds = {}
        if plan.tiled:
            d, e = plan.tiled
            step = max(1, MIN_STRIP_BYTES // plan.kind.itemsize) if e == len(plan.shape) - 1 else 1
            low, high = tile_range(b, tile, plan.tiles, plan.shape[e], step)
            result_bounds[e] = low, high
            n = plan.places.shape[d]
            grid_bounds[d] = (b.minimum(low, n), b.minimum(high, n)) if isinstance(low, Reg) else (0, n)
        self._fill(result_bounds)
        if all(plan.places.shape):
            for each in plan.passes:
                self._write_pass(each, grid_bounds)

    def _fill(self, bounds: Bounds) -> None:
        """The result as it is before anything is written."""
        b, plan = self.b, self.plan
        shape = plan.shape or (1,)
        if not all(shape):
            return
        places = IndexMap(shape, 0, row_major(shape))
        start = plan.start.expand(shape) if isinstance(plan.start, StridedView) else plan.start
        if not isinstance(start, StridedView) or not start.is_linear:
            self._sweep(places, ScatterPass(start, None), bounds)
            return
        given = self.pointers[start.base]
        apart = b.emit(f"icmp ne ptr {given.name}, {self.out.name}", Type("b", 1))
        with b.when(apart):
            self._sweep(places, ScatterPass(start, None), bounds)

    def _write_pass(self, each: ScatterPass, bounds: Bounds) -> None:
        places = self.plan.places
        if not places.shape:
            lookups = tuple(k._replace(indices=k.indices._replace(shape=(1,), strides=(0,))) for k in places.lookups)
            places = places._replace(shape=(1,), strides=(0,), lookups=lookups, along=(None,))
            each = each._replace(
                source=each.source.expand((1,)) if isinstance(each.source, StridedView) else each.source
            )
        self._sweep(places, each, bounds)

    def _sweep(self, places: IndexMap, each: ScatterPass, bounds: Bounds) -> None:
        source = each.source
        others = [(source.offset, source.strides)] if isinstance(source, StridedView) else []
        sweep = GridSweep(self.b, places, self.pointers, others, self.offsets)
        last = len(places.shape) - 1
        low, high = bounds.get(last, (0, places.shape[last]))
        sweep.run(bounds, lambda at: self._row(sweep, at, each, low, high))

    def _row(self, sweep: GridSweep, at: GridPoint, each: ScatterPass, low: Index, high: Index) -> None:
        """The last dimension: in vectors if the result runs along it, else one element after the other."""
        b, places = self.b, sweep.places
        if at.waiting or places.strides[-1] != 1:
            with b.loop(low, high) as turn:
                self._element(sweep.step_into(at, turn.index), each)
            return
        size = places.shape[-1]
        if is_symbolic_size(size):
            end = high if isinstance(high, Reg) else b.constant(high, I64)
            self._write_columns(at, each, low, end, self.most)
            return
        lanes = min(self.most, 1 << (size - 1).bit_length())
        if isinstance(high, Reg):
            self._write_columns(at, each, low, high, lanes)
            return
        span = lanes * UNROLLED_REGISTERS
        whole = size - size % span
        if whole:
            with b.loop(0, whole, span) as turn:
                for k in range(0, span, lanes):
                    self._register(at, each, b.add(turn.index, k) if k else turn.index, lanes, None)
        for k in range(whole, size, lanes):
            self._register(at, each, k, lanes, size - k if size - k < lanes else None)

    def _write_columns(self, at: GridPoint, each: ScatterPass, low: Index, high: Reg, lanes: int) -> None:
        """A range of columns known when the kernel runs; it begins at a multiple of `lanes`."""
        b = self.b
        span = lanes * UNROLLED_REGISTERS
        end = b.add(low, b.bitwise_and(b.sub(high, low), -span))
        with b.loop(low, end, span) as turn:
            for k in range(0, span, lanes):
                self._register(at, each, b.add(turn.index, k) if k else turn.index, lanes, None)
        with b.loop(end, high, lanes) as turn:
            self._register(at, each, turn.index, lanes, b.lane_mask(b.sub(high, turn.index), lanes))

    def _register(self, at: GridPoint, each: ScatterPass, column: Index, lanes: int, mask: Reg | int | None) -> None:
        b, kind = self.b, self.plan.kind
        place = b.gep(self.out, add_strided(b, at.offset, column, 1), kind)
        value = self._source(at, each, column, lanes, mask)
        if each.combine:
            value = getattr(b, each.combine)(b.load(place, kind.of(lanes), mask), value)
        b.store(value, place, mask)

    def _source(self, at: GridPoint, each: ScatterPass, column: Index, lanes: int, mask: Reg | int | None) -> Reg:
        b, kind, source = self.b, self.plan.kind, each.source
        if not isinstance(source, StridedView):
            return b.constant(source, kind.of(lanes))
        stride = source.strides[-1]
        pointer = b.gep(self.pointers[source.base], add_strided(b, at.others[0], column, stride), kind)
        return load_strided(b, pointer, stride, kind, lanes, mask)

    def _element(self, at: GridPoint, each: ScatterPass) -> None:
        b, kind = self.b, self.plan.kind
        place = b.gep(self.out, at.offset, kind)
        if isinstance(each.source, StridedView):
            value = b.load(b.gep(self.pointers[each.source.base], at.others[0], kind), kind)
        else:
            value = b.constant(each.source, kind)
        if each.combine:
            value = getattr(b, each.combine)(b.load(place, kind), value)
        b.store(value, place)

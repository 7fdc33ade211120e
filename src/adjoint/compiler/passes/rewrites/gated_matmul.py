"""Matrix products by one weight again and again: it is copied once into panels, all gates of a unit side by side.

A recurrent cell splits its product with the state into gates and needs all gates of a unit together. The copy has its
columns in the order [i₀…i₁₅ f₀…f₁₅ g₀…g₁₅ o₀…o₁₅ i₁₆…]. Each block of registers then holds all four gates, and the
cell is computed in the product's kernel.

Each copy lies in panels of as many columns as a block of registers has: products of few rows read a panel again for
each block, and whole rows of the weight would be so far apart that they push each other out of the caches.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from adjoint.compiler.ir.graph import Graph, Value, ValueOrigin, op_of
from adjoint.compiler.kernels.matmul.plan import MAX_UNROLLED_REGISTERS
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.llvm.types import from_dtype
from adjoint.compiler.passes.rewriter import Rewriter
from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, Function
from adjoint.ops.elementwise.select import copy
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.linalg.matmul import mm
from adjoint.ops.movement.movement import permute, reshape, swap

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

MIN_MATMULS_FOR_COPY = 4  # products by one weight that are worth a copy of it
MIN_PANELLED_BYTES = 1 << 17  # of a weight that the first cache does not hold
MAX_ROWS_IN_PLACE = 96  # a product of fewer reads the weight for each panel of rows where it lies
FLOAT_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def _interleave_columns(z: Array, unit: int, lanes: int) -> Tensor:
    """Columns of one part after another as they lie interleaved."""
    rows, columns = z.shape
    cut = permute(reshape(z, shape=(rows, columns // unit, unit // lanes, lanes)), axes=(0, 2, 1, 3))
    return reshape(cut, shape=(rows, columns))


def _join_panels(panels: Array) -> Tensor:
    """The columns of all panels beside each other."""
    count, rows, width = panels.shape
    return reshape(permute(panels, axes=(1, 0, 2)), shape=(rows, count * width))


def _cut_panels(matrix: Array, like: Array) -> Tensor:
    """The panels of a matrix."""
    count, rows, width = like.shape
    return permute(reshape(matrix, shape=(rows, count, width)), axes=(1, 0, 2))


@primitive(
    family="contraction",
    spec=lambda x, y: Spec((x.shape[0], y.shape[0] * y.shape[2]), x.dtype),
    linear=True,
    dx=lambda g, y: mm(g, swap(_join_panels(y), -1, -2)),
    dy=lambda g, x, y: _cut_panels(mm(swap(x, -1, -2), g), y),
)
def panel_mm(x: Array, y: Array) -> Array:
    """Σₖ x[i, k] y[p, k, j], of all panels p beside each other."""
    return multiply_matrices(x, y.swapaxes(0, 1).reshape(x.shape[1], -1))


@primitive(
    family="contraction",
    spec=lambda x, y, *, unit, lanes: Spec((x.shape[0], y.shape[0] * y.shape[2]), x.dtype),
    linear=True,
    dx=lambda g, y, unit, lanes: mm(_interleave_columns(g, unit, lanes), swap(_join_panels(y), -1, -2)),
    dy=lambda g, x, y, unit, lanes: _cut_panels(mm(swap(x, -1, -2), _interleave_columns(g, unit, lanes)), y),
)
def gated_mm(x: Array, y: Array, *, unit: int, lanes: int) -> Array:
    """The same, the columns of y lying interleaved: of each part of `unit` columns `lanes` at a time."""
    product = multiply_matrices(x, y.swapaxes(0, 1).reshape(x.shape[1], -1))
    rows, columns = product.shape
    return product.reshape(rows, unit // lanes, columns // unit, lanes).swapaxes(1, 2).reshape(rows, columns)


GATED_MM, PANEL_MM = op_of(gated_mm), op_of(panel_mm)


def interleave_gates(graph: Graph) -> Graph:
    """The graph in which a weight that many products read is copied once into the order in which they read it."""
    by_weight: dict[Value, list[Value]] = {}
    for v in graph.equations:
        plain = v.op.name == "mm" and len(v.shape) == 2 and v.dtype in FLOAT_DTYPES
        if plain and v.operands[0].dtype == v.operands[1].dtype == v.dtype:
            by_weight.setdefault(v.operands[1], []).append(v)
    shared = {w: products for w, products in by_weight.items() if len(products) >= MIN_MATMULS_FOR_COPY}
    units = _find_gate_widths(graph, shared) if shared else {}
    if not units:
        return graph
    rewriter = Rewriter(graph)
    renamed: dict[Value, Value] = {v: rewriter.input(v) for v in graph.inputs}
    copies: dict[tuple[Value, int, ValueOrigin | None], Value] = {}
    for v in graph.equations:
        if v not in units:
            renamed[v] = rewriter.carry(v, renamed)
            continue
        x, weight = (renamed[o] for o in v.operands)
        unit, lanes = units[v], _lane_count(v)
        copied = weight, unit, v.origin
        if copied not in copies:
            copies[copied] = _copy_interleaved(weight, unit, lanes, v.origin, rewriter)
        weight = copies[copied]
        op, params = (PANEL_MM, {}) if unit == v.shape[1] else (GATED_MM, {"unit": unit, "lanes": lanes})
        renamed[v] = rewriter.add(Value(op, (x, weight), params, Spec(v.shape, v.dtype), v.origin))
    rewriter.out.outputs = [renamed[v] for v in graph.outputs]
    return rewriter.out


def _find_gate_widths(graph: Graph, shared: dict[Value, list[Value]]) -> dict[Value, int]:
    """The products that are to read another order of their weight, and the columns of a part of each."""
    widths = _find_slice_widths(graph, {v.shape for products in shared.values() for v in products})
    units: dict[Value, int] = {}
    for weight, products in shared.items():
        columns = weight.shape[1]
        found = {}
        for v in products:  # the kernel finishes all parts of a unit at once
            whole_registers = widths[v] % _lane_count(v) == 0 and columns // max(widths[v], 1) <= MAX_UNROLLED_REGISTERS
            found[v] = widths[v] if whole_registers else columns
        for unit in set(found.values()):
            same = [v for v in products if found[v] == unit]
            is_turned = weight.op is not None and weight.op.name == "permute"
            is_far = weight.size * weight.dtype.itemsize >= MIN_PANELLED_BYTES
            is_far &= columns % (_lane_count(same[0]) * host().panel_registers) == 0
            is_low = all(v.shape[0] < MAX_ROWS_IN_PLACE for v in same)
            reads = unit < columns or ((is_turned or is_far) and is_low)
            if len(same) >= MIN_MATMULS_FOR_COPY and reads:
                units.update(dict.fromkeys(same, unit))
    return units


def _find_slice_widths(graph: Graph, shapes: set[tuple[int, ...]]) -> dict[Value, int]:
    """The columns of each of the equal parts into which slices cut a value of one of these shapes, or what is computed
    from it element by element; all of them if nothing is cut that way.

    Users come first, so that each equation is looked at once however long the chains are.
    """
    widths = {v: v.shape[1] for v in graph.equations if v.shape in shapes}
    if not any(v.op.name == "slice" and v.operands[0] in widths for v in graph.equations):
        return widths
    users = graph.users()
    for value in reversed(graph.equations):
        if value.shape not in shapes:
            continue
        rows, unit = value.shape
        for user in users[value]:
            if user.op.name == "slice":
                (top, bottom, down), (first, end, step) = user.params["bounds"]
                if (top, bottom, down, step) == (0, rows, 1, 1):
                    unit = gcd(unit, first, end)
            elif user.op.scalar is not None and user.shape == value.shape:
                unit = gcd(unit, widths[user])
        widths[value] = unit
    return widths


def _lane_count(product: Value) -> int:
    return host().lanes(from_dtype(product.dtype))


def _copy_interleaved(weight: Value, unit: int, lanes: int, origin: ValueOrigin | None, rewriter: Rewriter) -> Value:
    """A copy of a weight (k, n) in panels, `lanes` columns of each part of `unit` after one another."""

    def emit_op(function: Function, x: Value, to: tuple[int, ...], **params: tuple[int, ...]) -> Value:
        return rewriter.make(Value(op_of(function), (x,), params, Spec(to, x.dtype), origin))

    k, n = weight.shape
    parts, wide = n // unit, lanes * host().panel_registers
    if unit == n:
        lanes = wide if n % wide == 0 else n
    together = gcd(max(1, wide // (parts * lanes)), unit // lanes)
    cut = k, parts, unit // lanes // together, together, lanes
    order = 2, 0, 3, 1, 4
    turned = emit_op(permute, emit_op(reshape, weight, cut, shape=cut), tuple(cut[d] for d in order), axes=order)
    panels = cut[2], k, together * parts * lanes
    return emit_op(reshape, emit_op(copy, turned, turned.shape), panels, shape=panels)

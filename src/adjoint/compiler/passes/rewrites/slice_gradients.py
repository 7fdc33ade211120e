"""Gradients of slices: a sum of arrays that are zero but for a slice is the slices side by side.

A loop that reads `x[:, t]` for each t makes one such array of the size of x for each turn. To write and to add them
takes the square of the number of turns; to put the slices side by side takes each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from adjoint.compiler.ir.graph import Graph, Value, ValueOrigin, op_of
from adjoint.compiler.passes.rewriter import Rewriter, replace_equations
from adjoint.compiler.passes.rewrites.sums import Sums, add_terms, is_sum
from adjoint.core.op.spec import Spec
from adjoint.ops.movement.movement import Bounds, cat, unslice

CAT, UNSLICE = map(op_of, (cat, unslice))


class FilledSlice(NamedTuple):
    """A part of an array that is zero elsewhere: where it lies, and what it is made of, in order along an axis."""

    bounds: Bounds
    parts: tuple[FilledSlice | Value, ...]
    axis: int = 0


class SlicedSum(NamedTuple):
    """A sum: its slices, merged, and its other terms."""

    slices: Sequence[FilledSlice]
    others: list[Value]


def merge_slices(graph: Graph) -> Graph:
    """Compute a sum of arrays that are zero but for slices as one array of the slices side by side.

    The result is equal, but for the sign of zeros.
    """
    return replace_equations(graph, _find_sliced_sums(graph), _add_up)


def _find_sliced_sums(graph: Graph) -> dict[Value, SlicedSum]:
    """Return the sums in which slices lie side by side, by their last addition."""
    found: dict[Value, SlicedSum] = {}
    if sum(v.op is UNSLICE for v in graph.equations) < 2:
        return found
    sums = Sums(graph)
    for root, terms in sums.find(is_sum):
        sliced = [t for t in terms if t.op is UNSLICE and sums.is_only_in_sum(t, root)]
        slices = [FilledSlice(t.params["bounds"], t.operands) for t in sliced if 0 not in t.operands[0].shape]
        merged = slices
        for axis in range(len(root.shape)):
            merged = _join_along(axis, merged)
        if 0 < len(merged) < len(sliced):
            found[root] = SlicedSum(merged, [t for t in terms if t not in sliced])
    return found


def _join_along(axis: int, slices: Sequence[FilledSlice]) -> list[FilledSlice]:
    """Join slices of which one ends where the next begins; symbolic sizes stay as they are."""
    begins: dict[tuple[Bounds, int], list[FilledSlice]] = {}
    joined: list[FilledSlice] = []
    for each in slices:
        start, stop, step = each.bounds[axis]
        if type(start) is type(stop) is int and step == 1:
            begins.setdefault(((*each.bounds[:axis], *each.bounds[axis + 1 :]), start), []).append(each)
        else:
            joined.append(each)
    for beside, start in sorted(begins, key=lambda place: place[1]):
        while run := _take_run(begins, beside, start, axis):
            stop = run[-1].bounds[axis][1]
            bounds = (*beside[:axis], (start, stop, 1), *beside[axis:])
            joined.append(run[0] if len(run) == 1 else FilledSlice(bounds, tuple(run), axis))
    return joined


def _take_run(
    begins: dict[tuple[Bounds, int], list[FilledSlice]], beside: Bounds, start: int, axis: int
) -> list[FilledSlice]:
    """Take slices out of `begins`, each of which begins where the one before ends."""
    run: list[FilledSlice] = []
    while left := begins.get((beside, start)):
        run.append(left.pop())
        start = run[-1].bounds[axis][1]
    return run


def _add_up(v: Value, terms: SlicedSum, renamed: dict[Value, Value], rewriter: Rewriter) -> Value:
    spec = Spec(v.shape, v.dtype)
    values = [renamed[x] for x in terms.others]
    for each in terms.slices:
        part = _concatenate(each, renamed, v.origin, rewriter)
        params = {"shape": v.shape, "bounds": each.bounds}
        values.append(rewriter.make(Value(UNSLICE, (part,), params, spec, v.origin)))
    return add_terms(v, values, rewriter)


def _concatenate(
    part: FilledSlice, renamed: dict[Value, Value], origin: ValueOrigin | None, rewriter: Rewriter
) -> Value:
    """Return what fills a slice."""
    values = [renamed[x] if isinstance(x, Value) else _concatenate(x, renamed, origin, rewriter) for x in part.parts]
    if len(values) == 1:
        return values[0]
    shape = list(values[0].shape)
    shape[part.axis] = sum(x.shape[part.axis] for x in values)
    spec = Spec(tuple(shape), values[0].dtype)
    return rewriter.make(Value(CAT, tuple(values), {"axis": part.axis}, spec, origin))

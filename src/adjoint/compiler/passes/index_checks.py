"""Checks of indices that nothing has checked yet: where NumPy would raise, native code would read something else.

`x[i]` and `x[i] = v` leave the check to NumPy, which goes through the indices anyway. Before kernels do that work, each
such equation gets a `require` before it, which comes from the same line; an index that the user's function has checked,
or that is a constant in range, needs none.

A factorization that may fail becomes one that gives NaN where it does, and a check of that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from adjoint.compiler.ir.graph import Constant, Graph, Value, op_of
from adjoint.compiler.passes.materialize import may_raise
from adjoint.core.op.spec import Spec, describe
from adjoint.ops.elementwise.comparison import ge, isnan, logical_and, logical_not, lt
from adjoint.ops.indexing.indexing import require
from adjoint.ops.linalg.cholesky_qr import cholesky, require_positive
from adjoint.ops.linalg.inverse_det_solve import inv, require_regular_inv, require_regular_solve, solve
from adjoint.ops.movement.movement import slice
from adjoint.ops.reduction.reduction import all

BOOL_DTYPE = np.dtype(np.bool_)


def insert_index_checks(graph: Graph) -> Graph:
    """The graph with a check before every equation that reads or writes at indices nobody has checked.

    To be called when equal equations have become one, for what is checked is told by identity.
    """
    out = Graph(graph.name, graph.sizes)
    out.inputs = graph.inputs
    known: dict[Value, tuple[int, int]] = {}  # the narrowest range that indices are known to lie in
    renamed: dict[Value, Value] = {}  # factorizations, and all that depends on them
    for equation in graph.equations:
        v = equation
        if any(x in renamed for x in v.operands):
            inputs = tuple([renamed.get(x, x) if isinstance(x, Value) else x for x in v.inputs])
            v = renamed[equation] = Value(v.op, inputs, v.params, v, v.origin)
        if v.op is REQUIRE_OP and isinstance(v.inputs[1], Value):
            _narrow_range(known, v.inputs[1], v.params["low"], v.params["size"])
        for axis, size, indices in _index_arrays(v):
            low, high = _index_range(indices, known)
            if low < -size or high > size:
                _add_check(out, v, indices, axis, size)
                _narrow_range(known, indices, -size, size)
        if v.op in FACTOR_CHECKS and may_raise(v) and v.size:
            renamed[equation] = _add_checked_factor(out, v)
        else:
            out.equations.append(v)
    out.outputs = [renamed.get(v, v) for v in graph.outputs]
    return out


def needs_index_check(v: Value) -> bool:
    """True if an equation reads or writes at indices that are not known to be in range."""
    ranges = ((_index_range(indices, {}), size) for _, size, indices in _index_arrays(v))
    return any(low < -size or high > size for (low, high), size in ranges)


def is_refusable(v: Value) -> bool:
    """True for an equation that a call may refuse, by its values."""
    return may_raise(v) or v.op.family == "check" or needs_index_check(v)


GE, LT, LOGICAL_AND, ALL, REQUIRE_OP = map(op_of, (ge, lt, logical_and, all, require))
ISNAN, LOGICAL_NOT, SLICE = map(op_of, (isnan, logical_not, slice))
FACTOR_CHECKS = {  # of what is NaN from the first element of a matrix on where it fails
    op_of(cholesky): op_of(require_positive),
    op_of(inv): op_of(require_regular_inv),
    op_of(solve): op_of(require_regular_solve),
}
FIRST_INDEX_INPUT = {"index": 1, "put_index": 2, "index_add": 1}  # the first input that is an index


def _index_arrays(v: Value) -> Iterator[tuple[int, int, Value]]:
    """Each index array of an equation, with the dimension in which it looks, and its size."""
    first = FIRST_INDEX_INPUT.get(v.op.name) if v.op is not None else None
    if first is None:
        return
    shape = v.shape if v.op.name == "index_add" else v.inputs[0].shape
    for axis, slot in enumerate(v.params["pattern"]):
        if slot is not None and isinstance(v.inputs[first + slot], Value):
            yield axis, shape[axis], v.inputs[first + slot]


def _index_range(indices: Value, known: dict[Value, tuple[int, int]]) -> tuple[float, float]:
    """Between what indices are known to lie: the second number is above them."""
    if not indices.size:
        return 0, 0
    if indices in known:
        return known[indices]
    if isinstance(indices.source, Constant):
        return int(indices.source.array.min()), int(indices.source.array.max()) + 1
    if indices.op is not None and indices.op.index is not None:  # moved, they are what they were
        return _index_range(indices.inputs[0], known)
    if indices.op is not None and indices.op.name == "argsort":
        return 0, indices.shape[indices.params["axis"]]
    if indices.op is not None and indices.op.name == "iota":
        start, step, count = (indices.params[name] for name in ("start", "step", "count"))
        ends = (start, start + step * (count - 1))
        return min(ends), max(ends) + 1
    return -np.inf, np.inf


def _narrow_range(known: dict[Value, tuple[int, int]], indices: Value, low: int, high: int) -> None:
    before = known.get(indices, (low, high))
    known[indices] = max(low, before[0]), min(high, before[1])


def _add_check(out: Graph, v: Value, indices: Value, axis: int, size: int) -> None:
    spec = Spec(indices.shape, BOOL_DTYPE)
    above = out.add(GE, (indices, -size), {}, spec, v.origin)
    below = out.add(LT, (indices, size), {}, spec, v.origin)
    holds = out.add(LOGICAL_AND, (above, below), {}, spec, v.origin)
    every = {"axes": tuple(range(len(indices.shape))), "keepdims": False}
    holds = out.add(ALL, (holds,), every, Spec((), BOOL_DTYPE), v.origin)
    given = ", ".join(describe(x) if isinstance(x, Value) else repr(x) for x in v.inputs)
    complaint = f"{v.op.name}({given}): index {{}} is out of bounds for dimension {axis} with size {{size}}"
    params = {"low": -size, "size": size, "complaint": complaint, "error": IndexError}
    out.add(REQUIRE_OP, (holds, indices), params, Spec((), BOOL_DTYPE), v.origin)


def _add_checked_factor(out: Graph, v: Value) -> Value:
    """Add a factorization without an error, and the check that raises it; return its result."""
    result = out.add(v.op, v.inputs, {**v.params, "name": ""}, v, v.origin)
    lead = v.shape[:-2]
    corner = (*((0, n, 1) for n in lead), (0, 1, 1), (0, 1, 1))
    first = out.add(SLICE, (result,), {"bounds": corner}, Spec((*lead, 1, 1), v.dtype), v.origin)
    missing = out.add(ISNAN, (first,), {}, Spec(first.shape, BOOL_DTYPE), v.origin)
    there = out.add(LOGICAL_NOT, (missing,), {}, missing, v.origin)
    every = {"axes": tuple(range(len(first.shape))), "keepdims": False}
    holds = out.add(ALL, (there,), every, Spec((), BOOL_DTYPE), v.origin)
    out.add(FACTOR_CHECKS[v.op], (holds, *v.inputs), v.params, Spec((), BOOL_DTYPE), v.origin)
    return result

"""Creation of tensors, as ops: a compiled step makes them anew on each run."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.size import as_size, has_symbolic
from adjoint.core.tensor.tensor import constant
from adjoint.core.typing import Array, Function, NumpyDtype, Operand, Shape
from adjoint.ops.elementwise.arithmetic import add
from adjoint.ops.elementwise.comparison import eq, ge
from adjoint.ops.elementwise.select import cast
from adjoint.ops.movement.movement import reshape


@primitive(family="full", spec=lambda *, shape, value, dtype: Spec(shape, dtype))
def full(*, shape: Shape, value: Operand, dtype: NumpyDtype) -> Operand:
    """`shape` filled with `value`."""
    return np.full(shape, value, dtype)


def zeros(shape: Shape, dtype: NumpyDtype) -> Operand:
    """Return zeros: made anew in each call where sizes differ."""
    return full(shape=shape, value=0, dtype=dtype) if has_symbolic(*shape) else constant(np.zeros(shape, dtype))


def ones(shape: Shape, dtype: NumpyDtype) -> Operand:
    """Return ones: made anew in each call where sizes differ."""
    return full(shape=shape, value=1, dtype=dtype) if has_symbolic(*shape) else constant(np.ones(shape, dtype))


@primitive(family="iota", spec=lambda *, count, start, step, dtype: Spec((count,), dtype))
def iota(*, count: int, start: float, step: float, dtype: NumpyDtype) -> Array:
    """start, start + step, …: `count` numbers."""
    numbers = np.arange(count)
    return (numbers if start == 0 and step == 1 else start + numbers * step).astype(dtype, copy=False)


def count_from(start: float, step: float, count: int, dtype: NumpyDtype) -> Operand:
    """Return what `iota` makes; an integer that is another in each call is added, as a kernel's own are constants."""
    if dtype.kind in "iu" and has_symbolic(start):
        return add(iota(count=as_size(count), start=0, step=int(step), dtype=dtype), start)
    return iota(count=as_size(count), start=start, step=step, dtype=dtype)


def positions(count: int, dtype: NumpyDtype) -> Operand:
    """Return 0, 1, … of so many places along a dimension: made anew in each call where sizes differ."""
    return count_from(0, 1, count, dtype) if has_symbolic(count) else constant(np.arange(count, dtype=dtype))


def mark_triangle(rows: int, columns: int, diagonal: int = 0) -> Operand:
    """Return a matrix of truths on and below a diagonal, zeros above: compared anew in each call where sizes differ."""
    if not has_symbolic(rows, columns, diagonal):
        return constant(np.tri(rows, columns, diagonal, dtype=np.bool_))
    return _compare_positions(ge, rows, columns, diagonal)


def mark_diagonal(rows: int, columns: int, dtype: NumpyDtype) -> Operand:
    """Return a matrix of ones on the diagonal, zeros elsewhere: compared anew in each call where sizes differ.

    Raises RuntimeError for a negative size.
    """
    for name, size in (("n", rows), ("m", columns)):
        if size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    if not has_symbolic(rows, columns):
        return constant(np.eye(rows, columns, dtype=dtype))
    return cast(_compare_positions(eq, rows, columns, 0), dtype=dtype)


def _compare_positions(comparison: Function, rows: int, columns: int, diagonal: int) -> Operand:
    lines = reshape(count_from(diagonal, 1, rows, np.dtype(np.int64)), shape=(as_size(rows), 1))
    return comparison(lines, iota(count=as_size(columns), start=0, step=1, dtype=np.dtype(np.int64)))


MAX_STEPPED_SAFELY = 1e30  # no difference of numbers below it is beyond float32
# these hold a product of two exactly
WIDER_DTYPE: dict[NumpyDtype, type[np.floating[Any]]] = {
    np.dtype(np.float32): np.float64,
    np.dtype(np.float64): np.longdouble,
}


def even_steps_array(start: Operand, end: Operand, steps: int, kind: NumpyDtype) -> Array:
    """Return `steps` elements of the dtype `kind` from `start` to `end`, both included."""
    if kind not in WIDER_DTYPE or steps < 2:
        return np.linspace(start, end, steps).astype(kind)
    if abs(start) < MAX_STEPPED_SAFELY and abs(end) < MAX_STEPPED_SAFELY:
        return _count_steps(kind.type(start), kind.type(end), steps, kind)
    with np.errstate(over="ignore", invalid="ignore"):
        return _count_steps(kind.type(start), kind.type(end), steps, kind)


def _count_steps(first: Operand, last: Operand, steps: int, kind: NumpyDtype) -> Array:
    """Count the steps up from the first number to the middle, and down to it from the last, in a wider type."""
    wider = WIDER_DTYPE[kind]
    step, half = wider((last - first) / kind.type(steps - 1)), steps // 2
    out = np.arange(steps).astype(wider)
    below, above = out[:half], out[half:]
    np.add(np.multiply(below, step, below), wider(first), below)
    np.subtract(steps - 1, above, above)
    np.subtract(wider(last), np.multiply(above, step, above), above)
    return out.astype(kind)


def _whole_number(x: Operand) -> int:
    """Return a number without its fraction; NaN is some integer."""
    return int(x) if isinstance(x, int) else int(np.asarray(x).astype(np.int64))


def _range_spec(start: Operand, end: Operand, *, steps: int, dtype: NumpyDtype, **_: object) -> Spec:
    return Spec((steps,), dtype)


@primitive(spec=_range_spec)
def even_steps(start: Operand, end: Operand, *, steps: int, dtype: NumpyDtype) -> Array:
    """`steps` numbers from `start` to `end`; between integers without their fractions."""
    if dtype.kind not in "iu":
        first, last = (v if type(v) is float or type(v) is int else np.asarray(v).item() for v in (start, end))
        return even_steps_array(first, last, steps, dtype)
    start, end, at = _whole_number(start), _whole_number(end), np.arange(steps)
    gap = (end - start) / max(steps - 1, 1)
    # counted from both ends to the middle
    counted = np.where(at < steps // 2, start + gap * at, end - gap * (steps - 1 - at) if steps > 1 else start)
    return np.trunc(counted).astype(dtype)


@primitive(spec=_range_spec)
def even_ratios(start: Operand, end: Operand, *, steps: int, base: float, dtype: NumpyDtype) -> Array:
    """`steps` powers of `base`, from `start` to `end`; integers are powers between whole numbers."""
    if dtype.kind in "iu":
        start, end = _whole_number(start), _whole_number(end)
    with np.errstate(invalid="ignore"):
        exponents = np.linspace(np.asarray(start).item(), np.asarray(end).item(), steps)
        powers = np.power(base + 0j if dtype.kind == "c" else float(base), exponents)
        return powers.astype(dtype)

"""Constants that depend on the sizes of free axes: recognised as ranges, triangles, or positions beyond an edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from adjoint.core.typing import Array
from adjoint.interop.onnx.free_numbers import TracedValue, join_numbers
from adjoint.interop.onnx.graph_writer import INT64, OnnxWriter
from adjoint.interop.onnx.modes import OnnxExporterError
from adjoint.interop.onnx.translation import BOOL

EVEN_TOLERANCE = 1e-6  # relative and absolute, of rounded steps


def make_constant(w: OnnxWriter, value: TracedValue, arrays: Sequence[Array]) -> str:
    """Return a constant that depends on sizes: one number everywhere, a range along one dimension, or a triangle."""
    first = arrays[0]
    if all(a.size and np.all(a == first.flat[0]) for a in arrays):
        return w.node("Expand", w.scalar(first.flat[0], first.dtype), w.integers(value.shape, value))
    return (
        _make_range(w, value, arrays)
        or _make_even_steps(w, value, arrays)
        or _make_padding_positions(w, value, arrays)
        or _make_triangle(w, value, arrays)
        or _refuse_constant(value)
    )


def _make_range(w: OnnxWriter, value: TracedValue, arrays: Sequence[Array]) -> str | None:
    long = [axis for axis, n in enumerate(value.shape) if n != 1]
    steps = {np.diff(a.ravel())[:1].tobytes() for a in arrays if a.size > 1 and a.dtype.kind in "iuf"}
    starts = {a.ravel()[0].tobytes() for a in arrays}
    if len(long) != 1 or len(steps) != 1 or len(starts) != 1:
        return None
    start = arrays[0].ravel()[0].item()
    step = arrays[0].ravel()[1].item() - start
    if not all(np.array_equal(a.ravel(), (start + np.arange(a.size) * step).astype(a.dtype)) for a in arrays):
        return None
    count = w.number(value.shape[long[0]], INT64, value)
    zero, one = w.scalar(0, INT64), w.scalar(1, INT64)
    numbers = w.cast(w.node("Range", zero, count, one), value.dtype)
    scaled = w.node("Mul", numbers, w.scalar(step, value.dtype))
    moved = w.node("Add", scaled, w.scalar(start, value.dtype))
    return w.node("Reshape", moved, w.integers([-1 if n != 1 else 1 for n in value.shape], value))


def _make_even_steps(w: OnnxWriter, value: TracedValue, arrays: Sequence[Array]) -> str | None:
    """Return numbers between two ends, which are the same for all sizes, at even distances."""
    ends = {(a.ravel()[0].item(), a.ravel()[-1].item()) for a in arrays}
    if len(value.shape) != 1 or value.dtype.kind != "f" or len(ends) != 1:
        return None
    ((start, end),) = ends
    if not all(np.allclose(a, np.linspace(start, end, a.size), EVEN_TOLERANCE, EVEN_TOLERANCE) for a in arrays):
        return None
    wide = np.dtype(np.float64)
    intervals = join_numbers(tuple(a.size - 1 for a in arrays))
    zero, one = w.scalar(0, INT64), w.scalar(1, INT64)
    numbers = w.cast(w.node("Range", zero, w.number(value.shape[0], INT64, value), one), wide)
    share = w.node("Div", numbers, w.number(intervals, wide, value))
    moved = w.node("Add", w.node("Mul", share, w.scalar(end - start, wide)), w.scalar(start, wide))
    return w.cast(moved, value.dtype)


# Positions that a padded dimension of n elements takes: of place i from the edge, and the first position of p elements.
EDGES: dict[str, tuple[Callable[[Array, int], Array], Callable[[Array, int], int]]] = {
    "replicate": (lambda i, n: np.clip(i, 0, n - 1), lambda a, n: int(np.count_nonzero(a == 0)) - 1),
    "reflect": (lambda i, n: n - 1 - np.abs(i % (2 * n - 2) - (n - 1)), lambda a, n: int(a[0])),
    "circular": (lambda i, n: i % n, lambda a, n: (n - int(a[0])) % n),
}


def _make_padding_positions(w: OnnxWriter, value: TracedValue, arrays: Sequence[Array]) -> str | None:
    """Return the positions that padding at an edge repeats, reflects or takes from the other end."""
    if len(value.shape) != 1 or value.dtype != INT64 or any(a.size < 2 or a.max() < 1 for a in arrays):
        return None
    sizes = [int(a.max()) + 1 for a in arrays]
    for kind, (formula, count_before) in EDGES.items():
        before = {count_before(a, n) for a, n in zip(arrays, sizes, strict=True)}
        if len(before) == 1 and all(
            np.array_equal(a, formula(np.arange(a.size) - min(before), n)) for a, n in zip(arrays, sizes, strict=True)
        ):
            return _write_padding_positions(w, value, kind, min(before), sizes)
    return None


def _write_padding_positions(w: OnnxWriter, value: TracedValue, kind: str, before: int, sizes: list[int]) -> str:
    zero, one = w.scalar(0, INT64), w.scalar(1, INT64)
    places = w.node("Range", zero, w.number(value.shape[0], INT64, value), one)
    places = w.node("Sub", places, w.scalar(before, INT64))
    n = w.number(join_numbers(tuple(sizes)), INT64, value)
    last = w.node("Sub", n, one)
    if kind == "circular":
        return w.node("Mod", places, n)
    if kind == "replicate":
        return w.node("Min", w.node("Max", places, zero), last)
    period = w.node("Mul", last, w.scalar(2, INT64))
    return w.node("Sub", last, w.node("Abs", w.node("Sub", w.node("Mod", places, period), last)))


def _make_triangle(w: OnnxWriter, value: TracedValue, arrays: Sequence[Array]) -> str | None:
    """Return a matrix with one number up to a diagonal, and another above it."""
    rank = len(value.shape)
    if rank < 2 or any(n != 1 for n in value.shape[:-2]):
        return None
    corners = {(a[..., -1, 0].tobytes(), a[..., 0, -1].tobytes()) for a in arrays}
    planes = [a.reshape(a.shape[-2:]) for a in arrays]
    below, above = planes[0][-1, 0], planes[0][0, -1]
    offsets = []
    for plane in planes:
        is_below = plane == below
        first = np.flatnonzero(is_below[0])
        offsets.append(int(first[-1]) if first.size else -int(np.argmax(is_below[:, 0])))
        wanted = np.where(np.tri(*plane.shape, offsets[-1], dtype=bool), below, above)
        if not np.array_equal(wanted, plane, equal_nan=plane.dtype.kind == "f"):
            return None
    if len(corners) != 1:
        return None
    rows, columns = (
        w.node("Range", w.scalar(0, INT64), w.number(n, INT64, value), w.scalar(1, INT64)) for n in value.shape[-2:]
    )
    offset = w.number(join_numbers(tuple(offsets)), INT64, value)
    column = w.node("Unsqueeze", w.node("Add", rows, offset), w.integers([1], value))
    is_above = w.node("Greater", columns, column)
    if value.dtype == BOOL:
        written = is_above if above else w.chain(is_above, "Not")
    else:
        written = w.node("Where", is_above, *(w.scalar(n, value.dtype) for n in (above, below)))
    return written if rank == 2 else w.node("Reshape", written, w.integers(value.shape, value))


def _refuse_constant(value: TracedValue) -> NoReturn:
    shapes = " and ".join(str(list(v.shape)) for v in value.traces[:2])
    raise OnnxExporterError(
        f"torch.onnx.export: the model uses a constant of shapes {shapes} that depends on a free axis, and is no "
        "range and no triangle: make it with torch.arange and comparisons, or do not name that axis in dynamic_axes"
    )

"""A tensor in a notebook: its type and history, statistics, a picture, and a table of values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from adjoint.core.graph.node import GraphNode
from adjoint.core.runtime.html import render_frame, render_table
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.printing import choose_element_text, format_tensor, options
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array
from adjoint.diagnosis.displays.pictures import (
    as_pixels,
    render_curve,
    render_heat_map,
    render_histogram,
    render_image,
)
from adjoint.nn.module.parameter import Buffer, Parameter

MAX_ELEMENTS = 1 << 18  # of larger tensors statistics and pictures are of a sample
MAX_SIDE = 20  # rows or columns of a table that are shown whole
MIN_CURVE_LENGTH = 8


def render_tensor(tensor: Tensor) -> str | None:
    """Render a tensor; None for one without values of its own: a meta tensor, or one of a trace or transform."""
    array = tensor.array
    if type(tensor) not in (Tensor, Parameter, Buffer) or type(array) is not np.ndarray:
        return None
    if nondefault.count and (mode.interpreter is not None or mode.forward_levels is not None):
        return None
    sample = take_sample(array)
    parts = [f"<p>{_describe(tensor)}</p>"]
    with np.errstate(all="ignore"):
        if array.size:
            parts.append(f"<p>{_summarize(sample, array.size)}</p>")
            parts += [f"<div>{picture}</div>" for picture in [_draw(array, sample)] if picture]
        parts.append(_render_values(tensor, array))
    return render_frame("\n".join(parts))


def take_sample(array: Array) -> Array:
    """Return a view of at most about `MAX_ELEMENTS` elements, evenly spaced, the first dimensions being thinned first.

    Rows that lie together are read together, so that a sample of a large array takes no longer than a small array.
    """
    excess = array.size / MAX_ELEMENTS
    steps = []
    for size in array.shape:
        step = max(1, int(np.ceil(min(excess, size))))
        excess /= size / -(-size // step) if size else 1
        steps.append(slice(None, None, step))
    return array[tuple(steps)]


def _describe(tensor: Tensor) -> str:
    kind = "" if type(tensor) is Tensor else f"{type(tensor).__name__} · "
    parts = [f"{kind}<b>{escape(str(tensor.dtype).rpartition('.')[2])}</b> {escape(str(list(tensor.array.shape)))}"]
    node = tensor.grad_fn
    if isinstance(node, GraphNode):
        parts.append(f"<code>{escape(node.name())}</code> at {escape(node.site.describe_briefly())}")
    elif tensor.requires_grad:
        parts.append("requires_grad")
    return " · ".join(parts)


def _summarize(sample: Array, size: int) -> str:
    """Return the extremes, the mean, and how many values are not finite."""
    whole = sample.size == size
    parts = [] if whole else [f"of {sample.size:,} sampled elements among {size:,}"]
    kind = sample.dtype.kind
    if kind == "b":
        return " · ".join([*parts, f"{np.count_nonzero(sample):,} of {sample.size:,} are True"])
    values = np.abs(sample) if kind == "c" else sample
    if kind not in "iu":
        values = values.astype(np.float64)
        is_finite = np.isfinite(values)
        finite = values[is_finite]
        nan = int(np.count_nonzero(np.isnan(values)))
        infinite = values.size - finite.size - nan
        values = finite
    else:
        nan = infinite = 0
    if values.size:
        names = ("min", "mean", "max") if kind != "c" else ("min |z|", "mean |z|", "max |z|")
        numbers = (values.min(), values.mean(dtype=np.float64), values.max())
        exact = [
            f"{int(n):,}" if kind in "iu" and name != "mean" else f"{n:.4g}"
            for name, n in zip(names, numbers, strict=True)
        ]
        parts += [f"{name} {number}" for name, number in zip(names, exact, strict=True)]
    parts += [f'<span class="marked">{nan:,} NaN</span>'] if nan else []
    parts += [f'<span class="marked">{infinite:,} infinite</span>'] if infinite else []
    return " · ".join(parts)


def _draw(array: Array, sample: Array) -> str:
    """Return the picture that suits the shape: an image, a curve, a heat map or a histogram."""
    if array.size < MIN_CURVE_LENGTH:
        return ""
    pixels = as_pixels(array)
    if pixels is not None:
        return render_image(pixels, "the tensor as an image")
    if sample.dtype.kind == "c":
        sample = np.abs(sample)
    if array.ndim == 1:
        return render_curve(sample)
    if array.ndim == 2 and min(array.shape) > 1:
        return render_heat_map(sample) + ("" if sample.dtype.kind == "b" else render_histogram(sample))
    return render_histogram(sample)


def _render_values(tensor: Tensor, array: Array) -> str:
    if array.size == 0 or array.ndim > 2:
        with_text = f"<details><summary>values</summary><pre>{escape(format_tensor(tensor))}</pre></details>"
        return with_text if array.size else "<p>no elements</p>"
    matrix = array.reshape(1, -1) if array.ndim < 2 else array
    rows, columns = (_shown_places(n, array.size > options.threshold) for n in matrix.shape)
    shown = matrix[np.ix_([i for i in rows if i is not None], [j for j in columns if j is not None])]
    text, _ = choose_element_text(shown)

    def render_cell(i: int | None, j: int | None) -> str:
        if i is None or j is None:
            return "…"
        value = matrix[i, j]
        cell = escape(text(value).strip())
        return cell if value.dtype.kind in "biu" or np.isfinite(value) else f'<span class="marked">{cell}</span>'

    if array.ndim == 0:
        return f"<p><b>{render_cell(0, 0)}</b></p>"
    heads = ["…" if j is None else str(j) for j in columns]
    body: Iterator[Sequence[str]] = ([render_cell(i, j) for j in columns] for i in rows)
    if array.ndim == 1:
        return render_table(heads, body, range(len(heads)))
    lines = [
        ["…" if i is None else f'<span class="dim">{i}</span>', *cells] for i, cells in zip(rows, body, strict=True)
    ]
    table = render_table(["", *heads], lines, range(len(heads) + 1))
    if len(lines) <= MAX_SIDE // 2:
        return table
    return f"<details><summary>values, {pluralize(matrix.shape[0], 'row')}</summary>{table}</details>"


def _shown_places(size: int, is_summarized: bool) -> list[int | None]:
    """Return the indices of a dimension that a table shows; None stands for those left out."""
    edge = options.edge if is_summarized else MAX_SIDE // 2
    if size <= max(2 * edge, 1):
        return list(range(size))
    return [*range(edge), None, *range(size - edge, size)]

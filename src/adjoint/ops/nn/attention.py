"""Scaled dot product attention of stacks of heads, and its gradient, without the matrix of all weights.

Results lie with the rows before the heads, (…, L, H, E), as the projection behind reads them. NumPy computes a few
heads, or rows of one, at a time, so that the weights it works on stay in a cache.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.evaluation import compute
from adjoint.core.op.families import primitive, with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.mode import mode
from adjoint.core.typing import Array, Function, Operand, Operands, Shape
from adjoint.ops.creation import mark_triangle
from adjoint.ops.elementwise import arithmetic, comparison, select, transcendental
from adjoint.ops.linalg import matmul
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

BLOCK_WEIGHTS = 2**16  # weights computed at a time, unless one row has more
SECONDS_PER_WEIGHT = 4e-9  # seconds that NumPy takes for a weight
MAX_CAUSAL_ROWS = 128  # of one head at a time where later keys are left out
MAX_FEW_QUERIES, MAX_FEW_WEIGHTS = 4, 2**13  # of native code for any number of keys: queries of a head, or all weights
MAX_FEW_PRODUCTS = 2**23  # multiplications: native code keeps Python's lock
MAX_GRADIENT_PRODUCTS = 2**19  # multiplications of q by k from which on BLAS makes up for its several calls
few_queries_kernel = SmallArrayKernel("few_queries")
gradient_kernel = SmallArrayKernel("few_queries_gradient")


@primitive(
    family="attention",
    batch_leading=True,
    native=lambda q, k, v, mask=None, **__: (
        0.0 if _are_few_queries(q, k, mask) else math.prod(q.shape[:-1]) * k.shape[-2] * SECONDS_PER_WEIGHT
    ),
    spec=lambda q, k, v, mask=None, **_: Spec((*q.shape[:-3], q.shape[-2], q.shape[-3], v.shape[-1]), q.dtype),
    node="ScaledDotProductAttentionBackward0",
    dq=lambda g, q, k, v, mask, scale, causal: _input_gradient(0, g, q, k, v, mask, scale, causal),
    dk=lambda g, q, k, v, mask, scale, causal: _input_gradient(1, g, q, k, v, mask, scale, causal),
    dv=lambda g, q, k, v, mask, scale, causal: _input_gradient(2, g, q, k, v, mask, scale, causal),
)
def attention(q: Array, k: Array, v: Array, mask: Array | None = None, *, scale: float, causal: bool) -> Array:
    """softmax(q kᵀ · scale + mask) v of each head: (…, H, L, E), (…, H, S, E), (…, H, S, Ev) -> (…, L, H, Ev).

    The mask has as many dimensions, of size 1 where it is the same for all; bools say which keys take part, numbers
    are added. `causal`: row i sees the keys up to i. A row that sees none is 0.
    """
    *lead, heads, rows, _ = q.shape
    width = v.shape[-1]
    if _are_few_queries(q, k, mask):
        result = np.empty((*lead, rows, heads, width), q.dtype)
        keys = k.shape[-2]
        # a cache that is not full yet is a part of its memory: a copy of what is read takes less time than NumPy
        q_rows, k_rows, v_rows = (x if x.flags.c_contiguous else x.copy() for x in (q, k, v))
        arrays = q_rows, k_rows, v_rows, np.empty(keys, q.dtype), result
        numbers = float(heads), float(rows), 0.0 if causal else float(keys)
        if few_queries_kernel.call(*arrays, float(scale), *numbers) is not None:
            return result
    q, k, v = _by_head(q * q.dtype.type(scale)), _by_head(k), _by_head(v)
    out = np.empty((len(q), rows, width), q.dtype)
    for at in _blocks(q, k, causal):
        e, total = _exponentials(_scores(at, q, k, mask, (*lead, heads), causal))
        part = multiply_matrices(e, v[at.heads, at.keys], out=out[at.heads, at.rows])
        part /= total
    return np.ascontiguousarray(out.reshape(*lead, heads, rows, width).swapaxes(-2, -3))


def _are_few_queries(q: Array, k: Array, mask: Array | None) -> bool:
    """Return whether native code may compute the attention that is not made for these shapes alone."""
    if mask is not None or not kernel_provider.enabled:
        return False
    weights = math.prod(q.shape[:-1]) * k.shape[-2]
    few = q.shape[-2] <= MAX_FEW_QUERIES or weights <= MAX_FEW_WEIGHTS
    return few and 0 < weights * q.shape[-1] <= MAX_FEW_PRODUCTS


def _gradient_spec(
    g: Operand, q: Operand, k: Operand, v: Operand, mask: Operand = None, *, scale: float, causal: bool
) -> Spec:
    *lead, heads, rows, size = q.shape
    if q.shape == k.shape == v.shape:
        return Spec((*lead, rows, 3, heads, size), q.dtype)
    return Spec((*lead, sum(math.prod(x.shape[-3:]) for x in (q, k, v))), q.dtype)


@primitive(
    family="attention",
    batch_leading=True,
    native=lambda g, q, k, *_, **__: math.prod(q.shape[:-1]) * k.shape[-2] * SECONDS_PER_WEIGHT * 2,
    spec=_gradient_spec,
)
def attention_gradient(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None = None, *, scale: float, causal: bool
) -> Array:
    """The gradients of `attention` in q, k and v, from the gradient g (…, L, H, Ev) of its result, in one array.

    With inputs of one shape they lie side by side, (…, L, 3, H, E); else one after the other, (…, elements), each as
    (rows, H, size). `gradient_part` takes them apart.
    """
    lead = q.shape[:-2]
    same = q.shape == k.shape == v.shape
    if math.prod(q.shape) * k.shape[-2] <= MAX_GRADIENT_PRODUCTS and _are_few_queries(q, k, mask):
        found = _compute_gradient_natively(g, q, k, v, scale, causal)
        if found is not None:
            return found
    q, k, v, g = _by_head(q), _by_head(k), _by_head(v), _by_head(g.swapaxes(-2, -3))
    factor = q.dtype.type(scale)
    scaled = q * factor
    dq, dk, dv = np.empty_like(q), np.zeros_like(k), np.zeros_like(v)
    for at in _blocks(q, k, causal):
        weights, total = _exponentials(_scores(at, scaled, k, mask, lead, causal))
        weights /= total
        above = g[at.heads, at.rows]
        dv[at.heads, at.keys] += multiply_matrices(weights.swapaxes(1, 2), above)
        slopes = multiply_matrices(above, v[at.heads, at.keys].swapaxes(1, 2))
        slopes -= np.einsum("hls,hls->hl", slopes, weights)[..., None]
        slopes *= weights
        multiply_matrices(slopes, k[at.heads, at.keys], out=dq[at.heads, at.rows])
        dk[at.heads, at.keys] += multiply_matrices(slopes.swapaxes(1, 2), scaled[at.heads, at.rows])
    dq *= factor
    parts = [part.reshape(*lead, *part.shape[1:]).swapaxes(-2, -3) for part in (dq, dk, dv)]
    if same:
        rows, heads, size = parts[0].shape[-3:]
        return np.stack(parts, axis=-3, out=np.empty((*lead[:-1], rows, 3, heads, size), dq.dtype))
    return np.concatenate([p.reshape(*lead[:-1], math.prod(p.shape[-3:])) for p in parts], axis=-1)


def _compute_gradient_natively(g: Array, q: Array, k: Array, v: Array, scale: float, causal: bool) -> Array | None:
    """`attention_gradient` by native code; None if NumPy should compute it."""
    heads, rows, keys = float(q.shape[-3]), float(q.shape[-2]), k.shape[-2]
    same = q.shape == k.shape == v.shape
    out = np.zeros(_gradient_spec(g, q, k, v, scale=scale, causal=causal).shape, q.dtype)
    arrays = [x if x.flags.c_contiguous else x.copy() for x in (g, q, k, v)]
    scratch = np.empty(keys, q.dtype), np.empty(keys, q.dtype)
    numbers = float(scale), heads, rows, 0.0 if causal else float(keys), float(same)
    return out if gradient_kernel.call(*arrays, *scratch, out, *numbers) is not None else None


def gradient_part(gradient: Operand, i: int, q: Shape, k: Shape, v: Shape) -> Tensor:
    """The gradient in q, k or v, of these shapes: a view of what `attention_gradient` gives."""
    *lead, heads, rows, size = (q, k, v)[i]
    if q == k == v:
        part = movement.select(gradient, axis=len(lead) + 1, at=i)
    else:
        start = sum(math.prod(shape[-3:]) for shape in (q, k, v)[:i])
        bounds = (*((0, n, 1) for n in lead), (start, start + heads * rows * size, 1))
        part = movement.reshape(movement.slice(gradient, bounds=bounds), shape=(*lead, rows, heads, size))
    return movement.swap(part, -2, -3)


def _input_gradient(
    i: int, g: Operand, q: Operand, k: Operand, v: Operand, mask: Operand, scale: float, causal: bool
) -> Tensor:
    """The gradient in the i-th input; composed of other ops where it is differentiated again."""
    if mode.recording or mode.forward_levels is not None:
        return _composed_gradient(i, movement.swap(g, -2, -3), q, k, v, mask, scale, causal)
    shapes = tuple(q.shape), tuple(k.shape), tuple(v.shape)
    if isinstance(g, np.ndarray):
        return gradient_part(_gradient_cache.gradient(i, (g, q, k, v, mask), scale, causal), i, *shapes)
    return gradient_part(attention_gradient(g, q, k, v, mask, scale=scale, causal=causal), i, *shapes)


class _GradientCache(threading.local):
    """The last computed gradient: three rules ask for it, one after the other."""

    def __init__(self) -> None:
        self.forget()

    def forget(self, _: Function | None = None) -> None:
        """Clear the cache; also called when the incoming gradient is deleted."""
        self.arrays: Operands = ()
        self.copy: Any = None
        self.found: Any = None

    def gradient(self, i: int, arrays: Operands, scale: float, causal: bool) -> Array:
        """`attention_gradient` of these arrays, for the i-th of the inputs."""
        known = len(arrays) == len(self.arrays) and all(r() is a for r, a in zip(self.arrays, arrays, strict=True))
        # what is saved for backward keeps its values; the gradient that arrives may be the user's, who writes it
        if not known or not np.array_equal(self.copy, arrays[0]):
            params = {"scale": scale, "causal": causal}
            self.found = compute(op_of(attention_gradient), arrays, params)
            self.arrays = (ref(arrays[0], self.forget), *[(lambda: None) if a is None else ref(a) for a in arrays[1:]])
            self.copy = arrays[0].copy()
        found = self.found
        if i == 2:
            self.forget()
        return found


_gradient_cache = _GradientCache()


def _composed_gradient(
    i: int, g: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, causal: bool
) -> Tensor:
    weights = attention_weights(q, k, mask, scale, causal)
    if i == 2:
        return matmul.bmm(movement.swap(weights, -1, -2), g)
    slopes = matmul.bmm(g, movement.swap(v, -1, -2))
    along = reduction.sum(slopes * weights, axes=(len(slopes.shape) - 1,), keepdims=True)
    slopes = weights * (slopes - along) * scale
    return matmul.bmm(slopes, k) if i == 0 else matmul.bmm(movement.swap(slopes, -1, -2), q)


def attention_weights(q: Tensor, k: Tensor, mask: Operand, scale: float, causal: bool) -> Tensor:
    """softmax(q kᵀ · scale + mask) of (…, L, E) and (…, S, E): (…, L, S)."""
    scores = matmul.bmm(arithmetic.mul(q, scale), movement.swap(k, -2, -1))
    if causal:
        scores = select.where(mark_triangle(*scores.array.shape[-2:]), scores, -math.inf)
    if mask is None:
        return safe_softmax(scores)
    array: Operand = getattr(mask, "array", mask)
    is_bool = array.dtype.kind == "b"
    return safe_softmax(select.where(mask, scores, -math.inf) if is_bool else arithmetic.add(scores, mask))


def _composed_softmax(x: Tensor) -> Tensor:
    if not x.shape[-1]:
        return x
    last = (len(x.shape) - 1,)
    largest = reduction.max(x.detach(), axes=last, keepdims=True)
    e = transcendental.exp(x - select.where(comparison.eq(largest, -math.inf), 0.0, largest))
    total = reduction.sum(e, axes=last, keepdims=True)
    return e / select.where(comparison.eq(total, 0.0), 1.0, total)


def _softmax_dx(g: Operand, out: Operand) -> Tensor:
    weighed = g * out
    return weighed - out * reduction.sum(weighed, axes=(len(out.shape) - 1,), keepdims=True)


@with_eager_fast_path(composite=_composed_softmax, node="SafeSoftmaxBackward0", dx=_softmax_dx)
def safe_softmax(x: Array) -> Array:
    """eˣ / Σ eˣ over the last dimension; a row of nothing but -inf gives zeros."""
    e, total = _exponentials(x.copy())
    e /= total
    return e


class _AttentionBlock(NamedTuple):
    """Rows of some heads, and the keys that they see."""

    heads: slice
    rows: slice
    keys: slice


def _blocks(q: Array, k: Array, causal: bool) -> Iterator[_AttentionBlock]:
    (heads, rows, _), keys = q.shape, k.shape[1]
    high = max(min(rows, BLOCK_WEIGHTS // max(keys, 1), MAX_CAUSAL_ROWS if causal else rows), 1)
    many = max(BLOCK_WEIGHTS // max(high * keys, 1), 1) if high == rows else 1
    for h in range(0, heads, many):
        for i in range(0, rows, high):
            yield _AttentionBlock(
                slice(h, h + many), slice(i, i + high), slice(min(keys, i + high) if causal else keys)
            )


def _scores(at: _AttentionBlock, q: Array, k: Array, mask: Array | None, lead: Shape, causal: bool) -> Array:
    """q kᵀ + mask of a block; -inf where a key takes no part."""
    x = multiply_matrices(q[at.heads, at.rows], k[at.heads, at.keys].swapaxes(1, 2))
    if causal:
        rows = np.arange(at.rows.start, at.rows.start + x.shape[1])
        np.copyto(x, -math.inf, where=rows[:, None] < np.arange(x.shape[2]))
    if mask is None:
        return x
    mask = _part_of_mask(at, mask, lead)
    if mask.dtype.kind == "b":
        np.copyto(x, -math.inf, where=~mask)
    else:
        x += mask
    return x


def _part_of_mask(at: _AttentionBlock, mask: Operand, lead: Shape) -> Operand:
    rows, keys = (s if n > 1 else slice(None) for s, n in zip((at.rows, at.keys), mask.shape[-2:], strict=True))
    if math.prod(mask.shape[:-2]) == 1:
        return mask[(*(0,) * (mask.ndim - 2), rows, keys)]
    numbers = np.arange(math.prod(lead))[at.heads]
    places = np.unravel_index(numbers, lead)
    own = (i if n > 1 else np.zeros_like(i) for i, n in zip(places, mask.shape, strict=False))
    return mask[(*own, rows, keys)]


def _exponentials(x: Array) -> tuple[Array, Array]:
    """Write e^(x - max) of each row into x; return it and its sum, 1 instead of 0 for a row of -inf."""
    largest = x.max(-1, keepdims=True, initial=-math.inf)
    largest[largest == -math.inf] = 0.0
    x -= largest
    np.exp(x, out=x)
    total = x.sum(-1, keepdims=True)
    total[total == 0.0] = 1.0
    return x, total


def _by_head(x: Array) -> Array:
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])

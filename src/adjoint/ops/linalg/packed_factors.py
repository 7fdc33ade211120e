"""Results of several parts, for ops of matrices: the flattened parts side by side in one array (…, n)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.elementwise.comparison import eq, logical_and, logical_or
from adjoint.ops.elementwise.select import where
from adjoint.ops.linalg.matrices import INFO, transpose_matrix
from adjoint.ops.movement.movement import is_bare, reshape, slice

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

Shapes = tuple[Shape, ...]


def pack_parts(x: Array, *parts: Operand) -> Array:
    """The parts, arrays (…, *shape) where x is (…, m, n), as one array."""
    lead = x.shape[:-2]
    if not lead:
        return np.concatenate([part.reshape(-1) for part in parts])
    return np.concatenate([part.reshape(*lead, prod(part.shape[len(lead) :])) for part in parts], -1)


def packed_spec(shapes: Callable[..., Shapes]) -> Callable[..., Spec]:
    """The spec function of an op of one stack of matrices whose result has parts of these shapes."""
    return lambda x, **params: Spec((*x.shape[:-2], sum(map(prod, shapes(x.shape, **params)))), x.dtype)


def unpack_parts(packed: Operand, shapes: Shapes) -> list[Operand]:
    """The parts of these shapes."""
    lead = tuple(packed.shape[:-1])
    found: list[Operand] = []
    start = 0
    if is_bare(packed):
        for shape in shapes:
            stop = start + prod(shape)
            found.append(packed[..., start:stop].reshape((*lead, *shape)))
            start = stop
        return found
    for shape in shapes:
        bounds = (*((0, n, 1) for n in lead), (start, start + prod(shape), 1))
        found.append(reshape(slice(packed, bounds=bounds), shape=(*lead, *shape)))
        start += prod(shape)
    return found


def triangle(x: Operand, on_diagonal: float, above: float) -> Operand:
    """x below the diagonal, times `on_diagonal` on it, and times `above` above it."""
    n, m = x.shape[-2:]
    below, here = _below(x), np.eye(n, m, dtype=bool)
    return where(below, x, where(here, x * on_diagonal if on_diagonal else 0.0, x * above if above else 0.0))


def lower(x: Tensor) -> Operand:
    """x below the diagonal."""
    return where(_below(x), x, 0.0)


def upper(x: Tensor) -> Operand:
    """x on and above the diagonal."""
    return where(_below(x), 0.0, x)


def _below(x: Operand) -> Array:
    n, m = x.shape[-2:]
    return np.tri(n, m, -1, bool)


def diagonal(values: Operand) -> Operand:
    """Matrices with these numbers on the diagonal."""
    n = values.shape[-1]
    if is_bare(values):
        out = np.zeros((*values.shape, n), values.dtype)
        out[..., range(n), range(n)] = values
        return out
    return where(np.eye(n, dtype=bool), reshape(values, shape=(*values.shape, 1)), 0.0)


def divide_by_gaps(x: Operand, values: Operand) -> Operand:
    """x[i, j] / (values[j] - values[i]); 0 on the diagonal and for 0 / 0, as of equal values."""
    if is_bare(x) and is_bare(values):
        gaps = values[..., None, :] - values[..., None]
        divides = (gaps != 0) | (x != 0)
        divides[..., range(x.shape[-1]), range(x.shape[-1])] = False
        return np.divide(x, gaps, out=np.zeros_like(x), where=divides)
    row = reshape(values, shape=(*values.shape[:-1], 1, values.shape[-1]))
    gaps = row - transpose_matrix(row)
    nothing = logical_or(np.eye(values.shape[-1], dtype=bool), logical_and(eq(gaps, 0.0), eq(x, 0.0)))
    return where(nothing, 0.0, x / where(nothing, 1.0, gaps))


@primitive(spec=lambda x, *, start, stop: Spec((*x.shape[:-1], stop - start), INFO), batch_leading=True)
def integers(x: Array, *, start: int, stop: int) -> Array:
    """The integers among the parts."""
    return x[..., start:stop].real.astype(INFO)


def pivot_size(x: Operand) -> Operand:
    """The magnitude by which LAPACK chooses pivots: |re| + |im|."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)

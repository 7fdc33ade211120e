"""The factors L D Lᵀ of symmetric matrices, by elimination with diagonal pivots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.runtime.threads import one_blas_thread
from adjoint.core.typing import Array, Function, Shape
from adjoint.ops.elementwise.complex import conj, is_complex
from adjoint.ops.linalg.matrices import solve_spec
from adjoint.ops.linalg.packed_factors import Shapes, pack_parts, packed_spec, pivot_size

if TYPE_CHECKING:
    pass

GROWTH = (1 + 17**0.5) / 8  # Bunch and Kaufman's threshold, for which the elements grow least


def ldl_shapes(shape: Shape, **_: object) -> Shapes:
    """The shapes of L and D in one matrix, of the pivots, and of the place of the first zero in D."""
    n = shape[-1]
    return (n, n), (n,), ()


@primitive(spec=packed_spec(ldl_shapes), node="LinalgLdlFactorExBackward0", batch_leading=True)
def ldl(x: Array, *, hermitian: bool = False) -> Array:
    """L and D in the lower triangle, and pivots, from 1: negative, in pairs, where D has a block of two rows.

    Bunch and Kaufman, "Some stable methods for calculating inertia and solving symmetric linear systems", 1977.
    """
    a = np.tril(x)
    rows = np.zeros(x.shape[:-1], x.dtype)
    faults = np.zeros(x.shape[:-2], x.dtype)
    for at in np.ndindex(*x.shape[:-2]):
        faults[at] = _factor(a[at], rows[at], hermitian)
    return pack_parts(x, a, rows, faults)


@one_blas_thread
def _factor(a: Array, rows: Array, hermitian: bool) -> int:
    """Write L and D into the lower triangle of a; return the place of the first zero of D, or 0."""
    n, k, fault = len(a), 0, 0
    turned = np.conj if hermitian else np.asarray
    while k < n:
        width, other = _pivot(a, k, hermitian)
        if width == 0:
            fault = fault or k + 1
            rows[k] = k + 1
            k += 1
            continue
        last = k + width - 1
        if other != last:
            _exchange(a, k, last, other, turned)
        if hermitian:
            at = np.arange(k, n)
            a[at, at] = a[at, at].real
        block = a[k : k + width, k : k + width]
        if width == 2:
            block = np.array([[block[0, 0], turned(block[1, 0])], [block[1, 0], block[1, 1]]])
            rows[k : k + 2] = -(other + 1)
        else:
            rows[k] = other + 1
        below = a[k + width :, k : k + width]
        factor = np.linalg.solve(block.T, below.T).T if below.size else below
        rest = a[k + width :, k + width :]
        rest -= np.tril(factor @ turned(below).T)
        a[k + width :, k : k + width] = factor
        k += width
    return fault


def _pivot(a: Array, k: int, hermitian: bool) -> tuple[int, int]:
    """Return the number of rows of the next block of D, 0 for a column of zeros, and the last row in it."""
    here = pivot_size(a[k, k].real if hermitian else a[k, k])
    below = pivot_size(a[k + 1 :, k])
    most = below.max(initial=0.0)
    if max(here, most) == 0 or np.isnan(here):
        return 0, k
    if here >= GROWTH * most:
        return 1, k
    r = k + 1 + int(below.argmax())
    along = max(pivot_size(a[r, k:r]).max(initial=0.0), pivot_size(a[r + 1 :, r]).max(initial=0.0))
    if here >= GROWTH * most * (most / along):
        return 1, k
    if pivot_size(a[r, r].real if hermitian else a[r, r]) >= GROWTH * along:
        return 1, r
    return 2, r


def _exchange(a: Array, k: int, i: int, j: int, turned: Function) -> None:
    """Exchange rows and columns i < j of the part that is not yet factored; it holds the lower triangle."""
    a[j + 1 :, [i, j]] = a[j + 1 :, [j, i]]
    across = a[j, i + 1 : j].copy()
    a[j, i + 1 : j] = turned(a[i + 1 : j, i])
    a[i + 1 : j, i] = turned(across)
    a[j, i] = turned(a[j, i])
    a[i, i], a[j, j] = a[j, j], a[i, i]
    if i > k:
        a[[i, j], k] = a[[j, i], k]


@primitive(
    spec=lambda a, pivots, b, **_: solve_spec(a, b),
    node="LinalgLdlSolveBackward0",
    raises=True,
    holomorphic=False,
    batch_leading=True,
    db=lambda g, a, pivots, hermitian: (
        ldl_solve(a, pivots, g, hermitian=hermitian)
        if hermitian or not is_complex(a)
        else conj(ldl_solve(a, pivots, conj(g)))
    ),
)
def ldl_solve(a: Array, pivots: Array, b: Array, *, hermitian: bool = False) -> Array:
    """The x with L D Lᵀ x = b."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.empty((*lead, *b.shape[-2:]), b.dtype)
    out[...] = b
    a, pivots = np.broadcast_to(a, (*lead, *a.shape[-2:])), np.broadcast_to(pivots, (*lead, a.shape[-1]))
    for at in np.ndindex(*lead):
        _solve(a[at], pivots[at], out[at], hermitian)
    return out


@one_blas_thread
def _solve(a: Array, pivots: Array, x: Array, hermitian: bool) -> None:
    turned = np.conj if hermitian else np.asarray
    n, k, blocks = len(a), 0, []
    while k < n:
        width = 1 if pivots[k] > 0 else 2
        last, other = k + width - 1, abs(int(pivots[k])) - 1
        x[[last, other]] = x[[other, last]]
        x[k + width :] -= a[k + width :, k : k + width] @ x[k : k + width]
        block = np.tril(a[k : k + width, k : k + width])
        block = block + turned(np.tril(block, -1)).T
        with np.errstate(all="ignore"):
            x[k : k + width] = x[k : k + width] / block[0, 0] if width == 1 else np.linalg.solve(block, x[k : k + 2])
        blocks.append((k, width, last, other))
        k += width
    for k, width, last, other in reversed(blocks):
        x[k : k + width] -= turned(a[k + width :, k : k + width]).T @ x[k + width :]
        x[[last, other]] = x[[other, last]]

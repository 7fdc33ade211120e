"""Shared by the ops of matrices: transposition, specs of results, and the error for singular matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.spec import Spec, broadcast_shapes
from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.complex import conj, is_complex
from adjoint.ops.movement.movement import swap

if TYPE_CHECKING:
    pass

INFO = np.dtype(np.int32)


class LinAlgError(RuntimeError):
    """Error for a matrix that an operation does not accept: it is singular, or not positive-definite."""


def same_spec(x: Operand) -> Spec:
    """Spec of matrices like x."""
    return Spec(x.shape, x.dtype)


def info_spec(x: Operand) -> Spec:
    """Spec of an integer for each matrix of x."""
    return Spec(x.shape[:-2], INFO)


def solve_spec(a: Operand, b: Operand, **_: object) -> Spec:
    """Spec of the x with a x = b."""
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"sizes differ, {a.shape[-1]} and {b.shape[-2]}")
    return Spec((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)


def transpose_matrix(x: Operand) -> Operand:
    """Matrices with rows and columns exchanged."""
    return swap(x, -1, -2)


def adjoint(x: Operand) -> Operand:
    """Matrices transposed and conjugated."""
    if type(x) is np.ndarray:
        turned = x.swapaxes(-1, -2)
        return turned.conj() if x.dtype.kind == "c" else turned
    turned = transpose_matrix(x)
    return conj(turned) if is_complex(x) else turned


def first_fault(info: Array) -> tuple[str, int] | None:
    """Return the first nonzero number of a factorisation's `info`, behind words for its place in the batch; or None."""
    at = np.flatnonzero(info)
    if not at.size:
        return None
    return (f"(Batch element {at[0]}): " if np.ndim(info) else ""), int(np.ravel(info)[at[0]])

"""Complex numbers and their parts. Their rules give ∂L/∂x + i ∂L/∂y of a real L by x + iy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.dtype.dtype import complex_type, real_type
from adjoint.core.op.apply import apply
from adjoint.core.op.families import movement_op, unary
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.select import where
from adjoint.ops.movement.movement import cat, reshape, select

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


def is_complex(x: Operand) -> bool:
    """True for a tensor, an array or a number of complex type."""
    array: Operand = getattr(x, "array", x)
    return array.dtype.kind == "c" if hasattr(array, "dtype") else isinstance(array, complex)


@unary(linear=True, holomorphic=False, dx=lambda g: conj(g))
def conj(x: Operand) -> Operand:
    """x - iy of x + iy; a copy of real numbers and bools."""
    return np.conjugate(x) if np.iscomplexobj(x) else np.array(x)


@movement_op(
    spec=lambda x: Spec((*x.shape, 2), real_type(x.dtype)),
    batch_leading=True,
    holomorphic=False,
    dx=lambda g: view_as_complex(g),
)
def view_as_real(x: Operand) -> Array:
    """The real and the imaginary part of each number, side by side in a last dimension of size 2."""
    return x[..., None].view(real_type(x.dtype))


@movement_op(
    spec=lambda x: Spec(x.shape[:-1], complex_type(x.dtype)),
    batch_leading=True,
    holomorphic=False,
    dx=lambda g: view_as_real(g),
)
def view_as_complex(x: Array) -> Array:
    """Complex numbers of the pairs in a last dimension of size 2; a view where the memory allows."""
    if x.strides[-1] != x.itemsize or any(step % (2 * x.itemsize) for step in x.strides[:-1]):
        x = np.ascontiguousarray(x)
    out = x.view(complex_type(x.dtype))
    return out[..., 0]


def make_complex(x: Tensor, y: Tensor) -> Tensor:
    """x + iy of real numbers of one shape."""
    shape = (*x.shape, 1)
    return view_as_complex_unshared(cat(reshape(x, shape=shape), reshape(y, shape=shape), axis=len(shape) - 1))


def view_as_complex_unshared(parts: Tensor) -> Tensor:
    """`view_as_complex` of a temporary: the result owns the memory and is no view."""
    return apply(op_of(view_as_complex), (parts,), {})


def real(x: Operand) -> Tensor:
    """The real parts; a real x itself."""
    return select(view_as_real(x), axis=len(x.shape), at=0) if is_complex(x) else x


def imag(x: Tensor) -> Tensor:
    """The imaginary parts of complex numbers."""
    return select(view_as_real(x), axis=len(x.shape), at=1)


def _sgn_dx(g: Operand, x: Operand, out: Operand) -> Operand:
    """The part of g / |x| at a right angle to x."""
    size = abs(x)
    zero = size == 0
    return where(zero, 0.0, (g - real(g * conj(out)) * out) / where(zero, 1.0, size))


@unary(holomorphic=False, dx=_sgn_dx)
def sgn(x: Array) -> Operand:
    """x / |x|, and 0 of 0; the slope at 0 is taken as 0."""
    return np.sign(x)


def _angle_dx(g: Operand, x: Operand) -> Operand:
    """i x / |x|², and 0 at 0; 0 for real numbers."""
    if not is_complex(x):
        return g * 0.0
    squared = real(x * conj(x))
    zero = squared == 0
    return where(zero, 0.0, g * ((x * 1j) / where(zero, 1.0, squared)))


@unary(promotion="float", real_result=True, holomorphic=False, dx=_angle_dx)
def angle(x: Operand) -> Array:
    """The angle in (-π, π] between x and the positive real axis: 0 or π for a real number."""
    if x.dtype.kind == "c":
        return np.angle(x)
    return np.where(np.isnan(x), x, np.where(x < 0, np.asarray(np.pi, x.dtype), np.zeros((), x.dtype)))

"""ln Σ eˣ over dimensions, computed so that nothing overflows: the largest element is subtracted first.

Where that is not finite, as for no elements or for infinities, nothing is subtracted. The gradient is softmax, computed
from x: of numbers as large as 1000, e to x minus the result would lose half of its digits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import wrap
from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.comparison import isfinite
from adjoint.ops.elementwise.complex import real
from adjoint.ops.elementwise.select import where
from adjoint.ops.elementwise.transcendental import exp, log
from adjoint.ops.movement.movement import reshape
from adjoint.ops.reduction import reduction

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

Axes = tuple[int, ...]
LOGSUMEXP, LOGSUMEXP_DX = SmallArrayKernel("logsumexp"), SmallArrayKernel("logsumexp_dx")
MAX_COPIED_SIZE = 2**16  # elements of an array that is laid out anew for a kernel


def _find_shift(x: Operand, axes: Axes) -> Operand:
    """The largest elements, as constants, in dimensions of size 1; 0 where they are not finite."""
    array = None if type(x) is np.ndarray or (nondefault.count and mode.is_intercepted) else x.array
    if type(array) is np.ndarray and array.size and array.dtype.kind in "fc":  # of a recorded pass, without ops
        return wrap(_find_shift_of_array(array, axes))
    constant = x if type(x) is np.ndarray else x.detach()
    top = reduction.max(real(constant), axes=axes, keepdims=True)
    return where(isfinite(top), top, 0.0)


def _composite(x: Tensor, *, axes: Axes, keepdims: bool) -> Tensor:
    shift = _find_shift(x, axes)
    total = reduction.sum(exp(x - shift), axes=axes, keepdims=keepdims)
    if not keepdims:
        shift = reshape(shift, shape=tuple(total.shape))
    return log(total) + shift


def _dx(g: Operand, x: Operand, axes: Axes) -> Operand:
    if type(x) is np.ndarray and type(g) is np.ndarray:
        if _takes_kernel(x, axes):
            order, back = _order_axes_last(x.ndim, axes)
            laid, count = x.transpose(order), x.ndim - len(axes)
            shape = laid.shape
            found = LOGSUMEXP_DX.call(
                np.ascontiguousarray(laid).reshape(*shape[:count], -1), np.ascontiguousarray(g).reshape(shape[:count])
            )
            if found is not None:
                return np.ascontiguousarray(found.reshape(shape).transpose(back))
        with np.errstate(all="ignore"):
            array = _exp_shifted(x, axes)[0]
            sums = op_of(reduction.sum).evaluate(array, axes=axes, keepdims=True)
            return array * (g.reshape(sums.shape) / sums)
    powers = exp(x - _find_shift(x, axes))
    total = reduction.sum(powers, axes=axes, keepdims=True)
    return powers * (reshape(g, shape=tuple(total.shape)) / total)


def _takes_kernel(x: Array, axes: Axes) -> bool:
    if not x.size or x.dtype.kind != "f" or not kernel_provider.enabled:
        return False
    return x.size <= MAX_COPIED_SIZE or (x.flags.c_contiguous and axes == tuple(range(x.ndim - len(axes), x.ndim)))


@lru_cache(256)
def _order_axes_last(rank: int, axes: Axes) -> tuple[Axes, Axes]:
    """Return the dimensions with `axes` last, and the order that undoes this."""
    order = (*[d for d in range(rank) if d not in axes], *axes)
    return order, tuple([order.index(d) for d in range(rank)])


def _exp_shifted(x: Array, axes: Axes) -> tuple[Array, Array]:
    """e to x minus the shift, and the shift."""
    shift = _find_shift_of_array(x, axes)
    return np.exp(x - shift), shift


def _find_shift_of_array(x: Array, axes: Axes) -> Array:
    top = reduction.maximum_reduce(x.real, axes, None, None, True)
    return np.where(np.isfinite(top), top, top.dtype.type(0))


@with_eager_fast_path(composite=_composite, node="LogsumexpBackward0", dx=_dx)
def logsumexp(x: Array, *, axes: Axes, keepdims: bool) -> Array:
    """ln Σ eˣ over `axes`, which have elements."""
    if _takes_kernel(x, axes):
        order, _ = _order_axes_last(x.ndim, axes)
        laid = x.transpose(order)
        found = LOGSUMEXP.call(np.ascontiguousarray(laid).reshape(*laid.shape[: x.ndim - len(axes)], -1))
        if found is not None:
            return found.reshape(reduction.kept_shape(x.shape, axes)) if keepdims else found
    powers, shift = _exp_shifted(x, axes)
    total = op_of(reduction.sum).evaluate(powers, axes=axes, keepdims=True)
    out: Array = np.add(np.log(total), shift, order="C")  # as PyTorch lays it out, whatever the strides of x
    return out if keepdims else out.squeeze(axes)

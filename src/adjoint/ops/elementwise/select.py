"""Choosing between values, limiting them, and changing their type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import default, promote
from adjoint.core.dtype.dtype_info import check_range
from adjoint.core.op import bfloat16
from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.elementwise_composite import with_elementwise_kernel
from adjoint.core.op.families import primitive, with_eager_fast_path
from adjoint.core.op.op import Op, op_of
from adjoint.core.op.spec import Spec, broadcast_shapes
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.memory_format import call_row_major
from adjoint.core.tensor.size import has_symbolic
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, NumpyDtype, Operand
from adjoint.ops.elementwise.comparison import gt, logical_not, lt

NUMBERS = frozenset({int, float})  # which take the type of a floating tensor
WHERE, FILL, KEEP = SmallArrayKernel("where"), SmallArrayKernel("masked_fill"), SmallArrayKernel("masked_keep")
CLAMP = SmallArrayKernel("clamp")
BOOL = np.dtype(np.bool_)
MIN_SPREAD_SIZE = 2048  # elements: of fewer NumPy chooses sooner than operands that broadcast are written out
# Whether NumPy's maximum takes 0.0 for larger than -0.0, as instructions of ARM do and those of x86 do not.
ORDERS_ZEROS = not np.signbit(np.maximum(np.zeros(16, np.float32), np.float32(-0.0))).any()


def _where_spec(condition: Operand, x: Operand, y: Operand) -> Spec:
    return Spec(broadcast_shapes(condition.shape, x.shape, y.shape), promote((x, y)))


@primitive(
    family="elementwise",
    spec=_where_spec,
    scalar=lambda b, condition, x, y: b.select(b.ne(condition, 0), x, y),
    dx=lambda g, condition: where(condition, g, 0.0),
    dy=lambda g, condition: where(condition, 0.0, g),
)
def _where(condition: Operand, x: Operand, y: Operand) -> Array:
    return select_elements(condition, x, y)


@primitive(
    family="elementwise",
    spec=_where_spec,
    node="WhereBackward0",
    scalar=lambda b, condition, x, y: b.select(b.ne(condition, 0), x, y),
    where_mask=lambda condition: (None, logical_not(condition), condition),
    dx=lambda g, condition: where(condition, g, 0.0),
    dy=lambda g, condition: where(condition, 0.0, g),
)
def _where_(condition: Array, x: Operand, y: Array) -> Array:
    return select_elements(condition, x, y)


def select_elements(condition: Operand, x: Operand, y: Operand) -> Operand:
    """Return `numpy.where`, by native code for floats in row-major order."""
    if kernel_provider.enabled and type(x) is type(y) is np.ndarray and x.dtype.kind == "f":
        found, shape = None, condition.shape
        if x.shape == y.shape == shape:
            found = WHERE.call(condition, x, y)
        elif x.shape == shape and not y.shape:
            found = KEEP.call(x, condition, float(y))
        elif y.shape == shape and not x.shape:
            found = FILL.call(y, condition, float(x))
        elif type(condition) is np.ndarray and condition.dtype is BOOL and max(x.size, y.size) >= MIN_SPREAD_SIZE:
            return _select_broadcast(condition, x, y)
        if found is not None:
            return found
    return np.where(condition, x, y)


def _select_broadcast(condition: Array, x: Array, y: Array) -> Operand:
    """Choose between arrays that broadcast: those that do are written out, and single numbers given as such."""
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    whole = [v for v in (condition, x, y) if v.shape == shape]
    if not all(v.flags.c_contiguous for v in whole):
        return np.where(condition, x, y)
    chosen, first, second = (
        v
        if v.shape == shape or (not v.shape and v is not condition)
        else np.ascontiguousarray(np.broadcast_to(v, shape))
        for v in (condition, x, y)
    )
    if not second.shape:
        found = KEEP.call(first, chosen, float(second))
    elif not first.shape:
        found = FILL.call(second, chosen, float(first))
    else:
        found = WHERE.call(chosen, first, second)
    return np.where(condition, x, y) if found is None else found


def choose(condition: Operand, x: Operand, y: Operand) -> Operand:
    """`where` for users: an infinite slope behind the branch not chosen does not turn its zero gradient into NaN.

    That costs a mask in the backward pass. The library's own formulas keep both branches finite and use `where`.
    Raises RuntimeError for a number beyond float32 where the result is of that type.
    """
    if type(x) is type(y) is Tensor:
        return _where_by(op_of(_where_), condition, x, y)
    if type(x) is type(y) is float and type(condition) is Tensor and not nondefault.count:
        dtype = default.floating.numpy
        return op_of(_where_).public(condition, number_as_array(x, dtype), number_as_array(y, dtype))
    x, y = (v.item() if isinstance(v, np.generic) else v for v in (x, y))
    for number, other in ((x, y), (y, x)):
        if type(number) is float and isinstance(other, Tensor) and other.array.dtype.char == "f":
            check_range(number, other.array.dtype)
    return _where_by(op_of(_where_), condition, x, y)


def fill(condition: Tensor, number: float, x: Tensor) -> Tensor | None:
    """Return a row-major `number` where `condition`, else x, of arrays without more ado; None for what is not bool."""
    array = x.array
    if type(array) is not np.ndarray or type(condition.array) is not np.ndarray or condition.array.dtype is not BOOL:
        return None
    out: Tensor = op_of(_where_).public(condition, np.asarray(number, array.dtype), x)
    return out if out.array.flags.c_contiguous else None


def where(condition: Operand, x: Operand, y: Operand) -> Operand:
    """x where `condition`, else y. All broadcast; the branch not chosen gets a gradient of zero.

    Source: `torch.where`; the result has the common type of x and y. It is an array where a gradient rule gives arrays.
    """
    if type(condition) is np.ndarray and not (nondefault.count and mode.is_intercepted):
        if type(x) is np.ndarray and type(y) is float and x.dtype.kind == "f":
            return _select_or_number(KEEP, condition, x, y)
        if type(y) is np.ndarray and type(x) is float and y.dtype.kind == "f":
            return _select_or_number(FILL, condition, y, x)
    return _where_by(op_of(_where), condition, x, y)


def _as_operand(value: Operand, dtype: NumpyDtype) -> Operand:
    """Return a tensor or an array of this type, or a number as one; None for anything else."""
    if isinstance(value, Tensor):
        return value if value.array.dtype is dtype else None
    if type(value) is float:
        return np.asarray(value, dtype) if dtype.kind == "f" else None
    return value if type(value) is np.ndarray and value.dtype is dtype else None


def _select_or_number(native: SmallArrayKernel, condition: Array, x: Array, number: float) -> Array:
    """Return x where `condition` (`KEEP`) or where it does not hold (`FILL`), else the number."""
    if kernel_provider.enabled and x.shape == condition.shape:
        operands = (x, condition, number)
        found: Array | None = native.call(*operands)
        if found is not None:
            return found
    fill = x.dtype.type(number)
    return np.where(condition, x, fill) if native is KEEP else np.where(condition, fill, x)


def _where_by(op: Op, condition: Operand, x: Operand, y: Operand) -> Operand:
    known = x if isinstance(x, Tensor) else y if isinstance(y, Tensor) else None
    if known is not None and type(known.array) is np.ndarray:  # what is usual, at once
        dtype = known.array.dtype
        first, second = _as_operand(x, dtype), _as_operand(y, dtype)
        if first is not None and second is not None:
            return op.public(condition, first, second)
    arrays = [getattr(v, "array", v) for v in (x, y)]
    kinds: list[Any] = [getattr(a, "dtype", None) for a in arrays]
    if kinds[0] is not kinds[1] or kinds[0] is None:
        known = kinds[0] or kinds[1]
        numbers = {type(v) for v, kind in zip((x, y), kinds, strict=True) if kind is None}
        quick = known is not None and known.kind == "f" and numbers and numbers <= NUMBERS
        target = known if quick else promote(arrays)
        x, y = (
            number_as_array(v, target) if kind is None else v if kind == target else cast(v, dtype=target)
            for v, kind in zip((x, y), kinds, strict=True)
        )
    return op.public(condition, x, y)


def number_as_array(value: Operand, dtype: NumpyDtype) -> Operand:
    """A number as a 0-d array, or as a tensor if each call of a compiled step brings another.

    A negative one wraps around in unsigned types, as in PyTorch.
    Raises RuntimeError for one that is too large.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if mode.interpreter is not None and has_symbolic(value):
        return mode.interpreter.stack_numbers(value, dtype)
    if isinstance(value, complex) and dtype.kind != "c" and value.imag:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: {value}")
    try:
        return np.asarray(value.real if isinstance(value, complex) and dtype.kind != "c" else value, dtype=dtype)
    except OverflowError as error:
        if abs(value) <= np.iinfo(dtype).max:
            return np.asarray(value).astype(dtype)
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: {value}") from error


@primitive(
    family="elementwise",
    spec=lambda x, *, dtype: Spec(x.shape, dtype),
    scalar="cast",
    linear=True,
    node="ToCopyBackward0",
    dx=lambda g: g,
)
def cast(x: Array, *, dtype: NumpyDtype) -> Array:
    """x converted to `dtype`; the gradient is converted back. Complex numbers lose their imaginary parts."""
    array = np.asarray(x)
    if not array.flags.c_contiguous and 0 in array.strides:  # of repeated elements NumPy makes neighbours
        return call_row_major(lambda x: op_of(cast).evaluate(x, dtype=dtype), array)
    return (array.real if array.dtype.kind == "c" and dtype.kind not in "cb" else array).astype(dtype)


bfloat16.cast_slot.fill(cast)


@primitive(
    family="elementwise",
    spec=lambda x: Spec(x.shape, x.dtype),
    scalar=lambda b, x: x,
    linear=True,
    node="CloneBackward0",
    dx=lambda g: g,
)
def copy(x: Array) -> Operand:
    """x in memory of its own."""
    return x.copy()


def _clamp_composite(x: Tensor, *, low: float | None, high: float | None) -> Operand:
    out = x if low is None else where(lt(x, low), low, x)
    return out if high is None else where(gt(out, high), high, out)


@with_elementwise_kernel
def _clamp_dx(g: Operand, x: Operand, low: float | None, high: float | None) -> Operand:
    g = g if low is None else where(x < low, 0.0, g)
    return g if high is None else where(x > high, 0.0, g)


@with_eager_fast_path(composite=_clamp_composite, node="ClampBackward1", preserves_strides=True, dx=_clamp_dx)
def clamp_range(x: Operand, *, low: float | None, high: float | None) -> Operand:
    """x where low ≤ x ≤ high, else the nearer bound; NaN and the sign of a zero stay."""
    if kernel_provider.enabled and x.dtype.kind != "i":
        found = CLAMP.call(x, -math.inf if low is None else float(low), math.inf if high is None else float(high))
        if found is not None:
            return found
    if x.dtype.kind == "i":  # `clip` takes three times as long where arrays are small
        out = x if low is None else np.maximum(x, low)
        return np.asarray(out if high is None else np.minimum(out, high))
    if low != 0 and high != 0:
        return x.clip(low, high)
    if not ORDERS_ZEROS and x.dtype.itemsize > 2 and x.size:  # at a tie of zeros NumPy takes the second operand
        out = x if low is None else np.maximum(low, x)
        return out if high is None else np.minimum(high, out)
    out = x if low is None else np.where(np.less(x, low), x.dtype.type(low), x)
    return out if high is None else np.where(np.greater(out, high), x.dtype.type(high), out)

"""Sums, products, powers and roundings, element by element."""

from __future__ import annotations

import cmath
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.op.eager_kernels import KernelFunction, SmallArrayKernel, kernel_provider
from adjoint.core.op.elementwise_composite import with_elementwise_kernel
from adjoint.core.op.elementwise_kernels import DIVIDE, MULTIPLY, ElementwiseKernel
from adjoint.core.op.families import binary, unary
from adjoint.core.op.op import op_of
from adjoint.core.op.op_errors import refuse_bool_operand
from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.comparison import logical_and
from adjoint.ops.elementwise.complex import is_complex, real, sgn
from adjoint.ops.elementwise.select import ORDERS_ZEROS, cast, where
from adjoint.ops.elementwise.transcendental import log

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

BOOL, FLOAT = np.dtype(np.bool_), np.dtype(np.float64)
RELU = SmallArrayKernel("relu")
TRUE_SCALAR = np.ones((), np.bool_)
FALSE_SCALAR = np.zeros((), np.bool_)
MIN_KERNEL_ELEMENTS = 20_000  # NumPy takes 10 ns for a quotient or remainder of floats
FLOOR_DIVIDE = KernelFunction("floor_divide", lambda x, y: floor_divide(x, y), 1e-8)
REMAINDER = KernelFunction("remainder", lambda x, y: remainder(x, y), 1e-8)


@binary(scalar="add", ufunc=np.add, dx=lambda g: g, dy=lambda g: g)
def add(x: Operand, y: Operand) -> Any:
    """x + y."""
    return np.add(x, y)


@binary(
    scalar="sub",
    unsupported_kinds="b",
    refuse=refuse_bool_operand,
    ufunc=np.subtract,
    dx=lambda g: g,
    dy=lambda g: -g,
)
def sub(x: Operand, y: Operand) -> Operand:
    """x - y."""
    return np.subtract(x, y)


@binary(scalar="mul", ufunc=np.multiply, dx=lambda g, y: MULTIPLY.call(g, y), dy=lambda g, x: MULTIPLY.call(g, x))
def mul(x: Operand, y: Operand) -> Operand:
    """x y."""
    return np.multiply(x, y)


@binary(
    promotion="float",
    scalar="div",
    ufunc=np.divide,
    dx=lambda g, y: DIVIDE.call(g, y),
    dy=with_elementwise_kernel(lambda g, x, y: -(g * (x / y)) / y),
)
def div(x: Operand, y: Operand) -> Operand:
    """x / y; integers become floats."""
    return np.divide(x, y)


def _check_divisor(name: str, y: Array) -> None:
    if y.dtype.kind in "iub" and not (y.all() if y.ndim else y):  # `np.all` takes as long as the division
        raise RuntimeError(f"ZeroDivisionError: {name} of integers by zero")


def _has_kind(kinds: str, *operands: Operand) -> bool:
    return any(getattr(x, "dtype", FLOAT).kind in kinds for x in operands)


def _may_divide_by_zero(x: Operand, y: Operand) -> bool:
    """True if integers are divided by an array, or by the number 0."""
    return _has_kind("iub", x, y) and (hasattr(y, "dtype") or y == 0)


def _zero_gradient(g: Operand) -> Operand:
    """The gradient of a step function: 0, even where g is infinite."""
    return where(FALSE_SCALAR, g, 0.0)


def _try_kernel(native: KernelFunction, x: Array, y: Operand) -> Operand:
    """Call a kernel for many floats, row-major and of one shape, or for one array and a number; else return None."""
    for a in (x, y):
        if (
            type(a) is np.ndarray
            and a.shape
            and not (a.dtype.kind == "f" and a.size >= MIN_KERNEL_ELEMENTS and a.flags.c_contiguous)
        ):
            return None
    shapes = {a.shape for a in (x, y) if type(a) is np.ndarray and a.shape}
    if len(shapes) != 1:
        return None
    return native.find(tuple(float(a) if np.ndim(a) == 0 else a for a in (x, y)), {})


@binary(
    scalar="floor_divide",
    unsupported_kinds="bc",
    raises=_may_divide_by_zero,
    dx=_zero_gradient,
    dy=_zero_gradient,
)
def floor_divide(x: Operand, y: Operand) -> Operand:
    """The largest integer not above x / y. Raises RuntimeError for integers divided by zero."""
    if getattr(x, "size", 0) >= MIN_KERNEL_ELEMENTS and (found := _try_kernel(FLOOR_DIVIDE, x, y)) is not None:
        return found
    out = np.floor_divide(x, y)
    if out.dtype.kind != "f":
        _check_divisor("floor_divide", y)
    return out


@binary(
    scalar="remainder",
    unsupported_kinds="bc",
    raises=_may_divide_by_zero,
    dx=lambda g: g,
    dy=lambda g, x, y: -(g * floor_divide(x, y)),
)
def remainder(x: Operand, y: Operand) -> Operand:
    """x - y ⌊x / y⌋, with the sign of y. Raises RuntimeError for integers divided by zero."""
    if getattr(x, "size", 0) >= MIN_KERNEL_ELEMENTS and (found := _try_kernel(REMAINDER, x, y)) is not None:
        return found
    out = np.remainder(x, y)
    if out.dtype.kind != "f":
        _check_divisor("remainder", y)
    return out


@binary(
    unsupported_kinds="bc",
    raises=_may_divide_by_zero,
    dx=lambda g: g,
    dy=lambda g, x, y: -(g * trunc(div(x, y))),
)
def fmod(x: Operand, y: Operand) -> Operand:
    """x - y trunc(x / y), with the sign of x. Raises RuntimeError for integers divided by zero."""
    out = np.fmod(x, y)
    if out.dtype.kind != "f":
        _check_divisor("fmod", y)
    return out


@binary(
    scalar="maximum",
    unsupported_kinds="c",
    dx=with_elementwise_kernel(lambda g, x, y: where(x == y, g * 0.5, where(x < y, 0.0, g))),
    dy=with_elementwise_kernel(lambda g, x, y: where(x == y, g * 0.5, where(y < x, 0.0, g))),
)
def maximum(x: Operand, y: Operand) -> Operand:
    """Return the larger of two elements, with broadcasting; NaN if either is.

    At a tie each operand gets half of the gradient.

    Args:
        input, other: tensors of real numbers.
        out: tensor that takes the result.

    Example:
        >>> ad.maximum(ad.tensor([1, 5]), ad.tensor([3, 2]))
        tensor([3, 5])
    """
    return np.maximum(x, y)


@binary(
    scalar="minimum",
    unsupported_kinds="c",
    dx=with_elementwise_kernel(lambda g, x, y: where(x == y, g * 0.5, where(x > y, 0.0, g))),
    dy=with_elementwise_kernel(lambda g, x, y: where(x == y, g * 0.5, where(y > x, 0.0, g))),
)
def minimum(x: Operand, y: Operand) -> Operand:
    """The smaller of x and y; NaN if either is. At a tie each gets half of the gradient."""
    return np.minimum(x, y)


def _pow_dx(g: Operand, x: Operand, y: Operand) -> Operand:
    """y xʸ⁻¹, and 0 for y = 0 even where x = 0."""
    if isinstance(y, (int, float, complex)):
        return g * 0.0 if y == 0 else g * (y * pow(x, y - 1))
    return where(y == 0, 0.0, g * (y * pow(x, y - 1)))


def _pow_dx_of_arrays(g: Operand, x: Operand, y: Operand) -> Operand:
    if type(y) in (int, float):
        return g * 0.0 if y == 0 else g * (y * (x if y == 2 else op_of(pow).evaluate(x, y - 1)))
    return np.where(y == 0, 0, g * (y * op_of(pow).evaluate(x, y - 1)))


def _pow_dy(g: Operand, x: Operand, y: Operand, out: Operand) -> Operand:
    """xʸ ln x, and its limit 0 where x = 0 and y ≥ 0."""
    of_complex = is_complex(g)
    exponent = real(y) if of_complex else y
    if isinstance(x, (int, float, complex)):
        if x == 0:
            return where(exponent >= 0, 0.0, g * (out * -math.inf))
        if of_complex or isinstance(x, complex):
            return g * (out * cmath.log(x))
        return g * (out * (math.log(x) if x > 0 else math.nan))
    given: Operand = getattr(x, "array", x)
    result: Operand = getattr(out, "array", out)
    if given.dtype.kind in "iu" and result.dtype.kind in "fc":  # their logarithms would be of the default type
        x = cast(x, dtype=result.dtype)
    zero = logical_and(x == 0, exponent >= 0)
    base = where(zero, 1.0, x)
    return where(zero, 0.0, g * (out * log(base * (1.0 + 0.0j) if of_complex else base)))


CUBE = ElementwiseKernel(lambda x: x * x * x, same_bits=True)


@binary(
    scalar="pow",
    unsupported_kinds="b",
    raises=lambda x, y: _has_kind("iub", x, y) and (hasattr(y, "dtype") or y < 0),  # integers to a negative power
    dx=with_elementwise_kernel(_pow_dx, same_bits=False, small=_pow_dx_of_arrays),
    dy=with_elementwise_kernel(_pow_dy, same_bits=False, small=_pow_dy),
)
def pow(x: Operand, y: Operand) -> Operand:
    """x to the power y."""
    if type(y) in (int, float) and y in (0.5, 2, 3):  # 20 times as fast as NumPy's power
        if y == 3:
            found = CUBE.find((x,), {})
            return np.multiply(np.square(x), x) if found is None else found
        return np.sqrt(x) if y == 0.5 else np.square(x)
    if getattr(y, "dtype", BOOL).kind in "iu" or type(y) is int:
        whole = type(x) is int or getattr(x, "dtype", BOOL).kind in "iu"
        if whole and np.any(np.less(y, 0)):
            if not isinstance(y, np.ndarray):  # a number
                raise RuntimeError("Integers to negative integer powers are not allowed.")
            return _integer_power(x, y)
    return np.power(x, y)


def _integer_power(x: Array, y: Array) -> Array:
    """xʸ of integers, truncated: 0 for a negative y, except where x is 1 or -1."""
    sign = np.where(np.remainder(y, 2) == 0, np.multiply(x, x), x)
    units = np.where(np.equal(np.abs(x), 1), sign, 0)
    return np.where(y < 0, units, np.power(x, np.maximum(y, 0))).astype(y.dtype)


@unary(scalar="neg", unsupported_kinds="b", dx=lambda g: -g)
def neg(x: Array) -> Operand:
    """-x."""
    return np.negative(x)


@unary(
    scalar="abs",
    real_result=True,
    unsupported_kinds="b",
    dx=with_elementwise_kernel(lambda g, x: g * (sgn(x) if is_complex(x) else sign(x))),
)
def abs(x: Operand) -> Operand:
    """Return |x|, element by element; the slope at 0 is taken as 0.

    Args:
        input: tensor; of complex numbers the result is real.
        out: tensor that takes the result.

    Example:
        >>> ad.abs(ad.tensor([-1, 2])), ad.abs(ad.tensor(3 + 4j))
        (tensor([1, 2]), tensor(5.))
    """
    return np.absolute(x)


@unary(scalar="sign", unsupported_kinds="c", kernel=True, dx=_zero_gradient)
def sign(x: Array) -> Operand:
    """-1, 0 or 1, the sign of x; NaN stays, and bools stay as they are."""
    return x.copy() if x.dtype.kind == "b" else np.sign(x)


@unary(promotion="number", scalar="square", node="PowBackward0", dx=with_elementwise_kernel(lambda g, x: g * (x * 2.0)))
def square(x: Operand) -> Operand:
    """x²; bools become integers."""
    return np.square(x)


@unary(promotion="float", scalar="reciprocal", dx=with_elementwise_kernel(lambda g, out: -(g * (out * out))))
def reciprocal(x: Operand) -> Operand:
    """1 / x."""
    return np.reciprocal(x)


@unary(promotion="float", scalar="sqrt", dx=with_elementwise_kernel(lambda g, out: g / (out * 2.0)))
def sqrt(x: Operand) -> Operand:
    """Return √x, element by element; the slope at 0 is infinite.

    Integers give floats, negative numbers NaN.

    Args:
        input: tensor.
        out: tensor that takes the result.

    Example:
        >>> ad.sqrt(ad.tensor([4.0, 2.0]))
        tensor([2.0000, 1.4142])
    """
    return np.sqrt(x)


@unary(
    promotion="float",
    scalar="rsqrt",
    kernel=True,
    dx=with_elementwise_kernel(lambda g, out: g * (out * out * out * -0.5)),
)
def rsqrt(x: Operand) -> Operand:
    """1 / √x."""
    return np.reciprocal(np.sqrt(x))


@unary(scalar="floor", unsupported_kinds="bc", dx=_zero_gradient)
def floor(x: Array) -> Operand:
    """The largest integer not above x."""
    return np.floor(x)


@unary(scalar="ceil", unsupported_kinds="bc", dx=_zero_gradient)
def ceil(x: Array) -> Operand:
    """The smallest integer not below x."""
    return np.ceil(x)


@unary(scalar="trunc", unsupported_kinds="bc", dx=_zero_gradient)
def trunc(x: Operand) -> Operand:
    """x without its fractional part."""
    return np.trunc(x)


@unary(scalar="round", unsupported_kinds="bc", dx=_zero_gradient)
def round(x: Array) -> Operand:
    """The nearest integer; halves are rounded to the even one."""
    return np.rint(x) if x.dtype.kind == "f" else np.round(x)  # which asks for a decimal, in twice the time


@with_elementwise_kernel
def _relu_dx(g: Operand, out: Operand) -> Tensor:
    return where(out <= 0, 0.0, g)


@unary(scalar=lambda b, x: b.select(b.lt(x, 0), 0, x), unsupported_kinds="bc", kernel=True, dx=_relu_dx)
def relu(x: Operand) -> Operand:
    """Return max(x, 0), element by element; NaN and -0.0 stay.

    The slope at 0 is taken as 0.

    Args:
        input: tensor of real numbers.
        out: tensor that takes the result.

    Example:
        >>> ad.relu(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([0., 0., 2.])
    """
    if kernel_provider.enabled and (found := RELU.call(x)) is not None:
        return found
    if ORDERS_ZEROS:
        return np.where(np.less(x, 0), 0, x)
    # At a tie NumPy takes the second operand, of float16 the first.
    return np.maximum(x, 0) if getattr(x, "dtype", FLOAT).itemsize == 2 else np.maximum(0, x)

"""Functions of single elements."""

from __future__ import annotations

from typing import Any

from numpy import generic, ndarray

from adjoint.core.dtype.dtype import promote
from adjoint.core.dtype.dtype_info import check_range
from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.families import INT64, MAX_INT64, MIN_INT64, NUMBERS, restrict_scalars
from adjoint.core.op.op import op_of
from adjoint.core.op.op_errors import refuse_bool_operand, refuse_numbers
from adjoint.core.tensor.memory_format import memory_format
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operand
from adjoint.functions.api.memory_format import dim_order_for_copy
from adjoint.functions.api.out import with_out, write_out
from adjoint.functions.api.publish import in_place, operator_in_place, public, rename_node
from adjoint.functions.indexing.masked_nonzero import nonzero
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.elementwise.arithmetic import (
    abs,
    ceil,
    floor,
    floor_divide,
    fmod,
    maximum,
    minimum,
    neg,
    reciprocal,
    relu,
    remainder,
    rsqrt,
    sign,
    sqrt,
    square,
    trunc,
)
from adjoint.ops.elementwise.bitwise import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from adjoint.ops.elementwise.comparison import (
    eq,
    ge,
    gt,
    isfinite,
    isinf,
    isnan,
    le,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    ne,
)
from adjoint.ops.elementwise.transcendental import (
    acos,
    asin,
    atan,
    atan2,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    log2,
    log10,
    sigmoid,
    sin,
    sinh,
    tan,
    tanh,
)
from adjoint.ops.movement.memory_format import copy_in_order
from adjoint.ops.operators import COMPARISONS, OPERATORS, as_operator

__all__ = [
    "abs", "absolute", "acos", "add", "arccos", "arcsin", "arctan", "arctan2", "asin", "atan", "atan2", "bitwise_and",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clamp", "clip",
    "clone", "cos", "cosh", "div", "divide", "eq", "erf", "exp", "exp2", "expm1", "floor", "floor_divide", "fmod", "ge",
    "greater", "greater_equal", "gt", "isfinite", "isinf", "isnan", "le", "less", "less_equal", "log", "log10", "log1p",
    "log2", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "maximum", "minimum", "mul", "multiply",
    "ne", "neg", "negative", "not_equal", "pow", "reciprocal", "relu", "remainder", "round", "rsqrt", "rsub", "sigmoid",
    "sign", "sin", "sinh", "sqrt", "square", "sub", "subtract", "tan", "tanh", "true_divide", "trunc", "where",
]  # fmt: skip

atan2, maximum, minimum = restrict_scalars("", atan2, maximum, minimum)
logical_and, logical_or, logical_xor = restrict_scalars("", logical_and, logical_or, logical_xor)
eq, ge, gt, le, lt, ne, fmod = restrict_scalars("y", eq, ge, gt, le, lt, ne, fmod)
bitwise_and, bitwise_or, bitwise_xor, remainder = restrict_scalars(
    "xy", bitwise_and, bitwise_or, bitwise_xor, remainder
)
bitwise_left_shift, bitwise_right_shift = restrict_scalars("xy", bitwise_left_shift, bitwise_right_shift)
(_power,) = restrict_scalars("xy", arithmetic.pow)

_PUBLISHED_WITH_INPLACE: tuple[Function, ...] = (
    abs, acos, asin, atan, atan2, bitwise_and, bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift,
    bitwise_xor, ceil, cos, cosh, eq, erf, exp, exp2, expm1, floor, floor_divide, fmod, ge, gt, le, log, log10,
    log1p, log2, logical_and, logical_not, logical_or, logical_xor, lt, ne, neg, reciprocal, relu, remainder, rsqrt,
    sigmoid, sign, sin, sinh, sqrt, square, tan, tanh, trunc,
)  # fmt: skip
for _f in _PUBLISHED_WITH_INPLACE:
    public(inplace=True)(_f)
for _f in (isfinite, isinf, isnan, maximum, minimum):
    public()(_f)

absolute, arccos, arcsin, arctan, arctan2, negative = abs, acos, asin, atan, atan2, neg
greater, greater_equal, less, less_equal, not_equal = gt, ge, lt, le, ne
_ALIASES = "absolute arccos arcsin arctan arctan2 negative greater greater_equal less less_equal not_equal"
for _name in _ALIASES.split():
    setattr(Tensor, _name, globals()[_name])
    setattr(Tensor, f"{_name}_", in_place(globals()[_name], f"{_name}_"))


@public(inplace=True)
def pow(input: Tensor | float, exponent: Tensor | float, *, out: Operand = None) -> Tensor:
    """Return `input` to the power `exponent`, element by element, with broadcasting.

    Args:
        input, exponent: tensors or numbers, at least one of them a tensor.
        out: tensor that takes the result.

    Raises: RuntimeError for integers to negative integer powers.

    Example:
        >>> ad.pow(ad.tensor([1.0, 2.0, 3.0]), 2)
        tensor([1., 4., 9.])
    """
    return _power(input, exponent, out=out)


@public(inplace=True)
@with_out
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Return the nearest number of so many decimals, halves to the even one."""
    if decimals == 0:
        return arithmetic.round(input)
    scale = 10.0**decimals
    return arithmetic.div(arithmetic.round(arithmetic.mul(input, scale)), scale)


@public(inplace=True)
def add(
    input: Operand, other: Operand, last: Operand = None, *, alpha: Tensor | complex = 1, out: Operand = None
) -> Tensor:
    """Return input + alpha · other, element by element, with broadcasting.

    Args:
        input, other: tensors or numbers.
        last: deprecated; `add(input, alpha, other)` warns and means `add(input, other, alpha=alpha)`.
        alpha: factor of `other`. Default: 1.
        out: tensor that takes the result.

    Raises: RuntimeError for a fractional `alpha` between integers and for shapes that do not broadcast.

    Example:
        >>> ad.add(ad.tensor([1.0, 2.0]), ad.tensor([3.0, 4.0]), alpha=10)
        tensor([31., 42.])
    """
    if last is not None:
        other, alpha = last, accept_leading_factor("add", "alpha", other)
    if out is not None:
        return write_out(out, add, input, other, alpha=alpha)
    return arithmetic.add(input, other if type(alpha) is int and alpha == 1 else _scale_by_alpha(input, other, alpha))


_subtract = as_operator(arithmetic.sub)  # which refuses bool


@public("subtract", inplace=True)
def sub(
    input: Tensor | float,
    other: Operand,
    last: Operand = None,
    *,
    alpha: Tensor | complex = 1,
    out: Tensor | None = None,
) -> Tensor:
    """Return input - alpha · other, element by element, with broadcasting.

    Args:
        input, other: tensors or numbers.
        last: deprecated; `sub(input, alpha, other)` warns and means `sub(input, other, alpha=alpha)`.
        alpha: factor of `other`. Default: 1.
        out: tensor that takes the result.

    Example:
        >>> ad.sub(ad.tensor([1.0, 2.0]), 0.5)
        tensor([0.5000, 1.5000])
    """
    if last is not None:
        other, alpha = last, accept_leading_factor("sub", "alpha", other)
    if out is not None:
        return write_out(out, sub, input, other, alpha=alpha)
    if type(alpha) is int and alpha == 1:
        found: Tensor = _subtract(input, other)
        return arithmetic.sub(input, other) if found is NotImplemented else found
    refuse_bool_operand(input, other)
    return arithmetic.sub(input, _scale_by_alpha(input, other, alpha))


def accept_leading_factor(name: str, factor: str, given: Operand) -> float:
    """Return the factor that programs of old gave ahead of the operands, with a warning."""
    warn_user(f"This overload of {name} is deprecated: give {factor}= by its name", UserWarning)
    return given


def _scale_by_alpha(input: Operand, other: Operand, alpha: Operand) -> Operand:
    """Return alpha · other in the common type of input and other, in which alpha takes no part."""
    other = other.item() if isinstance(other, generic) else other
    common = promote(getattr(v, "array", v) for v in (input, other))
    if common.kind in "iub" and isinstance(alpha, float):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if common.kind != "b" and isinstance(alpha, bool):
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if common.kind != "c" and isinstance(alpha, complex):
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if isinstance(other, (int, float, complex)):
        return other and bool(alpha) if isinstance(other, bool) else other * alpha
    array: Operand = getattr(other, "array", other)
    if array.dtype != common:
        other = select.cast(other, dtype=common)
    return arithmetic.mul(other, bool(alpha) if common.kind == "b" else alpha)


@public()
def rsub(input: Tensor | float, other: Tensor | float, *, alpha: Tensor | complex = 1) -> Tensor:
    """Return other - alpha · input."""
    refuse_numbers("rsub", ("input", "other"), "y", input, other)
    return sub(other, input, alpha=alpha)


@public("multiply", inplace=True)
def mul(input: Tensor, other: Operand, *, out: Tensor | float | None = None) -> Tensor:
    """Return input · other, element by element, with broadcasting.

    Args:
        input, other: tensors or numbers.
        out: tensor that takes the result.

    Example:
        >>> ad.mul(ad.tensor([[1.0], [2.0]]), ad.tensor([3.0, 4.0]))
        tensor([[3., 4.],
                [6., 8.]])
    """
    return arithmetic.mul(input, other, out=out)


@public("divide", "true_divide", inplace=True)
def div(input: Tensor, other: Tensor | float, *, rounding_mode: str | None = None, out: Operand = None) -> Tensor:
    """Return input / other, element by element, with broadcasting; integers give floats.

    Args:
        input, other: tensors or numbers.
        rounding_mode: None, "trunc" (towards 0) or "floor" (towards -∞); the last two keep integers. Default: None.
        out: tensor that takes the result.

    Raises: RuntimeError for another `rounding_mode`.

    Example:
        >>> x = ad.tensor([-7, 7])
        >>> ad.div(x, 2), ad.div(x, 2, rounding_mode="floor")
        (tensor([-3.5000,  3.5000]), tensor([-4,  3]))
    """
    if rounding_mode is None:
        return arithmetic.div(input, other, out=out)
    if out is not None:
        return write_out(out, div, input, other, rounding_mode=rounding_mode)
    if rounding_mode in ("floor", "trunc"):
        quotient = arithmetic.floor_divide if rounding_mode == "floor" else _truncated_quotient
        return rename_node(quotient(input, other), "DivBackward2", rounding_mode=rounding_mode)
    raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}")


def _truncated_quotient(x: Tensor, y: Tensor | float) -> Tensor:
    if promote(getattr(v, "array", v) for v in (x, y)).kind in "fV":
        return arithmetic.trunc(arithmetic.div(x, y))
    # integers: exact, so not by way of floats; the remainder of `fmod` has the sign of x
    return arithmetic.floor_divide(arithmetic.sub(x, arithmetic.fmod(x, y)), y)


subtract, multiply, divide, true_divide = sub, mul, div, div


MIN_SIZE_TO_CLIP = 2**14  # elements: fewer are limited and copied as fast


def _clamp_array(x: Array, min: float | None = None, max: float | None = None) -> Array | None:
    """Compute `clamp` as its op does; None for bounds that are no numbers."""
    if (min is None and max is None) or not (_is_bound(min) and _is_bound(max)):
        return None
    if x.size >= MIN_SIZE_TO_CLIP and min != 0 != max:  # of zeros NumPy need not keep the sign
        bounds: Operand = min, max
        return x.clip(*bounds, out=x)
    found: Array = op_of(select.clamp_range).evaluate(x, low=min, high=max)
    return found


def clamp_min_array(x: Array, min: float) -> Array | None:
    """Compute `clamp_min` as `clamp` does; None for a bound that is no number."""
    return _clamp_array(x, min)


def clamp_max_array(x: Array, max: float) -> Array | None:
    """Compute `clamp_max` as `clamp` does; None for a bound that is no number."""
    return _clamp_array(x, None, max)


@public("clip", inplace=_clamp_array)
@with_out
def clamp(input: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """Return `input` with each element limited to [min, max]; NaN stays, and a bound that is NaN gives NaN.

    The gradient is 0 where an element was limited.

    Args:
        input: tensor.
        min, max: bounds, numbers or tensors that broadcast; None for no bound. Default: None.
        out: tensor that takes the result.

    Raises: RuntimeError without any bound.

    Example:
        >>> ad.clamp(ad.tensor([-2.0, 0.5, 3.0]), min=0, max=1)
        tensor([0.0000, 0.5000, 1.0000])
    """
    bounds: tuple[Operand, ...] = (min, max)
    min, max = (v.item() if isinstance(v, generic) else v for v in bounds)
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    check_range(min, input.array.dtype)
    check_range(max, input.array.dtype)
    if input.array.dtype.kind == "f" and _is_bound(min) and _is_bound(max):
        return select.clamp_range(input, low=min, high=max)
    if input.array.dtype is INT64 and _is_integer_bound(min) and _is_integer_bound(max):
        return select.clamp_range(input, low=min, high=max)
    out: Operand = input
    if isinstance(min, Tensor) and isinstance(max, Tensor):  # the three together have one type
        common = promote(x.array for x in (input, min, max))
        out, min, max = (x if x.array.dtype == common else select.cast(x, dtype=common) for x in (input, min, max))
    if min is not None:
        out = _clamp_to_bound(out, min, comparison.lt)
    if max is not None:
        out = _clamp_to_bound(out, max, comparison.gt)
    return out


def _is_bound(number: Operand) -> bool:
    """Return True for a number that is not NaN, and for None."""
    return number is None or (type(number) in NUMBERS and number == number)


def _is_integer_bound(number: Operand) -> bool:
    """Return True for an integer of 64 bits, and for None."""
    return number is None or (type(number) is int and MIN_INT64 <= number <= MAX_INT64)


def _clamp_to_bound(x: Tensor, bound: Tensor | float, beyond: Function) -> Operand:
    """Return `bound` where x is beyond it, or where it is NaN."""
    if isinstance(bound, Tensor):
        outside = beyond(x, bound)
        if bound.array.dtype.kind in "fV":
            outside = comparison.logical_or(outside, comparison.isnan(bound))
    else:
        outside = beyond(x, bound) if bound == bound else arithmetic.TRUE_SCALAR
    return select.where(outside, bound, x)


clip = clamp


@with_out
def where(condition: Tensor, input: Operand = None, other: Operand = None) -> Any:
    """Return `input` where `condition` is true, else `other`; all three broadcast.

    The branch not chosen gets a gradient of zero. Without `input` and `other`, `where(condition)` returns the positions
    of the true elements: one index vector for each dimension.

    Args:
        condition: bool tensor.
        input, other: tensors or numbers.
        out: tensor that takes the result.

    Raises: RuntimeError for a condition that is not bool.

    Example:
        >>> x = ad.tensor([-1.0, 2.0])
        >>> ad.where(x > 0, x, 0.0)
        tensor([0., 2.])
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if condition.array.dtype.kind != "b":
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}"
        )
    return select.choose(condition, input, other)


def _where_method(self: Tensor, condition: Tensor, other: Operand) -> Tensor:
    """Return `self` where `condition` is true, else `other`."""
    return where(condition, self, other)


@public()
def clone(input: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """Return a copy in memory of its own; gradients flow through it to `input`.

    Args:
        input: tensor.
        memory_format: order of the elements in memory. Default: that of `input`.

    Example:
        >>> x = ad.zeros(2)
        >>> y = x.clone()
        >>> y[0] = 1
        >>> x, y
        (tensor([0., 0.]), tensor([1., 0.]))
    """
    array = input.array
    if memory_format is None and type(array) is ndarray and len(array.shape) < 3 and array.flags.c_contiguous:
        return select.copy(input)
    order = dim_order_for_copy(input, memory_format)
    return copy_in_order(input, order=order) if order else select.copy(input)


for _name, _f in OPERATORS.items():
    if _name not in COMPARISONS:
        setattr(Tensor, f"__i{_name}__", operator_in_place(_f, f"{_name}_"))
setattr(Tensor, "where", _where_method)  # noqa: B010  mypy would take a plain assignment for a mistake
setattr(Tensor, "__rdiv__", vars(Tensor)["__rtruediv__"])  # noqa: B010

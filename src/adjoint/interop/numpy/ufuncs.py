"""The protocol `__array_ufunc__`: a table of NumPy's and SciPy's ufuncs and their counterparts in the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.op.op_errors import refuse_bool_operand
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Function, Operand, Operands
from adjoint.functions.creation.creation import as_tensor
from adjoint.functions.elementwise import complex as parts
from adjoint.functions.elementwise import float_functions, special
from adjoint.interop.array_api import linear as standard
from adjoint.interop.array_api import statistical
from adjoint.ops.elementwise import arithmetic, bitwise, comparison, select, transcendental
from adjoint.ops.elementwise import float_functions as elements
from adjoint.ops.special import incomplete_gamma, zeta

OPERAND_TYPES = (Tensor, np.ndarray, np.generic, int, float, complex)


def tensor_of(x: Operand) -> Any:
    """Convert x to a tensor unless it is one."""
    return x if isinstance(x, Tensor) else as_tensor(x)


def _operand(x: Operand) -> Any:
    """Convert lists to tensors; leave tensors, arrays and numbers, so that numbers do not decide the type."""
    return x if isinstance(x, OPERAND_TYPES) else as_tensor(x)


def _functions_of(module: Any, names: str) -> dict[str, Function]:
    """Return functions of `module` by NumPy's names: `name`, or `numpy_name=name` where they differ."""
    pairs = (word.partition("=") for word in names.split())
    return {numpy_name: getattr(module, name or numpy_name) for numpy_name, _, name in pairs}


# modules and their functions that stand for a ufunc of NumPy or scipy.special: `name`, or `name_there=name`
FUNCTIONS: dict[Any, str] = {
    arithmetic: """
        add ceil floor floor_divide fmod maximum minimum reciprocal remainder sqrt square trunc absolute=abs
        divide=div fabs=abs multiply=mul negative=neg power=pow rint=round
    """,
    transcendental: """
        cos cosh exp exp2 expm1 log log10 log1p log2 sin sinh tan tanh arccos=acos arcsin=asin arctan=atan
        arctan2=atan2 expit=sigmoid
    """,
    elements: """
        copysign fmax fmin gcd heaviside hypot lcm logaddexp nextafter signbit arccosh=acosh arcsinh=asinh
        arctanh=atanh xlogy
    """,
    bitwise: """
        bitwise_and bitwise_or bitwise_xor invert=bitwise_not left_shift=bitwise_left_shift
        right_shift=bitwise_right_shift
    """,
    parts: "conjugate=conj_physical sign=sgn",
    float_functions: "deg2rad float_power logaddexp2 rad2deg degrees=rad2deg radians=deg2rad logit",
    comparison: """
        isfinite isinf isnan logical_and logical_not logical_or logical_xor equal=eq greater=gt greater_equal=ge
        less=lt less_equal=le not_equal=ne
    """,
    select: "positive=copy",
    special: """
        digamma entr erf erfc erfcx erfinv gammaln i0 i0e i1 i1e log_ndtr ndtr ndtri j0=bessel_j0 j1=bessel_j1
        k0=modified_bessel_k0 k0e=scaled_modified_bessel_k0 k1=modified_bessel_k1 k1e=scaled_modified_bessel_k1
        psi=digamma y0=bessel_y0 y1=bessel_y1
    """,
    incomplete_gamma: "gammainc=igamma gammaincc=igammac",
    zeta: "xlog1py _zeta=zeta",
}


def _subtract(x: Operand, y: Operand) -> Tensor:
    """Return x - y. A scalar of NumPy on the left stands for its number, whose operator refuses bool."""
    if isinstance(x, np.generic):
        refuse_bool_operand(x, y)
    return arithmetic.sub(x, y)


CALLS: dict[str, Function] = {
    **{name: f for module, names in FUNCTIONS.items() for name, f in _functions_of(module, names).items()},
    "subtract": _subtract,
    "clip": lambda x, low, high: arithmetic.minimum(arithmetic.maximum(tensor_of(x), low), high),
    "divmod": lambda x, y: (arithmetic.floor_divide(x, y), arithmetic.remainder(x, y)),
    "matmul": lambda x, y: standard.matmul(tensor_of(x), tensor_of(y)),
    "modf": lambda x: (elements.frac(x), arithmetic.trunc(x)),
    "vecdot": lambda x, y: standard.vecdot(tensor_of(x), tensor_of(y)),
    "log_expit": lambda x: arithmetic.neg(elements.logaddexp(-x, x * 0)),
}

# f(x, axis=, keepdims=)
REDUCTIONS = _functions_of(statistical, "add=sum logical_and=all logical_or=any maximum=max minimum=min multiply=prod")

# f(x, axis=)
ACCUMULATIONS = _functions_of(statistical, "add=cumulative_sum multiply=cumulative_prod")


def ufunc(called: Any, method: str, inputs: Operands, kwargs: dict[str, Any]) -> Any:
    """Answer `__array_ufunc__`: the counterpart's result, or NumPy's where no gradient is lost."""
    if not kwargs and method == "__call__" and called.__name__ in CALLS:
        return CALLS[called.__name__](*map(_operand, inputs))
    out, where = kwargs.pop("out", None), kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    plan = None if method not in METHODS else METHODS[method](called, dtype, kwargs)
    if plan is None or where is not True or kwargs:
        return _by_numpy(called, method, inputs, {**kwargs, "dtype": dtype, "where": where, "out": out})
    result = plan(*[_operand(x) for x in inputs])
    if dtype is not None and method == "__call__" and result.array.dtype.kind != "b":
        result = result.to(np.dtype(dtype))
    return result if out is None else write_out_args(called.__name__, out, result)


def _call(called: Any, dtype: Any, kwargs: dict[str, Any]) -> Function | None:
    kwargs.pop("casting", None)
    counterpart = CALLS.get(called.__name__)
    if counterpart is None or dtype is None or called.nout > 1 or np.dtype(dtype).kind not in "fc":
        return counterpart
    return lambda *inputs: counterpart(*[x.to(np.dtype(dtype)) if isinstance(x, Tensor) else x for x in inputs])


def _reduce(called: Any, dtype: Any, kwargs: dict[str, Any]) -> Function | None:
    reduction = REDUCTIONS.get(called.__name__)
    if reduction is None or kwargs.get("initial") is not None:
        return None
    axis, keepdims = kwargs.pop("axis", 0), kwargs.pop("keepdims", False)
    kwargs.pop("initial", None)
    return lambda x: reduction(x if dtype is None else x.to(np.dtype(dtype)), axis=axis, keepdims=keepdims)


def _accumulate(called: Any, dtype: Any, kwargs: dict[str, Any]) -> Function | None:
    scan = ACCUMULATIONS.get(called.__name__)
    axis = kwargs.pop("axis", 0)
    return None if scan is None else lambda x: scan(x if dtype is None else x.to(np.dtype(dtype)), axis=axis)


def _outer(called: Any, dtype: Any, kwargs: dict[str, Any]) -> Function | None:
    counterpart = CALLS.get(called.__name__) if called.nin == 2 and dtype is None else None
    if counterpart is None:
        return None
    return lambda x, y: counterpart(tensor_of(x).reshape((*np.shape(x), *(1,) * np.ndim(y))), y)


METHODS = {"__call__": _call, "reduce": _reduce, "accumulate": _accumulate, "outer": _outer}


def any_tensor(predicate: Callable[[Tensor], bool], values: Operand) -> bool:
    """Return whether `predicate` holds for a tensor in nested values."""
    if isinstance(values, Tensor):
        return predicate(values)
    if isinstance(values, dict):
        values = list(values.values())
    return isinstance(values, (list, tuple)) and any(any_tensor(predicate, value) for value in values)


def requires_grad(x: Tensor) -> bool:
    """Return whether a tensor requires a gradient."""
    return x.requires_grad


def to_arrays(values: Operand) -> Any:
    """Replace the tensors in nested values by arrays."""
    if isinstance(values, Tensor):
        return values.detach().numpy()
    if isinstance(values, dict):
        return {name: to_arrays(value) for name, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(map(to_arrays, values))
    return values


def raise_not_differentiable(name: str) -> None:
    """Raise TypeError because a gradient would be lost."""
    raise TypeError(f"{name} has no differentiable counterpart; use t.detach().numpy()")


def _by_numpy(called: Any, method: str, inputs: Operands, kwargs: dict[str, Any]) -> Any:
    kwargs = {k: v for k, v in kwargs.items() if v is not None and not (k == "where" and v is True)}
    if any_tensor(requires_grad, (inputs, kwargs)):
        module_name = "np" if getattr(np, called.__name__, None) is called else "scipy.special"
        raise_not_differentiable(f"{module_name}.{called.__name__}" + ("" if method == "__call__" else f".{method}"))
    result = getattr(called, method)(*to_arrays(inputs), **to_arrays(kwargs))
    out = kwargs.get("out")
    if out is not None:
        return out if called.nout > 1 else out[0]
    if isinstance(result, tuple):
        return tuple(wrap(np.asarray(r)) for r in result)
    return None if result is None else wrap(np.asarray(result))


def write_out_args(name: str, out: tuple[Any, ...], result: Operand) -> Any:
    """Write the result into `out`: tensors in place, and arrays if no gradient would be lost."""
    given = result if isinstance(result, tuple) else (result,)
    for target, value in zip(out, given, strict=True):
        if isinstance(target, Tensor):
            target.copy_(tensor_of(value))
        elif target is not None:
            if any_tensor(requires_grad, value):
                raise TypeError(
                    f"np.{name}: an array given as out= cannot hold a result that requires grad; "
                    "use a tensor, or t.detach().numpy()"
                )
            np.copyto(target, to_arrays(value), casting="same_kind")
    return out if len(out) > 1 else out[0]

"""NumPy's and SciPy's ufuncs by name, and the function of the library that each stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.functions.creation.creation import as_tensor
from adjoint.functions.elementwise import complex as parts
from adjoint.functions.elementwise import float_functions, special
from adjoint.interop.array_api import linear as standard
from adjoint.interop.array_api import statistical
from adjoint.ops.elementwise import arithmetic, bitwise, comparison, select, transcendental
from adjoint.ops.elementwise import float_functions as elements
from adjoint.ops.special import incomplete_gamma, zeta

Function = Callable[..., Any]


def _tensor(x: Any) -> Any:
    return x if isinstance(x, Tensor) else as_tensor(x)


def _divmod(x: Any, y: Any) -> tuple[Any, Any]:
    return arithmetic.floor_divide(x, y), arithmetic.remainder(x, y)


def _modf(x: Any) -> tuple[Any, Any]:
    return elements.frac(x), arithmetic.trunc(x)


def _matmul(x: Any, y: Any) -> Any:
    return standard.matmul(_tensor(x), _tensor(y))


def _vecdot(x: Any, y: Any) -> Any:
    return standard.vecdot(_tensor(x), _tensor(y))


def _clip(x: Any, low: Any, high: Any) -> Any:
    return arithmetic.minimum(arithmetic.maximum(_tensor(x), low), high)


CALLS: dict[str, Function] = {
    "absolute": arithmetic.abs, "add": arithmetic.add, "arccos": transcendental.acos, "arccosh": elements.acosh,
    "arcsin": transcendental.asin, "arcsinh": elements.asinh, "arctan": transcendental.atan,
    "arctan2": transcendental.atan2, "arctanh": elements.atanh, "bitwise_and": bitwise.bitwise_and,
    "bitwise_or": bitwise.bitwise_or, "bitwise_xor": bitwise.bitwise_xor, "ceil": arithmetic.ceil, "clip": _clip,
    "conjugate": parts.conj_physical, "copysign": elements.copysign, "cos": transcendental.cos,
    "cosh": transcendental.cosh, "deg2rad": float_functions.deg2rad, "degrees": float_functions.rad2deg,
    "divide": arithmetic.div, "divmod": _divmod, "equal": comparison.eq, "exp": transcendental.exp,
    "exp2": transcendental.exp2, "expm1": transcendental.expm1, "fabs": arithmetic.abs,
    "float_power": float_functions.float_power, "floor": arithmetic.floor, "floor_divide": arithmetic.floor_divide,
    "fmax": elements.fmax, "fmin": elements.fmin, "fmod": arithmetic.fmod, "gcd": elements.gcd,
    "greater": comparison.gt, "greater_equal": comparison.ge, "heaviside": elements.heaviside, "hypot": elements.hypot,
    "invert": bitwise.bitwise_not, "isfinite": comparison.isfinite, "isinf": comparison.isinf,
    "isnan": comparison.isnan, "lcm": elements.lcm, "left_shift": bitwise.bitwise_left_shift, "less": comparison.lt,
    "less_equal": comparison.le, "log": transcendental.log, "log10": transcendental.log10,
    "log1p": transcendental.log1p, "log2": transcendental.log2, "logaddexp": elements.logaddexp,
    "logaddexp2": float_functions.logaddexp2, "logical_and": comparison.logical_and,
    "logical_not": comparison.logical_not, "logical_or": comparison.logical_or, "logical_xor": comparison.logical_xor,
    "matmul": _matmul,
    "maximum": arithmetic.maximum, "minimum": arithmetic.minimum, "modf": _modf, "multiply": arithmetic.mul,
    "negative": arithmetic.neg, "nextafter": elements.nextafter, "not_equal": comparison.ne,
    "positive": select.copy, "power": arithmetic.pow, "rad2deg": float_functions.rad2deg,
    "radians": float_functions.deg2rad,
    "reciprocal": arithmetic.reciprocal, "remainder": arithmetic.remainder, "right_shift": bitwise.bitwise_right_shift,
    "rint": arithmetic.round, "sign": parts.sgn, "signbit": elements.signbit, "sin": transcendental.sin,
    "sinh": transcendental.sinh, "sqrt": arithmetic.sqrt, "square": arithmetic.square, "subtract": arithmetic.sub,
    "tan": transcendental.tan, "tanh": transcendental.tanh, "trunc": arithmetic.trunc, "vecdot": _vecdot,
    # scipy.special
    "digamma": special.digamma, "entr": special.entr, "erf": special.erf, "erfc": special.erfc, "erfcx": special.erfcx,
    "erfinv": special.erfinv, "expit": transcendental.sigmoid, "gammainc": incomplete_gamma.igamma,
    "gammaincc": incomplete_gamma.igammac, "gammaln": special.gammaln, "i0": special.i0, "i0e": special.i0e,
    "i1": special.i1, "i1e": special.i1e, "j0": special.bessel_j0, "j1": special.bessel_j1,
    "k0": special.modified_bessel_k0, "k0e": special.scaled_modified_bessel_k0, "k1": special.modified_bessel_k1,
    "k1e": special.scaled_modified_bessel_k1, "log_expit": lambda x: arithmetic.neg(elements.logaddexp(-x, x * 0)),
    "log_ndtr": special.log_ndtr, "logit": float_functions.logit, "ndtr": special.ndtr, "ndtri": special.ndtri,
    "psi": special.digamma, "xlog1py": zeta.xlog1py, "xlogy": elements.xlogy, "y0": special.bessel_y0,
    "y1": special.bessel_y1, "_zeta": zeta.zeta,
}  # fmt: skip

# f(x, axis=, keepdims=)
REDUCTIONS: dict[str, Function] = {
    "add": statistical.sum, "logical_and": statistical.all, "logical_or": statistical.any, "maximum": statistical.max,
    "minimum": statistical.min, "multiply": statistical.prod,
}  # fmt: skip

# f(x, axis=)
ACCUMULATIONS: dict[str, Function] = {"add": statistical.cumulative_sum, "multiply": statistical.cumulative_prod}


def ufunc(called: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `__array_ufunc__` returns: the counterpart's result, or NumPy's where no gradient is lost."""
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
    found = CALLS.get(called.__name__)
    if found is None or dtype is None or called.nout > 1:
        return found
    return lambda *inputs: found(*[x.to(np.dtype(dtype)) if _needs_cast(x, dtype) else x for x in inputs])


def _needs_cast(x: Any, dtype: Any) -> bool:
    return isinstance(x, Tensor) and np.dtype(dtype).kind in "fc"


def _reduce(called: Any, dtype: Any, kwargs: dict[str, Any]) -> Function | None:
    found = REDUCTIONS.get(called.__name__)
    if found is None or kwargs.get("initial") is not None:
        return None
    axis, keepdims = kwargs.pop("axis", 0), kwargs.pop("keepdims", False)
    kwargs.pop("initial", None)

    def fold(x: Any) -> Any:
        x = x if dtype is None else x.to(np.dtype(dtype))
        return found(x, axis=axis, keepdims=keepdims)

    return fold


def _accumulate(called: Any, dtype: Any, kwargs: dict[str, Any]) -> Function | None:
    found = ACCUMULATIONS.get(called.__name__)
    axis = kwargs.pop("axis", 0)
    return None if found is None else lambda x: found(x if dtype is None else x.to(np.dtype(dtype)), axis=axis)


def _outer(called: Any, dtype: Any, kwargs: dict[str, Any]) -> Function | None:
    found = CALLS.get(called.__name__) if called.nin == 2 and dtype is None else None
    if found is None:
        return None
    return lambda x, y: found(tensor_of(x).reshape((*np.shape(x), *(1,) * np.ndim(y))), y)


METHODS: dict[str, Callable[..., Function | None]] = {
    "__call__": _call, "reduce": _reduce, "accumulate": _accumulate, "outer": _outer,
}  # fmt: skip


def tensor_of(x: Any) -> Any:
    """x as a tensor."""
    return x if isinstance(x, Tensor) else as_tensor(x)


def _operand(x: Any) -> Any:
    """Lists as tensors; tensors, arrays and numbers as they are, so that numbers do not decide the type."""
    return x if isinstance(x, OPERAND_TYPES) else as_tensor(x)


OPERAND_TYPES = (Tensor, np.ndarray, np.generic, int, float, complex)


def any_requires_grad(values: Any) -> bool:
    """True if a tensor in nested values wants a gradient."""
    if isinstance(values, Tensor):
        return values.requires_grad
    if isinstance(values, dict):
        return any(map(any_requires_grad, values.values()))
    return isinstance(values, (list, tuple)) and any(map(any_requires_grad, values))


def to_arrays(values: Any) -> Any:
    """Nested values with arrays in the place of tensors."""
    if isinstance(values, Tensor):
        return values.detach().numpy()
    if isinstance(values, dict):
        return {name: to_arrays(value) for name, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(map(to_arrays, values))
    return values


def raise_not_differentiable(name: str) -> None:
    """Raise TypeError: a gradient would be lost."""
    raise TypeError(f"{name} has no differentiable counterpart; use t.detach().numpy()")


def _by_numpy(called: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    kwargs = {k: v for k, v in kwargs.items() if v is not None and not (k == "where" and v is True)}
    if any_requires_grad(inputs) or any_requires_grad(kwargs):
        raise_not_differentiable(
            f"{_module_name(called)}.{called.__name__}" + ("" if method == "__call__" else f".{method}")
        )
    result = getattr(called, method)(*to_arrays(inputs), **to_arrays(kwargs))
    out = kwargs.get("out")
    if out is not None:
        return out if called.nout > 1 else out[0]
    if isinstance(result, tuple):
        return tuple(wrap(np.asarray(r)) for r in result)
    return None if result is None else wrap(np.asarray(result))


def _module_name(called: Any) -> str:
    return "np" if getattr(np, called.__name__, None) is called else "scipy.special"


def write_out_args(name: str, out: tuple[Any, ...], result: Any) -> Any:
    """The result written into `out`: in place in tensors, and in arrays if no gradient would be lost."""
    given = result if isinstance(result, tuple) else (result,)
    for target, value in zip(out, given, strict=True):
        if isinstance(target, Tensor):
            target.copy_(value)
        elif target is not None:
            if value.requires_grad:
                raise TypeError(
                    f"np.{name}: an array given as out= cannot hold a result that requires grad; "
                    "use a tensor, or t.detach().numpy()"
                )
            np.copyto(target, value.numpy(), casting="same_kind")
    return out if len(out) > 1 else out[0]

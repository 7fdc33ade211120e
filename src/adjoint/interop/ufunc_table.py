"""NumPy's and SciPy's ufuncs by name, and the function of the library that each stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.array_api import linear as standard
from adjoint.array_api import statistical
from adjoint.core.tensor import Tensor
from adjoint.functions import complex as parts
from adjoint.functions import elementary, special
from adjoint.functions.creation import as_tensor
from adjoint.ops import arithmetic, bitwise, comparison, incomplete_gamma, selection, transcendental, zeta
from adjoint.ops import elementary as elements

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
    "cosh": transcendental.cosh, "deg2rad": elementary.deg2rad, "degrees": elementary.rad2deg,
    "divide": arithmetic.div, "divmod": _divmod, "equal": comparison.eq, "exp": transcendental.exp,
    "exp2": transcendental.exp2, "expm1": transcendental.expm1, "fabs": arithmetic.abs,
    "float_power": elementary.float_power, "floor": arithmetic.floor, "floor_divide": arithmetic.floor_divide,
    "fmax": elements.fmax, "fmin": elements.fmin, "fmod": arithmetic.fmod, "gcd": elements.gcd,
    "greater": comparison.gt, "greater_equal": comparison.ge, "heaviside": elements.heaviside, "hypot": elements.hypot,
    "invert": bitwise.bitwise_not, "isfinite": comparison.isfinite, "isinf": comparison.isinf,
    "isnan": comparison.isnan, "lcm": elements.lcm, "left_shift": bitwise.bitwise_left_shift, "less": comparison.lt,
    "less_equal": comparison.le, "log": transcendental.log, "log10": transcendental.log10,
    "log1p": transcendental.log1p, "log2": transcendental.log2, "logaddexp": elements.logaddexp,
    "logaddexp2": elementary.logaddexp2, "logical_and": comparison.logical_and, "logical_not": comparison.logical_not,
    "logical_or": comparison.logical_or, "logical_xor": comparison.logical_xor, "matmul": _matmul,
    "maximum": arithmetic.maximum, "minimum": arithmetic.minimum, "modf": _modf, "multiply": arithmetic.mul,
    "negative": arithmetic.neg, "nextafter": elements.nextafter, "not_equal": comparison.ne,
    "positive": selection.copy, "power": arithmetic.pow, "rad2deg": elementary.rad2deg, "radians": elementary.deg2rad,
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
    "log_ndtr": special.log_ndtr, "logit": elementary.logit, "ndtr": special.ndtr, "ndtri": special.ndtri,
    "psi": special.digamma, "xlog1py": zeta.xlog1py, "xlogy": elements.xlogy, "y0": special.bessel_y0,
    "y1": special.bessel_y1, "_zeta": zeta.zeta,
}  # fmt: skip

# f(x, axis=, keepdims=)
REDUCTIONS: dict[str, Function] = {
    "add": statistical.sum, "logical_and": statistical.all, "logical_or": statistical.any, "maximum": statistical.max,
    "minimum": statistical.min, "multiply": statistical.prod,
}  # fmt: skip

# f(x, axis=)
RUNNING: dict[str, Function] = {"add": statistical.cumulative_sum, "multiply": statistical.cumulative_prod}

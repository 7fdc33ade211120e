"""The protocol `__array_function__`: NumPy's functions of tensors, such as `np.concatenate([tensor, …])`, recorded.

A function without a counterpart runs in NumPy if no tensor requires a gradient, and returns arrays. Otherwise it
raises, since the gradient would be lost.
"""

from __future__ import annotations

from functools import cache
from inspect import signature
from typing import Any

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.interop.numpy import arrangement, linalg, statistics
from adjoint.interop.numpy.ufuncs import any_requires_grad, raise_not_differentiable, to_arrays, write_out_args

TABLES: dict[str, dict[str, Function]] = {
    "numpy": {**arrangement.TABLE, **statistics.TABLE, **linalg.TABLE},
    "numpy.linalg": linalg.LINALG,
    "numpy.fft": linalg.FFT,
}
# questions about values, which have no gradient: NumPy answers
VALUE_QUERIES = """
    allclose array2string array_equal array_equiv array_repr array_str can_cast common_type iscomplexobj isrealobj
    may_share_memory min_scalar_type result_type shares_memory
"""


def function(called: Function, types: tuple[type, ...], args: Any, kwargs: Any) -> Any:
    """Answer `__array_function__`: the counterpart's result, or NumPy's where no gradient is lost."""
    if not all(issubclass(kind, (Tensor, np.ndarray)) for kind in types):
        return NotImplemented
    counterpart = TABLES.get(called.__module__, {}).get(called.__name__)
    out = kwargs.get("out")
    if out is not None:
        kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    if counterpart is not None and _accepts_args(counterpart, args, kwargs):
        result = counterpart(*args, **kwargs)
        return result if out is None else write_out_args(called.__name__, (out,), result)
    if called.__name__ not in VALUE_QUERIES.split() and any_requires_grad((args, kwargs, out)):
        raise_not_differentiable(_format_call(called, counterpart, kwargs))
    return called(*to_arrays(args), **to_arrays(kwargs), **({} if out is None else {"out": to_arrays(out)}))


def _accepts_args(counterpart: Function, args: Any, kwargs: Any) -> bool:
    """Return whether the counterpart has all the arguments that are given."""
    try:
        _signature(counterpart).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


_signature = cache(signature)


def _format_call(called: Function, counterpart: Function | None, kwargs: Any) -> str:
    name = f"{called.__module__.replace('numpy', 'np')}.{called.__name__}"
    if counterpart is None:
        return name
    known = _signature(counterpart).parameters
    return name + "".join(f", with {keyword}=," for keyword in kwargs if keyword not in known)

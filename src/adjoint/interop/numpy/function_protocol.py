"""The protocol `__array_function__`: NumPy's functions of tensors, such as `np.concatenate([tensor, …])`.

Where a tensor among the arguments requires a gradient, carries a tangent, or has no values of its own (in a traced
step, under vmap), the counterpart in the library gives tensors; without a counterpart the call raises, since the
gradient would be lost. Other calls give what NumPy gives, arrays: programs that know nothing of tensors go on with
them. It never matters who calls.
"""

from __future__ import annotations

from functools import cache
from inspect import signature
from typing import Any

import numpy as np

from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand, Operands, Params
from adjoint.interop.numpy import arrangement, linalg, statistics
from adjoint.interop.numpy.ufuncs import any_tensor, raise_not_differentiable, requires_grad, to_arrays, write_out_args

TABLES: dict[str, dict[str, Function]] = {
    "numpy": {**arrangement.TABLE, **statistics.TABLE, **linalg.TABLE},
    "numpy.linalg": linalg.LINALG,
    "numpy.fft": linalg.FFT,
}
SHAPE_QUERIES = "ndim shape size"  # which read no values
# questions about values, which have no gradient: NumPy answers
VALUE_QUERIES = """
    allclose array2string array_equal array_equiv array_repr array_str can_cast common_type iscomplexobj isrealobj
    may_share_memory min_scalar_type result_type shares_memory
"""


def function(called: Function, types: tuple[type, ...], args: Any, kwargs: Any) -> Any:
    """Answer `__array_function__`: the counterpart's result where NumPy's would lose a gradient, else NumPy's."""
    if not all(issubclass(kind, (Tensor, np.ndarray)) for kind in types):
        return NotImplemented
    out = kwargs.get("out")
    if out is not None:
        kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    result = _evaluate(called, args, kwargs, any_tensor(needs_tensors, (args, kwargs, out)))
    return result if out is None else write_out_args(called.__name__, (out,), result)


def _evaluate(called: Function, args: Operands, kwargs: Params, as_tensors: bool) -> Operand:
    counterpart = TABLES.get(called.__module__, {}).get(called.__name__)
    as_tensors = as_tensors and called.__name__ not in VALUE_QUERIES.split()
    if as_tensors or called.__name__ in SHAPE_QUERIES.split():
        if counterpart is not None and _accepts_args(counterpart, args, kwargs):
            return counterpart(*args, **kwargs)
        if any_tensor(requires_grad, (args, kwargs)):
            raise_not_differentiable(_format_call(called, counterpart, kwargs))
    return called(*to_arrays(args), **to_arrays(kwargs))


def needs_tensors(x: Tensor) -> bool:
    """Return whether an array in place of x would lose its history, its tangent or what stands for its values."""
    if x.requires_grad or type(x.array) is not np.ndarray or x.array.dtype.kind == "V":  # NumPy has no bfloat16
        return True
    levels, interpreter = mode.forward_levels, mode.interpreter
    has_tangent = levels is not None and bool(levels.levels_with_tangents((x,)))
    return has_tangent or (interpreter is not None and interpreter.traces_steps)


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

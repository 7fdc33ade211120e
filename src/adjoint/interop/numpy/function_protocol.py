"""`np.concatenate([tensor, …])` and its kind: NumPy's functions as functions of the library, on the tape.

Without a counterpart, tensors that want no gradient go through NumPy, whose results are arrays; for others that would
lose the gradient, and is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.interop.numpy import arrangement, linalg, statistics
from adjoint.interop.numpy.ufuncs import into, plain, refuse, wanting

Function = Callable[..., Any]
TABLES: dict[str, dict[str, Function]] = {
    "numpy": {**arrangement.TABLE, **statistics.TABLE, **linalg.TABLE},
    "numpy.linalg": linalg.LINALG,
    "numpy.fft": linalg.FFT,
}
# They ask about values, whose gradient nobody can want: NumPy may answer.
ASKING = {
    "allclose", "array2string", "array_equal", "array_equiv", "array_repr", "array_str", "can_cast", "common_type",
    "iscomplexobj", "isrealobj", "may_share_memory", "min_scalar_type", "result_type", "shares_memory",
}  # fmt: skip


def function(called: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """What `__array_function__` returns: the counterpart's result, or NumPy's where no gradient is lost."""
    if not all(issubclass(kind, (Tensor, np.ndarray)) for kind in types):
        return NotImplemented
    found = TABLES.get(called.__module__, {}).get(called.__name__)
    out = kwargs.get("out")
    if out is not None:
        kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    if found is not None and _takes(found, args, kwargs):
        result = found(*args, **kwargs)
        return result if out is None else into(called.__name__, (out,), result)
    if called.__name__ not in ASKING and wanting((args, kwargs, out)):
        refuse(_spelt(called, found, kwargs))
    return called(*plain(args), **plain(kwargs), **({} if out is None else {"out": plain(out)}))


def _takes(found: Function, args: Any, kwargs: Any) -> bool:
    """True if the counterpart has all the arguments that are given."""
    try:
        _signature(found).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


_signature = cache(signature)


def _spelt(called: Any, found: Function | None, kwargs: Any) -> str:
    name = f"{called.__module__.replace('numpy', 'np')}.{called.__name__}"
    if found is None:
        return name
    known = _signature(found).parameters
    return name + "".join(f", with {given}=," for given in kwargs if given not in known)

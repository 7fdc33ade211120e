"""Precision in which a function computes: bfloat16 in float32 from end to end, and the dtype of autocast.

A function that is composed of ops rounds to bfloat16 after each of them. These decorators let a function that PyTorch
computes as a whole round once, at its end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from adjoint.core.dtype.dtype import default
from adjoint.core.op.autocast import autocast_down, autocast_up
from adjoint.core.op.bfloat16 import downcast, upcast
from adjoint.core.op.signature import parameters_of, with_parameters
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.ops.elementwise import select

Function = TypeVar("Function", bound=Callable[..., Any])
HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
RUNNING_STATISTICS = frozenset({"running_mean", "running_var"})  # which a function writes, in their own type


def in_float32(function: Function) -> Function:
    """Let `function` compute in float32 on tensors of bfloat16, and round its results once."""
    return _with_compute_dtype(function, follows_autocast=False, by_input=False)


def float16_in_float32(function: Function) -> Function:
    """Do as `in_float32`, on tensors of float16 too; the results have the type of the first argument."""
    return _with_compute_dtype(function, follows_autocast=False, by_input=True)


def autocast_float32(function: Function) -> Function:
    """Do as `in_float32`; under autocast, compute in float32 and return float32."""
    return _with_compute_dtype(function, follows_autocast=True, by_input=False)


def autocast_lower(function: Function) -> Function:
    """Let `function` compute in the type of autocast: for matrix products, whose sums are float32 anyway."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Operand:
        if nondefault.count and mode.autocast is not None:
            args, kwargs = _map_arguments(autocast_down, args, kwargs)
        return function(*args, **kwargs)

    published: Any = call
    return published


def _with_compute_dtype(function: Function, follows_autocast: bool, by_input: bool) -> Function:
    names = parameters_of(function).positional
    place = names.index("inplace") if "inplace" in names else sys.maxsize
    aside = {i for i, name in enumerate(names) if name in RUNNING_STATISTICS}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if follows_autocast and nondefault.count and mode.autocast is not None:
            args, kwargs = _map_arguments(autocast_up, args, kwargs)
        if by_input and args and args[0].array.dtype.char == "e":
            args = tuple([x if i in aside else _half_to_float32(x) for i, x in enumerate(args)])
            kwargs = {name: x if name in RUNNING_STATISTICS else _half_to_float32(x) for name, x in kwargs.items()}
            return select.cast(function(*args, **kwargs), dtype=HALF)
        if not default.narrow or kwargs.get("inplace") or (len(args) > place and args[place]):
            return function(*args, **kwargs)
        given = [x.array.dtype for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        floating = [kind for kind in given if kind.kind in "fcV"][: 1 if by_input else None]
        if not floating or any(kind.kind != "V" for kind in floating):
            return function(*args, **kwargs)
        args = tuple([x if i in aside else _upcast_tensor(x) for i, x in enumerate(args)])
        kwargs = {name: x if name in RUNNING_STATISTICS else _upcast_tensor(x) for name, x in kwargs.items()}
        return _round_results(function(*args, **kwargs))

    published: Any = with_parameters(call, names)
    return published


def _map_arguments(change: Callable[[Any], Any], args: tuple[Any, ...], kwargs: Any) -> tuple[Any, Any]:
    return tuple(map(change, args)), {name: change(x) for name, x in kwargs.items()}


def _upcast_tensor(x: Tensor | float | tuple[int, ...] | str | None) -> Tensor | float | tuple[int, ...] | str | None:
    return upcast(x) if isinstance(x, Tensor) else x


def _round_results(out: Tensor | tuple[Tensor, ...]) -> Any:
    if isinstance(out, Tensor):
        return downcast(out)
    if not isinstance(out, tuple):
        return out
    rounded = map(_round_results, out)
    return type(out)(*rounded) if hasattr(out, "_fields") else tuple(rounded)


def _half_to_float32(x: Tensor | int | tuple[int, ...]) -> Tensor | int | tuple[int, ...]:
    return select.cast(x, dtype=SINGLE) if isinstance(x, Tensor) and x.array.dtype == HALF else x

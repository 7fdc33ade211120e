"""Precision in which a function computes: 16-bit floats in float32 from end to end, and the dtype of autocast.

A function that is composed of ops rounds to 16 bits after each of them, and float16 has no room for squares. These
decorators let a function that PyTorch computes as a whole round once, at its end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from adjoint.core.dtype.dtype import default, numpy_dtype
from adjoint.core.op.autocast import autocast_down, autocast_up
from adjoint.core.op.op_errors import name_call
from adjoint.core.op.signature import parameters_of, with_parameters
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import NumpyDtype, Operand
from adjoint.ops.elementwise import select

Function = TypeVar("Function", bound=Callable[..., Any])
SINGLE = np.dtype(np.float32)
RUNNING_STATISTICS = frozenset({"running_mean", "running_var"})  # which a function writes, in their own type


def in_float32(function: Function) -> Function:
    """Let `function` compute in float32 on tensors of bfloat16 or of float16, and round its results once."""
    return _with_compute_dtype(function, follows_autocast=False, by_input=False)


def input_in_float32(function: Function) -> Function:
    """Do as `in_float32`, whatever types other tensors have; the results have the type of the first argument."""
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
        try:
            if (
                not default.narrow
                and args
                and type(args[0]) is Tensor
                and args[0].array.dtype.char != "e"
                and not (follows_autocast and nondefault.count and mode.autocast is not None)
            ):
                return function(*args, **kwargs)  # as nearly always
            if follows_autocast and nondefault.count and mode.autocast is not None:
                args, kwargs = _map_arguments(autocast_up, args, kwargs)
            half = bool(args) and isinstance(args[0], Tensor) and args[0].array.dtype.char == "e"
            inplace = kwargs.get("inplace") or (len(args) > place and args[place])
            if not (half or default.narrow) or inplace:
                return function(*args, **kwargs)
            given = [x.array.dtype for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
            floating = [kind for kind in given if kind.kind in "fcV"][: 1 if by_input else None]
            narrow = floating[0] if floating else SINGLE
            if narrow.itemsize != 2 or any(kind != narrow for kind in floating):
                return function(*args, **kwargs)
            if (wanted := kwargs.get("dtype")) is not None:
                if numpy_dtype(wanted) != narrow:
                    return function(*args, **kwargs)
                kwargs = {**kwargs, "dtype": None}
            args = tuple([x if i in aside else _convert(x, narrow, SINGLE) for i, x in enumerate(args)])
            kept = RUNNING_STATISTICS
            kwargs = {name: x if name in kept else _convert(x, narrow, SINGLE) for name, x in kwargs.items()}
            return _convert(function(*args, **kwargs), SINGLE, narrow)
        except Exception as error:
            name_call(error, function, args, kwargs)
            raise

    published: Any = with_parameters(call, names)
    return published


def _map_arguments(change: Callable[[Any], Any], args: tuple[Any, ...], kwargs: Any) -> tuple[Any, Any]:
    return tuple(map(change, args)), {name: change(x) for name, x in kwargs.items()}


def _convert(x: object, kind: NumpyDtype, other: NumpyDtype) -> Any:
    """Return a tensor of type `kind`, and those in a tuple, in the type `other`; anything else as it is."""
    if isinstance(x, Tensor):
        return select.cast(x, dtype=other) if x.array.dtype == kind else x
    if not isinstance(x, tuple):
        return x
    parts = [_convert(part, kind, other) for part in x]
    return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)

"""Precision of custom functions under `autocast`."""

from __future__ import annotations

from functools import partial, wraps
from typing import Any

from adjoint.core.dtype.dtype import dtype
from adjoint.core.op.autocast import autocast, get_autocast_dtype, is_autocast_enabled
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function


def custom_fwd(fwd: Function | None = None, *, device_type: str, cast_inputs: dtype | None = None) -> Function:
    """Decorate the `forward` of an `autograd.Function` to run without `autocast`, on inputs of type `cast_inputs`.

    Without `cast_inputs`, or with `autocast` off, it runs as it is.

    Raises: ValueError for a device type that is no string.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Tensor:
        on = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))

    return forward


def custom_bwd(bwd: Function | None = None, *, device_type: str) -> Function:
    """Decorate the `backward` of an `autograd.Function` to run under the `autocast` of its `forward`.

    Raises: ValueError for a `device_type` that is no text.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return partial(custom_bwd, device_type=device_type)

    @wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return backward


def _cast(value: Any, kind: dtype) -> Any:
    """Return `value` with its floating tensors, but for those of float64, as `kind`."""
    if isinstance(value, Tensor):
        floating = value.is_floating_point() and value.array.dtype.itemsize < 8
        return value.to(kind) if floating else value
    if isinstance(value, dict):
        return {_cast(key, kind): _cast(item, kind) for key, item in value.items()}
    return type(value)(_cast(item, kind) for item in value) if isinstance(value, (tuple, list)) else value

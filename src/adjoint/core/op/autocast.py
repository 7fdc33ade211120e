"""Automatic mixed precision: under `autocast` products take a lower precision, and sensitive functions float32.

Each function declares its behaviour, by PyTorch's lists for the CPU (`functions/api/compute_dtype.py`). A conversion
is an op with a gradient, so the gradients of parameters have the parameters' type.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from adjoint.core.dtype.device import cuda_devices
from adjoint.core.dtype.dtype import as_dtype, bfloat16, dtype, float16, float32
from adjoint.core.graph.node import Leaf
from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.bfloat16 import cast_slot
from adjoint.core.runtime.mode import mode, set_modes
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
SUPPORTED = (bfloat16, float16)


class CachedCast(NamedTuple):
    """A converted parameter in the cache, with the array and the write count that it was made from."""

    parameter: Tensor
    array: Operand
    written: int
    converted: Tensor


class _Settings(threading.local):
    """The calling thread's settings of autocast for each kind of device, and the cache that blocks share.

    Functions read `mode.autocast`: the type in force for the CPU, or None.
    """

    def __init__(self) -> None:
        self.enabled = dict.fromkeys(("cpu", "cuda", "mps", "xpu"), False)
        self.dtypes: dict[str, dtype] = {"cpu": bfloat16, "cuda": float16, "mps": float16, "xpu": float16}
        self.cache, self.depth = True, 0
        self.cached: dict[int, CachedCast] = {}


settings = _Settings()


class autocast:
    """A block or decorator in which products are computed in a lower precision and losses in float32.

    `dtype` is bfloat16 or float16, bfloat16 unless given; for another one, and for devices that are not there, it warns
    and does nothing. Conversions of parameters are made once and kept until the outermost block ends, if
    `cache_enabled`, unless the parameter is written meanwhile. Raises RuntimeError for an unknown kind of device.
    """

    _before: list[tuple[bool, dtype, bool]]

    def __init__(
        self, device_type: str, dtype: dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type
        self.fast_dtype = as_dtype(get_autocast_dtype(device_type) if dtype is None else dtype)
        self._cache_enabled = settings.cache if cache_enabled is None else cache_enabled
        self._enabled = enabled
        if enabled and device_type == "cuda" and not cuda_devices.count:
            warn_user("CUDA is not available: adjoint computes on the CPU. Disabling autocast.")
            self._enabled = False
        elif enabled and self.fast_dtype not in SUPPORTED:
            warn_user(
                f"In {device_type.upper()} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{device_type.upper()} Autocast only supports dtypes of {', '.join(map(repr, SUPPORTED))} currently."
            )
            self._enabled = False
        self._before = []

    def __enter__(self) -> Self:
        device = self.device
        self._before.append((settings.enabled[device], settings.dtypes[device], settings.cache))
        settings.depth += 1
        self._set(self._enabled, self.fast_dtype, self._cache_enabled)
        return self

    def __exit__(self, *error: object) -> None:
        settings.depth -= 1
        if settings.depth == 0:
            clear_autocast_cache()
        self._set(*self._before.pop())

    def _set(self, enabled: bool, kind: dtype, cache: bool) -> None:
        settings.enabled[self.device], settings.dtypes[self.device], settings.cache = enabled, kind, cache
        _sync_mode()

    def __call__(self, func: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """Wrap `func` so that each call runs in such a block. Raises TypeError if it is not callable."""
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use autocast as "
                "a context manager? For example:\n    with autocast(device_type=...):\n        output = model(input)"
            )

        @wraps(func)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            with self:
                return func(*args, **kwargs)

        return call


def capture_autocast() -> autocast:
    """Return a block that restores the present state of `autocast`, for a later recomputation."""
    kind = _kind_in_force()
    return autocast(kind, settings.dtypes[kind], settings.enabled[kind], settings.cache)


def _sync_mode() -> None:
    kind = _kind_in_force()
    set_modes(autocast=settings.dtypes[kind] if settings.enabled[kind] else None)


def _kind_in_force() -> str:
    """Return the kind of device whose settings count: where CUDA means the CPU, CUDA's if they are on."""
    return "cuda" if cuda_devices.count and settings.enabled["cuda"] else "cpu"


def _check_device_type(device_type: str) -> str:
    if device_type not in settings.enabled:
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Return whether `autocast` knows this kind of device."""
    return device_type in settings.enabled


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return whether `autocast` is on for this kind of device."""
    return settings.enabled[_check_device_type(device_type)]


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch `autocast` on or off for a kind of device, until the block around ends."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    settings.enabled[_check_device_type(device_type)] = bool(enabled)
    _sync_mode()


def get_autocast_dtype(device_type: str) -> dtype:
    """Return the default type of `autocast` on this kind of device."""
    return settings.dtypes[_check_device_type(device_type)]


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Set the default type of `autocast` on this kind of device."""
    settings.dtypes[_check_device_type(device_type)] = as_dtype(dtype)
    _sync_mode()


def is_autocast_cache_enabled() -> bool:
    """Return whether `autocast` caches the conversions of parameters."""
    return settings.cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Let `autocast` cache the conversions of parameters, or not."""
    settings.cache = bool(enabled)


def clear_autocast_cache() -> None:
    """Clear the cache of converted parameters."""
    settings.cached.clear()


def autocast_down(x: Operand) -> Operand:
    """Convert a floating tensor, except of float64, to the type of `autocast`; return anything else as it is."""
    fast_dtype = mode.autocast
    if fast_dtype is None or not isinstance(x, Tensor):
        return x
    kind, target = x.array.dtype, fast_dtype.numpy
    if kind.kind not in "fV" or kind.itemsize == 8 or kind == target:
        return x
    kept = (
        settings.cache and type(x.node) is Leaf and mode.recording and not mode.is_intercepted and kind == float32.numpy
    )
    if not kept:
        return cast_slot.call(x, dtype=target)
    known = settings.cached.get(id(x))
    if (
        known is None
        or known.array is not x.array
        or known.written != mutation_log.last
        or known.converted.array.dtype != target
    ):
        known = settings.cached[id(x)] = CachedCast(x, x.array, mutation_log.last, cast_slot.call(x, dtype=target))
    return known.converted


def autocast_up(x: Operand) -> Operand:
    """Convert a tensor of float16 or bfloat16 to float32; return anything else as it is."""
    if not isinstance(x, Tensor) or x.array.dtype.kind not in "fV" or x.array.dtype.itemsize != 2:
        return x
    return cast_slot.call(x, dtype=float32.numpy)

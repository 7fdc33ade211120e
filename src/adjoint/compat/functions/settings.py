"""Settings of PyTorch: here the device is the CPU, and results have the same bits each time."""

from __future__ import annotations

from typing import Any

from adjoint.compat.functions.legacy_types import resolve_dtype
from adjoint.core.dtype.device import META, is_meta
from adjoint.core.dtype.device import device as Device
from adjoint.core.dtype.dtype import numpy_dtype, set_default_dtype
from adjoint.core.graph.source_location import warn_user
from adjoint.core.runtime.deterministic import determinism
from adjoint.core.runtime.mode import mode, set_modes
from adjoint.core.tensor.shape_tracer import META_INTERPRETER

__all__ = [
    "are_deterministic_algorithms_enabled", "can_cast", "get_default_device", "get_deterministic_debug_mode",
    "get_num_interop_threads", "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled",
    "set_default_device", "set_default_tensor_type", "set_deterministic_debug_mode", "set_flush_denormal",
    "set_num_interop_threads", "set_warn_always", "use_deterministic_algorithms",
]  # fmt: skip

LEVELS = ("default", "warn", "error")
_stored_settings: dict[str, Any] = {"warn always": False, "threads": 1}


def can_cast(from_: Any, to: Any) -> bool:
    """Return whether the category of `from_` casts to that of `to`: not complex to real, nor float to integer."""
    ranks = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}
    source, target = (ranks[numpy_dtype(kind).kind] for kind in (from_, to))
    return source <= target


def get_default_device() -> Any:
    """Return the CPU, or "meta" in a block of that device."""
    return META if mode.interpreter is META_INTERPRETER else Device("cpu")


def set_default_device(device: Any) -> None:
    """Create tensors on this device by default: the CPU, or "meta". Raises DeviceError for another device."""
    if is_meta(device):
        set_modes(interpreter=META_INTERPRETER)
    elif mode.interpreter is META_INTERPRETER:
        set_modes(interpreter=None)


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by a constructor, or its name: `DoubleTensor`. Raises TypeError unless it is floating."""
    warn_user(
        "set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.",
        UserWarning,
    )
    kind = resolve_dtype(t) if isinstance(t, (str, type)) else None
    if kind is None or not kind.is_floating_point:
        raise TypeError(f"invalid type {t!r}: only floating-point types are supported as the default type")
    set_default_dtype(kind)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Refuse, or with `warn_only` warn of, what has no one result; new memory is NaN. Bits are always the same.

    Raises TypeError for anything but bools.
    """
    for what, given in (("'mode' (position 1)", mode), ("'warn_only'", warn_only)):
        if not isinstance(given, bool):
            kind = type(given).__name__
            raise TypeError(f"_set_deterministic_algorithms(): argument {what} must be bool, not {kind}")
    determinism.required, determinism.warn_only = mode, warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """Return whether deterministic algorithms are required."""
    return determinism.required


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether algorithms that are not deterministic only warn."""
    return determinism.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set determinism by a level: 0, 1, 2 or "default", "warn", "error". Raises RuntimeError for other values."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if debug_mode not in (*LEVELS, *range(len(LEVELS))):
        known = "one of `default`, `warn`, `error`" if isinstance(debug_mode, str) else "0, 1, or 2"
        raise RuntimeError(f"invalid value of debug_mode, expected {known}, but got {debug_mode}")
    level = LEVELS.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: what was asked for."""
    return (1 if determinism.warn_only else 2) if determinism.required else 0


def set_warn_always(b: bool, /) -> None:
    """Note what is asked for: how often Python shows a warning is up to its own filters."""
    _stored_settings["warn always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """Return the value of `set_warn_always`."""
    return bool(_stored_settings["warn always"])


def set_flush_denormal(mode: bool) -> bool:
    """False: the smallest numbers stay as they are."""
    return False


def set_num_interop_threads(n: int) -> None:
    """Note the number: ops run one after another. Raises RuntimeError unless it is positive."""
    if not 0 < n < 2**31:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _stored_settings["threads"] = n


def get_num_interop_threads() -> int:
    """Return the value of `set_num_interop_threads`."""
    return int(_stored_settings["threads"])

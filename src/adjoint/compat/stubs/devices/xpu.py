"""`adjoint.xpu`: what programs ask of Intel's accelerators. None is used: `is_available()` is False."""

from __future__ import annotations

from typing import Any

from adjoint.compat.absent_device import absent_classes, constant_functions, raising_functions

ANSWERS: dict[str, Any] = {
    "device_count": 0, "empty_cache": None, "get_rng_state_all": [], "is_available": False, "is_bf16_supported": False,
    "is_initialized": False, "manual_seed": None, "manual_seed_all": None, "max_memory_allocated": 0,
    "max_memory_reserved": 0, "memory_allocated": 0, "memory_reserved": 0, "memory_stats": {}, "seed": None,
    "seed_all": None,
}  # fmt: skip
REFUSED = """
    current_device current_stream get_device_capability get_device_name get_device_properties
    get_rng_state init initial_seed mem_get_info reset_peak_memory_stats set_device set_rng_state synchronize
"""
globals().update(constant_functions("adjoint.xpu", ANSWERS) | raising_functions("adjoint.xpu", REFUSED, "XPU"))
globals().update(absent_classes("adjoint.xpu", "Event Stream", "XPU"))

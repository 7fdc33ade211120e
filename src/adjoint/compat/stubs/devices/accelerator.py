"""`adjoint.accelerator`: the accelerator of the machine. None is used: `is_available()` is False."""

from __future__ import annotations

from adjoint.compat.absent_device import constant_functions, raising_functions

ANSWERS = {"current_accelerator": None, "device_count": 0, "is_available": False}
REFUSED = """
    current_device_idx current_device_index current_stream device_index empty_cache get_memory_info
    max_memory_allocated max_memory_reserved memory_allocated memory_reserved memory_stats
    reset_accumulated_memory_stats reset_peak_memory_stats set_device_idx set_device_index set_stream synchronize
"""
globals().update(
    constant_functions("adjoint.accelerator", ANSWERS)
    | raising_functions("adjoint.accelerator", REFUSED, "accelerator")
)

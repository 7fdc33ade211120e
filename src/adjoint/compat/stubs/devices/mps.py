"""`adjoint.mps`: what programs ask of Apple's accelerator. It is not used: `is_available()` is False."""

from __future__ import annotations

from adjoint.compat.absent_device import constant_functions, raising_functions

ANSWERS = {"device_count": 0, "is_available": False, "manual_seed": None}
REFUSED = """
    compile_shader current_allocated_memory driver_allocated_memory empty_cache get_rng_state recommended_max_memory
    seed set_per_process_memory_fraction set_rng_state synchronize
"""
globals().update(constant_functions("adjoint.mps", ANSWERS) | raising_functions("adjoint.mps", REFUSED, "MPS"))

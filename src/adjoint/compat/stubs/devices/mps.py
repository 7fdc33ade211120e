"""`adjoint.mps`: what programs ask of Apple's accelerator. It is not used: `is_available()` is False."""

from __future__ import annotations

from adjoint.compat.absent_device import answering, refusing

ANSWERS = {"device_count": 0, "is_available": False, "manual_seed": None}
REFUSED = """
    compile_shader current_allocated_memory driver_allocated_memory empty_cache get_rng_state recommended_max_memory
    seed set_per_process_memory_fraction set_rng_state synchronize
"""
globals().update(answering("adjoint.mps", ANSWERS) | refusing("adjoint.mps", REFUSED, "MPS"))

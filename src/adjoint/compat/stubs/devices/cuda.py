"""`adjoint.cuda`: CUDA devices, of which there is none: `is_available()` is False."""

from __future__ import annotations

from typing import Any

from adjoint.compat.absent_device import NoStream, absent_classes, constant_functions, raising_functions
from adjoint.compat.stubs.devices.absent import nvtx  # noqa: F401  programs name it as torch.cuda.nvtx
from adjoint.compat.stubs.devices.cpu import StreamContext
from adjoint.core.dtype.device import DeviceError  # noqa: F401  programs name it as torch.cuda.DeviceError

NONE_ANSWERS = """
    empty_cache manual_seed manual_seed_all reset_max_memory_allocated reset_max_memory_cached reset_peak_memory_stats
    seed seed_all set_rng_state set_rng_state_all
"""
FALSE_ANSWERS = "is_available is_bf16_supported is_current_stream_capturing is_initialized is_tf32_supported"
ZERO_ANSWERS = """
    device_count max_memory_allocated max_memory_cached max_memory_reserved memory_allocated memory_cached
    memory_reserved
"""
ANSWERS: dict[str, Any] = {
    **dict.fromkeys(NONE_ANSWERS.split()),
    **dict.fromkeys(FALSE_ANSWERS.split(), False),
    **dict.fromkeys(ZERO_ANSWERS.split(), 0),
    "get_arch_list": [],
    "get_gencode_flags": "",
    "get_rng_state_all": [],
    "memory_stats": {},
}
REFUSED = """
    can_device_access_peer current_blas_handle current_device current_stream
    default_stream get_device_capability get_device_name get_device_properties get_rng_state get_sync_debug_mode
    graph init initial_seed ipc_collect list_gpu_processes make_graphed_callables mem_get_info memory_snapshot
    memory_summary memory_usage set_device set_per_process_memory_fraction set_stream set_sync_debug_mode
    synchronize temperature utilization
"""

_initialized = False
CLASSES = "CUDAGraph Event ExternalStream Stream"

globals().update(constant_functions("adjoint.cuda", ANSWERS) | raising_functions("adjoint.cuda", REFUSED, "CUDA"))
globals().update(absent_classes("adjoint.cuda", CLASSES, "CUDA"))
default_generators: tuple[Any, ...] = ()
has_half = True
has_magma = False


class OutOfMemoryError(RuntimeError):
    """Error for exhausted memory of a device; nothing here raises it."""


def __getattr__(name: str) -> Any:
    """Return a class without instances for names such as `FloatTensor`."""
    if not name.endswith("Tensor") or name.startswith("_"):
        raise AttributeError(f"module 'adjoint.cuda' has no attribute {name!r}")
    return absent_classes("adjoint.cuda", name, "CUDA")[name]


class device(NoStream):
    """Context of a device by its index: the block runs on the CPU."""

    def __init__(self, device: Any = None) -> None:
        super().__init__(device)
        self.idx = -1
        self.prev_idx = -1


class device_of(device):
    """Context of a tensor's device: the block runs on the CPU, where the tensor is."""


def stream(stream: Any) -> StreamContext:
    """Return a context that changes nothing."""
    return StreamContext(stream)

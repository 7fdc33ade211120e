"""`adjoint.cuda`: what programs ask of a CUDA device. There is none: `is_available()` is False."""

from __future__ import annotations

from typing import Any

from adjoint.compat.absent_device import NoStream, absent_classes, constant_functions, raising_functions
from adjoint.compat.stubs.devices.absent import nvtx  # noqa: F401  programs name it as torch.cuda.nvtx
from adjoint.compat.stubs.devices.cpu import StreamContext
from adjoint.core.dtype.device import DeviceError  # noqa: F401  programs name it as torch.cuda.DeviceError

ANSWERS: dict[str, Any] = {
    "device_count": 0, "empty_cache": None, "get_arch_list": [], "get_gencode_flags": "", "get_rng_state_all": [],
    "is_available": False, "is_bf16_supported": False, "is_current_stream_capturing": False, "is_initialized": False,
    "is_tf32_supported": False, "manual_seed": None, "manual_seed_all": None, "max_memory_allocated": 0,
    "max_memory_cached": 0, "max_memory_reserved": 0, "memory_allocated": 0, "memory_cached": 0, "memory_reserved": 0,
    "memory_stats": {}, "reset_max_memory_allocated": None, "reset_max_memory_cached": None,
    "reset_peak_memory_stats": None, "seed": None, "seed_all": None, "set_rng_state": None, "set_rng_state_all": None,
}  # fmt: skip
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
    """The memory of a device is used up: nothing here raises it."""


def __getattr__(name: str) -> Any:
    """`cuda.FloatTensor` and its kin: classes without instances."""
    if not name.endswith("Tensor") or name.startswith("_"):
        raise AttributeError(f"module 'adjoint.cuda' has no attribute {name!r}")
    return absent_classes("adjoint.cuda", name, "CUDA")[name]


class device(NoStream):
    """`with device(index)`: the block runs on the CPU."""

    def __init__(self, device: Any = None) -> None:
        super().__init__(device)
        self.idx = -1
        self.prev_idx = -1


class device_of(device):
    """`with device_of(tensor)`: the block runs on the CPU, where the tensor is."""


def stream(stream: Any) -> StreamContext:
    """A block that runs as without."""
    return StreamContext(stream)

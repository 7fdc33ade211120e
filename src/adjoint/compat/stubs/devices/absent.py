"""Accelerators that are absent, as a table: questions about them have answers, orders and handles raise."""

from __future__ import annotations

from contextlib import ContextDecorator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from adjoint.compat.absent_device import NoStream, absent_classes, constant_functions, raising_functions


def make_device_module(
    name: str, kind: str, doc: str, answers: dict[str, Any], raising: str = "", classes: str = "", **others: Any
) -> Any:
    """Return a module of functions that give the answers, of functions and classes that raise, and of other values."""
    fullname = f"adjoint.{name}"
    module = ModuleType(fullname, doc)
    module.__spec__ = ModuleSpec(fullname, None)
    vars(module).update(constant_functions(fullname, answers))
    vars(module).update(raising_functions(fullname, raising, kind))
    vars(module).update(absent_classes(fullname, classes, kind))
    vars(module).update(others)
    return module


class range(ContextDecorator, NoStream):
    """`with range(message)`, or a decorator: the block, or the function, runs unchanged."""

    def __init__(self, msg: str, *args: object, **kwargs: object) -> None:
        super().__init__()


accelerator = make_device_module(
    "accelerator",
    "accelerator",
    "The accelerator of the machine. None is used: `is_available()` is False.",
    {"current_accelerator": None, "device_count": 0, "is_available": False},
    """
    current_device_idx current_device_index current_stream device_index empty_cache get_memory_info
    max_memory_allocated max_memory_reserved memory_allocated memory_reserved memory_stats
    reset_accumulated_memory_stats reset_peak_memory_stats set_device_idx set_device_index set_stream synchronize
    """,
)
mps = make_device_module(
    "mps",
    "MPS",
    "Apple's accelerator. It is not used: `is_available()` is False.",
    {"device_count": 0, "is_available": False, "manual_seed": None},
    """
    compile_shader current_allocated_memory driver_allocated_memory empty_cache get_rng_state recommended_max_memory
    seed set_per_process_memory_fraction set_rng_state synchronize
    """,
)
mtia = make_device_module(
    "mtia",
    "MTIA",
    "Meta's accelerators. None is used: `is_available()` is False.",
    {"device_count": 0, "is_available": False, "is_initialized": False},
    "current_device current_stream empty_cache get_rng_state memory_stats set_device set_rng_state synchronize",
)
nvtx = make_device_module(
    "cuda.nvtx",
    "CUDA",
    "Marks for a profiler of CUDA devices, which nobody reads here.",
    {"mark": None, "range_end": None, "range_pop": -1, "range_push": -1},
    range=range,
)
xpu = make_device_module(
    "xpu",
    "XPU",
    "Intel's accelerators. None is used: `is_available()` is False.",
    {
        **dict.fromkeys(("empty_cache", "manual_seed", "manual_seed_all", "seed", "seed_all")),
        **dict.fromkeys(("is_available", "is_bf16_supported", "is_initialized"), False),
        **dict.fromkeys(("is_current_stream_capturing",), False),
        "set_rng_state_all": None,
        **dict.fromkeys(("device_count", "max_memory_allocated", "max_memory_reserved"), 0),
        **dict.fromkeys(("memory_allocated", "memory_reserved"), 0),
        "get_rng_state_all": [],
        "memory_stats": {},
    },
    """
    current_device current_stream get_device_capability get_device_name get_device_properties
    get_rng_state init initial_seed mem_get_info reset_peak_memory_stats set_device set_rng_state synchronize
    """,
    "Event Stream",
    device=NoStream,
)


class DefaultDeviceType:
    """Kind of device whose generators `get_device_states` means if no tensor tells: a stored name."""

    _kind = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Store a name."""
        DefaultDeviceType._kind = device

    @staticmethod
    def get_device_type() -> str:
        """Return the name that was set last, "cuda" at first."""
        return DefaultDeviceType._kind


def get_device_states(*args: object) -> tuple[list[int], list[Any]]:
    """Return the devices of the tensors in `args` other than the CPU, and the states of their generators: none."""
    return [], []


def set_device_states(devices: Any, states: object, *, device_type: str | None = None) -> None:
    """Do nothing: only the CPU has a generator. Raises RuntimeError for states of others."""
    if list(devices):
        raise RuntimeError(f"set_device_states: there are no devices {list(devices)}: adjoint computes on the CPU only")

"""`adjoint.cuda` and `adjoint.accelerator` where CUDA means the CPU: `python -m adjoint.run --cuda=cpu`.

Each order has been carried out when it returns, streams are one, and memory is not counted. Any number of a device
names the CPU, and draws on a device are those of the CPU's generator.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections import defaultdict
from collections.abc import MutableMapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import ClassVar

from adjoint.compat.absent_device import NoStream, constant_functions
from adjoint.compat.functions import legacy_types
from adjoint.compat.stubs.devices.absent import accelerator
from adjoint.core.dtype.device import cuda_devices
from adjoint.core.dtype.device import device as Device
from adjoint.core.runtime.launcher_variables import read_local_size
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike
from adjoint.functions.creation.random import get_rng_state, initial_seed, set_rng_state

VARIABLE = "ADJOINT_CUDA"  # tells processes that a program starts: cpu, or cpu:4 for four devices
CAPABILITY = (8, 0)  # of the first devices with bfloat16, which the CPU has too
NONE_ANSWERS = """
    init ipc_collect set_per_process_memory_fraction set_stream set_sync_debug_mode synchronize
"""
CUDA_ANSWERS: dict[str, object] = {
    **dict.fromkeys(NONE_ANSWERS.split()),
    **dict.fromkeys(("can_device_access_peer", "is_available", "is_bf16_supported", "is_initialized"), True),
    **dict.fromkeys(("get_sync_debug_mode", "memory_usage", "temperature", "utilization"), 0),
    "get_device_capability": CAPABILITY,
    "list_gpu_processes": "",
    "memory_snapshot": [],
    "memory_summary": "",
}
ACCELERATOR_NONES = "empty_cache reset_accumulated_memory_stats reset_peak_memory_stats set_stream synchronize"
ACCELERATOR_ZEROS = "max_memory_allocated max_memory_reserved memory_allocated memory_reserved"
ACCELERATOR_ANSWERS: dict[str, object] = {
    **dict.fromkeys(ACCELERATOR_NONES.split()),
    **dict.fromkeys(ACCELERATOR_ZEROS.split(), 0),
    "is_available": True,
}


def let_cuda_mean_cpu(value: str, environment: MutableMapping[str, str] = os.environ) -> str:
    """Have programs see CUDA devices that all are the CPU, and return a sentence that says so.

    `value` is "cpu", for as many devices as this machine has ranks, or "cpu:4". Processes that this one starts do so
    too. Raises ValueError for another value.
    """
    kind, colon, number = value.partition(":")
    if kind != "cpu" or (colon and not (number.isdecimal() and int(number))):
        raise ValueError(f"--cuda={value}: cpu, or cpu and a number of devices, such as cpu:4")
    environment[VARIABLE] = value
    cuda_devices.count = int(number) if colon else read_local_size(environment) or 1
    vars(import_module("adjoint.compat.stubs.devices.cuda")).update(CUDA_NAMES)
    vars(accelerator).update(ACCELERATOR_NAMES)
    count = "one CUDA device" if cuda_devices.count == 1 else f"{cuda_devices.count} CUDA devices"
    return f"--cuda={value}: the program sees {count}, and computes on the CPU"


def follow_parent() -> None:
    """Have CUDA mean the CPU where the process that started this one says so."""
    if VARIABLE in os.environ:
        let_cuda_mean_cpu(os.environ[VARIABLE])


class Stream(NoStream):
    """Stream of a device: what it was given has been carried out."""

    priority: ClassVar[int] = 0
    cuda_stream: ClassVar[int] = 0

    def __init__(self, device: DeviceLike = None, priority: int = 0, **options: object) -> None:
        super().__init__(Device("cuda", device_number(device)))
        self.device_index = self.device.index

    def query(self) -> bool:
        """Return True."""
        return True

    def synchronize(self) -> None:
        """Do nothing: there is nothing to wait for."""

    def wait_stream(self, stream: object) -> None:
        """Do nothing: there is nothing to wait for."""

    def wait_event(self, event: object) -> None:
        """Do nothing: there is nothing to wait for."""

    def record_event(self, event: Event | None = None) -> Event:
        """Note the time in an event, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event


class Event:
    """Mark in a stream, and the time at which it was set."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.seconds: float | None = None

    def record(self, stream: object = None) -> None:
        """Note the time."""
        self.seconds = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between two events. Raises ValueError before both were recorded."""
        if self.seconds is None or end_event.seconds is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event.seconds - self.seconds) * 1e3

    def query(self) -> bool:
        """Return True."""
        return True

    def synchronize(self) -> None:
        """Do nothing: there is nothing to wait for."""

    def wait(self, stream: object = None) -> None:
        """Do nothing: there is nothing to wait for."""


class device(NoStream):
    """Context in which a device is the current one."""

    def __init__(self, device: DeviceLike = None) -> None:
        super().__init__(device)
        self.idx = device_number(device)
        self.prev_idx = -1

    def __enter__(self) -> device:
        self.prev_idx, cuda_devices.current = cuda_devices.current, self.idx
        return self

    def __exit__(self, *error: object) -> None:
        cuda_devices.current = self.prev_idx


def device_number(device: DeviceLike = None) -> int:
    """Return the number of a device: a number, a name, or None for the current one."""
    if isinstance(device, int):
        return device if device >= 0 else cuda_devices.current
    named = None if device is None else Device(device)
    return cuda_devices.current if named is None or named.index is None else named.index


def device_count() -> int:
    """Return the number of devices."""
    return cuda_devices.count


def current_device() -> int:
    """Return the number of the current device."""
    return cuda_devices.current


def set_device(device: DeviceLike) -> None:
    """Make a device the current one."""
    cuda_devices.current = device_number(device)


def current_stream(device: DeviceLike = None) -> Stream:
    """Return the stream of a device."""
    return Stream(device)


def current_accelerator(check_available: bool = False) -> Device:
    """Return the kind of device that programs see."""
    return Device("cuda")


def get_device_name(device: DeviceLike = None) -> str:
    """Return the processor's name."""
    return f"{platform.processor() or platform.machine()} (CPU)"


def get_device_properties(device: DeviceLike = None) -> SimpleNamespace:
    """Return name, memory in bytes and number of processors of this machine."""
    major, minor = CAPABILITY
    return SimpleNamespace(
        name=get_device_name(),
        major=major,
        minor=minor,
        total_memory=mem_get_info()[1],
        multi_processor_count=os.cpu_count() or 1,
    )


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return this machine's free memory and all of it, in bytes."""
    page = os.sysconf("SC_PAGE_SIZE")
    pages = "SC_AVPHYS_PAGES" if sys.platform == "linux" else "SC_PHYS_PAGES"
    return page * os.sysconf(pages), page * os.sysconf("SC_PHYS_PAGES")


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """Return 0 for each name: memory is not counted."""
    return defaultdict(int)


def get_device_rng_state(device: DeviceLike = None) -> Tensor:
    """Return the state of the generator, which all devices share."""
    return get_rng_state()


def set_device_rng_state(new_state: Tensor, device: DeviceLike = None) -> None:
    """Set the state of the generator, which all devices share."""
    set_rng_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """Return the state of the generator once for each device."""
    return [get_rng_state()] * cuda_devices.count


def set_rng_state_all(new_states: Sequence[Tensor]) -> None:
    """Set the state of the generator, the first of those given."""
    set_rng_state(new_states[0])


CUDA_FUNCTIONS = (
    *(Event, Stream, current_device, current_stream, device, device_count, get_device_name, get_device_properties),
    *(get_rng_state_all, mem_get_info, memory_stats, set_device, set_rng_state_all),
)
CUDA_NAMES: dict[str, object] = {
    **constant_functions("adjoint.cuda", CUDA_ANSWERS),
    **{name: getattr(legacy_types, name) for name in legacy_types.__all__ if name.endswith("Tensor")},
    **{function.__name__: function for function in CUDA_FUNCTIONS},
    "default_stream": current_stream,
    "get_rng_state": get_device_rng_state,
    "initial_seed": initial_seed,
    "set_rng_state": set_device_rng_state,
}
ACCELERATOR_NAMES: dict[str, object] = {
    **constant_functions("adjoint.accelerator", ACCELERATOR_ANSWERS),
    **{function.__name__: function for function in (current_accelerator, current_stream, device_count, memory_stats)},
    **dict.fromkeys(("current_device_index", "current_device_idx"), current_device),
    **dict.fromkeys(("set_device_index", "set_device_idx"), set_device),
    "device_index": device,
    "get_memory_info": mem_get_info,
}

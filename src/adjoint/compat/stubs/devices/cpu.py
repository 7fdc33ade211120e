"""`adjoint.cpu`: the CPU as a device."""

from __future__ import annotations

from typing import Any

from adjoint.compat.absent_device import NoStream
from adjoint.compat.stubs.devices import cpu_amp as amp

__all__ = [
    "Stream", "StreamContext", "amp", "current_device", "current_stream", "device_count", "is_available",
    "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream(NoStream):
    """Stream of the CPU, the only one."""


class StreamContext(NoStream):
    """Context of a stream: its block runs unchanged."""

    def __init__(self, stream: Any = None) -> None:
        super().__init__(None)
        self.stream = stream


def is_available() -> bool:
    """Return True."""
    return True


def is_initialized() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1: the CPU is one device."""
    return 1


def current_device() -> str:
    """Return the name of the device."""
    return "cpu"


def set_device(device: object) -> None:
    """Do nothing: there is one device."""


def synchronize(device: object = None) -> None:
    """Do nothing: each call has ended when it returns."""


def current_stream(device: object = None) -> Stream:
    """Return the only stream."""
    return Stream()


def stream(stream: object) -> StreamContext:
    """Return a context that changes nothing."""
    return StreamContext()

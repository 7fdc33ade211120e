"""`adjoint.cpu`: what programs ask of the CPU as a device."""

from __future__ import annotations

from typing import Any

from adjoint.compat.absent_device import NoStream
from adjoint.compat.stubs.devices import cpu_amp as amp

__all__ = [
    "Stream", "StreamContext", "amp", "current_device", "current_stream", "device_count", "is_available",
    "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream(NoStream):
    """The order in which the CPU works: there is one."""


class StreamContext(NoStream):
    """`with stream(s)`: the block runs as without."""

    def __init__(self, stream: Any = None) -> None:
        super().__init__(None)
        self.stream = stream


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1: the CPU is one device."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one device."""


def synchronize(device: Any = None) -> None:
    """Nothing: each call has ended when it returns."""


def current_stream(device: Any = None) -> Stream:
    """The one stream."""
    return Stream()


def stream(stream: Any) -> StreamContext:
    """A block that runs as without."""
    return StreamContext()

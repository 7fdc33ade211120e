"""What programs that compute twice ask of accelerators, of which there are none: their generators' states."""

from __future__ import annotations

from typing import Any


class DefaultDeviceType:
    """The kind of device whose generators `get_device_states` means where no tensor tells: a name that is kept."""

    _kind = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Keep a name."""
        DefaultDeviceType._kind = device

    @staticmethod
    def get_device_type() -> str:
        """The name that was set last, "cuda" at first."""
        return DefaultDeviceType._kind


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The devices other than the CPU on which the tensors among `args` lie, and their generators' states: none."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Nothing: there is no generator but the CPU's. Raises RuntimeError for states of others."""
    if list(devices):
        raise RuntimeError(f"set_device_states: there are no devices {list(devices)}: adjoint computes on the CPU only")

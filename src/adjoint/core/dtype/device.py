"""Devices: tensors live on the CPU; others can be named, as programs do before they ask for one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self

from adjoint.core.runtime.slot import Slot

KINDS = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
    "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
block_slot: Slot[Callable[[bool], AbstractContextManager[object]]] = Slot("block_on")  # of "meta" (True), or of the CPU


class CudaDevices:
    """CUDA devices that programs see: none, or some that all are the CPU (`python -m adjoint.run --cuda=cpu`)."""

    def __init__(self) -> None:
        self.count = self.current = 0

    def has(self, kind: str) -> bool:
        """Return whether the kind means CUDA devices, and programs see some."""
        return self.count > 0 and kind == "cuda"


cuda_devices = CudaDevices()


class DeviceError(RuntimeError, AssertionError):
    """A device that is not available. PyTorch raises one base class or the other, depending on the call."""


class device:
    """A device by its name: `adjoint.device("cpu")`, `device(type="cuda", index=1)`. Tensors are on the CPU only.

    "meta" holds tensors without values; in a `with` block of it, factories make such tensors. A number names an
    accelerator. Where CUDA means the CPU, its devices keep their names, and equal the CPU. Raises RuntimeError for a
    kind that PyTorch does not know, DeviceError for a number without an accelerator.
    """

    __slots__ = ("_blocks", "index", "type")
    type: str
    index: int | None
    _blocks: list[AbstractContextManager[object]]

    def __init__(self, spec: device | str | int = "cpu", index: int | None = None, *, type: str | None = None) -> None:
        self._blocks = []
        spec = spec if type is None else type
        if isinstance(spec, device):
            self.type, self.index = spec.type, spec.index
            return
        if isinstance(spec, int) and cuda_devices.count and index is None:
            index, spec = spec, "cuda"
        if isinstance(spec, int):
            raise DeviceError(f"device({spec}): there is no accelerator: adjoint computes on the CPU only")
        if not isinstance(spec, str):
            raise TypeError(f"device expects a name such as 'cpu', got {spec.__class__.__name__}")
        kind, colon, number = spec.partition(":")
        if kind not in KINDS:
            raise RuntimeError(f"Expected one of {', '.join(KINDS)} device type at start of device string: {kind}")
        if colon and (not number.isdecimal() or index is not None):
            raise RuntimeError(f"Invalid device string: {spec!r}")
        if index is not None and not isinstance(index, int):
            raise TypeError(f"device index must be an int, got {index.__class__.__name__}")
        if index is not None and index < 0:
            raise RuntimeError(f"Device index must not be negative, got {index}")
        self.type, self.index = kind, int(number) if colon else index

    def __enter__(self) -> Self:
        block = block_slot.call(is_meta(self))
        block.__enter__()
        self._blocks.append(block)
        return self

    def __exit__(self, *error: Any) -> None:
        self._blocks.pop().__exit__(*error)

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self._place() == other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def _place(self) -> tuple[str, int | None]:
        return ("cpu", None) if cuda_devices.has(self.type) else (self.type, self.index)


def require_cpu(spec: device | str | int | None) -> None:
    """Check that a device is the CPU, or means it, or None. Raises DeviceError for another device."""
    if spec is None:
        return
    named = spec if isinstance(spec, device) else device(spec)
    if named.type != "cpu" and not cuda_devices.has(named.type):
        raise DeviceError(f"device '{named}': adjoint computes on the CPU only; pass device='cpu'")


def is_meta(spec: device | str | int | None) -> bool:
    """Return whether `spec` is the device "meta". Raises DeviceError for one that is not available."""
    if spec is None or spec is CPU:
        return False
    named = spec if isinstance(spec, device) else device(spec)
    if named.type != "meta":
        require_cpu(named)
    return named.type == "meta"


CPU = device()
META = device("meta")

"""Protocols of other libraries that a tensor implements: NumPy's, the array API standard's, DLPack's.

`adjoint.interop` has the implementations; it is imported on the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from adjoint.core.dtype.device import require_cpu
from adjoint.core.runtime.slot import Slot
from adjoint.core.typing import DeviceLike, Function

import_handlers: Slot[Callable[[], Any]] = Slot("answers")  # imports the module that has them


class InteropHandlers:
    """The module with the implementations, imported on the first call."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: Any = None

    def __call__(self) -> Any:
        """Return the module with the implementations."""
        if self.found is None:
            self.found = import_handlers.call()
        return self.found


interop_handlers = InteropHandlers()


class ProtocolMethods:
    """The part of a tensor that other libraries call."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Function, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Implement `np.sin(tensor)` and other ufuncs differentiably. Raises TypeError if a gradient would be lost."""
        return interop_handlers().ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Function, types: tuple[type, ...], args: Any, kwargs: Any) -> Any:
        """Implement `np.concatenate([tensor, …])` and other functions differentiably.

        Raises TypeError if a gradient would be lost.
        """
        return interop_handlers().function(function, types, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return `adjoint.array_api`, the functions of the array API standard. Raises ValueError for other versions."""
        return interop_handlers().namespace(api_version)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule over this memory. Raises BufferError for a tensor that requires grad, or another device."""
        return interop_handlers().export_capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return (1, 0), which means the CPU."""
        return (1, 0)

    def to_device(self, device: DeviceLike, /, *, stream: Any = None) -> Self:
        """Return the tensor itself, which is on the CPU. Raises RuntimeError for other devices."""
        require_cpu(device)
        return self

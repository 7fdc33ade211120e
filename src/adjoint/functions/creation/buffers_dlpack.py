"""Memory shared with others: DLPack both ways, and whatever has a buffer."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np

from adjoint.core.dtype.device import require_cpu
from adjoint.core.dtype.dtype import default, numpy_dtype
from adjoint.core.tensor.construction import as_array
from adjoint.core.tensor.external_aliases import export_array, import_array
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import DeviceLike, DtypeLike, Operand

__all__ = ["from_dlpack", "from_file", "frombuffer"]

DLPACK_CPU_DEVICE = (1, 0)  # DLPack's device type of the CPU, and its only one


def from_dlpack(ext_tensor: Any, *, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    """Return a tensor over the memory of whatever speaks DLPack, or that a capsule holds: each sees the other's writes.

    `copy=True` copies.

    Raises: BufferError for memory that is not the CPU's; TypeError for elements that no tensor can have; ValueError if
    sharing is impossible and `copy` is False.
    """
    require_cpu(device)
    bare = not hasattr(ext_tensor, "__dlpack__")
    exporter: Any = _Capsule(ext_tensor) if bare else ext_tensor
    given = np.from_dlpack(exporter)
    if bare and not given.flags.writeable and given.size:
        given = np.asarray(_WritableArray(given))
    array = as_array(given)
    shared = array is given
    if copy is False and not shared:
        raise ValueError("from_dlpack: elements of this type or order cannot be shared without a copy")
    if copy and shared:
        array, shared = array.copy(), False
    out = constant(array)
    if shared:
        import_array(out, given)
    return out


class _Capsule:
    """Something with DLPack's methods around a bare capsule."""

    def __init__(self, capsule: object) -> None:
        if type(capsule).__name__ != "PyCapsule":
            raise TypeError(f"from_dlpack: expected a tensor that speaks DLPack, got {type(capsule).__name__}")
        self.capsule = capsule

    def __dlpack__(self, **_: object) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK_CPU_DEVICE


class _WritableArray:
    """The memory of an array that NumPy takes to be read-only, for an old capsule does not tell."""

    def __init__(self, array: Operand) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}


def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule over the memory of a tensor. Raises BufferError for one that requires grad."""
    return export_capsule(tensor, None, None, None, None)


def export_capsule(
    tensor: Tensor,
    stream: int | None,
    max_version: tuple[int, int] | None,
    place: tuple[int, ...] | None,
    copy: bool | None,
) -> Any:
    """Return what `__dlpack__` returns; a copy if `copy` is true."""
    if stream is not None:
        raise BufferError(f"the CPU has no streams, but stream={stream!r} was given")
    if place is not None and tuple(place) != DLPACK_CPU_DEVICE:
        raise BufferError(f"adjoint computes on the CPU only, but device {place} was asked for")
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    array = tensor.numpy_view("__dlpack__()")
    if array.dtype.kind == "V":
        raise BufferError(f"NumPy, which makes the capsule, has no type for {tensor.dtype}")
    handed = array.copy() if copy else export_array(tensor)
    return handed.__dlpack__(max_version=max_version)


def frombuffer(
    buffer: Any, *, dtype: DtypeLike, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Return `count` elements of a buffer from byte `offset` on, or all there are: a vector over its memory.

    Raises ValueError where the buffer is too short.
    """
    kind = numpy_dtype(dtype)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    size = view.nbytes
    if count == 0 or count < -1:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < max(size, 1):
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1"
        )
    if size == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if count < 0 and (size - offset) % kind.itemsize:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({kind.itemsize})"
        )
    if count > 0 and offset + count * kind.itemsize > size:
        raise ValueError(
            f"requested buffer length ({count} * {kind.itemsize} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({size} bytes)"
        )
    given = np.frombuffer(buffer, kind, count, offset)
    out = constant(given)
    if given.flags.writeable:
        import_array(out, given)
    return out.requires_grad_() if requires_grad else out


def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return the first `size` elements of a file, mapped into memory: read as they are needed.

    Writes go into the file if `shared`, which makes it, or makes it longer, if it must; else they stay in memory.
    Raises RuntimeError for a file that cannot be opened or is too short.
    """
    require_cpu(device)
    kind = default.floating.numpy if dtype is None else numpy_dtype(dtype)
    needed = size * kind.itemsize
    if size < 0:
        raise RuntimeError(f"unable to mmap {needed} bytes from file <{filename}>")
    mode: Literal["r+", "c"] = "r+" if shared else "c"
    try:
        if shared and (not os.path.exists(filename) or os.path.getsize(filename) < needed):
            with open(filename, "ab") as file:
                file.truncate(needed)
        have = os.path.getsize(filename)
    except OSError as error:
        how = "read-write" if shared else "read-only"
        raise RuntimeError(
            f"unable to open file <{filename}> in {how} mode: {error.strerror} ({error.errno})"
        ) from error
    if have < needed:
        raise RuntimeError(f"file <{filename}> size <{have}> is smaller than the required mapping size <{needed}>")
    mapped = np.memmap(filename, kind, mode, shape=(size,)) if size else np.empty(0, kind)
    given = np.asarray(mapped)
    out = constant(given)
    import_array(out, given)
    return out.requires_grad_() if requires_grad else out

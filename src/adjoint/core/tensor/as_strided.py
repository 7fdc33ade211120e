"""Arrays of any strides over the memory of another, overlapping ones included, which NumPy's views cannot express."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.typing import Array, Operand

ndarray = np.ndarray
Sizes = tuple[int, ...]
MAY_REFUSE_TO_COPY = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)  # `reshape(…, copy=False)`


class StridedInterface:
    """The array interface of a strided view. It keeps the array alive whose memory it sees, and is its `base`."""

    __slots__ = ("__array_interface__", "base")

    def __init__(self, base: Operand, kind: str, address: int, shape: Sizes, strides: Sizes) -> None:
        self.base = base
        self.__array_interface__ = {
            "version": 3,
            "typestr": kind,
            "shape": shape,
            "strides": strides,
            "data": (address, not base.flags.writeable),
        }


def owner(array: Operand) -> Operand:
    """Return the array that owns the memory of `array`."""
    while True:
        base = getattr(array, "base", None)
        if base is None:
            return array
        if type(base) is ndarray:
            array = base
        elif type(base) is StridedInterface:
            array = base.base
        elif type(base) is memoryview and isinstance(base.obj, np.ndarray):
            array = base.obj
        else:
            return array


def fills_memory(array: Array) -> bool:
    """Return whether the elements, in row-major order, are all that their memory holds."""
    return bool(array.flags.c_contiguous) and owner(array).nbytes == array.nbytes


def address(array: Array) -> int:
    """Return the address of the first element."""
    return array.__array_interface__["data"][0]


def offset(array: Array) -> int:
    """Return the number of elements before the first one in the memory of which it is a view."""
    return (address(array) - address(owner(array))) // array.dtype.itemsize


def element_strides(array: Array) -> Sizes:
    """Return the strides in elements."""
    size = array.dtype.itemsize
    return tuple([s // size for s in array.strides])


def _has_same_strides(x: Array, y: Array) -> bool:
    """Return whether x has the strides of y, of the same shape, in each dimension of more than one element."""
    return all(a == b for n, a, b in zip(x.shape, element_strides(x), element_strides(y), strict=True) if n > 1)


def strided_view(array: Array, shape: Sizes, strides: Sizes, start: int) -> Array:
    """Return a view of the memory of `array`; `strides`, and `start` from its first element, are in elements."""
    if 0 in shape:
        return array.reshape(-1)[:0].reshape(shape)
    memory, kind = owner(array), array.dtype
    at = address(memory) + start * kind.itemsize
    seen = np.asarray(StridedInterface(memory, kind.str, at, shape, tuple(s * kind.itemsize for s in strides)))
    return seen.view(kind) if kind.kind == "V" else seen  # the interface does not tell bfloat16


def try_view(array: Array, shape: Sizes) -> Operand:
    """Return a view of the array under another shape; None if its strides do not allow one."""
    try:
        if MAY_REFUSE_TO_COPY:
            return array.reshape(shape, copy=False)
        seen = array.view()
        seen.shape = shape
    except (AttributeError, ValueError):
        return None
    return seen


def as_writable(array: Array) -> Array:
    """Return the view without NumPy's write lock on repeated elements; `array` itself if its memory is read-only."""
    memory = owner(array)
    if array.flags.writeable or type(memory) is not np.ndarray or not memory.flags.writeable:
        return array
    return strided_view(array, array.shape, element_strides(array), offset(array))


def memory_span(shape: Sizes, strides: Sizes, start: int) -> int:
    """Return the number of elements of memory that a view spans."""
    return 0 if 0 in shape else start + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1


def dense_strides(shape: Sizes) -> Sizes:
    """Return the strides, in elements, of an array in row-major order."""
    strides, step = [1] * len(shape), 1
    for i in range(len(shape) - 1, -1, -1):
        strides[i] = step
        step *= max(shape[i], 1)
    return tuple(strides)


def match_stride_order(g: Array, like: Array) -> Array:
    """Return `g` in the memory order of `like`; in row-major order if that has gaps."""
    if g.strides == like.strides or (g.flags.c_contiguous and like.flags.c_contiguous):
        return g
    room = np.empty_like(like, g.dtype)
    if not _has_same_strides(room, like):
        room = np.empty(g.shape, g.dtype)
    if _has_same_strides(g, room):
        return g
    room[...] = g
    return room


def element_positions(shape: Sizes, strides: Sizes, start: int) -> Array:
    """Return the place in memory of each element of a view."""
    out = np.full(shape, start, np.int64)
    for d, (n, s) in enumerate(zip(shape, strides, strict=True)):
        out += (np.arange(n) * s).reshape((n,) + (1,) * (len(shape) - d - 1))
    return out


def copy_keeping_strides(array: Array, memo: dict[int, Any]) -> Array:
    """Copy `array` with its strides; views of one memory share a copy, which `memo` of `copy.deepcopy` keeps."""
    memory = owner(array)
    if type(memory) is not np.ndarray or not memory.flags.forc:
        return array.copy(order="K")
    copy = memo.get(id(memory))
    if copy is None:
        copy = memo[id(memory)] = memory.copy(order="K")
        memo.setdefault(id(memo), []).append(memory)  # which keeps its id from being given to another
    if array is memory and copy.shape == array.shape:
        return copy
    return np.ndarray(array.shape, array.dtype, copy, address(array) - address(memory), array.strides)

"""An array of any strides over the memory of another: what NumPy's own views cannot say, overlapping ones too."""

from __future__ import annotations

from typing import Any

import numpy as np

Sizes = tuple[int, ...]
MAY_REFUSE_TO_COPY = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)  # `reshape(…, copy=False)`


class StridedInterface:
    """Keeps the array whose memory it is alive; `base` leads on to that array, as an array's own `base` does."""

    __slots__ = ("__array_interface__", "base")

    def __init__(self, base: Any, kind: str, address: int, shape: Sizes, strides: Sizes) -> None:
        self.base = base
        self.__array_interface__ = {
            "version": 3, "typestr": kind, "shape": shape, "strides": strides,
            "data": (address, not base.flags.writeable),
        }  # fmt: skip


def owner(array: Any) -> Any:
    """The array whose memory `array` is, or is a view of."""
    while True:
        base: Any = getattr(array, "base", None)
        if type(base) is np.ndarray:
            array = base
        elif type(base) is StridedInterface:
            array = base.base
        elif type(base) is memoryview and isinstance(base.obj, np.ndarray):
            array = base.obj
        else:
            return array


def address(array: Any) -> int:
    """Where the first element lies."""
    found: int = array.__array_interface__["data"][0]
    return found


def offset(array: Any) -> int:
    """How many elements lie before the first one in the memory that it is a view of."""
    return (address(array) - address(owner(array))) // array.dtype.itemsize


def element_strides(array: Any) -> Sizes:
    """The strides in elements."""
    size = array.dtype.itemsize
    return tuple(s // size for s in array.strides)


def _has_same_strides(x: Any, y: Any) -> bool:
    """True if x has the strides of y, an array of the same shape, wherever there is more than one element."""
    return all(a == b for n, a, b in zip(x.shape, element_strides(x), element_strides(y), strict=True) if n > 1)


def strided_view(array: Any, shape: Sizes, strides: Sizes, start: int) -> Any:
    """A view of the memory in which `array` lies; `strides`, and `start` from that memory's first, in elements."""
    if 0 in shape:
        return array.reshape(-1)[:0].reshape(shape)
    memory, kind = owner(array), array.dtype
    at = address(memory) + start * kind.itemsize
    seen = np.asarray(StridedInterface(memory, kind.str, at, shape, tuple(s * kind.itemsize for s in strides)))
    return seen.view(kind) if kind.kind == "V" else seen  # the interface does not tell bfloat16


def try_view(array: Any, shape: Sizes) -> Any:
    """The array under another shape, as a view; None if its strides do not allow that."""
    try:
        if MAY_REFUSE_TO_COPY:
            return array.reshape(shape, copy=False)
        seen = array.view()
        seen.shape = shape
    except (AttributeError, ValueError):
        return None
    return seen


def as_writable(array: Any) -> Any:
    """The same view without the lock that NumPy puts on repeated elements; `array` itself if its memory has one."""
    memory = owner(array)
    if array.flags.writeable or type(memory) is not np.ndarray or not memory.flags.writeable:
        return array
    return strided_view(array, array.shape, element_strides(array), offset(array))


def memory_span(shape: Sizes, strides: Sizes, start: int) -> int:
    """How many elements of memory, from its first, a view needs."""
    return 0 if 0 in shape else start + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1


def dense_strides(shape: Sizes) -> Sizes:
    """The strides of an array in row-major order, in elements."""
    strides, step = [1] * len(shape), 1
    for i in range(len(shape) - 1, -1, -1):
        strides[i] = step
        step *= max(shape[i], 1)
    return tuple(strides)


def match_stride_order(g: Any, like: Any) -> Any:
    """The array `g` in the order in which `like` fills its memory; in row-major order where that leaves gaps."""
    if g.strides == like.strides or (g.flags.c_contiguous and like.flags.c_contiguous):
        return g
    room = np.empty_like(like, g.dtype)
    if not _has_same_strides(room, like):
        room = np.empty(g.shape, g.dtype)
    if _has_same_strides(g, room):
        return g
    room[...] = g
    return room


def element_positions(shape: Sizes, strides: Sizes, start: int) -> Any:
    """For each element of a view its place in memory."""
    out = np.full(shape, start, np.int64)
    for d, (n, s) in enumerate(zip(shape, strides, strict=True)):
        out += (np.arange(n) * s).reshape((n,) + (1,) * (len(shape) - d - 1))
    return out


def copy_keeping_strides(array: Any, memo: dict[int, Any]) -> Any:
    """`array` over a copy of its memory, which is made once for all that `memo`, that of `copy.deepcopy`, goes with."""
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

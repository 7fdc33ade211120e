"""In-place writes: into which memory, when in the order of the nodes, and from which line.

A node keeps bare arrays, and nothing is noted when it does. A write is noted instead, so that backward can tell whether
what a node kept was written after the node was made.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from adjoint.core.node import tick
from adjoint.core.site import Site

ndarray = np.ndarray


class Write:
    """The last write into some memory: after which nodes, and from where."""

    __slots__ = ("memory", "order", "site")

    def __init__(self, memory: weakref.ref[Any]) -> None:
        self.memory = memory
        self.order = -1
        self.site: Site | None = None


class Writes:
    """The last write into each memory that is still alive, by the id of the array that owns it."""

    __slots__ = ("by_memory", "last")

    def __init__(self) -> None:
        self.last = -1  # nodes of a higher order have nothing to look up
        self.by_memory: dict[int, Write] = {}

    def record(self, array: Any, site: Site | None, order: int | None = None) -> None:
        """Note that `array` is written now, or was written when the order was `order`."""
        self.stamp((self.of(array),), site, order)

    def of(self, array: Any) -> Write:
        """The entry for the memory of `array`, for those who write it again and again."""
        memory = owner(array)
        key = id(memory)
        write = self.by_memory.get(key)
        if write is None:
            write = self.by_memory[key] = Write(weakref.ref(memory, lambda _: self.by_memory.pop(key, None)))
        return write

    def stamp(self, entries: Iterable[Write], site: Site | None, order: int | None = None) -> None:
        """Note that these memories are written now, or were written when the order was `order`."""
        order = tick() if order is None else order
        self.last = max(self.last, order)
        for write in entries:
            write.order = order
            write.site = site

    def since(self, array: Any, order: int) -> Write | None:
        """The last write into the memory of `array`, if it came after `order`."""
        write = self.by_memory.get(id(owner(array)))
        return write if write is not None and write.order > order else None


writes = Writes()


def owner(array: Any) -> Any:
    """The array whose memory `array` is, or is a view of."""
    while type(getattr(array, "base", None)) is ndarray:
        array = array.base
    return array


def check_unwritten(array: Any, node: Any) -> None:
    """Raise RuntimeError, naming both lines, if `array`, which `node` keeps, was written in place since."""
    write = writes.since(array, node.order)
    if write is not None:
        at = f"It was written at {write.site}" if write.site is not None else "backward() accumulated a gradient in it"
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor "
            f"of shape {list(array.shape)} which {node.name()} saved at {node.site}. {at}; clone() it first, or use "
            "the op without the trailing underscore."
        )

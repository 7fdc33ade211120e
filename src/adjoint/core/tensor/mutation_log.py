"""The log of in-place writes: the memory, the sequence number of the next node, and the line.

Saving a value costs nothing: a node has bare arrays. Writes are logged instead, so that backward can tell whether
a saved array was written after the node was made.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from adjoint.core.graph.node import GraphNode, next_sequence_nr
from adjoint.core.graph.source_location import InstructionLocation, Site, site_of
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.as_strided import owner
from adjoint.core.typing import Array, Operand

__all__ = ["MutationLog", "Write", "check_version", "mutation_log", "owner"]


class Checksum:
    """The checksum of an array at the time when NumPy code got access, which may write it unnoticed."""

    __slots__ = ("array", "sequence_nr", "site", "sum")

    def __init__(self, array: Operand, site: Site) -> None:
        self.array = array
        self.sequence_nr = next_sequence_nr()
        self.site = site
        self.sum = _checksum(array)

    def has_changed(self) -> bool:
        """Return whether the array has changed since."""
        return _checksum(self.array) != self.sum


def _checksum(array: Array) -> int:
    from zlib import crc32  # few programs need it

    contiguous: Any = np.ascontiguousarray(array)
    return crc32(contiguous)


class WrittenRegion:
    """A region of memory that was written, and when: an array's address and strides, without the array."""

    __slots__ = ("__array_interface__", "sequence_nr")

    def __init__(self, array: Operand, sequence_nr: int) -> None:
        self.sequence_nr = sequence_nr
        self.__array_interface__ = {**array.__array_interface__, "strides": array.strides}

    def overlaps(self, array: Array) -> bool:
        """Return whether `array` has an element there, or may have one: the exact test can be expensive."""
        exactly: Any = np.may_share_memory
        return bool(exactly(np.asarray(self), array, max_work=1000))


MAX_TRACKED_REGIONS = 64  # parts from which on a memory counts as written all over


class Write:
    """The last write into some memory: when and from which line; `outside`: by NumPy code that had access.

    `checksums`: of the arrays by which NumPy code might write it now. `parts`: what was written since
    `last_full_write`, if the last of them is the last write.
    """

    __slots__ = ("last_full_write", "memory", "sequence_nr", "outside", "parts", "place", "checksums")

    def __init__(self, memory: weakref.ref[Any]) -> None:
        self.memory = memory
        self.sequence_nr = -1
        self.place: Site | InstructionLocation | None = None
        self.outside = False
        self.checksums: tuple[Checksum, ...] = ()
        self.parts: list[WrittenRegion] = []
        self.last_full_write = -1

    def leaves_untouched(self, array: Operand, sequence_nr: int) -> bool:
        """Return whether all writes since `sequence_nr` are known, and none of them touches `array`."""
        known = (
            self.last_full_write <= sequence_nr and bool(self.parts) and self.parts[-1].sequence_nr == self.sequence_nr
        )
        return known and not any(part.sequence_nr > sequence_nr and part.overlaps(array) for part in self.parts)

    @property
    def site(self) -> Site | None:
        """The user's line; None for a write by the library itself."""
        return self.place if self.place is None or isinstance(self.place, Site) else site_of(*self.place)

    @site.setter
    def site(self, site: Site | None) -> None:
        self.place = site


class MutationLog:
    """The last write into each live memory, by the id of the array that owns it."""

    __slots__ = ("by_memory", "last")

    def __init__(self) -> None:
        self.last = -1  # nodes of a higher order have nothing to look up
        self.by_memory: dict[int, Write] = {}

    def record(self, array: Operand, site: Site | InstructionLocation | None, sequence_nr: int | None = None) -> None:
        """Record a write into `array` now, or at the sequence number `sequence_nr`."""
        write = self.by_memory.get(id(array)) or self.of(array)  # most arrays own their memory
        write.sequence_nr = sequence_nr = next_sequence_nr() if sequence_nr is None else sequence_nr
        write.place, write.outside = site, False
        if sequence_nr > self.last:  # noqa: PLR1730  half the time of max(…)
            self.last = sequence_nr

    def record_part(self, array: Array, site: Site | InstructionLocation | None) -> None:
        """Record a write now that touches only `array`, not the rest of its memory."""
        write = self.of(array)
        if (
            not write.parts
            or write.parts[-1].sequence_nr != write.sequence_nr
            or len(write.parts) == MAX_TRACKED_REGIONS
        ):
            write.parts, write.last_full_write = [], write.sequence_nr
        self.stamp((write,), site)
        write.parts.append(WrittenRegion(array, write.sequence_nr))

    def of(self, array: Operand) -> Write:
        """Return the entry of the memory of `array`, for repeated writes."""
        memory = array if type(array) is np.ndarray and array.base is None else owner(array)
        key = id(memory)
        write = self.by_memory.get(key)
        if write is None:
            write = self.by_memory[key] = Write(weakref.ref(memory, lambda _: self.by_memory.pop(key, None)))
        return write

    def stamp(
        self, entries: Iterable[Write], site: Site | InstructionLocation | None, sequence_nr: int | None = None
    ) -> None:
        """Record a write into these memories now, or at the sequence number `sequence_nr`."""
        sequence_nr = next_sequence_nr() if sequence_nr is None else sequence_nr
        if sequence_nr > self.last:  # noqa: PLR1730  half the time of max(…)
            self.last = sequence_nr
        for write in entries:
            write.sequence_nr = sequence_nr
            write.place = site
            write.outside = False

    def take_checksum(self, array: Array, site: Site) -> Checksum:
        """Take the checksum of `array`, to which NumPy code gets access at `site`."""
        seal = Checksum(array, site)
        write = self.of(array)
        write.checksums = (*write.checksums, seal)
        self.last = max(self.last, seal.sequence_nr)
        return seal

    def drop_checksum(self, seal: Checksum) -> None:
        """Record whether NumPy code, whose access has ended, has written."""
        write = self.of(seal.array)
        write.checksums = tuple(s for s in write.checksums if s is not seal)
        if seal.sequence_nr > write.sequence_nr and seal.has_changed():
            write.sequence_nr, write.site, write.outside = seal.sequence_nr, seal.site, True

    def last_write_after(self, array: Operand, sequence_nr: int) -> Write | None:
        """Return the last write into the memory of `array` if it came after `sequence_nr`."""
        write = self.by_memory.get(id(owner(array)))
        if write is None:
            return None
        for seal in write.checksums:
            if seal.sequence_nr > max(sequence_nr, write.sequence_nr) and seal.has_changed():
                write.sequence_nr, write.site, write.outside = seal.sequence_nr, seal.site, True
        return write if write.sequence_nr > sequence_nr and not write.leaves_untouched(array, sequence_nr) else None


mutation_log = MutationLog()


def check_version(array: Operand, node: GraphNode) -> None:
    """Raise RuntimeError, naming both lines, if `array`, which `node` saved, was written in place since."""
    held = array if type(array) is np.ndarray or mode.interpreter is None else mode.interpreter.memory_stand_in(array)
    write = mutation_log.last_write_after(held, node.sequence_nr)
    if write is None:
        return
    if write.outside:
        how = f"It was written through NumPy, by the array that got its memory at {write.site}; copy() that array"
    elif write.site is None:
        how = "backward() accumulated a gradient in it; clone() it first"
    else:
        how = f"It was written at {write.site}; clone() it first, or use the op without the trailing underscore"
    raise RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor "
        f"of shape {list(array.shape)} which {node.name()} saved at {node.site}. {how}."
    )

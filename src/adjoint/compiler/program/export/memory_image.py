"""The memory of an exported step: each value lies in it as it does in this process, relative to its neighbours.

Arrays that share bytes here share them there: what the arena uses twice, tied weights, what is written over what it
replaces. Captured tensors, constants, settings and generators come first, with what they hold; the rest begins as
zeros, and is in no file.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from adjoint.compiler.ir.graph import Constant, Setting, StateInput, Value
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.passes.memory_plan import ALIGNMENT
from adjoint.compiler.program.buffer_binding import Binding
from adjoint.core.typing import Array

HELD_SOURCES = (StateInput, Constant, Setting)  # inputs that the memory holds from the beginning


class ByteRange(NamedTuple):
    """Bytes of this process, up to `end`, and where they begin in the exported memory; `held` if they are kept."""

    start: int
    end: int
    held: bool
    offset: int = 0


class MemoryImage:
    """Offsets of values, and the bytes that the memory begins with."""

    def __init__(self, binding: Binding, kernels: list[Kernel]) -> None:
        self.binding = binding
        self._arrays = {v: buffer.array for v, buffer in binding.buffers.items()}
        for v, name in binding.local_names.items():
            if isinstance(v.source, StateInput):  # found anew by each call: whatever is of this name lies there
                moved = v.source.locate().array
                self._arrays.update((x, moved) for x, other in binding.local_names.items() if other == name)
        for v in binding.copies_in:  # as a call does before it begins
            np.copyto(self._arrays[v], v.source.locate().array)
        for v in binding.graph.inputs_of_kind(Setting):
            self._arrays[v][...] = v.source.read()
        self._generators = {id(k.generator): k.generator.memory() for k in kernels if k.generator is not None}
        self._ranges = _merge_ranges(self._byte_ranges())
        self.held_bytes = self.size = 0
        self._place_ranges()
        self._local_offsets: dict[str, int] = {}
        for v, name in binding.local_names.items():
            if v not in self._arrays and name not in self._local_offsets:
                self._local_offsets[name] = self.reserve(v.nbytes)
        self.scratch = self.reserve(max((k.scratch for k in kernels), default=0))

    def _byte_ranges(self) -> list[ByteRange]:
        memories = [(array, isinstance(v.source, HELD_SOURCES)) for v, array in self._arrays.items()]
        memories += [(memory, True) for memory in self._generators.values()]
        bounds = [(*byte_bounds(array), held) for array, held in memories]
        return [ByteRange(low, max(high, low + 1), held) for low, high, held in bounds]

    def _place_ranges(self) -> None:
        """Give each range its place, those that are kept before the others."""
        kept, zeros = ([each for each in self._ranges if each.held is held] for held in (True, False))
        kept = [each._replace(offset=self.reserve(each.end - each.start)) for each in kept]
        self.held_bytes = self.size
        self._ranges = kept + [each._replace(offset=self.reserve(each.end - each.start)) for each in zeros]

    def reserve(self, nbytes: int) -> int:
        """Return where so many more bytes lie."""
        offset = -(-self.size // ALIGNMENT) * ALIGNMENT
        self.size = offset + max(nbytes, 1)
        return offset

    def offset_of(self, v: Value) -> int:
        """Return where a value's first element lies."""
        if v in self._arrays:
            return self._offset_of_address(self._arrays[v].ctypes.data)
        return self._local_offsets[self.binding.local_names[v]]

    def offset_of_generator(self, kernel: Kernel) -> int:
        """Return where the state of a kernel's generator lies."""
        return self._offset_of_address(self._generators[id(kernel.generator)].ctypes.data)

    def generators(self) -> list[tuple[int, Array]]:
        """Return the states of the generators, with their offsets."""
        return [(self._offset_of_address(memory.ctypes.data), memory) for memory in self._generators.values()]

    def _offset_of_address(self, address: int) -> int:
        each = next(each for each in self._ranges if each.start <= address < each.end)
        return each.offset + address - each.start

    def held_content(self) -> bytes:
        """The bytes that the memory begins with."""
        content = bytearray(self.held_bytes)
        held = [array for v, array in self._arrays.items() if isinstance(v.source, HELD_SOURCES)]
        for array in (*held, *self._generators.values()):
            low, high = byte_bounds(array)
            at = self._offset_of_address(low) if array.size else 0
            content[at : at + high - low] = ctypes.string_at(low, high - low)
        return bytes(content)


def _merge_ranges(ranges: list[ByteRange]) -> list[ByteRange]:
    """Join the ranges that share bytes."""
    merged: list[ByteRange] = []
    for each in sorted(ranges):
        if merged and each.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = ByteRange(last.start, max(last.end, each.end), last.held or each.held)
        else:
            merged.append(each)
    return merged

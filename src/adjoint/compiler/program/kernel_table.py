"""The table that a kernel reads: where its arguments lie, its numbers, and the sizes of the call."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.symbolic_size import SizeRelations, has_symbols, size_value
from adjoint.compiler.kernels.kernel import Kernel


class KernelTable:
    """Rows of eight bytes, as `Kernel` describes them, from `address` on.

    Where the program has symbols, their values lie in front of that, the last one first, and in front of these the
    number of tiles.
    """

    __slots__ = ("_all_rows", "_rows", "_sizes", "address", "kernel")

    def __init__(self, kernel: Kernel, sizes: SizeRelations) -> None:
        self.kernel, self._sizes = kernel, sizes
        count = kernel.first + len(kernel.arguments) + 1 + len(kernel.numbers)
        lead = len(sizes.values) + 1 if sizes.values else 0
        self._all_rows = array_type(ctypes.c_void_p, lead + count)()
        self._rows = array_type(ctypes.c_void_p, count).from_buffer(self._all_rows, 8 * lead)
        self.address = ctypes.addressof(self._rows)

    @property
    def tiles(self) -> int:
        """The number of tiles for the native call; of a symbolic one the row that holds it."""
        return -1 - len(self._sizes.values) if has_symbols(self.kernel.tiles) else self.kernel.tiles

    def fill(self, addresses: Mapping[Value, int], scratch: int) -> None:
        """Write the addresses of arguments, as far as they are known, of scratch memory, and all numbers."""
        kernel, rows = self.kernel, self._rows
        for i, v in enumerate(kernel.arguments, kernel.first):
            if v in addresses:
                rows[i] = addresses[v]
        at = kernel.first + len(kernel.arguments)
        if kernel.scratch:
            rows[at] = scratch
        for i, number in enumerate(kernel.numbers, at + bool(kernel.scratch)):
            rows[i] = size_value(number)
        if kernel.generator is not None:
            rows[0] = kernel.generator.memory().ctypes.data
        self.fill_symbols()

    def fill_symbols(self) -> None:
        """Write the sizes of this call, and the numbers that follow from them."""
        kernel, values = self.kernel, self._sizes.values
        if not values:
            return
        self._all_rows[: len(values) + 1] = [size_value(kernel.tiles), *[*values.values()][::-1]]
        at = kernel.first + len(kernel.arguments) + bool(kernel.scratch)
        for i, number in enumerate(kernel.numbers, at):
            if has_symbols(number):
                self._rows[i] = size_value(number)


@lru_cache(256)
def array_type(kind: Any, count: int) -> Any:
    """Return the type of an array in C, found once: types are cycles, which wait for the collector."""
    return kind * count

"""The tables that kernels read: where their arguments lie, their numbers, and the sizes of the call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView, apply_view
from adjoint.compiler.ir.symbolic_size import SizeRelations, has_symbols, size_value
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.core.typing import Array, Operand

MAX_KEPT_SIZES = 64  # combinations of sizes for which what follows from them is kept


class KernelTable:
    """Rows of eight bytes, as `Kernel` describes them, from `address` on.

    Where the program has symbols, their values lie in front of that, the last one first, and in front of these the
    number of tiles.
    """

    __slots__ = ("_lead", "_rows", "_symbols", "address", "count", "kernel")

    def __init__(self, kernel: Kernel, symbols: Sequence[str]) -> None:
        self.kernel, self._symbols = kernel, symbols
        self._lead = len(symbols) + 1 if symbols else 0
        self.count = self._lead + kernel.first + len(kernel.arguments) + 1 + len(kernel.numbers)
        self.address = 0

    def bind(self, memory: Array) -> None:
        """Lie in this memory, of int64."""
        self._rows = array_type(ctypes.c_void_p, self.count - self._lead).from_buffer(memory, 8 * self._lead)
        self.address = ctypes.addressof(self._rows)

    @property
    def tiles(self) -> int:
        """The number of tiles for the native call; of a symbolic one the row that holds it."""
        return -1 - len(self._symbols) if has_symbols(self.kernel.tiles) else self.kernel.tiles

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

    def find_sizes(self) -> Iterator[tuple[int, str]]:
        """Yield the rows that sizes fill, counted from the first, and the code of these."""
        if not self._lead:
            return
        kernel = self.kernel
        yield 0, repr(kernel.tiles)
        yield from enumerate(reversed(self._symbols), 1)
        for i, number in enumerate(
            kernel.numbers, self._lead + kernel.first + len(kernel.arguments) + bool(kernel.scratch)
        ):
            if has_symbols(number):
                yield i, repr(number)


class SizeRows:
    """The rows of tables that sizes fill, which lie in one memory: all are written at once, each size found once."""

    def __init__(self, tables: Sequence[KernelTable], sizes: SizeRelations) -> None:
        self._memory = np.zeros(sum(table.count for table in tables), np.int64)
        first, places, codes, which = 0, list[int](), dict[str, int](), list[int]()
        for table in tables:
            table.bind(self._memory[first : first + table.count])
            for row, code in table.find_sizes():
                places.append(first + row)
                which.append(codes.setdefault(code, len(codes)))
            first += table.count
        self._places, self._which = np.array(places, np.intp), np.array(which, np.intp)
        names, made = ", ".join(sizes.values), "".join(f"{code}, " for code in codes)
        self._compute: Callable[..., Operand] = eval(f"lambda {names}: ({made})", {})
        self._known: dict[tuple[int, ...], Array] = {}  # what was written for the sizes of earlier calls

    def fill(self, sizes: SizeRelations) -> None:
        """Write the sizes of this call, and the numbers that follow from them."""
        if not len(self._places):
            return
        values = tuple(sizes.values.values())
        rows = self._known.get(values)
        if rows is None:
            if len(self._known) >= MAX_KEPT_SIZES:
                self._known.clear()
            rows = self._known[values] = np.array(self._compute(*values), np.int64)[self._which]
        self._memory[self._places] = rows


class ArenaViews:
    """Operands of calls that lie in an arena, as they are for the sizes of earlier calls."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[int, ...]], tuple[Array, Array]] = {}

    def find(
        self, name: str, view: StridedView, values: tuple[int, ...], arena: Array, offset: int
    ) -> tuple[Array, Array]:
        """Return the base of a named view, which lies in the arena from `offset` on, and the view, for these sizes."""
        if (name, values) not in self._known:
            if len(self._known) >= MAX_KEPT_SIZES:
                self._known.clear()
            base = array_at(arena, offset, view.base)
            self._known[name, values] = base, apply_view(view, base)
        return self._known[name, values]


def array_at(array: Array, offset: int, v: Value) -> Array:
    """Return the bytes from `offset` on as an array of the value's shape and type."""
    return array[offset : offset + v.nbytes].view(v.dtype).reshape(v.concrete_shape)


@lru_cache(256)
def array_type(kind: Any, count: int) -> Any:
    """Return the type of an array in C, found once: types are cycles, which wait for the collector."""
    return kind * count

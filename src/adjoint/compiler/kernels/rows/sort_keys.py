"""Elements as integers in the order of a stable sort: equal ones by their index, NaN as the largest.

An item is one integer, the key above the index, or, of 64-bit elements, a pair of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import F64, I64, Reg, Type

INDEX_BITS = 32  # of an item in one integer
BIGGEST = 2**63 - 1
MAX_DOUBLE_INDEX = 2**20 - 1  # of an item that is a float64: 52 bits, less those of an integer of 32
INFINITE, UNDEFINED, ZERO = 2.0**200, 2.0**300, 2.0**-200  # beyond all that a float32 can be

Item = list[Reg]


class SortKeys(NamedTuple):
    """The conversion of elements of a type to items."""

    source: Type
    descending: bool

    @property
    def words(self) -> int:
        """Integers in an item."""
        return 2 if self.source.bits == 64 else 1

    @property
    def digits(self) -> int:
        """Bytes of a key."""
        return 8 if self.words == 2 else 4

    def make_item(self, b: Builder, value: Reg, index: Reg) -> Item:
        """The items of elements and their indices (i64), lane by lane."""
        key = self._order_key(b, value)
        if self.descending:
            key = b.bitwise_not(key)
        if self.words == 2:
            return [key, index]
        return [b.bitwise_or(b.shl(key, INDEX_BITS), index)]

    def _order_key(self, b: Builder, value: Reg) -> Reg:
        """A signed integer in the order of the elements: for a float its bits, of which negative ones are turned."""
        type = value.type
        if type.is_float:
            whole = Type("i", type.bits)
            bits, largest = b.bitcast(b.add(value, 0.0), whole), 2 ** (type.bits - 1) - 1
            key = b.select(b.lt(bits, 0), b.bitwise_xor(bits, largest), bits)
            return b.cast(b.select(b.isnan(value), largest, key), I64)
        if type.kind == "u" and type.bits == 64:
            return b.bitwise_xor(b.cast(value, I64), -(2**63))
        key = b.cast(value, I64)
        return b.sub(key, 2**31) if type.kind == "u" and type.bits == 32 else key

    def index_of(self, b: Builder, item: Item) -> Reg:
        """The indices of items."""
        return item[1] if self.words == 2 else b.bitwise_and(item[0], 2**INDEX_BITS - 1)

    def is_nan(self, b: Builder, item: Item) -> Reg:
        """True for the items of floats that are NaN, in ascending order."""
        key = item[0] if self.words == 2 else b.shr(item[0], INDEX_BITS)
        return b.eq(key, 2 ** (self.source.bits - 1) - 1)

    def is_less(self, b: Builder, x: Item, y: Item) -> Reg:
        """True where x comes before y."""
        first = b.lt(x[0], y[0])
        if self.words == 1:
            return first
        return b.logical_or(first, b.logical_and(b.eq(x[0], y[0]), b.lt(x[1], y[1])))

    def last_item(self, b: Builder) -> Item:
        """An item that comes after all others."""
        return [b.constant(BIGGEST, I64)] * self.words

    @property
    def word(self) -> Type:
        """The type of the parts of an item."""
        return I64

    def digit_of(self, b: Builder, item: Item, digit: int) -> Reg:
        """Byte `digit` of a key, from 0, as an index that grows with it."""
        shift = 8 * digit + (INDEX_BITS if self.words == 1 else 0)
        found = b.bitwise_and(b.shr(item[0], shift), 255)
        return b.bitwise_xor(found, 128) if digit == self.digits - 1 else found

    def bin_of(self, b: Builder, item: Item, bits: int) -> Reg:
        """The first bits of keys, as an index that grows with them."""
        return b.add(b.shr(item[0], 64 - bits), 2 ** (bits - 1))

    def load(self, b: Builder, items: Reg, index: Reg | int, lanes: int = 1) -> Item:
        """Item `index` of an array; with lanes, those of a group of rows."""
        place = b.gep(items, self._offset(b, index, lanes), I64)
        return [b.load(b.gep(place, w * lanes, I64), self.word.of(lanes)) for w in range(self.words)]

    def store(self, b: Builder, item: Sequence[Reg], items: Reg, index: Reg | int, lanes: int = 1) -> None:
        """Write item `index` of an array."""
        place = b.gep(items, self._offset(b, index, lanes), I64)
        for w, word in enumerate(item):
            b.store(word, b.gep(place, w * lanes, I64))

    def _offset(self, b: Builder, index: Reg | int, lanes: int) -> Reg | int:
        by = lanes * self.words
        return index * by if isinstance(index, int) else b.mul(index, by) if by > 1 else index


class DoubleKeys(SortKeys):
    """Items of 32 bits or less as float64, of which processors have a minimum: the index is in the last bits.

    What is infinite or NaN becomes a large number, and 0 a small one, so that each has bits for its index.
    """

    @property
    def word(self) -> Type:
        """The type of an item."""
        return F64

    def make_item(self, b: Builder, value: Reg, index: Reg) -> Item:
        """The items of elements and their indices (i64), lane by lane."""
        wide = b.cast(value, F64)
        if value.type.is_float:
            limit = b.select(b.gt(wide, 0.0), INFINITE, b.constant(-INFINITE, wide.type))
            wide = b.select(b.eq(b.abs(wide), math.inf), limit, wide)
            wide = b.select(b.isnan(value), UNDEFINED, wide)
        wide = b.select(b.eq(wide, 0.0), ZERO, wide)
        bits = b.bitcast(b.neg(wide) if self.descending else wide, I64)
        own = b.bitwise_xor(index, b.bitwise_and(b.shr(bits, 63), MAX_DOUBLE_INDEX))  # larger is less below 0
        return [b.bitcast(b.bitwise_or(bits, own), F64)]

    def index_of(self, b: Builder, item: Item) -> Reg:
        """The indices of items."""
        bits = b.bitcast(item[0], I64)
        return b.bitwise_and(b.bitwise_xor(bits, b.shr(bits, 63)), MAX_DOUBLE_INDEX)

    def is_nan(self, b: Builder, item: Item) -> Reg:
        """True for the items of floats that are NaN, in ascending order."""
        return b.ge(item[0], UNDEFINED)

    def last_item(self, b: Builder) -> Item:
        """An item that comes after all others."""
        return [b.constant(math.inf, F64)]


def iota_from(b: Builder, index: Reg, lanes: int) -> Reg:
    """Indices (i64) of neighbours from `index` on."""
    return index if lanes == 1 else b.add(b.broadcast(index, lanes), b.iota(lanes))

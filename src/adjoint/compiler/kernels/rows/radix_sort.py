"""Sorting of one long row: byte by byte of its keys, from the last to the first; few items by insertion."""

from __future__ import annotations

from adjoint.compiler.kernels.rows.sort_keys import Item, SortKeys
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, PTR, Reg

VALUES = 256  # of a byte
MAX_INSERTED_ITEMS = 48


def clear(b: Builder, counts: Reg, count: int, lanes: int) -> None:
    """Set integers to 0; the count is a multiple of the lanes."""
    with b.loop(0, count, lanes) as turn:
        b.store(b.constant(0, I64.of(lanes)), b.gep(counts, turn.index, I64))


def write_sort(b: Builder, keys: SortKeys, items: Reg, spare: Reg, counts: Reg, count: Reg, lanes: int) -> Reg:
    """Sort items, which stand in the order of their indices; return where they are: in `items` or in `spare`.

    `counts`: memory for 256 integers for each byte of a key.
    """
    few = b.le(count, MAX_INSERTED_ITEMS)
    with b.when(few), b.loop(1, count) as turn:
        insert_item(b, keys, items, turn.index, keys.load(b, items, turn.index))
    with b.when(b.logical_not(few), [items]) as many:
        many.yields(_sort_by_bytes(b, keys, items, spare, counts, count, lanes))
    return many.results[0]


def insert_item(b: Builder, keys: SortKeys, items: Reg, place: Reg, item: Item) -> None:
    """Write an item into the sorted ones before `place`; those that come after it move up by one."""
    with b.repeat(carried=[place]) as turn:
        (hole,) = turn.carried
        turn.ends_if(b.eq(hole, 0))
        before = keys.load(b, items, b.sub(hole, 1))
        turn.ends_if(keys.is_less(b, before, item))
        keys.store(b, before, items, hole)
        turn.yields(b.sub(hole, 1))
    keys.store(b, item, items, turn.results[0])


def _sort_by_bytes(b: Builder, keys: SortKeys, items: Reg, spare: Reg, counts: Reg, count: Reg, lanes: int) -> Reg:
    clear(b, counts, VALUES * keys.digits, lanes)

    def counter(digit: int, value: Reg) -> Reg:
        return b.gep(counts, b.add(value, digit * VALUES) if digit else value, I64)

    # One pass counts the values of all bytes; then each byte, the lowest first, distributes the items stably.
    with b.loop(0, count) as turn:
        item = keys.load(b, items, turn.index)
        for digit in range(keys.digits):
            place = counter(digit, keys.digit_of(b, item, digit))
            b.store(b.add(b.load(place, I64), 1), place)
    source, target = items, spare
    for digit in range(keys.digits):
        # A byte that all items share, as the high ones of small numbers, moves nothing.
        first = counter(digit, keys.digit_of(b, keys.load(b, source, 0), digit))
        differ = b.ne(b.load(first, I64), count)
        with b.when(differ, [source, target]) as distributed:
            with b.loop(0, VALUES, carried=[b.constant(0, I64)]) as value:
                place = counter(digit, value.index)
                own = b.load(place, I64)
                b.store(value.carried[0], place)
                value.yields(b.add(value.carried[0], own))
            with b.loop(0, count) as turn:
                item = keys.load(b, source, turn.index)
                place = counter(digit, keys.digit_of(b, item, digit))
                at = b.load(place, I64)
                b.store(b.add(at, 1), place)
                keys.store(b, item, target, at)
            distributed.yields(target, source)
        source, target = distributed.results
    assert source.type == PTR
    return source

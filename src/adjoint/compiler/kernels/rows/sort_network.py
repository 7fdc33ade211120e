"""Batcher's odd-even merge sort of rows side by side: each lane sorts a row of its own, all by the same exchanges.

Source: Batcher, Sorting networks and their applications, 1968.
"""

from __future__ import annotations

from adjoint.compiler.kernels.rows.sort_keys import Item, SortKeys
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg

BLOCK_ITEMS = 8  # sorted in registers


def list_exchanges(count: int) -> list[tuple[int, int]]:
    """List the exchanges that sort a number of items which is a power of 2."""
    found, merged = [], 1
    while merged < count:
        distance = merged
        while distance:
            for low in range(distance % merged, count - distance, 2 * distance):
                if (low + distance) % (2 * merged):
                    found += [(i, i + distance) for i in range(low, min(low + distance, count - distance))]
            distance //= 2
        merged *= 2
    return found


def write_merge_sort(b: Builder, keys: SortKeys, items: Reg, count: Reg, lanes: int) -> None:
    """Sort the items of each lane, of which there are a multiple of BLOCK_ITEMS."""
    _sort_blocks(b, keys, items, count, lanes)
    with b.repeat(carried=[b.constant(BLOCK_ITEMS, I64)]) as phase:
        (merged,) = phase.carried
        phase.ends_if(b.ge(merged, count))
        with b.repeat(carried=[merged]) as turn:
            (distance,) = turn.carried
            turn.ends_if(b.eq(distance, 0))
            _exchange_runs(b, keys, items, count, lanes, merged, distance)
            turn.yields(b.shr(distance, 1))
        phase.yields(b.mul(merged, 2))


def _sort_blocks(b: Builder, keys: SortKeys, items: Reg, count: Reg, lanes: int) -> None:
    with b.loop(0, count, BLOCK_ITEMS) as turn:
        places = [b.add(turn.index, i) for i in range(BLOCK_ITEMS)]
        held = [keys.load(b, items, place, lanes) for place in places]
        for i, j in list_exchanges(BLOCK_ITEMS):
            held[i], held[j] = _order(b, keys, held[i], held[j])
        for item, place in zip(held, places, strict=True):
            keys.store(b, item, items, place, lanes)


def _exchange_runs(b: Builder, keys: SortKeys, items: Reg, count: Reg, lanes: int, merged: Reg, distance: Reg) -> None:
    """One step of merging sorted stretches of `merged` items in pairs: runs of `distance` items with the next run."""
    skipped = b.bitwise_and(distance, b.sub(merged, 1))  # 0 in the first step, whose distance is the stretch
    both = b.mul(distance, 2)
    ends = b.sub(b.sub(count, distance), skipped)
    runs = b.emit(f"sdiv i64 {b.add(ends, b.sub(both, 1)).name}, {both.name}", I64)
    with b.loop(0, runs) as run:
        low = b.add(b.mul(run.index, both), skipped)
        within = b.ne(b.bitwise_and(b.add(low, distance), b.sub(b.mul(merged, 2), 1)), 0)
        with b.when(within), b.loop(low, b.minimum(b.add(low, distance), b.sub(count, distance))) as pair:
            other = b.add(pair.index, distance)
            first, second = _order(b, keys, keys.load(b, items, pair.index, lanes), keys.load(b, items, other, lanes))
            keys.store(b, first, items, pair.index, lanes)
            keys.store(b, second, items, other, lanes)


def _order(b: Builder, keys: SortKeys, x: Item, y: Item) -> tuple[Item, Item]:
    """The item that comes first, and the other."""
    in_order = keys.is_less(b, x, y)
    first = [b.select(in_order, p, q) for p, q in zip(x, y, strict=True)]
    return first, [b.select(in_order, q, p) for p, q in zip(x, y, strict=True)]

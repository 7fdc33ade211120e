"""Sorting of as many rows at a time as a register has lanes, each in a lane of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjoint.compiler.kernels.rows.order_writer import OrderWriter
from adjoint.compiler.kernels.rows.sort_keys import Item, iota_from
from adjoint.compiler.kernels.rows.sort_network import BLOCK_ITEMS, write_merge_sort
from adjoint.compiler.llvm.types import I64, Reg

VisitItem = Callable[[Reg, Item, Sequence[Reg]], Sequence[Reg]]  # of an index and what is carried


class AcrossWriter(OrderWriter):
    """Writes kernels whose lanes have rows of their own."""

    def write_leaders(self, unit: Reg) -> None:
        """Each element goes down the sorted list of its lane and takes the place of the first that it comes before."""
        b, lanes, keys = self.b, self.lanes, self.keys
        first, count = self.ranks
        offsets, out_offsets = self._group(unit)
        words = keys.words

        def insert(index: Reg, item: Item, lists: Sequence[Reg]) -> list[Reg]:
            kept: list[Reg] = []
            for place in range(first + count):
                held = list(lists[place * words : (place + 1) * words])
                wins = keys.is_less(b, item, held)
                kept += [b.select(wins, x, y) for x, y in zip(item, held, strict=True)]
                item = [b.select(wins, y, x) for x, y in zip(item, held, strict=True)]
            return kept

        last = [b.broadcast(word, lanes) for word in keys.last_item(b)] * (first + count)
        lists = self._visit_across(offsets, last, insert)
        for place in range(count):
            item = list(lists[(first + place) * words : (first + place + 1) * words])
            row = b.gep(self.out, b.mul(self.inner, place), I64)
            b.scatter(keys.index_of(b, item), row, out_offsets)

    def write_network(self, unit: Reg) -> None:
        """As many rows as there are lanes."""
        b, lanes, keys, items = self.b, self.lanes, self.keys, self.scratch
        offsets, out_offsets = self._group(unit)

        def put(index: Reg, item: Item, held: Sequence[Reg]) -> list[Reg]:
            keys.store(b, item, items, index, lanes)
            return [self.count_nan(item, held[0])]

        (missing,) = self._visit_across(offsets, [b.constant(0, I64.of(lanes))], put)
        padded = b.bitwise_and(b.add(self.length, BLOCK_ITEMS - 1), -BLOCK_ITEMS)
        last = [b.broadcast(word, lanes) for word in keys.last_item(b)]
        with b.loop(self.length, padded) as turn:
            keys.store(b, last, items, turn.index, lanes)
        write_merge_sort(b, keys, items, padded, lanes)

        if self.median:
            at = b.mul(self.median_rank(missing), lanes * keys.words)
            words = [b.add(at, b.add(b.iota(lanes), w * lanes)) for w in range(keys.words)]
            found = [b.gather(items, word, keys.word) for word in words]
            b.scatter(keys.index_of(b, found), self.out, out_offsets)
            return

        def take(index: Reg) -> Reg:
            return keys.index_of(b, keys.load(b, items, b.add(index, self.first), lanes))

        whole = b.constant(0, I64)
        if self.dense:
            whole = b.bitwise_and(self.count, -lanes)
            starts = [b.gep(self.out, b.extract(out_offsets, lane), I64) for lane in range(lanes)]
            with b.loop(0, whole, lanes) as turn:
                rows = b.transpose_lanes([take(b.add(turn.index, i)) for i in range(lanes)])
                for start, row in zip(starts, rows, strict=True):
                    b.store(row, b.gep(start, turn.index, I64))
        with b.loop(whole, self.count) as turn:
            b.scatter(take(turn.index), b.gep(self.out, b.mul(turn.index, self.inner), I64), out_offsets)

    def _group(self, unit: Reg) -> tuple[Reg, Reg]:
        """Return the places where each lane's line begins, here and in the result; the last may stand for several."""
        b, lanes = self.b, self.lanes
        line = iota_from(b, b.mul(unit, lanes), lanes)
        return self.line_offsets(b.minimum(line, b.broadcast(b.sub(self.lines, 1), lanes)))

    def _visit_across(self, offsets: Reg, carried: Sequence[Reg], body: VisitItem) -> Sequence[Reg]:
        """Go along the lines of all lanes together; the body gets an index, an item, and what is carried."""
        b, lanes, keys = self.b, self.lanes, self.keys
        whole = b.constant(0, I64)
        if self.dense:
            whole = b.bitwise_and(self.length, -lanes)
            starts = [b.gep(self.x, b.extract(offsets, lane), keys.source) for lane in range(lanes)]
            with b.loop(0, whole, lanes, carried) as turn:
                rows = [b.load(b.gep(start, turn.index, keys.source), keys.source.of(lanes)) for start in starts]
                held: Sequence[Reg] = turn.carried
                for i, value in enumerate(b.transpose_lanes(rows)):
                    index = b.add(turn.index, i) if i else turn.index
                    held = body(index, keys.make_item(b, value, b.broadcast(index, lanes)), held)
                turn.yields(*held)
            carried = turn.results
        with b.loop(whole, self.length, carried=carried) as turn:
            row = b.gep(self.x, b.mul(turn.index, self.stride), keys.source)
            item = keys.make_item(b, b.gather(row, offsets, keys.source), b.broadcast(turn.index, lanes))
            turn.yields(*body(turn.index, item, turn.carried))
        return turn.results

"""Sorting of one long row at a time: a list of the first few, a selection by leading bits, a radix sort."""

from __future__ import annotations

from collections.abc import Callable

from adjoint.compiler.kernels.rows.order_writer import OrderWriter
from adjoint.compiler.kernels.rows.radix_sort import clear, insert_item, write_sort
from adjoint.compiler.kernels.rows.sort_keys import iota_from
from adjoint.compiler.kernels.small_arrays.entry import sweep
from adjoint.compiler.llvm.types import I64, Reg

MAX_SHORTLIST = 32  # positions
BIN_BITS = 11  # of a key, by which a selection tells elements apart
BINS = 2**BIN_BITS
# Of a register of items, a mask, and what is carried; it gives what is carried on.
SweepBody = Callable[[list[Reg], Reg | None, list[Reg]], list[Reg]]


class AlongWriter(OrderWriter):
    """Writes kernels that go along one row after the other."""

    def write_shortlist(self, unit: Reg) -> None:
        """The first few so far, in order; most registers hold nothing that comes before the last of them."""
        b, keys, lanes = self.b, self.keys, self.lanes
        line, out = self._line(unit)
        chosen, buffer = self.scratch, b.gep(self.scratch, MAX_SHORTLIST * keys.words, I64)
        with b.loop(0, self.count) as turn:
            keys.store(b, keys.last_item(b), chosen, turn.index)
        end = b.sub(self.count, 1)

        def take(items: list[Reg], mask: Reg | None, worst: list[Reg]) -> list[Reg]:
            better = keys.is_less(b, items, [b.broadcast(word, lanes) for word in worst])
            better = better if mask is None else b.logical_and(better, mask)
            # Seldom taken: a whole register is compared with the last of the list at once, and only a register with
            # something better is looked at lane by lane.
            with b.when(b.hor(better), worst) as found:
                keys.store(b, items, buffer, 0, lanes)
                bits = b.cast_mask(better)
                with b.loop(0, lanes, carried=worst) as lane:
                    is_set = b.ne(b.bitwise_and(b.shr(bits, lane.index), 1), 0)
                    item = [
                        b.load(b.gep(b.gep(buffer, w * lanes, I64), lane.index, I64), I64) for w in range(keys.words)
                    ]
                    wins = b.logical_and(is_set, keys.is_less(b, item, list(lane.carried)))
                    with b.when(wins, lane.carried) as inserted:
                        insert_item(b, keys, chosen, end, item)
                        inserted.yields(*keys.load(b, chosen, end))
                    lane.yields(*inserted.results)
                found.yields(*lane.results)
            return list(found.results)

        self._visit(line, keys.last_item(b), take)
        self._store(chosen, b.constant(0, I64), out)

    def write_selection(self, unit: Reg) -> None:
        """Keys that share the leading bits of the wanted ranks, or lie between them."""
        b, keys, lanes = self.b, self.keys, self.lanes
        line, out = self._line(unit)
        bins = self.scratch
        items = b.gep(bins, BINS, I64)
        clear(b, bins, BINS, lanes)

        # First pass: a histogram of the leading bits tells in which bins the wanted ranks lie. Second pass: only what
        # lies in these bins is collected, and sorted.
        def count(found: list[Reg], mask: Reg | None, held: list[Reg]) -> list[Reg]:
            which = keys.bin_of(b, found, BIN_BITS)
            for lane in range(lanes):
                place = b.gep(bins, b.extract(which, lane), I64)
                one = b.constant(1, I64) if mask is None else b.cast(b.extract(mask, lane), I64)
                b.store(b.add(b.load(place, I64), one), place)
            further = self.count_nan(found, held[0])
            return [further if mask is None else b.select(mask, further, held[0])]

        zero = b.constant(0, I64)
        (missing,) = self._visit(line, [b.constant(0, I64.of(lanes))], count)
        first = self.median_rank(b.hsum(missing)) if self.median else self.first
        low, below = self._find_bin(bins, zero, zero, first)
        high, _ = self._find_bin(bins, low, below, b.add(first, b.sub(self.count, 1)))

        def collect(found: list[Reg], mask: Reg | None, held: list[Reg]) -> list[Reg]:
            which = keys.bin_of(b, found, BIN_BITS)
            inside = b.logical_and(b.ge(which, low), b.le(which, high))
            inside = inside if mask is None else b.logical_and(inside, mask)
            with b.when(b.hor(inside), held) as some:
                (number,) = held
                # Every lane writes its item; only one that lies inside moves the end on, which takes no branch.
                for lane in range(lanes):
                    keys.store(b, [b.extract(word, lane) for word in found], items, number)
                    number = b.add(number, b.cast(b.extract(inside, lane), I64))
                some.yields(number)
            return list(some.results)

        (number,) = self._visit(line, [zero], collect)
        room = b.mul(b.add(self.length, 1), keys.words)
        spare = b.gep(items, room, I64)
        sorted_items = write_sort(b, keys, items, spare, b.gep(spare, room, I64), number, lanes)
        self._store(sorted_items, b.sub(first, below), out)

    def write_radix(self, unit: Reg) -> None:
        b, keys, lanes = self.b, self.keys, self.lanes
        line, out = self._line(unit)
        items = self.scratch
        with b.loop(0, self.length, carried=[b.constant(0, I64)]) as turn:
            item = keys.make_item(b, self._load(line, turn.index, 1, None, False), turn.index)
            keys.store(b, item, items, turn.index)
            turn.yields(self.count_nan(item, turn.carried[0]))
        first = self.median_rank(turn.results[0]) if self.median else self.first
        room = b.mul(self.length, keys.words)
        spare = b.gep(items, room, I64)
        sorted_items = write_sort(b, keys, items, spare, b.gep(spare, room, I64), self.length, lanes)
        self._store(sorted_items, first, out)

    def _line(self, unit: Reg) -> tuple[Reg, Reg]:
        """The addresses of one line, in x and in the result."""
        begin, out = self.line_offsets(unit)
        return self.b.gep(self.x, begin, self.keys.source), self.b.gep(self.out, out, I64)

    def _load(self, line: Reg, index: Reg, lanes: int, mask: Reg | None, neighbours: bool) -> Reg:
        """Neighbours along a line; those that are neighbours in memory at once."""
        b, source = self.b, self.keys.source
        place = b.gep(line, index if neighbours else b.mul(index, self.stride), source)
        if neighbours or lanes == 1:
            return b.load(place, source.of(lanes), mask)
        return b.gather(place, b.mul(b.iota(lanes), self.stride), source, mask)

    def _visit(self, line: Reg, carried: list[Reg], body: SweepBody) -> list[Reg]:
        """Go through a line, a register of items at a time; the body gets them, and a mask or None."""
        b, lanes = self.b, self.lanes

        def sweep_line(neighbours: bool, begun: list[Reg]) -> list[Reg]:
            def visit(index: Reg, mask: Reg | None, *held: Reg) -> list[Reg]:
                value = self._load(line, index, lanes, mask, neighbours)
                return body(self.keys.make_item(b, value, iota_from(b, index, lanes)), mask, list(held))

            return list(sweep(b, self.length, lanes, begun, visit))

        dense = b.eq(self.stride, 1)
        with b.when(dense, carried) as near:
            near.yields(*sweep_line(True, carried))
        with b.when(b.logical_not(dense), near.results) as far:
            far.yields(*sweep_line(False, list(near.results)))
        return list(far.results)

    def _find_bin(self, bins: Reg, bin: Reg, below: Reg, rank: Reg) -> tuple[Reg, Reg]:
        """The bin that has a rank, and how many elements are in those before it."""
        b = self.b
        with b.repeat(carried=[bin, below]) as turn:
            at, before = turn.carried
            through = b.add(before, b.load(b.gep(bins, at, I64), I64))
            turn.ends_if(b.gt(through, rank))
            turn.yields(b.add(at, 1), through)
        return turn.results[0], turn.results[1]

    def _store(self, items: Reg, first: Reg, out: Reg) -> None:
        """Write the indices of sorted items from one on."""
        b = self.b
        with b.loop(0, self.count) as turn:
            item = self.keys.load(b, items, b.add(turn.index, first))
            b.store(self.keys.index_of(b, item), b.gep(out, b.mul(turn.index, self.inner), I64))

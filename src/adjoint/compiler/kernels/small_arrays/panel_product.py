"""The product of a few rows with a matrix that is packed in panels: the part of a recurrent step that reads weights.

A matrix (K, M) is packed as (P, K, W): P panels of W neighbouring columns, the last of them filled up with zeros. W
columns take `PANEL_BYTES`. So the inner loop reads the panel in the order of memory, and holds all its sums in
registers.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.llvm.types import Reg, Type
from adjoint.core.op.eager_kernels import PANEL_BYTES

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder

ROWS_BY_VECTOR_BITS = {512: 8, 256: 3, 128: 2}  # of a block: sums, a row of the panel and a factor fill the registers
MIN_SUMS = 8  # that hide the latency of a fused multiply-add


class Matrix(NamedTuple):
    """Rows in memory: the first of them, and the elements from one to the next."""

    data: Reg
    stride: Reg


def multiply_by_panels(
    b: Builder,
    kind: Type,
    lanes: int,
    x: Matrix,
    panels: Reg,
    out: Matrix,
    rows: Reg,
    depth: Reg,
    *,
    accumulate: bool = False,
) -> None:
    """Compute out = x @ panels, or add it to `out`: whole panels, of which `out` has room for `out.stride` columns."""
    width = 8 * PANEL_BYTES // kind.bits
    most = ROWS_BY_VECTOR_BITS[lanes * kind.bits]
    whole = b.mul(b.floor_divide(rows, most), most)
    rest = b.sub(rows, whole)
    size = b.mul(depth, width)
    with b.loop(0, b.floor_divide(out.stride, width)) as panel:
        start = b.gep(panels, b.mul(panel.index, size), kind)
        columns = out._replace(data=b.gep(out.data, b.mul(panel.index, width), kind))
        block = _Block(b, kind, lanes, x, start, columns, depth, accumulate)
        with b.loop(0, whole, most) as row:
            block.write(row.index, most)
        for count in range(1, most):
            with b.when(b.eq(rest, count)):
                block.write(whole, count)


class _Block(NamedTuple):
    """One panel, which blocks of rows are multiplied by."""

    b: Builder
    kind: Type
    lanes: int
    x: Matrix
    panel: Reg
    out: Matrix
    depth: Reg
    accumulate: bool

    def write(self, row: Reg, count: int) -> None:
        """Write `count` rows of the panel's columns, from `row` on."""
        b, type = self.b, self.kind.of(self.lanes)
        columns = range(0, 8 * PANEL_BYTES // self.kind.bits, self.lanes)
        sources = [b.gep(self.x.data, b.mul(b.add(row, i), self.x.stride), self.kind) for i in range(count)]
        targets = [b.gep(self.out.data, b.mul(b.add(row, i), self.out.stride), self.kind) for i in range(count)]
        places = [b.gep(target, column, self.kind) for target in targets for column in columns]
        zero = b.constant(0.0, type)
        sums = [b.load(place, type) for place in places] if self.accumulate else [zero] * len(places)
        turns = 2 if len(sums) < MIN_SUMS else 1  # of the loop at once, each with its own sums
        even = b.bitwise_and(self.depth, -turns)
        with b.loop(0, even, turns, [*sums, *[zero] * (len(sums) * (turns - 1))]) as loop:
            parts = [loop.carried[i : i + len(sums)] for i in range(0, len(loop.carried), len(sums))]
            added = [self._add_products(b.add(loop.index, i), sources, columns, part) for i, part in enumerate(parts)]
            loop.yields(*chain.from_iterable(added))
        totals = loop.results[: len(sums)]
        if turns == 2:
            totals = tuple(b.add(x, y) for x, y in zip(totals, loop.results[len(sums) :], strict=True))
            with b.when(b.lt(even, self.depth), totals) as odd:
                odd.yields(*self._add_products(even, sources, columns, totals))
            totals = odd.results
        for total, place in zip(totals, places, strict=True):
            b.store(total, place)

    def _add_products(self, k: Reg, sources: list[Reg], columns: range, sums: tuple[Reg, ...]) -> list[Reg]:
        b = self.b
        start = b.gep(self.panel, b.mul(k, len(columns) * self.lanes), self.kind)
        weights = [b.load(b.gep(start, column, self.kind), self.kind.of(self.lanes)) for column in columns]
        factors = [b.broadcast(b.load(b.gep(source, k, self.kind), self.kind), self.lanes) for source in sources]
        pairs = [(factor, weight) for factor in factors for weight in weights]
        return [b.fma(factor, weight, total) for (factor, weight), total in zip(pairs, sums, strict=True)]

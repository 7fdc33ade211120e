"""Parts of all writers of sorting kernels: the operands, the numbers of a call, and the rank of a median."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.compiler.kernels.rows.plan import LineTable
from adjoint.compiler.kernels.rows.sort_keys import SortKeys
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I64, Reg

MEDIAN, NANMEDIAN = "median", "nanmedian"  # in place of a rank: what it is depends on the elements that are NaN


class OrderWriter:
    """A writer of one way to sort.

    `dense`: lines lie in one piece, here and in the result. `median`: MEDIAN or NANMEDIAN if that is wanted.
    `ranks`: the first one and their number, where the text is for these alone.
    """

    def __init__(
        self,
        b: Builder,
        table: LineTable,
        target: Target,
        keys: SortKeys,
        dense: bool,
        median: str,
        ranks: Sequence[int],
    ) -> None:
        self.b, self.keys, self.lanes, self.dense = b, keys, target.lanes(I64), dense
        self.median, self.ranks = median, ranks
        self.x, self.out, self.scratch = table.operands[0], table.out, table.scratch
        self.units, self.each, self.lines, self.length, self.inner = table.numbers(5)
        self.outer_stride, self.stride, self.inner_stride, self.first, self.count = table.numbers(5)

    def count_nan(self, item: list[Reg], count: Reg) -> Reg:
        """The number of elements so far that are NaN, with one more item."""
        if not self.median or not self.keys.source.is_float:
            return count
        return self.b.add(count, self.b.cast(self.keys.is_nan(self.b, item), I64))

    def median_rank(self, missing: Reg) -> Reg:
        """The rank of the lower median; of the first NaN where that is the result."""
        b = self.b
        if self.median == NANMEDIAN:
            present = b.sub(b.broadcast(self.length, missing.type.lanes), missing)
            return b.shr(b.sub(b.maximum(present, 1), 1), 1)
        middle = b.broadcast(b.shr(b.sub(self.length, 1), 1), missing.type.lanes)
        return b.select(b.gt(missing, 0), b.sub(b.broadcast(self.length, missing.type.lanes), missing), middle)

    def line_offsets(self, line: Reg) -> tuple[Reg, Reg]:
        """Return the places where lines begin in x and in the result."""
        b, lanes = self.b, line.type.lanes
        inner = b.broadcast(self.inner, lanes)
        outer = b.emit(f"udiv {line.type.text} {line.name}, {inner.name}", line.type)
        column = b.sub(line, b.mul(outer, inner))
        begin = b.add(b.mul(outer, self.outer_stride), b.mul(column, self.inner_stride))
        return begin, b.add(b.mul(b.mul(outer, self.count), inner), column)

"""The layout of a matrix product as its kernel counts it: panels of rows and columns, scratch memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from adjoint.compiler.ir.symbolic_size import has_symbols, is_multiple, is_symbolic_size
from adjoint.compiler.kernels.index_arithmetic import (
    Index,
    advance_address,
    as_index,
    floor_div_index,
    is_zero,
    min_index,
    subtract_index,
)
from adjoint.compiler.kernels.matmul.blocking import round_up
from adjoint.compiler.kernels.matmul.microkernel import ColumnSpan
from adjoint.compiler.kernels.matmul.product import MatmulPlan
from adjoint.compiler.kernels.matmul.scratch import Scratch
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg

Range = tuple[Index, Index]


class PanelLayout:
    """The state that the writers of a planned product share."""

    def __init__(self, b: Builder, product: MatmulPlan, scratch: Reg) -> None:
        self.b, self.product = b, product
        self.plane, self.blocking = product.plane, product.blocking
        self.vector = product.type.of(product.lanes)
        layout = Scratch.of(product)
        at = (advance_address(b, scratch, offset // product.type.itemsize, 1, product.type) for offset in layout[:4])
        self.packed_left, self.packed_right, self.sums, self.settings = at
        self.part_strides = layout.part_strides
        self.panels, self.rows, self.longer = self.blocking.panels(self.plane.m)
        self.full, self.tail = divmod(self.plane.n, self.blocking.width)
        self.panels_across = -(-self.plane.n // self.blocking.width)
        # Of a symbolic number of columns, the last panel may have any width up to that of the others.
        self.is_ragged_across = has_symbols(self.tail)
        self.stride = round_up(self.blocking.width, product.lanes)
        # Of a symbolic number of rows, the last panel may have any height up to that of the others.
        m = self.plane.m
        self.is_ragged = is_symbolic_size(m) and not is_multiple(m, self.rows)

    def branch_by_count(self, index: Reg, first: int, before: int, count: int, after: int) -> Iterator[int]:
        """Branches: with `before` for the `first` of `count` indices, with `after` for the others."""
        if first:
            with self.b.when(self.b.lt(index, first)) if first < count else nullcontext():
                yield before
        if first < count:
            with self.b.when(self.b.ge(index, first)) if first else nullcontext():
                yield after

    def branch_by_width(self, panel: Reg, exist: Reg | None) -> Iterator[ColumnSpan]:
        """Branches for the columns of a panel, of which so many `exist` if that may be fewer than its width."""
        b, lanes, width = self.b, self.product.lanes, self.blocking.width
        if not has_symbols(self.plane.n):
            for whole in self.branch_by_count(panel, self.full, width, self.panels_across, self.tail):
                yield ColumnSpan(whole)
            return
        if exist is None:
            yield ColumnSpan(width)
            return
        is_whole = b.ge(exist, width)
        with b.when(is_whole):
            yield ColumnSpan(width)
        with b.when(b.logical_not(is_whole)):
            for start in range(0, width, lanes):
                is_last = b.le(exist, start + lanes)
                with b.when(b.logical_and(b.gt(exist, start), is_last) if start else is_last):
                    yield ColumnSpan(start + lanes, b.lane_mask(b.sub(exist, start), lanes))

    def row(self, panel: Index) -> Reg:
        """The row at which a panel of rows begins; behind the last one, the end."""
        b = self.b
        if isinstance(panel, int) and has_symbols((panel, self.plane.m)):
            return b.constant(0, I64) if is_zero(panel) else as_index(b, min_index(b, panel * self.rows, self.plane.m))
        if isinstance(panel, int):
            return b.constant(min(panel * self.rows + min(panel, self.longer), self.plane.m), I64)
        start = b.mul(panel, self.rows)
        if self.blocking.is_tiled:
            return b.minimum(start, self.plane.m)
        return b.add(start, b.minimum(panel, self.longer)) if self.longer else start

    def height(self, panel: Reg, row: Reg) -> Index:
        """Return how many rows the panel has that begins at this one."""
        b = self.b
        if self.is_ragged:
            return b.minimum(b.sub(self.plane.m, row), self.rows)
        if self.blocking.is_tiled:
            return subtract_index(b, self.row(b.add(panel, 1)), row)
        return b.add(b.cast(b.lt(panel, self.longer), I64), self.rows) if self.longer else self.rows

    def part(self, units: int, index: Reg, parts: int) -> Range:
        """The units of one of `parts` equal parts."""
        if parts == 1:
            return 0, units
        start = self.b.mul(index, units)
        end = self.b.add(start, units)
        return floor_div_index(self.b, start, parts), floor_div_index(self.b, end, parts)

"""Batched matrix products, each written for its shape: panels of columns, packed where that pays, blocks of registers.

A tile owns a range of the batch, of panels of rows and of panels of columns. An element's sum runs over the depth in
an order that its place in a tile does not change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext

from adjoint.compiler.kernels.index_arithmetic import (
    Index,
    advance_address,
    as_index,
    divmod_index,
    scale_index,
    split_size,
    subtract_index,
    unravel_index,
)
from adjoint.compiler.kernels.kernel import Finish, Prepare, ResultRegister
from adjoint.compiler.kernels.matmul import amx_tiles
from adjoint.compiler.kernels.matmul.blocking import TILE_ROWS, MatrixStrides
from adjoint.compiler.kernels.matmul.microkernel import ColumnSpan, DepthRange, LoadSource, sum_columns, sum_depth
from adjoint.compiler.kernels.matmul.operand import MatmulOperand
from adjoint.compiler.kernels.matmul.pack_driver import PanelPacker
from adjoint.compiler.kernels.matmul.panel_layout import Range
from adjoint.compiler.kernels.matmul.plan import MAX_UNROLLED_REGISTERS, plan_matmul
from adjoint.compiler.kernels.matmul.product import MatmulPlan, steps_per_turn
from adjoint.compiler.kernels.matmul.scratch import largest_tile
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg

__all__ = ["MatmulPlan", "MatrixStrides", "plan_matmul", "write_matmul"]


def write_matmul(
    b: Builder,
    product: MatmulPlan,
    left: Reg | MatmulOperand,
    right: Reg | MatmulOperand,
    scratch: Reg | None,
    tile: Reg,
    finish: Finish,
    prepare: Prepare | None = None,
) -> None:
    """Write one tile of a product; its finished elements are handed to `finish` in blocks.

    An operand is an array's address, or else computed while it is packed.
    """
    if not product.tiles:
        return
    assert scratch is not None
    sides = (right, left) if product.swapped else (left, right)
    strides = product.plane.left, product.plane.right
    left, right = (
        x if isinstance(x, MatmulOperand) else MatmulOperand.plain(x, product.type, s)
        for x, s in zip(sides, strides, strict=True)
    )
    writer = _MatmulWriter(b, product, scratch, finish, prepare)
    with amx_tiles.configure_tiles(b, writer.settings) if product.blocking.is_tiled else nullcontext():
        writer.tile(left, right, tile)


class _MatmulWriter(PanelPacker):
    def __init__(self, b: Builder, product: MatmulPlan, scratch: Reg, finish: Finish, prepare: Prepare | None) -> None:
        super().__init__(b, product, scratch)
        self.finish = finish
        self.prepare = prepare

    def tile(self, left: MatmulOperand, right: MatmulOperand, tile: Reg) -> None:
        """One tile: its part of the batch, matrix by matrix."""
        b, plane = self.b, self.plane
        batches, row_parts, column_parts = self.product.grid
        rest, column = divmod_index(self.b, tile, column_parts)
        rest, row = divmod_index(self.b, rest, row_parts)
        rows = self.part(self.panels, row, row_parts)
        columns = self.part(self.panels_across, column, column_parts)
        count = math.prod(plane.batch)
        if count == 1:
            self._matrix(left, right, rows, columns, [b.constant(0, I64)] * len(plane.batch))
            return
        with b.loop(*self.part(count, rest, batches)) as turn:
            index = unravel_index(self.b, turn.index, plane.batch)
            for i, at in enumerate(index):
                if plane.batch[i] > 1:
                    left, right = left.of_batch(b, i, at), right.of_batch(b, i, at)
            self._matrix(left, right, rows, columns, index)

    def _matrix(
        self, left: MatmulOperand, right: MatmulOperand, rows: Range, columns: Range, index: Sequence[Reg]
    ) -> None:
        """A tile's part of one matrix: the stretches of the depth, in each of them the panels of columns."""
        b, product, plane = self.b, self.product, self.plane
        k, depth, step = product.padded_steps, product.depth, steps_per_turn(product.blocking, product.lanes)
        each = 2 if self.blocking.is_paired else 1  # elements of a step
        with ExitStack() as stack:
            first = last = None
            length: Index = product.k
            full, rest = split_size(k, step)
            whole: Index = full
            if product.strip:
                strip = stack.enter_context(b.loop(*rows, product.strip))
                rows = strip.index, b.minimum(b.add(strip.index, product.strip), rows[1])
            if product.split:
                stretches = (k + depth - 1) // depth
                turn = stack.enter_context(b.loop(0, stretches))
                first, last = b.eq(turn.index, 0), b.eq(turn.index, stretches - 1)
                start = b.mul(turn.index, depth)
                length = b.minimum(b.sub(product.k, scale_index(b, start, each)), depth * each)
                whole = b.minimum(b.sub(full, start), depth)
                begins = scale_index(b, start, each)
                left, right = left.skip_columns(b, begins), right.skip_rows(b, begins)
            stretch = DepthRange(step, whole, rest, last)
            if self.blocking.pack_left:
                self.pack_left(left, rows, length)
            panel = stack.enter_context(b.loop(*columns))
            column = b.mul(panel.index, self.blocking.width)
            source = right.skip_columns(b, column)
            exist = b.sub(plane.n, column) if self.is_ragged_across or self.tail else None
            if self.blocking.pack_right:
                self.pack_right(source, exist, length)
            place = self.sums
            if product.split:
                across = b.mul(subtract_index(b, panel.index, columns[0]), largest_tile(product)[0])
                place = advance_address(b, place, across, self.stride, self.vector)
            for span in self.branch_by_width(panel.index, exist):
                self._panel(left.pointer, source.pointer, place, rows, span, stretch, first, (*index, column))

    def _panel(
        self,
        left: Reg,
        right: Reg,
        place: Reg,
        rows: Range,
        span: ColumnSpan,
        stretch: DepthRange,
        first: Reg | None,
        origin: Sequence[Reg],
    ) -> None:
        """A panel of columns: its blocks from the top to the bottom of the tile, each summed and then finished."""
        b, longer = self.b, self.longer
        top = self.row(rows[0])
        with b.loop(*rows) as turn:
            row = self.row(turn.index)
            down, panel = subtract_index(b, row, top), subtract_index(b, turn.index, rows[0])
            if self.product.split:
                place = advance_address(b, place, down, self.stride, self.vector)
            if self.blocking.is_tiled:
                self._sum_tiles(down, span.width, stretch, place, first)
            elif self.is_ragged:
                self._ragged_block(left, right, row, span, stretch, place, first, origin)
            else:
                for count in self.branch_by_count(turn.index, longer, self.rows + 1, self.panels, self.rows):
                    if self.prepare is not None:
                        self.prepare((*origin[:-1], row, origin[-1]), count, span.width)
                    sums = self._block(left, right, row, down, panel, count, span, stretch)
                    if self.product.direct:
                        self._hand_over(sums, span, (*origin[:-1], row, origin[-1]))
                    else:
                        self._keep(sums, place, first)
            if not self.product.direct:
                height = self.height(turn.index, row)
                with b.when(stretch.last) if stretch.last is not None else nullcontext():
                    self._finish(place, row, height, span, origin)

    def _ragged_block(
        self,
        left: Reg,
        right: Reg,
        row: Reg,
        span: ColumnSpan,
        stretch: DepthRange,
        place: Reg,
        first: Reg | None,
        origin: Sequence[Reg],
    ) -> None:
        """A block of as many rows as the others, or one at the end, of fewer: the last of these takes the place of
        those that do not exist, and none of them is handed over, as what follows may write what it reads.
        """
        b = self.b
        left_rows = b.sub(self.plane.m, row)
        is_whole = b.ge(left_rows, self.rows)
        with b.when(is_whole):
            sums = self._block(left, right, row, 0, 0, self.rows, span, stretch)
            if self.product.direct:
                self._hand_over(sums, span, (*origin[:-1], row, origin[-1]))
            else:
                self._keep(sums, place, first)
        with b.when(b.logical_not(is_whole)):
            last = b.sub(left_rows, 1)
            lines = [b.minimum(r, last) if r else b.constant(0, I64) for r in range(self.rows)]
            begins = tuple(as_index(b, scale_index(b, line, self.plane.left.row)) for line in lines)
            self._keep(self._block(left, right, row, 0, 0, self.rows, span, stretch, begins), place, first)
            if self.product.direct:
                self._finish(place, row, left_rows, span, origin)

    def _block(
        self,
        left: Reg,
        right: Reg,
        row: Reg,
        down: Index,
        panel: Index,
        count: int,
        span: ColumnSpan,
        stretch: DepthRange,
        lines: tuple[Reg, ...] = (),
    ) -> list[list[Reg]]:
        """The registers of one block; `lines`: where each row begins, if they are not equally far apart."""
        b, plane, blocking = self.b, self.plane, self.blocking
        packed = blocking.pack_right
        if blocking.along_depth:
            x = LoadSource(advance_address(b, left, row, plane.left.row, self.vector), plane.left.row, 1, lines)
            if blocking.pack_left:
                length = self.product.line
                x = LoadSource(advance_address(b, self.packed_left, down, length, self.vector), length, 1)
            y = (
                LoadSource(self.packed_right, self.product.line, 1)
                if packed
                else LoadSource(right, plane.right.column, 1)
            )
            return sum_depth(b, x, y, self.vector, count, span.width, blocking.sets, stretch)
        start = advance_address(b, left, row, plane.left.row, self.vector)
        x = LoadSource(start, plane.left.row, plane.left.column, lines)
        if blocking.is_paired and plane.left.column == 1:
            length = self.product.line
            x = LoadSource(advance_address(b, self.packed_left, down, length, self.vector), length, 1)
        elif blocking.pack_left:
            x = LoadSource(self.packed_rows(panel), 1, self.product.left_pitch(count))
        y = LoadSource(self.packed_right, 1, blocking.width) if packed else LoadSource(right, 1, plane.right.row)
        return sum_columns(b, x, y, self.vector, count, span, blocking.sets, stretch, packed, blocking.is_paired)

    def _sum_tiles(self, down: Index, width: int, stretch: DepthRange, place: Reg, first: Reg | None) -> None:
        """A block of tile registers, written to scratch memory as `_keep` does."""
        b, parts, line = self.b, self.blocking.parts, self.product.line
        x = LoadSource(advance_address(b, self.packed_left, down, line, self.vector), line, 1)
        y = LoadSource(self.packed_right, self.blocking.width, 1)
        tall, wide = self.rows // TILE_ROWS, -(-width // TILE_ROWS)
        final = parts == 1 and first is None
        tile_bytes = amx_tiles.TILE_CONFIG_BYTES // self.product.type.itemsize
        sums = place if final else advance_address(b, self.settings, tile_bytes, 1, self.vector)
        amx_tiles.sum_tiles(b, x, y, self.part_strides, tall, wide, parts, stretch.whole, sums, self.stride)
        if not final:
            amx_tiles.accumulate_parts(b, sums, self.rows, wide * TILE_ROWS, self.stride, parts, place, first)

    def _keep(self, sums: Sequence[Sequence[Reg]], place: Reg, first: Reg | None) -> None:
        """A block's sums written to scratch memory, on top of those of the stretches before."""
        b, lanes = self.b, self.product.lanes
        at = [
            [advance_address(b, place, r * self.stride + v * lanes, 1, self.vector) for v in range(len(s))]
            for r, s in enumerate(sums)
        ]
        flat = [(value, to) for row, line in zip(sums, at, strict=True) for value, to in zip(row, line, strict=True)]
        if first is not None:
            with b.when(b.logical_not(first), [value for value, _ in flat]) as later:
                later.yields(*(b.add(b.load(to, self.vector), value) for value, to in flat))
            flat = [(value, to) for value, (_, to) in zip(later.results, flat, strict=True)]
        for value, to in flat:
            b.store(value, to)

    def _finish(self, place: Reg, row: Reg, count: Index, span: ColumnSpan, origin: Sequence[Reg]) -> None:
        """A block of the plane in scratch memory, handed over row by row of the result."""
        b, lanes, type, width = self.b, self.product.lanes, self.product.type, span.width
        index, column = origin[:-1], origin[-1]
        if self.product.swapped:
            assert isinstance(count, int)
            with b.loop(0, width) as turn:
                at = advance_address(b, place, turn.index, 1, type)
                wide = 1 << (count - 1).bit_length()
                value = b.load(at, type)
                if count > 1:
                    value = b.gather(at, b.mul(b.iota(wide), self.stride), type, count)
                self._hand_over_parts(
                    (*index, b.add(column, turn.index), row),
                    [(0, 0, value, ColumnSpan(count).mask(0, value.type.lanes))],
                )
            return
        with b.loop(0, count) as turn:
            line = advance_address(b, place, turn.index, self.stride, type)
            here = (*index, b.add(row, turn.index), column)
            vector = type.of(min(lanes, 1 << (width - 1).bit_length()))
            whole = width // lanes
            looped = whole * lanes if whole > MAX_UNROLLED_REGISTERS else 0
            if looped:
                with b.loop(0, looped, lanes) as along:
                    value = b.load(advance_address(b, line, along.index, 1, type), vector)
                    self._hand_over_parts((*here[:-1], b.add(column, along.index)), [(0, 0, value, None)])
            starts = range(looped, width, lanes)
            values = [b.load(advance_address(b, line, s, 1, type), vector) for s in starts]
            parts = [(0, s, v, span.mask(s, v.type.lanes)) for s, v in zip(starts, values, strict=True)]
            self._hand_over_parts(here, parts)

    def _hand_over(self, sums: Sequence[Sequence[Reg]], span: ColumnSpan, origin: Sequence[Reg]) -> None:
        """A block finished from its registers."""
        lanes = self.product.lanes
        starts = range(0, span.width, lanes)
        self._hand_over_parts(
            origin,
            [
                (r, s, value, span.mask(s, value.type.lanes))
                for r, line in enumerate(sums)
                for s, value in zip(starts, line, strict=True)
            ],
        )

    def _hand_over_parts(self, origin: Sequence[Reg], parts: Sequence[tuple[int, int, Reg, Reg | int | None]]) -> None:
        """Hand over parts at (row, column) after an origin in the plane: as the result counts them."""
        if not parts:
            return
        merged, batch = self.product.merged, self.product.batch
        ahead = (0,) * len(batch)
        index, row, column = origin[:-2], origin[-2], origin[-1]
        if not merged:
            self.finish(
                [*index, row, column], [ResultRegister((*ahead, r, c), value, mask) for r, c, value, mask in parts]
            )
            return
        for below in sorted({r for r, *_ in parts}):
            digits = unravel_index(self.b, self.b.add(row, below), (*batch[len(batch) - merged :], self.product.m))
            mine = [ResultRegister((*ahead, 0, c), value, mask) for r, c, value, mask in parts if r == below]
            self.finish([*index, *digits, column], mine)

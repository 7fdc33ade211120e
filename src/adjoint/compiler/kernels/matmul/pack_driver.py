"""The operands of a matrix product packed into scratch memory, as its plan wants them."""

from __future__ import annotations

from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.kernels.index_arithmetic import Index, advance_address, min_index, subtract_index
from adjoint.compiler.kernels.matmul import bf16_pairs, packing
from adjoint.compiler.kernels.matmul.operand import MatmulOperand
from adjoint.compiler.kernels.matmul.panel_layout import PanelLayout, Range
from adjoint.compiler.llvm.types import Reg


class PanelPacker(PanelLayout):
    """Packs the left operand for a tile, and the right one panel by panel."""

    def pack_left(self, left: MatmulOperand, rows: Range, length: Index) -> None:
        """The rows of a tile, over a stretch of the depth."""
        paired_lines = self.blocking.is_paired and self.plane.left.column == 1
        if self.blocking.is_tiled or self.blocking.along_depth or paired_lines:
            self._pack_lines(left, rows, length)
        else:
            self._pack_rows(left, rows, length)

    def _pack_lines(self, left: MatmulOperand, rows: Range, length: Index) -> None:
        """Each row by itself."""
        b, strides, line = self.b, self.plane.left, self.product.line
        top = self.row(rows[0])
        count = subtract_index(b, self.row(rows[1]), top)
        lines, to, apart = left.skip_rows(b, top), self.packed_left, self.part_strides.left
        if self.blocking.along_depth:
            packing.pack_lines(b, lines.pointer, strides.row, strides.column, to, line, self.vector, count, length)
        elif strides.column == 1:
            bf16_pairs.pack_lines(b, lines, to, line, count, length, apart)
        else:
            bf16_pairs.pack_transposed_lines(b, lines, to, line, count, length, apart)

    def _pack_rows(self, left: MatmulOperand, rows: Range, length: Index) -> None:
        """The panels of rows, a few steps for all at a time: neighbouring panels read the same cache lines."""
        b, paired = self.b, self.blocking.is_paired
        few = 16 if paired else 8
        with b.loop(0, length, few) as steps, b.loop(*rows) as turn:
            source = left.skip_rows(b, self.row(turn.index)).skip_columns(b, steps.index)
            place = self.packed_rows(subtract_index(b, turn.index, rows[0]))
            count = b.minimum(subtract_index(b, length, steps.index), few)
            first = bf16_pairs.halve_index(b, steps.index) if paired else steps.index
            for height in self.branch_by_count(turn.index, self.longer, self.rows + 1, self.panels, self.rows):
                pitch = self.product.left_pitch(height)
                to = advance_address(b, place, first, pitch, self.vector)
                if paired:
                    bf16_pairs.pack_columns(b, source.transpose, to, height, None, count)
                else:
                    packing.pack_rows(b, source, to, self.vector, height, pitch, count)

    def packed_rows(self, panel: Index) -> Reg:
        """Return the address of a panel of packed rows, so many panels below the tile's first."""
        return advance_address(self.b, self.packed_left, panel, self.product.left_panel, self.vector)

    def pack_right(self, source: MatmulOperand, ragged: Reg | None, length: Index) -> None:
        """The panel that begins at `source`, of which `ragged` columns exist if that may be fewer than its width."""
        b, right, width, vector = self.b, self.plane.right, self.blocking.width, self.vector
        if self.blocking.is_paired:
            to, apart = self.packed_right, self.part_strides.right
            if right.column == 1:
                bf16_pairs.pack_columns(b, source, to, width, ragged, length, apart, whole=self.blocking.is_tiled)
            else:
                bf16_pairs.pack_transposed(b, source, to, width, ragged, length, apart)
        elif self.blocking.along_depth:
            lines = width if ragged is None else min_index(b, ragged, width)
            packing.pack_lines(
                b, source.pointer, right.column, right.row, self.packed_right, self.product.line, vector, lines, length
            )
        elif right.row == 1 and right.column != 1:
            most = None if is_symbolic_size(self.product.steps) else self.product.longest
            packing.pack_transposed(b, source, self.packed_right, vector, width, ragged, length, most)
        else:
            packing.pack_columns(b, source, self.packed_right, vector, width, ragged, length)

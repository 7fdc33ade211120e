"""A planned matrix product: what its plan has decided, and what follows from that."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import size_value
from adjoint.compiler.kernels.matmul.blocking import Blocking, MatrixStrides, pad_rows, round_up
from adjoint.compiler.llvm.types import Type

Shape = tuple[int, ...]


class Plane(NamedTuple):
    """The product as it is computed: batches of rows made one matrix, and transposed if that fills the lanes."""

    batch: Shape
    m: int
    n: int
    left: MatrixStrides
    right: MatrixStrides

    @property
    def as_traced(self) -> Plane:
        """The plane in the call that is traced."""
        batch, m, n, left, right = self
        return Plane(tuple(map(size_value, batch)), size_value(m), size_value(n), left.as_traced, right.as_traced)


class MatmulPlan(NamedTuple):
    """A planned product (batch…, m, k) @ (batch…, k, n) of elements of `type`.

    `batch`, `m`, `n` and `k` may be symbolic, and `depth` with `k`.
    """

    batch: Shape
    m: int
    n: int
    k: int
    left: MatrixStrides
    right: MatrixStrides
    type: Type
    plane: Plane
    merged: int  # batch dimensions that are rows of the plane
    swapped: bool  # whether the plane is transposed: its columns are rows of the result
    lanes: int
    blocking: Blocking
    depth: int  # steps summed in registers; partial sums of more wait in scratch memory
    direct: bool  # whether blocks are finished from registers: less time for a short depth, more code
    grid: tuple[int, int, int]  # parts of the batch, of the rows and of the columns, which tiles are made of
    tiles: int
    split: bool  # whether sums are made in more than one stretch
    longest: int  # steps of the longest stretch
    strip: int  # panels of rows whose sums wait in scratch memory at once; 0: all of a tile
    scratch: int  # bytes for each thread
    reason: str

    @property
    def steps(self) -> int:
        """The steps of the whole depth: elements, or pairs of them."""
        return depth_steps(self.blocking, self.k)

    @property
    def line(self) -> int:
        """Elements of scratch memory that a line along the depth takes."""
        line = round_up(self.longest, self.lanes)
        apart = self.blocking.is_paired and line * self.type.itemsize % 512 == 0  # or lines push each other out
        return line + self.lanes if apart else line

    def left_pitch(self, rows: int) -> int:
        """Elements from one step to the next in a panel of so many packed rows.

        Pairs follow each other without a gap.
        """
        return rows if self.blocking.is_paired else pad_rows(self.blocking.rows)

    @property
    def left_panel(self) -> int:
        """Elements from one panel of packed rows to the next.

        They lie a register further apart than they are long: else the steps of all would share few sets of the cache.
        """
        return self.longest * self.left_pitch(self.blocking.rows) + self.lanes

    @property
    def padded_steps(self) -> int:
        """Steps, filled up with those of zeros where whole turns of the innermost loop are needed."""
        return round_up(self.steps, steps_per_turn(self.blocking, self.lanes)) if self.blocking.is_tiled else self.steps


def depth_steps(blocking: Blocking, k: int) -> int:
    """Steps along a depth of k elements, or of pairs of them."""
    return -(-k // 2) if blocking.is_paired else k


def steps_per_turn(blocking: Blocking, lanes: int) -> int:
    """Steps in one turn of the innermost loop."""
    return blocking.unroll * (lanes if blocking.along_depth else 1)

"""An operand of a matrix product as it is packed: an array, or what is computed of the elements of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from adjoint.compiler.kernels.index_arithmetic import Index, advance_address, lane_offsets
from adjoint.compiler.kernels.matmul.blocking import MatrixStrides
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import Reg, Type


class StridedArray(NamedTuple):
    """An array that an operand reads: the address of its first element, its type, and the steps to the others."""

    pointer: Reg
    type: Type
    strides: MatrixStrides

    def advance(self, b: Builder, index: Index, stride: int) -> StridedArray:
        """`index` strides further."""
        return self._replace(pointer=advance_address(b, self.pointer, index, stride, self.type))


class MatmulOperand(NamedTuple):
    """A matrix, from the element that it was moved to; `compute` gives a register of it from those of its places."""

    places: tuple[StridedArray, ...]
    compute: Callable[[Sequence[Reg], int], Reg] | None = None

    @classmethod
    def plain(cls, pointer: Reg, type: Type, strides: MatrixStrides) -> MatmulOperand:
        """An array."""
        return cls((StridedArray(pointer, type, strides),))

    @property
    def pointer(self) -> Reg:
        """The address of the element, for an array."""
        return self.places[0].pointer

    @property
    def is_computed(self) -> bool:
        """True if the operand is no array: lanes off a mask may then hold anything."""
        return self.compute is not None

    @property
    def transpose(self) -> MatmulOperand:
        """The transposed matrix."""
        return self._with_places([p._replace(strides=p.strides.swapped_strides) for p in self.places])

    def of_batch(self, b: Builder, dimension: int, index: Index) -> MatmulOperand:
        """The matrix at an index in a dimension of the batch."""
        return self._with_places([p.advance(b, index, p.strides.batch[dimension]) for p in self.places])

    def skip_rows(self, b: Builder, rows: Index) -> MatmulOperand:
        """Return the operand that begins `rows` further down."""
        return self._with_places([p.advance(b, rows, p.strides.row) for p in self.places])

    def skip_columns(self, b: Builder, columns: Index) -> MatmulOperand:
        """Return the operand that begins `columns` further to the right."""
        return self._with_places([p.advance(b, columns, p.strides.column) for p in self.places])

    def load_row(self, b: Builder, lanes: int, mask: Reg | int | None = None) -> Reg:
        """A register of neighbours in a row."""
        return self._register(b, [p.strides.column for p in self.places], lanes, mask)

    def load_column(self, b: Builder, lanes: int, mask: Reg | int | None = None) -> Reg:
        """A register of neighbours in a column."""
        return self._register(b, [p.strides.row for p in self.places], lanes, mask)

    def _with_places(self, places: list[StridedArray]) -> MatmulOperand:
        return self._replace(places=tuple(places))

    def _register(self, b: Builder, steps: Sequence[int], lanes: int, mask: Reg | int | None) -> Reg:
        read = [_read(b, place, step, lanes, mask) for place, step in zip(self.places, steps, strict=True)]
        return read[0] if self.compute is None else self.compute(read, lanes)


def _read(b: Builder, place: StridedArray, step: int, lanes: int, mask: Reg | int | None) -> Reg:
    """Elements `step` apart."""
    if step == 1:
        return b.load(place.pointer, place.type.of(lanes), mask)
    if step == 0:
        return b.broadcast(b.load(place.pointer, place.type), lanes)
    return b.gather(place.pointer, lane_offsets(b, lanes, step), place.type.of(lanes), mask)

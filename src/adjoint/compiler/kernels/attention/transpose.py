"""Rows of a matrix written side by side into lanes: what a product over its columns reads."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.kernels.attention.tile_matmul import TileMatrix
from adjoint.compiler.kernels.index_arithmetic import Index, as_index, scale_index
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg, Type


def write_transposed(
    b: Builder,
    kind: Type,
    source: TileMatrix,
    rows: Reg | int,
    columns: int,
    into: Reg,
    width: int,
    factor: float = 1.0,
) -> None:
    """into[c · width + r] = source[r, c] · factor; rows beyond the last repeat it.

    `kind`: a register of elements; `width` is a multiple of its lanes. `columns` may be symbolic.
    """
    lanes, scalar = kind.lanes, kind.scalar
    piece = min(128 // kind.bits, lanes)
    whole = columns - columns % piece if source.column == 1 else 0
    if isinstance(rows, Reg):
        end = b.sub(rows, 1)
        at: list[Index] = [scale_index(b, b.minimum(r, end), source.row) for r in range(width)]
    else:
        at = [min(r, rows - 1) * source.row for r in range(width)]

    def put(value: Reg, place: Reg, offset: int) -> None:
        b.store(value if factor == 1.0 else b.mul(value, factor), b.gep(place, offset, scalar))

    if is_symbolic_size(whole) or whole:
        with b.loop(0, whole, piece) as turn:
            corner = b.gep(source.pointer, turn.index, scalar)
            place = b.gep(into, b.mul(turn.index, width), scalar)
            for first in range(0, width, lanes):
                loaded = [
                    b.load(b.gep(corner, offset, scalar), scalar.of(piece)) for offset in at[first : first + lanes]
                ]
                for c, value in enumerate(_transpose_pieces(b, loaded, piece)):
                    put(value, place, c * width + first)
    if is_symbolic_size(whole) or whole < columns:
        with b.loop(whole, columns) as turn:
            corner = b.gep(source.pointer, b.mul(turn.index, source.column), scalar)
            place = b.gep(into, b.mul(turn.index, width), scalar)
            for first in range(0, width, lanes):
                put(b.gather(corner, _join_lanes(b, at[first : first + lanes]), scalar), place, first)


def _join_lanes(b: Builder, offsets: Sequence[Index]) -> Reg:
    """Offsets as one register."""
    numbers = [x for x in offsets if isinstance(x, int) and not is_symbolic_size(x)]
    if len(numbers) == len(offsets):
        return b.vector(numbers, I64)
    joined = b.vector([0] * len(offsets), I64)
    for lane, offset in enumerate(offsets):
        joined = b.insert(joined, as_index(b, offset), lane)
    return joined


def _transpose_pieces(b: Builder, loaded: list[Reg], piece: int) -> list[Reg]:
    """Transpose pieces of rows into one register for each column."""
    # register r has the rows r, r + piece, …: then each group of lanes is a square to be turned about
    rows = [_concat_registers(b, loaded[r::piece]) for r in range(piece)]
    if piece == 1:
        return rows
    if piece == 2:
        return [_shuffle_groups(b, rows[0], rows[1], chosen) for chosen in ((0, 2), (1, 3))]
    low, high, first, second = (0, 4, 1, 5), (2, 6, 3, 7), (0, 1, 4, 5), (2, 3, 6, 7)  # what one instruction does each
    found = []
    for interleaved in (low, high):
        x, y = _shuffle_groups(b, rows[0], rows[1], interleaved), _shuffle_groups(b, rows[2], rows[3], interleaved)
        found += [_shuffle_groups(b, x, y, first), _shuffle_groups(b, x, y, second)]
    return found


def _shuffle_groups(b: Builder, x: Reg, y: Reg, chosen: Sequence[int]) -> Reg:
    """Lanes chosen in the same way from each 128 bits of x, then of y."""
    lanes, piece = x.type.lanes, len(chosen)
    return _shuffle_lanes(
        b, x, y, [g + i % piece + lanes * (i // piece) for g in range(0, lanes, piece) for i in chosen]
    )


def _concat_registers(b: Builder, parts: list[Reg]) -> Reg:
    while len(parts) > 1:
        count = 2 * parts[0].type.lanes
        parts = [_shuffle_lanes(b, x, y, range(count)) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _shuffle_lanes(b: Builder, x: Reg, y: Reg, chosen: Sequence[int]) -> Reg:
    """Lanes of x, then of y, by number."""
    type = x.type.scalar.of(len(chosen))
    lanes = ", ".join(f"i32 {lane}" for lane in chosen)
    return b.emit(
        f"shufflevector {x.type.text} {x.name}, {y.type.text} {y.name}, <{len(chosen)} x i32> <{lanes}>", type
    )

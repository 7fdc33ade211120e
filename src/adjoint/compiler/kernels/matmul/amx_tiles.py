"""Products in tile registers (AMX): 16 × 16 sums, or 16 rows of 16 pairs of bfloat16, in each of eight.

Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18; and `TDPBF16PS` in volume 2.
Denormals count as 0, as do sums that are denormal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from adjoint.compiler.kernels.index_arithmetic import Index, advance_address
from adjoint.compiler.kernels.matmul.bf16_pairs import VECTOR
from adjoint.compiler.kernels.matmul.blocking import TILE_ROWS
from adjoint.compiler.kernels.matmul.microkernel import LoadSource
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I8, I32, I64, Reg

TILE_REGISTERS = 8
TILE_CONFIG_BYTES = 64  # bytes that say how large each tile is


class PartStrides(NamedTuple):
    """The distance, in elements, from the first part of an operand that is packed as pairs to its second part."""

    left: int
    right: int


@contextmanager
def configure_tiles(b: Builder, place: Reg) -> Iterator[None]:
    """Tile registers for what is written inside, all of them whole; the settings are written to `place`."""
    of_bytes, of_rows = TILE_ROWS * 4 * 0x0001_0001, TILE_ROWS * 0x0101_0101
    words = [1, 0, 0, 0, *[of_bytes] * 4, 0, 0, 0, 0, of_rows, of_rows, 0, 0]  # the first is the palette
    b.store(b.vector(words, I32.of(len(words))), place)
    b.external_command("llvm.x86.ldtilecfg", [place])
    yield
    b.external_command("llvm.x86.tilerelease", [])


def sum_tiles(
    b: Builder,
    left: LoadSource,
    right: LoadSource,
    part_strides: PartStrides,
    tall: int,
    wide: int,
    parts: int,
    steps: Index,
    place: Reg,
    stride: int,
) -> None:
    """A block of `tall` × `wide` tiles summed over `steps` pairs, which are multiples of 16, and written to `place`.

    Of two parts the product of the first ones is summed by itself, and below it what the second ones add: where the
    operands are infinite or NaN, only the first sum says what their product is.
    """
    sums = {(s, r, c): (s * tall + r) * wide + c for s in range(parts) for r in range(tall) for c in range(wide)}
    rows = range(len(sums), len(sums) + tall)
    columns = range(rows.stop, TILE_REGISTERS)
    for tile in sums.values():
        b.external_command("llvm.x86.tilezero", [_number(b, tile)])
    with b.loop(0, steps, TILE_ROWS) as turn:
        x = advance_address(b, left.pointer, turn.index, left.step, VECTOR)
        y = advance_address(b, right.pointer, turn.index, right.line, VECTOR)
        # The order of the three partial products lets the left tiles of part 0 serve two of them; a right tile that is
        # still loaded is not loaded again.
        held: dict[int, tuple[int, int]] = {}
        of_left = None
        for p, q in [(0, 0)] if parts == 1 else [(1, 0), (0, 0), (0, 1)]:
            if p != of_left:
                for r in range(tall):
                    _load(
                        b,
                        rows[r],
                        advance_address(b, x, p * part_strides.left + r * TILE_ROWS * left.line, 1, VECTOR),
                        left.line,
                    )
                of_left = p
            for c in range(wide):
                column = columns[c % len(columns)]
                if held.get(column) != (q, c):
                    _load(
                        b, column, advance_address(b, y, q * part_strides.right + c * TILE_ROWS, 1, VECTOR), right.line
                    )
                    held[column] = q, c
                for r in range(tall):
                    tiles = (sums[min(p + q, 1), r, c], rows[r], column)
                    b.external_command("llvm.x86.tdpbf16ps", [_number(b, tile) for tile in tiles])
    for (s, r, c), tile in sums.items():
        to = advance_address(b, place, ((s * tall + r) * stride + c) * TILE_ROWS, 1, VECTOR)
        b.external_command("llvm.x86.tilestored64", [_number(b, tile), to, b.constant(4 * stride, I64)])


def accumulate_parts(
    b: Builder, sums: Reg, rows: int, width: int, stride: int, parts: int, place: Reg, first: Reg | None
) -> None:
    """A block's sums, their parts added up, written to `place`: on top of those there, unless they are the first."""
    with b.loop(0, rows) as turn:
        line, out = (
            advance_address(b, sums, turn.index, stride, VECTOR),
            advance_address(b, place, turn.index, stride, VECTOR),
        )
        for start in range(0, width, TILE_ROWS):
            value, to = (
                b.load(advance_address(b, line, start, 1, VECTOR), VECTOR),
                advance_address(b, out, start, 1, VECTOR),
            )
            if parts == 2:
                small = b.load(advance_address(b, line, rows * stride + start, 1, VECTOR), VECTOR)
                value = b.add(value, b.select(b.isfinite(value), small, b.constant(0.0, VECTOR)))
            if first is not None:
                value = b.add(value, b.select(first, b.constant(0.0, VECTOR), b.load(to, VECTOR)))
            b.store(value, to)


def _load(b: Builder, tile: int, place: Reg, line: int) -> None:
    b.external_command("llvm.x86.tileloadd64", [_number(b, tile), place, b.constant(4 * line, I64)])


def _number(b: Builder, tile: int) -> Reg:
    return b.constant(tile, I8)

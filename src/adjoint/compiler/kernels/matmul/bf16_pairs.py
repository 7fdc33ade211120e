"""Operands rounded to bfloat16 in scratch memory: two neighbours along the depth take the place of one float32.

A product of such pairs has half the depth, and each of its steps adds two products. Rounding is to the nearest, ties to
even; NaN and infinities stay what they are; denormals count as 0, as do sums that are denormal. Where an operand is
packed in two parts, what rounding took from an element is the second, which lies `apart` elements behind the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adjoint.compiler.kernels.index_arithmetic import Index, advance_address, scale_index, subtract_index
from adjoint.compiler.kernels.matmul.operand import MatmulOperand
from adjoint.compiler.kernels.matmul.packing import transpose
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BF16, F32, Reg, Type

LANES = 16
VECTOR = F32.of(LANES)  # of sums, and of pairs as they are moved about


class _Halves(Type):
    """A register of bfloat16."""

    @property
    def text(self) -> str:
        """The spelling of LLVM."""
        return f"<{self.lanes} x bfloat>"


HALVES = _Halves("f", 16, 2 * LANES)


def multiply_add(b: Builder, x: Reg, y: Reg, sums: Reg) -> Reg:
    """sums + x₀ y₀ + x₁ y₁ in each lane, of the pairs in x and y."""
    pairs = [b.emit(f"bitcast {VECTOR.text} {z.name} to {HALVES.text}", HALVES) for z in (x, y)]
    return b.external("llvm.x86.avx512bf16.dpbf16ps.512", [sums, *pairs], VECTOR)


def pack_columns(
    b: Builder,
    source: MatmulOperand,
    place: Reg,
    width: int,
    ragged: Reg | None,
    depth: Index,
    part_stride: int = 0,
    whole: bool = False,
) -> None:
    """place[p * width + j] = the pair of source[k, j] for k = 2p and 2p + 1: rows whose elements are neighbours.

    Of the columns only `ragged` exist if given. Writes up to a register beyond the end. `whole`: rows of 0 follow up to
    a multiple of 16.
    """
    starts = range(0, width, LANES)
    masks = [width - start if ragged is None else b.lane_mask(b.sub(ragged, start), LANES) for start in starts]
    for k, rest in _depth_steps(b, depth, 2):
        first = source.skip_rows(b, k)
        second = first.skip_rows(b, 1)
        out = advance_address(b, place, halve_index(b, k), width, VECTOR)
        for start, mask in zip(starts, masks, strict=True):
            low = first.skip_columns(b, start).load_row(b, LANES, mask)
            high = b.constant(0.0, VECTOR) if rest else second.skip_columns(b, start).load_row(b, LANES, mask)
            for i, halves in enumerate(_round_to_bfloat16(b, low, high, part_stride)):
                b.store(_interleave_halves(b, halves), advance_address(b, out, start + i * part_stride, 1, VECTOR))
    if whole:
        filled = (depth + 1) // 2 if isinstance(depth, int) else halve_index(b, b.add(depth, 1))
        rows = -filled % LANES if isinstance(filled, int) else b.bitwise_and(b.sub(0, filled), LANES - 1)
        at = advance_address(b, place, filled, width, VECTOR)
        with b.loop(0, scale_index(b, rows, width), LANES) as turn:
            for i in range(2 if part_stride else 1):
                b.store(
                    b.constant(0.0, VECTOR),
                    advance_address(b, b.gep(at, turn.index, VECTOR), i * part_stride, 1, VECTOR),
                )


def pack_transposed(
    b: Builder, source: MatmulOperand, place: Reg, width: int, ragged: Reg | None, depth: Index, part_stride: int = 0
) -> None:
    """As `pack_columns` for columns whose elements are neighbours; of those that do not exist the last takes the place.

    Squares of registers are written whole, up to a square's rows beyond the depth.
    """
    columns: Index = width if ragged is None else b.minimum(ragged, width)
    with b.loop(0, columns, LANES) as across:
        lines = []
        for i in range(LANES):
            j: Reg = b.add(across.index, i)
            if ragged is not None:
                j = b.minimum(j, b.sub(ragged, 1))
            lines.append(source.skip_columns(b, j))
        for k, rest in _depth_steps(b, depth, 2 * LANES):
            out = b.gep(advance_address(b, place, halve_index(b, k), width, VECTOR), across.index, VECTOR)
            masks = _masks(b, rest)
            read = [
                [
                    line.skip_rows(b, k).skip_rows(b, i * LANES).load_column(b, LANES, mask)
                    for i, mask in enumerate(masks)
                ]
                for line in lines
            ]
            pairs = [_pair_along_depth(b, both, masks, source.is_computed, part_stride) for both in read]
            for part, rows in enumerate(zip(*pairs, strict=True)):
                for i, value in enumerate(transpose(b, rows)):
                    b.store(value, advance_address(b, out, i * width + part * part_stride, 1, VECTOR))


def pack_lines(
    b: Builder, source: MatmulOperand, place: Reg, length: int, lines: Index, depth: Index, part_stride: int = 0
) -> None:
    """place[i * length + p] = the pair of source[i, k] for k = 2p and 2p + 1: each line by itself."""
    with b.loop(0, lines) as turn:
        start = source.skip_rows(b, turn.index)
        out = advance_address(b, place, turn.index, length, VECTOR)
        for k, rest in _depth_steps(b, depth, 2 * LANES):
            masks = _masks(b, rest)
            here = start.skip_columns(b, k)
            both = [here.skip_columns(b, i * LANES).load_row(b, LANES, mask) for i, mask in enumerate(masks)]
            for i, value in enumerate(_pair_along_depth(b, both, masks, source.is_computed, part_stride)):
                b.store(
                    value,
                    advance_address(
                        b, advance_address(b, out, halve_index(b, k), 1, VECTOR), i * part_stride, 1, VECTOR
                    ),
                )


def pack_transposed_lines(
    b: Builder, source: MatmulOperand, place: Reg, length: int, lines: Index, depth: Index, part_stride: int = 0
) -> None:
    """As `pack_lines` for lines side by side in memory. Writes whole squares of registers."""
    with b.loop(0, lines, LANES) as down:
        start = source.skip_rows(b, down.index)
        line = advance_address(b, place, down.index, length, VECTOR)
        mask = b.lane_mask(subtract_index(b, lines, down.index), LANES)
        for k, rest in _depth_steps(b, depth, 2 * LANES):
            first, nothing = start.skip_columns(b, k), b.constant(False, mask.type)
            read = []
            for i in range(2 * LANES):
                exists = mask if rest is None else b.select(b.lt(i, rest), mask, nothing)
                value = first.skip_columns(b, i).load_column(b, LANES, exists)
                read.append(_zero_masked_lanes(b, value, exists) if source.is_computed else value)
            joined = [
                _round_to_bfloat16(b, low, high, part_stride) for low, high in zip(read[::2], read[1::2], strict=True)
            ]
            for part, halves in enumerate(zip(*joined, strict=True)):
                out = advance_address(
                    b, advance_address(b, line, halve_index(b, k), 1, VECTOR), part * part_stride, 1, VECTOR
                )
                for i, value in enumerate(transpose(b, [_interleave_halves(b, h) for h in halves])):
                    b.store(value, advance_address(b, out, i, length, VECTOR))


def _depth_steps(b: Builder, depth: Index, step: int) -> Iterator[tuple[Reg, Reg | None]]:
    """Loops over the depth: each whole step, and then what is left, with how much that is."""
    whole = depth - depth % step if isinstance(depth, int) else b.bitwise_and(depth, -step)
    if whole != 0:
        with b.loop(0, whole, step) as turn:
            yield turn.index, None
    if whole != depth:
        with b.loop(whole, depth, step) as turn:
            rest = subtract_index(b, depth, turn.index)
            assert isinstance(rest, Reg)
            yield turn.index, rest


def _masks(b: Builder, rest: Reg | None) -> list[Reg | None]:
    """Return the masks of two registers along the depth of which only a `rest` of the lanes exists."""
    return [rest and b.lane_mask(b.sub(rest, at), LANES) for at in (0, LANES)]


def _pair_along_depth(
    b: Builder, both: Sequence[Reg], masks: Sequence[Reg | None], computed: bool, part_stride: int
) -> list[Reg]:
    """The pairs of neighbours in two registers, each part of them; 0 for lanes that do not exist."""
    low, high = (_zero_masked_lanes(b, x, mask) if computed else x for x, mask in zip(both, masks, strict=True))
    return [_as_pairs(b, halves) for halves in _round_to_bfloat16(b, low, high, part_stride)]


def _zero_masked_lanes(b: Builder, x: Reg, mask: Reg | None) -> Reg:
    """The lanes on the mask of what was computed; 0 in the others."""
    return x if mask is None else b.select(mask, x, b.constant(0.0, x.type))


def _round_to_bfloat16(b: Builder, low: Reg, high: Reg, part_stride: int) -> list[Reg]:
    """bfloat16 of all lanes of one register and then of another; if two parts are wanted, also what that took away."""
    name = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
    parts = [b.external(name, [high, low], HALVES)]
    if part_stride:
        bits = b.emit(f"bitcast {HALVES.text} {parts[0].name} to {BF16.of(2 * LANES).text}", BF16.of(2 * LANES))
        kept = b.split_lanes(bits, LANES * BF16.bits)
        low, high = (b.sub(x, b.cast(h, F32)) for x, h in zip((low, high), kept, strict=True))
        parts.append(b.external(name, [high, low], HALVES))
    return parts


def _interleave_halves(b: Builder, halves: Reg) -> Reg:
    """The pairs of one of the lower and one of the upper lanes each."""
    lanes = ", ".join(f"i32 {i // 2 + i % 2 * LANES}" for i in range(2 * LANES))
    order = f"<{2 * LANES} x i32> <{lanes}>"
    return _as_pairs(b, b.emit(f"shufflevector {HALVES.text} {halves.name}, {HALVES.text} poison, {order}", HALVES))


def _as_pairs(b: Builder, halves: Reg) -> Reg:
    return b.emit(f"bitcast {HALVES.text} {halves.name} to {VECTOR.text}", VECTOR)


def halve_index(b: Builder, k: Reg) -> Reg:
    """k / 2."""
    return b.emit(f"lshr i64 {k.name}, 1", k.type)

"""Operands rounded to bfloat16 in scratch memory: two neighbours along the depth take the place of one float32.

A product of such pairs has half the depth, and each of its steps adds two products. Rounding is to the nearest, ties to
even; NaN and infinities stay what they are; denormals count as 0, as do sums that are denormal.
"""

from __future__ import annotations

from collections.abc import Iterator

from adjoint.compiler.kernels.products.operand import Index, moved
from adjoint.compiler.kernels.products.packing import difference, transpose
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.target import Target
from adjoint.compiler.llvm.types import F32, Reg, Type

LANES = 16
VECTOR = F32.of(LANES)  # of sums, and of pairs as they are moved about


class _Halves(Type):
    """A register of bfloat16."""

    @property
    def text(self) -> str:
        """As LLVM spells it."""
        return f"<{self.lanes} x bfloat>"


HALVES = _Halves("f", 16, 2 * LANES)


def gain(target: Target, type: Type, precision: str) -> bool:
    """Whether products of `type` may be rounded at this precision, and are then faster than in float32.

    In the time of an fma of AMD's cores, which does 32 operations, `vdpbf16ps` does 64: 'medium' gains. 'high' asks for
    three such products, which take longer than the one of float32 that it is given. Intel's cores with AMX start two of
    the one in a cycle and one of the other: no gain, and nothing is written for AMX itself.
    """
    features = target.features.split(",")
    fast = "+avx512bf16" in features and "+amx-bf16" not in features and target.vector_bits == 512
    return fast and precision == "medium" and type == F32


def multiply_add(b: Builder, x: Reg, y: Reg, sums: Reg) -> Reg:
    """sums + x₀ y₀ + x₁ y₁ in each lane, of the pairs in x and y."""
    pairs = [b.emit(f"bitcast {VECTOR.text} {z.name} to {HALVES.text}", HALVES) for z in (x, y)]
    return b.external("llvm.x86.avx512bf16.dpbf16ps.512", [sums, *pairs], VECTOR)


def pack_columns(b: Builder, source: Reg, row: int, place: Reg, width: int, ragged: Reg | None, depth: Index) -> None:
    """place[p * width + j] = the pair of source[k * row + j] for k = 2p and 2p + 1: rows whose elements are neighbours.

    Of the columns only `ragged` exist if given. Writes up to a register beyond the end.
    """
    starts = range(0, width, LANES)
    masks = [width - start if ragged is None else b.lane_mask(b.sub(ragged, start), LANES) for start in starts]
    lanes = ", ".join(f"i32 {i // 2 + i % 2 * LANES}" for i in range(2 * LANES))
    order = f"<{2 * LANES} x i32> <{lanes}>"  # one of each half in turn
    for k, rest in _turns(b, depth, 2):
        first = moved(b, source, k, row, VECTOR)
        second = moved(b, first, 1, row, VECTOR)
        out = moved(b, place, half(b, k), width, VECTOR)
        for start, mask in zip(starts, masks, strict=True):
            low = b.load(moved(b, first, start, 1, VECTOR), VECTOR, mask)
            high = b.constant(0.0, VECTOR) if rest else b.load(moved(b, second, start, 1, VECTOR), VECTOR, mask)
            halves = _rounded(b, low, high)
            mixed = b.emit(f"shufflevector {HALVES.text} {halves.name}, {HALVES.text} poison, {order}", HALVES)
            b.store(_as_pairs(b, mixed), moved(b, out, start, 1, VECTOR))


def pack_transposed(
    b: Builder, source: Reg, column: int, place: Reg, width: int, ragged: Reg | None, depth: Index
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
            lines.append(moved(b, source, j, column, VECTOR))
        for k, rest in _turns(b, depth, 2 * LANES):
            out = b.gep(moved(b, place, half(b, k), width, VECTOR), across.index, VECTOR)
            rows = [_along(b, moved(b, line, k, 1, VECTOR), rest) for line in lines]
            for i, value in enumerate(transpose(b, rows)):
                b.store(value, moved(b, out, i, width, VECTOR))


def pack_lines(b: Builder, source: Reg, line: int, place: Reg, length: int, lines: Index, depth: Index) -> None:
    """place[i * length + p] = the pair of source[i * line + k] for k = 2p and 2p + 1: each line by itself."""
    with b.loop(0, lines) as turn:
        start = moved(b, source, turn.index, line, VECTOR)
        out = moved(b, place, turn.index, length, VECTOR)
        for k, rest in _turns(b, depth, 2 * LANES):
            b.store(_along(b, moved(b, start, k, 1, VECTOR), rest), moved(b, out, half(b, k), 1, VECTOR))


def _turns(b: Builder, depth: Index, step: int) -> Iterator[tuple[Reg, Reg | None]]:
    """Loops over the depth: each whole step, and then what is left, with how much that is."""
    whole = depth - depth % step if isinstance(depth, int) else b.bitwise_and(depth, -step)
    if whole != 0:
        with b.loop(0, whole, step) as turn:
            yield turn.index, None
    if whole != depth:
        with b.loop(whole, depth, step) as turn:
            rest = difference(b, depth, turn.index)
            assert isinstance(rest, Reg)
            yield turn.index, rest


def _along(b: Builder, start: Reg, rest: Reg | None) -> Reg:
    """The pairs of neighbours from `start`; 0 beyond the `rest`."""
    masks = [rest and b.lane_mask(b.sub(rest, at), LANES) for at in (0, LANES)]
    low, high = (b.load(moved(b, start, i * LANES, 1, VECTOR), VECTOR, mask) for i, mask in enumerate(masks))
    return _as_pairs(b, _rounded(b, low, high))


def _rounded(b: Builder, low: Reg, high: Reg) -> Reg:
    """bfloat16 of all lanes of one register and then of another."""
    return b.external("llvm.x86.avx512bf16.cvtne2ps2bf16.512", [high, low], HALVES)


def _as_pairs(b: Builder, halves: Reg) -> Reg:
    return b.emit(f"bitcast {HALVES.text} {halves.name} to {VECTOR.text}", VECTOR)


def half(b: Builder, k: Reg) -> Reg:
    """k / 2."""
    return b.emit(f"lshr i64 {k.name}, 1", k.type)

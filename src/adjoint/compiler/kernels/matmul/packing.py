"""Operands copied into scratch memory, in the order in which a matrix product reads them."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.compiler.kernels.index_arithmetic import Index, advance_address, as_index, lane_offsets, subtract_index
from adjoint.compiler.kernels.matmul.operand import MatmulOperand
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import Reg, Type


def transpose(b: Builder, rows: Sequence[Reg]) -> list[Reg]:
    """The columns of a square of as many registers as each has lanes."""
    # The plain loop: columns[c][r] = rows[r][c], lanes² loads and stores. In registers it takes lanes · log2(lanes)
    # shuffles; those within 128 bits come first, since they take one cycle where wider ones take three.
    type = rows[0].type
    quad = min(max(128 // type.bits, 1), type.lanes)  # lanes that a cheap shuffle stays within
    groups = [deinterleave(b, rows[i : i + quad], 1, quad) for i in range(0, type.lanes, quad)]
    columns = [deinterleave(b, [group[c] for group in groups], quad, type.lanes) for c in range(quad)]
    return [column for across in zip(*columns, strict=True) for column in across]


def fold_lanes(b: Builder, sums: Sequence[Reg]) -> Reg:
    """Each register's lanes added up: lane i is the sum of the i-th; at most as many as lanes, the rest repeat."""
    # The plain loop: lane i = sum(sums[i]). Two registers at a time are folded into one, so that n registers take n - 1
    # additions and twice as many shuffles, where one by one they take n · log2(lanes) of each.
    type = sums[0].type
    quad = min(max(128 // type.bits, 1), type.lanes)
    level = list(sums)
    level += level[-1:] * ((1 << (len(level) - 1).bit_length()) - len(level))
    for width, within in ((1, quad), (quad, type.lanes)):
        for _ in range((within // width).bit_length() - 1):
            pairs = zip(level[::2], level[1::2], strict=True) if len(level) > 1 else [(level[0], level[0])]
            level = [
                b.add(_pick_pieces(b, x, y, 0, width, within), _pick_pieces(b, x, y, 1, width, within))
                for x, y in pairs
            ]
    return level[0]


def pack_columns(
    b: Builder, source: MatmulOperand, place: Reg, vector: Type, width: int, ragged: Reg | None, depth: Index
) -> None:
    """place[k * width + j] = source[k, j]: a panel, of whose columns only `ragged` exist if given.

    Registers are read by themselves, or gathered, one row of the panel in each turn.
    """
    lanes = vector.lanes
    starts = range(0, width, lanes)
    masks = [b.lane_mask(b.sub(ragged, start), lanes) if ragged else None for start in starts]
    with b.loop(0, depth, 1) as turn:
        line = source.skip_rows(b, turn.index)
        out = advance_address(b, place, turn.index, width, vector)
        for start, mask in zip(starts, masks, strict=True):
            value = line.skip_columns(b, start).load_row(b, lanes, mask)
            b.store(value, advance_address(b, out, start, 1, vector))


def pack_transposed(
    b: Builder,
    source: MatmulOperand,
    place: Reg,
    vector: Type,
    width: int,
    ragged: Reg | None,
    depth: Index,
    most: int | None,
) -> None:
    """As `pack_columns` for rows that are neighbours, by squares of registers; `most`: the depth of any call, if known.

    Of columns that do not exist the last one takes the place. The last square begins as far before the end as it is
    deep: it may write up to a square's rows before `place` if `depth` is less than that. Where the depth may be any,
    one that is less has a square of its own, which may write as far beyond the end.
    """
    # The plain loop: for j, k: place[k * width + j] = source[k, j], whose reads run along k and writes along j. A
    # square of registers is read along k, turned by `transpose`, and written along j: no read or write of one element.
    lanes = vector.lanes
    deep = lanes if most is None else min(most, lanes)
    mask = b.lane_mask(as_index(b, depth), lanes) if most is None else deep
    columns = width if ragged is None else b.minimum(ragged, width)
    with b.loop(0, columns, lanes) as across:
        lines = []
        for i in range(lanes):
            j: Reg = b.add(across.index, i)
            if ragged is not None:
                j = b.minimum(j, b.sub(ragged, 1))
            lines.append(source.skip_columns(b, j))
        with b.loop(0, depth, lanes) as down:
            k: Index = 0
            if most is None or most > lanes:
                k = b.minimum(down.index, subtract_index(b, depth, lanes))
            if most is None:
                k = b.maximum(k, 0)
            rows = [line.skip_rows(b, k).load_column(b, lanes, mask) for line in lines]
            out = b.gep(advance_address(b, place, k, width, vector), across.index, vector)
            for i, value in enumerate(transpose(b, rows)[:deep]):
                b.store(value, advance_address(b, out, i, width, vector))


def pack_rows(b: Builder, source: MatmulOperand, place: Reg, vector: Type, rows: int, pitch: int, depth: Index) -> None:
    """place[k * pitch + i] = source[i, k] for neighbouring rows; what is beyond them is written too."""
    lanes = min(vector.lanes, pitch)
    with b.loop(0, depth) as turn:
        line = source.skip_columns(b, turn.index)
        out = advance_address(b, place, turn.index, pitch, vector)
        for start in range(0, rows, lanes):
            value = line.skip_rows(b, start).load_column(b, lanes, min(rows - start, lanes))
            b.store(value, advance_address(b, out, start, 1, vector))


def pack_lines(
    b: Builder, source: Reg, line: int, step: int, place: Reg, length: int, vector: Type, lines: Index, depth: Index
) -> None:
    """place[i * length + k] = source[i * line + k * step] for i < lines and k < depth: each line by itself."""
    lanes = vector.lanes
    steps = lane_offsets(b, lanes, step)
    with b.loop(0, lines) as turn:
        start = advance_address(b, source, turn.index, line, vector)
        out = advance_address(b, place, turn.index, length, vector)
        with b.loop(0, depth, lanes) as along:
            mask = b.lane_mask(b.sub(depth, along.index), lanes)
            value = b.gather(advance_address(b, start, along.index, step, vector), steps, vector, mask)
            b.store(value, advance_address(b, out, along.index, 1, vector))


def deinterleave(b: Builder, vectors: Sequence[Reg], width: int, within: int) -> list[Reg]:
    """Turn Q registers of Q pieces into the Q registers that hold one piece of each; in every `within` lanes alike."""
    if len(vectors) == 1:
        return list(vectors)
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    even = deinterleave(b, [_pick_pieces(b, x, y, 0, width, within) for x, y in pairs], width, within)
    odd = deinterleave(b, [_pick_pieces(b, x, y, 1, width, within) for x, y in pairs], width, within)
    return [piece for both in zip(even, odd, strict=True) for piece in both]


def _pick_pieces(b: Builder, x: Reg, y: Reg, odd: int, width: int, within: int) -> Reg:
    """The even or the odd pieces, `width` lanes each, of x and then of y; in every `within` lanes alike."""
    lanes = x.type.lanes
    chosen = [
        source + start + piece + lane
        for start in range(0, lanes, within)
        for source in (0, lanes)
        for piece in range(odd * width, within, 2 * width)
        for lane in range(width)
    ]
    order = ", ".join(f"i32 {lane}" for lane in chosen)
    return b.emit(f"shufflevector {x.type.text} {x.name}, {y.type.text} {y.name}, <{lanes} x i32> <{order}>", x.type)

"""Attention of a few queries, such as the one of a token that is decoded with a cache of keys and values.

For small arrays there is its gradient too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.llvm.types import I64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder

REGISTERS_AT_A_TIME = 4  # of a sum over the keys: enough to hide the latency of a fused multiply-add


def _attend(b: Builder, kind: Type, lanes: int, *operands: ArrayOperand | Reg) -> None:
    """out (B, L, H, Ev) = softmax(q kᵀ · scale) v of q (B, H, L, E), k (B, H, S, E) and v (B, H, S, Ev).

    `weights` has room for S numbers. Row i sees the keys up to i + `later`, as many as there are.
    """
    q, k, v, weights, out = (x for x in operands[:5] if isinstance(x, ArrayOperand))
    scale, heads, rows, later = (x for x in operands[5:-1] if isinstance(x, Reg))
    heads, rows, later = (b.cast(x, I64) for x in (heads, rows, later))
    keys = weights.size
    stacks = b.floor_divide(q.size, b.mul(rows, q.last))
    with b.loop(0, stacks) as stack:
        first_key = b.mul(stack.index, keys)
        batch = b.floor_divide(stack.index, heads)
        head = b.sub(stack.index, b.mul(batch, heads))
        with b.loop(0, rows) as row:
            seen = b.minimum(b.add(b.add(row.index, later), 1), keys)
            query = b.gep(q.data, b.mul(b.add(b.mul(stack.index, rows), row.index), q.last), kind)
            place = b.add(b.mul(b.add(b.mul(batch, rows), row.index), heads), head)
            target = b.gep(out.data, b.mul(place, out.last), kind)
            top = _write_scores(
                b, kind, lanes, query, b.gep(k.data, b.mul(first_key, k.last), kind), k.last, weights, seen, scale
            )
            total = _write_exponentials(b, kind, lanes, weights, seen, top)
            share = b.div(1.0, b.select(b.eq(total, 0.0), 1.0, total))
            values = b.gep(v.data, b.mul(first_key, v.last), kind)
            _write_average(b, kind, lanes, weights, seen, values, v.last, share, target)


def _write_scores(
    b: Builder, kind: Type, lanes: int, query: Reg, keys: Reg, size: Reg, weights: ArrayOperand, seen: Reg, scale: Reg
) -> Reg:
    """Write the scores of a query with its keys; return the largest."""
    low = b.constant(-math.inf, kind)
    with b.loop(0, seen, carried=[low]) as key:
        start = b.gep(keys, b.mul(key.index, size), kind)

        def add_products(index: Reg, mask: Reg | None, total: Reg) -> list[Reg]:
            x, y = (b.load(b.gep(place, index, kind), kind.of(lanes), mask) for place in (query, start))
            return [b.fma(x, y, total)]

        total = sweep(b, size, lanes, [b.constant(0.0, kind.of(lanes))], add_products)[0]
        score = b.mul(b.hsum(total), scale)
        b.store(score, b.gep(weights.data, key.index, kind))
        key.yields(b.maximum(key.carried[0], score))
    top = key.results[0]
    return b.select(b.eq(top, -math.inf), 0.0, top)


def _write_exponentials(b: Builder, kind: Type, lanes: int, weights: ArrayOperand, seen: Reg, top: Reg) -> Reg:
    """Replace the scores by e^(score - top); return their sum."""

    def body(index: Reg, mask: Reg | None, total: Reg) -> list[Reg]:
        place = b.gep(weights.data, index, kind)
        value = b.exp(b.sub(b.load(place, kind.of(lanes), mask), top))
        b.store(value, place, mask)
        return [b.add(total, value if mask is None else b.select(mask, value, 0.0))]

    return b.hsum(sweep(b, seen, lanes, [b.constant(0.0, kind.of(lanes))], body)[0])


def _write_average(
    b: Builder, kind: Type, lanes: int, weights: ArrayOperand, seen: Reg, values: Reg, size: Reg, share: Reg, out: Reg
) -> None:
    """Write Σ weight · value · share over the keys."""
    zero = b.constant(0.0, kind.of(lanes))

    def write_columns(column: Reg, count: int, mask: Reg | None) -> None:
        with b.loop(0, seen, carried=[zero] * count) as key:
            weight = b.broadcast(b.load(b.gep(weights.data, key.index, kind), kind), lanes)
            start = b.gep(values, b.add(b.mul(key.index, size), column), kind)
            key.yields(
                *(
                    b.fma(weight, b.load(b.gep(start, i * lanes, kind), kind.of(lanes), mask), total)
                    for i, total in enumerate(key.carried)
                )
            )
        for i, total in enumerate(key.results):
            b.store(b.mul(total, share), b.gep(b.gep(out, column, kind), i * lanes, kind), mask)

    step = REGISTERS_AT_A_TIME * lanes
    whole = b.bitwise_and(size, -step)
    with b.loop(0, whole, step) as columns:
        write_columns(columns.index, REGISTERS_AT_A_TIME, None)

    def write_rest(index: Reg, mask: Reg | None) -> list[Reg]:
        write_columns(b.add(whole, index), 1, mask)
        return []

    sweep(b, b.sub(size, whole), lanes, [], write_rest)


def _write_gradient(b: Builder, kind: Type, lanes: int, *operands: ArrayOperand | Reg) -> None:
    """The gradients of `_attend` in q, k and v from that of its result, g (B, L, H, Ev).

    `weights` and `slopes` have room for S numbers. `out`, zeros at first, is (B, L, 3, H, E) where all are
    `side_by_side`; else each sample has its gradients one after the other, (L, H, E), (S, H, E) and (S, H, Ev).
    """
    g, q, k, v, weights, slopes, out = (x for x in operands[:7] if isinstance(x, ArrayOperand))
    scale, heads, rows, later, side_by_side = (x for x in operands[7:-1] if isinstance(x, Reg))
    heads, rows, later = (b.cast(x, I64) for x in (heads, rows, later))
    keys, stacks = weights.size, b.floor_divide(q.size, b.mul(rows, q.last))
    parts = _GradientParts(b, kind, out, heads, (rows, keys, keys), (q.last, k.last, v.last), b.gt(side_by_side, 0.0))
    with b.loop(0, stacks) as stack:
        first_key = b.mul(stack.index, keys)
        batch = b.floor_divide(stack.index, heads)
        head = b.sub(stack.index, b.mul(batch, heads))
        all_keys, all_values = (b.gep(x.data, b.mul(first_key, x.last), kind) for x in (k, v))
        with b.loop(0, rows) as row:
            seen = b.minimum(b.add(b.add(row.index, later), 1), keys)
            query = b.gep(q.data, b.mul(b.add(b.mul(stack.index, rows), row.index), q.last), kind)
            place = b.add(b.mul(b.add(b.mul(batch, rows), row.index), heads), head)
            above = b.gep(g.data, b.mul(place, g.last), kind)
            top = _write_scores(b, kind, lanes, query, all_keys, k.last, weights, seen, scale)
            total = _write_exponentials(b, kind, lanes, weights, seen, top)
            share = b.div(1.0, b.select(b.eq(total, 0.0), 1.0, total))
            _write_scores(b, kind, lanes, above, all_values, v.last, slopes, seen, b.constant(1.0, kind))
            _write_slopes(b, kind, lanes, weights, slopes, seen, share)
            target = parts.place(0, batch, row.index, head)
            _write_average(b, kind, lanes, slopes, seen, all_keys, k.last, scale, target)
            with b.loop(0, seen) as key:
                for i, (factors, source, size) in enumerate(((slopes, query, q.last), (weights, above, v.last)), 1):
                    factor = b.load(b.gep(factors.data, key.index, kind), kind)
                    factor = b.mul(factor, scale) if i == 1 else factor
                    _add_scaled(b, kind, lanes, factor, source, size, parts.place(i, batch, key.index, head))


def _write_slopes(
    b: Builder, kind: Type, lanes: int, weights: ArrayOperand, slopes: ArrayOperand, seen: Reg, share: Reg
) -> None:
    """Scale the weights by `share`, and make slopes ← (slope - Σ slope · weight) · weight of them."""

    def add_products(index: Reg, mask: Reg | None, total: Reg) -> list[Reg]:
        place = b.gep(weights.data, index, kind)
        weight = b.mul(b.load(place, kind.of(lanes), mask), share)
        b.store(weight, place, mask)
        return [b.fma(weight, b.load(b.gep(slopes.data, index, kind), kind.of(lanes), mask), total)]

    along = b.hsum(sweep(b, seen, lanes, [b.constant(0.0, kind.of(lanes))], add_products)[0])

    def write(index: Reg, mask: Reg | None) -> list[Reg]:
        weight, place = b.load(b.gep(weights.data, index, kind), kind.of(lanes), mask), b.gep(slopes.data, index, kind)
        b.store(b.mul(b.sub(b.load(place, kind.of(lanes), mask), along), weight), place, mask)
        return []

    sweep(b, seen, lanes, [], write)


def _add_scaled(b: Builder, kind: Type, lanes: int, factor: Reg, source: Reg, size: Reg, target: Reg) -> None:
    """target += factor · source, of `size` numbers."""

    def body(index: Reg, mask: Reg | None) -> list[Reg]:
        place = b.gep(target, index, kind)
        x = b.load(b.gep(source, index, kind), kind.of(lanes), mask)
        b.store(b.fma(b.broadcast(factor, lanes), x, b.load(place, kind.of(lanes), mask)), place, mask)
        return []

    sweep(b, size, lanes, [], body)


class _GradientParts(NamedTuple):
    """Starts of the rows of the gradients in q, k and v, which lie in one array."""

    b: Builder
    kind: Type
    out: ArrayOperand
    heads: Reg
    rows: tuple[Reg, Reg, Reg]
    sizes: tuple[Reg, Reg, Reg]
    side_by_side: Reg

    def place(self, i: int, batch: Reg, row: Reg, head: Reg) -> Reg:
        """The address of a head's row of gradient i."""
        b, width = self.b, self.b.mul(self.heads, self.sizes[i])
        lengths = [b.mul(n, b.mul(self.heads, size)) for n, size in zip(self.rows, self.sizes, strict=True)]
        before = b.constant(0, I64)
        for length in lengths[:i]:
            before = b.add(before, length)
        sample = b.mul(batch, b.add(b.add(lengths[0], lengths[1]), lengths[2]))
        apart = b.add(before, b.mul(row, width))
        beside = b.mul(b.add(b.mul(row, 3), i), width)
        at = b.add(b.add(sample, b.select(self.side_by_side, beside, apart)), b.mul(head, self.sizes[i]))
        return b.gep(self.out.data, at, self.kind)


ROUTINES = {
    "few_queries": SmallArrayEntry("xxxxxffff", _attend, less=ALL_DIMS, most=2**20),
    "few_queries_gradient": SmallArrayEntry("xxxxxxxfffff", _write_gradient, less=ALL_DIMS, most=2**20),
}

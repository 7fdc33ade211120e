"""One element of each row by its index: gather, and the negative log likelihood; whole rows folded by their indices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, UNLIMITED, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.llvm.types import BOOL, I64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder


def _gather(b: Builder, kind: Type, lanes: int, x: ArrayOperand, indices: ArrayOperand, out: ArrayOperand) -> Reg:
    """out[r, j] = x[r, indices[r, j]]; left alone where an index is negative or too large."""
    lanes = min(lanes, 8)
    within = indices_are_within(b, indices, x.last, lanes)
    with b.when(within):
        rows = b.floor_divide(indices.size, indices.last)
        with b.loop(0, rows) as row:
            source = b.gep(x.data, b.mul(row.index, x.last), kind)
            start = b.mul(row.index, indices.last)

            def body(index: Reg, mask: Reg | None) -> list[Reg]:
                at = b.add(start, index)
                which = b.load(b.gep(indices.data, at, I64), I64.of(lanes), mask)
                b.store(b.gather(source, which, kind.of(lanes), mask), b.gep(out.data, at, kind), mask)
                return []

            sweep(b, indices.last, lanes, [], body)
    return within


def indices_are_within(b: Builder, indices: ArrayOperand, size: Reg, lanes: int) -> Reg:
    """Return true if all indices lie in [0, size)."""

    def body(index: Reg, mask: Reg | None, fine: Reg) -> list[Reg]:
        i = b.load(b.gep(indices.data, index, I64), I64.of(lanes), mask)
        right = b.logical_and(b.ge(i, 0), b.lt(i, size))
        right = right if mask is None else b.logical_or(right, b.logical_not(mask))
        return [b.logical_and(fine, right)]

    return b.hand(sweep(b, indices.size, lanes, [b.constant(True, BOOL.of(lanes))], body)[0])


def _write_along_rows(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    indices: ArrayOperand,
    out: ArrayOperand,
    done: ArrayOperand,
    adds: bool,
) -> Reg:
    """out[r, indices[r, j]] = x[r, j], or += if it `adds`; left alone where an index is negative or too large."""
    within = indices_are_within(b, indices, out.last, min(lanes, 8))
    with b.when(within), b.loop(0, b.floor_divide(indices.size, indices.last)) as row:
        target = b.gep(out.data, b.mul(row.index, out.last), kind)
        start = b.mul(row.index, indices.last)
        with b.loop(0, indices.last) as column:
            at = b.add(start, column.index)
            place = b.gep(target, b.load(b.gep(indices.data, at, I64), I64), kind)
            value = b.load(b.gep(x.data, at, kind), kind)
            b.store(b.add(b.load(place, kind), value) if adds else value, place)
    return within


def _take_rows(
    b: Builder, kind: Type, lanes: int, x: ArrayOperand, indices: ArrayOperand, out: ArrayOperand, done: ArrayOperand
) -> Reg:
    """Write the rows of x that the indices name into `out`; left alone where one is negative or too large."""
    within = indices_are_within(b, indices, b.floor_divide(x.size, x.last), min(lanes, 8))
    with b.when(within), b.loop(0, indices.size) as row:
        source = b.gep(x.data, b.mul(b.load(b.gep(indices.data, row.index, I64), I64), x.last), kind)
        target = b.gep(out.data, b.mul(row.index, x.last), kind)

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            b.store(b.load(b.gep(source, index, kind), kind.of(lanes), mask), b.gep(target, index, kind), mask)
            return []

        sweep(b, x.last, lanes, [], body)
    return within


def _mean_nll(b: Builder, kind: Type, lanes: int, logs: ArrayOperand, target: ArrayOperand, out: ArrayOperand) -> Reg:
    """-Σ logs[r, target[r]] / rows; left alone where a class is negative or too large."""
    lanes = min(lanes, 8)
    within = indices_are_within(b, target, logs.last, lanes)
    with b.when(within):

        def body(index: Reg, mask: Reg | None, total: Reg) -> list[Reg]:
            which = b.load(b.gep(target.data, index, I64), I64.of(lanes), mask)
            row = b.mul(b.add(b.broadcast(index, lanes), b.iota(lanes)), logs.last)
            value = b.gather(logs.data, b.add(row, which), kind.of(lanes), mask)
            return [b.add(total, value)]

        total = b.hsum(sweep(b, target.size, lanes, [b.constant(0.0, kind.of(lanes))], body)[0])
        b.store(b.neg(b.div(total, b.cast(target.size, kind))), out.data)
    return within


def _mean_nll_dx(
    b: Builder, kind: Type, lanes: int, g: ArrayOperand, target: ArrayOperand, dx: ArrayOperand, done: ArrayOperand
) -> Reg:
    """-g / rows written at each target into `dx`, which is full of 0."""
    within = indices_are_within(b, target, dx.last, min(lanes, 8))
    with b.when(within):
        share = b.neg(b.div(b.load(g.data, kind), b.cast(target.size, kind)))
        with b.loop(0, target.size) as row:
            which = b.load(b.gep(target.data, row.index, I64), I64)
            b.store(share, b.gep(dx.data, b.add(b.mul(row.index, dx.last), which), kind))
    return within


def _fold_rows(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    indices: ArrayOperand,
    out: ArrayOperand,
    done: ArrayOperand,
    fold: str,
) -> Reg:
    """Fold each row of x into the row of `out` that its index names; left alone where one is negative or too large."""
    within = indices_are_within(b, indices, b.floor_divide(out.size, x.last), min(lanes, 8))
    combine: Callable[[Reg, Reg], Reg] = getattr(b, fold)
    is_element = b.eq(x.last, 1)
    with b.when(b.logical_and(within, is_element)), b.loop(0, indices.size) as row:
        place = b.gep(out.data, b.load(b.gep(indices.data, row.index, I64), I64), kind)
        b.store(combine(b.load(place, kind), b.load(b.gep(x.data, row.index, kind), kind)), place)
    with b.when(b.logical_and(within, b.logical_not(is_element))), b.loop(0, indices.size) as row:
        source = b.gep(x.data, b.mul(row.index, x.last), kind)
        target = b.gep(out.data, b.mul(b.load(b.gep(indices.data, row.index, I64), I64), x.last), kind)

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            value, place = b.load(b.gep(source, index, kind), kind.of(lanes), mask), b.gep(target, index, kind)
            b.store(combine(b.load(place, kind.of(lanes), mask), value), place, mask)
            return []

        sweep(b, x.last, lanes, [], body)
    return within


ROUTINES = {
    **{
        name: SmallArrayEntry("xix", partial(_fold_rows, fold=fold), less=ALL_DIMS, most=UNLIMITED)
        for name, fold in {
            "add_rows": "add",
            "multiply_rows": "mul",
            "larger_rows": "maximum",
            "smaller_rows": "minimum",
        }.items()
    },
    **{
        name: SmallArrayEntry("xix", partial(_write_along_rows, adds=adds), less=ALL_DIMS, most=UNLIMITED, copies=2)
        for name, adds in {"add_along_rows": True, "put_along_rows": False}.items()
    },
    "take_rows": SmallArrayEntry("xix", _take_rows, less=ALL_DIMS, most=UNLIMITED),
    "gather": SmallArrayEntry("xi", _gather, like=1, copies=2),
    "mean_nll": SmallArrayEntry("xi", _mean_nll, less=ALL_DIMS, copies=2),
    "mean_nll_dx": SmallArrayEntry("xix", _mean_nll_dx, less=ALL_DIMS),
}

"""Softmax, its logarithm and the logarithm of a sum of exponentials along rows, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import UNLIMITED, ArrayOperand, SmallArrayEntry
from adjoint.compiler.kernels.small_arrays.row_loop import Rows
from adjoint.compiler.llvm.types import Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder


def _softmax(b: Builder, kind: Type, lanes: int, x: ArrayOperand, out: ArrayOperand) -> None:
    rows = Rows(b, kind, lanes, x, out)
    with rows.each():
        top = rows.extreme(0)  # where a number is NaN the sum is, and with it all of the row
        rows.write(1, lambda index, mask: b.exp(b.sub(rows.load(0, index, mask), top)))
        total = rows.sum(lambda index, mask: rows.load(1, index, mask))
        rows.write(1, lambda index, mask: b.div(rows.load(1, index, mask), total))


def _log_softmax(b: Builder, kind: Type, lanes: int, x: ArrayOperand, out: ArrayOperand) -> None:
    rows = Rows(b, kind, lanes, x, out)
    with rows.each():
        top = rows.extreme(0)
        total = rows.sum(lambda index, mask: b.exp(b.sub(rows.load(0, index, mask), top)))
        shift = b.log(total)
        rows.write(1, lambda index, mask: b.sub(b.sub(rows.load(0, index, mask), top), shift))


def _softmax_dx(b: Builder, kind: Type, lanes: int, g: ArrayOperand, out: ArrayOperand, dx: ArrayOperand) -> None:
    rows = Rows(b, kind, lanes, g, out, dx)

    def load_product(index: Reg, mask: Reg | None) -> Reg:
        return b.mul(rows.load(0, index, mask), rows.load(1, index, mask))

    with rows.each():
        total = rows.sum(load_product)
        rows.write(2, lambda index, mask: b.sub(load_product(index, mask), b.mul(rows.load(1, index, mask), total)))


def _log_softmax_dx(b: Builder, kind: Type, lanes: int, g: ArrayOperand, out: ArrayOperand, dx: ArrayOperand) -> None:
    rows = Rows(b, kind, lanes, g, out, dx)
    with rows.each():
        total = rows.sum(lambda index, mask: rows.load(0, index, mask))
        rows.write(
            2,
            lambda index, mask: b.sub(rows.load(0, index, mask), b.mul(b.exp(rows.load(1, index, mask)), total)),
        )


def _finite_top(b: Builder, rows: Rows) -> Reg:
    """The largest number of a row of the first array; 0 if it is not finite, so that nothing is subtracted."""
    top = rows.extreme(0)
    return b.select(b.eq(b.sub(top, top), 0.0), top, 0.0)


def _logsumexp(b: Builder, kind: Type, lanes: int, x: ArrayOperand, out: ArrayOperand) -> None:
    rows = Rows(b, kind, lanes, x, count=out.size)
    with rows.each() as row:
        top = _finite_top(b, rows)
        total = rows.sum(lambda index, mask: b.exp(b.sub(rows.load(0, index, mask), top)))
        b.store(b.add(b.log(total), top), b.gep(out.data, row, kind))


def _logsumexp_dx(b: Builder, kind: Type, lanes: int, x: ArrayOperand, g: ArrayOperand, dx: ArrayOperand) -> None:
    rows = Rows(b, kind, lanes, x, dx)
    with rows.each() as row:
        top = _finite_top(b, rows)
        rows.write(1, lambda index, mask: b.exp(b.sub(rows.load(0, index, mask), top)))
        total = rows.sum(lambda index, mask: rows.load(1, index, mask))
        share = b.div(b.load(b.gep(g.data, row, kind), kind), total)
        rows.write(1, lambda index, mask: b.mul(rows.load(1, index, mask), share))


ROUTINES = {
    "logsumexp": SmallArrayEntry("x", _logsumexp, less=1, most=UNLIMITED),
    "logsumexp_dx": SmallArrayEntry("xx", _logsumexp_dx, most=UNLIMITED),
    "softmax": SmallArrayEntry("x", _softmax, copies=1),
    "log_softmax": SmallArrayEntry("x", _log_softmax, copies=1),
    "softmax_dx": SmallArrayEntry("xx", _softmax_dx, copies=2),
    "log_softmax_dx": SmallArrayEntry("xx", _log_softmax_dx, copies=2),
}

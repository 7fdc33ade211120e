"""Normalisation of rows to mean 0 and variance 1, and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, UNLIMITED, ArrayOperand, SmallArrayEntry
from adjoint.compiler.kernels.small_arrays.row_loop import Rows, over_all
from adjoint.compiler.llvm.types import F64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder


ROWS_TO_ADD = 128  # whose gradients in weight and bias are added one after another


class _NormalizedRows(Rows):
    """The rows of `arrays`, the first of which is normalised."""

    def moments(self, b: Builder, eps: Reg) -> tuple[Reg, Reg]:
        """The mean, and 1 / √(variance + eps)."""
        mean = self.mean(lambda index, mask: self.load(0, index, mask))
        variance = self.mean(lambda index, mask: b.square(b.sub(self.load(0, index, mask), mean)))
        return mean, b.rsqrt(b.add(variance, eps))


def _layer_norm(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    weight: ArrayOperand,
    bias: ArrayOperand,
    eps: Reg,
    out: ArrayOperand,
) -> None:
    rows = _NormalizedRows(b, kind, lanes, x, out)
    with rows.each():
        mean, scale = rows.moments(b, eps)

        def normal(index: Reg, mask: Reg | None) -> Reg:
            found = b.mul(b.sub(rows.load(0, index, mask), mean), scale)
            w, shift = (_load_along(b, a, index, mask, kind.of(lanes)) for a in (weight, bias))
            return b.add(b.mul(found, w), shift)

        rows.write(1, normal)


def _load_along(b: Builder, vector: ArrayOperand, index: Reg, mask: Reg | None, type: Type) -> Reg:
    return b.load(b.gep(vector.data, index, type), type, mask)


def _layer_norm_dx(
    b: Builder,
    kind: Type,
    lanes: int,
    g: ArrayOperand,
    x: ArrayOperand,
    weight: ArrayOperand,
    dweight: ArrayOperand,
    dbias: ArrayOperand,
    eps: Reg,
    dx: ArrayOperand,
) -> None:
    """The gradient in x; adds those in weight and bias to a row of `dweight` and `dbias` for each block of rows."""
    rows = _NormalizedRows(b, kind, lanes, x, g, dx)
    with rows.each() as row:
        mean, scale = rows.moments(b, eps)
        block = b.mul(b.floor_divide(row, ROWS_TO_ADD), rows.length)
        sums = [b.gep(a.data, block, kind) for a in (dbias, dweight)]

        def load_weighted(index: Reg, mask: Reg | None) -> Reg:
            return b.mul(rows.load(1, index, mask), _load_along(b, weight, index, mask, kind.of(lanes)))

        def normal(index: Reg, mask: Reg | None) -> Reg:
            return b.mul(b.sub(rows.load(0, index, mask), mean), scale)

        # One sweep over the row takes all four sums: those along the row, which dx needs, stay in registers, and those
        # along the rows, dweight and dbias, are added up in memory.
        def body(index: Reg, mask: Reg | None, total: Reg, along: Reg) -> list[Reg]:
            above, found = rows.load(1, index, mask), normal(index, mask)
            for sum, value in zip(sums, (above, b.mul(above, found)), strict=True):
                place = b.gep(sum, index, kind)
                b.store(b.add(b.load(place, kind.of(lanes), mask), value), place, mask)
            weighted = load_weighted(index, mask)
            terms = weighted, b.mul(weighted, found)
            kept = [term if mask is None else b.select(mask, term, 0.0) for term in terms]
            return [b.add(part, term) for part, term in zip((total, along), kept, strict=True)]

        count = b.cast(rows.length, kind)
        nothing = rows.full(0.0)
        middle, slope = (b.div(b.hsum(part), count) for part in rows.sweep([nothing, nothing], body))

        def gradient(index: Reg, mask: Reg | None) -> Reg:
            rest = b.sub(b.sub(load_weighted(index, mask), middle), b.mul(normal(index, mask), slope))
            return b.mul(rest, scale)

        rows.write(2, gradient)


def _variance(b: Builder, kind: Type, lanes: int, x: ArrayOperand, freedom: Reg, out: ArrayOperand) -> None:
    """Σ(x - mean)² / freedom of each row."""
    _write_variance(b, kind, lanes, x, freedom, out, lambda variance: variance)


def _deviation(b: Builder, kind: Type, lanes: int, x: ArrayOperand, freedom: Reg, out: ArrayOperand) -> None:
    """√ of the variance of each row."""
    _write_variance(b, kind, lanes, x, freedom, out, b.sqrt)


def _write_variance(
    b: Builder, kind: Type, lanes: int, x: ArrayOperand, freedom: Reg, out: ArrayOperand, finish: Callable[[Reg], Reg]
) -> None:
    """Variances in float64, then finished: squares of float32 neither overflow nor vanish."""
    rows = Rows(b, kind, lanes, x, count=out.size)

    def add_terms(term: Callable[[Reg], Reg]) -> Reg:
        def body(index: Reg, mask: Reg | None, total: Reg) -> list[Reg]:
            value = term(b.cast(rows.load(0, index, mask), F64))
            return [b.add(total, value if mask is None else b.select(mask, value, 0.0))]

        return b.hsum(rows.sweep([b.constant(0.0, F64.of(lanes))], body)[0])

    with rows.each() as row:
        mean = b.div(add_terms(lambda value: value), b.cast(rows.length, F64))
        variance = b.div(add_terms(lambda value: b.square(b.sub(value, mean))), b.cast(freedom, F64))
        b.store(b.cast(finish(variance), kind), b.gep(out.data, row, kind))


ROUTINES = {
    "layer_norm": SmallArrayEntry("xxxf", _layer_norm, most=UNLIMITED),
    "layer_norm_dx": SmallArrayEntry("xxxxxf", _layer_norm_dx, like=1, most=UNLIMITED),
    "deviation": SmallArrayEntry("xf", _deviation, less=1, copies=1),
    "deviation_of_all": SmallArrayEntry("xf", over_all(_deviation), less=ALL_DIMS, copies=1),
    "variance": SmallArrayEntry("xf", _variance, less=1, copies=1),
    "variance_of_all": SmallArrayEntry("xf", over_all(_variance), less=ALL_DIMS, copies=1),
}

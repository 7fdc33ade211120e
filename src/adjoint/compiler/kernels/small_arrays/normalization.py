"""Normalisation of rows to mean 0 and variance 1, and its gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ALL_BUT_LAST_DIM, ALL_DIMS, ArrayOperand, SmallArrayEntry
from adjoint.compiler.kernels.small_arrays.row_loop import Rows, over_all
from adjoint.compiler.llvm.types import Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder


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
    eps: Reg,
    dx: ArrayOperand,
) -> None:
    rows = _NormalizedRows(b, kind, lanes, x, g, dx)
    with rows.each():
        mean, scale = rows.moments(b, eps)

        def load_weighted(index: Reg, mask: Reg | None) -> Reg:
            return b.mul(rows.load(1, index, mask), _load_along(b, weight, index, mask, kind.of(lanes)))

        def normal(index: Reg, mask: Reg | None) -> Reg:
            return b.mul(b.sub(rows.load(0, index, mask), mean), scale)

        middle = rows.mean(load_weighted)
        along = rows.mean(lambda index, mask: b.mul(load_weighted(index, mask), normal(index, mask)))

        def gradient(index: Reg, mask: Reg | None) -> Reg:
            rest = b.sub(b.sub(load_weighted(index, mask), middle), b.mul(normal(index, mask), along))
            return b.mul(rest, scale)

        rows.write(2, gradient)


def _layer_norm_dweight(
    b: Builder, kind: Type, lanes: int, g: ArrayOperand, x: ArrayOperand, eps: Reg, out: ArrayOperand
) -> None:
    rows = _NormalizedRows(b, kind, lanes, x, g)

    def clear_register(index: Reg, mask: Reg | None) -> list[Reg]:
        b.store(rows.full(0.0), b.gep(out.data, index, kind), mask)
        return []

    rows.sweep([], clear_register)
    with rows.each():
        mean, scale = rows.moments(b, eps)

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            place = b.gep(out.data, index, kind)
            normal = b.mul(b.sub(rows.load(0, index, mask), mean), scale)
            total = b.add(b.load(place, kind.of(lanes), mask), b.mul(normal, rows.load(1, index, mask)))
            b.store(total, place, mask)
            return []

        rows.sweep([], body)


def _variance(b: Builder, kind: Type, lanes: int, x: ArrayOperand, freedom: Reg, out: ArrayOperand) -> None:
    """Σ(x - mean)² / freedom of each row."""
    rows = Rows(b, kind, lanes, x, count=out.size)
    with rows.each() as row:
        mean = rows.mean(lambda index, mask: rows.load(0, index, mask))
        total = rows.sum(lambda index, mask: b.square(b.sub(rows.load(0, index, mask), mean)))
        b.store(b.div(total, freedom), b.gep(out.data, row, kind))


ROUTINES = {
    "layer_norm": SmallArrayEntry("xxxf", _layer_norm),
    "layer_norm_dx": SmallArrayEntry("xxxf", _layer_norm_dx, like=1),
    "layer_norm_dweight": SmallArrayEntry("xxf", _layer_norm_dweight, less=ALL_BUT_LAST_DIM),
    "variance": SmallArrayEntry("xf", _variance, less=1),
    "variance_of_all": SmallArrayEntry("xf", over_all(_variance), less=ALL_DIMS),
}

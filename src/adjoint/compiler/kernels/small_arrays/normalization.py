"""Normalisation of rows to mean 0 and variance 1, and its gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ALL, LAST, Array, Routine
from adjoint.compiler.kernels.small_arrays.row_loop import Rows, over_all
from adjoint.compiler.llvm.types import Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder


class _Rows(Rows):
    """The rows of `arrays`, the first of which is normalised."""

    def moments(self, b: Builder, eps: Reg) -> tuple[Reg, Reg]:
        """The mean, and 1 / √(variance + eps)."""
        mean = self.mean(lambda index, mask: self.load(0, index, mask))
        variance = self.mean(lambda index, mask: b.square(b.sub(self.load(0, index, mask), mean)))
        return mean, b.rsqrt(b.add(variance, eps))


def _layer_norm(b: Builder, kind: Type, lanes: int, x: Array, weight: Array, bias: Array, eps: Reg, out: Array) -> None:
    rows = _Rows(b, kind, lanes, x, out)
    with rows.each():
        mean, scale = rows.moments(b, eps)

        def normal(index: Reg, mask: Reg | None) -> Reg:
            found = b.mul(b.sub(rows.load(0, index, mask), mean), scale)
            w, shift = (_along(b, a, index, mask, kind.of(lanes)) for a in (weight, bias))
            return b.add(b.mul(found, w), shift)

        rows.write(1, normal)


def _along(b: Builder, vector: Array, index: Reg, mask: Reg | None, type: Type) -> Reg:
    return b.load(b.gep(vector.data, index, type), type, mask)


def _layer_norm_dx(b: Builder, kind: Type, lanes: int, g: Array, x: Array, weight: Array, eps: Reg, dx: Array) -> None:
    rows = _Rows(b, kind, lanes, x, g, dx)
    with rows.each():
        mean, scale = rows.moments(b, eps)

        def weighted(index: Reg, mask: Reg | None) -> Reg:
            return b.mul(rows.load(1, index, mask), _along(b, weight, index, mask, kind.of(lanes)))

        def normal(index: Reg, mask: Reg | None) -> Reg:
            return b.mul(b.sub(rows.load(0, index, mask), mean), scale)

        middle = rows.mean(weighted)
        along = rows.mean(lambda index, mask: b.mul(weighted(index, mask), normal(index, mask)))

        def gradient(index: Reg, mask: Reg | None) -> Reg:
            rest = b.sub(b.sub(weighted(index, mask), middle), b.mul(normal(index, mask), along))
            return b.mul(rest, scale)

        rows.write(2, gradient)


def _layer_norm_dweight(b: Builder, kind: Type, lanes: int, g: Array, x: Array, eps: Reg, out: Array) -> None:
    rows = _Rows(b, kind, lanes, x, g)

    def cleared(index: Reg, mask: Reg | None) -> list[Reg]:
        b.store(rows.full(0.0), b.gep(out.data, index, kind), mask)
        return []

    rows.sweep([], cleared)
    with rows.each():
        mean, scale = rows.moments(b, eps)

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            place = b.gep(out.data, index, kind)
            normal = b.mul(b.sub(rows.load(0, index, mask), mean), scale)
            total = b.add(b.load(place, kind.of(lanes), mask), b.mul(normal, rows.load(1, index, mask)))
            b.store(total, place, mask)
            return []

        rows.sweep([], body)


def _variance(b: Builder, kind: Type, lanes: int, x: Array, freedom: Reg, out: Array) -> None:
    """Σ(x - mean)² / freedom of each row."""
    rows = Rows(b, kind, lanes, x, count=out.size)
    with rows.each() as row:
        mean = rows.mean(lambda index, mask: rows.load(0, index, mask))
        total = rows.sum(lambda index, mask: b.square(b.sub(rows.load(0, index, mask), mean)))
        b.store(b.div(total, freedom), b.gep(out.data, row, kind))


ROUTINES = {
    "layer_norm": Routine("xxxf", _layer_norm),
    "layer_norm_dx": Routine("xxxf", _layer_norm_dx, like=1),
    "layer_norm_dweight": Routine("xxf", _layer_norm_dweight, less=LAST),
    "variance": Routine("xf", _variance, less=1),
    "variance_of_all": Routine("xf", over_all(_variance), less=ALL),
}

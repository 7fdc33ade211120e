"""Plans of kernels along one dimension: how the lines of an array lie, and the numbers that one text is called with.

A text is written for types and a form of memory alone. Sizes and strides are numbers that each call brings, so that
one kernel serves all shapes, in compiled steps and for eager calls.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.ir.symbolic_size import size_value
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, U8, Reg, Type, from_dtype
from adjoint.core.typing import NumpyDtype, Params

Shape = tuple[int, ...]
MIN_TILE_SECONDS = 2e-5  # seconds of work for which a tile is worth while
MAX_TILES = 32


class RowOperand(NamedTuple):
    """The layout of an array: strides are counted in elements."""

    shape: Shape
    dtype: NumpyDtype
    strides: Shape


class Lines(NamedTuple):
    """The lines of an array along one dimension, as a grid (outer, length, inner) with a stride for each."""

    outer: int
    length: int
    inner: int
    outer_stride: int
    stride: int
    inner_stride: int

    @property
    def lines(self) -> int:
        return self.outer * self.inner


class RowPlan(NamedTuple):
    """A kernel and a call of it. `structure`, with the `kind` that is the writer's name, decides the text."""

    kind: str
    structure: tuple[Hashable, ...]
    numbers: tuple[int, ...]
    shape: Shape  # of the result
    dtype: NumpyDtype
    tiles: int
    scratch: int = 0  # bytes for each thread
    seconds: float = 0.0


def find_lines(x: RowOperand, axis: int) -> Lines | None:
    """Return the lines of x along `axis`; None if the other dimensions cannot be passed by two strides."""
    outer = _merge_dims(x.shape[:axis], x.strides[:axis])
    inner = _merge_dims(x.shape[axis + 1 :], x.strides[axis + 1 :])
    if outer is None or inner is None:
        return None
    return Lines(outer[0], x.shape[axis], inner[0], outer[1], x.strides[axis], inner[1])


def can_read_lines(view: StridedView, params: Params) -> bool:
    """True if an op with these parameters can take an operand where it lies: its lines, or all of it as it stands."""
    axis = params["axes"][0] if "axes" in params else params.get("axis")
    if axis is None:
        return view.is_linear
    return find_lines(RowOperand(view.shape, view.base.dtype, view.strides), axis) is not None


def _merge_dims(shape: Shape, strides: Shape) -> tuple[int, int] | None:
    """Return the size and the stride of one dimension for several; None if there is none."""
    count, step = 1, 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if count == 1:
            step = stride
        elif stride != step * count:
            return None
        count *= n
    return count, step


def type_of(dtype: NumpyDtype) -> Type | None:
    """The type in a kernel; None for one that kernels do not compute."""
    try:
        kind = from_dtype(dtype)
    except TypeError:
        return None
    return None if kind.kind == "n" else kind


def split_units(units: int, seconds: float) -> tuple[int, int]:
    """Into how many tiles to cut independent units of work, and the units in each."""
    tiles = max(1, min(int(seconds / MIN_TILE_SECONDS), size_value(units), MAX_TILES))
    each = -(-units // tiles) if units else 0
    return (-(-units // each) if each else 1), each


def unit_range(b: Builder, tile: Reg, units: Reg, each: Reg) -> tuple[Reg, Reg]:
    """The units of a tile."""
    low = b.minimum(b.mul(tile, each), units)
    return low, b.minimum(b.add(low, each), units)


class LineTable:
    """The entries of a kernel's table: addresses of the operands and the result, scratch memory, numbers."""

    def __init__(
        self, b: Builder, args: Reg, thread: Reg, places: Sequence[int], sizes: Sequence[int], scratch: bool
    ) -> None:
        """`places`: of the operands in the table; `sizes`: the bytes of their elements."""
        count = max(places) + 1
        self.out = b.argument(args, count)
        first = count + 1 + scratch
        self._b, self._args = b, args
        self._next = first + len(places)
        self.operands = [
            b.gep(b.argument(args, place), b.mul(b.number(args, first + i), size), U8)
            for i, (place, size) in enumerate(zip(places, sizes, strict=True))
        ]
        self.scratch = self.out
        if scratch:  # its bytes are the last number but for the writer's own
            self.scratch = b.gep(b.argument(args, count + 1), b.mul(thread, self.number()), U8)

    def number(self) -> Reg:
        """The next number."""
        self._next += 1
        return self._b.number(self._args, self._next - 1)

    def numbers(self, count: int) -> list[Reg]:
        """The next numbers."""
        return [self.number() for _ in range(count)]


def divmod_registers(b: Builder, x: Reg, y: Reg) -> tuple[Reg, Reg]:
    """x // y and x % y of numbers that are not negative."""
    whole = b.emit(f"udiv i64 {x.name}, {y.name}", I64)
    return whole, b.sub(x, b.mul(whole, y))


INT64 = np.dtype(np.int64)

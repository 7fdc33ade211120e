"""The rows of small arrays, which are their last dimension, and what routines do along one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ArrayOperand, Body, Writer, sweep
from adjoint.compiler.llvm.types import Reg, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adjoint.compiler.llvm.builder import Builder

Term = Callable[[Reg, Reg | None], Reg]  # of an index and a mask: a register of numbers


def over_all(fold: Writer) -> Writer:
    """Return a fold of rows that takes all of its first operand as one row."""
    return lambda b, kind, lanes, x, *rest: fold(b, kind, lanes, x._replace(last=x.size), *rest)


class Rows:
    """Arrays of one shape, row by row: rows of `length` elements, as many as fit if their `count` is not given."""

    def __init__(self, b: Builder, kind: Type, lanes: int, *arrays: ArrayOperand, count: Reg | None = None) -> None:
        self._b, self._kind, self._lanes = b, kind, lanes
        self.length = arrays[0].last
        self.count = b.floor_divide(arrays[0].size, self.length) if count is None else count  # 0 / 0 is 0
        self._arrays = arrays
        self._starts: list[Reg] = []

    @contextmanager
    def each(self) -> Iterator[Reg]:
        """Visit all rows; gives the number of the row."""
        with self._b.loop(0, self.count) as loop:
            first = self._b.mul(loop.index, self.length)
            self._starts = [self._b.gep(array.data, first, self._kind) for array in self._arrays]
            yield loop.index

    def load(self, i: int, index: Reg, mask: Reg | None) -> Reg:
        """A register of the row of array `i`; 0 in the lanes off the mask."""
        return self._b.load(self._b.gep(self._starts[i], index, self._kind), self._kind.of(self._lanes), mask)

    def sweep(self, carried: Sequence[Reg], body: Body) -> tuple[Reg, ...]:
        """Visit the row, a register at a time."""
        return sweep(self._b, self.length, self._lanes, carried, body)

    def full(self, value: float) -> Reg:
        """A register full of a number."""
        return self._b.constant(value, self._kind.of(self._lanes))

    def write(self, i: int, value: Term) -> None:
        """Write the row of array `i`."""

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            self._b.store(value(index, mask), self._b.gep(self._starts[i], index, self._kind), mask)
            return []

        self.sweep([], body)

    def sum(self, term: Term) -> Reg:
        """Σ of the terms along the row."""

        def body(index: Reg, mask: Reg | None, total: Reg) -> list[Reg]:
            value = term(index, mask)
            return [self._b.add(total, value if mask is None else self._b.select(mask, value, 0.0))]

        return self._b.hsum(self.sweep([self.full(0.0)], body)[0])

    def mean(self, term: Term) -> Reg:
        """The mean of the terms along the row."""
        return self._b.div(self.sum(term), self._b.cast(self.length, self._kind))

    def extreme(self, i: int, largest: bool = True) -> Reg:
        """The largest, or smallest, in the row of array `i` of what is a number; an infinity if nothing is."""
        b = self._b
        beats = b.gt if largest else b.lt

        def body(index: Reg, mask: Reg | None, best: Reg) -> list[Reg]:
            x = self.load(i, index, mask)
            wins = beats(x, best)
            return [b.select(wins if mask is None else b.logical_and(wins, mask), x, best)]

        best = self.sweep([self.full(-math.inf if largest else math.inf)], body)[0]
        return b.hmax(best) if largest else b.hmin(best)

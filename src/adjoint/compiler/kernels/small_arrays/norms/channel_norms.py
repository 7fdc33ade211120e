"""Normalisation of channels over a batch, and of groups of channels, with all gradients from one pass.

A batch is (N, C, L): samples, channels, elements of a plane; of two dimensions it is (N, C). Weight and bias have one
element for each channel. Statistics are gathered in float64, block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import UNLIMITED, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.llvm.types import F64, I64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder

WIDE_REGISTERS = 4  # side by side, so that sums do not wait for one another
BLOCK_ROWS = 64  # that are added in the type of the elements
BLOCK_ELEMENTS = 2**13  # that are added in the type of the elements; a multiple of a register's lanes
Terms = Callable[..., Sequence[Reg]]  # of the elements of some arrays, what is summed


class _Runs:
    """Runs of neighbouring elements at one place of several arrays."""

    def __init__(self, b: Builder, kind: Type, lanes: int, *arrays: ArrayOperand) -> None:
        self.b, self.kind, self.lanes, self._arrays = b, kind, lanes, arrays

    def with_lanes(self, lanes: int) -> _Runs:
        """The same arrays by registers of so many lanes."""
        return _Runs(self.b, self.kind, lanes, *self._arrays)

    def load(self, first: Reg, index: Reg, mask: Reg | None) -> list[Reg]:
        """Load the elements of each array from `first + index` on."""
        b, at = self.b, self.b.add(first, index)
        return [b.load(b.gep(a.data, at, self.kind), self.kind.of(self.lanes), mask) for a in self._arrays]

    def add_sums(self, first: Reg, length: Reg, terms: Terms, totals: Sequence[Reg]) -> tuple[Reg, ...]:
        """Add to `totals`, registers of float64, the terms of the run from element `first` on."""
        b = self.b
        nothing = b.constant(0.0, self.kind.of(self.lanes))
        with b.loop(0, length, BLOCK_ELEMENTS, totals) as blocks:
            start = b.add(first, blocks.index)

            def body(index: Reg, mask: Reg | None, *parts: Reg) -> list[Reg]:
                values = terms(*self.load(start, index, mask))
                kept = [v if mask is None else b.select(mask, v, 0.0) for v in values]
                return [b.add(part, v) for part, v in zip(parts, kept, strict=True)]

            count = b.minimum(b.sub(length, blocks.index), BLOCK_ELEMENTS)
            parts = sweep(b, count, self.lanes, [nothing] * len(totals), body)
            blocks.yields(*[b.add(total, b.cast(part, F64)) for total, part in zip(blocks.carried, parts, strict=True)])
        return blocks.results

    def write(self, out: ArrayOperand, first: Reg, length: Reg, value: Callable[..., Reg]) -> None:
        """Write a function of the elements of the run."""
        b = self.b

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            b.store(value(*self.load(first, index, mask)), b.gep(out.data, b.add(first, index), self.kind), mask)
            return []

        sweep(b, length, self.lanes, [], body)

    def zeros(self, count: int) -> list[Reg]:
        """Totals to begin with."""
        return [self.b.constant(0.0, F64.of(self.lanes))] * count


class _Channel:
    """One channel of a batch: what is summed over it, and where it is written."""

    def __init__(self, runs: _Runs, x: ArrayOperand, channels: Reg, channel: Reg) -> None:
        b = runs.b
        self._runs, self._channels, self._channel, self._length = runs, channels, channel, x.last
        self._samples = b.floor_divide(x.size, b.mul(channels, x.last))
        self.count = b.cast(b.mul(self._samples, x.last), F64)

    def _first(self, sample: Reg) -> Reg:
        b = self._runs.b
        return b.mul(b.add(b.mul(sample, self._channels), self._channel), self._length)

    def sums(self, count: int, terms: Terms) -> list[Reg]:
        """Σ of each of the terms, in float64."""
        b = self._runs.b
        with b.loop(0, self._samples, carried=self._runs.zeros(count)) as loop:
            loop.yields(*self._runs.add_sums(self._first(loop.index), self._length, terms, loop.carried))
        return [b.hsum(total) for total in loop.results]

    def write(self, out: ArrayOperand, value: Callable[..., Reg]) -> None:
        """Write a function of the elements."""
        with self._runs.b.loop(0, self._samples) as loop:
            self._runs.write(out, self._first(loop.index), self._length, value)


class _Column:
    """A register of channels of a batch of two dimensions, side by side; `mask`: those that there are."""

    def __init__(self, runs: _Runs, x: ArrayOperand, channels: Reg, channel: Reg, mask: Reg | None) -> None:
        b = runs.b
        self._runs, self._channels, self._channel, self._mask = runs, channels, channel, mask
        self._samples = b.floor_divide(x.size, channels)
        self.count = b.broadcast(b.cast(self._samples, F64), runs.lanes)

    def sums(self, count: int, terms: Terms) -> list[Reg]:
        """Σ of each of the terms for each channel, in float64."""
        b, runs = self._runs.b, self._runs
        nothing = b.constant(0.0, runs.kind.of(runs.lanes))
        with b.loop(0, self._samples, BLOCK_ROWS, runs.zeros(count)) as blocks:
            rows = b.minimum(b.sub(self._samples, blocks.index), BLOCK_ROWS)
            with b.loop(0, rows, carried=[nothing] * count) as loop:
                first = b.mul(b.add(blocks.index, loop.index), self._channels)
                values = terms(*runs.load(first, self._channel, self._mask))
                loop.yields(*[b.add(part, v) for part, v in zip(loop.carried, values, strict=True)])
            blocks.yields(*[b.add(t, b.cast(part, F64)) for t, part in zip(blocks.carried, loop.results, strict=True)])
        return list(blocks.results)

    def write(self, out: ArrayOperand, value: Callable[..., Reg]) -> None:
        """Write a function of the elements."""
        b, runs = self._runs.b, self._runs
        with b.loop(0, self._samples) as loop:
            first = b.mul(loop.index, self._channels)
            at = b.gep(out.data, b.add(first, self._channel), runs.kind)
            b.store(value(*runs.load(first, self._channel, self._mask)), at, self._mask)


Visit = Callable[[_Channel | _Column, Callable[[ArrayOperand], Reg], Callable[[ArrayOperand, Reg], None]], None]


def _each_channel(
    b: Builder, kind: Type, lanes: int, channels: ArrayOperand, x: ArrayOperand, runs: _Runs, visit: Visit
) -> None:
    with b.loop(0, channels.size) as loop:

        def place(a: ArrayOperand) -> Reg:
            return b.gep(a.data, loop.index, kind)

        part = _Channel(runs, x, channels.size, loop.index)
        visit(part, lambda a: b.load(place(a), kind), lambda a, value: b.store(value, place(a)))


def _each_column(
    b: Builder, kind: Type, lanes: int, channels: ArrayOperand, x: ArrayOperand, runs: _Runs, visit: Visit
) -> None:
    """Visit channels side by side: first in wide blocks, so that a row is read in longer pieces."""
    wide, narrow = runs, runs.with_lanes(lanes)
    many = b.bitwise_and(channels.size, -wide.lanes)

    def visit_block(runs: _Runs, index: Reg, mask: Reg | None) -> None:
        def place(a: ArrayOperand) -> Reg:
            return b.gep(a.data, index, kind)

        part = _Column(runs, x, channels.size, index, mask)
        type = kind.of(runs.lanes)
        visit(part, lambda a: b.load(place(a), type, mask), lambda a, value: b.store(value, place(a), mask))

    def body(index: Reg, mask: Reg | None) -> list[Reg]:
        visit_block(narrow, b.add(many, index), mask)
        return []

    with b.loop(0, many, wide.lanes) as loop:
        visit_block(wide, loop.index, None)
    sweep(b, b.sub(channels.size, many), lanes, [], body)


def _moments(runs: _Runs, part: _Channel | _Column | _Groups, eps: Reg) -> tuple[Reg, Reg, Reg]:
    """The mean, the variance, and 1 / √(variance + eps)."""
    b = runs.b
    mean = b.cast(b.div(part.sums(1, lambda x, *_: [x])[0], part.count), runs.kind)
    variance = b.cast(b.div(part.sums(1, lambda x, *_: [b.square(b.sub(x, mean))])[0], part.count), runs.kind)
    return mean, variance, b.rsqrt(b.add(variance, eps))


def _batch_norm(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    weight: ArrayOperand,
    bias: ArrayOperand,
    means: ArrayOperand,
    variances: ArrayOperand,
    eps: Reg,
    out: ArrayOperand,
    each: Callable[..., None],
) -> None:
    """The normalised batch; writes the moments of each channel too."""
    runs = _Runs(b, kind, lanes * WIDE_REGISTERS, x)

    def visit(
        part: _Channel | _Column, load: Callable[[ArrayOperand], Reg], store: Callable[[ArrayOperand, Reg], None]
    ) -> None:
        mean, variance, scale = _moments(runs, part, eps)
        store(means, mean)
        store(variances, variance)
        factor, shift = b.mul(scale, load(weight)), load(bias)
        part.write(out, lambda x: b.add(b.mul(b.sub(x, mean), factor), shift))

    each(b, kind, lanes, weight, x, runs, visit)


def _batch_norm_dx(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    g: ArrayOperand,
    weight: ArrayOperand,
    dweight: ArrayOperand,
    dbias: ArrayOperand,
    eps: Reg,
    dx: ArrayOperand,
    each: Callable[..., None],
) -> None:
    """The gradient in x; writes those in weight and bias too."""
    runs = _Runs(b, kind, lanes * WIDE_REGISTERS, x, g)

    def visit(
        part: _Channel | _Column, load: Callable[[ArrayOperand], Reg], store: Callable[[ArrayOperand, Reg], None]
    ) -> None:
        mean, _, scale = _moments(runs, part, eps)
        total, along = part.sums(2, lambda x, g: [g, b.mul(g, b.sub(x, mean))])
        store(dbias, b.cast(total, kind))
        store(dweight, b.mul(b.cast(along, kind), scale))
        middle = b.cast(b.div(total, part.count), kind)
        slope = b.mul(b.mul(b.cast(b.div(along, part.count), kind), scale), scale)
        factor = b.mul(scale, load(weight))
        part.write(dx, lambda x, g: b.mul(b.sub(b.sub(g, middle), b.mul(b.sub(x, mean), slope)), factor))

    each(b, kind, lanes, weight, x, runs, visit)


class _Groups:
    """Groups of `size` neighbouring channels of each sample."""

    def __init__(self, runs: _Runs, x: ArrayOperand, channels: Reg, size: Reg) -> None:
        b = runs.b
        self._runs, self._plane, self._channels, self._size = runs, x.last, channels, b.cast(size, I64)
        self._length = b.mul(self._size, x.last)
        self._rows = b.floor_divide(x.size, self._length)
        self.count = b.cast(self._length, F64)
        self._start = self._channel = self._rows

    @contextmanager
    def each(self) -> Iterator[None]:
        """Visit all groups."""
        b = self._runs.b
        with b.loop(0, self._rows) as loop:
            self._start = b.mul(loop.index, self._length)
            before = b.mul(loop.index, self._size)  # channels, of all samples
            self._channel = b.sub(before, b.mul(b.floor_divide(before, self._channels), self._channels))
            yield

    def sums(self, count: int, terms: Terms) -> list[Reg]:
        """Σ of each of the terms over the group, in float64."""
        totals = self._runs.add_sums(self._start, self._length, terms, self._runs.zeros(count))
        return [self._runs.b.hsum(total) for total in totals]

    def fold_channels(self, start: Sequence[Reg], body: Callable[..., Sequence[Reg]]) -> tuple[Reg, ...]:
        """Visit the channels: body(channel, first element, elements, *carried) gives what is carried on."""
        b = self._runs.b
        with b.loop(0, self._size, carried=start) as loop:
            first = b.add(self._start, b.mul(loop.index, self._plane))
            loop.yields(*body(b.add(self._channel, loop.index), first, self._plane, *loop.carried))
        return loop.results


def _group_norm(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    weight: ArrayOperand,
    bias: ArrayOperand,
    eps: Reg,
    size: Reg,
    out: ArrayOperand,
) -> None:
    """The normalised groups of `size` channels."""
    runs = _Runs(b, kind, lanes * WIDE_REGISTERS, x)
    groups = _Groups(runs, x, weight.size, size)
    with groups.each():
        mean, _, scale = _moments(runs, groups, eps)

        def write_channel(channel: Reg, first: Reg, length: Reg) -> list[Reg]:
            factor, shift = (b.load(b.gep(a.data, channel, kind), kind) for a in (weight, bias))
            factor = b.mul(scale, factor)
            runs.write(out, first, length, lambda x: b.add(b.mul(b.sub(x, mean), factor), shift))
            return []

        groups.fold_channels([], write_channel)


def _group_norm_dx(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    g: ArrayOperand,
    weight: ArrayOperand,
    dweight: ArrayOperand,
    dbias: ArrayOperand,
    eps: Reg,
    size: Reg,
    dx: ArrayOperand,
) -> None:
    """The gradient in x; adds those in weight and bias to what is there."""
    runs = _Runs(b, kind, lanes * WIDE_REGISTERS, x, g)
    groups = _Groups(runs, x, weight.size, size)
    with groups.each():
        mean, _, scale = _moments(runs, groups, eps)

        def add_channel(channel: Reg, first: Reg, length: Reg, total: Reg, along: Reg) -> list[Reg]:
            terms = runs.add_sums(first, length, lambda x, g: [g, b.mul(g, b.sub(x, mean))], runs.zeros(2))
            whole, slope = (b.cast(b.hsum(term), kind) for term in terms)
            for a, value in ((dbias, whole), (dweight, b.mul(slope, scale))):
                place = b.gep(a.data, channel, kind)
                b.store(b.add(b.load(place, kind), value), place)
            factor = b.load(b.gep(weight.data, channel, kind), kind)
            return [b.add(t, b.cast(b.mul(v, factor), F64)) for t, v in ((total, whole), (along, slope))]

        nothing = b.constant(0.0, F64)
        sums = groups.fold_channels([nothing, nothing], add_channel)
        middle, slope = (b.cast(b.div(total, groups.count), kind) for total in sums)
        slope = b.mul(b.mul(slope, scale), scale)

        def write_channel(channel: Reg, first: Reg, length: Reg) -> list[Reg]:
            factor = b.load(b.gep(weight.data, channel, kind), kind)

            def gradient(x: Reg, g: Reg) -> Reg:
                return b.mul(b.sub(b.sub(b.mul(g, factor), middle), b.mul(b.sub(x, mean), slope)), scale)

            runs.write(dx, first, length, gradient)
            return []

        groups.fold_channels([], write_channel)


ROUTINES = {
    f"batch_norm{word}": SmallArrayEntry("xxxxxf", partial(_batch_norm, each=each), most=UNLIMITED)
    for word, each in (("", _each_channel), ("_columns", _each_column))
}
ROUTINES |= {
    f"batch_norm_dx{word}": SmallArrayEntry("xxxxxf", partial(_batch_norm_dx, each=each), most=UNLIMITED)
    for word, each in (("", _each_channel), ("_columns", _each_column))
}
ROUTINES |= {
    "group_norm": SmallArrayEntry("xxxff", _group_norm, most=UNLIMITED),
    "group_norm_dx": SmallArrayEntry("xxxxxff", _group_norm_dx, most=UNLIMITED),
}

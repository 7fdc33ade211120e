"""Arrays joined along a dimension: copied row by row into a new one, in a third of the time of NumPy's call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from adjoint.compiler.kernels.small_arrays.entry import (
    ARRAY,
    COPY,
    DOUBLE,
    DROP,
    FLOAT,
    INTEGERS,
    NEW,
    NUMPY_TYPE_NUMBERS,
    ROW_MAJOR_ORDER,
    SINGLE,
    has_word,
    is_dense,
    make_none_of_null,
    sweep,
)
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import BOOL, F32, F64, I32, I64, NULL, PTR, U8, Reg
from adjoint.compiler.runtime.cpython_layout import CONTENTS, DATA, DTYPE, HEAD, RANK, SIZES, TYPE

MAX_RANK = 31  # dimensions of an operand
MAX_WORDS = 2**18  # words of a result; a larger one is as fast with NumPy
# Words of an element, of 4 bytes each, and the number in NumPy's C interface, by the word that holds the type.
TYPES = {
    SINGLE: (1, NUMPY_TYPE_NUMBERS[F32]),
    DOUBLE: (2, NUMPY_TYPE_NUMBERS[F64]),
    INTEGERS: (2, np.dtype(np.int64).num),
}


def write_join(symbol: str, target: Target, *, is_new: bool) -> str:
    """The module of the function `symbol` of a Python float, the dimension, and arrays.

    It returns None for what it does not join. `is_new`: the dimension is new, and all arrays have one shape.
    """
    b = Builder(target)
    with b.function(symbol, [PTR, PTR, I64], PTR, visible=True, unwinds=True) as (bound, args, count):
        words = b.gep(bound, CONTENTS, U8)
        with b.when(b.gt(count, 1), [NULL]) as several:
            dim, first = b.argument(args, 0), b.argument(args, 1)
            right = b.logical_and(has_word(b, dim, TYPE, words, FLOAT), has_word(b, first, TYPE, words, ARRAY))
            with b.when(right, [NULL]) as begun:
                begun.yields(_check_and_join(b, words, args, count, first, b.field(dim, HEAD, F64), target, is_new))
            several.yields(begun.results[0])
        b.returns(make_none_of_null(b, words, *several.results))
    return b.text()


def _check_and_join(
    b: Builder, words: Reg, args: Reg, count: Reg, first: Reg, dim: Reg, target: Target, is_new: bool
) -> Reg:
    """The new array; a null pointer if the arrays are not for this function."""
    axis, rank = b.cast(dim, I64), b.cast(b.field(first, RANK, I32), I64)
    kind, sizes = b.field(first, DTYPE, PTR), b.field(first, SIZES, PTR)
    width, number = b.constant(0, I64), b.constant(0, I32)  # in words
    for word, (wide, typed) in TYPES.items():
        has_it = has_word(b, first, DTYPE, words, word)
        width, number = b.select(has_it, wide, width), b.select(has_it, typed, number)
    fits = b.logical_and(b.gt(width, 0), b.le(rank, MAX_RANK))
    fits = b.logical_and(fits, b.logical_and(b.ge(axis, 0), (b.le if is_new else b.lt)(axis, rank)))
    with b.loop(1, count, 1, [fits, b.constant(0, I64)]) as each:
        alike, length = each.carried
        held = b.argument(args, each.index)
        alike = b.logical_and(alike, has_word(b, held, TYPE, words, ARRAY))
        with b.when(alike, [alike, length]) as looked:
            same = b.logical_and(
                b.eq(b.field(held, DTYPE, PTR), kind), b.eq(b.field(held, RANK, I32), b.field(first, RANK, I32))
            )
            with b.when(same, [same, length]) as sized:
                sized.yields(*_check_sizes(b, held, sizes, rank, axis, length, is_new))
            looked.yields(*sized.results)
        each.yields(*looked.results)
    fits, length = each.results
    lead = _product(b, sizes, b.constant(0, I64), axis, b.constant(1, I64))
    inner = _product(b, sizes, axis if is_new else b.add(axis, 1), rank, width)
    total = b.mul(b.mul(lead, length), inner)
    with b.when(b.logical_and(fits, b.le(total, MAX_WORDS)), [NULL]) as joined:
        out_sizes = _write_sizes(b, sizes, rank, axis, length, is_new)
        out_rank, zero = b.cast(b.add(rank, int(is_new)), I32), b.constant(0, I32)
        made = b.call(
            b.argument(words, NEW),
            [b.argument(words, ARRAY), out_rank, out_sizes, number, NULL, NULL, zero, zero, NULL],
            PTR,
        )
        with b.when(b.ne(made, NULL)):
            step = b.mul(length, inner)
            with b.loop(1, count, 1, [b.field(made, DATA, PTR)]) as part:
                held = b.argument(args, part.index)
                own = b.mul(inner, 1 if is_new else b.number(b.field(held, SIZES, PTR), axis))
                _copy_rows(b, words, held, part.carried[0], lead, own, step, target)
                part.yields(b.gep(part.carried[0], own, F32))
        joined.yields(made)
    return joined.results[0]


def _check_sizes(b: Builder, held: Reg, sizes: Reg, rank: Reg, axis: Reg, length: Reg, is_new: bool) -> tuple[Reg, Reg]:
    """True if an array has these sizes but that of the axis; and the length of the result so far, with its own."""
    others = b.field(held, SIZES, PTR)
    with b.loop(0, rank, carried=[b.constant(True, BOOL)]) as dim:
        alike = b.eq(b.number(others, dim.index), b.number(sizes, dim.index))
        if not is_new:
            alike = b.logical_or(alike, b.eq(dim.index, axis))
        dim.yields(b.logical_and(dim.carried[0], alike))
    own = b.constant(1, I64) if is_new else b.number(others, axis)
    return dim.results[0], b.add(length, own)


def _product(b: Builder, sizes: Reg, low: Reg, high: Reg, start: Reg) -> Reg:
    with b.loop(low, high, carried=[start]) as dim:
        dim.yields(b.mul(dim.carried[0], b.number(sizes, dim.index)))
    return dim.results[0]


def _write_sizes(b: Builder, sizes: Reg, rank: Reg, axis: Reg, length: Reg, is_new: bool) -> Reg:
    """The address of the sizes of the result."""
    made = b.stack(MAX_RANK + 1, I64)
    with b.loop(0, rank) as dim:
        at = b.add(dim.index, b.select(b.ge(dim.index, axis), b.constant(1, I64), 0)) if is_new else dim.index
        b.store(b.number(sizes, dim.index), b.gep(made, at, I64))
    b.store(length, b.gep(made, axis, I64))
    return made


def _copy_rows(
    b: Builder, words: Reg, held: Reg, target_row: Reg, count: Reg, width: Reg, step: Reg, target: Target
) -> None:
    """Copy `count` rows of `width` words of an array to addresses that are `step` words apart."""
    with b.when(b.logical_not(is_dense(b, held)), [held]) as laid:
        laid.yields(b.call(b.argument(words, COPY), [held, b.constant(ROW_MAJOR_ORDER, I32)], PTR))
    (source,) = laid.results
    with b.when(b.ne(source, NULL)):
        data, lanes = b.field(source, DATA, PTR), target.lanes(F32)
        with b.loop(0, count) as row:
            given, place = b.gep(data, b.mul(row.index, width), F32), b.gep(target_row, b.mul(row.index, step), F32)

            def body(index: Reg, mask: Reg | None) -> Sequence[Reg]:
                b.store(b.load(b.gep(given, index, F32), F32.of(lanes), mask), b.gep(place, index, F32), mask)
                return []

            sweep(b, width, lanes, [], body)
        with b.when(b.ne(source, held)):
            b.call(b.argument(words, DROP), [source])


ROUTINES = {"cat": partial(write_join, is_new=False), "stack": partial(write_join, is_new=True)}

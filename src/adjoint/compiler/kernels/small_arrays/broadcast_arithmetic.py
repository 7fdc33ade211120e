"""Sums, differences, products and quotients of arrays that broadcast, with the bits of NumPy's.

NumPy takes 10 ns for each run of the last dimension, however short, and for a call some three times as long as this.
What is not for the native function it passes on: other types, arrays whose dimensions lie in memory in another order
or backwards, and large ones that NumPy computes as one run. Parts of row-major arrays, such as `x[:, 1:]`, it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.kernels.small_arrays.entry import (
    ARRAY,
    CLEAR_ERROR,
    DOUBLE,
    FLOAT,
    MAX_GIL_ELEMENTS,
    NEW,
    NUMPY_TYPE_NUMBERS,
    RESTORE_THREAD,
    SAVE_THREAD,
    SINGLE,
    WORDS,
)
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, F32, F64, I32, I64, NULL, PTR, U8, Reg, Type
from adjoint.compiler.runtime.cpython_layout import CONTENTS, DATA, DTYPE, FLAGS, HEAD, RANK, SIZES, STRIDES, TYPE

if TYPE_CHECKING:
    from adjoint.compiler.llvm.jit.target import Target

OPERATIONS: dict[str, Callable[[Builder, Reg, Reg], Reg]] = {
    "add": lambda b, x, y: b.add(x, y),
    "subtract": lambda b, x, y: b.sub(x, y),
    "multiply": lambda b, x, y: b.mul(x, y),
    "divide": lambda b, x, y: b.div(x, y),
}
# words after those of every routine: the type of ints, functions of CPython, and the function of all other operands
INT, AS_DOUBLE, CALL, OTHERWISE = range(len(WORDS), len(WORDS) + 4)
MAX_RANK = 16
ALIGNED = 0x100  # a bit of an ndarray's flags: data and strides are multiples of the size of an element
MIN_SIZE_OF_SHORT_ROWS = 512  # elements for which a table of offsets pays
MAX_ROW_STEP_BYTES = 2**24  # of short rows, whose offsets are 32 bits
KINDS = (F32, SINGLE), (F64, DOUBLE)


class Factor(NamedTuple):
    """An operand: its elements, the number of its dimensions, and their sizes and strides. A number has none."""

    data: Reg
    rank: Reg
    sizes: Reg
    strides: Reg


class Dims(NamedTuple):
    """Dimensions of the result, innermost first and from slot 1 on: their sizes, and the steps of both operands, bytes.

    Neighbours through which both operands go on as before are one.
    """

    sizes: Reg
    x_steps: Reg
    y_steps: Reg


def write_arithmetic(name: str, symbol: str, target: Target) -> str:
    """The module of the function `symbol` of two operands."""
    b = Builder(target)
    for kind, _ in KINDS:
        parameters = [PTR, *[PTR, I64, PTR, PTR] * 2]
        with b.function(f"{symbol}{kind.bits}", parameters, PTR, unwinds=True) as (words, *given):
            factors = Factor(*given[:4]), Factor(*given[4:])
            b.returns(_compute_result(b, OPERATIONS[name], kind, target.lanes(kind), words, *factors))
    with b.function(symbol, [PTR, PTR, I64], PTR, visible=True, unwinds=True) as (bound, args, _):
        words, x, y = b.gep(bound, CONTENTS, U8), b.argument(args, 0), b.argument(args, 1)
        room = {kind: b.stack(1, kind) for kind, _ in KINDS}
        x_is_array, y_is_array = (_has_type(b, each, words, ARRAY) for each in (x, y))
        with b.when(b.logical_and(x_is_array, y_is_array)):
            are_alike = b.eq(b.field(x, DTYPE, PTR), b.field(y, DTYPE, PTR))
            with b.when(b.logical_and(are_alike, b.logical_and(_is_aligned(b, x), _is_aligned(b, y)))):
                _call_for_type(b, symbol, words, x, lambda _: [_describe(b, x), _describe(b, y)])
        only_x = b.logical_and(x_is_array, b.logical_not(y_is_array))
        only_y = b.logical_and(y_is_array, b.logical_not(x_is_array))
        with b.when(only_x), b.when(b.logical_and(_is_aligned(b, x), _read_number(b, words, y, room))):
            _call_for_type(b, symbol, words, x, lambda kind: [_describe(b, x), _describe_number(b, room[kind])])
        with b.when(only_y), b.when(b.logical_and(_is_aligned(b, y), _read_number(b, words, x, room))):
            _call_for_type(b, symbol, words, y, lambda kind: [_describe_number(b, room[kind]), _describe(b, y)])
        b.returns(b.call(b.argument(words, CALL), [b.argument(words, OTHERWISE), args, b.constant(2, I64), NULL], PTR))
    return b.text()


def _has_type(b: Builder, held: Reg, words: Reg, word: int) -> Reg:
    return b.eq(b.field(held, TYPE, PTR), b.argument(words, word))


def _is_aligned(b: Builder, held: Reg) -> Reg:
    return b.ne(b.bitwise_and(b.field(held, FLAGS, I32), ALIGNED), 0)


def _describe(b: Builder, held: Reg) -> Factor:
    rank = b.cast(b.field(held, RANK, I32), I64)
    return Factor(b.field(held, DATA, PTR), rank, b.field(held, SIZES, PTR), b.field(held, STRIDES, PTR))


def _describe_number(b: Builder, place: Reg) -> Factor:
    return Factor(place, b.constant(0, I64), NULL, NULL)


def _read_number(b: Builder, words: Reg, held: Reg, room: dict[Type, Reg]) -> Reg:
    """Write the value of a Python float or int into the `room` for each type; False where it is no such number.

    An int that CPython cannot convert gives -1 and an error: it and -1 itself are left to NumPy.
    """
    is_float, is_int = _has_type(b, held, words, FLOAT), _has_type(b, held, words, INT)
    value = b.constant(-1.0, F64)
    with b.when(is_float, [value]) as read:
        read.yields(b.field(held, HEAD, F64))
    with b.when(is_int, [*read.results]) as converted:
        converted.yields(b.call(b.argument(words, AS_DOUBLE), [held], F64))
    value = converted.results[0]
    is_unknown = b.logical_and(is_int, b.eq(value, -1.0))
    with b.when(is_unknown):
        b.call(b.argument(words, CLEAR_ERROR), [])
    for kind, place in room.items():
        b.store(b.cast(value, kind), place)
    return b.logical_and(b.logical_or(is_float, is_int), b.logical_not(is_unknown))


def _call_for_type(b: Builder, symbol: str, words: Reg, array: Reg, describe: Callable[[Type], list[Factor]]) -> None:
    """Return the result from the function being written, if there is one."""
    dtype = b.field(array, DTYPE, PTR)
    for kind, word in KINDS:
        with b.when(b.eq(dtype, b.argument(words, word))):
            x, y = describe(kind)
            made = b.call(f"{symbol}{kind.bits}", [words, *x, *y], PTR)
            b.return_if(b.ne(made, NULL), made)


def _compute_result(
    b: Builder,
    operation: Callable[[Builder, Reg, Reg], Reg],
    kind: Type,
    lanes: int,
    words: Reg,
    x: Factor,
    y: Factor,
) -> Reg:
    """A new array with the result; a null pointer if it is for NumPy."""
    shape = b.stack(MAX_RANK, I64)
    dims = Dims(*(b.stack(MAX_RANK + 3, I64) for _ in Dims._fields))
    rank = b.maximum(x.rank, y.rank)
    b.return_if(b.gt(rank, MAX_RANK), NULL)
    size, count, fits = _find_dims(b, kind.itemsize, rank, x, y, shape, dims)
    is_large = b.gt(size, MAX_GIL_ELEMENTS)
    for steps in (dims.x_steps, dims.y_steps):  # elements of a row lie side by side, or are one
        step = _slot(b, steps, 1)
        fits = b.logical_and(fits, b.logical_or(b.eq(step, 0), b.eq(step, kind.itemsize)))
    b.return_if(b.logical_or(b.logical_not(fits), b.logical_and(is_large, b.le(count, 1))), NULL)
    zero = b.constant(0, I32)
    number = b.constant(NUMPY_TYPE_NUMBERS[kind], I32)
    made = b.call(
        b.argument(words, NEW),
        [b.argument(words, ARRAY), b.cast(rank, I32), shape, number, NULL, NULL, zero, zero, NULL],
        PTR,
    )
    with b.when(b.logical_and(b.ne(made, NULL), b.gt(size, 0))):
        with b.when(is_large, [NULL]) as saving:
            saving.yields(b.call(b.argument(words, SAVE_THREAD), [], PTR))
        rows = RowWriter(operation, kind, lanes, dims, (size, count), (x.data, y.data), b.field(made, DATA, PTR))
        has_short_rows = rows.has_short_rows(b)
        with b.when(has_short_rows):
            rows.write_short(b)
        moves = [b.ne(_slot(b, steps, 1), 0) for steps in (dims.x_steps, dims.y_steps)]
        for x_moves, y_moves in ((True, True), (True, False), (False, True)):
            is_so = [m if moving else b.logical_not(m) for m, moving in zip(moves, (x_moves, y_moves), strict=True)]
            with b.when(b.logical_and(b.logical_not(has_short_rows), b.logical_and(*is_so))):
                rows.write(b, (x_moves, y_moves))
        with b.when(is_large):
            b.call(b.argument(words, RESTORE_THREAD), [*saving.results])
    return made


def _find_dims(
    b: Builder, itemsize: int, rank: Reg, x: Factor, y: Factor, shape: Reg, dims: Dims
) -> tuple[Reg, Reg, Reg]:
    """Write the shape of the result, and its dimensions; return its size, their number, and whether all that fits."""
    one, zero = b.constant(1, I64), b.constant(0, I64)
    for table in (dims.x_steps, dims.y_steps):
        b.store(b.constant(-1, I64), table)  # so that nothing joins the slot before the first
    b.store(one, dims.sizes)
    with b.loop(0, rank, carried=[one, one, one, zero, b.constant(True, BOOL)]) as loop:
        *inner_strides, size, count, fits = loop.carried
        sizes, steps = [], []
        for operand in (x, y):  # the size of this dimension from the last on, or 1 before the first
            with b.when(b.lt(loop.index, operand.rank), [one, zero]) as there:
                place = b.sub(b.sub(operand.rank, 1), loop.index)
                there.yields(_slot(b, operand.sizes, place), _slot(b, operand.strides, place))
            sizes.append(there.results[0])
            steps.append(b.select(b.eq(sizes[-1], 1), zero, there.results[1]))
        nx, ny = sizes
        x_stays, y_stays = b.eq(nx, 1), b.eq(ny, 1)
        n = b.select(x_stays, ny, nx)
        b.store(n, b.gep(shape, b.sub(b.sub(rank, 1), loop.index), I64))
        strides = []  # of an array that NumPy's result is row-major for, they do not fall from the last dimension on
        for stays, stride, inner in zip((x_stays, y_stays), steps, inner_strides, strict=True):
            fits = b.logical_and(fits, b.logical_or(stays, b.ge(stride, inner)))
            strides.append(b.select(stays, inner, stride))
        with b.when(b.ne(n, 1), [count]) as counted:
            length, *before = (_slot(b, table, count) for table in (dims.sizes, dims.x_steps, dims.y_steps))
            joins = b.logical_and(*(b.eq(b.mul(length, s), t) for s, t in zip(before, steps, strict=True)))
            place = b.select(joins, count, b.add(count, 1))
            b.store(b.select(joins, b.mul(length, n), n), b.gep(dims.sizes, place, I64))
            for table, old, new in zip((dims.x_steps, dims.y_steps), before, steps, strict=True):
                b.store(b.select(joins, old, new), b.gep(table, place, I64))
            counted.yields(place)
        agree = b.logical_or(b.eq(nx, ny), b.logical_or(x_stays, y_stays))
        loop.yields(*strides, b.mul(size, n), *counted.results, b.logical_and(fits, agree))
    _, _, size, count, fits = loop.results
    first_step = b.select(b.eq(count, 0), b.constant(itemsize, I64), zero)  # of the one element, which is a run
    for i, step in ((1, first_step), (2, zero)):
        b.store(one, b.gep(dims.sizes, b.add(count, i), I64))
        for table in (dims.x_steps, dims.y_steps):
            b.store(step, b.gep(table, b.add(count, i), I64))
    return size, count, fits


def _slot(b: Builder, numbers: Reg, i: Reg | int) -> Reg:
    return b.load(b.gep(numbers, i, I64), I64)


class RowWriter(NamedTuple):
    """The rows of a result to be written: its dimensions, size and number of dimensions, the operands, its elements."""

    operation: Callable[[Builder, Reg, Reg], Reg]
    kind: Type
    lanes: int
    dims: Dims
    extent: tuple[Reg, Reg]
    data: tuple[Reg, Reg]
    out: Reg

    def has_short_rows(self, b: Builder) -> Reg:
        """Return whether rows are shorter than a register, and enough for a table of offsets."""
        steps = b.maximum(_slot(b, self.dims.x_steps, 2), _slot(b, self.dims.y_steps, 2))
        is_short = b.logical_and(b.lt(_slot(b, self.dims.sizes, 1), self.lanes), b.lt(steps, MAX_ROW_STEP_BYTES))
        return b.logical_and(is_short, b.ge(self.extent[0], MIN_SIZE_OF_SHORT_ROWS))

    def write(self, b: Builder, moves: tuple[bool, bool]) -> None:
        """Write row by row; in a row each operand moves or stays.

        Rows shorter than a register go element by element: stores under a mask are slow on many machines.
        """
        kind = self.kind
        length, rows = (_slot(b, self.dims.sizes, i) for i in (1, 2))
        whole = b.bitwise_and(length, -self.lanes)
        mask = b.lane_mask(b.sub(length, whole), self.lanes)
        is_short = b.eq(whole, 0)
        has_masked_rest = b.logical_and(b.lt(whole, length), b.logical_not(is_short))
        with b.loop(0, self._count_blocks(b)) as block:
            starts = self._find_block(b, block.index)
            with b.loop(0, rows) as row:
                sources = self._find_row(b, starts, row.index)
                target = b.gep(self.out, b.mul(b.add(b.mul(block.index, rows), row.index), length), kind)
                fixed = [None if moving else b.load(x, kind) for x, moving in zip(sources, moves, strict=True)]

                def write(index: Reg, lanes: int, mask: Reg | None = None) -> None:
                    values = [
                        b.load(b.gep(source, index, kind), kind.of(lanes), mask)
                        if value is None
                        else b.broadcast(value, lanes)
                        for source, value in zip(sources, fixed, strict=True)
                    ]
                    b.store(self.operation(b, *values), b.gep(target, index, kind), mask)

                with b.when(is_short), b.loop(0, length) as element:
                    write(element.index, 1)
                with b.loop(0, whole, self.lanes) as part:
                    write(part.index, self.lanes)
                with b.when(has_masked_rest):
                    write(whole, self.lanes, mask)

    def write_short(self, b: Builder) -> None:
        """Write rows shorter than a register, as many at once as it has lanes: their elements fill whole registers.

        A table tells for each element of these rows where an operand has it. Rows of 8 numbers take a third of the
        time that they take element by element.
        """
        length, kind = _slot(b, self.dims.sizes, 1), self.kind
        tables, are_flat = [], []
        for steps in (self.dims.x_steps, self.dims.y_steps):
            along, step = (_slot(b, steps, i) for i in (1, 2))
            table = b.stack(self.lanes**2, I32)
            with b.loop(0, self.lanes) as row, b.loop(0, length) as element:
                place = b.add(b.mul(row.index, step), b.mul(element.index, along))
                offset = b.cast(b.floor_divide(place, kind.itemsize), I32)
                b.store(offset, b.gep(table, b.add(b.mul(row.index, length), element.index), I32))
            tables.append(table)
            are_flat.append(b.logical_and(b.eq(along, kind.itemsize), b.eq(step, b.mul(length, kind.itemsize))))
        either = b.logical_or(*are_flat)
        self._write_groups(b, b.logical_not(either), tables)
        self._write_groups(b, are_flat[0], [None, tables[1]])
        self._write_groups(b, b.logical_and(are_flat[1], b.logical_not(are_flat[0])), [tables[0], None])

    def _write_groups(self, b: Builder, condition: Reg, tables: Sequence[Reg | None]) -> None:
        """Write the rows; an operand without a table has its elements in the order of the result."""
        kind, lanes = self.kind, self.lanes
        length, rows = (_slot(b, self.dims.sizes, i) for i in (1, 2))

        def write(sources: list[Reg], target: Reg, at: Reg, mask: Reg | None) -> None:
            values = [
                b.load(b.gep(source, at, kind), kind.of(lanes), mask)
                if table is None
                else b.gather(source, b.load(b.gep(table, at, I32), I32.of(lanes)), kind, mask)
                for source, table in zip(sources, tables, strict=True)
            ]
            b.store(self.operation(b, *values), b.gep(target, at, kind), mask)

        with b.when(condition), b.loop(0, self._count_blocks(b)) as block:
            starts = self._find_block(b, block.index)
            with b.loop(0, rows, lanes) as group:
                sources = self._find_row(b, starts, group.index)
                target = b.gep(self.out, b.mul(b.add(b.mul(block.index, rows), group.index), length), kind)
                size = b.mul(b.minimum(b.sub(rows, group.index), lanes), length)
                whole = b.bitwise_and(size, -lanes)
                with b.loop(0, whole, lanes) as part:
                    write(sources, target, part.index, None)
                with b.when(b.lt(whole, size)):
                    write(sources, target, whole, b.lane_mask(b.sub(size, whole), lanes))

    def _count_blocks(self, b: Builder) -> Reg:
        """Return how many times the two innermost dimensions are run through."""
        return b.floor_divide(self.extent[0], b.mul(*(_slot(b, self.dims.sizes, i) for i in (1, 2))))

    def _find_block(self, b: Builder, number: Reg) -> list[Reg]:
        """Return the bytes at which a block begins, in each operand."""
        zero, dims = b.constant(0, I64), self.dims
        with b.loop(3, b.add(self.extent[1], 1), carried=[number, zero, zero]) as dim:
            index, *starts = dim.carried
            further = b.floor_divide(index, n := _slot(b, dims.sizes, dim.index))
            at = b.sub(index, b.mul(further, n))
            places = [b.mul(at, _slot(b, table, dim.index)) for table in (dims.x_steps, dims.y_steps)]
            dim.yields(further, *(b.add(start, place) for start, place in zip(starts, places, strict=True)))
        return list(dim.results[1:])

    def _find_row(self, b: Builder, starts: list[Reg], number: Reg) -> list[Reg]:
        """Return the addresses of the operands at the begin of a row."""
        steps = [_slot(b, table, 2) for table in (self.dims.x_steps, self.dims.y_steps)]
        places = [b.add(start, b.mul(number, step)) for start, step in zip(starts, steps, strict=True)]
        return [b.gep(x, place, U8) for x, place in zip(self.data, places, strict=True)]

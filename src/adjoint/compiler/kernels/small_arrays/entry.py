"""The entry of a routine: a function for Python that checks its operands itself, and refuses what is not for it.

It is a METH_FASTCALL function whose answer is a new array, or None where it did nothing: operands of other types, too
large, or with gaps or out of order, unless the routine has those copied. Shapes are the caller's care.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import BOOL, F32, F64, I32, I64, NULL, PTR, U8, Reg, Type
from adjoint.compiler.runtime.cpython_layout import CONTENTS, DATA, DTYPE, FLAGS, HEAD, RANK, SIZES, STRIDES, TYPE

ROW_MAJOR, COLUMN_MAJOR, ALIGNED = 0x1, 0x2, 0x100  # bits of an ndarray's flags
# The words that a routine finds in the bytes object it is bound to: addresses.
WORDS = tuple(range(16))
NONE, KEEP, DROP, CLEAR_ERROR, NEW, COPY, NEW_LIKE, COPY_INTO, SAVE_THREAD, RESTORE_THREAD, *_TYPE_WORDS = WORDS
ARRAY, FLOAT, SINGLE, DOUBLE, INTEGERS, TRUTHS = _TYPE_WORDS
ROW_MAJOR_ORDER, SAME_ORDER = 0, 2  # NumPy's numbers
FLOATS = "fd"  # operands that are Python floats
ALL_DIMS = -1  # dimensions that a result is without
MAX_GIL_ELEMENTS = 2**16  # elements up to which a routine keeps Python's lock
UNLIMITED = 2**62  # elements
NUMPY_TYPE_NUMBERS = {F32: 11, F64: 12}  # of the types in NumPy's C interface


class ArrayOperand(NamedTuple):
    """An operand: where its elements lie, and their number in all and along the last dimension."""

    data: Reg
    size: Reg
    last: Reg


# What writes a routine: the builder, the type of the numbers, the lanes of a register, the operands, and the result.
# It gives a truth value where it may find that the operands are not for it.
Writer = Callable[..., Reg | None]
Body = Callable[..., Sequence[Reg]]  # of a loop: the index, a mask, and what is carried; it gives what is carried on


class SmallArrayEntry(NamedTuple):
    """A routine to be written.

    `operands`, a letter for each: `x` numbers of one type, float32 or float64; `i` int64; `b` bool; `f` a Python float;
    `d` one that stays in float64; `n` a Python float or an array without dimensions of the type of `x`.
    The result has the shape of operand `like`, without its last `less` dimensions, or without `ALL_DIMS`. `most`:
    elements that the first numbers may have; with more than `MAX_GIL_ELEMENTS` other threads run meanwhile.
    `copies`: so many of the first operands, none of which it writes, are copied where they are not row-major.
    `alike`: arrays `x` of other shapes than operand `like` are not for it. `keeps_order`: so is the result, and arrays
    `x` that are not row-major are copied in the order of operand `like`, in which the result lies, too.
    """

    operands: str
    write: Writer
    like: int = 0
    less: int = 0
    most: int = MAX_GIL_ELEMENTS
    copies: int = 0
    alike: bool = False
    keeps_order: bool = False


def text(name: str, routine: SmallArrayEntry, target: Target) -> str:
    """The module of a routine, whose function has this name."""
    b = Builder(target)
    symbol = f"adjoint_{name}"
    calls_python = routine.most > MAX_GIL_ELEMENTS
    for kind in (F32, F64):
        with b.function(f"{symbol}{kind.bits}", [PTR] * 3, PTR, unwinds=calls_python) as (words, args, strides):
            b.returns(_compute_result(b, kind, target.lanes(kind), words, args, strides, routine))
    with b.function(symbol, [PTR, PTR, I64], PTR, visible=True, unwinds=calls_python) as (bound, args, _):
        words = b.gep(bound, CONTENTS, U8)
        b.returns(make_none_of_null(b, words, _check_types_and_call(b, symbol, words, args, routine)))
    return b.text()


def make_none_of_null(b: Builder, words: Reg, made: Reg) -> Reg:
    """The result of a routine, which is None for what it does not take, and where there was no memory for it."""
    with b.when(b.eq(made, NULL), [made]) as refused:
        b.call(b.argument(words, CLEAR_ERROR), [])  # whoever does it instead raises it again
        none = b.argument(words, NONE)
        b.call(b.argument(words, KEEP), [none])
        refused.yields(none)
    return refused.results[0]


def _compute_result(
    b: Builder, kind: Type, lanes: int, words: Reg, args: Reg, strides: Reg, routine: SmallArrayEntry
) -> Reg:
    """A new array with the result, or a null pointer. `strides`: of the result; null if it is row-major."""
    objects = [(letter, b.argument(args, i)) for i, letter in enumerate(routine.operands)]
    operands = [
        b.cast(b.field(x, HEAD, F64), F64 if letter == "d" else kind)
        if letter in FLOATS
        else _number(b, kind, words, x)
        if letter == "n"
        else _array(b, x)
        for letter, x in objects
    ]
    first = operands[routine.operands.index("x")]
    assert isinstance(first, ArrayOperand)
    with b.when(b.le(first.size, routine.most), [NULL]) as small:
        small.yields(_make_result(b, kind, lanes, words, args, strides, routine, operands, first.size))
    return small.results[0]


def _make_result(
    b: Builder,
    kind: Type,
    lanes: int,
    words: Reg,
    args: Reg,
    strides: Reg,
    routine: SmallArrayEntry,
    operands: Sequence[ArrayOperand | Reg],
    size: Reg,
) -> Reg:
    like = b.argument(args, routine.like)
    rank = b.field(like, RANK, I32)
    sizes = b.field(like, SIZES, PTR)
    new = b.argument(words, NEW)
    kept = b.constant(0, I32) if routine.less == ALL_DIMS else b.sub(rank, routine.less)
    number, zero = b.constant(NUMPY_TYPE_NUMBERS[kind], I32), b.constant(0, I32)
    made = b.call(new, [b.argument(words, ARRAY), kept, sizes, number, strides, NULL, zero, zero, NULL], PTR)
    with b.when(b.ne(made, NULL), [made]) as there:
        done = _run_unlocked(b, words, routine, lambda: routine.write(b, kind, lanes, *operands, _array(b, made)), size)
        if done is not None:
            with b.when(b.logical_not(done), [made]) as refused:
                b.call(b.argument(words, DROP), [made])
                refused.yields(NULL)
            made = refused.results[0]
        there.yields(made)
    return there.results[0]


def _run_unlocked(
    b: Builder, words: Reg, routine: SmallArrayEntry, write: Callable[[], Reg | None], size: Reg
) -> Reg | None:
    """Write the routine's work, without Python's lock where it takes long."""
    if routine.most <= MAX_GIL_ELEMENTS:
        return write()
    long = b.gt(size, MAX_GIL_ELEMENTS)
    with b.when(long, [NULL]) as saving:
        saving.yields(b.call(b.argument(words, SAVE_THREAD), [], PTR))
    done = write()
    with b.when(long):
        b.call(b.argument(words, RESTORE_THREAD), [*saving.results])
    return done


def sweep(b: Builder, count: Reg, lanes: int, carried: Sequence[Reg], body: Body) -> tuple[Reg, ...]:
    """Visit `count` elements a register at a time; the mask is None but for the rest that does not fill one."""
    whole = b.bitwise_and(count, -lanes)
    with b.loop(0, whole, lanes, carried) as loop:
        loop.yields(*body(loop.index, None, *loop.carried))
    with b.when(b.lt(whole, count), loop.results) as rest:
        mask = b.lane_mask(b.sub(count, whole), lanes)
        rest.yields(*body(whole, mask, *loop.results))
    return rest.results


def _array(b: Builder, held: Reg) -> ArrayOperand:
    data = b.field(held, DATA, PTR)
    rank = b.cast(b.field(held, RANK, I32), I64)
    sizes = b.field(held, SIZES, PTR)
    with b.loop(0, rank, carried=[b.constant(1, I64)] * 2) as loop:
        n = b.load(b.gep(sizes, loop.index, I64), I64)
        loop.yields(b.mul(loop.carried[0], n), n)
    return ArrayOperand(data, *loop.results)


def _number(b: Builder, kind: Type, words: Reg, held: Reg) -> Reg:
    """The number that a float or an array without dimensions holds."""
    number = b.constant(0.0, kind)
    is_float = has_word(b, held, TYPE, words, FLOAT)
    with b.when(is_float, [number]) as of_float:
        of_float.yields(b.cast(b.field(held, HEAD, F64), kind))
    with b.when(b.logical_not(is_float), of_float.results) as of_array:
        of_array.yields(b.load(b.field(held, DATA, PTR), kind))
    return of_array.results[0]


def _check_types_and_call(b: Builder, symbol: str, words: Reg, args: Reg, routine: SmallArrayEntry) -> Reg:
    """The result; a null pointer where the operands are not as they should be."""
    letters = routine.operands
    objects = [b.argument(args, i) for i in range(len(letters))]
    fits = b.constant(True, BOOL)
    for held, letter in zip(objects, letters, strict=True):
        right = has_word(b, held, TYPE, words, FLOAT if letter in FLOATS else ARRAY)
        if letter == "n":
            right = b.logical_or(right, has_word(b, held, TYPE, words, FLOAT))
        fits = b.logical_and(fits, right)
    with b.when(fits, [NULL]) as looked:
        looked.yields(_check_dtypes_and_call(b, symbol, words, args, objects, routine))
    return looked.results[0]


def _check_dtypes_and_call(
    b: Builder, symbol: str, words: Reg, args: Reg, objects: Sequence[Reg], routine: SmallArrayEntry
) -> Reg:
    letters = routine.operands
    first = objects[letters.index("x")]
    single = has_word(b, first, DTYPE, words, SINGLE)
    fits = b.logical_or(single, has_word(b, first, DTYPE, words, DOUBLE))
    kind = b.field(first, DTYPE, PTR)
    are_dense, rest_is_dense = b.constant(True, BOOL), b.constant(True, BOOL)
    for i, (held, letter) in enumerate(zip(objects, letters, strict=True)):
        if letter in FLOATS:
            continue
        if letter == "n":
            fits = b.logical_and(fits, _is_number(b, words, held, kind))
            continue
        if (routine.alike or routine.keeps_order) and letter == "x" and i != routine.like:
            fits = b.logical_and(fits, _has_shape_of(b, held, objects[routine.like]))
        wanted = {"i": INTEGERS, "b": TRUTHS}.get(letter)
        fits = b.logical_and(
            fits, b.eq(b.field(held, DTYPE, PTR), kind if wanted is None else b.argument(words, wanted))
        )
        if i < routine.copies or (routine.keeps_order and letter == "x"):
            are_dense = b.logical_and(are_dense, is_dense(b, held))
        else:
            rest_is_dense = b.logical_and(rest_is_dense, is_dense(b, held))
    fits = b.logical_and(fits, rest_is_dense)
    with b.when(b.logical_and(fits, are_dense), [NULL]) as direct:
        direct.yields(_call_for_type(b, symbol, words, args, NULL, single))
    if not (routine.copies or routine.keeps_order):
        return direct.results[0]
    small = b.le(_array(b, first).size, routine.most)
    gapped = b.logical_and(b.logical_and(fits, b.logical_not(are_dense)), small)
    if routine.keeps_order:  # a result of repeated elements is row-major
        gapped = b.logical_and(gapped, b.logical_not(_is_repeated(b, objects[routine.like])))
    with b.when(gapped, [*direct.results]) as copied:
        copy_and_call = _copy_in_order_and_call if routine.keeps_order else _copy_and_call
        copied.yields(copy_and_call(b, symbol, words, objects, routine, single))
    return copied.results[0]


def _is_number(b: Builder, words: Reg, held: Reg, kind: Reg) -> Reg:
    """True for a float, and for an array of this type without dimensions."""
    is_array = b.logical_not(has_word(b, held, TYPE, words, FLOAT))
    with b.when(is_array, [b.constant(True, BOOL)]) as looked:
        right = b.logical_and(b.eq(b.field(held, DTYPE, PTR), kind), b.eq(b.field(held, RANK, I32), 0))
        looked.yields(b.logical_and(right, is_dense(b, held)))
    return looked.results[0]


def _has_shape_of(b: Builder, held: Reg, other: Reg) -> Reg:
    """True if two arrays have the same sizes."""
    with b.when(b.eq(b.field(held, RANK, I32), b.field(other, RANK, I32)), [b.constant(False, BOOL)]) as looked:
        looked.yields(_has_equal_words(b, held, other, SIZES))
    return looked.results[0]


def _has_equal_words(b: Builder, held: Reg, other: Reg, offset: int) -> Reg:
    """True if the sizes or the strides of two arrays of one rank are equal."""
    words, others = b.field(held, offset, PTR), b.field(other, offset, PTR)
    with b.loop(0, b.cast(b.field(held, RANK, I32), I64), carried=[b.constant(True, BOOL)]) as dim:
        n, m = (b.load(b.gep(each, dim.index, I64), I64) for each in (words, others))
        dim.yields(b.logical_and(dim.carried[0], b.eq(n, m)))
    return dim.results[0]


def _is_repeated(b: Builder, held: Reg) -> Reg:
    """True if an array has an element at several places."""
    sizes, strides = b.field(held, SIZES, PTR), b.field(held, STRIDES, PTR)
    with b.loop(0, b.cast(b.field(held, RANK, I32), I64), carried=[b.constant(False, BOOL)]) as dim:
        repeats = b.logical_and(b.eq(b.number(strides, dim.index), 0), b.gt(b.number(sizes, dim.index), 1))
        dim.yields(b.logical_or(dim.carried[0], repeats))
    return dim.results[0]


def is_dense(b: Builder, held: Reg) -> Reg:
    """True if an array is aligned and row-major without gaps."""
    return _has_flags(b, held, ROW_MAJOR | ALIGNED)


def _has_flags(b: Builder, held: Reg, flags: int) -> Reg:
    return b.eq(b.bitwise_and(b.field(held, FLAGS, I32), flags), flags)


def _call_for_type(b: Builder, symbol: str, words: Reg, args: Reg, strides: Reg, single: Reg) -> Reg:
    made = NULL
    for bits, condition in ((32, single), (64, b.logical_not(single))):
        with b.when(condition, [made]) as chosen:
            chosen.yields(b.call(f"{symbol}{bits}", [words, args, strides], PTR))
        made = chosen.results[0]
    return made


def _copy_and_call(
    b: Builder, symbol: str, words: Reg, objects: Sequence[Reg], routine: SmallArrayEntry, single: Reg
) -> Reg:
    """The result for row-major copies of the first arrays."""
    given, order = b.stack(len(objects), PTR), b.constant(ROW_MAJOR_ORDER, I32)
    copies, are_made = [], b.constant(True, BOOL)
    for i, (held, letter) in enumerate(zip(objects, routine.operands, strict=True)):
        operand = held
        if letter not in (*FLOATS, "n") and i < routine.copies:
            operand = b.call(b.argument(words, COPY), [held, order], PTR)
            copies.append(operand)
            are_made = b.logical_and(are_made, b.ne(operand, NULL))
        b.store(operand, b.gep(given, i, PTR))
    with b.when(are_made, [NULL]) as there:
        there.yields(_call_for_type(b, symbol, words, given, NULL, single))
    _drop_all(b, words, copies)
    return there.results[0]


def _copy_in_order_and_call(
    b: Builder, symbol: str, words: Reg, objects: Sequence[Reg], routine: SmallArrayEntry, single: Reg
) -> Reg:
    """The result for the arrays in the order of one of them, in which it lies, too."""
    given = b.stack(len(objects), PTR)
    model = _without_gaps(b, words, objects[routine.like])
    with b.when(b.ne(model, NULL), [NULL]) as begun:
        copies, are_made = [model], b.constant(True, BOOL)
        for i, (held, letter) in enumerate(zip(objects, routine.operands, strict=True)):
            operand = model if i == routine.like else held
            if letter == "x" and i != routine.like:
                operand = _in_order_of(b, words, held, model)
                copies.append(operand)
                are_made = b.logical_and(are_made, b.ne(operand, NULL))
            b.store(operand, b.gep(given, i, PTR))
        with b.when(are_made, [NULL]) as there:
            there.yields(_call_for_type(b, symbol, words, given, b.field(model, STRIDES, PTR), single))
        _drop_all(b, words, copies)
        begun.yields(there.results[0])
    return begun.results[0]


def _without_gaps(b: Builder, words: Reg, held: Reg) -> Reg:
    """A new reference to the array, or to a copy of it in the same order without gaps."""
    is_kept = _has_flags(b, held, COLUMN_MAJOR | ALIGNED)
    with b.when(is_kept):
        b.call(b.argument(words, KEEP), [held])
    with b.when(b.logical_not(is_kept), [held]) as copied:
        copied.yields(b.call(b.argument(words, COPY), [held, b.constant(SAME_ORDER, I32)], PTR))
    return copied.results[0]


def _in_order_of(b: Builder, words: Reg, held: Reg, model: Reg) -> Reg:
    """A new reference to the array, or to a copy of it that lies in memory as `model` does, which has no gaps."""
    is_kept = b.logical_and(_has_flags(b, held, ALIGNED), _has_equal_words(b, held, model, STRIDES))
    with b.when(is_kept):
        b.call(b.argument(words, KEEP), [held])
    with b.when(b.logical_not(is_kept), [held]) as copied:
        zero, order = b.constant(0, I32), b.constant(SAME_ORDER, I32)
        copy = b.call(b.argument(words, NEW_LIKE), [model, order, NULL, zero], PTR)
        with b.when(b.ne(copy, NULL)):
            b.call(b.argument(words, COPY_INTO), [copy, held], I32)
        copied.yields(copy)
    return copied.results[0]


def _drop_all(b: Builder, words: Reg, references: Sequence[Reg]) -> None:
    for held in references:
        with b.when(b.ne(held, NULL)):
            b.call(b.argument(words, DROP), [held])


def has_word(b: Builder, held: Reg, offset: int, words: Reg, i: int) -> Reg:
    """True if the object has word `i` at this offset."""
    return b.eq(b.field(held, offset, PTR), b.argument(words, i))

"""The native function that compares Python objects with what they were, and a function for each kind of comparison."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import NamedTuple

import numpy as np

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, F64, I32, I64, NULL, PTR, U8, Reg
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.cpython_layout import CONTENTS, HEAD, ITEMS, LENGTH, TYPE
from adjoint.core.graph.node import Leaf

(
    ARGUMENT_MATCHES,  # first: another size of the arguments is the most frequent of all differences
    SLOT_IS,
    ITEM_IS,
    KEY_ABSENT,
    ITEM_NONZERO,
    LIST_IS,
    DICT_IS,
    ATTRIBUTE_IS,
    METHOD_IS,
    VERSION_IS,
) = CHECK_KINDS = tuple(range(1, 11))
API_FUNCTIONS = (
    "Py_IncRef",
    "PyDict_GetItemWithError",
    "PyDict_Next",
    "PyObject_GetAttr",
    "Py_DecRef",
    "PyErr_Clear",
    "PyLong_AsLongLong",
)
ANY_SIZE = -(2**63)  # in place of a size or stride that may be any
KNOWN_OBJECTS = (True, False, None, np.ndarray, Leaf, MethodType, int)
# The plan is an array of words: the addresses of these objects and functions; then the number of runs, each of checks
# of one kind: (function, number of checks), and that many (a, b, c).
TRUE, FALSE, NONE, ARRAY_TYPE, LEAF_TYPE, METHOD_TYPE, INT_TYPE = range(7)
INCREF, GET_ITEM, NEXT_ITEM, GET_ATTRIBUTE, DECREF, CLEAR_ERROR, AS_NUMBER, HEAD_WORDS = range(7, 15)


class Operands(NamedTuple):
    """The operands of a check: the plan, the step's arguments, room for three words, the check's own three."""

    plan: Reg
    args: Reg
    room: Reg
    a: Reg
    b: Reg
    c: Reg


def text() -> str:
    """The module: `adjoint_unchanged`, which Python calls, and `adjoint_checks1` … for the plans."""
    b = Builder()
    with b.function("equal", [PTR, PTR, I64], BOOL) as (have, want, count):
        with b.loop(0, count) as loop:
            wanted = b.number(want, loop.index)
            _fail_if(b, b.logical_and(b.ne(b.number(have, loop.index), wanted), b.ne(wanted, ANY_SIZE)))
        b.returns(b.constant(True, BOOL))
    _write_has_entries(b)
    for kind, write in zip(CHECK_KINDS, CHECK_WRITERS, strict=True):
        _write_checks(b, f"adjoint_checks{kind}", write)
    with b.function("all_hold", [PTR, PTR], BOOL, unwinds=True) as (plan, args):
        with b.loop(0, b.number(plan, HEAD_WORDS), carried=[b.gep(plan, HEAD_WORDS + 1, PTR)]) as runs:
            (run,) = runs.carried
            checks, count = b.gep(run, 2, PTR), b.number(run, 1)
            _fail_unless(b, b.call(b.argument(run, 0), [plan, args, checks, count], BOOL))
            runs.yields(b.gep(checks, b.mul(count, 3), PTR))
        b.returns(b.constant(True, BOOL))
    with b.function("adjoint_unchanged", [PTR, PTR, I64], PTR, visible=True, unwinds=True) as (bound, args, _):
        plan = b.gep(b.field(bound, ITEMS, PTR), CONTENTS, U8)
        holds = b.call("all_hold", [plan, args], BOOL)
        answer = b.select(holds, b.argument(plan, TRUE), b.argument(plan, FALSE))
        b.call(b.argument(plan, INCREF), [answer])
        b.returns(answer)
    return b.text()


def _write_checks(b: Builder, name: str, write: Callable[[Builder, Operands], Reg]) -> None:
    """`name(plan, args, checks, count)`: true if all checks of a run hold."""
    with b.function(name, [PTR, PTR, PTR, I64], BOOL, visible=True, unwinds=True) as (plan, args, checks, count):
        room = b.stack(3, I64)
        with b.loop(0, count, carried=[checks]) as loop:
            (check,) = loop.carried
            _fail_unless(b, write(b, Operands(plan, args, room, *[b.argument(check, i) for i in range(3)])))
            loop.yields(b.gep(check, 3, PTR))
        b.returns(b.constant(True, BOOL))


def _fail_if(b: Builder, condition: Reg) -> None:
    b.return_if(condition, b.constant(False, BOOL))


def _fail_unless(b: Builder, condition: Reg) -> None:
    _fail_if(b, b.logical_not(condition))


def _as_count(b: Builder, word: Reg) -> Reg:
    return b.emit(f"ptrtoint ptr {word.name} to i64", I64)


def _fail_calmly_unless_found(b: Builder, x: Operands, found: Reg) -> None:
    """Fail where an object was not found, and leave no error of Python's."""
    with b.when(b.eq(found, NULL)):
        b.call(b.argument(x.plan, CLEAR_ERROR), [])
        b.return_now(b.constant(False, BOOL))


def _item_is(b: Builder, x: Operands) -> Reg:
    value = b.call(b.argument(x.plan, GET_ITEM), [x.a, x.b], PTR)
    _fail_calmly_unless_found(b, x, value)
    return b.eq(value, x.c)


def _key_absent(b: Builder, x: Operands) -> Reg:
    absent = b.eq(b.call(b.argument(x.plan, GET_ITEM), [x.a, x.b], PTR), NULL)
    with b.when(absent):
        b.call(b.argument(x.plan, CLEAR_ERROR), [])
    return absent


def _item_nonzero(b: Builder, x: Operands) -> Reg:
    number = b.call(b.argument(x.plan, GET_ITEM), [x.a, x.b], PTR)
    _fail_calmly_unless_found(b, x, number)
    _fail_unless(b, b.eq(b.field(number, TYPE, PTR), x.c))
    return b.gt(b.abs(b.field(number, HEAD, F64)), 0.0)


def _list_is(b: Builder, x: Operands) -> Reg:
    count = _as_count(b, x.c)
    _fail_unless(b, b.eq(b.field(x.a, LENGTH, I64), count))
    return b.call("equal", [b.field(x.a, cpython_layout.LIST, PTR), x.b, count], BOOL)


def _write_has_entries(b: Builder) -> None:
    """`has_entries(plan, room, dict, want, count)`: the dict has these keys and values; any value where 0 is wanted."""
    with b.function("has_entries", [PTR, PTR, PTR, PTR, I64], BOOL, unwinds=True) as (plan, room, holder, want, count):
        position, pair = room, b.gep(room, 1, I64)
        next_item = b.argument(plan, NEXT_ITEM)
        _fail_unless(b, b.eq(b.field(holder, LENGTH, I64), count))
        b.store(b.constant(0, I64), position)
        with b.loop(0, count, carried=[want]) as loop:
            (entry,) = loop.carried
            found = b.call(next_item, [holder, position, pair, b.gep(pair, 1, PTR)], I32)
            _fail_if(b, b.eq(found, 0))
            _fail_unless(b, b.eq(b.number(pair, 0), b.number(entry, 0)))
            value = b.number(entry, 1)
            _fail_unless(b, b.logical_or(b.eq(value, 0), b.eq(b.number(pair, 1), value)))
            loop.yields(b.gep(entry, 2, PTR))
        b.returns(b.constant(True, BOOL))


def _version_is(b: Builder, x: Operands) -> Reg:
    # The words of `want`: the version, then the number of dicts that it stands for, and of each the dict, the number of
    # its entries, and these. Where all of them are as they were, a version that moved is the one to expect.
    item = b.call(b.argument(x.plan, GET_ITEM), [x.a, x.b], PTR)
    _fail_calmly_unless_found(b, x, item)
    _fail_unless(b, b.eq(b.field(item, TYPE, PTR), b.argument(x.plan, INT_TYPE)))
    version = b.call(b.argument(x.plan, AS_NUMBER), [item], I64)
    with b.when(b.ne(version, b.number(x.c, 0))):
        with b.loop(0, b.number(x.c, 1), carried=[b.gep(x.c, 2, PTR)]) as dicts:
            (part,) = dicts.carried
            holder, count, want = b.argument(part, 0), b.number(part, 1), b.gep(part, 2, PTR)
            _fail_unless(b, b.call("has_entries", [x.plan, x.room, holder, want, count], BOOL))
            dicts.yields(b.gep(want, b.mul(count, 2), PTR))
        b.store(version, x.c)
    return b.constant(True, BOOL)


def _attribute_is(b: Builder, x: Operands) -> Reg:
    value = b.call(b.argument(x.plan, GET_ATTRIBUTE), [x.a, x.b], PTR)
    _fail_calmly_unless_found(b, x, value)
    b.call(b.argument(x.plan, DECREF), [value])
    return b.eq(value, x.c)


def _method_is(b: Builder, x: Operands) -> Reg:
    method = b.call(b.argument(x.plan, GET_ATTRIBUTE), [x.a, x.b], PTR)
    _fail_calmly_unless_found(b, x, method)
    bound = b.eq(b.field(method, TYPE, PTR), b.argument(x.plan, METHOD_TYPE))
    with b.when(bound, [NULL]) as is_method:
        is_method.yields(b.field(method, cpython_layout.FUNCTION, PTR))
    b.call(b.argument(x.plan, DECREF), [method])
    return b.eq(is_method.results[0], x.c)


def _argument_matches(b: Builder, x: Operands) -> Reg:
    # The words of `want`: type or object, which of them, kind of node, dtype, rank, flags, rank if strides are told.
    slots = cpython_layout.find_slot_offsets()
    assert slots is not None
    want, tensor = x.b, b.argument(x.args, _as_count(b, x.a))
    itself = b.ne(b.number(want, 1), 0)
    _fail_unless(b, b.eq(b.select(itself, tensor, b.field(tensor, TYPE, PTR)), b.argument(want, 0)))
    array = b.field(tensor, slots.array, PTR)
    _fail_if(b, b.eq(array, NULL))
    _fail_unless(b, b.eq(b.field(array, TYPE, PTR), b.argument(x.plan, ARRAY_TYPE)))
    rank, order = b.number(want, 4), b.cast(b.number(want, 5), I32)
    same = b.eq(b.field(array, cpython_layout.DTYPE, PTR), b.argument(want, 3))
    same = b.logical_and(same, b.eq(b.field(array, cpython_layout.RANK, I32), b.cast(rank, I32)))
    flags = b.bitwise_and(b.field(array, cpython_layout.FLAGS, I32), order)
    _fail_unless(b, b.logical_and(same, b.eq(flags, order)))
    sizes = b.gep(want, 7, I64)
    _fail_unless(b, b.call("equal", [b.field(array, cpython_layout.SIZES, PTR), sizes, rank], BOOL))
    strides = b.field(array, cpython_layout.STRIDES, PTR)
    _fail_unless(b, b.call("equal", [strides, b.gep(sizes, rank, I64), b.number(want, 6)], BOOL))
    node, none = b.field(tensor, slots.node, PTR), b.argument(x.plan, NONE)
    unrecorded, wanted = b.eq(node, none), b.number(want, 2)
    _fail_unless(b, b.eq(unrecorded, b.eq(wanted, 0)))
    with b.when(b.eq(wanted, 1)):
        _fail_unless(b, b.eq(b.field(node, TYPE, PTR), b.argument(x.plan, LEAF_TYPE)))
        _fail_unless(b, b.eq(b.field(node, slots.hooks, PTR), none))
    return b.constant(True, BOOL)


CHECK_WRITERS: tuple[Callable[[Builder, Operands], Reg], ...] = (
    _argument_matches,
    lambda b, x: b.eq(b.load(x.a, PTR), x.b),  # SLOT_IS
    _item_is,
    _key_absent,
    _item_nonzero,
    _list_is,
    lambda b, x: b.call("has_entries", [x.plan, x.room, x.a, x.b, _as_count(b, x.c)], BOOL),  # DICT_IS
    _attribute_is,
    _method_is,
    _version_is,
)  # in the order of the kinds

"""The marks of a call on Python objects that its kernels wrote: when they were written, and how often.

In native code 20 ns for each, where Python takes 100.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, PTR, U8
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.native_function import NativeModule, api_addresses
from adjoint.core.tensor.mutation_log import Write
from adjoint.core.tensor.storage import Storage, StorageCount

if TYPE_CHECKING:
    from adjoint.core.graph.source_location import Site

API_FUNCTIONS = ("Py_IncRef", "Py_DecRef", "PyLong_AsLongLong", "PyLong_FromLongLong")
# The plan is an array of words: the addresses of None, False, the site and these functions; then the number of writes
# and their addresses, the number of storages, their addresses, and how many writes each of them counts.
NONE, FALSE, SITE, INCREF, DECREF, AS_NUMBER, FROM_NUMBER, WRITE_COUNT = range(8)


def make_write_marker(
    written: Sequence[Write], storages: Sequence[StorageCount], site: Site
) -> Callable[[int], None] | None:
    """A function `mark(order)`: these memories are written now, at `site`, and count it; None if only Python can."""
    slots = cpython_layout.find_write_slot_offsets()
    count = vars(Storage)["version"]
    if slots is None or not all(inspect.getattr_static(type(s), "version") is count for s, _ in storages):
        return None
    addresses = (id(None), id(False), id(site), *api_addresses(API_FUNCTIONS))
    words = (*addresses, len(written), *map(id, written), len(storages))
    words += (*(id(storage) for storage, _ in storages), *(times for _, times in storages))
    plan = struct.pack(f"{len(words)}q", *words)
    return _module.function("adjoint_mark", (plan, [*written], [*storages], site))


def text() -> str:
    """The module of the function that Python calls."""
    slots = cpython_layout.find_write_slot_offsets()
    assert slots is not None
    b = Builder()
    with b.function("put", [PTR, PTR, PTR], unwinds=True) as (plan, slot, value):
        old = b.load(slot, PTR)
        with b.when(b.ne(old, value)):
            b.call(b.argument(plan, INCREF), [value])
            b.store(value, slot)
            b.call(b.argument(plan, DECREF), [old])
    with b.function("adjoint_mark", [PTR, PTR, I64], PTR, visible=True, unwinds=True) as (bound, args, _):
        plan = b.gep(b.field(bound, cpython_layout.ITEMS, PTR), cpython_layout.CONTENTS, U8)
        values = {slots.order: b.argument(args, 0), slots.place: b.argument(plan, SITE)}
        values[slots.outside] = b.argument(plan, FALSE)
        with b.loop(0, b.number(plan, WRITE_COUNT), carried=[b.gep(plan, WRITE_COUNT + 1, PTR)]) as writes:
            write = b.argument(writes.carried[0], 0)
            for offset, value in values.items():
                b.call("put", [plan, b.gep(write, offset, U8), value])
            writes.yields(b.gep(writes.carried[0], 1, PTR))
        rest = writes.results[0]
        length = b.number(rest, 0)
        with b.loop(1, b.add(length, 1)) as storages:
            version = b.gep(b.argument(rest, storages.index), slots.version, U8)
            old = b.load(version, PTR)
            times = b.number(rest, b.add(storages.index, length))
            count = b.call(b.argument(plan, AS_NUMBER), [old], I64)
            b.store(b.call(b.argument(plan, FROM_NUMBER), [b.add(count, times)], PTR), version)
            b.call(b.argument(plan, DECREF), [old])
        none = b.argument(plan, NONE)
        b.call(b.argument(plan, INCREF), [none])
        b.returns(none)
    return b.text()


_module = NativeModule("write marks", text)

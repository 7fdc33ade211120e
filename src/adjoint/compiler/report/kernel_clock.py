"""The clock of a program: in place of its native calls, ones that note when each kernel began and ended, by thread.

A timed kernel is called for each tile as the kernel itself would be. Its table is a record of the kernel's own function
and table, and of slots, one for each thread: when its first tile began, when its last one ended, how many it took. The
program's code stays as it is: `KernelClock.install` exchanges the objects that its entry function calls.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I32, I64, PTR
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.memory_plan import aligned_bytes
from adjoint.compiler.runtime.native_entry import KernelCall
from adjoint.compiler.runtime.native_function import NativeModule
from adjoint.core.typing import Function, Operand

if TYPE_CHECKING:
    from adjoint.compiler.program.program import Program

FUNCTION, TABLE, SLOTS, CLOCK, RECORD_WORDS = range(5)
BEGIN, END, TILES = range(3)
SLOT_WORDS = 16  # a pair of cache lines for each thread
SECOND_NS = 10**9
# time.perf_counter_ns reads the same clock.
CLOCK_NUMBER = {"linux": 1, "darwin": 8}.get(sys.platform, 0)


class KernelSpan(NamedTuple):
    """A run of one entry of a program, on one thread (0: that of the call): when it began and ended, its tiles."""

    entry: int
    thread: int
    begin: int  # nanoseconds of time.perf_counter_ns
    end: int
    tiles: int = 1


def text() -> str:
    """The module: `adjoint_timed(record, tile, thread)`."""
    b = Builder()
    with b.function("read_clock", [PTR, PTR], I64) as (clock, room):
        b.call(clock, [b.constant(CLOCK_NUMBER, I32), room], I32)
        seconds = b.load(room, I64)
        b.returns(b.add(b.mul(seconds, SECOND_NS), b.load(b.gep(room, 1, I64), I64)))
    with b.function("adjoint_timed", [PTR, I64, I64], visible=True) as (record, tile, thread):
        room, clock = b.stack(2, I64), b.argument(record, CLOCK)
        slot = b.gep(b.argument(record, SLOTS), b.mul(thread, SLOT_WORDS), I64)
        begin = b.call("read_clock", [clock, room], I64)
        b.call(b.argument(record, FUNCTION), [b.argument(record, TABLE), tile, thread])
        end = b.call("read_clock", [clock, room], I64)
        tiles = b.number(slot, TILES)
        with b.when(b.eq(tiles, 0)):
            b.store(begin, b.gep(slot, BEGIN, I64))
        b.store(end, b.gep(slot, END, I64))
        b.store(b.add(tiles, 1), b.gep(slot, TILES, I64))
    return b.text()


_module = NativeModule("kernel_clock", text)


@cache
def clock_address() -> int:
    """The address of C's clock_gettime; 0 where there is none."""
    if not CLOCK_NUMBER or os.name != "posix":
        return 0
    return ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0


class KernelClock:
    """Notes the spans of one program while it is installed, and passes them to `note` after each native call."""

    def __init__(self, program: Program, note: Callable[[Program, list[KernelSpan]], None]) -> None:
        self.program, self.note = program, note
        self.names = program.names  # those of the entry function that was timed
        self.entries = {group: i for i, group in enumerate(program.fusion.order)}
        self.by_value = {group.equations[0]: i for group, i in self.entries.items() if group.call}
        self.replaced: dict[str, object] = {}
        self.timed: dict[str, Function] = {}
        self._held: list[object] = []  # memory at which native code looks
        calls = {**program.numpy_calls, **program.matmul_calls}
        for name, value in calls.items():
            self.timed[name] = partial(self._time_call, name, self.by_value[value])
        if clock_address():
            for name, groups in program.native_calls.items():
                self.timed[name] = self._time_segment(groups)

    def install(self) -> None:
        """Time the calls from now on."""
        self.program.is_timed = True
        for name, call in self.timed.items():
            self.replaced[name] = self.names[name]
            self.names[name] = call

    def remove(self) -> None:
        """Leave the program as it was."""
        self.program.is_timed = False
        for name, call in self.timed.items():
            if self.names.get(name) is call:
                self.names[name] = self.replaced[name]
        self.replaced.clear()

    def is_current(self) -> bool:
        """True unless the program has written its entry function anew."""
        return self.names is self.program.names

    def _time_segment(self, groups: list[Group]) -> Function:
        """The native call of these groups, each kernel timed."""
        kernels = [group for group in groups if group in self.program.kernels]
        threads = self.program.binding.threads
        slots = aligned_bytes(max(1, len(kernels)) * threads * SLOT_WORDS * 8).view(np.int64)
        slots = slots[: len(kernels) * threads * SLOT_WORDS].reshape(len(kernels), threads, SLOT_WORDS)
        slots[...] = 0
        memory = np.zeros((len(kernels), 1 + RECORD_WORDS), np.int64)
        counts, records = memory[:, 0], memory[:, 1:]  # of tiles, where the sizes of a call tell how many there are
        records[:, CLOCK] = clock_address()
        timed = _module.engine.address("adjoint_timed")
        sized: list[tuple[int, ctypes.c_int64]] = []

        def wrap(group: Group, call: KernelCall) -> KernelCall:
            i = kernels.index(group)
            records[i, :CLOCK] = call.function, call.table, slots[i].ctypes.data
            if call.tiles >= 0:
                return KernelCall(timed, records[i].ctypes.data, call.tiles)
            sized.append((i, ctypes.c_int64.from_address(call.table + 8 * call.tiles)))
            return KernelCall(timed, records[i].ctypes.data, -1)  # the word before its record

        segment, _ = self.program.binding.segment(groups, wrap)
        numbers = [self.entries[group] for group in kernels]

        def call(*arrays: Operand) -> int | None:
            for i, tiles in sized:
                counts[i] = tiles.value
            try:
                return segment.call(*arrays)
            finally:
                ran, threads = np.nonzero(slots[:, :, TILES])
                found = slots[ran, threads, :3].tolist()
                slots[...] = 0
                rows = zip(ran.tolist(), threads.tolist(), found, strict=True)
                self.note(self.program, [KernelSpan(numbers[i], t, *times) for i, t, times in rows])

        self._held.append((memory, segment))
        return call

    def _time_call(self, name: str, entry: int, *operands: Operand, **out: Operand) -> Operand:
        begin = time.perf_counter_ns()
        try:
            call: Operand = self.replaced[name]
            return call(*operands, **out)
        finally:
            self.note(self.program, [KernelSpan(entry, 0, begin, time.perf_counter_ns())])

"""The system's threads, as the pool asks for them: to start one, to sleep on a word and be woken, to read a clock.

Each system has its own calls, and one interface here: the functions `start`, `doze`, `wake`, `nap`, `now`
and `block_signals` of the pool's module. Linux sleeps by futex, macOS by `os_sync_wait_on_address` (from 14.4 on),
Windows by `WaitOnAddress`; threads of other systems look at the word between short naps.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import ClassVar

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I32, I64, NULL, PTR, U8, U32, U64, Reg

LINE_PAIR_BYTES = 128  # bytes that no two threads write at once: a pair of cache lines
# Offsets into the pool. PHASE is the number of the phase (32 bits), its tiles (24 bits) and its threads (8 bits).
PHASE, DONE, SLEEPERS, BUSY, WORK, CALLS, STARTED, SIGNALS, ALONE, RANGES = (i * LINE_PAIR_BYTES for i in range(10))
# Addresses of functions, and of the number of threads; the ticks of the clock in a second where it counts them.
CREATE, WAIT, WAKE, BLOCK, COUNT, CLOCK, NAP, TICKS_PER_SECOND = (CALLS + 8 * i for i in range(8))
# Of the thread that has the pool: the ns on the clock until which it works alone, how many ns it does, and room to read
# the clock.
ALONE_UNTIL, ALONE_FOR, CLOCK_READING = ALONE, ALONE + 8, ALONE + 16
PHASE_BYTES = 4  # of the phase that sleepers watch: its number
NAP_MICROSECONDS = 50  # sleeps between looks for the last tiles
WOKEN_AT_ONCE = 2  # each of which wakes as many
FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE = 128, 129
FUTEX_SYSCALLS = {"x86_64": 202, "aarch64": 98}
CLOCK_MONOTONIC = getattr(time, "CLOCK_MONOTONIC", 1)
SIG_BLOCK = 0 if sys.platform.startswith("linux") else 1
NS_PER_SECOND = 1_000_000_000
FOREVER = 0xFFFFFFFF  # of Windows' milliseconds


class PosixThreads:
    """POSIX threads that sleep in naps: what every such system has."""

    functions: ClassVar[dict[int, str]] = {
        CREATE: "pthread_create",
        BLOCK: "pthread_sigmask",
        CLOCK: "clock_gettime",
        NAP: "usleep",
    }

    def library(self) -> ctypes.CDLL:
        """Return the library that has the functions."""
        return ctypes.CDLL(None)

    def fill(self, pool: int) -> None:
        """Write the addresses of the functions into the pool."""
        library = self.library()
        for at, name in self.functions.items():
            pool_word(pool + at).value = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0

    def write(self, b: Builder) -> None:
        """Write the functions of the interface."""
        self._write_start(b)
        self._write_clock(b)
        self._write_nap(b)
        self._write_sleep(b)

    def _write_start(self, b: Builder) -> None:
        """`start(pool, own)`: start a worker; gives 0 if it runs. `block_signals(pool)`: the worker takes none."""
        with b.function("start", [PTR, PTR], I64) as (pool, own):
            arguments = [b.gep(own, 3, I64), NULL, Reg("@worker", PTR), own]
            b.returns(b.cast(b.call(b.field(pool, CREATE, PTR), arguments, I32), I64))
        with b.function("block_signals", [PTR]) as (pool,):
            b.call(b.field(pool, BLOCK, PTR), [b.constant(SIG_BLOCK, I32), b.gep(pool, SIGNALS, U8), NULL], I32)

    def _write_clock(self, b: Builder) -> None:
        """`now(pool)`: the ns on a clock that goes on evenly; only the thread that has the pool may ask."""
        with b.function("now", [PTR], I64) as (pool,):
            clock, reading = b.constant(CLOCK_MONOTONIC, I32), b.gep(pool, CLOCK_READING, U8)
            b.call(b.field(pool, CLOCK, PTR), [clock, reading], I32)
            b.returns(b.add(b.mul(b.number(reading, 0), NS_PER_SECOND), b.number(reading, 1)))

    def _write_nap(self, b: Builder) -> None:
        """`nap(pool)`: sleep for about 50 µs."""
        with b.function("nap", [PTR]) as (pool,):
            b.call(b.field(pool, NAP, PTR), [b.constant(NAP_MICROSECONDS, I32)], I32)

    def _write_sleep(self, b: Builder) -> None:
        """`doze(pool, phase, nap)`: sleep until the phase is another, or for about `nap` µs; `wake(pool)` wakes two."""
        with b.function("doze", [PTR, I64, I64]) as (pool, _, nap):
            b.call(b.field(pool, NAP, PTR), [b.cast(nap, I32)], I32)
        with b.function("wake", [PTR]):
            pass


class FutexThreads(PosixThreads):
    """Threads of Linux, which sleep on a word by the system call of a number."""

    functions: ClassVar[dict[int, str]] = {**PosixThreads.functions, WAIT: "syscall"}

    def __init__(self, number: int) -> None:
        self.number = number

    def _write_sleep(self, b: Builder) -> None:
        number, wait, wake, two, zero = (
            b.constant(value, I64) for value in (self.number, FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE, WOKEN_AT_ONCE, 0)
        )
        with b.function("doze", [PTR, I64, I64]) as (pool, phase, _):
            call = b.field(pool, WAIT, PTR)
            b.call(call, [number, b.gep(pool, PHASE, U8), wait, phase, NULL, NULL, zero], I64)
        with b.function("wake", [PTR]) as (pool,), b.when(_has_sleepers(b, pool)):
            call = b.field(pool, WAIT, PTR)
            b.call(call, [number, b.gep(pool, PHASE, U8), wake, two, NULL, NULL, zero], I64)


class AppleThreads(PosixThreads):
    """Threads of macOS from 14.4 on: `os_sync_wait_on_address(address, value, size, flags)`."""

    functions: ClassVar[dict[int, str]] = {
        **PosixThreads.functions,
        WAIT: "os_sync_wait_on_address",
        WAKE: "os_sync_wake_by_address_any",
    }

    def _write_sleep(self, b: Builder) -> None:
        size, flags = b.constant(PHASE_BYTES, I64), b.constant(0, I32)
        with b.function("doze", [PTR, I64, I64]) as (pool, phase, _):
            number = b.bitwise_and(phase, 2 ** (8 * PHASE_BYTES) - 1)
            b.call(b.field(pool, WAIT, PTR), [b.gep(pool, PHASE, U8), number, size, flags], I32)
        with b.function("wake", [PTR]) as (pool,), b.when(_has_sleepers(b, pool)):
            for _ in range(WOKEN_AT_ONCE):
                b.call(b.field(pool, WAKE, PTR), [b.gep(pool, PHASE, U8), size, flags], I32)


class WindowsThreads(PosixThreads):
    """Threads of Windows, whose calls take other arguments and have no signals to keep away."""

    functions: ClassVar[dict[int, str]] = {
        CREATE: "CreateThread",
        WAIT: "WaitOnAddress",
        WAKE: "WakeByAddressSingle",
        CLOCK: "QueryPerformanceCounter",
        NAP: "Sleep",
    }

    def library(self) -> ctypes.CDLL:
        """Return the library that has all of the functions from Windows 8 on."""
        return ctypes.CDLL("kernelbase")

    def fill(self, pool: int) -> None:
        """Write the addresses of the functions into the pool, and how many ticks of the clock are a second."""
        super().fill(pool)
        self.library().QueryPerformanceFrequency(ctypes.byref(pool_word(pool + TICKS_PER_SECOND)))

    def _write_start(self, b: Builder) -> None:
        with b.function("start", [PTR, PTR], I64) as (pool, own):
            none = b.constant(0, I64)
            arguments = [NULL, none, Reg("@worker", PTR), own, b.constant(0, I32), NULL]
            handle = b.call(b.field(pool, CREATE, PTR), arguments, PTR)
            b.returns(b.cast(b.eq(handle, NULL), I64))
        with b.function("block_signals", [PTR]):
            pass

    def _write_clock(self, b: Builder) -> None:
        with b.function("now", [PTR], I64) as (pool,):
            reading = b.gep(pool, CLOCK_READING, U8)
            b.call(b.field(pool, CLOCK, PTR), [reading], I32)
            ticks, rate = b.load(reading, U64), b.field(pool, TICKS_PER_SECOND, U64)
            seconds = b.floor_divide(ticks, rate)
            rest = b.floor_divide(b.mul(b.sub(ticks, b.mul(seconds, rate)), NS_PER_SECOND), rate)
            b.returns(b.cast(b.add(b.mul(seconds, NS_PER_SECOND), rest), I64))

    def _write_nap(self, b: Builder) -> None:
        with b.function("nap", [PTR]) as (pool,):
            b.call(b.field(pool, NAP, PTR), [b.constant(1, I32)])  # ms: it has no shorter one

    def _write_sleep(self, b: Builder) -> None:
        size = b.constant(PHASE_BYTES, I64)
        with b.function("doze", [PTR, I64, I64]) as (pool, phase, _):
            seen = b.stack(1, I64)
            b.store(phase, seen)
            arguments = [b.gep(pool, PHASE, U8), seen, size, b.constant(FOREVER, U32)]
            b.call(b.field(pool, WAIT, PTR), arguments, I32)
        with b.function("wake", [PTR]) as (pool,), b.when(_has_sleepers(b, pool)):
            for _ in range(WOKEN_AT_ONCE):
                b.call(b.field(pool, WAKE, PTR), [b.gep(pool, PHASE, U8)])


def find_thread_system(triple: str) -> PosixThreads | None:
    """Return the threads of this process's system on a machine; None where they are not known."""
    if sys.platform == "win32":
        return WindowsThreads()
    if os.name != "posix" or sys.platform == "emscripten":
        return None
    number = FUTEX_SYSCALLS.get(triple.partition("-")[0], 0)
    if sys.platform.startswith("linux") and number:
        return FutexThreads(number)
    library = ctypes.CDLL(None)
    has_wait = all(hasattr(library, name) for name in AppleThreads.functions.values())
    return AppleThreads() if has_wait else PosixThreads()


def pool_word(address: int) -> ctypes.c_int64:
    """Return the word of a pool at an address."""
    return ctypes.c_int64.from_address(address)


def _has_sleepers(b: Builder, pool: Reg) -> Reg:
    return b.gt(b.atomic_load(b.gep(pool, SLEEPERS, U8), I64, "seq_cst"), 0)

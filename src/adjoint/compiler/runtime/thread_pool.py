"""The threads of this process that compute tiles: nobody waits for one that has taken none.

A kernel of several tiles is a phase. The thread that runs the program publishes it and takes tiles itself; workers that
are awake take tiles too, each from a range of its own at first, then from those of others. Taking one is a
compare-and-swap on a word that names the phase, so that a late worker finds nothing. The phase ends when those are done
that took something. After a fork the child has no workers, and does all alone until it starts its own.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.llvm.types import I32, I64, NULL, PTR, U8, U64, Reg
from adjoint.core.runtime.threads import MAX_THREADS, count, limit_blas_beside_pool

LINE_PAIR_BYTES = 128  # bytes that no two threads write at once: a pair of cache lines
# Offsets into the pool. PHASE is the number of the phase (32 bits), its tiles (24 bits) and its threads (8 bits).
PHASE, DONE, SLEEPERS, BUSY, WORK, CALLS, STARTED, SIGNALS, RANGES = (i * LINE_PAIR_BYTES for i in range(9))
CREATE, YIELD, WAIT, BLOCK, COUNT = (CALLS + 8 * i for i in range(5))  # addresses
# For each thread: what is taken of its range, the pool, its number, its handle.
POOL_BYTES = RANGES + (MAX_THREADS + 1) * LINE_PAIR_BYTES
TILE_COUNT_LIMIT = 1 << 24  # fewer in a phase
# Waits for the last tiles before the processor is offered to others, who keep it for milliseconds.
SPINS_BEFORE_YIELD = 1024
FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE = 128, 129
SIG_BLOCK = 0 if sys.platform.startswith("linux") else 1
SPINS_BEFORE_SLEEP = 2048  # reads of PHASE before a worker goes to sleep: some 50 µs, what it takes to wake one


def write_pool(b: Builder) -> None:
    """Write the functions of the pool: `adjoint_open`, `adjoint_phase` and `adjoint_close` are for the entry."""
    triple = host().triple
    _write_relax(b, triple)
    _write_take(b)
    _write_sleep(b, _futex_syscall_number(triple))
    _write_worker(b)
    _write_open(b)
    _write_phase(b)


@cache
def pool_address() -> int:
    """The address of the process's pool, which stays for ever; 0 where there are no POSIX threads."""
    if os.name != "posix":
        return 0
    size = POOL_BYTES + LINE_PAIR_BYTES
    held = ctypes.create_string_buffer(size)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))  # workers look at it until the process ends
    address = -(-ctypes.addressof(held) // LINE_PAIR_BYTES) * LINE_PAIR_BYTES
    library = ctypes.CDLL(None)
    wait = "syscall" if _futex_syscall_number(host().triple) else "usleep"
    for at, name in ((CREATE, "pthread_create"), (YIELD, "sched_yield"), (WAIT, wait), (BLOCK, "pthread_sigmask")):
        _word(address + at).value = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    _word(address + COUNT).value = count.buffer_info()[0]
    ctypes.memset(address + SIGNALS, 0xFF, LINE_PAIR_BYTES)
    _reset_pool(address)
    os.register_at_fork(after_in_child=lambda: _reset_pool(address))
    limit_blas_beside_pool()
    return address


def _reset_pool(pool: int) -> None:
    """A pool without workers."""
    for at in (PHASE, DONE, SLEEPERS, BUSY, STARTED):
        _word(pool + at).value = 0
    for thread in range(MAX_THREADS + 1):
        for i, word in enumerate((0, pool, thread)):
            _word(pool + RANGES + thread * LINE_PAIR_BYTES + 8 * i).value = word


def _word(address: int) -> ctypes.c_int64:
    return ctypes.c_int64.from_address(address)


def _futex_syscall_number(triple: str) -> int:
    """The number of Linux's system call; 0 where threads doze instead."""
    if not sys.platform.startswith("linux"):
        return 0
    return {"x86_64": 202, "aarch64": 98}.get(triple.partition("-")[0], 0)


def _write_relax(b: Builder, triple: str) -> None:
    """`relax(pool, turn)`: wait a moment; each 32nd turn the processor is offered to others."""
    with b.function("relax", [PTR, I64]) as (pool, turn):
        if triple.startswith(("x86_64", "i386", "i686")):
            b.external_command("llvm.x86.sse2.pause", [])
        elif triple.startswith(("aarch64", "arm64")):
            b.external_command("llvm.aarch64.hint", [b.constant(1, I32)])
        with b.when(b.eq(b.bitwise_and(turn, 31), 31)):
            b.call(b.field(pool, YIELD, PTR), [], I32)


def _write_take(b: Builder) -> None:
    """`take(pool, phase, me)`: take and run tiles of a phase; gives how many.

    A claim that succeeds holds the phase open: only then is WORK read. A range's word names the phase it was taken from
    last. If that is another, and the phase still is the one published, the range is untouched; had it ended meanwhile,
    the word would have changed, and the exchange would fail.
    """
    with b.function("take", [PTR, U64, U64], U64) as (pool, phase, me):
        number, threads = b.bitwise_and(phase, 2**32 - 1), b.shr(phase, 56)
        tiles, tag = b.bitwise_and(b.shr(phase, 32), TILE_COUNT_LIMIT - 1), b.shl(number, 32)
        published, work, zero = b.gep(pool, PHASE, U8), b.gep(pool, WORK, U8), b.constant(0, U64)
        with b.loop(0, threads, carried=[zero]) as ranges:
            owner = b.remainder(b.add(me, b.cast(ranges.index, U64)), threads)
            before = b.mul(tiles, owner)
            first = b.floor_divide(before, threads)
            size = b.sub(b.floor_divide(b.add(before, tiles), threads), first)
            word = b.gep(b.gep(pool, RANGES, U8), b.mul(owner, LINE_PAIR_BYTES), U8)
            with b.repeat(ranges.carried) as claims:
                (taken,) = claims.carried
                seen = b.atomic_load(word, U64, "acquire")
                begun = b.eq(b.shr(seen, 32), number)
                with b.when(b.logical_not(begun)):
                    b.return_if(b.ne(b.atomic_load(published, U64, "acquire"), phase), taken)
                i = b.select(begun, b.bitwise_and(seen, 2**32 - 1), zero)
                claims.ends_if(b.ge(i, size))
                won = b.compare_exchange(word, seen, b.bitwise_or(tag, b.add(i, 1)), "acq_rel", "acquire")
                with b.when(won):
                    b.call(b.argument(work, 0), [b.argument(work, 1), b.add(first, i), me])
                claims.yields(b.add(taken, b.cast(won, U64)))
            ranges.yields(*claims.results)
        b.returns(ranges.results[0])


def _write_sleep(b: Builder, futex: int) -> None:
    """`doze(pool, phase, nap)`: sleep until the phase is another, or for about `nap` µs; `wake(pool)` wakes two."""
    number, wait, wake, two, zero = (
        b.constant(value, I64) for value in (futex, FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE, 2, 0)
    )
    with b.function("doze", [PTR, I64, I64]) as (pool, phase, nap):
        call = b.field(pool, WAIT, PTR)
        if futex:
            b.call(call, [number, b.gep(pool, PHASE, U8), wait, phase, NULL, NULL, zero], I64)
        else:
            b.call(call, [b.cast(nap, I32)], I32)
    with b.function("wake", [PTR]) as (pool,):
        if futex:
            asleep = b.atomic_load(b.gep(pool, SLEEPERS, U8), I64, "seq_cst")
            with b.when(b.gt(asleep, 0)):
                call = b.field(pool, WAIT, PTR)
                b.call(call, [number, b.gep(pool, PHASE, U8), wake, two, NULL, NULL, zero], I64)


def _write_worker(b: Builder) -> None:
    """`worker(own)`: a thread that helps with each phase in which it has a range."""
    with b.function("await_phase", [PTR, I64], I64) as (pool, last):
        published, sleepers, one = b.gep(pool, PHASE, U8), b.gep(pool, SLEEPERS, U8), b.constant(1, I64)
        with b.loop(0, SPINS_BEFORE_SLEEP) as spins:
            seen = b.atomic_load(published, I64, "acquire")
            b.return_if(b.ne(seen, last), seen)
            b.call("relax", [pool, spins.index])
        with b.repeat([b.constant(50, I64)]) as naps:
            (nap,) = naps.carried
            b.atomic_update("add", sleepers, one, "seq_cst")
            with b.when(b.eq(b.atomic_load(published, I64, "seq_cst"), last)):
                b.call("doze", [pool, last, nap])
            b.atomic_update("sub", sleepers, one, "seq_cst")
            seen = b.atomic_load(published, I64, "acquire")
            with b.when(b.ne(seen, last)):
                b.call("wake", [pool])  # one that was woken wakes two more
                b.return_now(seen)
            naps.yields(b.minimum(b.shl(nap, 1), 5000))
        b.returns(last)
    with b.function("worker", [PTR], PTR) as (own,):
        pool, me = b.argument(own, 1), b.load(b.gep(own, 2, U64), U64)
        b.call(b.field(pool, BLOCK, PTR), [b.constant(SIG_BLOCK, I32), b.gep(pool, SIGNALS, U8), NULL], I32)
        with b.repeat([b.constant(0, I64)]) as phases:
            phase = b.call("await_phase", [pool, *phases.carried], I64)
            with b.when(b.lt(me, b.shr(b.cast(phase, U64), 56))):
                count = b.call("take", [pool, b.cast(phase, U64), me], U64)
                with b.when(b.ne(count, 0)):
                    b.atomic_update("add", b.gep(pool, DONE, U8), count, "release")
            phases.yields(phase)
        b.returns(NULL)


def _write_open(b: Builder) -> None:
    """`adjoint_open(pool, limit)`: start up to `limit` threads; gives their number, 1 if the pool is taken.

    `adjoint_close(pool)` leaves it to others.
    """
    with b.function("adjoint_open", [PTR, I64], I64) as (pool, limit):
        zero, one = b.constant(0, I64), b.constant(1, I64)
        few = b.minimum(b.load(b.field(pool, COUNT, PTR), I64), limit)
        b.return_if(b.le(few, 1), one)
        won = b.compare_exchange(b.gep(pool, BUSY, U8), zero, one, "acquire", "monotonic")
        b.return_if(b.logical_not(won), one)
        started = b.gep(pool, STARTED, U8)
        with b.repeat() as starts:
            next = b.add(b.load(started, I64), 1)
            starts.ends_if(b.ge(next, few))
            own = b.gep(b.gep(pool, RANGES, U8), b.mul(next, LINE_PAIR_BYTES), U8)
            arguments = [b.gep(own, 3, I64), NULL, Reg("@worker", PTR), own]
            b.return_if(b.ne(b.call(b.field(pool, CREATE, PTR), arguments, I32), 0), next)
            b.store(next, started)
        b.returns(few)
    with b.function("adjoint_close", [PTR]) as (pool,):
        b.atomic_store(zero, b.gep(pool, BUSY, U8), "release")


def _write_phase(b: Builder) -> None:
    """`adjoint_phase(pool, function, table, tiles, threads)`: run all tiles; the pool must be open."""
    with b.function("adjoint_phase", [PTR, PTR, PTR, U64, U64]) as (pool, function, table, tiles, threads):
        published, done, zero = b.gep(pool, PHASE, U8), b.gep(pool, DONE, U8), b.constant(0, U64)
        b.store(function, b.gep(pool, WORK, U8))
        b.store(table, b.gep(pool, WORK + 8, U8))
        b.atomic_store(zero, done, "monotonic")
        last = b.atomic_load(published, U64, "monotonic")
        number = b.bitwise_and(b.add(last, 1), 2**32 - 1)
        phase = b.bitwise_or(b.bitwise_or(number, b.shl(tiles, 32)), b.shl(threads, 56))
        b.atomic_update("xchg", published, phase, "seq_cst")
        b.call("wake", [pool])
        others = b.sub(tiles, b.call("take", [pool, phase, zero], U64))
        with b.repeat([b.constant(0, I64)]) as waiting:
            (turn,) = waiting.carried
            waiting.ends_if(b.eq(b.atomic_load(done, U64, "acquire"), others))
            b.call("relax", [pool, b.maximum(b.sub(turn, SPINS_BEFORE_YIELD), 0)])
            waiting.yields(b.add(turn, 1))

"""The threads of this process that compute tiles: nobody waits for one that has taken none.

A kernel of several tiles is a phase. The thread that runs the program publishes it and takes tiles itself; workers that
are awake take tiles too, each from a range of its own at first, then from those of others. Taking one is a
compare-and-swap on a word that names the phase, so that a late worker finds nothing. The phase ends when those are done
that took something. After a fork the child has no workers, and does all alone until it starts its own.

Beside other work, a worker may lose its processor with a tile in hand. The phase then has to wait for it, and waits
asleep. A wait much longer than a tile takes tells that this happened. Then phases run on one thread for some time, in
proportion to the wait: waits take at most a share of the time, whatever else runs on the machine. Where such a wait
soon follows the last, that time doubles: beside work that stays, a program is about as fast as on one thread.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.llvm.types import I32, I64, NULL, PTR, U8, U64
from adjoint.compiler.runtime.system_threads import (
    ALONE_FOR,
    ALONE_UNTIL,
    BUSY,
    COUNT,
    DONE,
    LINE_PAIR_BYTES,
    PHASE,
    RANGES,
    SIGNALS,
    SLEEPERS,
    STARTED,
    WORK,
    PosixThreads,
    find_thread_system,
    pool_word,
)
from adjoint.core.op.thread_crew import MAX_STALL_SHARE, STALL_SHARE
from adjoint.core.runtime.threads import MAX_THREADS, count

# For each thread: what is taken of its range, the pool, its number, its handle.
POOL_BYTES = RANGES + (MAX_THREADS + 1) * LINE_PAIR_BYTES
TILE_COUNT_LIMIT = 1 << 24  # fewer in a phase
SPINS_BETWEEN_LOOKS = 256  # waits for the last tiles, before it looks at the clock: some 10 µs
MAX_SPIN_NS = 1_000_000  # spins for the last tiles no longer, however long a tile takes
MIN_STALL_NS = 200_000  # a wait that is longer than a tile takes by this: another program had the worker's processor
SPINS_BEFORE_SLEEP = 2048  # reads of PHASE before a worker goes to sleep: some 50 µs, what it takes to wake one


def write_pool(b: Builder) -> None:
    """Write the functions of the pool: `adjoint_open`, `adjoint_phase` and `adjoint_close` are for the entry."""
    triple = host().triple
    (find_thread_system(triple) or PosixThreads()).write(b)
    _write_relax(b, triple)
    _write_take(b)
    _write_worker(b)
    _write_open(b)
    _write_retreat(b)
    _write_settle(b)
    _write_phase(b)


@cache
def pool_address() -> int:
    """The address of the process's pool, which stays for ever; 0 where its system's threads are not known."""
    system = find_thread_system(host().triple)
    if system is None:
        return 0
    size = POOL_BYTES + LINE_PAIR_BYTES
    held = ctypes.create_string_buffer(size)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))  # workers look at it until the process ends
    address = -(-ctypes.addressof(held) // LINE_PAIR_BYTES) * LINE_PAIR_BYTES
    system.fill(address)
    pool_word(address + COUNT).value = count.buffer_info()[0]
    ctypes.memset(address + SIGNALS, 0xFF, LINE_PAIR_BYTES)
    _reset_pool(address)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _reset_pool(address))
    return address


def _reset_pool(pool: int) -> None:
    """A pool without workers."""
    for at in (PHASE, DONE, SLEEPERS, BUSY, STARTED, ALONE_UNTIL, ALONE_FOR):
        pool_word(pool + at).value = 0
    for thread in range(MAX_THREADS + 1):
        for i, word in enumerate((0, pool, thread)):
            pool_word(pool + RANGES + thread * LINE_PAIR_BYTES + 8 * i).value = word


def _write_relax(b: Builder, triple: str) -> None:
    """`relax()`: wait a moment, and keep the processor.

    To offer it with `sched_yield` costs a turn of the scheduler, which may be milliseconds: beside other work, workers
    then wait for the processor in order to wait for a phase, and take the share of the thread that has something to do.
    """
    with b.function("relax", []):
        if triple.startswith(("x86_64", "i386", "i686")):
            b.external_command("llvm.x86.sse2.pause", [])
        elif triple.startswith(("aarch64", "arm64")):
            b.external_command("llvm.aarch64.hint", [b.constant(1, I32)])


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


def _write_worker(b: Builder) -> None:
    """`worker(own)`: a thread that helps with each phase in which it has a range."""
    with b.function("await_phase", [PTR, I64], I64) as (pool, last):
        published, sleepers, one = b.gep(pool, PHASE, U8), b.gep(pool, SLEEPERS, U8), b.constant(1, I64)
        with b.loop(0, SPINS_BEFORE_SLEEP):
            seen = b.atomic_load(published, I64, "acquire")
            b.return_if(b.ne(seen, last), seen)
            b.call("relax", [])
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
        b.call("block_signals", [pool])
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
            b.return_if(b.ne(b.call("start", [pool, own], I64), 0), next)
            b.store(next, started)
        b.returns(few)
    with b.function("adjoint_close", [PTR]) as (pool,):
        b.atomic_store(zero, b.gep(pool, BUSY, U8), "release")


def _write_settle(b: Builder) -> None:
    """`settle(pool, others, begin, mine)`: wait until others have done their tiles, of which this thread did `mine`.

    It spins about as long as a tile takes. A worker that needs longer than that is not running.
    """
    with b.function("settle", [PTR, U64, I64, U64]) as (pool, others, begin, mine):
        done, taken = b.gep(pool, DONE, U8), b.call("now", [pool], I64)
        tile = b.cast(b.floor_divide(b.cast(b.sub(taken, begin), U64), b.maximum(mine, 1)), I64)
        patience = b.add(taken, b.minimum(tile, MAX_SPIN_NS))
        with b.repeat([b.constant(0, I64)]) as waiting:
            (turn,) = waiting.carried
            waiting.ends_if(b.eq(b.atomic_load(done, U64, "acquire"), others))
            b.call("relax", [])
            is_look = b.eq(b.bitwise_and(turn, SPINS_BETWEEN_LOOKS - 1), SPINS_BETWEEN_LOOKS - 1)
            with b.when(is_look, [turn]) as looking:
                is_late = b.gt(b.call("now", [pool], I64), patience)
                with b.when(is_late):
                    b.call("nap", [pool])
                looking.yields(b.select(is_late, b.sub(turn, 1), turn))  # after a nap each turn is a look
            waiting.yields(b.add(looking.results[0], 1))
        end = b.call("now", [pool], I64)
        stall = b.sub(b.sub(end, taken), tile)
        is_long = b.gt(b.mul(stall, STALL_SHARE), b.sub(end, begin))
        with b.when(b.logical_and(is_long, b.gt(stall, MIN_STALL_NS))):
            b.call("retreat", [pool, begin, end, stall])


def _write_retreat(b: Builder) -> None:
    """`retreat(pool, begin, end, stall)`: work alone from `end` on, for a time in proportion to a stall.

    Phases ran on several threads between the last such time and `begin`. If that was the shorter time, the other work
    stays, and the new time is twice the last.
    """
    with b.function("retreat", [PTR, I64, I64, I64]) as (pool, begin, end, stall):
        until, duration = b.gep(pool, ALONE_UNTIL, U8), b.gep(pool, ALONE_FOR, U8)
        last = b.load(duration, I64)
        follows = b.lt(b.sub(begin, b.load(until, I64)), last)
        doubled = b.minimum(b.shl(last, 1), b.mul(stall, MAX_STALL_SHARE))
        shortest = b.mul(stall, STALL_SHARE)
        alone = b.select(follows, b.maximum(doubled, shortest), shortest)
        b.store(alone, duration)
        b.store(b.add(end, alone), until)


def _write_phase(b: Builder) -> None:
    """`adjoint_phase(pool, function, table, tiles, threads)`: run all tiles; the pool must be open."""
    with b.function("adjoint_phase", [PTR, PTR, PTR, U64, U64]) as (pool, function, table, tiles, threads):
        published, done, zero = b.gep(pool, PHASE, U8), b.gep(pool, DONE, U8), b.constant(0, U64)
        begin = b.call("now", [pool], I64)
        with b.when(b.lt(begin, b.load(b.gep(pool, ALONE_UNTIL, U8), I64))):
            with b.loop(0, tiles) as loop:
                b.call(function, [table, loop.index, zero])
            b.return_now()
        b.store(function, b.gep(pool, WORK, U8))
        b.store(table, b.gep(pool, WORK + 8, U8))
        b.atomic_store(zero, done, "monotonic")
        last = b.atomic_load(published, U64, "monotonic")
        number = b.bitwise_and(b.add(last, 1), 2**32 - 1)
        phase = b.bitwise_or(b.bitwise_or(number, b.shl(tiles, 32)), b.shl(threads, 56))
        b.atomic_update("xchg", published, phase, "seq_cst")
        b.call("wake", [pool])
        mine = b.call("take", [pool, phase, zero], U64)
        others = b.sub(tiles, mine)
        with b.when(b.ne(b.atomic_load(done, U64, "acquire"), others)):
            b.call("settle", [pool, others, begin, mine])

"""The threads of this process that compute tiles: nobody waits for one that has taken none.

A kernel of several tiles is a phase. The thread that runs the program publishes it and takes tiles itself; workers that
are awake take tiles too, each from a range of its own at first, then from those of others. Taking one is a
compare-and-swap on a word that names the phase, so that whoever comes late finds nothing, and the phase ends when those
are done who took something. After a fork the child has no workers, and does all alone until it starts its own.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

from adjoint.compiler.llvm.jit.target import host
from adjoint.core.runtime.threads import MAX_THREADS, count

LINE_PAIR_BYTES = 128  # bytes that no two threads write at once: a pair of cache lines
# Offsets into the pool. PHASE is the number of the phase (32 bits), its tiles (24 bits) and its threads (8 bits).
PHASE, DONE, SLEEPERS, BUSY, WORK, CALLS, STARTED, SIGNALS, RANGES = (i * LINE_PAIR_BYTES for i in range(9))
CREATE, YIELD, WAIT, BLOCK, COUNT = (CALLS + 8 * i for i in range(5))  # addresses
POOL_BYTES = (
    RANGES + (MAX_THREADS + 1) * LINE_PAIR_BYTES
)  # for each thread: what is taken of its range, the pool, its number, its handle
TILE_COUNT_LIMIT = 1 << 24  # fewer in a phase
SPINS_BEFORE_YIELD = (
    1024  # looks for the last tiles before the processor is offered to others, who keep it for milliseconds
)
SPINS_BEFORE_SLEEP = 2048  # looks at PHASE before a worker goes to sleep: some 50 µs, what it takes to wake one


def text() -> str:
    """The functions of the pool: `adjoint_open`, `adjoint_phase` and `adjoint_close` are for the entry."""
    triple = host().triple
    relax, declared = "", ""
    if triple.startswith(("x86_64", "i386", "i686")):
        relax, declared = "call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"
    elif triple.startswith(("aarch64", "arm64")):
        relax, declared = "call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"
    return "\n".join((declared, _RELAX.replace("RELAX", relax), _TAKE, _sleeping(triple), _WORKER, _OPEN, _PUBLISH))


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


_RELAX = f"""
define internal void @relax(ptr %pool, i64 %turn) {{
  RELAX
  %low = and i64 %turn, 31
  %now = icmp eq i64 %low, 31
  br i1 %now, label %let, label %done
let:
  %held = getelementptr i8, ptr %pool, i64 {YIELD}
  %yield = load ptr, ptr %held
  %ignored = call i32 %yield()
  br label %done
done:
  ret void
}}
"""

# Take and run tiles of a phase; returns how many. A claim that succeeds holds the phase open: only then is WORK read.
# A range's word names the phase it was taken from last. If that is another, and the phase still is the one published,
# the range is untouched; had it ended meanwhile, the word would have changed, and the exchange would fail.
_TAKE = f"""
define internal i64 @take(ptr %pool, i64 %phase, i64 %me) {{
entry:
  %published = getelementptr i8, ptr %pool, i64 {PHASE}
  %work = getelementptr i8, ptr %pool, i64 {WORK}
  %ranges = getelementptr i8, ptr %pool, i64 {RANGES}
  %number = and i64 %phase, 4294967295
  %tag = shl i64 %number, 32
  %threads = lshr i64 %phase, 56
  %high = lshr i64 %phase, 32
  %tiles = and i64 %high, {TILE_COUNT_LIMIT - 1}
  br label %range
range:
  %turn = phi i64 [ 0, %entry ], [ %turn1, %next ]
  %taken = phi i64 [ 0, %entry ], [ %counted, %next ]
  %sum = add i64 %me, %turn
  %owner = urem i64 %sum, %threads
  %before = mul i64 %tiles, %owner
  %low = udiv i64 %before, %threads
  %upto = add i64 %before, %tiles
  %end = udiv i64 %upto, %threads
  %size = sub i64 %end, %low
  %shift = mul i64 %owner, {LINE_PAIR_BYTES}
  %word = getelementptr i8, ptr %ranges, i64 %shift
  br label %claim
claim:
  %counted = phi i64 [ %taken, %range ], [ %counted, %swap ], [ %more, %run ]
  %seen = load atomic i64, ptr %word acquire, align 8
  %of = lshr i64 %seen, 32
  %same = icmp eq i64 %of, %number
  br i1 %same, label %begun, label %fresh
fresh:
  %current = load atomic i64, ptr %published acquire, align 8
  %open = icmp eq i64 %current, %phase
  br i1 %open, label %some, label %over
begun:
  %index = and i64 %seen, 4294967295
  br label %some
some:
  %i = phi i64 [ %index, %begun ], [ 0, %fresh ]
  %left = icmp slt i64 %i, %size
  br i1 %left, label %swap, label %next
swap:
  %i1 = add i64 %i, 1
  %claimed = or i64 %tag, %i1
  %exchange = cmpxchg ptr %word, i64 %seen, i64 %claimed acq_rel acquire
  %won = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %won, label %run, label %claim
run:
  %function = load ptr, ptr %work
  %second = getelementptr ptr, ptr %work, i64 1
  %table = load ptr, ptr %second
  %tile = add i64 %low, %i
  call void %function(ptr %table, i64 %tile, i64 %me)
  %more = add i64 %counted, 1
  br label %claim
next:
  %turn1 = add i64 %turn, 1
  %again = icmp ult i64 %turn1, %threads
  br i1 %again, label %range, label %over
over:
  %all = phi i64 [ %counted, %fresh ], [ %counted, %next ]
  ret i64 %all
}}
"""


def _sleeping(triple: str) -> str:
    """`doze(pool, phase, nap)`: sleep until the phase is another, or for about `nap` µs; `wake(pool)` wakes two."""
    number = _futex_syscall_number(triple)
    wait = f"""
  %call = load ptr, ptr %held
  %low = trunc i64 %phase to i32
  %word = getelementptr i8, ptr %pool, i64 {PHASE}
  %ignored = call i64 (i64, ...) %call(i64 {number}, ptr %word, i32 128, i32 %low, ptr null, ptr null, i32 0)"""
    wake = f"""
  %sleepers = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp sgt i64 %asleep, 0
  br i1 %any, label %call, label %done
call:
  %held = getelementptr i8, ptr %pool, i64 {WAIT}
  %address = load ptr, ptr %held
  %word = getelementptr i8, ptr %pool, i64 {PHASE}
  %ignored = call i64 (i64, ...) %address(i64 {number}, ptr %word, i32 129, i32 2, ptr null, ptr null, i32 0)
  br label %done"""
    if not number:
        wait = """
  %call = load ptr, ptr %held
  %low = trunc i64 %nap to i32
  %ignored = call i32 %call(i32 %low)"""
        wake = """
  br label %done"""
    return f"""
define internal void @doze(ptr %pool, i64 %phase, i64 %nap) {{
  %held = getelementptr i8, ptr %pool, i64 {WAIT}{wait}
  ret void
}}

define internal void @wake(ptr %pool) {{{wake}
done:
  ret void
}}
"""


# A worker of a number that the phase has no range for looks on; one that was woken wakes two more.
_WORKER = f"""
define internal ptr @worker(ptr %own) {{
entry:
  %fields = getelementptr i64, ptr %own, i64 1
  %pool = load ptr, ptr %fields
  %field = getelementptr i64, ptr %own, i64 2
  %me = load i64, ptr %field
  %published = getelementptr i8, ptr %pool, i64 {PHASE}
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %sleepers = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %signals = getelementptr i8, ptr %pool, i64 {SIGNALS}
  %held = getelementptr i8, ptr %pool, i64 {BLOCK}
  %block = load ptr, ptr %held
  %ignored = call i32 %block(i32 BLOCK, ptr %signals, ptr null)
  br label %look
look:
  %last = phi i64 [ 0, %entry ], [ %phase, %looking ], [ %phase, %add ], [ %phase, %help ]
  br label %spin
spin:
  %turn = phi i64 [ 0, %look ], [ %turn1, %idle ]
  %seen = load atomic i64, ptr %published acquire, align 8
  %new = icmp ne i64 %seen, %last
  br i1 %new, label %begin, label %idle
idle:
  call void @relax(ptr %pool, i64 %turn)
  %turn1 = add i64 %turn, 1
  %patient = icmp ult i64 %turn1, {SPINS_BEFORE_SLEEP}
  br i1 %patient, label %spin, label %sleep
sleep:
  %nap = phi i64 [ 50, %idle ], [ %longer, %woken ]
  %s0 = atomicrmw add ptr %sleepers, i64 1 seq_cst
  %now = load atomic i64, ptr %published seq_cst, align 8
  %early = icmp ne i64 %now, %last
  br i1 %early, label %woken, label %dozing
dozing:
  call void @doze(ptr %pool, i64 %last, i64 %nap)
  br label %woken
woken:
  %s1 = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %then = load atomic i64, ptr %published acquire, align 8
  %twice = shl i64 %nap, 1
  %longer = call i64 @llvm.smin.i64(i64 %twice, i64 5000)
  %changed = icmp ne i64 %then, %last
  br i1 %changed, label %rouse, label %sleep
rouse:
  call void @wake(ptr %pool)
  br label %begin
begin:
  %phase = phi i64 [ %seen, %spin ], [ %then, %rouse ]
  %threads = lshr i64 %phase, 56
  %mine = icmp ult i64 %me, %threads
  br i1 %mine, label %help, label %looking
looking:
  br label %look
help:
  %count = call i64 @take(ptr %pool, i64 %phase, i64 %me)
  %some = icmp ne i64 %count, 0
  br i1 %some, label %add, label %look
add:
  %d = atomicrmw add ptr %done, i64 %count release
  br label %look
}}

declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
""".replace("BLOCK", "0" if sys.platform.startswith("linux") else "1")  # SIG_BLOCK

# How many threads a program may use that was made for `limit`; 1 if another program has the pool.
_OPEN = f"""
define internal i64 @adjoint_open(ptr %pool, i64 %limit) {{
entry:
  %held = getelementptr i8, ptr %pool, i64 {COUNT}
  %address = load ptr, ptr %held
  %wanted = load i64, ptr %address
  %few = call i64 @llvm.smin.i64(i64 %wanted, i64 %limit)
  %several = icmp sgt i64 %few, 1
  br i1 %several, label %lock, label %alone
lock:
  %busy = getelementptr i8, ptr %pool, i64 {BUSY}
  %exchange = cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic
  %won = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %won, label %opened, label %alone
opened:
  %workers = getelementptr i8, ptr %pool, i64 {STARTED}
  %ranges = getelementptr i8, ptr %pool, i64 {RANGES}
  %field = getelementptr i8, ptr %pool, i64 {CREATE}
  %create = load ptr, ptr %field
  br label %check
check:
  %started = load i64, ptr %workers
  %next = add i64 %started, 1
  %enough = icmp sge i64 %next, %few
  br i1 %enough, label %all, label %start
start:
  %shift = mul i64 %next, {LINE_PAIR_BYTES}
  %own = getelementptr i8, ptr %ranges, i64 %shift
  %handle = getelementptr i64, ptr %own, i64 3
  %failure = call i32 %create(ptr %handle, ptr null, ptr @worker, ptr %own)
  %made = icmp eq i32 %failure, 0
  br i1 %made, label %counted, label %all
counted:
  store i64 %next, ptr %workers
  br label %check
all:
  %most = phi i64 [ %few, %check ], [ %next, %start ]
  ret i64 %most
alone:
  ret i64 1
}}

define internal void @adjoint_close(ptr %pool) {{
  %busy = getelementptr i8, ptr %pool, i64 {BUSY}
  store atomic i64 0, ptr %busy release, align 8
  ret void
}}
"""

_PUBLISH = f"""
define internal void @adjoint_phase(ptr %pool, ptr %function, ptr %table, i64 %tiles, i64 %threads) {{
entry:
  %published = getelementptr i8, ptr %pool, i64 {PHASE}
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %work = getelementptr i8, ptr %pool, i64 {WORK}
  %second = getelementptr ptr, ptr %work, i64 1
  store ptr %function, ptr %work
  store ptr %table, ptr %second
  store atomic i64 0, ptr %done monotonic, align 8
  %last = load atomic i64, ptr %published monotonic, align 8
  %next = add i64 %last, 1
  %number = and i64 %next, 4294967295
  %shifted = shl i64 %tiles, 32
  %counted = or i64 %number, %shifted
  %upper = shl i64 %threads, 56
  %phase = or i64 %counted, %upper
  %old = atomicrmw xchg ptr %published, i64 %phase seq_cst
  call void @wake(ptr %pool)
  %own = call i64 @take(ptr %pool, i64 %phase, i64 0)
  %others = sub i64 %tiles, %own
  br label %wait
wait:
  %turn = phi i64 [ 0, %entry ], [ %turn1, %idle ]
  %finished = load atomic i64, ptr %done acquire, align 8
  %all = icmp eq i64 %finished, %others
  br i1 %all, label %over, label %idle
idle:
  %impatient = sub i64 %turn, {SPINS_BEFORE_YIELD}
  %count = call i64 @llvm.smax.i64(i64 %impatient, i64 0)
  call void @relax(ptr %pool, i64 %count)
  %turn1 = add i64 %turn, 1
  br label %wait
over:
  ret void
}}
"""

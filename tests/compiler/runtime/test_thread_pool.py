"""The pool: each tile runs exactly once, on as many threads as are there, whoever sleeps, forks, or comes at once."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")
import adjoint as ad
from adjoint.compiler.llvm.jit.engine import load
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.runtime import system_threads, thread_pool
from adjoint.compiler.runtime.native_entry import Check, KernelCall, Segment

COUNT = """
define void @count(ptr %args, i64 %tile, i64 %thread) {
  %counts = load ptr, ptr %args
  %p = getelementptr i64, ptr %counts, i64 %tile
  %n = load i64, ptr %p
  %n1 = add i64 %n, 1
  store i64 %n1, ptr %p
  %a1 = getelementptr ptr, ptr %args, i64 1
  %threads = load ptr, ptr %a1
  %q = getelementptr i64, ptr %threads, i64 %tile
  store i64 %thread, ptr %q
  ret void
}
"""
# Every tile waits until all that the table tells are running: only as many threads get through.
MEET = """
define void @meet(ptr %args, i64 %tile, i64 %thread) {
  %a1 = getelementptr ptr, ptr %args, i64 1
  %threads = load ptr, ptr %a1
  %q = getelementptr i64, ptr %threads, i64 %tile
  store i64 %thread, ptr %q
  %a2 = getelementptr ptr, ptr %args, i64 2
  %arrived = load ptr, ptr %a2
  %a3 = getelementptr ptr, ptr %args, i64 3
  %wanted = load i64, ptr %a3
  %before = atomicrmw add ptr %arrived, i64 1 acq_rel
  br label %look
look:
  %turn = phi i64 [ 0, %0 ], [ %turn1, %look ]
  %there = load atomic i64, ptr %arrived acquire, align 8
  %all = icmp sge i64 %there, %wanted
  %turn1 = add i64 %turn, 1
  %late = icmp sge i64 %turn1, 20000000000
  %end = or i1 %all, %late
  br i1 %end, label %done, label %look
done:
  ret void
}
"""
# A tile of this thread waits until a worker has one in hand. That waits for a word to change, as if it were stopped.
STALL = """
define void @stall(ptr %args, i64 %tile, i64 %thread) {
  %a0 = load ptr, ptr %args
  %n = atomicrmw add ptr %a0, i64 0 acq_rel
  %p = getelementptr i64, ptr %a0, i64 %tile
  %n0 = load i64, ptr %p
  %n1 = add i64 %n0, 1
  store i64 %n1, ptr %p
  %a2 = getelementptr ptr, ptr %args, i64 2
  %arrived = load ptr, ptr %a2
  %released = getelementptr i64, ptr %arrived, i64 1
  %worker = icmp ne i64 %thread, 0
  br i1 %worker, label %begin, label %meet
begin:
  store atomic i64 1, ptr %arrived release, align 8
  br label %wait
wait:
  %go = load atomic i64, ptr %released acquire, align 8
  %free = icmp ne i64 %go, 0
  br i1 %free, label %done, label %wait
meet:
  %there = load atomic i64, ptr %arrived acquire, align 8
  %one = icmp ne i64 %there, 0
  br i1 %one, label %done, label %meet
done:
  ret void
}
"""
needs_threads = pytest.mark.skipif(os.name != "posix", reason="the pool needs POSIX threads")


class Bench:
    """Kernels over tables of their own: `counts[tile]` and `threads[tile]`."""

    def __init__(self, tiles: int, meeting: int = 0) -> None:
        self.engine = load([host().emit_object(text) for text in (COUNT, MEET, STALL)])
        self.counts, self.threads = np.zeros(tiles, np.int64), np.full(tiles, -1)
        self.arrived = np.zeros(2, np.int64)
        addresses = [a.ctypes.data for a in (self.counts, self.threads, self.arrived)]
        self.table = (ctypes.c_int64 * 4)(*addresses, meeting)
        self.tiles = tiles

    def step(self, kernel: str = "count", tiles: int | None = None) -> KernelCall:
        return KernelCall(self.engine.address(kernel), ctypes.addressof(self.table), tiles or self.tiles)

    def segment(self, *steps: Any, threads: int = 4) -> Segment:
        forget_stalls()  # the machine that runs this test may be busy
        return Segment([], steps, self, 1.0, 1.0, threads)


def alone_until() -> ctypes.c_int64:
    """The word of the pool that says until when phases run on one thread."""
    return thread_pool.pool_word(thread_pool.pool_address() + thread_pool.ALONE_UNTIL)


def forget_stalls() -> None:
    """Let phases run on several threads at once."""
    if os.name == "posix":
        alone_until().value = 0


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The number of threads is put back."""
    before = ad.get_num_threads()
    yield
    ad.set_num_threads(before)


@pytest.mark.parametrize("tiles", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 300])
def test_each_tile_runs_once_in_each_phase(tiles: int, number: int) -> None:
    ad.set_num_threads(number)
    bench = Bench(tiles)
    call = bench.segment(bench.step(), bench.step(), bench.step()).call
    for turn in range(1, 101):
        assert call() is None
        assert set(bench.counts) == {3 * turn}
    assert bench.threads.min() >= 0
    assert bench.threads.max() < min(number, 4)


@needs_threads
def test_as_many_threads_run_as_were_asked_for() -> None:
    for number in (2, 3, 2, 5):
        ad.set_num_threads(number)
        bench = Bench(number, meeting=number)
        bench.segment(bench.step("meet"), threads=8).call()
        assert sorted(bench.threads) == list(range(number))


@needs_threads
def test_a_program_never_uses_more_threads_than_it_was_made_for() -> None:
    ad.set_num_threads(4)
    bench = Bench(500)
    call = bench.segment(bench.step(), threads=2).call
    for _ in range(200):
        call()
        assert bench.threads.max() < 2


@pytest.mark.parametrize(("seconds", "limit"), [(0.0, 4), (1.0, 1)], ids=["short", "made for one"])
def test_a_short_segment_asks_nobody(seconds: float, limit: int) -> None:
    ad.set_num_threads(4)
    bench = Bench(100)
    call = Segment([], [bench.step()], bench, seconds, seconds, limit).call
    for _ in range(100):
        call()
        assert set(bench.threads) == {0}


def test_a_check_that_fails_gives_the_pool_back() -> None:
    ad.set_num_threads(2)
    bench, truth = Bench(16), np.array(False)
    pointer = (ctypes.c_void_p * 1)(truth.ctypes.data)
    refused = bench.segment(bench.step(), Check(ctypes.addressof(pointer)), bench.step()).call
    for turn in range(1, 10):
        assert refused() == 0
        assert set(bench.counts) == {turn}
    if os.name == "posix":
        bench = Bench(2, meeting=2)
        bench.segment(bench.step("meet")).call()
        assert sorted(bench.threads) == [0, 1]


def test_many_programs_at_once_do_not_wait_for_the_pool() -> None:
    ad.set_num_threads(3)
    benches = [Bench(40) for _ in range(6)]
    calls = [bench.segment(*[bench.step()] * 5).call for bench in benches]

    def work(number: int) -> None:
        for _ in range(300):
            calls[number]()

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert not worker.is_alive()
    assert [set(bench.counts) for bench in benches] == [{1500}] * 6


@needs_threads
def test_one_program_runs_alone_while_another_has_the_pool() -> None:
    ad.set_num_threads(2)
    holder, other = Bench(2, meeting=3), Bench(50)  # the third to arrive is this thread, by hand
    thread = threading.Thread(target=holder.segment(holder.step("meet")).call)
    thread.start()
    while holder.arrived[0] < 2:
        pass
    other.segment(other.step()).call()
    holder.arrived[0] += 1
    thread.join(60)
    assert not thread.is_alive()
    assert set(other.threads) == {0}
    assert set(other.counts) == {1}


def test_phases_of_more_tiles_than_a_word_can_count_run_on_one_thread() -> None:
    ad.set_num_threads(2)
    bench = Bench(1)
    many = Bench(thread_pool.TILE_COUNT_LIMIT)
    many.segment(many.step(), bench.step()).call()
    assert int(many.counts.min()) == int(many.counts.max()) == 1
    assert set(many.threads[:: thread_pool.TILE_COUNT_LIMIT // 64]) == {0}


def stall_worker(seconds: float, ns_on_several: int = 0) -> None:
    """Run a phase of two tiles in which a worker that has one in hand stops for so long.

    `ns_on_several`: how long phases ran on several threads before, if not always.
    """
    bench = Bench(2)
    call = bench.segment(bench.step("stall"), threads=2).call
    if ns_on_several:
        alone_until().value = time.monotonic_ns() - ns_on_several

    def release() -> None:
        while not bench.arrived[0]:
            time.sleep(0.001)
        time.sleep(seconds)
        bench.arrived[1] = 1

    helper = threading.Thread(target=release)
    helper.start()
    call()
    assert bench.arrived[1] == 1, "the phase ended before all tiles were done"
    helper.join()
    assert set(bench.counts) == {1}


@needs_threads
def test_after_a_worker_was_stopped_phases_run_on_one_thread_for_some_time() -> None:
    ad.set_num_threads(2)
    before = time.monotonic_ns()
    stall_worker(0.3)
    assert alone_until().value > before + 300_000_000
    bench = Bench(200)
    call = bench.segment(*[bench.step()] * 3).call  # which forgets the stall
    alone_until().value = time.monotonic_ns() + 10**12
    for turn in range(1, 20):
        call()
        assert set(bench.counts) == {3 * turn}
        assert set(bench.threads) == {0}
    alone_until().value = time.monotonic_ns() - 1
    both = Bench(2, meeting=2)
    call = both.segment(both.step("meet")).call
    alone_until().value = time.monotonic_ns() - 1
    call()
    assert sorted(both.threads) == [0, 1]


@needs_threads
def test_a_stop_soon_after_another_doubles_the_time_on_one_thread() -> None:
    ad.set_num_threads(2)
    duration = thread_pool.pool_word(thread_pool.pool_address() + thread_pool.ALONE_FOR)
    duration.value = 60 * 10**9
    stall_worker(2.0, ns_on_several=10**6)
    assert duration.value >= 120 * 10**9
    stall_worker(1.0, ns_on_several=10**12)
    assert duration.value < 120 * 10**9


@needs_threads
def test_the_thread_that_waits_for_a_stopped_worker_sleeps() -> None:
    ad.set_num_threads(2)
    begin, used = time.monotonic(), time.thread_time()
    stall_worker(1.0)
    assert time.thread_time() - used < (time.monotonic() - begin) / 2


def count_lost_processors() -> int:
    """How often threads of this process but the main one had a processor and lost it to others."""
    found = 0
    for task in set(os.listdir("/proc/self/task")) - {str(os.getpid())}:
        with open(f"/proc/self/task/{task}/status") as status:
            found += next(int(line.split()[1]) for line in status if line.startswith("nonvoluntary_ctxt_switches"))
    return found


@needs_threads
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's counts of a thread's switches")
def test_a_worker_that_waits_beside_other_work_does_not_offer_its_processor() -> None:
    """Where it does, it stays runnable for many turns of the scheduler, and the main thread gets a smaller share."""
    ad.set_num_threads(2)
    sleepers = thread_pool.pool_word(thread_pool.pool_address() + thread_pool.SLEEPERS)
    assert meets(2)
    waits = 5
    loops = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        before = count_lost_processors()
        for _ in range(waits):
            alone_until().value = 0
            assert meets(2)
            while not sleepers.value:
                time.sleep(0.001)
        lost = count_lost_processors() - before
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert lost < 20 * waits


def in_a_child(work: Callable[[], bool]) -> None:
    """Fork, and have the child say whether `work()` is true."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = 0 if work() else 1
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def meets(number: int) -> bool:
    """True if so many threads come to work."""
    bench = Bench(number, meeting=number)
    bench.segment(bench.step("meet")).call()
    return len(set(bench.threads)) == number


@needs_threads
def test_a_forked_child_starts_threads_of_its_own() -> None:
    ad.set_num_threads(3)
    assert meets(3)
    in_a_child(lambda: meets(3) and meets(2))
    assert meets(3)


@needs_threads
def test_a_child_forked_while_a_program_has_the_pool() -> None:
    ad.set_num_threads(2)
    holder = Bench(2, meeting=3)
    thread = threading.Thread(target=holder.segment(holder.step("meet")).call)
    thread.start()
    while holder.arrived[0] < 2:
        pass
    in_a_child(lambda: meets(2))
    holder.arrived[0] += 1
    thread.join(60)
    assert not thread.is_alive()


@needs_threads
def test_where_no_thread_can_be_started_one_does_all() -> None:
    ad.set_num_threads(4)

    def work() -> bool:
        refuse = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(lambda *_: 11)
        address = ctypes.cast(refuse, ctypes.c_void_p).value or 0
        thread_pool.pool_word(thread_pool.pool_address() + system_threads.CREATE).value = address
        bench = Bench(50)
        call = Segment([], [bench.step()], bench, 0.0, 1.0, 4).call  # it keeps Python's lock
        call(), call()
        return set(bench.counts) == {2} and set(bench.threads) == {0}

    in_a_child(work)


ENDS = """
import sys, threading
import adjoint as ad
sys.path.insert(0, {here!r})
from test_thread_pool import Bench
ad.set_num_threads(3)
bench = Bench(64)
call = bench.segment(*[bench.step()] * 50).call
call()
def forever():
    while True:
        call()
if {daemon}:
    thread = threading.Thread(target=forever, daemon=True)
    thread.start()
    while bench.counts[0] < 10_000:
        pass
print("end", flush=True)
"""


@needs_threads
@pytest.mark.parametrize("daemon", [False, True], ids=["idle", "running"])
def test_a_process_ends_while_workers_look_for_work(daemon: bool) -> None:
    program = ENDS.format(here=os.path.dirname(__file__), daemon=daemon)
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for _ in range(20 if os.environ.get("ADJOINT_NIGHTLY") == "1" else 2):
        done = subprocess.run(
            [sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=300, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")

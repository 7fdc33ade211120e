"""Threads of other systems: their calls are made here, of this system's, and the pool runs on them.

Only the calls' arguments can be tried in this way, not the systems themselves.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.compiler.runtime import system_threads, thread_pool
from adjoint.compiler.runtime.system_threads import AppleThreads, FutexThreads, PosixThreads, WindowsThreads

LINUX = sys.platform.startswith("linux") and host().triple.partition("-")[0] in system_threads.FUTEX_SYSCALLS
# The calls of macOS and Windows as Linux can make them. Each counts how often it was made.
CALLS = """
@counts = global [4 x i64] zeroinitializer
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @usleep(i32)

define ptr @counted() {
  ret ptr @counts
}
define internal void @count(i64 %which) {
  %p = getelementptr i64, ptr @counts, i64 %which
  %n = atomicrmw add ptr %p, i64 1 seq_cst
  ret void
}
define i32 @os_sync_wait_on_address(ptr %address, i64 %value, i64 %size, i32 %flags) {
  %four = icmp eq i64 %size, 4
  %plain = icmp eq i32 %flags, 0
  %small = icmp ult i64 %value, 4294967296
  %a = and i1 %four, %plain
  %b = and i1 %a, %small
  %which = select i1 %b, i64 0, i64 3
  call void @count(i64 %which)
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %address, i64 128, i64 %value, ptr null, ptr null, i64 0)
  ret i32 0
}
define i32 @os_sync_wake_by_address_any(ptr %address, i64 %size, i32 %flags) {
  call void @count(i64 1)
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %address, i64 129, i64 1, ptr null, ptr null, i64 0)
  ret i32 0
}
define i32 @WaitOnAddress(ptr %address, ptr %compared, i64 %size, i32 %ms) {
  %four = icmp eq i64 %size, 4
  %forever = icmp eq i32 %ms, -1
  %right = and i1 %four, %forever
  %which = select i1 %right, i64 0, i64 3
  call void @count(i64 %which)
  %value = load i32, ptr %compared
  %wide = zext i32 %value to i64
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %address, i64 128, i64 %wide, ptr null, ptr null, i64 0)
  ret i32 1
}
define void @WakeByAddressSingle(ptr %address) {
  call void @count(i64 1)
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %address, i64 129, i64 1, ptr null, ptr null, i64 0)
  ret void
}
define ptr @CreateThread(ptr %security, i64 %stack, ptr %function, ptr %argument, i32 %flags, ptr %id) {
  call void @count(i64 2)
  %handle = alloca i64
  %failed = call i32 @pthread_create(ptr %handle, ptr null, ptr %function, ptr %argument)
  %runs = icmp eq i32 %failed, 0
  %result = select i1 %runs, ptr @counts, ptr null
  ret ptr %result
}
define i32 @QueryPerformanceCounter(ptr %reading) {
  %spec = alloca [2 x i64]
  %r = call i32 @clock_gettime(i32 1, ptr %spec)
  %s = load i64, ptr %spec
  %p = getelementptr i64, ptr %spec, i64 1
  %ns = load i64, ptr %p
  %ticks = mul i64 %s, 10000000
  %rest = udiv i64 %ns, 100
  %sum = add i64 %ticks, %rest
  store i64 %sum, ptr %reading
  ret i32 1
}
define void @Sleep(i32 %ms) {
  %us = mul i32 %ms, 1000
  %r = call i32 @usleep(i32 %us)
  ret void
}
"""
PROGRAM = """
import ctypes, sys, time
import adjoint as ad
from adjoint.compiler.llvm.jit import engine, target
from adjoint.compiler.runtime import system_threads, thread_pool
sys.path.insert(0, {here!r})

made = engine.load([target.host().emit_object({calls!r})])
made.keep()  # workers are in it until the process ends

class Threads(system_threads.{name}):
    def fill(self, pool):
        for at, name in self.functions.items():
            try:
                address = made.address(name)
            except KeyError:  # what POSIX has
                address = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
            system_threads.pool_word(pool + at).value = address
        system_threads.pool_word(pool + system_threads.TICKS_PER_SECOND).value = 10_000_000

thread_pool.find_thread_system = lambda triple: Threads()
from test_thread_pool import Bench, forget_stalls
ad.set_num_threads(3)
bench = Bench(64)
meeting = Bench(3, meeting=3)
calls, meet = bench.segment(*[bench.step()] * 20).call, meeting.segment(meeting.step("meet")).call
for _ in range(3):
    forget_stalls()
    calls()
    while system_threads.pool_word(thread_pool.pool_address() + system_threads.SLEEPERS).value < 2:
        time.sleep(0.001)  # until the workers sleep, however busy the machine is
    meeting.arrived[0] = 0
    forget_stalls()
    meet()
counts = ctypes.cast(ctypes.CFUNCTYPE(ctypes.c_void_p)(made.address("counted"))(), ctypes.POINTER(ctypes.c_int64))
print(set(bench.counts.tolist()), sorted(meeting.threads.tolist()), *counts[:4])
"""


@pytest.mark.skipif(not LINUX, reason="makes the calls of Linux's futex")
@pytest.mark.parametrize("system", [AppleThreads, WindowsThreads, PosixThreads])
def test_pool_runs_on_the_calls_of_another_system(system: type[PosixThreads], tmp_path: Path) -> None:
    number = system_threads.FUTEX_SYSCALLS[host().triple.partition("-")[0]]
    calls = CALLS.replace("FUTEX", str(number))
    program = PROGRAM.format(here=os.path.dirname(__file__), calls=calls, name=system.__name__)
    # The pool's code is kept on disk for a machine, which in truth has one system.
    paths = os.pathsep.join(filter(None, sys.path))
    variables = {**os.environ, "PYTHONPATH": paths, "ADJOINT_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts, threads, calls = done.stdout[:4], done.stdout[5:14], done.stdout[15:]
    waits, wakes, starts, wrong = map(int, calls.split())
    assert (counts, threads) == ("{60}", "[0, 1, 2]")
    if system is PosixThreads:
        assert (waits, wakes, starts) == (0, 0, 0)
    else:
        assert waits > 0
        assert wakes > 0
        assert starts == (2 if system is WindowsThreads else 0)
    assert wrong == 0  # a size, a flag or a value that the system's own call would not take


@pytest.mark.parametrize(
    ("system", "triple"),
    [
        (FutexThreads(98), "aarch64-unknown-linux-gnu"), (AppleThreads(), "arm64-apple-darwin23.0.0"),
        (AppleThreads(), "x86_64-apple-darwin23.0.0"), (WindowsThreads(), "x86_64-pc-windows-msvc-elf"),
        (WindowsThreads(), "aarch64-pc-windows-msvc-elf"), (PosixThreads(), "riscv64-unknown-linux-gnu"),
    ],
)  # fmt: skip
def test_pool_is_compiled_for_each_system(
    system: PosixThreads, triple: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Target.from_triple(triple)
    monkeypatch.setattr(thread_pool, "find_thread_system", lambda triple: system)
    monkeypatch.setattr(thread_pool, "host", lambda: machine)
    b = Builder(machine)
    thread_pool.write_pool(b)
    assert machine.emit_object(b.text())


def test_system_of_this_process_is_found() -> None:
    system = system_threads.find_thread_system(host().triple)
    if sys.platform.startswith("linux"):
        assert isinstance(system, FutexThreads) == LINUX
    assert (system is None) == (not thread_pool.pool_address())


def test_linux_on_another_processor_naps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert type(system_threads.find_thread_system("riscv64-unknown-linux-gnu")) is PosixThreads
    monkeypatch.setattr(sys, "platform", "emscripten")
    assert system_threads.find_thread_system("wasm32-unknown-emscripten") is None

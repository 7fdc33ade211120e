"""The machine's limits: flops per second in registers, bytes per second of sums over memory of several sizes.

Measured in a process of its own, so that libraries are held to so many threads. No library's product is the limit of
flops: on processors that a library was not tuned for, compiled steps exceed its pace.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.compiler.llvm.jit import engine, target

CHAINS = {16: 12, 32: 24}  # multiply-adds that do not wait for each other, as many as registers hold, by their number
TURNS = 1 << 18  # of the loop, each with one link of all chains
SETS = tuple(int(mib * 2**20) for mib in (0.125, 0.5, 4, 16, 24, 64, 256))  # bytes that a sum works on
LONG = 0.4  # seconds for each size
FLOAT = 4


@dataclass(frozen=True)
class Limits:
    """`bandwidth`: bytes per second by the bytes that are worked on, from inside the caches to memory."""

    flops: float
    bandwidth: dict[int, float]

    def bytes_per_second(self, size: float) -> float:
        """Of the largest set that was measured and is no larger than `size`: no slower than what `size` can have."""
        return self.bandwidth[max((n for n in self.bandwidth if n <= size), default=min(self.bandwidth))]

    @property
    def memory(self) -> float:
        """Bytes per second of the largest set."""
        return self.bandwidth[max(self.bandwidth)]


def limits(threads: int, cores: list[int]) -> Limits:
    """Measured in a new process."""
    from .contest import ROOT, threaded

    program = "from benchmarks.limits import main; main()"
    command = [sys.executable, "-c", program, str(threads), ",".join(map(str, cores))]
    text = subprocess.check_output(command, cwd=ROOT, env={**os.environ, **threaded(threads)}, text=True)
    found = json.loads(text)
    return Limits(found["flops"], {int(size): rate for size, rate in found["bandwidth"].items()})


def main() -> None:
    """Measure both, and print them as JSON; the arguments are threads and cores."""
    threads, cores = int(sys.argv[1]), [int(core) for core in sys.argv[2].split(",")]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores[:threads])
    print(json.dumps({"flops": peak(threads), "bandwidth": {size: bandwidth(threads, size) for size in SETS}}))


def peak(threads: int) -> float:
    """Flops per second of multiply-adds in vector registers, which read and write no memory."""
    host = target.host()
    lanes = host.vector_bits // 32
    chains = CHAINS[host.vector_registers]
    code = engine.load([host.emit_object(multiply_add_text(lanes, chains))])
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("multiply_add"))
    results = [np.zeros(lanes, np.float32) for _ in range(threads)]
    flops = 2.0 * lanes * chains * TURNS * threads
    if threads == 1:
        return flops / least(lambda: run(results[0].ctypes.data), 1)
    with ThreadPoolExecutor(threads) as pool:
        return flops / least(lambda: list(pool.map(lambda result: run(result.ctypes.data), results)), threads)


def multiply_add_text(lanes: int, count: int) -> str:
    """A function in LLVM assembly: TURNS times x·x + sum → sum for each of `count` registers, their total stored."""
    vector, chains = f"<{lanes} x float>", range(count)
    starts = [f"  %s{i} = phi {vector} [ zeroinitializer, %entry ], [ %n{i}, %loop ]" for i in chains]
    links = [f"  %n{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %x, {vector} %x, {vector} %s{i})" for i in chains]
    totals = [f"  %t{i + 1} = fadd {vector} {f'%t{i}' if i else 'zeroinitializer'}, %n{i}" for i in chains]
    return "\n".join(
        [
            f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
            f"define void @multiply_add({vector}* %out) {{",
            "entry:",
            f"  %x = load {vector}, {vector}* %out, align 4",
            "  br label %loop",
            "loop:",
            "  %turn = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *starts,
            *links,
            "  %next = add i64 %turn, 1",
            f"  %more = icmp ult i64 %next, {TURNS}",
            "  br i1 %more, label %loop, label %end",
            "end:",
            *totals,
            f"  store {vector} %t{count}, {vector}* %out, align 4",
            "  ret void",
            "}",
        ]
    )


def bandwidth(threads: int, size: int) -> float:
    """Bytes per second over `size` bytes in all, cut in equal parts for the threads: of a + b → c, by which two are
    read and one is written, or of a·b, which only reads, whichever are more.
    """
    count = max(1, size // (3 * FLOAT * threads))
    parts = [tuple(np.ones(count, np.float32) for _ in range(3)) for _ in range(threads)]
    again = max(1, (1 << 22) // (12 * count))

    def add(part: Any) -> None:
        a, b, c = part
        for _ in range(again):
            np.add(a, b, out=c)

    def multiply(part: Any) -> None:
        whole = part[0]
        for _ in range(again):
            np.dot(whole, whole)

    joined = [(np.ones(3 * count, np.float32),) for _ in range(threads)]
    moved = 3.0 * FLOAT * count * again * threads
    with ThreadPoolExecutor(threads) as pool:
        ways: list[Callable[[], object]] = [lambda: add(parts[0]), lambda: multiply(joined[0])]
        if threads > 1:
            ways = [lambda: list(pool.map(add, parts)), lambda: list(pool.map(multiply, joined))]
        return moved / min(least(way, threads) for way in ways)


def least(call: Callable[[], object], threads: int) -> float:
    """The fewest seconds of one call; of work where there is one thread, as others may use the core."""
    clock = time.process_time if threads == 1 else time.perf_counter
    call()
    best, end = float("inf"), time.perf_counter() + LONG
    while time.perf_counter() < end:
        start = clock()
        call()
        best = min(best, clock() - start)
    return best

"""The machine's limits: flops per second of large products, bytes per second of sums over memory of several sizes.

Measured in a process of its own, so that libraries are held to so many threads.
"""

from __future__ import annotations

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

PRODUCTS = (512, 1024, 2048)  # sides of the matrices
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
    """Flops per second of a float32 product, 2·n³: the best of NumPy and PyTorch, and of all sizes."""
    libraries: list[Any] = [np]
    try:
        import torch
    except ImportError:
        pass
    else:
        torch.set_num_threads(threads)
        libraries.append(torch)
    best = 0.0
    for library in libraries:
        for n in PRODUCTS:
            a, b = (library.asarray(np.random.default_rng(i).random((n, n), np.float32)) for i in range(2))
            c = library.empty_like(a)
            best = max(best, 2.0 * n**3 / least(lambda a=a, b=b, c=c, lib=library: lib.matmul(a, b, out=c), threads))  # type: ignore[misc]
    return best


def bandwidth(threads: int, size: int) -> float:
    """Bytes per second of a + b → c over `size` bytes in all, cut in equal parts for the threads; two are read, one is
    written.
    """
    count = max(1, size // (3 * FLOAT * threads))
    parts = [tuple(np.ones(count, np.float32) for _ in range(3)) for _ in range(threads)]
    again = max(1, (1 << 22) // (12 * count))

    def run(part: Any) -> None:
        a, b, c = part
        for _ in range(again):
            np.add(a, b, out=c)

    if threads == 1:
        return 3.0 * FLOAT * count * again / least(lambda: run(parts[0]), 1)
    with ThreadPoolExecutor(threads) as pool:
        return 3.0 * FLOAT * count * again * threads / least(lambda: list(pool.map(run, parts)), threads)


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

"""One variant of one workload in a process of its own: checked first, then timed whenever the driver asks.

The arguments are workload, variant, threads, cores. It answers in lines of JSON: one after its first call, one when it
is ready, and one for each line that it reads, which is the seconds that a round is to last.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Any

CHECKED = 6  # calls whose results are compared
WARM = 0.1  # seconds of calls before the first round


def main() -> None:
    """Pin this process, then import the library: what it starts inherits that."""
    name, variant, threads, cores = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints
    _pin(int(threads), [int(core) for core in cores.split(",")])

    def answer(**what: Any) -> None:
        print(json.dumps(what), file=answers, flush=True)

    from .variants import VARIANTS, numbers
    from .workloads import find_workload, workload

    begun, way, chosen = time.perf_counter(), VARIANTS[variant], find_workload(name)
    try:
        _imported(way.package, int(threads))
        resident = _resident()
        start = chosen.start()
        step = way.make(chosen, start)
    except ImportError as error:
        return answer(absent=str(error))
    except workload.NotYet as error:
        return answer(absent=f"not yet: {error}")
    if step is None:
        return answer(absent="no such way")
    batches = cycle([tuple(map(way.array, batch)) for batch in start.batches])
    del start  # it is no part of what the step needs
    found = [numbers(step(*next(batches)))]
    answer(first=time.perf_counter() - begun, work=sum(os.times()[:4]))  # compilers that it called too
    found += [numbers(step(*next(batches))) for _ in range(CHECKED - 1)]
    count = _warmed(step, batches)
    answer(results=found, peak=_peak() - resident, process=_peak())
    for line in sys.stdin:
        answer(**_round(step, batches, max(1, round(float(line) * count))))
    return None


def _warmed(step: Any, batches: Any) -> float:
    """Call for a while; how many calls a second takes."""
    start, count = time.perf_counter(), 0
    while (taken := time.perf_counter() - start) < WARM or not count:
        _settled(step(*next(batches)))
        count += 1
    return count / taken


def _round(step: Any, batches: Any, count: int) -> dict[str, float]:
    """The mean seconds of a call: by the clock, and of all threads' work."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        result = step(*next(batches))
    _settled(result)
    return {"wall": (time.perf_counter() - wall) / count, "cpu": (time.process_time() - cpu) / count, "count": count}


def _settled(result: Any) -> None:
    """Wait for what JAX computes beside the caller."""
    for part in result if isinstance(result, tuple) else (result,):
        if hasattr(part, "block_until_ready"):
            part.block_until_ready()


def _pin(threads: int, cores: list[int]) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores[:threads])


def _imported(package: str, threads: int) -> None:
    library = __import__(package)
    if hasattr(library, "set_num_threads"):
        library.set_num_threads(threads)


def _resident() -> int:
    """Bytes of memory that this process has now."""
    return _told_by_system("VmRSS") or _peak()


def _peak() -> int:
    """Bytes of memory that this process ever had; `ru_maxrss` on Linux may still be that of the process before it."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _told_by_system("VmHWM") or (most if sys.platform == "darwin" else most * 1024)


def _told_by_system(name: str) -> int:
    """A line of Linux's report on this process, in bytes; 0 elsewhere."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)

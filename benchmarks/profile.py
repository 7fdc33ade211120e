"""Where the time of a compiled step goes: each kernel and call alone and in its place, beside what the machine can do.

    python3 dev.py bench profile WORKLOAD [--trace FILE] [--quick]

A kernel's bound is the larger of its flops over the peak and its bytes over the bandwidth of memory of that size.
`alone`: called many times in a row; `in the step`: all in order, again and again, so that a kernel finds its data in
the caches, or not, as it does in use. --trace writes it for Chrome's or Perfetto's viewer. One thread; seconds of work.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import textwrap
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import adjoint
from adjoint.compiler.cache.object_cache import compile_kernel
from adjoint.compiler.llvm.jit.engine import Engine, load
from adjoint.compiler.program.entry_codegen import EntryCodegen
from adjoint.compiler.report.explain import ExplainEntry, explain

from .limits import Limits, limits
from .measure import allowed_cores, hold_to_one_thread, machine, table
from .workloads import WORKLOADS
from .workloads.workload import Workload

REPEAT = """
define void @adjoint_repeat(ptr %function, ptr %table, i64 %tiles, i64 %count) {
entry:
  br label %call
call:
  %k = phi i64 [ 0, %entry ], [ %k, %next ], [ %k1, %again ]
  %tile = phi i64 [ 0, %entry ], [ %tile1, %next ], [ 0, %again ]
  call void %function(ptr %table, i64 %tile, i64 0)
  %tile1 = add i64 %tile, 1
  %more = icmp slt i64 %tile1, %tiles
  br i1 %more, label %next, label %last
next:
  br label %call
last:
  %k1 = add i64 %k, 1
  %once_more = icmp slt i64 %k1, %count
  br i1 %once_more, label %again, label %done
again:
  br label %call
done:
  ret void
}

define void @adjoint_nothing(ptr %table, i64 %tile, i64 %thread) {
  ret void
}
"""


@dataclass(frozen=True)
class Piece:
    """An entry of the program; `run(count)` computes it so often."""

    entry: ExplainEntry
    run: Callable[[int], None]


@dataclass(frozen=True)
class Timed:
    """What one computation of an entry takes, alone and in its place in the step; and its bound."""

    entry: ExplainEntry
    alone: float
    within: float
    bound: float


def main() -> None:
    """Profile one workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write it as JSON for Chrome's viewer of traces")
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    given = parser.parse_args()
    hold_to_one_thread()
    cores = allowed_cores()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores[:1])
    print(machine(), end="\n\n")
    limit = limits(1, cores)
    whole, timed = profile(WORKLOADS[given.workload], limit, 0.002 if given.quick else 0.02)
    print(told(timed, whole))
    if given.trace is not None:
        given.trace.write_text(json.dumps(trace(timed)), encoding="utf-8")


def profile(workload: Workload, limit: Limits, seconds: float) -> tuple[float, list[Timed]]:
    """Seconds of a whole call, and those of its entries; `seconds` is spent on each."""
    start = workload.start()
    step = adjoint.compile(workload.step(adjoint, start))
    batch = tuple(map(adjoint.tensor, start.batches[0]))
    result = step(*batch)
    calls = max(5, round(seconds / _seconds(lambda: step(*batch))))
    whole = median(_seconds(lambda: step(*batch)) for _ in range(calls))
    result = step(*batch)  # its memory is what the tables point to
    found = pieces(step, batch)
    within = _in_order(found, calls)
    timed = [
        Timed(piece.entry, _alone(piece, seconds), inside, _bound(piece.entry, limit))
        for piece, inside in zip(found, within, strict=True)
    ]
    del result
    return whole, timed


def pieces(step: Any, batch: tuple[Any, ...]) -> list[Piece]:
    """The entries of the program that ran last, with `batch`, in order. Its results must be alive."""
    program = step._program()
    entries = explain(program).entries
    return [
        Piece(entry, _runner(program, group, batch)) for entry, group in zip(entries, program.fusion.order, strict=True)
    ]


def told(timed: list[Timed], whole: float) -> str:
    """A line for each entry, the longest first."""
    total = sum(each.within for each in timed)
    rows = []
    for each in sorted(timed, key=lambda each: -each.within):
        entry, share = each.entry, _percent(each.within, total)
        cost = (f"{entry.read + entry.written:,}", "?" if entry.flops is None else f"{entry.flops:,}")
        times = (_micro(each.alone), _micro(each.within), share, _micro(each.bound), _percent(each.bound, each.within))
        rows.append((f"{entry.number} {entry.kind}", *times, *cost, _ops(entry)))
    bound = sum(each.bound for each in timed)
    head = ("entry", "alone", "in the step", "share", "bound", "of bound", "bytes", "flops", "ops")
    rest = f"{_micro(whole)} a call; in entries {_micro(total)}, bound {_micro(bound)}, {_percent(bound, whole)} of it"
    return f"{table(head, rows)}\n\n{rest}"


def trace(timed: list[Timed]) -> dict[str, Any]:
    """The step as Chrome's viewer takes it: entries end to end, in microseconds."""
    events, at = [], 0.0
    for each in timed:
        entry = each.entry
        duration = each.within * 1e6
        facts = {
            "bytes": entry.read + entry.written,
            "flops": entry.flops,
            "bound": each.bound * 1e6,
            "alone": each.alone * 1e6,
            "of bound": _percent(each.bound, each.within),
            "lines": {line: " ".join(ops) for line, ops in entry.lines.items()},
            "why": list(entry.reasons()),
        }
        placed = {"ph": "X", "ts": at, "dur": duration, "pid": 0, "tid": 0}
        events.append({"name": _ops(entry), "cat": entry.kind, **placed, "args": facts})
        at += duration
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _runner(program: Any, group: Any, batch: tuple[Any, ...]) -> Callable[[int], None]:
    if not group.call:
        return _kernel(program, group)
    if program.binding.is_native(group):
        return lambda count: None  # a check of one truth value
    return _call(program, group, batch)


def _kernel(program: Any, group: Any) -> Callable[[int], None]:
    """The native function with the table that the program gives it, called in a native loop."""
    kernel, binding = program.kernels[group], program.binding
    function, arguments = binding._engine.address(kernel.name), binding._tables[group].address
    return lambda count: _repeat()(function, arguments, kernel.tiles, count)


@cache
def _repeat() -> Any:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(_loop().address("adjoint_repeat"))


@cache
def _loop() -> Engine:
    return load([compile_kernel(REPEAT)])


def _call(program: Any, group: Any, batch: tuple[Any, ...]) -> Callable[[int], None]:
    """The line that the program has for a call of NumPy, with memory of its own for results."""
    names, binding = dict(program.names), program.binding
    writer = EntryCodegen(program, names)
    writer._call(group.equations[0])
    local = {f"a{i}": x.array for i, x in enumerate(batch)}
    local |= {name: np.empty(value.shape, value.dtype) for name, value in binding.fresh.items()}
    body = "\n".join(f"        {line.strip()}" for line in writer._lines)
    exec(f"def call(count, {', '.join(local)}):\n    for _ in range(count):\n{body}", names)
    call = names["call"]
    return lambda count: call(count, **local)


def _in_order(found: list[Piece], rounds: int) -> list[float]:
    """The median seconds of each, all computed one after another; less what is not theirs."""
    taken = [[_seconds(partial(piece.run, 1)) for piece in found] for _ in range(rounds)]
    return [max(median(times) - _empty(), 0.0) for times in zip(*taken, strict=True)]


@cache
def _empty() -> float:
    """Seconds that the clock, Python and ctypes take around a kernel."""
    function = _loop().address("adjoint_nothing")
    return median(_seconds(lambda: _repeat()(function, 0, 1, 1)) for _ in range(1000))


def _alone(piece: Piece, seconds: float) -> float:
    """The fewest seconds of work of three tries; each lasts so long."""
    piece.run(1)
    count = max(1, round(seconds / 3 / max(_seconds(lambda: piece.run(10)) / 10, 1e-8)))
    return min(_seconds(lambda: piece.run(count)) for _ in range(3)) / count


def _seconds(call: Callable[[], object]) -> float:
    """Of this thread's work: others may use the core meanwhile."""
    start = time.thread_time()
    call()
    return time.thread_time() - start


def _bound(entry: ExplainEntry, limit: Limits) -> float:
    size = entry.read + entry.written
    return max((entry.flops or 0) / limit.flops, size / limit.bytes_per_second(size))


def _ops(entry: ExplainEntry) -> str:
    return textwrap.shorten(" ".join(_folded(each.op for each in entry.equations)), 60, placeholder=" …")


def _folded(ops: Iterable[str]) -> list[str]:
    """Each op once, with how often."""
    counts: dict[str, int] = {}
    for op in ops:
        counts[op] = counts.get(op, 0) + 1
    return [op if n == 1 else f"{op}×{n}" for op, n in counts.items()]


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else ""


if __name__ == "__main__":
    main()

"""The file of a profile in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

Times are microseconds from the first event on. Each thread has a row of its own, and so has each thread that runs
kernels for it. A flow joins a forward op to its backward node.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence

from adjoint.core.typing import Operand
from adjoint.utils.profile_events import Event, read_source_line

CATEGORIES = {
    "op": "cpu_op",
    "backward": "cpu_op",
    "block": "user_annotation",
    "step": "compiled_step",
    "call": "numpy_call",
}  # of others, such as kernels, it is their kind
FLOW = "fwdbwd"  # from a forward op to its backward node
TraceRow = dict[str, Operand]


def write_trace(
    path: str | os.PathLike[str], events: Sequence[Event], bytes_alive: Sequence[tuple[int, int]] = ()
) -> None:
    """Write events, in the order in which they began, and the bytes alive over time; `.gz` compresses the file."""
    shown = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "traceName": os.fspath(path),
        "traceEvents": list(list_trace_rows(events, bytes_alive)),
    }
    opened = gzip.open if os.fspath(path).endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        json.dump(shown, file, ensure_ascii=False, allow_nan=False)


def list_trace_rows(events: Sequence[Event], bytes_alive: Sequence[tuple[int, int]] = ()) -> Iterator[TraceRow]:
    """Yield the rows of the file: names of the process and its threads, then all else in the order of time."""
    process = os.getpid()
    start = min([event.start_ns for event in events] + [time for time, _ in bytes_alive], default=0)
    threads = sorted({_thread_of(event) for event in events})
    free = iter(range(max((thread for thread, _ in threads), default=0) + 1, sys.maxsize))  # for those that run kernels
    numbers = {(thread, worker): next(free) if worker else thread for thread, worker in threads}
    yield _metadata("process_name", process, 0, name=os.path.basename(sys.argv[0]) or "python")
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    for order, ((thread, worker), number) in enumerate(numbers.items()):
        name = f"kernels, thread {worker}" if worker else names.get(thread, f"thread {thread}")
        yield _metadata("thread_name", process, number, name=name)
        yield _metadata("thread_sort_index", process, number, sort_index=order)
    rows = []
    for event in events:
        row = _complete_row(event, process, numbers[_thread_of(event)], start)
        rows.append(row)
    rows += list(_flow_rows(events, rows))
    rows += [
        {"name": "bytes alive", "ph": "C", "ts": (time - start) / 1000, "pid": process, "tid": 0, "args": {"bytes": n}}
        for time, n in bytes_alive
    ]
    yield from sorted(rows, key=lambda row: row["ts"])  # stable: of those that begin at once the outer one is first


def _complete_row(event: Event, process: int, thread: int, start: int) -> TraceRow:
    args: dict[str, object] = {}
    span, site = event.span, event.site
    if site is not None:
        args.update(line=str(site), code=read_source_line(site), function=site.function)
    if event.input_shapes:
        args["Input Dims"] = event.input_shapes
    if span is not None:
        args.update(span.facts)
        if span.sequence_nr is not None:
            args["Sequence number"] = span.sequence_nr
    return {
        "name": event.key,
        "cat": "user_annotation" if span is None else CATEGORIES.get(span.kind, span.kind),
        "ph": "X",
        "ts": (event.start_ns - start) / 1000,
        "dur": event.taken / 1000,
        "pid": process,
        "tid": thread,
        "args": args,
    }


def _flow_rows(events: Sequence[Event], rows: Sequence[TraceRow]) -> Iterator[TraceRow]:
    """Yield the two ends of the flow from each op, or compiled step, to the backward node that it recorded."""
    forward: dict[int, TraceRow] = {}
    for event, row in zip(events, rows, strict=True):
        span = event.span
        if span is None or span.sequence_nr is None:
            continue
        if span.kind != "backward":
            forward[span.sequence_nr] = row  # the last: an op around others that records their node
        elif (begin := forward.get(span.sequence_nr)) is not None:
            same = {"name": FLOW, "cat": FLOW, "id": span.sequence_nr}
            yield {**same, "ph": "s", **{key: begin[key] for key in ("ts", "pid", "tid")}}
            yield {**same, "ph": "f", "bp": "e", **{key: row[key] for key in ("ts", "pid", "tid")}}


def _metadata(what: str, process: int, thread: int, **args: object) -> TraceRow:
    return {"name": what, "ph": "M", "ts": 0, "pid": process, "tid": thread, "args": args}


def _thread_of(event: Event) -> tuple[int, int]:
    return event.thread, 0 if event.span is None else event.span.worker

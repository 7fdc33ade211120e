"""The trace file: valid in the Trace Event Format, rows in order, names of threads, nesting, flows, curves."""

from __future__ import annotations

import gzip
import json
import os
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.core.op.op_timer import TimedSpan
from adjoint.utils.profile_events import Event
from adjoint.utils.trace_file import write_trace

REQUIRED = {  # by phase: fields, and the types of their values
    "X": {"name": str, "cat": str, "ts": float, "dur": float, "pid": int, "tid": int, "args": dict},
    "M": {"name": str, "ts": int, "pid": int, "tid": int, "args": dict},
    "C": {"name": str, "ts": float, "pid": int, "tid": int, "args": dict},
    "s": {"name": str, "cat": str, "id": int, "ts": float, "pid": int, "tid": int},
    "f": {"name": str, "cat": str, "id": int, "ts": float, "pid": int, "tid": int, "bp": str},
}
METADATA = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}


def refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def read_trace(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, after checking all that the format asks for."""
    content = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse_constant)
    assert content["displayTimeUnit"] in ("ms", "ns")
    rows: list[dict[str, Any]] = content["traceEvents"]
    for row in rows:
        fields = REQUIRED[row["ph"]]
        assert row.keys() == fields.keys() | {"ph"}, row
        assert all(isinstance(row[name], kind) for name, kind in fields.items()), row
        assert row["ts"] >= 0
        assert row.get("dur", 0) >= 0
    metadata, shown = [r for r in rows if r["ph"] == "M"], [r for r in rows if r["ph"] != "M"]
    assert rows == [*metadata, *shown], "names come first"
    assert [r["ts"] for r in shown] == sorted(r["ts"] for r in shown)
    assert {r["pid"] for r in rows} == {os.getpid()}
    assert all(METADATA[r["name"]] in r["args"] for r in metadata)
    named = [r["tid"] for r in metadata if r["name"] == "thread_name"]
    assert len(named) == len(set(named))
    assert {r["tid"] for r in shown if r["ph"] == "X"} == set(named)
    for thread in named:
        check_nesting([r for r in shown if r["ph"] == "X" and r["tid"] == thread])
    check_flows(shown)
    return rows


def check_nesting(slices: list[dict[str, Any]]) -> None:
    """Each slice ends before the one around it: a viewer draws them below one another."""
    stack: list[float] = []
    for row in slices:
        begin, end = row["ts"], row["ts"] + row["dur"]
        while stack and stack[-1] <= begin + 1e-6:
            stack.pop()
        assert not stack or end <= stack[-1] + 1e-6, row
        stack.append(end)


def check_flows(rows: list[dict[str, Any]]) -> None:
    """Each flow begins once, at the beginning of a slice, and ends later, in another."""
    begins, ends = ({r["id"]: r for r in rows if r["ph"] == phase} for phase in "sf")
    assert begins.keys() == ends.keys()
    assert len(begins) == sum(r["ph"] == "s" for r in rows)
    starts = {(r["tid"], r["ts"]) for r in rows if r["ph"] == "X"}
    for number, begin in begins.items():
        end = ends[number]
        assert {(begin["tid"], begin["ts"]), (end["tid"], end["ts"])} <= starts
        assert begin["ts"] <= end["ts"]
        assert begin["name"] == end["name"]


def train(model: nn.Module, optimizer: optim.Optimizer, x: ad.Tensor) -> ad.Tensor:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def test_an_eager_step(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    profile = ad.profiler.profile(record_shapes=True, profile_memory=True)
    with profile, ad.profiler.record_function("the step"):
        train(model, optimizer, ad.ones(2, 4))
    profile.export_chrome_trace(tmp_path / "trace.json")
    rows = read_trace(tmp_path / "trace.json")
    slices = [row for row in rows if row["ph"] == "X"]
    names = [row["name"] for row in slices]
    assert names[0] == "the step"
    assert "Optimizer.step#SGD.step" in names
    linear, backward = (next(row for row in slices if row["name"] == name) for name in ("linear", "AddmmBackward0"))
    assert linear["args"]["Input Dims"] == [[2, 4], [8, 4], [8]]
    assert linear["args"]["line"] == f"{__file__}:{train.__code__.co_firstlineno + 2}"
    assert linear["args"]["code"] == backward["args"]["code"] == "loss = model(x).square().mean()"
    flows = [row for row in rows if row["ph"] == "f"]
    assert len(flows) == sum(name.endswith("Backward0") for name in names) == 5
    curve = [row["args"]["bytes"] for row in rows if row["ph"] == "C"]
    assert curve[0] == 2 * 8 * 4
    assert all(n >= 0 for n in curve)
    assert any(b < a for a, b in pairwise(curve)), "memory is freed, too"


def test_compiled_steps(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = optim.Adam(model.parameters())
    step, forward = ad.compile(train), ad.compile(model)
    x = ad.ones(256, 64)
    step(model, optimizer, x)
    with ad.profiler.profile() as profile:
        step(model, optimizer, x)
        forward(x).sum().backward()  # compiled in this call
        forward(x).sum().backward()
    profile.export_chrome_trace(tmp_path / "trace.json")
    rows = read_trace(tmp_path / "trace.json")
    steps = [row for row in rows if row.get("cat") == "compiled_step"]
    assert [row["name"] for row in steps] == ["train", "Sequential", "Sequential"]
    assert [row["args"].get("compiled in this call") for row in steps] == [None, True, None]
    kernels = [row for row in rows if row.get("cat") == "kernel"]
    assert {row["args"]["code"] for row in kernels} >= {"loss = model(x).square().mean()"}
    assert {row["args"]["entry"] for row in kernels if row["ts"] < steps[1]["ts"]} == set(range(len(step.kernels)))
    assert all(row["args"]["tiles"] >= 1 and row["args"]["begins here because"] for row in kernels)
    node = [row for row in rows if row["name"] == "CompiledBackward"]
    assert len(node) == 2
    within = [k for k in kernels if node[1]["ts"] <= k["ts"] <= node[1]["ts"] + node[1]["dur"]]
    assert within, "the kernels of the backward half lie in its node"
    assert {row["id"] for row in rows if row["ph"] == "s"} >= {row["args"]["Sequence number"] for row in steps[1:]}


def test_threads_have_rows_and_names(tmp_path: Path) -> None:
    def work() -> None:
        with ad.profiler.record_function("elsewhere"):
            pass

    with ad.profiler.profile() as profile:
        thread = threading.Thread(target=work, name="the other one")
        thread.start()
        thread.join()
        ad.ones(2) + 1.0
    span = TimedSpan("kernel", "kernel", 0, 5, worker=1)
    profile.record(Event("kernel", 0, 5, thread=threading.get_native_id(), span=span))
    events = [*profile.events(), Event("kernel", 0, 5, thread=threading.get_native_id(), span=span)]
    write_trace(tmp_path / "trace.json", events)
    rows = read_trace(tmp_path / "trace.json")
    names = {row["args"]["name"] for row in rows if row["name"] == "thread_name"}
    assert {threading.current_thread().name, "kernels, thread 1"} <= names
    assert len({row["tid"] for row in rows if row["ph"] == "X"}) == 3


def test_an_empty_trace_and_a_compressed_one(tmp_path: Path) -> None:
    with ad.profiler.profile() as profile:
        pass
    profile.export_chrome_trace(str(tmp_path / "empty.json"))
    assert [row["name"] for row in read_trace(tmp_path / "empty.json")] == ["process_name"]
    profile.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]

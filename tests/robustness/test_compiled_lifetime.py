"""A compiled function's life: what stays when it is dropped, after a fork, and when the user presses Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("llvmlite")
import adjoint as ad
from adjoint import nn, optim
from adjoint.compiler.llvm.jit import engine

NIGHTLY = os.environ.get("ADJOINT_NIGHTLY") == "1"
MOST = 20.0  # KB that a function may leave behind
posix = pytest.mark.skipif(os.name != "posix", reason="fork and signals are POSIX's")

STEP = """
import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

def training(factor):
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    @ad.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x) * factor, y)
        loss.backward()
        optimizer.step()
        return loss
    return step

x, y = ad.randn(6, 5), ad.randint(0, 3, (6,))
"""

GROWTH = (
    STEP
    + """
import gc, os, statistics, sys
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
sizes = []
for window in range(5):
    for i in range(int(sys.argv[1])):
        step = training(2.0 + window + i / 1000)  # kernels of its own
        step(x, y), step(x, y), step(x[:3], y[:3])
        model = ad.compile(nn.Linear(5, 3))
        model(x).sum().backward()
        del step, model
        gc.collect()
    sizes.append(resident() / 1024)
# The first window warms up. One in which an allocator takes a megabyte for later is not the rule.
print(statistics.median((b - a) / int(sys.argv[1]) for a, b in zip(sizes, sizes[1:])))
"""
)

FORK = (
    STEP
    + """
import os, signal
step = training(2.0)
step(x, y)
child = os.fork()
if child == 0:
    signal.alarm(60)
    losses = [step(x, y).item() for _ in range(3)]
    fresh = training(3.0)
    fresh(x, y), fresh(x, y)
    print(*losses, flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
print(*[step(x, y).item() for _ in range(3)])
"""
)

INTERRUPTED = """
import signal, sys
import adjoint as ad

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background tasks are started without it

counts, other = ad.zeros(4), ad.zeros(2, 3)
numbers = ad.arange(100_000.0)

@ad.compile
def step(x):
    counts.add_(1.0)
    other.add_(1.0)
    return (x.sin() * x.cos()).exp().sum()

right = step(numbers).item()
for press in range(int(sys.argv[1])):
    try:
        print("press", flush=True)
        while True:
            assert step(numbers).item() == right
    except KeyboardInterrupt:
        pass
    (count,), (same,) = set(counts.tolist()), set(other.reshape(6).tolist())
    assert count == same > 0, (count, same)
    assert step(numbers).item() == right
print("done", flush=True)
"""


class Held:
    """What a step reads and writes outside of itself."""

    def __init__(self) -> None:
        self.count, self.word, self.sum, self.log = 0, "a", ad.zeros(5), []


def make_forward() -> Callable[[Any], Any]:
    return ad.compile(lambda x: (x * 2.0).exp() + 1)


def make_training() -> Callable[[Any], Any]:
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 3))
    optimizer = optim.Adam(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    return ad.compile(step)


def make_backward_outside() -> Callable[[Any], Any]:
    model = ad.compile(nn.Linear(5, 3))

    def call(x: Any) -> None:
        y = model(x)
        y.sum().backward()
        model(x)  # without backward

    return call


def make_several_results() -> Callable[[Any], Any]:
    w = nn.Parameter(ad.ones(5))
    step = ad.compile(lambda x: (w * x, (w + x).sum()))
    return lambda x: step(x)[1].backward()


def make_python_state() -> Callable[[Any], Any]:
    held = Held()

    def step(x: Any) -> Any:
        held.count += 1
        held.sum = held.sum + x
        held.log.append(held.sum)
        return held.sum * held.count

    return ad.compile(step)


def make_recompilations() -> Callable[[Any], Any]:
    held = Held()
    step = ad.compile(lambda x: x * len(held.word))

    def call(x: Any) -> None:
        for i in range(2):
            held.word = "a" * (i + 1)
            step(x)

    return call


def make_hooks() -> Callable[[Any], Any]:
    w, scale = nn.Parameter(ad.ones(5)), ad.ones(5)
    w.register_hook(lambda g: g * scale)

    def step(x: Any) -> Any:
        w.grad = None
        y = w * x
        y.register_hook(lambda g: g * scale)
        y.sum().backward()
        return w.grad

    return ad.compile(step)


def make_replaced_state() -> Callable[[Any], Any]:
    held = Held()
    step = ad.compile(lambda x: (held.sum * x).sum())

    def call(x: Any) -> None:
        held.sum = ad.ones(5)
        step(x)

    return call


MAKERS = [
    make_forward, make_training, make_backward_outside, make_several_results, make_python_state, make_recompilations,
    make_hooks, make_replaced_state,
]  # fmt: skip


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "ADJOINT_NO_CACHE": "1"}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> list[str]:
    out, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint
    return out.splitlines()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's account of resident memory")
def test_a_dropped_function_leaves_little_memory() -> None:
    (growth,) = said(start(GROWTH, 200 if NIGHTLY else 7))
    kept = float(growth)
    assert kept < MOST, f"each compiled function that was dropped and collected left {kept:.1f} KB behind"


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_dropped_function_is_gone_at_once(make: Callable[[], Callable[[Any], Any]]) -> None:
    """Nothing of it is a cycle, which would stay, with its code and arena, until the collector walks over all."""
    x = ad.ones(5)
    for _ in range(2):  # what the library keeps of the first is for the next
        call = make()
        for _ in range(4):
            call(x)
        del call
    gc.collect()
    gc.disable()
    try:
        before = len(engine._open)
        call = make()
        for _ in range(4):
            call(x)
        del call
        assert len(engine._open) == before
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_engines_close_with_their_programs() -> None:
    gc.collect()
    before = len(engine._open)
    steps = [ad.compile(lambda x: x * 2.0) for _ in range(3)]
    for step in steps:
        step(ad.ones(3))
        step(ad.ones(4))
    assert len(engine._open) >= before + 6
    del steps, step
    gc.collect()
    assert len(engine._open) <= before + 1  # the entry into native code has one, for good


@posix
def test_after_a_fork_both_processes_run_and_compile() -> None:
    child, parent = said(start(FORK))
    assert child == parent


@posix
def test_ctrl_c_arrives_every_time_and_between_steps() -> None:
    presses = 100 if NIGHTLY else 20
    process = start(INTERRUPTED, presses)
    watchdog = threading.Timer(300, process.kill)  # a press that gets lost would have this wait for ever
    watchdog.start()
    try:
        for i in range(presses):
            assert process.stdout.readline() == "press\n"
            time.sleep(0.001 * (i % 7))
            process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "done\n"
    finally:
        _, complaint = process.communicate(timeout=300)
        watchdog.cancel()
    assert process.returncode == 0, complaint

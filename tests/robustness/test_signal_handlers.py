"""Signal handlers that use the library, wherever it is when they come: each program runs in a process of its own."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import adjoint

pytestmark = pytest.mark.skipif(not hasattr(__import__("signal"), "setitimer"), reason="needs POSIX's timers")
SOURCE = Path(adjoint.__file__).parent

TIMER = """
import faulthandler, signal, sys
faulthandler.dump_traceback_later(250, exit=True)
SECONDS = {seconds}
errors, calls, timer = [], [0], [False]

def again():
    if timer[0]: signal.setitimer(signal.ITIMER_REAL, SECONDS)

def every(handle):
    def handler(number, frame):
        try:
            handle()
            calls[0] += 1
        except BaseException as error:
            errors.append(error)
        again()
    signal.signal(signal.SIGALRM, handler)
    timer[0] = True
    again()

def finish():
    timer[0] = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    if errors: raise errors[0]
    print(calls[0])
"""

IMPORTS = """
import adjoint as ad
every(lambda: ad.ones(3).sum())
x = ad.eye(4).add(1).requires_grad_()
with ad.no_grad():
    x.exp(), x.softmax(0), x.cumsum(0), x.sort(), x.logsumexp(0), x.trace(), x.det(), x.inverse(), x.unfold(0, 2, 1)
    ad.fft.fft(x), x.median(), x.kthvalue(1), x.cov(), x.renorm(2, 0, 1.0), x.addmm(x, x), ad.einsum("ij,jk->ik", x, x)
    ad.nn.functional.layer_norm(x, (4,)), ad.nn.functional.gelu(x), ad.optim.Adam([x]), ad.linalg.svd(x)
    ad.randn(300, 300).softmax(1), ad.nn.functional.conv2d(ad.ones(4, 8, 32, 32), ad.ones(8, 8, 3, 3))
finish()
"""

TRACES = """
import adjoint as ad, adjoint.nn.functional as F
from adjoint import nn, optim

class Box: pass
box, mine, x, y = Box(), ad.ones(4), ad.randn(8, 20), ad.randint(0, 3, (8,))

def training():
    model = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = optim.Adam(model.parameters())
    box.model, box.count, box.sum, box.log = model, 0, ad.zeros(3), []
    def step(x, y):
        box.count += 1
        box.sum = box.sum + 1
        box.log.append(box.sum)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return step

def handle():
    value = (mine * 2).sum().item()
    assert type(value) is float and value == 8.0
    assert type(box.count) is int and [type(v) for v in box.sum.tolist()] == [float] * 3, (box.count, box.sum)
    assert all(len(kept.tolist()) == 3 for kept in box.log)
    for p in box.model.parameters():
        p.tolist(), p.grad is None or p.grad.tolist()
    if ad.is_grad_enabled():
        leaf = ad.ones(3, requires_grad=True)
        (leaf * leaf).sum().backward()
        assert leaf.grad.tolist() == [2.0] * 3

step = training()
every(handle)
compilations = 0
for _ in range(8):
    step = ad.compile(training())
    for _ in range(4): step(x, y)
    assert box.count == 4 and [kept.tolist() for kept in box.log] == [[n] * 3 for n in range(1, 5)]
    assert isinstance(step.compilations, int)
    compilations += step.compilations
finish()
assert compilations >= 8, compilations
"""

CHANGES = """
import adjoint as ad

class Box: pass
box, w, v = Box(), ad.ones(3), ad.ones(3)
box.count, box.list = 0, []

def step(x):
    box.count += 1
    box.list.append(box.count)
    w.add_(1)
    y = x
    for _ in range(300): y = y + v * 0.001
    return y + w

def handle():
    if 0 < changes < 4: return
    w.data, v.data = ad.full((3,), 5.0), ad.ones(3)
    box.count += 100

changes = 0
every(handle)
for _ in range(8):
    compiled = ad.compile(step)
    before = calls[0]
    box.count, box.list[:] = 0, []
    changes = 1
    compiled(ad.ones(3))
    assert len(box.list) == 1
    changes = 0
    compiled(ad.ones(3)), compiled(ad.ones(3))
    assert len(box.list) == 3 and all(type(n) is int for n in box.list), box.list
    assert type(box.count) is int and type(w.tolist()[0]) is float
finish()
"""

NESTED = """
import adjoint as ad
from adjoint import nn, optim
model = nn.Linear(400, 400)
total, x = ad.zeros(400), ad.ones(8, 400)

@ad.compile
def forward(x):
    total.add_(1.0)
    return model(x).sin().sum()

@ad.compile
def other(x):
    total.add_(1.0)
    return (x * total).cumsum(0).sort().values.sum()

count = [0]
def handle():
    with ad.no_grad():
        forward(x), other(x)
    count[0] += 2
    forward(x[:3]) if count[0] % 6 == 0 else None
    count[0] += count[0] % 6 == 0

every(handle)
for _ in range(300):
    forward(x).backward()
    other(x)
timer[0] = False
finish()
"""

RAISES = """
import adjoint as ad

class Late(Exception): pass

def late(number, frame): raise Late

def step(x, n=2000):
    for _ in range(n): x = x + 1
    return x

signal.signal(signal.SIGALRM, late)
compiled = ad.compile(step)
ad.compile(lambda x: x + 1)(ad.ones(3))  # what the first trace imports
for _ in range(3):
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try: compiled(ad.ones(3))
    except Late: calls[0] += 1
assert compiled(ad.ones(3), 5).tolist() == [6.0] * 3
finish()
"""


def run(program: str, seconds: float) -> int:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", TIMER.replace("{seconds}", str(seconds)) + program]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return int(done.stdout.split()[-1])


def test_a_handler_finds_no_half_of_a_module() -> None:
    assert run(IMPORTS, 0.001) > 10


def test_a_handler_sees_a_trace_from_outside() -> None:
    pytest.importorskip("llvmlite")
    assert run(TRACES, 0.003) > 10


def test_what_a_handler_changes_during_a_trace_stays_changed() -> None:
    pytest.importorskip("llvmlite")
    assert run(CHANGES, 0.004) > 10


def test_what_a_handler_raises_during_a_trace_is_raised() -> None:
    pytest.importorskip("llvmlite")
    assert run(RAISES, 0.0) == 3


def test_a_handler_may_call_the_step_that_it_interrupted() -> None:
    pytest.importorskip("llvmlite")
    assert run(NESTED, 0.002) > 10


def test_a_handler_may_take_any_lock_of_the_thread_that_it_interrupted() -> None:
    plain = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        if "Lock" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "Lock"
    ]
    assert plain == [], "these locks are no RLock: a handler that wants one of its own thread waits for ever"

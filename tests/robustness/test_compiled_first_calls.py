"""The first calls of a step by several threads at once, in processes of their own: what is not safe there crashes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("llvmlite")

PROGRAM = """
import faulthandler, sys, threading
faulthandler.enable()
faulthandler.dump_traceback_later(250, exit=True)
sys.setswitchinterval(1e-5)
import adjoint as ad, adjoint.nn.functional as F
from adjoint import nn, optim

THREADS, CALLS = 4, 30
x, y = ad.ones(6, 5), ad.tensor([0, 1, 2, 0, 1, 2])
OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.01), "momentum": lambda p: optim.SGD(p, lr=0.01, momentum=0.9),
    "adam": lambda p: optim.Adam(p, lr=0.01),
}

def in_threads(work):
    errors, ready = [], threading.Barrier(THREADS)
    def run(number):
        try:
            ready.wait()
            work(number)
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    if errors: raise errors[0]

def training(name, to_none=True):
    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    optimizer = OPTIMIZERS[name](model.parameters())
    def step(x, y):
        optimizer.zero_grad(set_to_none=to_none)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return model, optimizer, step

def check_as_eager(model, name, calls, to_none=True):
    other, _, step = training(name, to_none)
    for _ in range(calls): step(x, y)
    for p, q in zip(model.parameters(), other.parameters()):
        assert ad.allclose(p, q, rtol=1e-4, atol=1e-5), (p, q)

def train(name, to_none):
    model, _, step = training(name, to_none)
    compiled = ad.compile(step)
    in_threads(lambda i: [compiled(x, y) for _ in range(CALLS)])
    check_as_eager(model, name, THREADS * CALLS, to_none)

def shapes():
    _, optimizer, step = training("adam")
    compiled = ad.compile(step)
    in_threads(lambda i: [compiled(x[:3 + i % 2], y[:3 + i % 2]) for _ in range(CALLS)])
    assert optimizer.state_dict()["state"][0]["step"].item() == THREADS * CALLS

def functions_of_one_model():
    model, _, step = training("adam")
    compiled, evaluate = ad.compile(step), ad.compile(lambda x: model(x).sum())
    @ad.compile
    @ad.no_grad()
    def norm():
        return ad.stack([p.square().sum() for p in model.parameters()]).sum()
    def work(number):
        for _ in range(CALLS):
            if number % 2: compiled(x, y)
            else: evaluate(x).item(), norm().item()
    in_threads(work)
    check_as_eager(model, "adam", THREADS // 2 * CALLS)

def python_state():
    class Box: pass
    box = Box()
    box.count, box.sum, box.log = 0, ad.zeros(3), []
    @ad.compile
    def step(x):
        box.count += 1
        box.sum = box.sum + x
        box.log.append(box.sum)
        return box.sum * box.count
    in_threads(lambda i: [step(ad.ones(3)) for _ in range(CALLS)])
    assert box.count == THREADS * CALLS
    assert [kept.tolist() for kept in box.log] == [[n] * 3 for n in range(1, THREADS * CALLS + 1)]

def backward_outside():
    w = nn.Parameter(ad.ones(4, 3))
    forward = ad.compile(lambda x: (x @ w).sin().sum())
    in_threads(lambda i: [forward(ad.ones(2, 4)).backward() for _ in range(CALLS)])
    (one,) = ad.autograd.grad((ad.ones(2, 4) @ w).sin().sum(), w)
    assert ad.allclose(w.grad, THREADS * CALLS * one, rtol=1e-4)

def gradients_kept():
    w, kept = nn.Parameter(ad.ones(4)), []
    @ad.compile
    def step(x):
        (w * x).sum().backward()
        return w.grad
    in_threads(lambda i: [kept.append(step(ad.ones(4))) for _ in range(CALLS)])
    assert w.grad.tolist() == [THREADS * CALLS] * 4

def draws():
    model = nn.Sequential(nn.Linear(5, 40), nn.Dropout(0.5))
    both = ad.compile(model), ad.compile(lambda x: F.dropout(x, 0.3))
    in_threads(lambda i: [f(x) for _ in range(CALLS) for f in both])

def functions_of_their_own():
    def work(number):
        for _ in range(3):
            _, _, step = training("sgd")
            compiled = ad.compile(step)
            for _ in range(4): compiled(x, y)
    in_threads(work)

SCENARIOS = [
    *((train, name, to_none) for name in OPTIMIZERS for to_none in (True, False)),
    (shapes,), (functions_of_one_model,), (python_state,), (backward_outside,), (gradients_kept,), (draws,),
    (functions_of_their_own,),
]
for scenario, *arguments in SCENARIOS:
    print(scenario.__name__, *arguments, flush=True)
    scenario(*arguments)
print("done")
"""


@pytest.mark.parametrize("process", [0, *(pytest.param(i, marks=pytest.mark.nightly) for i in range(1, 20))])
def test_threads_share_the_first_calls(process: int) -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    assert run.stdout.endswith("done\n")

"""Threads that share leaves, graphs and nothing else, and processes that fork in mid-training."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.scripts import output_of
from tests.support.threads import in_threads

import adjoint as ad

SOURCE = Path(ad.__file__).parents[1]
THREADS, ROUNDS = 8, 1000


@pytest.mark.claim("P25", "U18")
@pytest.mark.parametrize("size", [1, 16, 3000])
def test_a_shared_leaf(size: int) -> None:
    x = ad.ones(size, dtype=ad.float64, requires_grad=True)
    rounds = ROUNDS if size < 1000 else ROUNDS // 10

    def work(number: int) -> None:
        for _ in range(rounds):
            (x * x * float(number + 1)).sum().backward()

    in_threads(work)
    assert set(x.grad.tolist()) == {2.0 * rounds * sum(range(1, THREADS + 1))}


@pytest.mark.claim("P25", "U18")
def test_a_shared_graph() -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    trunk = x * x * 2.0

    def work(number: int) -> None:
        for i in range(ROUNDS):
            if i % 2:
                (trunk * float(number)).sum().backward(retain_graph=True)
            else:
                trunk.backward(ad.full((2,), float(number), dtype=ad.float64), retain_graph=True)

    in_threads(work)
    total = ROUNDS * sum(range(THREADS))
    assert x.grad.tolist() == [4.0 * total, 8.0 * total]


@pytest.mark.claim("P25", "U18")
def test_hooks_and_retained_gradients() -> None:
    x = ad.ones(2, dtype=ad.float64, requires_grad=True)
    calls: list[int] = []
    x.register_hook(lambda g: g * 2.0)
    x.register_post_accumulate_grad_hook(lambda t: calls.append(1))

    def work(_: int) -> None:
        for _ in range(ROUNDS // 4):
            y = x * 3.0
            y.retain_grad()
            y.sum().backward()
            assert y.grad.tolist() == [1.0, 1.0]

    in_threads(work)
    assert x.grad.tolist() == [6.0 * THREADS * ROUNDS / 4] * 2
    assert len(calls) == THREADS * ROUNDS // 4


@pytest.mark.claim("P25", "U18")
def test_modes_are_of_the_thread() -> None:
    x = ad.ones(2, requires_grad=True)
    modes = [ad.no_grad, ad.enable_grad, ad.inference_mode]

    def work(number: int) -> None:
        assert ad.is_grad_enabled()
        for i in range(ROUNDS):
            choice = (number + i) % 3
            with modes[choice]():
                y = x * 2.0
                assert y.requires_grad == (choice == 1)
                assert y.is_inference() == ad.is_inference_mode_enabled() == (choice == 2)
                with ad.set_grad_enabled(False):
                    assert not ad.is_grad_enabled()
            assert ad.is_grad_enabled()
            assert not ad.is_inference_mode_enabled()

    with ad.no_grad():  # of this thread alone
        in_threads(work)
        assert not ad.is_grad_enabled()
    in_threads(work)


@pytest.mark.claim("P25", "U18")
def test_writes_in_place_by_many() -> None:
    def work(number: int) -> None:
        x = ad.full((4,), float(number + 1), dtype=ad.float64, requires_grad=True)
        for _ in range(ROUNDS // 4):
            y = x * 1.0
            y[1:].mul_(y.detach()[:3])
            (g,) = ad.autograd.grad(y.sum(), x)
            assert g.tolist() == [1.0] + [number + 1.0] * 3

    in_threads(work)


TRAINING = """
import os, sys, threading
import adjoint as ad
from adjoint import nn, optim
ad.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = optim.Adam(model.parameters())
x = ad.randn(256, 8)
y = x.sum(1, keepdim=True)
def step(x, y):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss
{prepare}
for _ in range(3):
    step(x, y)
inside = {inside}
h = model(x)
loss = ((h - y) ** 2).mean()
def train():
    if inside:  # the graph made before the fork is walked after it
        loss.backward(retain_graph=True)
    return [step(x, y).item() for _ in range(5)] + [ad.randn(2).tolist()]
read, write = os.pipe()
child = os.fork()
if child == 0:
    status = 1
    try:
        os.write(write, repr(train()).encode())
        status = 0
    finally:
        os._exit(status)
mine = repr(train())
_, status = os.waitpid(child, 0)
assert status == 0, status
os.close(write)
assert os.fdopen(read).read() == mine
print("same")
"""


@pytest.mark.claim("P26")
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    "prepare",
    [
        "",
        "step = ad.compile(step)",
        "t = threading.Thread(target=lambda: [step(x, y) for _ in range(3)]); t.start(); t.join()",
        "x @ x.t()",
    ],
    ids=["eager", "compiled", "after a thread", "after a large product"],
)
def test_parent_and_child_train_on(prepare: str, inside: bool) -> None:
    assert output_of(TRAINING.format(prepare=prepare, inside=inside)) == "same"


@pytest.mark.claim("P26")
def test_fork_in_a_hook() -> None:
    """In the midst of backward: both walk on."""
    program = """
import os
import adjoint as ad
x = ad.ones(3, requires_grad=True)
y = (x * 2.0).exp()
child = None
def fork(g):
    global child
    child = os.fork()
y.register_hook(fork)
with ad.autograd.set_multithreading_enabled(True):
    y.sum().backward()
ok = (x.grad - 2 * y.detach()).abs().max().item() < 1e-6 and ad.is_grad_enabled()
(x * x).sum().backward()
if child == 0:
    os._exit(0 if ok else 1)
assert ok and os.waitpid(child, 0)[1] == 0
print("same")
"""
    assert output_of(program) == "same"


@pytest.mark.claim("P26")
def test_the_collected_numbers_do_not_depend_on_the_fork() -> None:
    program = """
import os, numpy as np
import adjoint as ad
w = ad.ones(400, 400, requires_grad=True)
before = (w @ w).sum().item()
child = os.fork()
if child == 0:
    os._exit(0 if (w @ w).sum().item() == before else 1)
assert os.waitpid(child, 0)[1] == 0
print("same")
"""
    assert output_of(program) == "same"

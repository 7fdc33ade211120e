"""Graphs are walked and freed without recursion, and leave nothing behind."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.threads import SMALL_STACK_BYTES, in_another_thread

import adjoint as ad
from adjoint.autograd import Function, backward_steps, dependencies, grad


def chain(depth: int, start: Any) -> Any:
    y = start
    for _ in range(depth):
        y = y + 1.0
    return y


def use(depth: int) -> None:
    """Forward, every way to walk it, and freeing."""
    x = ad.tensor([1.0], requires_grad=True)
    h = x * 2.0
    y = chain(depth, h)
    assert len(dependencies(y)) == depth + 1
    (gh,) = grad(y, h, retain_graph=True)
    (gx,) = grad(y, x, create_graph=True)
    y.backward()
    assert (gh.item(), gx.item(), x.grad.item()) == (1.0, 2.0, 2.0)
    del y


def test_deep_chain() -> None:
    use(200_000)


@pytest.mark.nightly
def test_very_deep_chain() -> None:
    use(1_000_000)


def test_deep_chain_on_a_small_stack() -> None:
    in_another_thread(lambda: use(50_000), SMALL_STACK_BYTES)


def test_deep_ladder_of_diamonds() -> None:
    def work() -> None:
        x = ad.tensor([1.0], requires_grad=True)
        y = x * 1.0
        for _ in range(20_000):
            y = (y + y) * 0.5
        y.backward()
        assert x.grad.item() == 1.0
        y = None

    in_another_thread(work, SMALL_STACK_BYTES)


def test_deep_chain_dropped_without_backward() -> None:
    def work() -> None:
        chain(50_000, ad.tensor([1.0], requires_grad=True) * 2.0).detach_()

    in_another_thread(work, SMALL_STACK_BYTES)


class Doubled(Function):
    """Keeps all that can be kept: input, output, and both as attributes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.x, ctx.y = x, y
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        assert ctx.y.node is y.node
        assert ctx.x is not None
        return g * y / x


class Parts(Function):
    """Two outputs, both kept."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        a, b = x * 2, x * 3
        ctx.a = a
        ctx.save_for_backward(a, b)
        return a, b

    @staticmethod
    def backward(ctx: Any, ga: Any, gb: Any) -> Any:
        a, b = ctx.saved_tensors
        return ga * a / ctx.a * 2 + gb * b / b * 3


def test_deep_chain_of_functions() -> None:
    def work() -> None:
        x = ad.tensor([1.0], requires_grad=True)
        y = x
        for _ in range(5_000):
            y = Parts.apply(Doubled.apply(y))[0] * 0.25
        y.backward()
        assert x.grad.item() == 1.0

    in_another_thread(work, SMALL_STACK_BYTES)


def model() -> tuple[list[Any], Callable[[], Any]]:
    noise = np.random.default_rng(0)
    w1 = ad.tensor(noise.standard_normal((4, 8)), requires_grad=True)
    w2 = ad.tensor(noise.standard_normal((8, 2)), requires_grad=True)
    x = ad.tensor(noise.standard_normal((3, 4)))
    return [w1, w2], lambda: (ad.tanh(x @ w1) @ w2).sum()


def train() -> Iterator[None]:
    parameters, loss = model()
    while True:
        loss().backward()
        with ad.no_grad():
            for p in parameters:
                p.sub_(p.grad * 1e-3)
                p.grad = None
        yield


def train_twice_differentiated() -> Iterator[None]:
    parameters, loss = model()
    while True:
        gradients = grad(loss(), parameters, create_graph=True)
        sum((g * g).sum() for g in gradients).backward()
        for p in parameters:
            p.grad = None
        yield


def train_with_hooks() -> Iterator[None]:
    parameters, loss = model()
    parameters[0].register_hook(lambda g: g * 0.5)
    while True:
        h = parameters[0] * 1.0
        h.register_hook(lambda g, h=h: g * h.detach())  # sees its own tensor
        h.grad_fn.register_hook(lambda gi, go: None)
        h.retain_grad()
        (loss() + h.sum()).backward()
        del h
        yield


def train_with_functions() -> Iterator[None]:
    parameters, loss = model()
    while True:
        a, b = Parts.apply(Doubled.apply(parameters[0]))
        y = loss() + a.sum() + (b * b).sum()
        y.backward(create_graph=True)
        for p in parameters:
            p.grad = None
        Doubled.apply(parameters[0])  # never differentiated
        yield


def train_step_by_step() -> Iterator[None]:
    _, loss = model()
    while True:
        for _ in backward_steps(loss()):
            pass
        next(backward_steps(loss()))
        yield


def train_with_errors() -> Iterator[None]:
    parameters, loss = model()

    def fail(g: Any) -> None:
        raise KeyError

    while True:
        y = loss()
        handle = parameters[0].register_hook(fail)
        with pytest.raises(KeyError):
            y.backward()
        handle.remove()
        del y
        yield


LOOPS = {
    "backward": (train, 3_000),
    "create_graph": (train_twice_differentiated, 1_000),
    "functions": (train_with_functions, 1_000),
    "steps": (train_step_by_step, 1_000),
}


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("loop", "steps"), LOOPS.values(), ids=LOOPS.keys())
def test_nothing_is_left_without_the_collector(loop: Callable[[], Iterator[None]], steps: int) -> None:
    run = loop()
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            next(run)
        objects = len(gc.get_objects())
        for _ in range(200):
            next(run)
        assert len(gc.get_objects()) - objects < 50
        gc.collect()
        tracemalloc.start()
        next(run)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            next(run)
        assert gc.collect() == 0  # no cycles; and the interpreter's lists of freed tuples are emptied
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
        tracemalloc.stop()
        for _ in range(steps - 451):
            next(run)
        assert len(gc.get_objects()) - objects < 50
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("loop", [train_with_hooks, train_with_errors])
def test_nothing_is_left_after_a_collection(loop: Callable[[], Iterator[None]]) -> None:
    # A hook that refers to its own tensor, and a traceback, are cycles of the user's making.
    run = loop()
    for _ in range(20):
        next(run)
    gc.collect()
    objects = len(gc.get_objects())
    for _ in range(200):
        next(run)
    gc.collect()
    assert len(gc.get_objects()) - objects < 50


@pytest.mark.claim("2.11")
def test_values_are_freed_as_the_walk_goes() -> None:
    n, depth = 100_000, 50
    x = ad.ones(n, requires_grad=True)
    ad.sin(x).sum().backward()  # the first pass of a process also loads modules
    y = x
    for _ in range(depth):
        y = ad.sin(y)
    loss = y.sum()
    del y
    tracemalloc.start()
    loss.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * x.array.nbytes  # and not fifty gradients

"""With the collector off, 10,000 steps leave nothing behind, whatever refers to what."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.autograd import Function


class Everything(Function):
    """Its ctx keeps what can be kept: input, output, and the ctx itself is kept by nobody."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.input, ctx.output, ctx.list = x, y, [x]
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, y = ctx.saved_tensors
        assert ctx.input is not None
        return grads[0] * y / x


def leaf() -> Any:
    return ad.ones(8, requires_grad=True)


def plain(x: Any) -> None:
    (x.exp() * x).sum().backward()


def no_backward(x: Any) -> None:
    (x.exp() * x).sum()


def create_graph(x: Any) -> None:
    (g,) = ad.autograd.grad((x**3).sum(), x, create_graph=True)
    (g * g).sum().backward()


def create_graph_dropped(x: Any) -> None:
    ad.autograd.grad((x**3).sum(), x, create_graph=True)


def backward_create_graph(x: Any) -> None:
    (x**3).sum().backward(create_graph=True)
    x.grad = None  # refers to the graph


def ctx_attributes(x: Any) -> None:
    y = Everything.apply(Everything.apply(x))
    y.sum().backward()


def ctx_without_backward(x: Any) -> None:
    Everything.apply(Everything.apply(x))


def hooks(x: Any) -> None:
    y = x * 2.0
    y.register_hook(lambda g: g * 0.5)
    y.grad_fn.register_hook(lambda gi, go: None)
    y.grad_fn.register_prehook(lambda go: None)
    y.retain_grad()
    y.sum().backward()


def hook_closures(x: Any) -> None:
    scale = x.detach() * 3.0
    y = x * 2.0
    handle = y.register_hook(lambda g: g * scale)
    leafs = x.register_hook(lambda g: g * scale)
    (y * y).sum().backward()
    handle.remove()
    leafs.remove()


def removed_hooks_on_a_leaf(x: Any) -> None:
    x.register_post_accumulate_grad_hook(lambda t: None).remove()
    x.register_hook(lambda g: None).remove()
    plain(x)


def views_written(x: Any) -> None:
    y = x * 1.0
    y[2:].mul_(2.0)
    y[0] = 3.0
    view = y[1:5].reshape(2, 2)
    y.add_(1.0)
    (view * view).sum().backward()


def given_to_numpy(x: Any) -> None:
    y = x.exp()
    array = y.detach().numpy()
    (ad.from_numpy(array.copy()) * y).sum().backward()


def saved_hooks(x: Any) -> None:
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True).copy(), ad.from_numpy):
        y = (x.exp() * x).sum()
    y.backward()


def errors(x: Any) -> None:
    y = x * x
    y.sum().backward()
    try:
        y.sum().backward()
    except RuntimeError as error:
        error.__traceback__ = None
    else:
        raise AssertionError("no error")


LOOPS: list[Callable[[Any], None]] = [
    plain, no_backward, create_graph, create_graph_dropped, backward_create_graph, ctx_attributes, ctx_without_backward,
    hooks, hook_closures, removed_hooks_on_a_leaf, views_written, given_to_numpy, saved_hooks, errors,
]  # fmt: skip


def training() -> Callable[[], None]:
    """A step of a model with hooks of all kinds."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.Adam(model.parameters())
    model[0].register_forward_hook(lambda m, a, out: None)
    model[0].register_full_backward_hook(lambda m, gi, go: None)
    x = ad.ones(3, 4, requires_grad=True)

    def step() -> None:
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()

    return step


def leaked(step: Callable[[], Any], steps: int) -> int:
    """Bytes that so many steps leave each time, while nobody collects; a table that is made anew larger is no leak."""
    step()  # what it loads is not made of its own
    gc.collect()
    gc.disable()
    try:
        for _ in range(700):  # enough for tables that other tests have filled to be made anew before we count
            step()
        tracemalloc.start()  # which makes steps several times slower
        gc.collect()  # empties Python's lists of freed tuples too
        held = [tracemalloc.get_traced_memory()[0]]
        for _ in range(5):
            for _ in range(steps):
                step()
            assert gc.collect() == 0  # there are no cycles
            held.append(tracemalloc.get_traced_memory()[0])
        return min(after - before for before, after in pairwise(held))
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.claim("P23")
@pytest.mark.sweep(3)
@pytest.mark.parametrize("steps", [150, pytest.param(10_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_nothing_is_left(loop: Callable[[Any], None], steps: int) -> None:
    x = leaf()
    assert leaked(lambda: loop(x), steps) < 8 * min(steps, 500)  # eight bytes for each step would be a leak


@pytest.mark.claim("P23")
@pytest.mark.parametrize("steps", [150, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_training_leaves_nothing(steps: int) -> None:
    assert leaked(training(), steps) < 8 * min(steps, 500)


@pytest.mark.claim("P23")
def test_a_hook_that_holds_its_own_tensor() -> None:
    """A cycle of the user's making; backward, or the collector, ends it."""
    x = leaf()

    def step() -> None:
        y = x * 2.0
        y.register_hook(lambda g, y=y: g * y.detach())
        y.sum().backward()

    for _ in range(20):
        step()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        step()
    gc.collect()
    assert len(gc.get_objects()) - before < 50

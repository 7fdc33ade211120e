"""Hooks where `backward(inputs=)` or `grad` name the places whose gradients are wanted."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from tests.support.threads import in_threads

import adjoint as ad

torch = pytest.importorskip("torch")


def hooked(lib: Any, log: list[Any]) -> tuple[Any, Any]:
    """A leaf and what was cloned from it, with hooks on both and on the nodes of both."""
    x = lib.tensor(1.0, requires_grad=True)
    y = x.clone()
    below = y.grad_fn.next_functions[0][0]
    y.register_hook(lambda g: log.append("y") or g * 3)
    y.grad_fn.register_prehook(lambda gs: log.append("before clone") or tuple(g * 2 for g in gs))
    y.grad_fn.register_hook(lambda gi, go: log.append(("after clone", gi[0] is None)))
    x.register_hook(lambda g: log.append("x") or g * 5)
    below.register_prehook(lambda gs: log.append("before leaf") or tuple(g * 7 for g in gs))
    below.register_hook(lambda gi, go: log.append("after leaf"))
    return x, y


PROGRAMS = [
    "y.exp().backward()", "y.exp().backward(inputs=(x,))", "y.exp().backward(inputs=(y,))",
    "y.exp().backward(inputs=(x, y))", "lib.autograd.grad(y.exp(), x)", "lib.autograd.grad(y.exp(), y)",
    "y.backward(inputs=(y,))", "(y.retain_grad(), y.exp().backward())",
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_which_run_and_what_they_change(program: str) -> None:
    found = []
    for lib in (ad, torch):
        log: list[Any] = []
        x, y = hooked(lib, log)
        returned = eval(program, {"lib": lib, "x": x, "y": y})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # y is no leaf
            gradients = [x.grad, y.grad, *(returned or ())]
        found.append((log, [None if g is None else g.item() for g in gradients]))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1])


def test_those_of_a_leaf_run_as_soon_as_its_gradient_is_there() -> None:
    orders = []
    for lib in (ad, torch):
        log: list[str] = []
        x, y = (lib.ones(2, requires_grad=True) for _ in "xy")
        inner = x.exp()
        inner.register_hook(lambda g, log=log: log.append("inner"))
        x.register_hook(lambda g, log=log: log.append("x"))
        y.register_hook(lambda g, log=log: log.append("y"))
        (inner * y).sum().backward(inputs=(x, y), retain_graph=True)
        lib.autograd.grad((inner * y).sum(), (x, y))
        orders.append(log)
    assert orders[0] == orders[1] == ["y", "inner", "x"] * 2


@pytest.mark.needs_threads
def test_the_first_of_several_is_seen_in_passes_that_fail_later_too() -> None:
    seen: list[int] = []
    failed: list[Exception] = []
    turns = iter(range(5))

    class FailsOnce(ad.autograd.Function):
        """The identity, whose first backward raises."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if next(turns) == 0:
                raise RuntimeError("the first time")
            return g

    x, y = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
    ad.autograd.graph.register_multi_grad_hook((x, y), lambda g: seen.append(1), mode="any")
    out = (FailsOnce.apply(x) * y).sum()

    def run() -> None:
        try:
            out.backward(inputs=(x, y), retain_graph=True)
        except RuntimeError as error:
            failed.append(error)

    in_threads(lambda _: run(), 5)
    assert (len(seen), len(failed)) == (5, 1)
    assert x.grad.tolist() == [4.0, 4.0]

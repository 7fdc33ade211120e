"""Leaves that a compiled step makes and returns: gradients of any order outside of it are those of the eager step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

pytest.importorskip("llvmlite")

MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "clone": lambda x, w: x.clone().requires_grad_(),
    "detach": lambda x, w: x.detach().requires_grad_(),
    "parameter": lambda x, w: nn.Parameter(x * 2),
    "of a parameter": lambda x, w: (w * x).detach().requires_grad_(),
    "of a view": lambda x, w: x.view(1, 3)[0].clone().requires_grad_(),
    "linspace": lambda x, w: ad.linspace(0.5, 2, 3, requires_grad=True),
    "tensor": lambda x, w: ad.tensor([1.0, 2.0, 0.5], requires_grad=True),
    "captured": lambda x, w: (CAPTURED * 1.5).requires_grad_(),
}  # fmt: skip
CAPTURED = ad.tensor([0.5, 1.5, 2.5])
USES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cube": lambda leaf, x, w: (leaf**3).sum(),
    "with a parameter": lambda leaf, x, w: (leaf**3 * w**2).sum(),
    "beside what it was made of": lambda leaf, x, w: (leaf**2 * x + (x * w) ** 2 * leaf.exp()).sum(),
    "as what it was made of": lambda leaf, x, w: (leaf * (w * x) * (x * 2) * CAPTURED).square().sum(),
    "a net": lambda leaf, x, w: ((leaf.outer(w)).tanh().sum(1) * leaf).sum(),
    "not at all": lambda leaf, x, w: (x * w**3).sum(),
}
ORDERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "first": lambda y, leaf, w: ad.autograd.grad(y, [leaf, w], allow_unused=True),
    "second": lambda y, leaf, w: second(y, leaf, [leaf, w]),
    "of the parameter": lambda y, leaf, w: second(y, w, [leaf, w]),
    "third": lambda y, leaf, w: third(y, leaf),
    "backward": lambda y, leaf, w: penalty(y, leaf, w),
}


def grad(y: Any, x: Any) -> Any:
    (g,) = ad.autograd.grad(y, x, create_graph=True, allow_unused=True)
    return x * 0 if g is None else g


def second(y: Any, x: Any, by: list[Any]) -> Any:
    return ad.autograd.grad((grad(y, x) * x).sum() + y, by, allow_unused=True)


def third(y: Any, x: Any) -> Any:
    return grad(grad(grad(y, x).sum() + (x**2).sum(), x).sum() + (x**3).sum(), x)


def penalty(y: Any, x: Any, w: Any) -> Any:
    x.grad = w.grad = None
    (y + (grad(y, x) ** 2).sum()).backward()
    return x.grad, w.grad


@pytest.mark.sweep(4)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("maker", MAKERS)
def test_gradients_by_a_leaf_that_the_step_made(maker: str, use: str, order: str) -> None:
    def case(wrap: Callable[[Any], Any]) -> list[Any]:
        w, seen = ad.tensor([2.0, 1.0, 3.0], requires_grad=True), []

        def step(x: Any) -> Any:
            leaf = MAKERS[maker](x, w)
            return leaf, USES[use](leaf, x, w)

        run = wrap(step)
        for k in range(3):
            leaf, y = run(ad.tensor([0.5, 1.0, 1.5]) * (k + 1) / 2)
            found = ORDERS[order](y, leaf, w)
            parts = found if isinstance(found, tuple | list) else [found]
            seen += [None if g is None else g.tolist() for g in (*parts, leaf, y)]
        return seen

    compiled, eager = case(ad.compile), case(lambda step: step)
    for a, b in zip(compiled, eager, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("use", ["a second leaf", "detached", "without recording"])
def test_a_second_derivative_holds_constant_what_was_detached(use: str) -> None:
    def step(x: Any) -> Any:
        leaf = x.clone().requires_grad_()
        other = leaf.detach().requires_grad_(use == "a second leaf")
        if use == "without recording":
            with ad.no_grad():
                other = leaf * 1
        return leaf, (leaf**2 * other).sum()

    leaf, y = ad.compile(step)(ad.ones(3) * 2)
    (gradient,) = ad.autograd.grad(y, leaf, create_graph=True)
    assert gradient.tolist() == [8.0] * 3
    (second,) = ad.autograd.grad(gradient.sum(), leaf)
    assert second.tolist() == [4.0] * 3


def test_a_made_leaf_that_was_written_since_is_refused() -> None:
    @ad.compile
    def step(x: Any) -> Any:
        leaf = x.clone().requires_grad_()
        return leaf, (leaf**3).sum()

    leaf, y = step(ad.ones(3))
    with ad.no_grad():
        leaf.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        ad.autograd.grad(y, leaf, create_graph=True)

"""Deep graphs are walked, differentiated twice and freed in linear time, on a stack of 256 KB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.threads import SMALL_STACK_BYTES, in_another_thread

import adjoint as ad

pytestmark = pytest.mark.claim("P22")

DEPTHS = [200_000, pytest.param(1_000_000, marks=pytest.mark.nightly)]


def links(kind: str) -> tuple[int, Callable[[Any], Any]]:
    """How many nodes a link of the chain has, and the link: each has the derivative 1."""
    return {
        "sums": (1, lambda y: y + 1.0),
        "diamonds": (4, lambda y: y * 0.5 + y * 0.5),
        "views": (2, lambda y: y.reshape(1, 2).reshape(2)),
        "slices": (2, lambda y: y.unsqueeze(0)[0]),
        "in place": (1, lambda y: y.add_(1.0)),
        "saved": (1, lambda y: y * 1.0),
        "pieces": (3, lambda y: ad.cat(y.split(1))),
    }[kind]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", ["sums", "diamonds", "views", "slices", "in place", "saved", "pieces"])
def test_chains(kind: str, depth: int) -> None:
    nodes, link = links(kind)

    def work() -> None:
        x = ad.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1.0
        for _ in range(depth // (2 * nodes)):
            y = link(y)
        (g,) = ad.autograd.grad(y.sum(), x, retain_graph=True)
        y.sum().backward()
        assert g.tolist() == x.grad.tolist() == [1.0, 1.0]

    in_another_thread(work, SMALL_STACK_BYTES)


@pytest.mark.parametrize("depth", DEPTHS)
def test_double_backward(depth: int) -> None:
    def work() -> None:
        x = ad.tensor([3.0], requires_grad=True)
        y = x * x
        for _ in range(depth // 4):
            y = y * 1.0
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        (gg,) = ad.autograd.grad(g, x)
        assert (g.item(), gg.item()) == (6.0, 2.0)

    in_another_thread(work, SMALL_STACK_BYTES)


@pytest.mark.parametrize("depth", DEPTHS)
def test_dropped_without_backward(depth: int) -> None:
    def work() -> None:
        y = ad.tensor([1.0], requires_grad=True)
        for _ in range(depth):
            y = y + 1.0
        del y

    in_another_thread(work, SMALL_STACK_BYTES)


def test_each_node_runs_once() -> None:
    x = ad.tensor(1.0, dtype=ad.float64, requires_grad=True)
    y, runs = x * 1.0, []
    for _ in range(60):  # 2^60 paths
        y = y + y
        y.register_hook(lambda g: runs.append(1))
    y.backward()
    assert x.grad.item() == 2.0**60
    assert len(runs) == 60

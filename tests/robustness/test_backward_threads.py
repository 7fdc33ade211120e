"""Backward passes in several threads at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.threads import in_threads

import adjoint as ad

THREADS, ROUNDS = 8, 1000


@pytest.mark.claim("0.W7")
def test_shared_trunk() -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    trunk = x * x * 3.0  # each backward adds 6x, weighted
    trunk.sum().backward(retain_graph=True)
    x.grad = None

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            (trunk * float(number)).sum().backward(retain_graph=True)

    in_threads(work)
    total = ROUNDS * sum(range(THREADS))
    np.testing.assert_array_equal(x.grad.numpy(), [6.0 * total, 12.0 * total])


@pytest.mark.claim("0.W7")
def test_one_shared_root() -> None:
    x = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    y = x * x

    def work(_: int) -> None:
        for _ in range(ROUNDS):
            y.backward(retain_graph=True)

    in_threads(work)
    assert x.grad.item() == 4.0 * THREADS * ROUNDS


def test_shared_leaf_with_large_gradients() -> None:
    n = 200_000  # NumPy lets other threads run while it adds so much
    x = ad.zeros(n, dtype=ad.float64, requires_grad=True)
    in_threads(lambda number: [(x * float(number + 1)).sum().backward() for _ in range(20)] and None)
    assert set(x.grad.numpy().tolist()) == {20.0 * sum(range(1, THREADS + 1))}


def test_grad_returns_to_its_own_thread() -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    y = x * x
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        for _ in range(100):
            (found[number],) = ad.autograd.grad(y, x, ad.full((2,), float(number), dtype=ad.float64), retain_graph=True)

    in_threads(work)
    for number in range(THREADS):
        np.testing.assert_array_equal(found[number].numpy(), [2.0 * number, 4.0 * number])


def test_modes_are_per_thread() -> None:
    x = ad.ones(2, requires_grad=True)

    def work(number: int) -> None:
        for _ in range(200):
            with ad.set_grad_enabled(number % 2 == 0):
                assert (x * 2.0).requires_grad == (number % 2 == 0)
            assert ad.is_grad_enabled()

    in_threads(work)

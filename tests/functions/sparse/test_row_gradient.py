"""Sparse gradients in compiled steps: what eager steps compute, with work for the rows that are looked up alone."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.nn import functional as F

pytestmark = pytest.mark.usefixtures("asking")
BATCHES = [[1, 2, 1, 0], [2, 2, 2, 2], [5, 3, 3, 6]]
Step = Callable[[Any], Any]


def run(prepare: Callable[[Any], tuple[Any, Step]], compiled: bool) -> list[Any]:
    """What three steps leave of a table: losses, gradients and weights."""
    weight = nn.Parameter(ad.arange(21.0).reshape(7, 3).sin())
    optimizer, compute_loss = prepare(weight)

    def step(indices: Any) -> Any:
        optimizer.zero_grad()
        loss = compute_loss(indices)
        loss.backward()
        optimizer.step()
        return loss

    call = ad.compile(step) if compiled else step
    left: list[Any] = []
    for batch in BATCHES:
        loss = call(ad.tensor(batch))
        g: Any = weight.grad
        assert g.is_sparse
        left += [loss.detach().numpy(), g._indices().numpy(), g._values().numpy(), weight.detach().numpy().copy()]
    return left


def assert_same(prepare: Callable[[Any], tuple[Any, Step]]) -> None:
    for got, wanted in zip(run(prepare, True), run(prepare, False), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=3e-6, atol=3e-7)


@pytest.mark.parametrize(("make", "padding"), [("SGD", None), ("Adagrad", 2), ("SparseAdam", None), ("SparseAdam", 2)])
def test_steps_are_those_of_eager_code(make: str, padding: int | None) -> None:
    def prepare(weight: Any) -> tuple[Any, Step]:
        optimizer = getattr(optim, make)([weight], lr=0.1)
        return optimizer, lambda i: F.embedding(i, weight, padding_idx=padding, sparse=True).pow(2).sum()

    assert_same(prepare)


def test_bags_and_several_lookups_and_clipping() -> None:
    def prepare(weight: Any) -> tuple[Any, Step]:
        def compute_loss(indices: Any) -> Any:
            bags = F.embedding_bag(indices.reshape(2, 2), weight, mode="mean", sparse=True, padding_idx=1)
            return bags.pow(2).sum() + F.embedding(indices[:1], weight, sparse=True).sin().sum()

        weight.register_hook(lambda g: g * 3)
        optimizer = optim.SGD([weight], lr=0.1)
        optimizer.register_step_pre_hook(lambda *_: nn.utils.clip_grad_norm_([weight], 0.5) and None)
        return optimizer, compute_loss

    assert_same(prepare)


def test_the_gradient_of_a_sum_is_scaled_in_place() -> None:
    weight = nn.Parameter(ad.ones(4, 2))
    F.embedding(ad.tensor([1]), weight, sparse=True).sum().backward()  # of which each element is one number
    assert weight.grad is not None
    weight.grad.mul_(3)
    assert weight.grad.to_dense().tolist() == [[0, 0], [3, 3], [0, 0], [0, 0]]


def test_a_dense_lookup_makes_the_gradient_dense() -> None:
    weight = nn.Parameter(ad.ones(4, 2))

    @ad.compile
    def step(indices: Any) -> None:
        weight.grad = None
        (F.embedding(indices, weight, sparse=True).sum() + F.embedding(indices, weight).sum()).backward()

    step(ad.tensor([1, 3, 1]))
    assert weight.grad is not None
    assert not weight.grad.is_sparse
    np.testing.assert_array_equal(weight.grad.numpy(), [[0, 0], [4, 4], [0, 0], [2, 2]])


def test_backward_outside_of_the_step() -> None:
    left = []
    for compiled in (False, True):
        weight, scale = nn.Parameter(ad.arange(21.0).reshape(7, 3)), nn.Parameter(ad.tensor(2.0))

        def forward(indices: Any, weight: Any = weight, scale: Any = scale) -> Any:
            return (F.embedding(indices, weight, padding_idx=2, sparse=True) * scale).pow(2).sum()

        call: Step = ad.compile(forward) if compiled else forward
        for batch in BATCHES[:2]:
            call(ad.tensor(batch)).backward()
        g: Any = weight.grad
        left.append((g._indices().tolist(), g._values().tolist(), scale.grad))
    assert left[0] == left[1]


def test_no_work_grows_with_the_table() -> None:
    table = nn.Embedding(1_000_000, 8, sparse=True)
    optimizer = optim.SGD(table.parameters(), lr=0.1)

    @ad.compile
    def step(indices: Any) -> None:
        optimizer.zero_grad()
        table(indices).sum().backward()
        optimizer.step()

    before = table.weight.detach()[5].numpy().copy()
    for _ in range(2):
        step(ad.tensor([3, 999_999, 3]))
    tracemalloc.start()
    step(ad.tensor([3, 5, 3]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    arena = re.search(r"arena of (\d+) bytes", str(step.explain()))
    assert arena is not None
    assert int(arena[1]) < 1_000_000
    np.testing.assert_allclose(table.weight.detach()[5].numpy(), before - 0.1, rtol=1e-6)


def _use_indices(weight: Any) -> object:
    return weight.grad.coalesce().values()


def _return_gradient(weight: Any) -> object:
    return weight.grad


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (_use_indices, "reads the indices of a sparse tensor that it made"),
        (_return_gradient, "returns or keeps a sparse tensor that it made"),
    ],
)
def test_what_needs_the_rows_runs_eagerly(use: Callable[[Any], object], message: str) -> None:
    weight = nn.Parameter(ad.ones(4, 2))

    @ad.compile
    def step(indices: Any) -> object:
        weight.grad = None
        F.embedding(indices, weight, sparse=True).sum().backward()
        return use(weight)

    with pytest.warns(RuntimeWarning, match=f"{message}, at .*: a compiled step computes the sparse gradient"):
        step(ad.tensor([1, 2]))
    step(ad.tensor([1, 3]))  # a second warning would be an error
    g: Any = weight.grad
    assert g._indices().tolist() == [[1, 3]]


@pytest.mark.parametrize("inside", ["accumulates", "steps", "adds momentum"])
def test_sparse_tensors_from_before_the_step_run_eagerly(inside: str) -> None:
    weight = nn.Parameter(ad.ones(4, 2))
    optimizer = optim.SGD([weight], lr=1.0, momentum=0.5 if inside == "adds momentum" else 0.0)

    @ad.compile
    def step(indices: Any) -> None:
        if inside == "steps":
            optimizer.step()
            return
        if inside == "adds momentum":
            optimizer.zero_grad()
        F.embedding(indices, weight, sparse=True).sum().backward()
        optimizer.step()

    F.embedding(ad.tensor([0]), weight, sparse=True).sum().backward()
    with pytest.warns(RuntimeWarning, match="before|momentum"):
        step(ad.tensor([1, 1]))
    wanted = {"accumulates": [0, -1, 1, 1], "steps": [0, 1, 1, 1], "adds momentum": [1, -1, 1, 1]}[inside]
    np.testing.assert_array_equal(weight.detach()[:, 0].numpy(), wanted)

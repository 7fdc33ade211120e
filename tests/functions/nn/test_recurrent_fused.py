"""The node of a run over a recurrent layer: it is part of the graph as nodes of ops are."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import nn

CELLS: dict[str, Any] = {"LSTMCell": nn.LSTMCell, "GRUCell": nn.GRUCell, "RNNCell": nn.RNNCell}


def run(kind: str, x: Any, h: Any) -> Any:
    ad.manual_seed(0)
    out = CELLS[kind](3, 4)(x, (h, h * 0.5) if kind == "LSTMCell" else h)
    return out[0] + out[1] if kind == "LSTMCell" else out


@pytest.mark.parametrize("kind", CELLS)
def test_saved_values_are_freed_and_watched(kind: str) -> None:
    x, h = ad.ones(2, 3, requires_grad=True), ad.zeros(2, 4, requires_grad=True)
    out = run(kind, x, h).sum()
    out.backward(retain_graph=True)
    out.backward()
    assert_raises(RuntimeError, "Trying to backward through the graph a second time", out.backward)
    state = h * 1.0
    out = run(kind, x, state).sum()
    state.mul_(2.0)
    assert_raises(RuntimeError, "modified by an inplace operation", out.backward)


@pytest.mark.parametrize("kind", CELLS)
def test_nothing_is_recorded_without_grad(kind: str) -> None:
    x, h = ad.ones(2, 3), ad.zeros(2, 4)
    with ad.no_grad():
        assert not run(kind, x, h).requires_grad
    with ad.inference_mode():
        inside = run(kind, x, h)
    assert ad.allclose(inside, run(kind, x, h))  # native code and ops differ in the last bits


@pytest.mark.parametrize("kind", CELLS)
def test_gradients_of_gradients_and_of_examples(kind: str) -> None:
    x, h = ad.linspace(-1, 1, 6, dtype="float64").reshape(2, 3), ad.full((2, 4), 0.25, dtype="float64")
    cell = CELLS[kind](3, 4, dtype=ad.float64)
    state = (h, h) if kind == "LSTMCell" else h

    def energy(x: Any) -> Any:
        out = cell(x, state)
        return ((out[0] if kind == "LSTMCell" else out) ** 2).sum()

    assert ad.autograd.gradgradcheck(energy, x.clone().requires_grad_())
    rows = ad.vmap(lambda row: ad.func.grad(energy)(row.expand(2, 3)))(x)
    assert rows.shape == (2, 2, 3)
    assert ad.allclose(rows[0], ad.func.grad(energy)(x[0].expand(2, 3)))


def test_hooks_and_prints_know_the_node() -> None:
    with ad.inference_mode():
        ad.ones(1)  # that there was such a block changes nothing for other tensors
    x, h = ad.ones(2, 3, requires_grad=True), ad.zeros(2, 4)
    h2, c2 = nn.LSTMCell(3, 4)(x, (h, h))
    seen: list[Any] = []
    assert h2.grad_fn is c2.grad_fn
    assert h2.grad_fn.name() == "RecurrentSweepBackward"
    h2.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
    c2.sum().backward()
    assert len(seen) == 1
    assert x.grad is not None

"""A pass through data in a compiled step: its seed is drawn in each call, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import data

pytest.importorskip("llvmlite")


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("items", [data.TensorDataset(ad.arange(12.0)), [(1.0,), (2.0,), (3.0,)]])
def test_step_that_evaluates_draws_as_many_numbers_as_it_does_eagerly(shuffle: bool, items: Any) -> None:
    loader = data.DataLoader(items, batch_size=2, shuffle=shuffle)

    def step(x: ad.Tensor) -> ad.Tensor:
        total = (x * 2).sum()
        for number, (batch,) in enumerate(loader):
            total = total + batch.sum() * number
        return total

    def run(step: Callable[..., Any]) -> list[float]:
        ad.manual_seed(0)
        return [value.item() for _ in range(4) for value in (step(ad.ones(3)), ad.rand(()))]

    with pytest.warns(RuntimeWarning, match="a pass through a DataLoader inside a compiled step"):
        compiled = run(ad.compile(step, fallback=True))
    assert compiled == run(step)

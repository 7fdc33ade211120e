"""Tensors print as PyTorch's do, with our name where the type is shown."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.oracle import torch

import adjoint as ad

PROGRAMS = [
    "t.tensor(1)", "t.tensor(1.5)", "t.tensor(-2.0)", "t.tensor(True)", "t.tensor([])", "t.tensor([1, 2, 3])",
    "t.tensor([1.0, 2.0])", "t.tensor([1.5, -22.25, 3.0])", "t.tensor([[1, -20], [300, 4]])", "t.tensor([True, False])",
    "t.tensor([[True], [False]])", "t.tensor([1e-5, 1.0])", "t.tensor([1e10, 1.0])", "t.tensor([1e-10])",
    "t.tensor([0.0, 0.0])", "t.tensor([float('nan'), 1.0])", "t.tensor([float('inf'), -float('inf'), 1.5])",
    "t.tensor([float('inf'), 2.0])", "t.tensor([1000000.0, 1.0])", "t.tensor([12345678.0])", "t.tensor([123456789.0])",
    "t.tensor([0.1, 1234.5])", "t.tensor([1e5, 0.5])", "t.tensor([1.0], dtype=t.float64)",
    "t.tensor([1, 2], dtype=t.int32)", "t.tensor(3, dtype=t.uint8)", "t.tensor([1.5], dtype=t.float16)",
    "t.zeros(0, 3)", "t.zeros(2, 0, dtype=t.int64)", "t.zeros(0, dtype=t.float64)", "t.zeros(0, dtype=t.int64)",
    "t.zeros(2, 3, 4)", "t.zeros(1, 2, 1, 2)", "t.arange(30)", "t.arange(30.0) / 7", "t.arange(1001)",
    "t.arange(1001.0)", "t.zeros(50, 50)", "t.arange(2000.0).reshape(2, 1000)", "t.arange(3000).reshape(10, 10, 30)",
    "t.ones(2, requires_grad=True)", "t.ones(2, requires_grad=True) * 2", "t.ones(2, 2, requires_grad=True).sum()",
    "t.ones(2, 2, requires_grad=True).exp().view(4)", "t.tensor([1 + 2j, -1.5 - 0.25j])", "t.tensor([1e-3, 1.0])",
    "t.tensor([0.0001])", "t.tensor([99999.0, 0.0])", "t.tensor([1e8, 1e-8])", "t.tensor([-0.0, 0.0])",
    "t.arange(25.0)", "t.arange(40.0).reshape(2, 20)", "t.arange(12.0).reshape(3, 4).t()",
    "t.tensor([1e300], dtype=t.float64)", "t.linspace(-1, 1, 30)", "t.arange(200) % 2 == 0",
    "t.tensor([[0.001, 1000.0]])",
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_repr(program: str) -> None:
    ours, theirs = eval(program, {"t": ad}), eval(program, {"t": torch})
    assert repr(ours) == repr(theirs).replace("torch.", "adjoint.")
    assert str(ours) == repr(ours)


@pytest.mark.parametrize("seed", range(20))
def test_repr_of_random_values(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    shape = tuple(numbers.integers(1, 6, numbers.integers(1, 4)))
    values = (numbers.standard_normal(shape) * 10.0 ** numbers.integers(-6, 7)).astype(np.float32)
    assert repr(ad.tensor(values)) == repr(torch.tensor(values))
    assert repr(ad.tensor(values.astype(np.int64))) == repr(torch.tensor(values.astype(np.int64)))


def test_parameter() -> None:
    assert repr(ad.nn.Parameter(ad.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"

"""The memory of a program whose sizes are symbols: it is planned anew where a size is larger than all before."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.program.buffer_binding import Binding

pytest.importorskip("llvmlite")


def test_memory_for_the_largest_sizes_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, int]] = []
    resize = Binding.resize

    def note(binding: Binding, values: tuple[int, ...], names: dict[str, object]) -> None:
        resize(binding, values, names)
        seen.append(dict(binding.capacity))

    monkeypatch.setattr(Binding, "resize", note)
    compiled = ad.compile(lambda x, y: (x.exp() * 2).cumsum(0).sum() + (y.tanh() * 3).cumsum(0).sum(), dynamic=True)
    for sizes in ((4, 40), (40, 4), (5, 60), (100, 6), (7, 70)):  # where one grows the other shrinks
        assert compiled(*map(ad.ones, sizes)).isfinite()
    for before, capacity in pairwise(seen):
        assert all(capacity[name] >= n for name, n in before.items())
    assert sorted(seen[-1].values()) >= [70, 100]


@pytest.mark.parametrize(
    "cut",
    [
        lambda x, n: x[n:],
        lambda x, n: x[: 16 + n % 32],
        lambda x, n: x[: 63 - n // 2],
        lambda x, n: x[: (64 - n) * (n % 3 + 1) // 3 + 2],
    ],
)
def test_memory_is_enough_for_sizes_that_do_not_grow_with_their_symbols(cut: Callable[..., ad.Tensor]) -> None:
    draw = random.Random(0)
    x, w = ad.randn(64, 20), ad.randn(20, 30)

    def step(n: int) -> ad.Tensor:
        a = (cut(x, n) @ w).tanh().softmax(1)
        b = (x[:n] @ w).tanh().softmax(1)
        return (a @ w.T).cumsum(0).mean() * (b @ w.T).cumsum(0).mean() + (a * a).sum() + (b * b).sum()

    compiled = ad.compile(step, dynamic=True)
    for n in [draw.randrange(2, 62) for _ in range(60)]:
        np.testing.assert_allclose(compiled(n).numpy(), step(n).numpy(), rtol=1e-4)
    assert compiled.compilations <= 8

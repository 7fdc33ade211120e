"""Writing into what `expand` repeats: a part without repetition takes it, and every repetition shows it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")


def _set(y: Any, index: Any, value: Any) -> None:
    y[index] = value


WRITES: list[Callable[[Any, Any], Any]] = [
    lambda y, w: _set(y, (0, 1), w * 5), lambda y, w: _set(y, (slice(None), 1), w), lambda y, w: y[:, 2].mul_(w),
    lambda y, w: y[:, :1].mul_(3), lambda y, w: y[1].narrow(0, 1, 1).add_(w),
    lambda y, w: y.select(1, 0).copy_(y[:, 1] * 2), lambda y, w: y.transpose(0, 1)[0].exp_(),
]  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("recorded", [True, False])
def test_a_part_is_written(write: Any, recorded: bool) -> None:
    found = []
    for lib in (ad, torch):
        x = lib.tensor([[1.0], [2.0]], dtype=lib.float64, requires_grad=True)
        w = lib.tensor(1.5, dtype=lib.float64, requires_grad=True)
        weights = lib.arange(6.0, dtype=lib.float64).reshape(2, 3)
        with lib.set_grad_enabled(recorded):
            base = x * 2
            y = base.expand(2, 3)
            write(y, w)
        found.append([y.detach().numpy(), base.detach().numpy()])
        if recorded:
            gradients = lib.autograd.grad((y * weights).sum() + base.sum(), (x, w), allow_unused=True)
            found[-1] += [np.zeros(()) if g is None else g.numpy() for g in gradients]
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("write", [lambda y: y.add_(1), lambda y: _set(y, slice(0, 2), 0), lambda y: y[:2].mul_(0)])
def test_repetitions_are_not(write: Any) -> None:
    for lib in (ad, torch):
        y = lib.ones(1).expand(3)
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single"):
            write(y)
        assert y.tolist() == [1.0] * 3


def test_locked_memory_stays_locked() -> None:
    memory = np.ones(1)
    memory.flags.writeable = False
    y = ad.from_numpy(memory).expand(3)
    with pytest.raises(RuntimeError, match="its memory is read-only"):
        y[0] = 2.0
    view = np.ones(3)[:]
    view.flags.writeable = False
    with pytest.raises(RuntimeError, match="its memory is read-only"):
        ad.from_numpy(view)[0] = 2.0

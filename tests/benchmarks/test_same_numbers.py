"""The same seed and the same program give PyTorch's losses, eager and compiled."""

import importlib.util
from typing import Any

import numpy as np
import pytest
from benchmarks.same_numbers import MODELS, Build, losses

import adjoint as ad

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

NEEDS_LLVMLITE = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="needs llvmlite")


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=NEEDS_LLVMLITE)], ids=["eager", "compiled"])
@pytest.mark.parametrize(("name", "steps"), [("digits MLP", 100), ("small CNN", 30)])
def test_losses_are_those_of_torch(name: str, steps: int, compiled: bool) -> None:
    build: Build = MODELS[name]
    made: list[Any] = []

    def through(step: Any) -> Any:
        made.append(ad.compile(step) if compiled else step)
        return made[0]

    ours, theirs = losses(ad, build, steps, through), losses(torch, build, steps)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert np.mean(ours[-5:]) < 0.95 * np.mean(ours[:5]), "the model learned nothing: equal losses would show little"
    assert not compiled or made[0].compilations == 1


def test_another_seed_gives_other_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    build = MODELS["small CNN"]
    before = losses(ad, build, 2)
    monkeypatch.setattr("benchmarks.same_numbers.SEED", 4)
    assert not np.allclose(before, losses(ad, build, 2), rtol=1e-4)

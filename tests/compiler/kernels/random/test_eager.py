"""Eager draws by native code: the numbers, and the states, of NumPy's."""

from __future__ import annotations

import copy
import importlib.util
from typing import Any

import numpy as np
import pytest

from adjoint.core.op.eager_kernels import kernel_provider
from adjoint.core.random import generator_state
from adjoint.core.random.generator import Generator

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="needs llvmlite")
COUNTS = [1, 5, 15, 16, 17, 48, 100, 311, 312, 313, 624, 625, 1024, 5000, 20_001]
KINDS = ["float16", "float32", "float64"]


@pytest.fixture(autouse=True)
def _native(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native code from the first draw on."""
    monkeypatch.setattr(kernel_provider, "enabled", True)
    monkeypatch.setattr(kernel_provider, "strict", True)
    monkeypatch.setattr(generator_state, "NUMPY_SECONDS_BEFORE_NATIVE", 0.0)


def draws(generator: Generator, count: int, kind: str) -> list[Any]:
    """Numbers of every kind that may come from native code, and where the stream is after each."""
    found: list[Any] = []
    for draw in (
        lambda: generator.uniform(count, kind),
        lambda: generator.normal(count, kind),
        lambda: generator.normal(count, kind, 0.5, 3.0),
        lambda: generator.uniform(count, kind, -2.0, 1.0),
        lambda: generator.uniform(count, kind, 1.0, 1.0 + 2.0**-9),  # many are rounded, some to the open end
        lambda: generator.bernoulli(count, 0.3, kind),
        lambda: generator.exponential(count, kind),
        lambda: generator.dropout(count, 0.25, kind),
        lambda: generator.randint(0, 10, count, "int64"),
        lambda: generator.randint(-3, 2**28 - 4, count, "int64"),
        lambda: generator.randint(-7, -6, count, kind),
        lambda: generator.randperm(count, "int64"),
        lambda: generator.randperm(min(count, 200), "uint8"),
    ):
        found += [draw(), generator.place()]
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", COUNTS)
def test_native_draws_are_those_of_numpy(count: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    natively = Generator().manual_seed(count)
    mine = draws(natively, count, kind)
    assert natively._sampler is not None
    monkeypatch.setattr(kernel_provider, "enabled", False)
    with np.errstate(over="ignore"):
        theirs = draws(Generator().manual_seed(count), count, kind)
    for native, plain in zip(mine, theirs, strict=True):
        assert native.dtype == plain.dtype
        assert native.tobytes() == plain.tobytes()


def test_a_stream_goes_on_where_it_is_put() -> None:
    generator = Generator().manual_seed(3)
    generator.normal(100, "float32")
    place, twin = generator.get_state(), copy.deepcopy(generator)
    expected = generator.normal(1000, "float32")
    assert np.array_equal(twin.normal(1000, "float32"), expected)
    generator.manual_seed(3)
    generator.uniform(5, "float32")
    generator.set_state(place)
    assert np.array_equal(generator.normal(1000, "float32"), expected)


def test_numpy_draws_until_native_code_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator_state, "NUMPY_SECONDS_BEFORE_NATIVE", 0.05)
    monkeypatch.setattr(generator_state, "numpy_seconds_spent", [0.0])
    generator = Generator().manual_seed(0)
    generator.normal(1000, "float32")
    assert generator._sampler is None
    generator.normal(300_000, "float32")
    assert generator._sampler is not None

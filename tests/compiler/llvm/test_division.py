"""Remainders of float32 by way of float64 are NumPy's to the bit, whatever the sizes of the operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

NUMBERS = np.random.default_rng(1)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 3e38, 3.0, -3.0], np.float32)


def _any_bits(count: int) -> Any:
    return NUMBERS.integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32).view(np.float32)


PAIRS = {
    "any bits": (_any_bits(30_000), _any_bits(30_000)),
    "of one size": (NUMBERS.uniform(-10, 10, 30_000), NUMBERS.uniform(-3, 3, 30_000)),
    "nearly whole quotients": (NUMBERS.integers(-500, 500, 30_000) * 0.1, np.full(30_000, 0.1)),
    "special": [a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL)],
}


@pytest.mark.parametrize("kind", PAIRS)
def test_quotients_and_remainders(kind: str) -> None:
    x, y = (np.asarray(a, np.float32) for a in PAIRS[kind])
    compiled = ad.compile(lambda a, b: (a // b, a % b))(ad.from_numpy(x), ad.from_numpy(y))
    with np.errstate(all="ignore"):
        expected = np.floor_divide(x, y), np.remainder(x, y)
    for got, want in zip(compiled, expected, strict=True):
        got = got.numpy()
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.isnan(got), ~number)
        np.testing.assert_array_equal(got[number].view(np.uint32), want[number].view(np.uint32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_eager_calls_take_the_same_kernels(dtype: Any) -> None:
    x = NUMBERS.uniform(-10, 10, 50_000).astype(dtype)
    y = x[::-1].copy() + dtype(0.25)
    for by in (0.3, y, np.float32(0.7) if dtype is np.float64 else 2):
        other = ad.from_numpy(by) if isinstance(by, np.ndarray) else by
        np.testing.assert_array_equal(
            (ad.from_numpy(x) % other).numpy(), np.remainder(x, dtype(by) if other is by else by)
        )
        np.testing.assert_array_equal(
            (ad.from_numpy(x) // other).numpy(), np.floor_divide(x, dtype(by) if other is by else by)
        )

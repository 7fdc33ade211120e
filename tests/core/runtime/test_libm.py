"""The fused multiply-add against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adjoint.core.runtime.libm import BLOCK_ELEMENTS, fused_multiply_add


def floats(bits: int) -> Any:
    exponents = st.integers(-30, 30)
    return st.builds(lambda m, e: m * 2.0**e, st.integers(-(2**bits) + 1, 2**bits - 1), exponents)


def assert_nearest(result: Any, exact: Fraction) -> None:
    error = abs(Fraction(float(result)) - exact)
    for neighbour in np.nextafter(result, result.dtype.type(np.inf)), np.nextafter(result, result.dtype.type(-np.inf)):
        distance = abs(Fraction(float(neighbour)) - exact)
        # A tie goes to the even significand.
        assert error < distance or (error == distance and result.tobytes()[0] % 2 == 0)


@given(floats(24), floats(24), floats(24))
@example(24929.0, 673 * 2.0**-24, 2.0**-60)  # 1 + 2**-24 and a little: float64 loses the little
@example(24929.0, 673 * 2.0**-24, -(2.0**-60))
@example(1549.0, 10831 * 2.0**-24, -(2.0**-60))  # 1 + 3 · 2**-24 and a little less
@example(-1549.0, 10831 * 2.0**-24, 2.0**-60)
@example(24929.0, 673 * 2.0**-24, 0.0)
def test_float32(x: float, y: float, z: float) -> None:
    result = fused_multiply_add(np.array([x], np.float32), np.float32(y), np.float32(z))
    assert result.dtype == np.float32
    assert_nearest(result[0], Fraction(x) * Fraction(y) + Fraction(z))


@given(floats(53), floats(53), floats(53))
@example(1 + 2.0**-30, 1 - 2.0**-30, -1.0)
def test_float64(x: float, y: float, z: float) -> None:
    result = fused_multiply_add(np.array([x]), np.float64(y), np.float64(z))
    assert_nearest(result[0], Fraction(x) * Fraction(y) + Fraction(z))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_broadcast(dtype: str) -> None:
    x = np.arange(6, dtype=dtype).reshape(2, 3)
    result = fused_multiply_add(x, np.array([1, 2, 3], dtype), np.array([[1], [0]], dtype))
    np.testing.assert_array_equal(result, np.array([[1, 3, 7], [3, 8, 15]], dtype), strict=True)


def test_very_large_factors_do_not_overflow() -> None:
    assert fused_multiply_add(np.array([0.5]), np.float64(1e308), np.float64(-1e307)).tolist() == [4e307]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_arrays_are_computed_in_blocks(dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, BLOCK_ELEMENTS)).astype(dtype)
    whole = fused_multiply_add(x, x.dtype.type(3), x.dtype.type(0.1))
    rows = [fused_multiply_add(row, x.dtype.type(3), x.dtype.type(0.1)) for row in x]
    np.testing.assert_array_equal(whole, np.stack(rows), strict=True)

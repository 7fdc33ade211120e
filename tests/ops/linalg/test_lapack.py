"""NumPy's decompositions called without its checks: the same bits, errors, and types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from adjoint.ops.linalg import lapack

CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "qr": (lapack.qr, np.linalg.qr),
    "svd": (lapack.svd, np.linalg.svd),
    "svd, reduced": (lambda x: lapack.svd(x, full_matrices=False), lambda x: np.linalg.svd(x, full_matrices=False)),
}
KINDS = ("float32", "float64", "complex64", "complex128")


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (1, 1), (2, 3, 4), (0, 3), (40, 33)])
@pytest.mark.parametrize("name", CALLS)
def test_factors_have_the_bits_of_numpy(name: str, shape: tuple[int, ...], dtype: str) -> None:
    x: Any = np.random.default_rng(0).standard_normal((*shape, 2)).view(np.complex128)[..., 0]
    x = x.astype(dtype) if dtype[0] == "c" else x.real.astype(dtype)
    ours, theirs = CALLS[name]
    for found, expected in zip(ours(x), theirs(x), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    turned = np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2)
    for found, expected in zip(ours(turned), theirs(x), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("size", [1, 4, 33])
def test_eigenvalues_have_the_bits_of_numpy(size: int, dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal((size, size)).astype(dtype)
    for found, expected in zip(lapack.eigh(x + x.T), np.linalg.eigh(x + x.T), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_without_convergence_there_is_an_error() -> None:
    x = np.full((3, 3), np.nan, np.float32)
    for call in (lapack.eigh, lapack.svd):
        with pytest.raises(np.linalg.LinAlgError):
            call(x)
    with pytest.raises(np.linalg.LinAlgError):
        lapack.eigh(np.ones((2, 3), np.float32))


def test_the_operand_is_not_written() -> None:
    x = np.random.default_rng(0).standard_normal((3, 3))
    before = x.copy()
    lapack.qr(x), lapack.eigh(x), lapack.svd(x)
    np.testing.assert_array_equal(x, before)

"""Sums and extremes over any dimensions: native code gives what NumPy does, in the same order of dimensions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.eager_kernels import eager_kernels

SHAPES = [(40, 3, 5), (3, 70, 2, 4), (2, 33, 17), (5, 1, 200), (2, 100, 70), (64, 65), (31, 16, 1)]
FOLDS = ["sum", "mean", "amax", "amin"]


def axes_of(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [axes for n in range(1, len(shape)) for axes in itertools.combinations(range(len(shape)), n)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("fold", FOLDS)
def test_any_dimensions_in_any_order_of_memory(fold: str, shape: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(7)
    whole = rng.normal(size=shape).astype(dtype)
    whole.flat[shape[-1] + 1] = np.nan
    for order in (range(len(shape)), range(len(shape))[::-1]):
        x = ad.from_numpy(whole).permute(*order).contiguous().permute(*np.argsort(order).tolist())
        for axes, keepdim in itertools.product(axes_of(shape), (False, True)):
            got = getattr(x, fold)(axes, keepdim)
            with eager_kernels(False):
                wanted = getattr(x, fold)(axes, keepdim)
            assert got.shape == wanted.shape
            assert [s for s, n in zip(got.stride(), got.shape, strict=True) if n > 1] == [
                s for s, n in zip(wanted.stride(), wanted.shape, strict=True) if n > 1
            ]
            assert not np.shares_memory(got.numpy(), x.numpy())
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), 1e-5, 1e-5 if dtype is np.float32 else 1e-12)


def test_long_columns_keep_their_digits() -> None:
    for width in (1, 3, 40, 300):
        ones = ad.full((70_000, width), 0.1)
        np.testing.assert_allclose(ones.sum(0).numpy(), 7000.0001043081, rtol=1e-6)


def test_gradient_of_an_extreme_is_shared_by_all_that_attain_it() -> None:
    for nan in (False, True):
        x = ad.tensor([[1.0, 2.0, 2.0], [float("nan") if nan else 0.0, 0.0, -1.0]] * 30, requires_grad=True)
        x.amax(1).sum().backward()
        second = [1.0, 0.0, 0.0] if nan else [0.5, 0.5, 0.0]
        assert x.grad.tolist() == [[0.0, 0.5, 0.5], second] * 30

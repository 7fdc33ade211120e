"""Pooling against PyTorch: values, winners, gradients, ceil_mode, errors."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error
from tests.support.second_gradients import same_second_gradients

import adjoint as ad

RNG = np.random.default_rng(3)


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return RNG.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("size", "stride", "padding", "dilation"), [
    s for s in product((1, 2, 3), (None, 1, 2, 3), (0, 1), (1, 2)) if 2 * s[2] <= s[0]
])  # fmt: skip
def test_max_pool(size: int, stride: Any, padding: int, dilation: int, ceil_mode: bool) -> None:
    settings = f"{size}, {stride}, {padding}, {dilation}, ceil_mode={ceil_mode}, return_indices=True"
    for length in (5, 6, 8):
        same(f"t.nn.functional.max_pool1d(x, {settings})", x=normal(2, 3, length))
        same(f"t.nn.functional.max_pool2d(x, {settings})", x=normal(2, 2, length, 7))


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    ("size", "stride", "padding"), [s for s in product((1, 2, 3), (None, 1, 2, 3), (0, 1)) if 2 * s[2] <= s[0]]
)
def test_avg_pool(size: int, stride: Any, padding: int, ceil_mode: bool) -> None:
    for length in (5, 6, 8):
        same(f"t.nn.functional.avg_pool1d(x, {size}, {stride}, {padding}, {ceil_mode})", x=normal(2, 3, length))
        same(f"t.nn.functional.avg_pool2d(x, {size}, {stride}, {padding}, {ceil_mode})", x=normal(2, 2, length, 7))


def test_shapes() -> None:
    same("t.nn.functional.max_pool2d(x, (3, 2), (2, 1), (1, 0), (1, 2))", x=normal(2, 2, 7, 6))
    same("t.nn.functional.avg_pool2d(x, (3, 2), (2, 1), (1, 0))", x=normal(2, 2, 7, 6))
    same("t.nn.functional.max_pool2d(x, 2)", x=normal(3, 4, 4))
    same("t.nn.functional.avg_pool1d(x, 2)", x=normal(3, 4))
    same("t.nn.functional.max_pool2d(x, 2)", x=normal(0, 3, 4, 4), gradient=False)
    same("t.nn.functional.max_pool2d(x, 2)", x=normal(2, 3, 4, 4, dtype=np.float32))


def test_ties_and_extremes() -> None:
    same("t.nn.functional.max_pool2d(x, 2, return_indices=True)", x=np.zeros((1, 1, 4, 4)))
    same("t.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)", x=np.full((1, 1, 5, 5), -np.inf))
    same("t.nn.functional.max_pool2d(x, 2, 2, 1, ceil_mode=True)", x=np.full((1, 1, 5, 5), -np.inf))
    holes = normal(1, 1, 4, 4)
    holes[0, 0, 1, 2] = np.nan
    same("t.nn.functional.max_pool2d(x, 2, 1)", x=holes)
    same("t.nn.functional.max_pool2d(x, 3, 2, 1)", x=RNG.integers(-9, 9, (1, 2, 5, 5)))


def test_rows_of_a_million() -> None:
    for pool in (ad.nn.functional.max_pool1d, ad.nn.functional.avg_pool1d):
        out = pool(ad.ones(1, 1, 2**20 + 1), 1)
        assert tuple(out.shape) == (1, 1, 2**20 + 1)
        assert bool((out == 1).all())


def test_errors() -> None:
    x = normal(1, 1, 4, 4)
    head = "pad should be at most half of effective kernel size, but got pad="
    same_error("t.nn.functional.max_pool2d(x, 2, padding=2)", head, x=x)
    same_error("t.nn.functional.avg_pool2d(x, 2, padding=2)", head, x=x)
    head = "Given input size: (1x4x4). Calculated output size: (1x0x0). Output size is too small"
    same_error("t.nn.functional.max_pool2d(x, 5)", head, x=x)
    same_error("t.nn.functional.avg_pool2d(x, 5)", head, x=x)
    for call in ("max_pool2d(x[0, 0], 2)", "max_pool1d(x[0, 0, 0], 2)", "max_pool2d(x, 0)", "max_pool2d(x, 2, 0)",
                 "max_pool2d(x, 2, padding=-1)", "max_pool2d(x, (2, 2, 2))"):  # fmt: skip
        same(f"t.nn.functional.{call}", x=x)


@pytest.mark.parametrize("call", ["max_pool2d(x * x, 2, 1)", "avg_pool2d(x * x, 3, 2, 1)"])
def test_second_derivatives(call: str) -> None:
    same_second_gradients(f"t.nn.functional.{call}", 10, x=np.sin(np.arange(72.0)).reshape(1, 2, 6, 6))

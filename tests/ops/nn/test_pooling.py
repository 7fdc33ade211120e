"""Windows that are large tiles: their maxima and gradients are those of the loop over taps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.core.op.eager_kernels import eager_kernels
from adjoint.ops.nn import pooling

CASES = [
    ((2, 3, 9, 9), (9, 9), (9, 9)), ((2, 3, 13, 20), (6, 6), (6, 6)), ((2, 9, 9), (9, 9), (1, 1)),
    ((1, 2, 12, 13), (12, 4), (5, 4)), ((2, 8, 81), (1, 40), (1, 40)),
]  # fmt: skip


def pool_twice(x: Any, size: Any, stride: Any) -> list[Any]:
    """The maxima, their places, the gradient of their squares, and its own gradient."""
    t = ad.tensor(x, requires_grad=True)
    out, places = F.max_pool2d(t, size, stride, return_indices=True)
    (g,) = ad.autograd.grad(F.max_pool2d(t, size, stride).pow(2).sum(), t, create_graph=True)
    (gg,) = ad.autograd.grad(g.pow(2).sum(), t)
    return [v.detach().numpy() for v in (out, places, g, gg)]


@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize(("shape", "size", "stride"), CASES)
def test_large_tiles(shape: Any, size: Any, stride: Any, nan: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(3).integers(-3, 4, shape).astype(np.float32)  # with ties
    if nan:
        x[..., 0, 3:5] = np.nan
    with eager_kernels(False):
        got = pool_twice(x, size, stride)
        monkeypatch.setattr(pooling, "MIN_TILE_TAPS", 2**31)
        wanted = pool_twice(x, size, stride)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize(("size", "stride", "dilation"), [(2, 2, 1), (3, 2, 1), (2, 3, 1), ((3, 1), (1, 2), (2, 1))])
def test_few_taps_are_gathered_in_one_call(
    size: Any, stride: Any, dilation: Any, padding: int, nan: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(4).integers(-3, 4, (2, 3, 9, 8)).astype(np.float32)  # with ties
    if nan:
        x[..., 0, 3:5] = np.nan
    frame = padding if size != (3, 1) else (padding, 0)

    def pool() -> list[Any]:
        t = ad.tensor(x, requires_grad=True)
        out, places = F.max_pool2d(t, size, stride, frame, dilation, return_indices=True)
        mean = F.avg_pool2d(t, size, stride, frame)
        g = ad.autograd.grad(F.max_pool2d(t, size, stride, frame, dilation).pow(2).sum(), t, create_graph=True)[0]
        (gg,) = ad.autograd.grad(g.pow(2).sum() + mean.pow(2).sum(), t)
        return [v.detach().numpy() for v in (out, places, mean, g, gg)]

    with eager_kernels(False):
        got = pool()
        monkeypatch.setattr(pooling, "MAX_FEW_TAPS", 0)
        wanted = pool()
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)

"""PyTorch's functions of the top level that order their arguments otherwise, by what they call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F

X = ad.tensor(np.sin(np.arange(48.0)).reshape(2, 4, 6))
IMAGE = ad.tensor(np.sin(np.arange(30.0)).reshape(1, 2, 3, 5), requires_grad=True)
GRID = ad.tensor(np.cos(np.arange(16.0)).reshape(1, 2, 4, 2))


@pytest.mark.parametrize("mode", range(3))
@pytest.mark.parametrize("padding", range(3))
@pytest.mark.parametrize("align", [False, True])
def test_grid_sampler_counts_its_modes(mode: int, padding: int, align: bool) -> None:
    names = ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding]
    expected = F.grid_sample(IMAGE, GRID, *names, align_corners=align)
    for function in (ad.grid_sampler, ad.grid_sampler_2d):
        assert ad.equal(function(IMAGE, GRID, mode, padding, align), expected)


def test_grid_samplers_are_of_images_or_of_volumes() -> None:
    volume, places = ad.ones(1, 2, 3, 3, 3), ad.zeros(1, 2, 2, 2, 3)
    assert ad.grid_sampler_3d(volume, places, 0, 0, True).tolist() == [[[[[1.0] * 2] * 2] * 2] * 2]
    for function, given in ((ad.grid_sampler_2d, (volume, places)), (ad.grid_sampler_3d, (IMAGE, GRID))):
        with pytest.raises(RuntimeError, match="same number of dimensions"):
            function(*given, 0, 0, False)
    for modes in ((3, 0), (0, -1)):
        with pytest.raises(ValueError, match=r"expected (interpolation|padding)_mode 0, 1 or 2"):
            ad.grid_sampler(IMAGE, GRID, *modes, False)


def rows(x: Any, axes: tuple[int, ...], keepdims: bool = False) -> list[Any]:
    """The mean and 1/√(variance + 0.1), by NumPy."""
    return [x.mean(axes, keepdims=keepdims), 1 / np.sqrt(x.var(axes, keepdims=keepdims) + 0.1)]


def test_native_norms_give_what_they_normalized_by() -> None:
    x, weight, bias = X.numpy(), ad.arange(4.0, dtype=ad.float64), ad.ones(4, dtype=ad.float64)
    layer = ad.native_layer_norm(X, [4, 6], None, None, 0.1)
    group = ad.native_group_norm(X, weight, bias, 2, 4, 6, 2, 0.1)
    means, variances = ad.zeros(4, dtype=ad.float64), ad.ones(4, dtype=ad.float64)
    batch = ad.native_batch_norm(X, weight, bias, means, variances, True, 0.5, 0.1)
    expected = [
        (layer, F.layer_norm(X, [4, 6], eps=0.1), rows(x, (1, 2), True)),
        (group, F.group_norm(X, 2, weight, bias, 0.1), rows(x.reshape(2, 2, 12), (2,))),
        (batch, F.batch_norm(X, None, None, weight, bias, True, eps=0.1), rows(x, (0, 2))),
    ]
    for found, out, parts in expected:
        for a, b in zip(found, (out.numpy(), *parts), strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(means.numpy(), 0.5 * x.mean((0, 2)), rtol=1e-12)
    out, *statistics = ad.native_batch_norm(X, weight, bias, means, variances, False, 0.5, 0.1)
    assert ad.equal(out, F.batch_norm(X, means, variances, weight, bias, eps=0.1))
    assert [s.numel() for s in statistics] == [0, 0]

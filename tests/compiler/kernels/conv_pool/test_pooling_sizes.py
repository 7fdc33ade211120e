"""Pooling that serves every height and width: to the bit what is made for one size, forward and backward."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.support.symbolic_kernels import SizedKernels

import adjoint as ad
import adjoint.nn.functional as F

NIGHTLY = os.environ.get("ADJOINT_NIGHTLY") == "1"

IMAGES = ((9, 8), (3, 40), (33, 18), (64, 64), (7, 7), (5, 130), (3, 3))
LARGER = ((9, 8), (5, 40), (33, 18), (7, 7))
LINES = ((5,), (9,), (17,), (100,))
VOLUMES = ((4, 5, 6), (3, 9, 17), (12, 8, 8))

CASES: dict[str, tuple[Any, Any]] = {
    "max": (lambda x: F.max_pool2d(x, 2), IMAGES),
    "mean": (lambda x: F.avg_pool2d(x, 2), IMAGES),
    "max_padded": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGES),
    "mean_padded": (lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGES),
    "mean_of_neighbours": (lambda x: F.avg_pool2d(x, 3, 1, 1), IMAGES),
    "max_of_neighbours": (lambda x: F.max_pool2d(x, 3, 1), IMAGES),
    "max_apart": (lambda x: F.max_pool2d(x, 3), IMAGES),
    "max_of_many": (lambda x: F.max_pool2d(x, 5, 1, 2), LARGER),
    "max_dilated": (lambda x: F.max_pool2d(x, 2, dilation=2), IMAGES),
    "max_over_the_end": (lambda x: F.max_pool2d(x, 2, ceil_mode=True), IMAGES),
    "max_of_lines": (lambda x: F.max_pool1d(x, 3, 2, 1), LINES),
    "mean_of_lines": (lambda x: F.avg_pool1d(x, 4), LINES),
    "max_of_volumes": (lambda x: F.max_pool3d(x, 2), VOLUMES),
    "max_of_padded_volumes": (lambda x: F.max_pool3d(x, 3, 2, 1), VOLUMES),
    "mean_of_padded_volumes": (lambda x: F.avg_pool3d(x, 3, 2, 1), VOLUMES),
}


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def with_gradient(function: Any) -> Any:
    def step(x: Any) -> Any:
        x = x.requires_grad_()
        y = function(x)
        return (y, *ad.autograd.grad((y * y).sum(), (x,)))

    return step


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", CASES)
def test_pooling_of_any_size(name: str) -> None:
    function, sizes = CASES[name]
    step, rank = with_gradient(function), len(sizes[0])
    general = SizedKernels(step, [normal(2, 3, *(12, 15, 17)[:rank])], [tuple(range(2, 2 + rank))])
    assert not any(group.call for group in general.fusion.order)
    for i, size in enumerate(sizes):
        x = normal(2, 3, *size)
        found, wanted = general(x), [y.detach().numpy() for y in step(ad.from_numpy(x))]
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max(), err_msg=str(size))
        if NIGHTLY or i % 3 == 0:  # kernels of one size are compiled for each
            for ours, theirs in zip(found, SizedKernels(step, [x], [()])(x), strict=True):
                np.testing.assert_array_equal(ours, theirs, err_msg=str(size))


def test_the_first_of_equal_elements_and_nan_at_every_edge() -> None:
    step = with_gradient(lambda x: F.max_pool2d(x, 3, 2, 1))
    general = SizedKernels(step, [normal(2, 3, 12, 15)], [(2, 3)])
    for size in ((5, 7), (17, 16), (4, 33)):
        x = np.round(normal(2, 3, *size))
        x[0, 0, 0, -1] = x[1, 2, -1, 0] = np.nan
        for ours, theirs in zip(general(x), SizedKernels(step, [x], [()])(x), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("function", [lambda x: F.max_pool2d(x, 2), lambda x: F.avg_pool2d(x, 3, 2, 1)])
def test_pooling_asks_nothing_of_sizes(function: Any) -> None:
    assert SizedKernels(with_gradient(function), [normal(2, 3, 12, 15)], [(2, 3)]).guards == []

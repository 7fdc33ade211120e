"""Convolutions that serve every height and width: to the bit those made for one size, but for sums over places.

A gradient of a weight adds up places in the lanes of registers: where those made for one size begin a register with
each row, sums are in another order, and equal but for rounding.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.support.symbolic_kernels import SizedKernels

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler.kernels.conv_pool.conv_plan import MAX_BAND_ELEMENTS

NIGHTLY = os.environ.get("ADJOINT_NIGHTLY") == "1"

IMAGES = ((9, 8), (2, 40), (33, 18), (64, 64), (7, 7), (5, 130))
LINES = ((7,), (2,), (40,), (100,), (1000,), (33,))
VOLUMES = ((4, 5, 6), (2, 9, 17), (12, 8, 8))


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def with_gradients(function: Any) -> Any:
    def step(x: Any, w: Any) -> Any:
        x, w = x.requires_grad_(), w.requires_grad_()
        y = function(x, w)
        return (y, *ad.autograd.grad((y * y).sum(), (x, w)))

    return step


CASES: dict[str, tuple[Any, tuple[int, ...], Any]] = {
    "padded": (lambda x, w: F.conv2d(x, w, padding=1), (4, 3, 3, 3), IMAGES),
    "pointwise": (lambda x, w: F.conv2d(x, w), (5, 3, 1, 1), IMAGES),
    "strided": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), (4, 3, 3, 3), IMAGES),
    "tiles": (lambda x, w: F.conv2d(x, w, stride=2), (4, 3, 2, 2), IMAGES),
    "large": (lambda x, w: F.conv2d(x, w, stride=2, padding=3), (4, 3, 7, 7), IMAGES),
    "dilated": (lambda x, w: F.conv2d(x, w, dilation=2, padding=2), (4, 3, 3, 3), IMAGES),
    "patches": (lambda x, w: F.conv2d(x, w, stride=(3, 4), padding=(1, 3)), (4, 3, 4, 5), IMAGES),
    "uneven": (lambda x, w: F.conv2d(x, w, stride=3, dilation=(1, 2), padding=(2, 4)), (4, 3, 3, 5), IMAGES),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=3), (3, 1, 3, 3), IMAGES),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2), (3, 4, 2, 2), IMAGES),
    "transposed_more": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), (3, 4, 3, 3), IMAGES
    ),
    "line": (lambda x, w: F.conv1d(x, w, padding=2), (4, 3, 5), LINES),
    "strided_line": (lambda x, w: F.conv1d(x, w, padding=2, stride=2), (4, 3, 5), LINES),
    "dilated_line": (lambda x, w: F.conv1d(x, w, padding=8, dilation=4), (4, 3, 5), LINES),
    "volume": (lambda x, w: F.conv3d(x, w, padding=1), (4, 3, 3, 3, 3), VOLUMES),
    "strided_volume": (lambda x, w: F.conv3d(x, w, padding=1, stride=2), (4, 3, 3, 3, 3), VOLUMES),
}  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", CASES)
def test_convolutions_of_any_size(name: str) -> None:
    function, shape, sizes = CASES[name]
    step, rank = with_gradients(function), len(shape) - 2
    weight = normal(*shape)
    general = SizedKernels(step, [normal(2, 3, *(12, 15, 7)[:rank]), weight], [tuple(range(2, 2 + rank)), ()])
    assert general.guards == []
    assert not any(group.call for group in general.fusion.order)
    for i, size in enumerate(sizes):
        x = normal(2, 3, *size)
        found = general(x, weight)
        wanted = [y.detach().numpy() for y in step(*(ad.from_numpy(a.astype(np.float64)) for a in (x, weight)))]
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6 * np.abs(theirs).max(), err_msg=str(size))
        if NIGHTLY or i % 3 == 0:  # kernels of one size are compiled for each
            fixed = SizedKernels(step, [x, weight], [(), ()])
            for ours, theirs in zip(found[:2], fixed(x, weight), strict=False):
                np.testing.assert_array_equal(ours, theirs, err_msg=str(size))


def test_one_size_is_a_symbol_and_the_other_a_number() -> None:
    step = with_gradients(lambda x, w: F.conv2d(x, w, padding=1))
    weight = normal(4, 3, 3, 3)
    for dims in ((2,), (3,), (0, 2)):
        general = SizedKernels(step, [normal(2, 3, 12, 20), weight], [dims, ()])
        assert general.guards == []
        for n in (2, 5, 33):
            shape = [2, 3, 12, 20]
            for d in dims:
                shape[d] = n + d
            x = normal(*shape)
            wanted = step(*(ad.from_numpy(a.astype(np.float64)) for a in (x, weight)))
            for ours, theirs in zip(general(x, weight), wanted, strict=True):
                top = np.abs(theirs.detach().numpy()).max()
                np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=0, atol=2e-6 * top)


def test_large_images_go_by_bands_of_any_number_of_rows() -> None:
    step = with_gradients(lambda x, w: F.conv2d(x, w, padding=1))
    weight = normal(4, 8, 3, 3)
    general = SizedKernels(step, [normal(1, 8, 12, 15), weight], [(2, 3), ()])
    for size in ((61, 150), (149, 151), (3, 1400)):
        x = normal(1, 8, *size)
        assert 3 * x.size > MAX_BAND_ELEMENTS
        fixed = SizedKernels(step, [x, weight], [(), ()])
        for ours, theirs in zip(general(x, weight)[:2], fixed(x, weight), strict=False):
            np.testing.assert_array_equal(ours, theirs)


def test_an_image_no_larger_than_the_window_is_a_program_of_its_own() -> None:
    general = SizedKernels(lambda x, w: F.conv2d(x, w), [normal(2, 3, 12, 15), normal(4, 3, 3, 3)], [(2, 3), ()])
    assert general.guards == ["not s0 < 3", "not s1 < 3"]

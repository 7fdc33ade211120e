"""Loop nests that serve every size: to the bit what a kernel made for that size gives, without a guard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.support.symbolic_kernels import SizedKernels, assert_same_bits_for

import adjoint as ad
import adjoint.nn.functional as F

SIZES = (2, 15, 17, 57, 100, 128, 129, 257)  # around registers of lanes, and blocks of sums


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


ALONG_ROWS = {
    "elementwise": lambda x: ad.exp(x) * 2 + x, "of_rows": lambda x: x.sum(1), "of_columns": lambda x: x.sum(0),
    "of_all": lambda x: (x * x).sum(), "softmax": lambda x: x.softmax(1), "softmax_of_columns": lambda x: x.softmax(0),
    "transposed": lambda x: x.t() * 2 + 1, "flipped": lambda x: x.flip(0) + x, "largest": lambda x: x.amax(0),
    "truths": lambda x: ((x > 0).all(), (x > 0).any(0), x > 0.5), "normalized": lambda x: F.layer_norm(x, (10,)),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONG_ROWS)
def test_rows_of_any_number(name: str) -> None:
    kernels = assert_same_bits_for(SIZES, ALONG_ROWS[name], lambda n: [normal(n, 10)], [(0,)])
    assert kernels.guards == []


@pytest.mark.parametrize("function", [lambda x: (x * x).sum(), lambda x: x.softmax(0), lambda x: x.exp() * x])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lines_of_any_length(function: Any, dtype: Any) -> None:
    kernels = assert_same_bits_for(SIZES, function, lambda n: [normal(n).astype(dtype)], [(0,)])
    assert kernels.guards == []


@pytest.mark.parametrize("function", [lambda x: x.softmax(1), lambda x: x.exp() * x, lambda x: x.t().exp()])
def test_short_rows_of_any_length(function: Any) -> None:
    kernels = assert_same_bits_for(SIZES, function, lambda n: [normal(6, n)], [(1,)])
    assert kernels.guards == []


@pytest.mark.parametrize("function", [lambda x: x.softmax(1), lambda x: (x - x.sum(1, keepdim=True)).square().sum(1)])
def test_short_rows_stay_in_registers_whether_they_fill_them_or_not(function: Any) -> None:
    sizes = (2, 3, 4, 7, 8, 9, 13, 16, 17, 24, 25, 31, 32, 33, 64)  # around one and two registers of 4, 8 and 16 lanes
    kernels = assert_same_bits_for(sizes, function, lambda n: [normal(6007, n)], [(1,)], traced=40)
    assert kernels.guards == []
    assert max(kernel.tiles for kernel in kernels.kernels.values()) > 1  # which one and two rows at once must share


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: ad.exp(x) * 2 + x, (784,)),
        (lambda x: x.sum(1), (784,)),
        (lambda x: (x * 2).sum(0), (3000,)),
        (lambda x: x.sum((0, 2)), (3, 500)),
        (lambda x: x.softmax(1), (500,)),
    ],
)
def test_tiles_are_those_of_the_traced_size_and_share_any_other(function: Any, shape: tuple[int, ...]) -> None:
    kernels = assert_same_bits_for((2, 17, 100, 1000), function, lambda n: [normal(n, *shape)], [(0,)], traced=600)
    assert kernels.guards == []
    assert max(kernel.tiles for kernel in kernels.kernels.values()) > 1


def test_integers_and_operands_that_are_spread() -> None:
    def function(x: Any, y: Any) -> Any:
        return x.sum(0), x.sum(), x.amax(1), (x.unsqueeze(1) * y).sum(1)

    def make(n: int) -> list[Any]:
        return [np.random.default_rng(n).integers(-9, 9, (n, 10)), np.arange(30).reshape(3, 10)]

    assert assert_same_bits_for(SIZES, function, make, [(0,), ()]).guards == []


def test_two_sizes() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x.unsqueeze(1) * y.unsqueeze(0)).sum(1) + x, (x.unsqueeze(1) - y.unsqueeze(0)).abs().amax(0)

    kernels = assert_same_bits_for((2, 17, 100), function, lambda n: [normal(n, 10), normal(n + 1, 10)], [(0,), (0,)])
    assert kernels.guards == []


@pytest.mark.parametrize("traced", [(8, 11), (40, 33), (3, 300)])
@pytest.mark.parametrize("axes", [(0, 2, 3), (2, 3), (0, 1, 3)])
def test_sums_of_images_go_by_blocks_of_as_many_rows_as_each_size_has(axes: Any, traced: tuple[int, int]) -> None:
    """A block has few rows of large images, many of small ones, and there is none of a row that is a block itself."""

    def function(x: Any) -> Any:
        largest = x.amax(axes, keepdim=True)
        return x.sum(axes), (x - largest).exp().sum(axes)

    general = SizedKernels(function, [normal(4, 3, *traced)], [(2, 3)])
    assert general.guards == []
    for size in ((2, 3), (8, 11), (40, 33), (64, 64), (3, 300), (200, 7), (12, 130)):
        x = normal(4, 3, *size)
        for ours, theirs in zip(general(x), SizedKernels(function, [x], [()])(x), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-5)

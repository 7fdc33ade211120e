"""Sums keep the digits of their type: halves are added in float32, columns in blocks, and masks without a wide copy."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.core.op.eager_kernels import eager_kernels
from adjoint.ops.reduction.reduction import sum_array_to
from adjoint.ops.reduction.summation import BLOCK_ROWS, MIN_ROWS, add_up

Reduction = Callable[[Any], Any]
HALF_OF_ONES: dict[str, tuple[Reduction, float]] = {
    "sum": (lambda x: x.sum(0), 4096.0),
    "mean": (lambda x: x.mean(0), 1.0),
    "std": (lambda x: x.std(0), 0.0),
    "var": (lambda x: x.var(0), 0.0),
    "norm": (lambda x: x.norm(dim=0), 64.0),
    "logsumexp": (lambda x: x.logsumexp(0), 9.3203125),
    "softmax": (lambda x: x.softmax(0).sum(0), 1.0),
    "cumsum": (lambda x: x.cumsum(0)[-1], 4096.0),
    "prod": (lambda x: x.prod(0), 1.0),
    "matrix_norm": (lambda x: x.abs().sum(0), 4096.0),
    "all": (lambda x: x.T.sum(1), 4096.0),
}


@pytest.mark.parametrize("name", HALF_OF_ONES)
def test_halves_are_added_in_float32(name: str) -> None:
    function, wanted = HALF_OF_ONES[name]
    x = ad.ones(4096, 2, dtype=ad.float16)
    for form in (function, ad.compile(function)):
        out = form(x)
        assert out.dtype == ad.float16
        np.testing.assert_allclose(out.numpy(), [wanted, wanted], rtol=1e-3)


def test_more_halves_than_halves_can_count() -> None:
    x = ad.ones(100_000, dtype=ad.float16)
    for mean in (lambda x: x.mean(), ad.compile(lambda x: x.mean())):
        assert mean(x).item() == 1.0
    assert F.layer_norm(x, (100_000,)).abs().max().item() == 0.0
    assert x.var().item() == 0.0
    assert x.sum().isinf()


def layouts(x: Any) -> list[tuple[Any, tuple[int, ...]]]:
    """The array with its rows in other dimensions, and the dimensions to add over."""
    rows, columns = x.shape
    cut = rows // 4 * 4
    return [
        (x, (0,)),
        (x.T, (1,)),
        (x[:cut].reshape(4, cut // 4, columns), (0, 1)),
        (x[:cut].reshape(4, cut // 4, columns), (1,)),
        (x[:cut].reshape(4, cut // 4, columns).transpose(0, 2, 1), (2,)),
        (x[:cut].reshape(4, cut // 4, columns).transpose(1, 0, 2), (0,)),
        (x[::2], (0,)),
        (x[None], (0, 1)),
        (x, (0, 1)),
        (x, ()),
    ]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("rows", [1, MIN_ROWS - 1, MIN_ROWS, MIN_ROWS + 77, BLOCK_ROWS**2 * 3 + 5])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_of_every_layout(rows: int, keepdims: bool, dtype: Any) -> None:
    numbers = np.random.default_rng(0)
    for columns in (1, 3, 150):
        x = numbers.random((rows, columns)).astype(dtype)
        for laid, axes in layouts(x):
            wide = np.complex128 if dtype is np.complex64 else np.float64
            wanted = laid.sum(axes, dtype=wide, keepdims=keepdims)
            out = np.asarray(add_up(laid, axes, keepdims))
            assert out.shape == wanted.shape
            np.testing.assert_allclose(out, wanted, rtol=1e-13 if dtype is np.float64 else 2e-6)


def test_what_repeats_is_multiplied() -> None:
    x = np.broadcast_to(np.array([1.5, np.inf, -0.0], np.float32), (20_000, 3))
    assert add_up(x, (0,), False).tolist() == [30_000.0, np.inf, 0.0]
    assert add_up(x, (0,), True).shape == (1, 3)
    assert add_up(np.broadcast_to(np.float32(0.1), (300, 300)), (0, 1), False) == np.float32(90_000 * np.float32(0.1))
    integers = np.broadcast_to(np.array([2**62]), (20_000, 1))
    assert add_up(integers, (0,), False).tolist() == integers.sum(0).tolist()


MANY = 2**24 + 1000  # ones, of which a sum in float32 comes to an end
OF_COLUMNS: dict[str, tuple[Reduction, float]] = {
    "sum": (lambda x: x.sum(0), MANY),
    "mean": (lambda x: x.mean(0), 1.0),
    "transposed": (lambda x: x.t().sum(1), MANY),
    "norm": (lambda x: x.norm(dim=0), MANY**0.5),
    "var": (lambda x: x.var(0), 0.0),
    "cumsum": (lambda x: x.cumsum(0)[-1], MANY),
}


@pytest.mark.parametrize("name", OF_COLUMNS)
def test_long_columns(name: str) -> None:
    function, wanted = OF_COLUMNS[name]
    np.testing.assert_allclose(function(ad.ones(MANY, 1)).item(), wanted, rtol=1e-6)


def test_the_gradient_of_a_bias_of_many_rows() -> None:
    bias = ad.zeros(1, requires_grad=True)
    (ad.ones(1, 1).expand(MANY, 1) + bias).sum().backward()
    assert bias.grad is not None
    assert bias.grad.item() == MANY


@pytest.mark.parametrize("mean", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_variances_around_large_means(dim: Any, mean: float) -> None:
    x = np.random.default_rng(0).normal(mean, 1.0, (64, 4096)).astype(np.float32)
    wanted = x.astype(np.float64).var(dim, ddof=1)
    for function in (lambda x: x.var(dim), lambda x: x.std(dim) ** 2, ad.compile(lambda x: x.var(dim))):
        np.testing.assert_allclose(function(ad.from_numpy(x)).numpy(), wanted, rtol=2e-6)


WIDENING: dict[str, Reduction] = {
    "sum": lambda x: x.sum(),
    "sum_0": lambda x: x.sum(0),
    "sum_1": lambda x: x.sum(1, keepdim=True),
    "sum_double": lambda x: x.sum(dtype=ad.float64),
    "sum_int32": lambda x: x.sum(dtype=ad.int32),
    "prod": lambda x: x.prod(1),
    "prod_double": lambda x: x.prod(dtype=ad.float64),
    "mean_double": lambda x: x.mean(dtype=ad.float64),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", [ad.bool, ad.uint8, ad.int8, ad.int16, ad.int32], ids=str)
@pytest.mark.parametrize("name", WIDENING)
def test_no_wide_copy_is_made(name: str, dtype: Any) -> None:
    function = WIDENING[name]
    x = ad.from_numpy(np.random.default_rng(0).integers(0, 3, (500, 400))).to(dtype)
    wide = x.to(ad.float64 if name.endswith("double") else ad.int32 if name.endswith("int32") else ad.int64)
    tracemalloc.start()
    out = function(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.numel() // 2
    wanted = function(wide)
    assert out.dtype == wanted.dtype
    assert out.tolist() == wanted.tolist()
    compiled = ad.compile(function)(x)
    assert compiled.dtype == out.dtype
    np.testing.assert_allclose(compiled.numpy(), out.numpy())


def test_a_conversion_that_wants_a_gradient_is_recorded() -> None:
    x = ad.ones(3, dtype=ad.float32, requires_grad=True)
    total = x.sum(dtype=ad.float64)
    assert total.dtype == ad.float64
    total.backward()
    assert x.grad is not None
    assert x.grad.dtype == ad.float32
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def bias_gradient(x: Any) -> Any:
    bias = ad.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    return ad.autograd.grad(x + bias, bias, x)[0]


def linear_bias_gradient(x: Any) -> Any:
    bias = ad.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    return ad.autograd.grad(F.linear(x, ad.eye(x.shape[1], dtype=x.dtype), bias), bias, x)[0]


FOLDS: dict[str, Reduction] = {
    "sum": lambda x: x.sum(0),
    "sum of all": lambda x: x.sum(),
    "sum of rows": lambda x: x.mT.contiguous().sum(1),
    "mean": lambda x: x.mean(0),
    "var": lambda x: x.var(0),
    "var of rows": lambda x: x.mT.contiguous().var(1),
    "var around 1000": lambda x: (x.float() + 1000.0).var(0).to(x.dtype),
    "norm": lambda x: x.norm(dim=0),
    "norm of all": lambda x: x.norm(),
    "logsumexp": lambda x: x.logsumexp(0),
    "cumsum": lambda x: x.cumsum(0)[-1],
    "bias": bias_gradient,
    "bias of a linear layer": linear_bias_gradient,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", FOLDS)
def test_errors_are_a_few_roundings_whatever_the_length(name: str, dtype: Any) -> None:
    """PyTorch's are below half a rounding in all of these, but for its norms, which lose a hundred times as much."""
    function = FOLDS[name]
    compiled = ad.compile(function)
    errors = []
    for seed in range(5):
        rows = 100_000 if dtype is np.float32 else 50_000
        x = np.random.default_rng(seed).random((rows, 2), np.float32).astype(dtype)
        wide = ad.from_numpy(x.astype(np.float64))
        exact = function(wide).numpy()
        if name == "var around 1000":  # of what float32 makes of the sum
            exact = (x.astype(np.float32) + np.float32(1000)).astype(np.float64).var(0, ddof=1)
        found = [call(ad.from_numpy(x)).numpy().astype(np.float64) for call in (function, compiled)]
        errors.append([np.abs(values / exact - 1.0).max() / np.finfo(dtype).eps for values in found])
    assert (np.median(errors, axis=0) <= 2.0).all()


@pytest.mark.parametrize("name", FOLDS)
def test_bits_do_not_depend_on_the_number_of_threads(name: str) -> None:
    function = FOLDS[name]
    compiled = ad.compile(function)
    x = ad.from_numpy(np.random.default_rng(0).random((100_001, 3), np.float32))
    before = ad.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            ad.set_num_threads(threads)
            found.append([call(x).numpy().tobytes() for call in (function, compiled)])
    finally:
        ad.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("with_kernels", [True, False])
@pytest.mark.parametrize("shape", [(), (3,), (1, 3)])
def test_the_gradient_of_what_was_broadcast_is_an_array(shape: tuple[int, ...], with_kernels: bool) -> None:
    with eager_kernels(with_kernels):
        found = sum_array_to(np.ones((5, 4, 3), np.float32), shape)
        x = ad.ones(shape, requires_grad=True)
        (ad.ones(5, 4, 3) + x.amax().expand(shape)).sum().backward()
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, np.full(shape, 60 / max(np.prod(shape), 1)))
    assert x.grad is not None
    assert x.grad.sum().item() == pytest.approx(60)

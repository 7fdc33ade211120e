"""Native sums, differences, products and quotients have NumPy's values, bit for bit, and leave it the rest."""

from __future__ import annotations

import itertools
import operator
import sys
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.elementwise_kernels import MAX_CALLS_WITHOUT_KERNEL, ArithmeticKernel

pytest.importorskip("llvmlite")
from adjoint.compiler.kernels.small_arrays.broadcast_arithmetic import MAX_RANK, OPERATIONS
from adjoint.compiler.kernels.small_arrays.entry import MAX_GIL_ELEMENTS
from adjoint.compiler.kernels.small_arrays.loading import arithmetic

SHAPES = [
    (), (1,), (3,), (4, 1), (4, 3), (1, 3), (2, 4, 3), (2, 1, 3), (2, 4, 1), (1, 1, 1), (0,), (0, 3), (1, 0), (17,),
    (33, 17), (33, 1), (5, 33, 17), (2, 1, 4, 1, 3), (1, 5, 1, 2, 1), (2, 5, 4, 2, 3),
]  # fmt: skip
NUMBERS = [2.0, -0.5, 3, -1, 0, -0.0, 1e300, 2**60, True, float("inf"), float("nan"), 1e-320]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e-40]


def _draw(shape: tuple[int, ...], dtype: type) -> Any:
    x = np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)
    x.flat[::5] = np.resize(SPECIAL, x.flat[::5].shape)
    return x


def _assert_same(found: Any, expected: Any) -> None:
    assert np.shape(found) == np.shape(expected)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found, expected)
    if np.asarray(expected).dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", OPERATIONS)
def test_same_values_as_numpy(name: str, dtype: type) -> None:
    ufunc = getattr(np, name)
    native = arithmetic(name, ufunc)
    assert native is not None
    with np.errstate(all="ignore"):
        for a, b in itertools.product(SHAPES, SHAPES):
            x, y = _draw(a, dtype), _draw(b, dtype)
            if all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False)):
                _assert_same(native(x, y), ufunc(x, y))
            else:
                with pytest.raises(ValueError, match="could not be broadcast"):
                    native(x, y)
        x = _draw((4, 3), dtype)
        for number in NUMBERS:
            _assert_same(native(x, number), ufunc(x, number))
            _assert_same(native(number, x), ufunc(number, x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [2, 3, 5, 8, 11, 15, 31])
@pytest.mark.parametrize("lead", [(513,), (64, 9), (3, 7, 30), (700, 2)], ids=str)
def test_rows_shorter_than_a_register_and_parts_of_rows(lead: tuple[int, ...], length: int, dtype: type) -> None:
    native = arithmetic("divide", np.divide)
    assert native is not None
    x, row, column = (_draw(shape, dtype) for shape in ((*lead, length), (length,), (*lead, 1)))
    wide = _draw((*lead, length + 3), dtype)
    inner = wide[..., 1 : length + 1]
    pairs = [
        (x, row), (row, x), (x, column), (column, x), (column, row), (row, column), (inner, x), (x, inner),
        (inner, wide[..., 3:]), (inner, row), (column, inner), (x[..., :1], inner), (inner, 2.0), (0.5, inner),
        (x[::2], row), (x[::-1], x), (inner[::3], inner[::3]), (x[..., ::2], x[..., ::2]),
        (np.broadcast_to(row, x.shape), x), (x, wide[..., 4:5]), (x[0], inner), (inner[:0], x[:0]),
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        for a, b in pairs:
            found, expected = native(a, b), np.divide(a, b)
            _assert_same(found, expected)
            assert found.strides == expected.strides


def test_numpy_computes_what_is_not_for_the_native_function() -> None:
    native = arithmetic("add", np.add)
    assert native is not None
    x = _draw((6, 4), np.float32)
    for operands in (
        (x.T, x.T), (x[::2], x[1::2]), (x[:, ::2], 2.0), (x, x.astype(np.float64)), (np.arange(3), 2), (2, 3.5),
        (x > 0, x > 0), (x, np.float64(0.1)), (x, 1 + 2j), (np.ones((1,) * (MAX_RANK + 1), np.float32), x),
    ):  # fmt: skip
        _assert_same(native(*operands), np.add(*operands))
    assert native(x.T, x.T).strides == np.add(x.T, x.T).strides
    with pytest.raises(OverflowError):
        native(x, 10**400)
    with pytest.raises(TypeError):
        native(x, object())


def test_large_arrays_and_references() -> None:
    native = arithmetic("multiply", operator.mul)
    assert native is not None
    x = np.random.default_rng(0).normal(size=(300, 120, 2)).astype(np.float32)
    assert x.size > MAX_GIL_ELEMENTS
    _assert_same(native(x, x[:, :1]), x * x[:, :1])
    _assert_same(native(x, x), x * x)
    before = sys.getrefcount(x)
    for _ in range(100):
        native(x[:1], x[:1])
        native(x[:1], 2.0)
        native(3, x[:1])
    assert sys.getrefcount(x) == before


def test_it_comes_after_many_calls_or_with_the_first_large_array() -> None:
    small, large = np.ones(2, np.float32), np.ones(1024, np.float32)
    counted, sized = ArithmeticKernel("add", np.add), ArithmeticKernel("add", np.add)
    for _ in range(MAX_CALLS_WITHOUT_KERNEL):
        counted.call(small, 1.0)
    first = counted.call
    counted.call(small, 1.0)
    sized.call(large, 1.0)
    assert counted.call is sized.call is arithmetic("add", np.add)
    assert first is not counted.call


def test_gradients_of_a_broadcast_with_short_rows() -> None:
    x = ad.full((40, 1, 2), 1.5, dtype=ad.float64, requires_grad=True)
    y = ad.linspace(1, 2, 80, dtype=ad.float64).reshape(1, 40, 2).requires_grad_()
    (x * y - x / y + y).sum().backward()
    values = y.detach().numpy()
    np.testing.assert_allclose(x.grad, np.broadcast_to((values - 1 / values).sum(1, keepdims=True), (40, 1, 2)))
    np.testing.assert_allclose(y.grad, 40 * (1.5 + 1.5 / values**2 + 1))

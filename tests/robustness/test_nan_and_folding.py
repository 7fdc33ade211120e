"""NaN that belongs to nobody's gradient, and formulas that may not be simplified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

# each is finite at 1, and has no finite value or gradient at the other point
BRANCHES: dict[str, tuple[Callable[[Any], Any], float]] = {
    "sqrt": (lambda x: x.sqrt(), -1.0), "sqrt at 0": (lambda x: x.sqrt(), 0.0), "log": (lambda x: x.log(), 0.0),
    "exp": (lambda x: (x * 1000.0).exp(), 100.0), "quotient": (lambda x: x / (x * 0.0 + (x - x)), 2.0),
    "power": (lambda x: x**-2.0, 0.0), "asin": (lambda x: x.asin(), 3.0), "norm": (lambda x: x.abs().sqrt() / x, 0.0),
}  # fmt: skip


@pytest.mark.claim("P6")
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("form", ["where", "where, swapped", "masked_fill", "where, of a shared trunk"])
@pytest.mark.parametrize("branch", BRANCHES)
def test_the_branch_not_taken_gives_no_nan(branch: str, form: str, second: bool, dtype: Any) -> None:
    f, bad = BRANCHES[branch]
    x = ad.tensor([bad, 3.0], dtype=dtype, requires_grad=True)
    chosen = ad.tensor([True, True])
    if form == "where":
        y = ad.where(chosen, x * x, f(x * 1.0))
    elif form == "where, swapped":
        y = ad.where(~chosen, f(x), x * x)
    elif form == "masked_fill":
        y = f(x).masked_fill(chosen, 0.0) + x * x
    else:
        trunk = x * 1.0
        y = ad.where(chosen, trunk * trunk, f(trunk) * trunk)
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=second)
    assert g.tolist() == [2.0 * bad, 6.0]
    if second:
        (gg,) = ad.autograd.grad(g.sum(), x)
        assert gg.tolist() == [2.0, 2.0]


@pytest.mark.claim("P6")
def test_a_nan_in_the_branch_taken_stays() -> None:
    x = ad.tensor([-1.0, 4.0], requires_grad=True)
    ad.where(ad.tensor([True, False]), x.sqrt(), x).sum().backward()
    assert np.isnan(x.grad.numpy()[0])
    assert x.grad[1].item() == 1.0


INF, NAN = float("inf"), float("nan")


@pytest.mark.claim("P12")
@pytest.mark.parametrize("size", [1, 67])
@pytest.mark.parametrize(
    ("f", "at", "expected"),
    [
        (lambda x: x - x, INF, NAN),
        (lambda x: x - x, NAN, NAN),
        (lambda x: x / x, 0.0, NAN),
        (lambda x: x / x, INF, NAN),
        (lambda x: x * 0.0, INF, NAN),
        (lambda x: x * 0.0, -1.0, -0.0),
        (lambda x: x + 0.0, -0.0, 0.0),
        (lambda x: x + 1e20 - 1e20, 3.0, 0.0),
        (lambda x: (x != x) * 1.0, NAN, 1.0),
        (lambda x: (x == x) * 1.0, NAN, 0.0),
        (lambda x: ad.isnan(x) * 1.0, NAN, 1.0),
        (lambda x: ad.isinf(x) * 1.0, -INF, 1.0),
        (lambda x: ad.isfinite(x) * 1.0, NAN, 0.0),
        (lambda x: 1.0 / (1.0 / x), -0.0, -0.0),
        (lambda x: x * (1.0 / x), 0.0, NAN),
        (lambda x: ad.sqrt(x * x), -1e200, INF),
    ],
)
def test_nothing_is_folded(f: Callable[[Any], Any], at: float, expected: float, size: int) -> None:
    eager = f(ad.full((size,), at, dtype=ad.float64)).numpy()
    np.testing.assert_array_equal(eager, np.full(size, expected))
    np.testing.assert_array_equal(np.signbit(eager[~np.isnan(eager)]), np.signbit(expected))
    compiled = ad.compile(f)(ad.full((size,), at, dtype=ad.float64)).numpy()
    np.testing.assert_array_equal(compiled, eager)
    np.testing.assert_array_equal(np.signbit(compiled[~np.isnan(eager)]), np.signbit(eager[~np.isnan(eager)]))


@pytest.mark.claim("P12")
def test_nothing_is_folded_in_backward() -> None:
    x = ad.tensor([INF, 0.0, 2.0], dtype=ad.float64, requires_grad=True)
    (x / x).sum().backward()  # g / x - g x / x²
    np.testing.assert_array_equal(x.grad.numpy(), [NAN, NAN, 0.0])

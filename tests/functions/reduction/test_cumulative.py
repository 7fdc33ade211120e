"""Cumulative sums, products and extremes against PyTorch: values, gradients, names of nodes."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_node

import adjoint as ad

X = np.cos(np.arange(24.0)).reshape(2, 3, 4)
M = np.sin(np.arange(12.0)).reshape(3, 4)
V = np.array([0.5, -1.0, 2.0, 0.0, 3.0])
K = np.array([[True, False], [True, True]])
GIVEN = {"x": X, "m": M, "v": V, "s": np.array(1.5), "n": np.array([3, 1, 2]), "k": K}


@pytest.mark.parametrize("expression", [
    "v.cumprod(0)", "t.cumprod(x, 1)", "n.cumprod(0)", "k.cumprod(0)", "s.cumprod(0)",
    "m.detach().cumprod(1, dtype=t.float32)", "(m * 1).cumprod_(0)", "(m * 1).cumsum_(0)", "v.logcumsumexp(0)",
    "x.logcumsumexp(-1)", "(x * 1000).logcumsumexp(0)", "s.logcumsumexp(0)", "t.logcumsumexp(v.detach() - inf, 0)",
    "v.cummax(0)", "t.cummin(x, 2)", "s.cummax(0)", "n.cummax(0)", "t.cummax(t.tensor([1.0, nan, 2.0]), 0)",
    "t.cummin(t.cat([v, v]), 0)",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, **GIVEN)


@pytest.mark.parametrize("zeros", [(), (1,), (0, 3), (4,)])
def test_the_products_of_zeros_are_differentiated_twice(zeros: tuple[int, ...]) -> None:
    array = np.array([0.5, -1.0, 2.0, 1.5, 3.0])
    array[list(zeros)] = 0
    x: Any = ad.tensor(array, requires_grad=True)
    assert ad.autograd.gradcheck(lambda x: x.cumprod(0), (x,))
    assert ad.autograd.gradgradcheck(lambda x: x.cumprod(0), (x,))


@pytest.mark.parametrize("expression", ["m.cumprod(0)", "m.logcumsumexp(0)", "m.cummax(0)[0]", "m.cummin(1)[0]"])
def test_nodes_are_named_as_in_pytorch(expression: str) -> None:
    same_node(expression, **GIVEN)

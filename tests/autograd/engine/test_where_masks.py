"""`where` sends no gradient into the branch that was not chosen, whatever the slopes behind it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import grad

needs_llvmlite = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="needs llvmlite")
WAYS = [pytest.param(False, id="eager"), pytest.param(True, marks=needs_llvmlite, id="compiled")]


def rows_of_length_above_zero(a: Any) -> Any:
    length = (a * a).sum(1).sqrt()
    return ad.where(length > 0, length, 0.0)


# what is chosen, the argument, and the gradient of the sum
CASES: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "overflow": (lambda a: ad.where(a <= 0, a.exp(), 1 + a), [100.0, -1.0], [1.0, np.exp(-1.0)]),
    "sqrt at 0": (lambda a: ad.where(a > 0, a.sqrt(), 0.0 * a), [0.0, 4.0], [0.0, 0.25]),
    "a chain": (lambda a: ad.where(a > 0, 1 / (a * a).sqrt().log(), a), [0.0, np.e], [1.0, -1 / np.e]),
    "log under a mask": (lambda a: a.log().masked_fill(a <= 0, 0.0), [0.0, 2.0], [0.0, 0.5]),
    "both branches": (lambda a: ad.where(a > 0, a.sqrt(), (-a).sqrt()), [4.0, -4.0], [0.25, -0.25]),
    "nested": (lambda a: ad.where(a > 1, ad.where(a > 2, a, 1 / (a - 3)), a.log()), [3.0, 1.0], [1.0, 1.0]),
    "under activations": (
        lambda a: ad.where(a > 1, a, ad.nn.functional.gelu(ad.nn.functional.leaky_relu((a * a * 100).exp()))),
        [3.0, 2.0],
        [1.0, 1.0],
    ),
    "under prelu": (lambda a: ad.where(a > 1, a, ad.prelu((a * 100).exp(), ad.tensor([0.25]))), [8.0, 2.0], [1.0, 1.0]),
    "through a reduction": (
        rows_of_length_above_zero,
        [[0.0, 0.0], [3.0, 4.0]],
        [[0.0, 0.0], [0.6, 0.8]],
    ),
    "through movements": (
        lambda a: ad.where(a.view(1, 2) > 0, a.log().view(2, 1).t(), 0.0),
        [0.0, 2.0],
        [0.0, 0.5],
    ),
    "broadcast": (
        lambda a: ad.where(ad.tensor([[True, False], [True, False]]), a.log(), 1.0),
        [2.0, 0.0],
        [1.0, 0.0],
    ),
    "a condition of fewer dimensions": (
        lambda a: ad.where(ad.tensor([False, True]), a.view(2, 1, 1).log(), 1.0),
        [2.0, 4.0],
        [0.5, 0.25],
    ),
    "a broadcast that is chosen once": (
        lambda a: ad.where(ad.tensor([[True, False], [False, False]]), a.log(), 1.0),
        [2.0, 0.0],
        [0.5, 0.0],
    ),
}


def gradient(function: Callable[[Any], Any], at: Any) -> Any:
    x = at.detach().requires_grad_()
    (g,) = grad(function(x).sum(), x)
    return g


@pytest.mark.claim("U10")
@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize(("function", "at", "expected"), CASES.values(), ids=CASES.keys())
def test_the_other_branch_gets_exactly_nothing(function: Any, at: Any, expected: Any, compiled: bool) -> None:
    run = ad.compile(gradient) if compiled else gradient
    found = run(function, ad.tensor(np.array(at, np.float32)))
    np.testing.assert_allclose(found.numpy(), np.array(expected, np.float32), rtol=1e-6)


@pytest.mark.claim("U10")
def test_it_holds_for_the_second_derivative() -> None:
    x = ad.tensor([100.0, -1.0], requires_grad=True)
    (g,) = grad(ad.where(x <= 0, x.exp(), 1 + x).sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x)
    np.testing.assert_allclose(h.numpy(), [0.0, np.exp(-1.0)], rtol=1e-6)


def test_a_gradient_that_joins_without_a_mask_counts_everywhere() -> None:
    x = ad.tensor([0.0, 4.0], requires_grad=True)
    root = x.sqrt()
    y = ad.where(x > 0, root, 0.0) + 0.0 * root  # the second use asks for the slope at 0
    y.sum().backward()
    assert np.isnan(x.grad.numpy()).tolist() == [True, False]


def test_two_masks_leave_out_what_both_leave_out() -> None:
    x = ad.tensor([0.0, 4.0, 9.0], requires_grad=True)
    root = x.sqrt()
    first = ad.where(ad.tensor([False, True, False]), root, 0.0)
    second = ad.where(ad.tensor([False, False, True]), root, 0.0)
    (first + second).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.0, 0.25, 1 / 6], rtol=1e-6)


def test_a_zero_that_was_chosen_still_meets_an_infinite_slope() -> None:
    x = ad.tensor([0.0], requires_grad=True)
    (0.0 * ad.where(ad.tensor([True]), x.sqrt(), 1.0)).sum().backward()
    assert np.isnan(x.grad.item())


@pytest.mark.parametrize("at", [-1.0, 1.0, 3.0])
def test_masks_of_numbers(at: float) -> None:
    x = ad.tensor(at, requires_grad=True)
    inner = ad.where(x > 0, (x * 100.0).exp().sin(), 0.0)
    (g,) = ad.autograd.grad(ad.where(x > 2, 2.0, inner), x)
    assert (g.item() == 0.0) == (at != 1.0)


def test_masks_of_a_long_chain_are_not_followed_by_recursion_alone() -> None:
    x = ad.tensor([-1.0, 1.0], requires_grad=True)
    y = x
    for _ in range(2000):
        y = ad.where(x > 0, y, 0.0).reshape(2, 1).reshape(2)
    (g,) = ad.autograd.grad((y * 1.0).sum(), x)
    assert g.tolist() == [0.0, 1.0]

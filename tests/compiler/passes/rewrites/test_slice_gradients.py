"""Gradients of slices, merged: the values of the sum of arrays, from fewer equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.tracing import graph_of, values

import adjoint as ad
from adjoint.compiler.passes.rewrites.slice_gradients import merge_slices
from adjoint.compiler.passes.simplify import apply_rules, eliminate_dead_code

pytest.importorskip("llvmlite")

# How a function of x reads it, and how many arrays as large as x, zero but for a slice, its gradient adds then.
READS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "rows": (lambda x: sum(x[i].exp() for i in range(6)), 0),
    "columns backwards": (lambda x: sum(x[:, i].exp() for i in reversed(range(8))), 0),
    "halves": (lambda x: x[:, :4].exp() * x[:, 4:], 0),
    "all but one": (lambda x: sum(x[:, i].exp() for i in range(8) if i != 3), 2),
    "patches": (lambda x: sum(x[i : i + 2, j : j + 4].exp().sum() for i in (0, 2, 4) for j in (0, 4)), 0),
    "windows": (lambda x: sum(x[:, i : i + 3].exp() for i in range(6)), 3),
    "twice": (lambda x: sum(x[i].exp() * x[i] for i in range(6)) + sum(x[i].sin() for i in range(6)), 0),
    "every other": (lambda x: x[:, ::2].exp() * x[:, 1::2], 2),
    "one alone": (lambda x: x[2].exp(), 1),
    "beside others": (lambda x: sum(x[i].exp() * x.sin().sum() for i in range(6)), 0),
    "empty ones": (lambda x: sum(x[i : i + n].exp().sum() for i, n in ((0, 3), (3, 0), (3, 3))), 0),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", READS)
def test_slices_side_by_side_are_joined(name: str, dtype: Any) -> None:
    read, left = READS[name]
    x = np.linspace(-1, 1, 48, dtype=dtype).reshape(6, 8)

    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_()
        (found,) = ad.autograd.grad(read(x).sum(), x)
        return found

    before = apply_rules(graph_of(gradient, x))
    after = eliminate_dead_code(merge_slices(before), checked=False)
    assert sum(v.op.name == "unslice" for v in after.equations if v.shape == x.shape) == left
    np.testing.assert_allclose(values(after, x)[0], values(before, x)[0], rtol=1e-6 if dtype == np.float32 else 1e-14)
    np.testing.assert_allclose(ad.compile(gradient)(ad.from_numpy(x)).numpy(), gradient(ad.from_numpy(x)).numpy(), 1e-5)


def test_a_slice_that_others_read_stays() -> None:
    def both(x: Any) -> Any:
        made = ad.zeros(4, 2)
        first, second = (
            ad.autograd.grad(f(made.requires_grad_()).sum(), made)[0]
            for f in (lambda m: m[:2] * x[0], lambda m: m[2:] * x[1])
        )
        return first + second, first

    graph = apply_rules(graph_of(both, np.ones((2, 2), np.float32)))
    assert merge_slices(graph) is graph


def test_one_program_serves_all_batch_sizes() -> None:
    step = ad.compile(lambda x, w: ad.autograd.grad(sum((x[:, t] @ w).tanh().square().sum() for t in range(5)), x))
    for size in (3, 4, 7, 9):
        x, w = ad.rand(size, 5, 4, requires_grad=True), ad.rand(4, 4)
        (expected,) = ad.autograd.grad(sum((x[:, t] @ w).tanh().square().sum() for t in range(5)), x)
        assert ad.allclose(step(x, w)[0], expected)
    assert step.compilations == 2


def test_symbolic_positions_stay() -> None:
    def gradient(x: Any) -> Any:
        (found,) = ad.autograd.grad((x[:, 0].exp() * x[:, 1] + x[:, -1].sin()).sum(), x)
        return found

    step = ad.compile(gradient)
    for size in (3, 4, 7, 9):
        x = ad.rand(size, size + 2, requires_grad=True)
        assert ad.allclose(step(x), gradient(x))
    assert step.compilations == 2

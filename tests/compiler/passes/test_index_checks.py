"""Checks of indices: where nobody has checked them, once for each range, and with an error from the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.tracing import graph_of, names, values

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler.ir.graph import Graph
from adjoint.compiler.passes.index_checks import insert_index_checks
from adjoint.compiler.passes.simplify import rewrite

X = np.arange(35.0, dtype=np.float32).reshape(7, 5)
GOOD, BAD = np.array([0, -7, 6]), np.array([0, -8, 6])


def graph(function: Any, *arrays: Any) -> Graph:
    made = insert_index_checks(rewrite(graph_of(function, *arrays)))
    made.verify()
    return made


def put(x: Any, i: Any) -> Any:
    y = x.clone()
    y[i] = 1.0
    return y


def sloped(x: Any, i: Any) -> Any:
    x = x.detach().requires_grad_()
    (slope,) = ad.autograd.grad((x[i] * x[i]).sum(), x)
    return slope


@pytest.mark.parametrize(
    ("function", "checks"),
    [
        (lambda x, i: x[i], 1),
        (lambda x, i: x[i] + x[i].sum(), 1),
        (lambda x, i: x[i].sum() + x.T.clone()[:, i].sum(), 1),
        (lambda x, i: x.reshape(5, 7)[:, i], 1),
        (lambda x, i: x[i.reshape(1, 3)] + x[i.flip(0)], 2),
        (put, 1),
        (sloped, 1),
        (lambda x, i: x[[1, 2]] + x[0], 0),
        (lambda x, i: x[ad.arange(7)], 0),
        (lambda x, i: x.index_select(0, i.abs() % 7), 1),  # which has a check of its own
        (lambda x, i: ad.take(x, i.abs()), 1),
        (lambda x, i: F.embedding(i.abs() % 7, x), 1),
        (lambda x, i: x[i][:, i[:0]], 1),
    ],
)
def test_each_index_is_checked_once(function: Any, checks: int) -> None:
    made = graph(function, X, GOOD)
    assert names(made).count("require") == checks
    for ours, theirs in zip(values(made, X, GOOD), values(graph_of(function, X, GOOD), X, GOOD), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_range_is_checked_again_where_it_is_narrower() -> None:
    assert names(graph(lambda x, i: x[i].sum() + x[:6][i].sum(), X, GOOD)).count("require") == 2
    assert names(graph(lambda x, i: x[:6][i].sum() + x[i].sum(), X, GOOD)).count("require") == 1


@pytest.mark.parametrize("function", [lambda x, i: x[i], put, sloped, lambda x, i: x.reshape(5, 7)[:, i]])
def test_what_is_out_of_range_raises(function: Any) -> None:
    made = graph(function, X, GOOD)
    assert not {"index", "put_index"} & set(names(made)[: names(made).index("require")])
    raises(IndexError, r"index -8 is out of bounds for dimension \d with size 7", lambda: values(made, X, BAD))
    check = made.equations[names(made).index("require")]
    assert check.origin is not None


def test_constants_out_of_range_raise_when_the_program_runs() -> None:
    made = graph(lambda x: x[[9]], X)
    raises(IndexError, "index 9 is out of bounds for dimension 0 with size 7", lambda: values(made, X))

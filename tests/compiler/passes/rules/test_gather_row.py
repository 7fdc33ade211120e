"""Picks from rows, and writes to them, as comparisons: where they are made, and what comes of a whole step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.tracing import fused, graph_of, names, ops

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler.passes.simplify import rewrite

pytest.importorskip("llvmlite")
PICKING = {"gather", "scatter_add"}


def rewritten(function: Any, *arrays: Any) -> set[str]:
    return PICKING & set(names(rewrite(graph_of(function, *arrays))))


@pytest.mark.parametrize(
    ("rows", "computed", "at", "left"),
    [
        ((4, 64), False, (4, 1), set()),
        ((4, 65), False, (4, 1), {"gather"}),
        ((4, 65), True, (4, 1), set()),
        ((4, 5000), True, (4, 1), set()),
        ((4, 5), True, (4, 2), {"gather"}),
        ((4, 5), True, (3, 1), {"gather"}),
        ((4, 5, 1), True, (4, 5, 1), set()),
    ],
)
def test_where_picks_are_comparisons(rows: Any, computed: bool, at: Any, left: set[str]) -> None:
    x, i = np.ones(rows, np.float32), np.zeros(at, np.int64)
    assert rewritten(lambda x, i: (x.exp() if computed else x).gather(len(rows) - 1, i), x, i) == left


@pytest.mark.parametrize(
    ("shape", "at", "left"),
    [((4, 5000), (4, 1), set()), ((4, 5), (4, 2), {"scatter_add"}), ((4, 5), (3, 1), {"scatter_add"})],
)
def test_where_writes_are_comparisons(shape: Any, at: Any, left: set[str]) -> None:
    x, i = np.ones(at, np.float32), np.zeros(at, np.int64)
    assert rewritten(lambda x, i: ad.zeros(shape).scatter_add(1, i, x), x, i) == left


def test_a_loss_written_by_hand_is_all_kernels() -> None:
    def slope(x: Any, y: Any) -> Any:
        x = x.detach().requires_grad_()
        loss = -F.log_softmax(x * 2.0, 1).gather(1, y.reshape(-1, 1)).mean()
        return loss.detach(), ad.autograd.grad(loss, x)[0]

    x = np.random.default_rng(0).standard_normal((33, 65)).astype(np.float32)
    y = np.arange(33)
    calls = [ops(group) for group in fused(slope, x, y).order if group.call]
    assert calls == [["require"]]
    compiled = ad.compile(slope)
    arguments = ad.from_numpy(x), ad.from_numpy(y)
    for ours, theirs in zip(compiled(*arguments), slope(*arguments), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6, atol=1e-8)
    with pytest.raises(RuntimeError, match="index 65 is out of bounds"):
        compiled(arguments[0], ad.from_numpy(y + 33))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int8, np.bool_])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_compiled_picks_are_eager_ones(dtype: Any, kind: Any) -> None:
    x = np.random.default_rng(0).integers(-100, 100, (29, 7)).astype(dtype)
    i = (np.arange(29) % 7).reshape(29, 1).astype(kind)
    arrays = [ad.from_numpy(a) for a in (x, i)]

    def picks(x: Any, i: Any) -> Any:
        return x.gather(1, i), x.clone().T.gather(0, i.T), ad.zeros((29, 9), dtype=x.dtype).scatter_add(1, i, x[:, :1])

    for ours, theirs in zip(ad.compile(picks)(*arrays), picks(*arrays), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_special_values_are_picked_to_the_bit() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5], np.float32)
    rows, i = np.tile(x, (6, 1)), np.arange(6).reshape(6, 1)
    picked = ad.compile(lambda x, i: x.gather(1, i))(ad.from_numpy(rows), ad.from_numpy(i)).numpy()[:, 0]
    np.testing.assert_array_equal(picked, x)
    np.testing.assert_array_equal(np.signbit(picked[1:]), np.signbit(x[1:]))


@pytest.mark.parametrize("dtype", [ad.uint8, ad.int8, ad.int32, ad.int64], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_extremes_of_integers_are_not_looked_up(dtype: Any, dim: int) -> None:
    def extremes(x: Any) -> Any:
        return x.max(dim).values, x.min(dim).values.sum(), x.argmax(dim)

    x = ad.from_numpy(np.random.default_rng(0).integers(0, 100, (2, 3000))).to(dtype)
    compiled = ad.compile(extremes)
    for ours, theirs in zip(compiled(x), extremes(x), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tolist() == theirs.tolist()
    assert "= gather(" not in str(compiled.graph)
    assert str(compiled.graph).count("argmax") == 1

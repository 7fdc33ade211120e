"""Masks, sums at positions and lookups that eager calls do at once, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

X = np.arange(60.0).reshape(3, 4, 5)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_mask_of_the_first_dimensions_picks_as_numpy_does(rank: int, recorded: bool) -> None:
    mask = np.random.default_rng(rank).random(X.shape[:rank]) > 0.5
    x = ad.tensor(X, requires_grad=recorded)
    picked = x[ad.tensor(mask)]
    np.testing.assert_array_equal(picked.detach().numpy(), X[mask])
    assert picked.requires_grad is recorded
    if recorded:
        (3 * picked).sum().backward()
        assert x.grad is not None
        spread = mask.reshape(*mask.shape, *(1,) * (3 - rank))
        np.testing.assert_array_equal(x.grad.numpy() / 3, np.broadcast_to(spread, X.shape))


def test_a_mask_of_many_dimensions() -> None:
    x = ad.ones(*(2,) * 7, requires_grad=True)
    mask = ad.zeros(*(2,) * 6, dtype=ad.bool)
    mask[0, 1, 0, 1, 0, 1] = True
    x[mask].sum().backward()
    assert x.grad is not None
    assert x.grad.sum() == 2


def test_what_a_mask_picks_without_recording_tells_where_that_was_off() -> None:
    x = ad.tensor(X, requires_grad=True)
    with ad.no_grad():
        picked = x[x > 20]
    assert "no_grad" in ad.autograd.why_no_grad(picked)


@pytest.mark.parametrize("name", ["index_add", "scatter_add"])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_rows_and_elements_are_added_at_repeated_positions(name: str, dtype: Any) -> None:
    x, part = ad.ones(4, 3, dtype=dtype, requires_grad=True), ad.tensor([[1.0, 2.0, 3.0]] * 3, dtype=dtype)
    part.requires_grad_()
    at = ad.tensor([1, 3, 1])
    out = x.index_add(0, at, part) if name == "index_add" else x.scatter_add(1, ad.tensor([[0, 0, 2]] * 3), part)
    wanted = [[1, 1, 1], [3, 5, 7], [1, 1, 1], [2, 3, 4]] if name == "index_add" else [[4, 1, 4]] * 3 + [[1, 1, 1]]
    assert out.tolist() == wanted
    assert out.grad_fn.name() == {"index_add": "IndexAddBackward0", "scatter_add": "ScatterAddBackward0"}[name]
    out.sum().backward()
    assert x.grad is not None
    assert part.grad is not None
    assert x.grad.eq(1).all()
    assert part.grad.eq(1).all()


@pytest.mark.parametrize("position", [-1, 5])
def test_a_lookup_outside_the_table_is_refused(position: int) -> None:
    with pytest.raises(IndexError, match="index out of range in self"):
        ad.nn.functional.embedding(ad.tensor([0, position]), ad.ones(5, 3))

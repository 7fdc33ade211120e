"""Folds into the places that indices name: native code gives what NumPy does, whichever dimensions are indexed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.eager_kernels import eager_kernels
from adjoint.ops.indexing.row_positions import are_in_range, drop_repeats, positions_along, positions_of_indices

KEYS: list[tuple[Any, ...]] = [
    (slice(None), [3, -1, 3, 0]), ([[1], [-2]], [3, 0, 3]), (slice(None), slice(None), [[0, 2], [2, 2]]),
    (slice(None), [1, 1, 4], [0, 2, 2]), ([0, 1, 1], slice(None), [0, 2, 2]), ([5, 5],), ([1, 1], [2, 2], [0, 0]),
    (slice(None), np.zeros((0, 2), int)),
]  # fmt: skip


REDUCTIONS = ("prod", "amax", "amin", "mean")


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_of_lookups(key: tuple[Any, ...], dtype: Any) -> None:
    x = np.arange(6.0 * 5 * 3).reshape(6, 5, 3).astype(dtype)
    key = tuple(k if isinstance(k, slice) else np.asarray(k) for k in key)
    t = ad.tensor(x, requires_grad=True)
    out = t[tuple(k if isinstance(k, slice) else ad.tensor(k) for k in key)]
    np.testing.assert_array_equal(out.detach().numpy(), x[key])
    g = np.random.default_rng(1).normal(size=out.shape).astype(dtype)
    out.backward(ad.from_numpy(g))
    wanted = np.zeros_like(x)
    np.add.at(wanted, key, g)
    np.testing.assert_allclose(t.grad.numpy(), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scatter_along_each_dimension(axis: int, expanded: bool) -> None:
    rng = np.random.default_rng(2)
    shape = (6, 5, 4)
    size = tuple(7 if d == axis else n if expanded else n - 1 for d, n in enumerate(shape))
    indices = ad.tensor(rng.integers(0, shape[axis], size))
    if expanded and axis < 2:
        indices = indices[..., :1].expand(size)
    for dtype in (ad.float32, ad.float64, ad.int64):
        x, source = (ad.from_numpy(rng.integers(-9, 9, s)).to(dtype) for s in (shape, size))
        ways: list[tuple[str, dict[str, Any]]] = [("scatter", {}), ("scatter_add", {})]
        ways += [("scatter_reduce", {"reduce": r, "include_self": own}) for r in REDUCTIONS for own in (False, True)]
        for name, options in ways:
            got = getattr(x, name)(axis, indices, source, **options)
            with eager_kernels(False):
                wanted = getattr(x, name)(axis, indices, source, **options)
            np.testing.assert_array_equal(got.numpy(), wanted.numpy())


def test_indices_out_of_range_have_no_positions() -> None:
    assert positions_of_indices((3, 4), (np.array([0, 4]),), (None, 0)) is None
    assert positions_of_indices((3, 4), (np.array([-5]),), (None, 0)) is None
    assert positions_along((3, 4), np.array([[0, 3]]), 0) is None
    assert positions_along((3, 4), np.array([[0, -1]]), 0) is None


def test_repeated_elements_are_looked_at_once() -> None:
    column = np.arange(6)[:, None]
    wide = np.broadcast_to(column, (6, 1000))
    assert drop_repeats(wide).shape == (6, 1)
    assert are_in_range(wide, 6)
    assert not are_in_range(wide, 5)
    x = ad.arange(18.0).reshape(6, 3).requires_grad_()
    at = ad.tensor([4, 0, 4])[:, None].expand(3, 3)
    for source in (x, x.detach().t().contiguous().t().requires_grad_()):
        out = source.gather(0, at)
        np.testing.assert_array_equal(out.detach().numpy(), x.detach().numpy()[[4, 0, 4]])
        (g,) = ad.autograd.grad(out.sum(), source)
        assert g.sum(1).tolist() == [3.0, 0.0, 0.0, 0.0, 6.0, 0.0]
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.gather(0, ad.tensor([6])[:, None].expand(1, 3))

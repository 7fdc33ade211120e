"""Positions in sorted order by kernels, eagerly and compiled, against NumPy's."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import eager_kernels
from adjoint.compiler.kernels.rows import sort
from adjoint.compiler.kernels.rows.plan import RowOperand
from adjoint.compiler.llvm.jit.target import host

pytest.importorskip("llvmlite")
SHAPES = [(1,), (5,), (8, 8), (33, 7), (2, 300), (9, 130), (3, 1100), (5, 33, 3)]
DTYPES = [np.float32, np.float64, np.int64, np.uint8, np.uint32, np.uint64, np.int16, np.bool_]


def draw(shape, dtype, kind, rng):
    x = rng.standard_normal(shape) * 3
    if dtype is np.bool_:
        return x > 0
    if dtype in (np.float32, np.float64):
        x = (np.round(x) if kind else x).astype(dtype)
        if kind:
            x.flat[rng.integers(0, x.size, 5)] = [np.nan, np.inf, -np.inf, -0.0, -np.nan]
        return x
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, True) if kind else np.abs(x).astype(dtype)


def check(call):
    got = call()
    with eager_kernels(False):
        wanted = call()
    got, wanted = ([r.numpy() for r in (x if isinstance(x, tuple) else (x,))] for x in (got, wanted))
    for g, w in zip(got, wanted, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("dtype", DTYPES)
def test_order_ranks_and_ties_are_those_of_numpy(dtype):
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        for kind in (0, 1):
            x = ad.tensor(draw(shape, dtype, kind, rng))
            for y in (x, x.transpose(0, -1)):
                for d in range(y.ndim):
                    n = y.shape[d]
                    for first in (False, True):
                        check(lambda y=y, d=d, first=first: ad.argsort(y, d, first))
                        for k in {1, min(n, 4), min(20, n), n}:
                            check(lambda y=y, d=d, k=k, first=first: ad.topk(y, k, d, first))
                    for k in {1, n // 2 + 1, n}:
                        if dtype is not np.bool_:
                            check(lambda y=y, d=d, k=k: ad.kthvalue(y, k, d))


@pytest.mark.parametrize("name", ["sort", "topk", "kthvalue", "median", "quantile"])
def test_a_compiled_step_has_a_kernel_for_the_order_and_its_gradient(name):
    call = {
        "sort": lambda x: ad.sort(x, 1, True).values,
        "topk": lambda x: ad.topk(x, 3, 1).values,
        "kthvalue": lambda x: ad.kthvalue(x, 5, 1).values,
        "median": lambda x: ad.median(x, 1).values,
        "quantile": lambda x: ad.quantile(x, 0.3, 1),
    }[name]

    def step(x):
        x = x.detach().requires_grad_()
        y = call(x)
        (y * y).sum().backward()
        return y.detach(), x.grad

    x = ad.tensor(np.random.default_rng(1).standard_normal((6, 40)))
    compiled = ad.compile(step)
    for got, wanted in zip(compiled(x), step(x), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-12)
    reasons = [entry["reason"] for entry in compiled.kernels]
    assert not any("argsort" in r or "leading" in r or "index_at_rank" in r for r in reasons if "NumPy" in r)


def test_each_way_is_taken_for_some_rows():
    def way(shape, first, count):
        x = RowOperand(shape, np.dtype(np.float32), (shape[1], 1))
        plan = sort.plan_order(x, 1, first, count, False, host())
        assert plan is not None
        return plan.structure[2]

    assert way((100, 64), 0, 2) == sort.LEADERS
    assert way((100, 64), 0, 64) == sort.NETWORK
    assert way((3, 5000), 0, 10) == sort.SHORTLIST
    assert way((3, 5000), 2500, 1) == sort.SELECTION
    assert way((1, 5000), 0, 5000) == sort.RADIX
    assert sort.plan_order(RowOperand((3, 0), np.dtype(np.float32), (0, 1)), 1, 0, 0, False, host()) is None


def test_rows_of_equal_elements_keep_their_order():
    for n in (7, 90, 700, 3000):
        x = ad.zeros(2, n)
        assert (ad.argsort(x, 1).numpy() == np.arange(n)).all()
        assert (ad.argsort(x, 1, True).numpy() == np.arange(n)).all()
        assert ad.kthvalue(x, n // 2, 1).indices.tolist() == [n // 2 - 1] * 2
        assert ad.topk(x, 3, 1).indices.tolist() == [[0, 1, 2]] * 2

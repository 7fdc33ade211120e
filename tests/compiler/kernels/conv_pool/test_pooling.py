"""Pooling kernels in both directions: NumPy's numbers, the same winners, nothing outside touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.kernels.single import equation
from tests.support.kernels.windowed import NARROW, check

from adjoint.compiler.kernels.conv_pool.pooling_plan import PoolingPlan
from adjoint.compiler.kernels.conv_pool.windowed_op import plan_windowed_op
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.ops.nn.pooling import max_pool, max_pool_input, pooled_shape, window_sum, window_sum_input

Shape = tuple[int, ...]

# x, size, stride, padding, dilation, extra
POOLS: dict[str, tuple[Shape, Shape, Shape, Shape, Shape, Shape]] = {
    "halving": ((3, 2, 24, 24), (2, 2), (2, 2), (0, 0), (1, 1), (0, 0)),
    "odd": ((3, 2, 25, 67), (2, 2), (2, 2), (0, 0), (1, 1), (0, 0)),
    "stem": ((2, 3, 16, 16), (3, 3), (2, 2), (1, 1), (1, 1), (0, 0)),
    "broad": ((1, 2, 12, 150), (3, 3), (2, 2), (1, 1), (1, 1), (0, 0)),
    "ceiling": ((2, 3, 17, 20), (3, 3), (3, 3), (1, 1), (1, 1), (1, 0)),
    "quarters": ((2, 3, 13, 150), (3, 5), (3, 4), (1, 2), (1, 1), (1, 0)),
    "sparse": ((2, 3, 17, 20), (3, 2), (1, 2), (1, 1), (2, 1), (0, 0)),
    "apart": ((2, 3, 9, 5), (2, 2), (4, 3), (1, 1), (1, 1), (0, 0)),
    "line": ((2, 3, 50), (3,), (2,), (1,), (1,), (1,)),
    "pairs": ((3, 50), (2,), (2,), (0,), (1,), (0,)),
    "alone": ((50, 51), (2, 2), (2, 2), (0, 0), (1, 1), (0, 0)),
    "rows": ((2, 3, 4, 64), (1, 2), (1, 2), (0, 0), (1, 1), (0, 0)),
    "whole": ((5, 3, 4, 4), (4, 4), (4, 4), (0, 0), (1, 1), (0, 0)),
    "volume": ((2, 2, 8, 6, 20), (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1), (0, 0, 0)),
    "odd volume": ((2, 2, 5, 7, 11), (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1), (0, 0, 0)),
    "overlapping volume": ((2, 2, 7, 6, 9), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), (0, 1, 0)),
    "film": ((2, 2, 4, 6, 12), (1, 2, 2), (1, 2, 2), (0, 0, 0), (1, 1, 1), (0, 0, 0)),
    "sparse volume": ((2, 6, 5, 9), (2, 1, 3), (1, 3, 2), (1, 0, 1), (3, 1, 1), (0, 2, 0)),
    "beside": ((1, 1, 1), (2,), (1,), (1,), (2,), (0,)),
}
pools = pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
narrow = pytest.mark.skipif(host().vector_bits < 512, reason="this machine is narrow itself")


def both_directions(pool: Any, dtype: Any, target: Target | None = None, flat: bool = True) -> None:
    shape, size, stride, padding, dilation, extra = pool
    windows: Any = {"size": size, "stride": stride, "padding": padding, "dilation": dilation, "extra": extra}
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(dtype)
    # Ties, also between zeros, and windows with nothing above the frame.
    rough = np.where(rng.random(shape) < 0.4, -np.inf, np.maximum(x, -0.0) * np.sign(x)).astype(dtype)
    rough[rng.random(shape) < 0.03] = np.nan
    g = rng.normal(size=pooled_shape(x, **windows)).astype(dtype)
    check(window_sum, x, target=target, flat=flat, **windows)
    check(window_sum_input, g, lengths=shape[-len(size) :], target=target, flat=flat, **windows)
    for image in (x, rough):
        check(max_pool, image, target=target, flat=flat, **windows)
        check(max_pool_input, g, image, target=target, flat=flat, **windows)


@pytest.mark.sweep(2)
@dtypes
@pools
def test_pools(pool: Any, dtype: Any) -> None:
    both_directions(pool, dtype)


@pytest.mark.sweep(2)
@pools
def test_pools_with_their_dimensions_apart(pool: Any) -> None:
    both_directions(pool, np.float32, flat=False)


@narrow
@pools
def test_pools_on_a_narrow_machine(pool: Any) -> None:
    both_directions(pool, np.float32, NARROW)


few = st.integers(1, 3)


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_any_geometry(data: Any) -> None:
    rank = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.integers(1, 20 if rank < 3 else 7)) for _ in range(rank))
    size, stride, dilation = (tuple(data.draw(few) for _ in range(rank)) for _ in range(3))
    reach = [d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True)]
    padding = tuple(data.draw(st.integers(0, r // 2)) for r in reach)
    extra = tuple(data.draw(st.integers(0, s - 1)) for s in stride)
    assume(all(n + 2 * p + e >= r for n, p, e, r in zip(shape, padding, extra, reach, strict=True)))
    both_directions(
        ((2, data.draw(few), *shape), size, stride, padding, dilation, extra),
        data.draw(st.sampled_from([np.float32, np.float64])), flat=data.draw(st.booleans()),
    )  # fmt: skip


def test_windows_side_by_side_need_no_scratch() -> None:
    windows: Any = {"size": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1), "extra": (0, 0)}
    value, _, _ = equation(max_pool, np.zeros((8, 4, 8, 8), "f4"), **windows)
    spatial = plan_windowed_op(value, host())
    assert spatial.scratch == 0
    assert isinstance(spatial.plan, PoolingPlan)
    assert spatial.tiles == 1


def test_other_equations_are_left_to_numpy() -> None:
    windows: Any = {"size": (2,), "stride": (2,), "padding": (0,), "dilation": (1,), "extra": (0,)}
    counts, _, _ = equation(max_pool, np.zeros((8, 4), int), **windows)
    wide: Any = {"size": (40, 40), "stride": (1, 1), "padding": (20, 20), "dilation": (1, 1), "extra": (0, 0)}
    large, _, _ = equation(window_sum, np.zeros((60, 60)), **wide)
    assert [plan_windowed_op(value, host()) for value in (counts, large)] == [None, None]

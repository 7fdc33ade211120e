"""Rows and registers side by side: equal ones get equal bits wherever they lie, and none touches its neighbours."""

from __future__ import annotations

import ctypes
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from tests.support.kernels.single import Guarded
from tests.support.tracing import fused

import adjoint as ad
from adjoint.compiler.kernels.loop_nest.iteration_space import IterationSpace, space_of
from adjoint.compiler.kernels.loop_nest.loop_nest import lower
from adjoint.compiler.kernels.loop_nest.tiling import choose_lanes, find_square_reads
from adjoint.compiler.llvm.jit.engine import load
from adjoint.compiler.llvm.jit.target import Target, host

pytest.importorskip("llvmlite")
INTEL = "x86_64" in host().triple
LESSER = {"avx2": "+avx2,+fma", "sse2": ""} if INTEL and host().vector_bits > 128 else {}
FEATURES = {"host": host().features} | LESSER


def run(function: Any, *arrays: Any, features: str) -> list[Any]:
    """What the one kernel of a function stores, compiled for this machine with some of its features."""
    fusion = fused(function, *arrays)
    (group,) = fusion.order
    target = host() if features == "host" else Target(host().triple, "", FEATURES[features])
    kernel = lower(group, fusion, target)
    engine = load([target.emit_object(kernel.text)])
    memory = [
        Guarded(v.shape, v.dtype, None if v in group.stored else arrays[v.source.number]) for v in kernel.arguments
    ]
    table = (ctypes.c_void_p * (len(memory) + len(kernel.numbers)))(
        *(m.array.ctypes.data for m in memory), *kernel.numbers
    )
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(engine.address(kernel.name))
    for tile in reversed(range(kernel.tiles)):
        call(table, tile, 0)
    stored = [m.check() for v, m in zip(kernel.arguments, memory, strict=True) if v in group.stored]
    assert len(stored) == len(group.stored)
    return stored


def softmax(x: Any) -> Any:
    e = (x - x.amax(1, keepdim=True)).exp()
    return e / e.sum(1, keepdim=True)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("size", [1, 5, 16, 33, 64, 65, 100, 128, 256, 300])
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 41])
def test_equal_rows_get_equal_bits(rows: int, size: int, features: str) -> None:
    row = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    (y,) = run(softmax, np.broadcast_to(row, (rows, size)).copy(), features=features)
    e = np.exp((row - row.max()).astype(np.float64))
    np.testing.assert_allclose(y[0], e / e.sum(), rtol=2e-6)
    assert (y == y[0]).all()


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_row_spoils_no_other(wrong: float, features: str) -> None:
    x = np.random.default_rng(0).standard_normal((7, 64)).astype(np.float32)
    (sound,) = run(softmax, x, features=features)
    for i in range(7):
        spoilt = x.copy()
        spoilt[i, 3] = wrong
        (y,) = run(softmax, spoilt, features=features)
        others = np.arange(7) != i
        assert (y[others] == sound[others]).all()
        assert y[i, 3] == 0 if wrong < 0 else np.isnan(y[i]).all()
        assert np.isfinite(y[i]).all() == (wrong < 0)


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("size", [1, 31, 33, 64, 100, 128, 129, 255, 384, 513, 1100])
def test_columns_are_summed_whole(size: int, features: str) -> None:
    x, y = np.random.default_rng(size).integers(-9, 9, (2, 70, size)).astype(np.float32)
    (total,) = run(lambda x: x.sum(0), x, features=features)
    assert (total == x.sum(0)).all()
    total, largest = run(lambda x, y: ((x - y).sum(0), (x - y).amax(0)), x, y, features=features)
    assert (total == (x - y).sum(0)).all()
    assert (largest == (x - y).max(0)).all()


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("size", [1, 7, 15, 17, 31, 32, 33, 49, 63, 64, 65, 200, 257, 520, 529, 100_003])
def test_equal_elements_get_equal_bits(size: int, features: str) -> None:
    (y,) = run(lambda x: x.exp() + x.erf() * x.tanh(), np.full(size, 0.7, np.float32), features=features)
    assert (y == y[0]).all()


@pytest.mark.parametrize(
    ("function", "shape", "dtype", "expected"),
    [
        (lambda x: x * 2, (1_000_000,), np.float32, 32),
        (lambda x: x * 2, (64,), np.float32, 32),
        (lambda x: x * 2, (49,), np.float32, 32),  # more than half of the last pair
        (lambda x: x * 2, (40,), np.float32, 16),
        (lambda x: x * 2, (264,), np.float32, 32),  # half a pair is lost in a long loop
        (lambda x: x * 2, (3,), np.float32, 4),
        (lambda x: x * 2, (1000,), np.float64, 8),
        (lambda x: x * 2, (1000,), np.int32, 16),
        (lambda x: x[::2] * 2, (1000,), np.float32, 16),
        (lambda x: x.sum(1), (30, 64), np.float32, 32),
        (lambda x: x.sum(0), (30, 512), np.float32, 128),
        (lambda x: x.sum(0), (30, 128), np.float32, 64),  # two steps, which two threads can share
        (lambda x: ((x * 2).sum(0), (x * 2).amax(0)), (30, 512), np.float32, 64),
        (lambda x: (x.exp() * x.sin() + x.cos() * 2).sum(0), (30, 512), np.float32, 32),
    ],
)
def test_a_loop_takes_as_many_registers_as_it_fills(
    function: Any, shape: tuple[int, ...], dtype: Any, expected: int
) -> None:
    fusion = fused(function, np.ones(shape, dtype))
    (group,) = fusion.order
    target = Target.from_triple("x86_64-unknown-linux-gnu", features="+avx512f")
    assert choose_lanes(IterationSpace(group, fusion), target) == expected


def test_threads_get_the_same_rows() -> None:
    x = np.random.default_rng(1).standard_normal((4001, 64)).astype(np.float32)
    fusion = fused(softmax, x)
    (group,) = fusion.order
    assert lower(group, fusion, host()).tiles > 1
    (whole,) = run(softmax, x, features="host")
    for start in (0, 1, 4000):
        (part,) = run(softmax, x[start:].copy(), features="host")
        assert (part == whole[start:]).all()


def test_a_compiled_softmax_is_the_eager_one() -> None:
    x = np.random.default_rng(2).standard_normal((5, 128)).astype(np.float32)
    ours = ad.compile(softmax)(ad.from_numpy(x)).numpy()
    np.testing.assert_allclose(ours, softmax(ad.from_numpy(x)).numpy(), rtol=1e-6)


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize(("dtype", "shape"), [("f4", (33, 17)), ("f8", (130, 70)), ("i4", (3, 21, 19)), ("f4", (9, 7))])
def test_permuted_arrays_are_read_in_squares_and_rests(dtype: str, shape: tuple[int, ...], features: str) -> None:
    x = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    for axes in permutations(range(len(shape))):
        turned = np.ascontiguousarray(x.transpose(axes))
        if axes != tuple(range(len(shape))):
            found = run(lambda x, y, axes=axes: x.permute(*axes) * 2 - y, x, turned, features=features)
            np.testing.assert_array_equal(found[0], turned)


@pytest.mark.parametrize(("features", "lanes"), [("+avx2", 8), ("+avx512f", 16)])
def test_squares_are_read_in_whole_registers(features: str, lanes: int) -> None:
    fusion = fused(lambda x: x.permute(1, 2, 0) * 2, np.ones((48, 36, 40), np.float32))
    (group,) = fusion.order
    (access,) = find_square_reads(space_of(group, fusion), lanes).values()
    assert access.strides == (1, 36 * 40)  # neighbouring loops are one
    target = Target.from_triple("x86_64-unknown-linux-gnu", features=features)
    text = lower(group, fusion, target).text
    assert "gather" not in text
    assert f"load <{lanes} x float>" in text
    assert target.emit_object(text)


def test_the_loop_in_which_an_array_is_contiguous_moves_next_to_the_lanes() -> None:
    fusion = fused(lambda x: x.permute(2, 1, 0).contiguous(), np.ones((24, 30, 40), np.float32))
    assert [loop.size for loop in space_of(fusion.order[0], fusion).loops] == [30, 40, 24]


@pytest.mark.parametrize(
    "function", [lambda x: x.T.sum(1), lambda x: x[:, :5].T * 2, lambda x: x[:, ::2].T * 2, lambda x: x * 2]
)
def test_folds_and_narrow_or_other_reads_have_no_squares(function: Any) -> None:
    fusion = fused(function, np.ones((20, 30), np.float32))
    assert not any(find_square_reads(space_of(group, fusion), 8) for group in fusion.order)

"""Loop-nest kernels: accuracy of long sums, special values, every type, and no touch outside their arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.tracing import fused

import adjoint as ad
from adjoint.compiler.kernels.loop_nest.loop_nest import SUM_BLOCK, lower
from adjoint.compiler.llvm.jit.target import Target, host

pytest.importorskip("llvmlite")
LONG = 10_000_000
TENTHS = float(np.float32(0.1))


@pytest.fixture(scope="module")
def tenths() -> Any:
    return ad.full((LONG,), 0.1)


@pytest.mark.parametrize(
    ("read", "count"),
    [
        (lambda x: x.sum(), LONG),
        (lambda x: x.mean() * LONG, LONG),
        (lambda x: x.flip(0).sum(), LONG),
        (lambda x: x.reshape(2, LONG // 2).T.sum(), LONG),
        (lambda x: x.reshape(LONG // 2, 2).T.sum(), LONG),  # the long loop lies inside the short one
        (lambda x: x.reshape(4, LONG // 4)[:, : LONG // 4 - 100].sum(), LONG - 400),
        (lambda x: x.reshape(2, LONG // 100, 50).permute(1, 0, 2)[:, :, :49].sum(), LONG // 50 * 49),
        (lambda x: x.reshape(2, LONG // 2).sum(1), LONG // 2),
        (lambda x: x.reshape(LONG // 2, 2).sum(0), LONG // 2),
        (lambda x: x.reshape(LONG // 1000, 1000).sum(0), LONG // 1000),
        (lambda x: x.reshape(50, 2, LONG // 100).sum((0, 2)), LONG // 2),
        (lambda x: x.reshape(50, 2, LONG // 100).sum((0, 1)), 100),
    ],
)
def test_long_sums_of_float32_keep_six_digits(read: Any, count: int, tenths: Any) -> None:
    np.testing.assert_allclose(ad.compile(read)(tenths).numpy(), TENTHS * count, rtol=1e-6)


@pytest.mark.parametrize(
    "length", [1, SUM_BLOCK - 1, 4 * SUM_BLOCK, 4 * SUM_BLOCK + 1, 64 * SUM_BLOCK, 64 * SUM_BLOCK + 1, 4097, 100_003]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_sums_around_the_block_length_miss_nothing(length: int, dtype: Any) -> None:
    x = np.random.default_rng(length).integers(-8, 9, (3, length)).astype(dtype)
    along, across, total = ad.compile(lambda x: (x.sum(1), x.T.sum(0), x.sum()))(ad.from_numpy(x))
    np.testing.assert_array_equal(along.numpy(), x.sum(1))
    np.testing.assert_array_equal(across.numpy(), x.sum(1))
    assert total.item() == x.sum()


@pytest.mark.parametrize("shape", [(40, 50, 3), (200, 3, 33), (7, 129, 130), (2, 2, 5000), (3, 700, 2)])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_blocks_of_any_nest_add_up(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(-8, 9, shape).astype(np.float32)
    sums = ad.compile(lambda x: (x.sum(axes), (x.permute(2, 0, 1).flip(0) * 2).sum(tuple((a + 1) % 3 for a in axes))))
    plain, turned = sums(ad.from_numpy(x))
    np.testing.assert_array_equal(plain.numpy(), x.sum(axes))
    expected = (x.transpose(2, 0, 1)[::-1] * 2).sum(tuple(sorted((a + 1) % 3 for a in axes)))
    np.testing.assert_array_equal(turned.numpy(), expected)


def test_extremes_and_products_of_long_rows_are_not_gathered_in_another_type() -> None:
    x = np.random.default_rng(0).uniform(0.99, 1.01, (3, 5000)).astype(np.float32)
    high, low, product = ad.compile(lambda x: (x.amax(1), x.amin(1), x.prod(1)))(ad.from_numpy(x))
    np.testing.assert_array_equal(high.numpy(), x.max(1))
    np.testing.assert_array_equal(low.numpy(), x.min(1))
    np.testing.assert_allclose(product.numpy(), x.astype(np.float64).prod(1), rtol=1e-3)


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-310, -1e-310, 1.5, -1.5]
SELECTING = {
    "max": lambda x, y: ad.maximum(x, y), "min": lambda x, y: ad.minimum(x, y),
    "where": lambda x, y: ad.where(x > y, x, y), "clamp": lambda x, y: x.clamp(-1.0, 1.0),
    "clamp_min": lambda x, y: x.clamp(min=0.0), "clamp_tensor": lambda x, y: x.clamp(y, None), "neg": lambda x, y: -x,
    "abs": lambda x, y: ad.abs(x), "times_one": lambda x, y: x * 1.0 + y * 0.5, "half": lambda x, y: x * 0.5,
    "difference": lambda x, y: x - x, "quotient": lambda x, y: x / y, "isnan": lambda x, y: ad.isnan(x),
    "less_zero": lambda x, y: x - (-0.0), "above": lambda x, y: x > 0, "amax": lambda x, y: x.reshape(11, 11).amax(1),
    "amin": lambda x, y: x.reshape(11, 11).amin(0),
    "amax_of_all": lambda x, y: (x.amax(), ad.where(ad.isnan(x), 0.0, x).amax()),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SELECTING)
def test_special_values_come_through_to_the_bit(name: str, dtype: Any) -> None:
    with np.errstate(over="ignore", under="ignore"):
        each = np.array(SPECIAL, dtype)
    x, y = (ad.from_numpy(a.reshape(-1).copy()) for a in np.meshgrid(each, each))
    function = SELECTING[name]
    ours, theirs = ad.compile(function)(x, y), function(x, y)
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (ours, theirs)), strict=True):
        same_bits(a.numpy(), b.numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_relu_keeps_nan_infinities_and_denormals(dtype: Any) -> None:
    with np.errstate(over="ignore", under="ignore"):
        x = np.array(SPECIAL * 3, dtype)
    compiled = ad.compile(ad.relu)(ad.from_numpy(x)).numpy()
    kept = np.where(x < 0, dtype(0), x)  # a negative zero, too
    np.testing.assert_array_equal(compiled, kept)
    np.testing.assert_array_equal(np.signbit(compiled), np.signbit(kept))


def same_bits(ours: Any, theirs: Any) -> None:
    """Assert equality to the bit, but for which NaN it is."""
    assert ours.dtype == theirs.dtype
    if ours.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(ours)[~np.isnan(ours)], np.signbit(theirs)[~np.isnan(theirs)])
    np.testing.assert_array_equal(ours, theirs)


TYPES = [np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64, np.float32, np.float64]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 127, 129])
def test_every_type_at_every_tail(dtype: Any, size: int) -> None:
    x = (np.arange(2 * size) % 5).astype(dtype).reshape(2, size)

    def function(x: Any) -> Any:
        larger = ad.where(x > x.flip(1), x, x.clone())
        return larger, x.T.clone(), x.to(ad.float32) * 0.5, x.to(ad.bool), (x != 0).any(0)

    t = ad.from_numpy(x)
    for a, b in zip(ad.compile(function)(t), function(t), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_every_conversion(source: Any, target: Any) -> None:
    x = np.array([0, 1, 2, 3, 100, 127] * 5).astype(source)
    t = ad.from_numpy(x)
    kind = ad.from_numpy(np.empty(0, target)).dtype
    np.testing.assert_array_equal(ad.compile(lambda t: t.to(kind).clone())(t).numpy(), x.astype(target))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 3, 5, 8, 13, 16, 17, 33, 100])
def test_writes_stay_within_the_array(dtype: Any, size: int) -> None:
    guard = 64
    memory = np.ones((2, guard + size + guard), dtype)
    states = [ad.from_numpy(row[guard : guard + size]) for row in memory]
    x = ad.from_numpy((np.arange(size) % 2).astype(dtype))

    @ad.compile
    def write(x: Any) -> None:
        states[0].copy_(x.flip(0))
        states[1].copy_(ad.where(x > 0, x, x.clone()))

    for _ in range(2):
        write(x)
    np.testing.assert_array_equal(memory[0, guard : guard + size], x.numpy()[::-1])
    np.testing.assert_array_equal(memory[1, guard : guard + size], x.numpy())
    assert (memory[:, :guard] == 1).all()
    assert (memory[:, guard + size :] == 1).all()


@pytest.mark.sweep(4)
@pytest.mark.parametrize("size", [2, 3, 5, 9, 15, 17, 31, 33, 65])
@pytest.mark.parametrize("target", [np.bool_, np.uint8, np.int8, np.int16, np.int32, np.float32])
@pytest.mark.parametrize("source", [np.int16, np.int32, np.int64, np.float64])
def test_narrowed_tails_stay_within_the_array(source: Any, target: Any, size: int) -> None:
    guard = 64
    memory = np.ones(guard + size + guard, target)
    state = ad.from_numpy(memory[guard : guard + size])
    x = (np.arange(size) % 3).astype(source)

    @ad.compile
    def narrow(x: Any) -> None:
        state.copy_((x + x).to(state.dtype))

    narrow(ad.from_numpy(x))
    np.testing.assert_array_equal(state.numpy(), (x + x).astype(target))
    assert (memory[:guard] == 1).all()
    assert (memory[guard + size :] == 1).all()


@pytest.mark.parametrize("size", [1, 3, 5, 8, 13, 17, 33])
def test_folds_kept_in_lanes_stay_within_the_array(size: int) -> None:
    guard = 64
    memory = np.ones(guard + size + guard, np.float32)
    state = ad.from_numpy(memory[guard : guard + size])

    @ad.compile
    def fold(x: Any) -> None:
        state.copy_(x.sum(0))

    x = np.arange(200.0 * size, dtype=np.float32).reshape(200, size) % 7
    fold(ad.from_numpy(x))
    np.testing.assert_array_equal(state.numpy(), x.sum(0))
    assert (memory[:guard] == 1).all()
    assert (memory[guard + size :] == 1).all()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_nothing_folds_to_the_identity(shape: tuple[int, ...]) -> None:
    x = ad.ones(*shape)

    def function(x: Any) -> Any:
        return x.sum(), x.prod(), (x > 0).any(), (x > 0).all(), x.sum(0), (x.exp() * 2).sum(-1, keepdim=True), x + 1

    for a, b in zip(ad.compile(function)(x), function(x), strict=True):
        assert a.shape == b.shape
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(
    ("triple", "features", "lanes"),
    [
        ("x86_64-unknown-linux-gnu", "", 4),
        ("x86_64-unknown-linux-gnu", "+avx2", 8),
        ("x86_64-unknown-linux-gnu", "+avx512f", 16),
        ("aarch64-unknown-linux-gnu", "", 4),
    ],
)
def test_kernels_are_written_for_other_machines(triple: str, features: str, lanes: int) -> None:
    fusion = fused(lambda x, y: ((x * 2 + y).sum(1), x.amax(1)), np.ones((30, 37), np.float32), np.ones(37, np.float32))
    target = Target.from_triple(triple, features=features)
    for group in fusion.order:
        kernel = lower(group, fusion, target)
        assert f"<{lanes} x float>" in kernel.text
        assert target.emit_object(kernel.text)


def test_a_kernel_shows_its_ops() -> None:
    fusion = fused(lambda x: (x * 2).sum(), np.ones(5, np.float32))
    kernel = lower(fusion.order[0], fusion, host())
    assert repr(kernel) == f"<{kernel.name}: mul sum>"

"""Positions of extremes by kernels, eagerly and compiled, against NumPy's."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.ops.reduction import reduction

pytest.importorskip("llvmlite")
SHAPES = [(5,), (4, 7), (3, 33), (2, 70, 3), (3, 5, 40), (2, 6, 300), (2, 40, 3, 5)]
DTYPES = [np.float32, np.float64, np.int64, np.int32, np.int8, np.uint8]


def draw(shape, dtype, rng):
    """Few different numbers, so that several are the extreme; of floats infinities and NaN among them."""
    if np.dtype(dtype).kind != "f":
        return rng.integers(0, 3, shape).astype(dtype) * 100
    numbers = np.array([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan], dtype)
    return rng.choice(numbers, shape, p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.05, 0.05])


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_positions_are_those_of_numpy(name, dtype, monkeypatch):
    monkeypatch.setattr(reduction, "MIN_POSITION_ELEMENTS", 1)
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        x = draw(shape, dtype, rng)
        for given in (x, np.swapaxes(x, 0, -1), x[..., ::-1], np.repeat(x, 2, -1)[..., ::2]):
            for d in range(x.ndim):
                got = getattr(ad.from_numpy(given.copy() if (np.array(given.strides) < 0).any() else given), name)(d)
                np.testing.assert_array_equal(got.numpy(), getattr(given, name)(d), err_msg=f"{shape} {d}")
    least = np.full((2, 9), -np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min).astype(dtype)
    assert ad.from_numpy(least).argmax(1).tolist() == ad.from_numpy(least).argmin(1).tolist() == [0, 0]


def test_a_compiled_step_finds_positions_by_kernels_for_any_size():
    def step(x):
        values, places = (x * 2).max(1)
        return places, values, x.transpose(0, 1).argmin(1, keepdim=True), x.argmin(-1), x.argmax()

    compiled = ad.compile(step)
    for size in (4, 7, 33, 12):
        x = ad.randn(size, 9, 5)
        for ours, theirs in zip(compiled(x), step(x), strict=True):
            assert ours.shape == theirs.shape
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    assert compiled.compilations == 2
    assert " 0 NumPy calls" in str(compiled.explain())


def test_large_arrays_are_divided_among_threads():
    x = ad.randn(600, 700)
    for d in (0, 1):
        np.testing.assert_array_equal(x.argmax(d).numpy(), x.numpy().argmax(d))

"""Running results by kernels, eagerly and compiled, against NumPy's."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import eager_kernels

pytest.importorskip("llvmlite")
FLOATS = (np.float32, np.float64)
SHAPES = [(5,), (0,), (3, 0), (0, 3), (4, 7), (3, 33), (2, 70, 3), (3, 5, 70), (2, 3, 300)]
NAMES = ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"]


def draw(shape, dtype, rng, special):
    x = rng.standard_normal(shape) * 2
    if dtype is np.bool_:
        return x > 0
    x = (x * 3).astype(dtype)
    if special and x.size and dtype in FLOATS:
        x.flat[rng.integers(0, x.size, 3)] = [np.nan, np.inf, -np.inf]
        x.flat[rng.integers(0, x.size, 9)] = 0.0
    return x


def arrays_of(result):
    return [r.numpy() for r in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, np.bool_])
def test_running_results_are_those_of_numpy(name, dtype):
    if name == "logcumsumexp" and dtype not in FLOATS:
        pytest.skip("of floats alone")
    rng = np.random.default_rng(0)
    exact = 1e-5 if dtype is np.float32 else 1e-11
    for shape in SHAPES:
        for special in (False, True):
            x = ad.tensor(draw(shape, dtype, rng, special))
            for y in (x, x.transpose(0, -1), ad.flip(x, (-1,)), ad.flip(x, (0,))):
                for d in range(y.ndim):
                    got = arrays_of(getattr(ad, name)(y, d))
                    with eager_kernels(False):
                        wanted = arrays_of(getattr(ad, name)(y, d))
                    for g, w in zip(got, wanted, strict=True):
                        assert (g.dtype, g.shape) == (w.dtype, w.shape)
                        np.testing.assert_allclose(g, w, rtol=3 * exact, atol=exact, err_msg=f"{shape} {d}")


@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_step_has_a_kernel_for_running_results_and_their_gradients(name):
    def step(x):
        x = x.detach().requires_grad_()
        y = getattr(ad, name)(x, 1)
        y = y if isinstance(y, ad.Tensor) else y.values
        (y * y).sum().backward()
        return y.detach(), x.grad

    x = ad.tensor(np.random.default_rng(1).standard_normal((3, 37, 2)))
    compiled = ad.compile(step)
    for got, wanted in zip(compiled(x), step(x), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)
    assert "and 0 NumPy calls" in str(compiled.explain())


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_are_multiplied_in_order_where_a_block_would_leave_the_range(dtype):
    big = float(np.finfo(dtype).max) ** 0.9
    x = np.array([1 / big, big, big, 1 / big, 1 / big, 2.0, 0.0, 3.0, big, big, 1.0] * 3, dtype)
    with np.errstate(over="ignore"):
        wanted = np.multiply.accumulate(x.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(ad.cumprod(ad.tensor(x), 0).numpy(), wanted, rtol=1e-6)


def test_running_extremes_are_the_last_that_equal_them_and_nan_from_its_place_on():
    x = ad.tensor([1.0, 3.0, 3.0, 2.0, float("nan"), 9.0, float("nan"), 1.0])
    values, places = ad.cummax(x, 0)
    assert places.tolist() == [0, 1, 2, 2, 4, 4, 6, 6]
    assert values[:4].tolist() == [1.0, 3.0, 3.0, 3.0]
    assert values[4:].isnan().all()


def test_sums_of_logarithms_far_apart_lose_nothing():
    x = np.array([-2000.0, -1000.0, 0.0, 1000.0, 700.0, -np.inf, 999.0, 2000.0, 1.0, 2000.0])
    np.testing.assert_allclose(ad.logcumsumexp(ad.tensor(x), 0).numpy(), np.logaddexp.accumulate(x), rtol=1e-14)


def test_truths_and_small_integers_are_summed_as_int64():
    x = np.random.default_rng(2).integers(0, 200, (5, 300)).astype(np.uint8)
    for y in (x, x > 99):
        for d in range(2):
            got = ad.cumsum(ad.tensor(y), d).numpy()
            assert got.dtype == np.int64
            assert (got == np.cumsum(y, d, dtype=np.int64)).all()

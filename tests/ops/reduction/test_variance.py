"""Variances and deviations of numbers whose squares float32 cannot hold."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.functions.reduction.statistics import std_mean

LARGE, SMALL = [1e20, 1.0, -1e20], [1e-30, 1e-30, -1e-30]


@pytest.mark.parametrize("numbers", [LARGE, SMALL, [3e19, 3e19, 0.0], [1e-22, 2e-22, 4e-22]])
@pytest.mark.parametrize("repeats", [1, 40, 400, 4000, 40_000])
def test_deviations_neither_overflow_nor_vanish(numbers: list[float], repeats: int) -> None:
    """In every length: small rows, columns, the whole, under `vmap`, and compiled."""
    x = np.tile(np.array(numbers, np.float32), (2, repeats))
    t = ad.from_numpy(x)
    wanted = x.astype(np.float64).std(1, ddof=1)
    for found in (t.std(1), t.T.contiguous().std(0), t.std(1, keepdim=True)[:, 0], ad.vmap(lambda v: v.std())(t)):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose(t.std().item(), x.astype(np.float64).std(ddof=1), rtol=1e-6)
    assert std_mean(t, 1)[0].tolist() == t.std(1).tolist()
    np.testing.assert_allclose(ad.compile(lambda v: v.std(1))(t).numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("mean", [0.0, 1e4, 1e6])
@pytest.mark.parametrize("shape", [(8, 20), (64, 4096), (4096, 64)])
def test_compiled_deviations_are_rounded_once(mean: float, shape: tuple[int, int]) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) + mean).astype(np.float32)
    for dim in (0, 1):
        for found, wanted in zip(
            ad.compile(lambda v, dim=dim: (v.var(dim), v.std(dim)))(ad.from_numpy(x)),
            (x.astype(np.float64).var(dim, ddof=1), x.astype(np.float64).std(dim, ddof=1)),
            strict=True,
        ):
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1.3e-7)


@pytest.mark.parametrize("repeats", [1, 40_000])
def test_variances_are_what_their_type_can_hold(repeats: int) -> None:
    for numbers, wanted in ((LARGE, np.inf), (SMALL, 0.0), ([1e19, 0.0, 1e19], None), ([1e-18, 0.0, 1e-18], None)):
        x = np.tile(np.array(numbers, np.float32), repeats)
        for found in (ad.from_numpy(x).var(), ad.from_numpy(x[:, None]).var(0)[0]):
            expected = x.astype(np.float64).var(ddof=1) if wanted is None else wanted
            np.testing.assert_allclose(found.item(), expected, rtol=1e-6)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(3,), (3, 4000), (300, 4000)])
def test_what_is_no_number_makes_its_own_row_none(special: float, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape, np.float32)
    x.flat[0] = special
    found = ad.from_numpy(x).std(-1).numpy()
    assert np.isnan(found.flat[0])
    np.testing.assert_allclose(found.flat[1:], x.reshape(-1, shape[-1])[1:].std(1, ddof=1), rtol=1e-5)


def test_slopes_of_deviations_of_extreme_numbers() -> None:
    for numbers in (LARGE, SMALL):
        x = ad.tensor(numbers, requires_grad=True)
        x.std().backward()
        wide = ad.tensor(x.tolist(), dtype=ad.float64, requires_grad=True)
        wide.std().backward()
        assert x.grad is not None
        assert wide.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), wide.grad.numpy(), rtol=1e-5, atol=1e-7)


def test_a_norm_is_one_node_whose_slope_at_zero_is_zero() -> None:
    x = ad.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    out = x.norm(dim=1)
    assert out.grad_fn.name() == "LinalgVectorNormBackward0"
    assert out.grad_fn.next_functions[0][0].variable is x
    (slope,) = ad.autograd.grad(out.sum(), x, create_graph=True)
    np.testing.assert_allclose(slope.detach().numpy(), [[0.6, 0.8], [0.0, 0.0]], rtol=1e-6)
    (curve,) = ad.autograd.grad(slope[:, 0].sum(), x)
    np.testing.assert_allclose(curve.numpy(), [[0.128, -0.096], [0.0, 0.0]], atol=1e-6)

"""How gamma and Dirichlet numbers follow their parameters, against PyTorch's approximations and against quadrature."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")
GRID = np.array([1e-4, 0.01, 0.1, 0.5, 0.79, 0.81, 1.0, 2.5, 7.9, 8.1, 9.0, 20.0, 33.0, 100.0, 1000.0])


@pytest.mark.parametrize(("kind", "tolerance"), [("float64", 1e-9), ("float32", 1e-5)])
def test_gamma_gradient_is_pytorchs(kind: str, tolerance: float) -> None:
    shape, sample = (x.ravel().astype(kind) for x in np.meshgrid(GRID, np.concatenate([GRID, 1.05 * GRID])))
    ours = ad._standard_gamma_grad(ad.tensor(shape), ad.tensor(sample)).numpy()
    theirs = torch._standard_gamma_grad(torch.tensor(shape), torch.tensor(sample)).numpy()
    known = np.isfinite(theirs)
    np.testing.assert_allclose(ours[known], theirs[known], rtol=tolerance)


@pytest.mark.parametrize(("kind", "tolerance"), [("float64", 1e-8), ("float32", 1e-3)])
def test_dirichlet_gradient_is_pytorchs(kind: str, tolerance: float) -> None:
    parts = np.array([0.001, 0.02, 0.1, 0.3, 0.499, 0.501, 0.7, 0.95, 0.999])
    sample, own, rest = (x.ravel() for x in np.meshgrid(parts, GRID[2:-1], GRID[2:-1]))
    sample, own, whole = (x.astype(kind) for x in (sample, own, own + rest))
    ours = ad._dirichlet_grad(*map(ad.tensor, (sample, own, whole))).numpy()
    theirs = torch._dirichlet_grad(*map(torch.tensor, (sample, own, whole))).numpy()
    known = np.isfinite(theirs) & (np.abs(theirs) > 1e-30)
    assert known.mean() > 0.9
    np.testing.assert_allclose(ours[known], theirs[known], rtol=tolerance, atol=1e-6 if kind == "float32" else 0)


def test_gamma_numbers_follow_their_shape() -> None:
    """Of many samples, the derivative of the mean by the shape is 1."""
    shape = ad.full((4000,), 2.5, dtype=ad.float64, requires_grad=True)
    ad.manual_seed(0)
    ad._standard_gamma(shape).sum().backward()
    assert float(gradient_of(shape).mean()) == pytest.approx(1.0, abs=0.03)


def test_dirichlet_numbers_follow_their_concentration() -> None:
    """Of many samples, d E[x₀] / dα is (α₁ + α₂, -α₀, -α₀) / (Σ α)²."""
    concentration = ad.tensor([1.0, 2.0, 3.0], dtype=ad.float64, requires_grad=True)
    ad.manual_seed(0)
    ad._sample_dirichlet(concentration.expand(6000, 3))[:, 0].mean().backward()
    np.testing.assert_allclose(gradient_of(concentration).numpy(), np.array([5, -1, -1]) / 36, atol=0.006)


def gradient_of(x: ad.Tensor) -> Any:
    assert x.grad is not None
    return x.grad

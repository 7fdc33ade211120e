"""`linspace`, and the grids made of it: PyTorch's bits."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.oracle import torch

import adjoint as ad
from adjoint.nn import functional as F

ENDS = [
    (-1, 1, 28), (0, 1, 64), (1e-4, 0.02, 1000), (-3.14159, 3.14159, 2000), (2, 6, 65), (0, 10, 7), (1, 0, 9),
    (0, 10, 1), (0, 10, 0), (3, 3, 4), (-5, 5, 2),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("ends", ENDS)
def test_linspace_has_the_same_bits(ends: tuple[float, float, int], kind: str) -> None:
    ours = ad.linspace(*ends, dtype=getattr(ad, kind)).numpy()
    theirs = torch.linspace(*ends, dtype=getattr(torch, kind)).numpy()
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("aligned", [False, True])
def test_the_identity_of_a_spatial_transformer_has_the_same_gradient(aligned: bool) -> None:
    """Each place of the grid stands on an element, where the last bit decides which neighbours it lies between."""
    image = np.random.default_rng(0).standard_normal((2, 1, 28, 28)).astype(np.float32)
    found = []
    for t, f in ((ad, F), (torch, torch.nn.functional)):
        theta = t.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]] * 2).requires_grad_()
        grid = f.affine_grid(theta, (2, 1, 28, 28), align_corners=aligned)
        out = f.grid_sample(t.tensor(image), grid, align_corners=aligned)
        out.pow(2).sum().backward()
        found.append((grid.detach().numpy(), theta.grad.numpy()))
    (grid, gradient), (same_grid, same_gradient) = found
    np.testing.assert_array_equal(grid, same_grid)
    np.testing.assert_allclose(gradient, same_gradient, rtol=1e-5, atol=1e-2)

"""Losses that compare distributions, directions and distances, and the bilinear form, against PyTorch."""

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint.nn.functional as F
from adjoint import float64, ones, tensor, zeros

RNG = np.random.default_rng(3)
A, B, C = RNG.normal(size=(3, 5, 4))
P = np.abs(A) / np.abs(A).sum()
P[0, 0] = 0.0
W, V = RNG.normal(size=(3, 4, 2)), RNG.normal(size=3)
SIGN, SIGNS = np.where(RNG.random(5) < 0.5, 1, -1), np.where(RNG.random((5, 4)) < 0.5, 1, -1)


@pytest.mark.parametrize("call", [
    "kl_div(a, p.detach(), reduction='batchmean')", "kl_div(a, b, log_target=True, reduction='none')",
    "kl_div(a, p.detach())", "kl_div(a, p.detach(), size_average=False)", "kl_div(a[0, 0], p[0, 1], reduction='sum')",
    "margin_ranking_loss(a, b, signs)", "margin_ranking_loss(a, b, signs, 0.3, reduction='none')",
    "hinge_embedding_loss(a, signs)", "hinge_embedding_loss(a, signs, 0.2, reduction='sum')",
    "soft_margin_loss(a, signs * 1.0)", "soft_margin_loss(a, signs * 1.0, reduction='none')",
    "cosine_embedding_loss(a, b, sign)", "cosine_embedding_loss(a, b, sign, 0.1, reduction='none')",
    "cosine_embedding_loss(a[0], b[0], sign[0])", "triplet_margin_loss(a, b, c)",
    "triplet_margin_loss(a, b, c, 0.5, 1, swap=True, reduction='none')", "triplet_margin_loss(a, b, c, 0.0)",
    "pairwise_distance(a, b)", "pairwise_distance(a, b, 1, 1e-3, True)", "pairwise_distance(a, b[0])",
    "bilinear(a, b[:, :2], w, v)", "bilinear(a, b[:, :2], w)", "bilinear(a[0], b[0, :2], w, v)",
    "bilinear(a.reshape(1, 5, 4), b[None, :, :2], w)", "bilinear(a, b, w)", "bilinear(a[:3], b[:, :2], w)",
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_pytorch(call: str, dtype: type) -> None:
    floats = {name: x.astype(dtype) for name, x in {"a": A, "b": B, "c": C, "p": P, "w": W, "v": V}.items()}
    same(f"t.nn.functional.{call}", sign=SIGN, signs=SIGNS, factor=10, **floats)


def test_errors_and_warnings() -> None:
    same_error("t.nn.functional.triplet_margin_loss(a, a, a, 0.0)", "margin must be greater than 0, got 0.0", a=A)
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        F.kl_div(ones(2), ones(2))


def test_the_gradient_of_a_vector_shorter_than_eps_is_that_of_the_value() -> None:
    x, y = tensor(-8.0, dtype=float64, requires_grad=True), tensor(-0.4, dtype=float64, requires_grad=True)
    F.cosine_similarity(x, y, dim=0, eps=0.5).backward()  # x y / (8 · 0.5), where PyTorch has -0.3 for y
    assert y.grad.item() == -2.0
    assert x.grad.item() == 0.0


def test_the_mean_over_no_examples_is_nan_also_of_probabilities() -> None:
    assert F.cross_entropy(zeros(0, 3), zeros(0, 3)).isnan().item()

"""Norms of many gradients at once are those of `vector_norm`."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.linalg import vector_norm
from adjoint.nn.utils.clip_grad import get_total_norm


@pytest.mark.parametrize("kind", [ad.float32, ad.float64, ad.float16])
def test_total_norm_has_the_bits_of_single_norms(kind: Any) -> None:
    ad.manual_seed(0)
    tensors = [ad.randn(*shape).to(kind) for shape in ((3, 4), (), (0,), (700,), (2, 3, 5))]
    wanted = vector_norm(ad.stack([vector_norm(t) for t in tensors]))
    found = get_total_norm(tensors)
    assert found.dtype is wanted.dtype
    assert found.numpy().tobytes() == wanted.numpy().tobytes()


def test_norms_of_views_and_in_vmap() -> None:
    x = ad.arange(12.0).reshape(3, 4)
    assert get_total_norm([x.T, x[:, 1]]).item() == pytest.approx(np.sqrt((x.numpy() ** 2).sum() + 1 + 25 + 81))
    found = ad.vmap(lambda row: get_total_norm([row, 2 * row]))(x)
    np.testing.assert_allclose(found.numpy(), np.sqrt(5 * (x.numpy() ** 2).sum(1)), rtol=1e-6)

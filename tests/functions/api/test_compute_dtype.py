"""16-bit floats are computed in float32 from end to end: squares have room, and a result is rounded once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.testing import assert_close

Function = Callable[[ad.Tensor, ad.Tensor, ad.Tensor], ad.Tensor]
# of a matrix and a vector of numbers up to some hundred, whose squares float16 has no room for
FUNCTIONS: dict[str, Function] = {
    "norm": lambda a, b, v: a.norm(),
    "norm of rows": lambda a, b, v: ad.linalg.vector_norm(a, 3, dim=1),
    "norm in its own type": lambda a, b, v: ad.linalg.vector_norm(a, dtype=a.dtype),
    "dist": lambda a, b, v: ad.dist(a, b),
    "pairwise_distance": lambda a, b, v: F.pairwise_distance(a, b),
    "cosine_similarity": lambda a, b, v: F.cosine_similarity(a, b),
    "normalize": lambda a, b, v: F.normalize(a),
    "cdist": lambda a, b, v: ad.cdist(a, b),
    "std": lambda a, b, v: a.std(1),
    "logsumexp": lambda a, b, v: ad.logsumexp(a, 0),
    "addmm": lambda a, b, v: ad.addmm(a, a, b, alpha=1e-3),
    "addmv": lambda a, b, v: ad.addmv(v, a, v, alpha=1e-3, beta=0.5),
    "addr": lambda a, b, v: ad.addr(a, v, v, alpha=1e-3),
    "addbmm": lambda a, b, v: ad.addbmm(a, a[None], b[None], alpha=1e-3),
    "baddbmm": lambda a, b, v: ad.baddbmm(a[None], a[None], b[None], alpha=1e-3),
    "addcmul": lambda a, b, v: ad.addcmul(a, a, b, value=1e-3),
    "vecdot": lambda a, b, v: ad.linalg.vecdot(a, b - 0.5 * b),
    "cumprod": lambda a, b, v: ad.cumprod(ad.stack([v, v, 1 / v, 1 / v]), 0)[3],
    "sinc": lambda a, b, v: ad.sinc(a / 64),
    "bilinear": lambda a, b, v: F.bilinear(a / 64, b / 64, ad.stack([a, b])),
    "embedding_bag": lambda a, b, v: F.embedding_bag(
        ad.tensor([0, 1]), a * 0 + 60000, ad.tensor([0]), per_sample_weights=v[:2] * 0 + 0.5, mode="sum"
    ),
    "mse_loss": lambda a, b, v: F.mse_loss(a / 4, b / 4),
    "histc": lambda a, b, v: ad.histc(a, 10),
}


def operands(kind: ad.dtype) -> list[ad.Tensor]:
    numbers = np.random.default_rng(0)
    arrays = [numbers.uniform(100, 400, shape).astype(np.float16) for shape in ((3, 3), (3, 3), (3,))]
    return [ad.from_numpy(a.astype(np.float32)).to(kind) for a in arrays]


@pytest.mark.parametrize("kind", [ad.float16, ad.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_16_bits_are_those_of_float32(name: str, kind: ad.dtype) -> None:
    given = operands(kind)
    expected = FUNCTIONS[name](*[x.float() for x in given])
    found = FUNCTIONS[name](*given)
    assert found.dtype is kind
    assert found.isfinite().all() or not expected.to(kind).isfinite().all()
    assert_close(found.float(), expected.to(kind).float(), rtol=2e-2 if kind is ad.bfloat16 else 4e-3, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_halves_are_those_of_eager_calls(name: str) -> None:
    given = operands(ad.float16)
    expected, found = FUNCTIONS[name](*given), ad.compile(FUNCTIONS[name])(*given)
    assert found.dtype is expected.dtype
    assert_close(found, expected, rtol=2e-3, atol=1e-6)


def test_the_gradient_of_a_norm_of_large_halves_is_finite() -> None:
    x = ad.tensor([300.0, 400.0], dtype=ad.float16, requires_grad=True)
    x.norm().backward()
    assert x.grad is not None
    assert_close(x.grad, ad.tensor([0.6, 0.8], dtype=ad.float16))


def test_another_dtype_that_is_asked_for_is_that_of_the_result() -> None:
    for kind in (ad.float16, ad.bfloat16):
        x = ad.tensor([300.0, 400.0], dtype=kind)
        for found in (x.norm(dtype=ad.float32), x.prod(dtype=ad.float32), ad.linalg.vector_norm(x, dtype=ad.float32)):
            assert found.dtype is ad.float32
        assert ad.prod(x.long(), dtype=ad.float32).dtype is ad.float32


def test_halves_among_floats_take_the_type_of_the_floats() -> None:
    half, single = ad.ones(2, dtype=ad.float16), ad.ones(2)
    assert ad.addr(ad.ones(2, 2), half, single).dtype is ad.float32
    assert ad.dist(half, single).dtype is ad.float32

"""Native normalisation: the gradients of all operands are those of NumPy, in every combination that is asked for."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.core.op.eager_kernels import eager_kernels, kernel_provider
from adjoint.ops.nn import native_norms

pytest.importorskip("llvmlite")
KINDS = {
    "batch": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "columns": lambda x, w, b: F.batch_norm(x.reshape(-1, x.shape[1]), None, None, w, b, True),
    "group": lambda x, w, b: F.group_norm(x, 3, w, b),
    "instance": lambda x, w, b: F.instance_norm(x, None, None, w, b),
    "layer": lambda x, w, b: F.layer_norm(x.transpose(1, 2).contiguous(), (x.shape[1],), w, b),
}
WANTED = list(chain.from_iterable(combinations(range(3), n) for n in (1, 2, 3)))


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_provider, "strict", True)
    monkeypatch.setattr(kernel_provider, "enabled", True)


def gradients(kind: str, shape: tuple[int, ...], dtype: Any, wanted: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(size) for size in (shape, shape[1:2], shape[1:2])]
    given = [ad.from_numpy(x.astype(dtype)) for x in arrays]
    for i in wanted:
        given[i].requires_grad_()
    out = KINDS[kind](*given)
    above = ad.from_numpy(rng.standard_normal(tuple(out.shape)).astype(dtype))
    return [out.detach().numpy(), *(x.numpy() for x in ad.autograd.grad(out, [given[i] for i in wanted], above))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(4, 6, 25), (3, 75, 9), (2, 3, 70)])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind: str, shape: tuple[int, ...], dtype: Any) -> None:
    for wanted in WANTED:
        found = gradients(kind, shape, dtype, wanted)
        with eager_kernels(False):
            expected = gradients(kind, shape, dtype, wanted)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=100 * np.finfo(dtype).eps * np.abs(b).max())


def test_long_channels_keep_their_digits() -> None:
    x = (np.random.default_rng(0).standard_normal((2, 3, 300_000)) + 100).astype(np.float32)
    out = F.batch_norm(ad.from_numpy(x), None, None, None, None, True).numpy()
    wide = x.astype(np.float64)
    expected = (wide - wide.mean((0, 2), keepdims=True)) / np.sqrt(wide.var((0, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(out, expected, atol=3e-5)


def test_running_statistics_take_the_moments_that_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ad.from_numpy(np.random.default_rng(0).standard_normal((4, 3, 50)).astype(np.float32))
    mean, var = ad.zeros(3), ad.ones(3)
    taken: list[Any] = []
    take = native_norms.take_moments
    monkeypatch.setattr("adjoint.ops.nn.normalization.take_moments", lambda x: taken.append(take(x)) or taken[-1])
    F.batch_norm(x, mean, var, training=True)
    assert taken[0] is not None
    wide = x.numpy().astype(np.float64)
    np.testing.assert_allclose(mean.numpy(), 0.1 * wide.mean((0, 2)), atol=1e-6)
    np.testing.assert_allclose(var.numpy(), 0.9 + 0.1 * wide.var((0, 2), ddof=1), atol=1e-6)


def test_kept_gradients_are_not_those_of_a_changed_gradient() -> None:
    x = ad.from_numpy(np.random.default_rng(0).standard_normal((4, 3, 50)))
    weight, bias = ad.ones(3, dtype=ad.float64), ad.zeros(3, dtype=ad.float64)
    above = ad.ones(4, 3, 50, dtype=ad.float64)
    x.requires_grad_()
    bias.requires_grad_()
    out = F.group_norm(x, 1, weight, bias)
    first = ad.autograd.grad(out, [x, bias], above, retain_graph=True)[1]
    above.mul_(2.0)
    second = ad.autograd.grad(out, [bias], above)[0]
    np.testing.assert_allclose(second.numpy(), 2 * first.numpy())

"""Windows of many elements are left to NumPy: kernels have instructions for each element of a window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler.kernels.conv_pool.windowed_op import MAX_WINDOW_TAPS


@pytest.mark.parametrize(("taps", "kernels"), [(MAX_WINDOW_TAPS + 1, 0), (3, 1)])
def test_a_convolution_with_a_long_window_is_a_numpy_call(taps: int, kernels: int) -> None:
    x, w = ad.randn(2, 1, 2 * taps + 3), ad.randn(3, 1, taps, requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        F.conv1d(x, w, stride=2).sum().backward()
        return F.conv1d(x, w, stride=2)

    compiled = ad.compile(step)
    out = compiled(x)
    named = [name for row in str(compiled.explain()).splitlines() for name in row.split() if "convolution" in name]
    assert len(named) >= 2
    assert ("NumPy" not in str(compiled.explain()).replace("0 NumPy", "")) == bool(kernels)
    frames = np.lib.stride_tricks.sliding_window_view(x.numpy(), taps, -1)[..., ::2, :]
    np.testing.assert_allclose(out.detach().numpy(), np.einsum("ncpk,ock->nop", frames, w.detach().numpy()), atol=1e-3)
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy()[0], frames.sum((0, 2)), atol=1e-3)


def test_pooling_over_a_long_window_has_its_values() -> None:
    x = ad.arange(2.0 * (MAX_WINDOW_TAPS + 40)).reshape(1, 2, -1)
    size = MAX_WINDOW_TAPS + 1
    assert F.max_pool1d(x, size, 20)[0, 0].tolist() == [256.0, 276.0]
    assert F.avg_pool1d(x, size, 20)[0, 0].tolist() == [128.0, 148.0]

"""Attention kernels that serve every number of queries and keys: to the bit as those made for one size.

Rows are cut into blocks as in kernels for one size, but for the last ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.support.symbolic_kernels import SizedKernels, assert_same_bits_for

import adjoint as ad
import adjoint.nn.functional as F

SIZES = (2, 3, 15, 17, 33, 64, 100)


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def heads(n: int) -> list[Any]:
    return [normal(2, 2, n, 12) for _ in range(3)]


def attend(q: Any, k: Any, v: Any, mask: Any = None, **how: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, mask, **how)


def gradients(q: Any, k: Any, v: Any, mask: Any = None, **how: Any) -> Any:
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    out = attend(*inputs, mask, **how)
    return ad.autograd.grad(out, inputs, out.detach() * 0.5)


MASKS: dict[str, tuple[Any, tuple[int, ...], dict[str, Any]]] = {
    "plain": (None, (), {}),
    "causal": (None, (), {"is_causal": True}),
    "added": (lambda n: normal(n, n), (0, 1), {}),
    "of_truths": (lambda n: np.tril(np.ones((n, n), bool)), (0, 1), {}),
    "of_keys": (lambda n: np.arange(n)[None, None, None] < normal(2, 1, 1, 1) * n + 3, (3,), {}),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("function", [attend, gradients])
def test_any_number_of_queries_and_keys(name: str, function: Any) -> None:
    mask, dims, how = MASKS[name]

    def make(n: int) -> list[Any]:
        return [*heads(n), *([mask(n)] if mask else [])]

    kernels = SizedKernels(lambda *given: function(*given, **how), make(57), [*[(2,)] * 3, *([dims] if mask else [])])
    assert kernels.guards == []
    assert any("attention" in kernel.name for kernel in kernels.kernels.values())
    for n in SIZES:
        arrays = make(n)
        wide = [ad.from_numpy(a.astype(np.float64) if a.dtype == np.float32 else a) for a in arrays]
        wanted = function(*wide, **how)
        for ours, exact in zip(kernels(*arrays), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            np.testing.assert_allclose(ours, exact.detach().numpy(), rtol=1e-4, atol=2e-5, err_msg=f"for {n}")


@pytest.mark.parametrize("causal", [False, True])
def test_whole_blocks_to_the_bit(causal: bool) -> None:
    kernels = assert_same_bits_for((33, 64, 100), lambda *given: attend(*given, is_causal=causal), heads, [(2,)] * 3)
    assert kernels.guards == []


@pytest.mark.parametrize("queries", [True, False])
def test_queries_or_keys_alone(queries: bool) -> None:
    def make(n: int) -> list[Any]:
        rows, keys = (n, 20) if queries else (20, n)
        return [normal(2, 2, rows, 12), normal(2, 2, keys, 12), normal(2, 2, keys, 12)]

    dynamic = [(2,), (), ()] if queries else [(), (2,), (2,)]
    kernels = SizedKernels(gradients, make(57), dynamic)
    for n in (3, 16, 33):
        wanted = gradients(*map(ad.from_numpy, make(n)))
        for ours, theirs in zip(kernels(*make(n)), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5, err_msg=f"for {n}")


def test_scratch_memory_grows_with_the_keys() -> None:
    kernels = SizedKernels(attend, heads(57), [(2,)] * 3)
    kernel = next(kernel for kernel in kernels.kernels.values() if "attention" in kernel.name)
    assert kernels.sizes is not None
    with kernels.sizes.taking({"s0": 2000}):
        many: int = kernel.scratch.value
    assert many > 16 * 4 * 2000

"""Compiled steps with bfloat16 and under autocast give eager's numbers, in native code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F

pytest.importorskip("llvmlite")
pytest.importorskip("ml_dtypes")

NUMBERS = np.random.default_rng(0)
SPECIAL = np.array(
    [0.0, -0.0, 1.0, 1.00390625, 1.01171875, -1.00390625, 3.39e38, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan, -np.nan,
     1e-40, -1e-45, 1e-38, 255.5, 256.5, 257.0, 1e5, 3.14159], np.float32)  # fmt: skip


def bits(x: Any) -> Any:
    array = np.asarray(x.detach().array)
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind in "fV" else array


def agree(function: Callable[..., Any], *args: Any) -> Any:
    """The compiled function, whose results have the bits of the eager one's, call after call."""
    expected = function(*args)
    compiled = ad.compile(function)
    for _ in range(3):
        found = compiled(*args)
        for ours, reference in zip(found, expected, strict=True):
            assert ours.dtype is reference.dtype
            assert ours.shape == reference.shape
            np.testing.assert_array_equal(bits(ours), bits(reference))
    assert compiled.compilations == 1
    return compiled


def narrow(*shape: int) -> Any:
    return ad.tensor(NUMBERS.normal(size=shape).astype(np.float32)).bfloat16()


def calls_of_numpy(compiled: Any) -> list[Any]:
    return [entry["ops"] for entry in compiled.kernels if entry["kind"] != "kernel"]


def test_rounding() -> None:
    random = NUMBERS.integers(0, 2**32, 4096, dtype=np.uint32).view(np.float32)
    for values in (SPECIAL, random):
        agree(lambda x: (x.bfloat16(), x.bfloat16().float(), x.bfloat16() > 0), ad.tensor(values))


def test_conversions() -> None:
    whole, flags = ad.tensor([0, 1, -7, 257, 12345, -(2**40)]), ad.tensor([True, False])
    agree(lambda x, b: (x.bfloat16(), b.bfloat16(), x.bfloat16().double(), x.bfloat16().int()), whole, flags)
    agree(lambda x: (x.bfloat16(), x.bfloat16().bool()), ad.tensor([0.1, 1 / 3, 1e30, 0.0], dtype=ad.float64))
    assert not calls_of_numpy(agree(lambda x: (x.bfloat16() * 2,), ad.rand(37)))


def test_each_op_rounds() -> None:
    x, y = narrow(5, 33), narrow(33)
    made = agree(lambda x, y: (((x * 1.7 + y).exp() - x / 3).tanh(), ad.where(x > y, x, 0.1), x.clamp(-0.5, 0.5)), x, y)
    assert not calls_of_numpy(made)


def test_movements_and_folds() -> None:
    x = narrow(6, 8)
    agree(lambda x: (x.T.contiguous(), x[1:, ::2] * 2, x.flip(0), x.reshape(4, 12), ad.cat([x, x * 2]), x.sum(0)), x)
    agree(lambda x: (x.mean(), x.amax(1), x.argmax(1), x.softmax(1), x.var(0), x.cumsum(1), x.sort(1)[0]), x)
    agree(lambda x: (x.gather(1, (x > 0).long()), x[ad.tensor([0, 3])], ad.full((3,), 0.1, dtype=ad.bfloat16)), x)


def test_a_whole_step() -> None:
    x, w, b = narrow(9, 16), narrow(16, 5).requires_grad_(), narrow(5).requires_grad_()

    def step(x: Any) -> Any:
        hidden = F.layer_norm(F.gelu(x @ w + b), (5,))
        loss = F.cross_entropy(hidden, ad.arange(9) % 5)
        loss.backward()
        gradients = w.grad, b.grad
        w.grad = b.grad = None
        return loss, *gradients

    agree(step, x)


def test_gradients_outside() -> None:
    w = narrow(4, 3).requires_grad_()
    x = narrow(5, 4)
    product = ad.compile(lambda x: (x @ w).tanh())
    found = []
    for function in (product, product, lambda x: (x @ w).tanh()):
        w.grad = None
        function(x).sum().backward()
        assert w.grad.dtype is ad.bfloat16
        found.append(w.grad.tolist())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("inside", [False, True])
def test_training_under_autocast(inside: bool) -> None:
    def train(compiled: bool) -> list[float]:
        ad.manual_seed(0)
        model = ad.nn.Sequential(ad.nn.Linear(6, 16), ad.nn.GELU(), ad.nn.LayerNorm(16), ad.nn.Linear(16, 3))
        optimizer = ad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x, y = ad.randn(32, 6), ad.arange(32) % 3

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            with ad.autocast("cpu", enabled=True):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        def around(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        chosen: Any = step if inside else around
        run = ad.compile(chosen) if compiled else chosen
        with ad.autocast("cpu", enabled=not inside):
            return [run(x, y).item() for _ in range(6)]

    # sums in another order differ in their last bits, which now and then tips a rounding to bfloat16
    np.testing.assert_allclose(train(True), train(False), rtol=2**-8)


def test_autocast_is_a_guard() -> None:
    product = ad.compile(lambda x: x @ x)
    x = ad.ones(3, 3)
    for _ in range(2):
        assert product(x).dtype is ad.float32
        with ad.autocast("cpu"):
            assert product(x).dtype is ad.bfloat16
            with ad.autocast("cpu", enabled=False):
                assert product(x).dtype is ad.float32
            with ad.autocast("cpu", dtype=ad.float16):
                assert product(x).dtype is ad.float16
    assert product.compilations == 3

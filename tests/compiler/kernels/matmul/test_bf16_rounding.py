"""The precision of products of float32 matrices in compiled programs: what it changes, and when a program is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.compiler.kernels.matmul.bf16_rounding import choose_rounding
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.llvm.types import F32
from adjoint.core.op.matmul_precision import setting

rounds = pytest.mark.skipif(choose_rounding(host(), F32, "medium") is None, reason="this machine rounds nothing")
UNIT = 2.0**-7  # of two operands rounded to bfloat16


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    before, threads = setting["matmul"], ad.get_num_threads()
    yield
    setting["matmul"] = before
    ad.set_num_threads(threads)


def drawn(*shape: int, seed: int = 0) -> ad.Tensor:
    return ad.from_numpy(np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32))


def at(precision: str, function: Any, *given: Any) -> Any:
    ad.set_float32_matmul_precision(precision)
    return ad.compile(function)(*given)


def within(result: Any, exact: Any, terms: Any) -> bool:
    """Whether a product is as near to the exact one as the sums of |x| |y| allow."""
    return bool((np.abs(result.numpy() - exact) <= 1.01 * UNIT * terms).all())


def test_the_default_is_exact_and_high_keeps_two_parts() -> None:
    x, y = drawn(200, 150), drawn(150, 120)
    default = ad.compile(lambda x, y: x @ y)(x, y).numpy()
    assert np.array_equal(at("highest", lambda x, y: x @ y, x, y).numpy(), default)
    high = at("high", lambda x, y: x @ y, x, y).numpy()
    if choose_rounding(host(), F32, "high") is None:
        assert np.array_equal(high, default)
    terms = (x.double().abs() @ y.double().abs()).numpy()
    assert (np.abs(high - default) <= 2.0**-15 * terms).all()


@rounds
@pytest.mark.parametrize(
    ("left", "right", "function"),
    [
        ((200, 150), (150, 120), lambda x, y: x @ y),
        ((129, 150), (97, 150), lambda x, y: x @ y.T),
        ((151, 200), (151, 120), lambda x, y: x.T @ y),
        ((6, 70, 64), (6, 64, 80), lambda x, y: x @ y),
        ((2, 3, 70, 65), (2, 3, 80, 65), lambda x, y: x @ y.transpose(-1, -2)),
        ((5, 40, 128), (100, 128), F.linear),
        ((70, 64, 6), (64, 80), lambda x, y: ad.einsum("ikb,kj->bij", x, y)),
    ],
)
def test_medium_rounds_the_operands(left: Any, right: Any, function: Any) -> None:
    x, y = drawn(*left), drawn(*right, seed=1)
    result = at("medium", function, x, y)
    exact, terms = function(x.double(), y.double()).numpy(), function(x.double().abs(), y.double().abs()).numpy()
    assert within(result, exact, terms)
    assert np.abs(result.numpy() - exact).max() > 1e-4  # of float32 it is a tenth of that


@rounds
def test_what_follows_a_product_stays_exact() -> None:
    x, w, bias = drawn(128, 96), drawn(80, 96, seed=1), drawn(80, seed=2)

    def followed(x: Any, w: Any, bias: Any) -> Any:
        product = F.linear(x, w)
        return product, ad.tanh(product + bias) * 3.0

    product, result = at("medium", followed, x, w, bias)
    expected = ad.tanh(product + bias) * 3.0
    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert not np.array_equal(product.numpy(), F.linear(x, w).numpy())


@rounds
def test_nan_and_infinity_stay() -> None:
    x, y = drawn(100, 130).numpy().copy(), drawn(130, 90, seed=1).numpy().copy()
    x[3, 7], x[50, 129], y[11, 5], y[0, 0] = np.nan, np.inf, -np.inf, 1e-40
    with np.errstate(invalid="ignore"):
        exact = x.astype(np.float64) @ y.astype(np.float64)
    result = at("medium", lambda x, y: x @ y, ad.from_numpy(x), ad.from_numpy(y)).numpy()
    assert np.array_equal(np.isnan(result), np.isnan(exact))
    assert np.array_equal(np.isinf(result), np.isinf(exact))


@rounds
def test_gradients_of_a_training_step() -> None:
    def gradients(precision: str, dtype: Any, compiled: bool) -> tuple[float, list[Any]]:
        ad.manual_seed(0)
        model = nn.Sequential(nn.Linear(96, 128), nn.GELU(), nn.Linear(128, 64)).to(dtype)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        ad.set_float32_matmul_precision(precision)
        x, y = drawn(160, 96).to(dtype), drawn(160, 64, seed=1).to(dtype)
        loss = (ad.compile(step) if compiled else step)(x, y).item()
        return loss, [p.grad.numpy() for p in model.parameters() if p.grad is not None]

    exact, wide = gradients("highest", ad.float64, compiled=False)
    loss, medium = gradients("medium", ad.float32, compiled=True)
    assert len(medium) == 4
    assert loss == pytest.approx(exact, rel=UNIT)
    for g, expected in zip(medium, wide, strict=True):
        assert 1e-5 < np.linalg.norm(g - expected) / np.linalg.norm(expected) < UNIT


@rounds
def test_threads_do_not_change_a_bit() -> None:
    x, y = drawn(300, 500), drawn(500, 400, seed=1)
    results = []
    for threads in (1, 2):
        ad.set_num_threads(threads)
        results.append(at("medium", lambda x, y: x @ y, x, y).numpy())
    assert np.array_equal(*results)


def test_each_precision_has_a_program_which_is_kept() -> None:
    x, y = drawn(100, 100), drawn(100, 100, seed=1)
    product = ad.compile(lambda x, y: x @ y)
    results = {}
    for precision in ("highest", "medium", "high", "medium", "highest", "high"):
        ad.set_float32_matmul_precision(precision)
        result = product(x, y).numpy().copy()
        assert np.array_equal(results.setdefault(precision, result), result)
    assert product.compilations == 3
    assert [str(r) for r in product.recompilations[:2]] == [
        "<lambda>: first call", "<lambda>: float32 matmul precision: 'highest' → 'medium'",
    ]  # fmt: skip


def test_the_same_word_from_elsewhere_is_the_same_precision() -> None:
    product = ad.compile(lambda x: x @ x)
    for letters in ("medium", ["m", "edium"], ["medi", "um"]):
        ad.set_float32_matmul_precision("".join(letters))
        product(drawn(40, 40))
    assert product.compilations == 1


@pytest.mark.parametrize("function", [lambda x: x * 2, lambda x: x.double() @ x.double(), lambda x: F.relu(x).sum()])
def test_programs_without_float32_products_do_not_ask(function: Any) -> None:
    compiled = ad.compile(function)
    for precision in ("highest", "medium"):
        ad.set_float32_matmul_precision(precision)
        compiled(drawn(20, 20))
    assert compiled.compilations == 1


@rounds
def test_a_gradient_outside_has_the_precision_of_the_step() -> None:
    def gradient(first: str, second: str) -> Any:
        x = drawn(128, 128).requires_grad_()
        ad.set_float32_matmul_precision(first)
        result = ad.compile(lambda x, y: x @ y)(x, drawn(128, 128, seed=1))
        ad.set_float32_matmul_precision(second)
        result.backward(drawn(128, 128, seed=2))
        return x.grad.numpy()

    exact, medium = gradient("highest", "highest"), gradient("medium", "medium")
    assert not np.array_equal(exact, medium)
    assert np.array_equal(gradient("highest", "medium"), exact)
    assert np.array_equal(gradient("medium", "highest"), medium)


def test_explain_says_what_is_rounded() -> None:
    def products(x: Any) -> Any:
        return x @ x, x[:4, :4] @ x[:4, :4]

    ad.set_float32_matmul_precision("medium")
    compiled = ad.compile(products)
    compiled(drawn(128, 128))
    large, small = (entry.reason for entry in compiled.explain().entries)
    way = choose_rounding(host(), F32, "medium")
    said = "which rounds its operands to bfloat16" + (", for tile registers" if way and way.is_tiled else "")
    assert large.endswith(said if way else "in float32 all the same")
    assert small.endswith("in float32 all the same")


def test_a_step_may_ask_and_may_not_set() -> None:
    asked = ad.compile(lambda x: x * len(ad.get_float32_matmul_precision()))
    for precision in ("highest", "high"):
        ad.set_float32_matmul_precision(precision)
        assert asked(ad.ones(1)).tolist() == [float(len(precision))]

    @ad.compile
    def sets(x: Any) -> Any:
        ad.set_float32_matmul_precision("medium")
        return x

    with pytest.raises(RuntimeError, match=r"set_float32_matmul_precision\(\)"):
        sets(ad.ones(2))
    assert ad.get_float32_matmul_precision() == "high"

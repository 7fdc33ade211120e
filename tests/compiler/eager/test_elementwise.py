"""Kernels of functions of elements: the numbers of NumPy, for arrays of any shape, type and layout."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.core.op import elementwise_composite
from adjoint.core.op.eager_kernels import eager_kernels, kernel_provider
from adjoint.core.op.elementwise_kernels import (
    ARRAY,
    MAX_CALLS_WITHOUT_KERNEL,
    MAX_NUMBER_SETS,
    MIN_ELEMENTS,
    ElementwiseKernel,
    InPlaceKernel,
    elementwise_slot,
)
from adjoint.core.op.op import Op
from adjoint.core.op.signature import parameters_of
from adjoint.functions.elementwise import activation
from adjoint.ops.elementwise import arithmetic, transcendental

pytest.importorskip("llvmlite")
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-40, 6.0, -3.0, 3.0, 20.0, -100.0]
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    name: getattr(F, name)
    for name in (
        "leaky_relu", "elu", "selu", "celu", "softplus", "logsigmoid", "hardtanh", "relu6", "hardsigmoid", "hardswish",
        "mish", "softsign", "softshrink", "hardshrink", "silu", "tanhshrink", "relu",
    )
} | {
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    **{name: getattr(ad, name) for name in ("exp", "exp2", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh")},
    **{name: getattr(ad, name) for name in ("tanh", "sigmoid", "erf", "asinh", "square", "abs", "reciprocal")},
    "log1p": lambda x: x.abs().log1p(), "log": lambda x: x.abs().log(), "log2": lambda x: x.abs().log2(),
    "log10": lambda x: x.abs().log10(), "sqrt": lambda x: x.abs().sqrt(), "rsqrt": lambda x: x.abs().rsqrt(),
    "asin": lambda x: (x.tanh() * 0.9).asin(), "acos": lambda x: (x.tanh() * 0.9).acos(),
    "atanh": lambda x: (x.tanh() * 0.9).atanh(),
    "pow": lambda x: x**3,
    "divide": lambda x: 1.0 / (x * x + 1.0),
    "maximum": lambda x: ad.maximum(x, x.detach() * 2.0),
}  # fmt: skip


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An error while a kernel is made is one of the test; gives the names of the functions that were asked for."""
    monkeypatch.setattr(kernel_provider, "strict", True)
    monkeypatch.setattr(kernel_provider, "enabled", True)
    asked: list[str] = []
    find = ElementwiseKernel.find

    def watch(self: ElementwiseKernel, *given: Any) -> Any:
        found = find(self, *given)
        asked.extend([self.function.__name__] * (found is not None))
        return found

    quick: Any = ElementwiseKernel.__dict__["of_arrays"]

    def watch_quick(self: ElementwiseKernel) -> Any:
        native = quick.__get__(self)
        asked.extend([self.function.__name__] * (native is not None))
        return native

    monkeypatch.setattr(ElementwiseKernel, "find", watch)
    monkeypatch.setattr(ElementwiseKernel, "of_arrays", property(watch_quick, quick.__set__))
    return asked


LAYOUTS: list[Callable[[Any], Any]] = [
    lambda x: x, lambda x: x.transpose(2, 1, 0).reshape(x.shape), lambda x: x.transpose(1, 0, 2),
    lambda x: np.asfortranarray(x), lambda x: np.repeat(x, 2, 2)[..., ::2], lambda x: x[::-1],
    lambda x: np.broadcast_to(x[:1], x.shape),
]  # fmt: skip


def add_one(x: Any) -> None:
    x.add_(1.0)


add_one.__module__ = "adjoint.tests"  # kernels are made of the package's own functions
silu_dx, relu_dx = (inspect.unwrap(rule) for rule in (activation._silu_dx, arithmetic._relu_dx))


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    numbers = (np.random.default_rng([*shape]).standard_normal(shape) * 3).astype(dtype)
    numbers.flat[: len(SPECIAL)] = SPECIAL
    return numbers


def value_and_gradient(f: Callable[[Any], Any], x: Any, g: Any) -> tuple[Any, Any]:
    t = ad.from_numpy(x).requires_grad_()
    y = f(t)
    (dx,) = ad.autograd.grad(y, t, ad.from_numpy(g))
    return y.detach().numpy(), dx.numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_numpy(name: str, dtype: Any, strict: list[str]) -> None:
    f, x = FUNCTIONS[name], draw(23, 31, dtype=dtype)
    g = np.random.default_rng(1).standard_normal(x.shape).astype(dtype)
    found = value_and_gradient(f, x, g)
    assert strict
    with eager_kernels(False), np.errstate(all="ignore"):
        expected = value_and_gradient(f, x, g)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=200 * np.finfo(dtype).eps, atol=20 * np.finfo(dtype).eps)


class TestShapes:
    def test_one_kernel_serves_all(self) -> None:
        kernel = ElementwiseKernel(silu_dx)
        for shape in ((600,), (3, 200), (40, 5, 6), (1, 70_000)):
            x = draw(*shape)
            found = kernel.find((x, x), {})
            assert found is not None
            assert found.shape == shape
        assert len(kernel.kernels) == 1

    def test_small_arrays_are_left_to_numpy(self) -> None:
        x = draw(MIN_ELEMENTS - 1)
        assert ElementwiseKernel(transcendental.exp).find((x,), {}) is None

    def test_operands_that_broadcast_are_left_to_numpy(self) -> None:
        kernel = ElementwiseKernel(relu_dx)
        assert kernel.find((draw(30, 40), draw(40)), {}) is None
        assert kernel.find((np.broadcast_to(np.float32(1), (2, 30, 40)), draw(30, 40)), {}) is None

    def test_large_arrays_give_up_the_lock(self) -> None:
        x = draw(300, 400)
        found = ElementwiseKernel(transcendental.exp).find((x,), {})
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(found, np.exp(x), rtol=1e-6)

    @pytest.mark.parametrize("change", [np.transpose, lambda x: x[:, ::2], lambda x: x[::-1], np.asfortranarray])
    def test_layouts(self, change: Callable[[Any], Any]) -> None:
        x = change(draw(60, 50))
        found = ElementwiseKernel(transcendental.exp).find((x,), {})
        with np.errstate(all="ignore"):
            expected = ad.exp(ad.from_numpy(x.copy(order="K"))).numpy()
        np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize("change", LAYOUTS)
    @pytest.mark.parametrize("other", LAYOUTS)
    def test_results_lie_as_the_first_operand(self, change: Callable[[Any], Any], other: Callable[[Any], Any]) -> None:
        kernel = ElementwiseKernel(silu_dx)
        assert kernel.find((draw(8, 8, 9), draw(8, 8, 9)), {}) is not None
        (native,) = kernel.natives.values()
        g, x = change(draw(8, 8, 9)), other(draw(8, 8, 9) * 2)
        counts = sys.getrefcount(g), sys.getrefcount(x)
        found = native(g, x)
        assert (sys.getrefcount(g), sys.getrefcount(x)) == counts
        if 0 in g.strides:  # whose result is row-major
            assert found is None
            return
        assert found.strides == np.empty_like(g).strides
        assert found.flags.owndata
        np.testing.assert_array_equal(found, native(g.copy(order="C"), x.copy(order="C")))

    def test_what_a_kernel_writes_is_row_major(self) -> None:
        x = draw(60, 50)
        native = InPlaceKernel(add_one, (0,)).find((ARRAY,))
        before = x.copy()
        assert native(x.T) is None
        assert native(x[:, ::2]) is None
        np.testing.assert_array_equal(x, before)
        assert native(x) is not None
        np.testing.assert_array_equal(x, before + 1)

    def test_a_gradient_that_is_one_number(self, strict: list[str]) -> None:
        x = ad.from_numpy(draw(30, 40)).requires_grad_()
        x.relu().sum().backward()
        assert "_relu_dx" in strict
        assert x.grad is not None
        np.testing.assert_array_equal(x.grad.numpy(), (x.detach().numpy() > 0) | np.isnan(x.detach().numpy()))


class TestNumbers:
    def test_each_set_has_a_kernel_up_to_a_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Any] = []
        with monkeypatch.context() as patch:
            patch.setattr(elementwise_slot, "call", lambda *given: made.append(given))
            kernel, x = ElementwiseKernel(silu_dx), draw(600)
            for number in range(2 * MAX_NUMBER_SETS):
                assert kernel.find((x, x), {"slope": float(number)}) is None
        assert len(made) == MAX_NUMBER_SETS

    def test_slopes(self) -> None:
        x = ad.from_numpy(draw(600))
        for slope in (0.0, -0.0, 0.2, 1.0, 1):
            with eager_kernels(False):
                expected = F.leaky_relu(x, slope)
            np.testing.assert_array_equal(F.leaky_relu(x, slope).numpy(), expected.numpy())


class TestSmallArrays:
    def test_a_kernel_with_the_bits_of_numpy_comes_once_they_are_many(self) -> None:
        kernel, x = ElementwiseKernel(relu_dx, same_bits=True), draw(MIN_ELEMENTS - 1)
        for _ in range(MAX_CALLS_WITHOUT_KERNEL):
            assert kernel.find((x, x), {}) is None
        np.testing.assert_array_equal(kernel.find((x, x), {}), relu_dx(x, x))
        assert kernel.of_arrays is not None

    def test_one_with_other_bits_takes_them_all_or_none(self) -> None:
        x = draw(20)
        assert ElementwiseKernel(silu_dx, min_elements=1).find((x, x), {}) is not None
        kernel = ElementwiseKernel(silu_dx)
        for _ in range(MAX_CALLS_WITHOUT_KERNEL + 1):
            assert kernel.find((x, x), {}) is None

    def test_a_kernel_made_for_large_arrays_takes_no_small_ones(self) -> None:
        x = draw(20)
        sin_dx = vars(transcendental.sin)["op"].rules[0]
        with np.errstate(all="ignore"):
            before = sin_dx(x, x)
            sin_dx(draw(600), draw(600))
            np.testing.assert_array_equal(sin_dx(x, x), before)
        kernel = ElementwiseKernel(silu_dx)
        assert kernel.find((draw(600), draw(600)), {}) is not None
        assert kernel.find((x, x), {}) is None

    def test_a_number_that_is_0_keeps_its_sign(self) -> None:
        kernel, x = ElementwiseKernel(arithmetic.mul, same_bits=True), np.ones(600, np.float32)
        for number in (0.0, -0.0, 0.0):
            np.testing.assert_array_equal(np.signbit(kernel.find((x, number), {})), np.signbit(x * number))


def kernels_with_the_bits_of_numpy() -> list[ElementwiseKernel]:
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("adjoint.")]
    held = [value for module in modules for value in vars(module).values() if callable(value)]
    ops = {id(op): op for op in (getattr(value, "op", None) for value in held) if isinstance(op, Op)}
    found = [vars(rule).get("kernel") for op in ops.values() for rule in op.rules if rule is not None]
    return [kernel for kernel in found if kernel is not None and kernel.same_bits]


NUMBERS = {"negative_slope": 0.1, "lambd": 0.5, "low": -1.0, "high": 1.0, "delta": 0.6, "beta": 0.7}


def test_kernels_of_rules_that_say_so_have_the_bits_of_numpy() -> None:
    kernels, tried = kernels_with_the_bits_of_numpy(), 0
    for kernel in kernels:
        names = parameters_of(kernel.function).positional
        operands = [NUMBERS[n] if n in NUMBERS else np.roll(draw(600), i) for i, n in enumerate(names)]
        fresh = ElementwiseKernel(kernel.function, same_bits=True)
        found = fresh.find(operands, {})
        if found is None:
            continue  # of a function around another
        with eager_kernels(False), np.errstate(all="ignore"):
            result: Any = kernel.function(*operands)
        expected = np.asarray(getattr(result, "array", result), np.float32)
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32), str(kernel.function))
        tried += 1
    assert tried >= 20


def test_a_function_of_the_user_takes_no_kernel() -> None:
    call = elementwise_composite.with_elementwise_kernel(lambda g, x: g * x * x)
    x = draw(600)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(call(x, x), x * x * x)


def test_second_gradients_go_through_the_ops() -> None:
    x = ad.from_numpy(np.linspace(-2, 2, 600)).requires_grad_()
    for name in ("silu", "mish", "softplus", "elu", "logsigmoid", "softsign"):
        (dx,) = ad.autograd.grad(FUNCTIONS[name](x).sum(), x, create_graph=True)
        (found,) = ad.autograd.grad(dx.sum(), x)
        step = 1e-5
        with ad.no_grad():
            base = x.detach()
        sides = []
        for shift in (step, -step):
            t = (base + shift).requires_grad_()
            sides.append(ad.autograd.grad(FUNCTIONS[name](t).sum(), t)[0])
        np.testing.assert_allclose(found.numpy(), ((sides[0] - sides[1]) / (2 * step)).numpy(), atol=1e-7)

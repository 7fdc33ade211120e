"""Activation functions and the softmax family against PyTorch: values, gradients, errors; fused equals composed."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error, tensor, weights
from tests.support.second_gradients import same_second_gradients

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.functions.elementwise import activation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5)) * 3
EDGES = np.array([-200.0, -50.0, -25.0, -1.0, -1e-3, 1e-3, 0.5, 1.0, 5.9, 6.1, 19.9, 20.1, 50.0, 200.0])
CALLS = [
    "relu(x)", "relu(x, inplace=False)", "leaky_relu(x)", "leaky_relu(x, 0.3)", "leaky_relu(x, negative_slope=-0.5)",
    "elu(x)", "elu(x, 0.7)", "selu(x)", "gelu(x)", "gelu(x, approximate='tanh')", "silu(x)", "softplus(x)",
    "softplus(x, beta=2, threshold=5)", "logsigmoid(x)", "hardtanh(x)", "hardtanh(x, -2.0, 0.5)", "relu6(x)",
    "tanhshrink(x)", "tanh(x)", "sigmoid(x)", "dropout(x, 0.5, False)", "dropout(x, 0.0, True)",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("call", CALLS)
def test_values_and_gradients(call: str, dtype: Any) -> None:
    same(f"t.nn.functional.{call}", x=X.astype(dtype), factor=4)
    # in float32 a difference of nearly equal numbers, as in tanhshrink, keeps few digits
    same(f"t.nn.functional.{call}", x=EDGES.astype(dtype), factor=20)
    same(f"t.nn.functional.{call}", x=np.zeros((0, 3), dtype))


@pytest.mark.parametrize("call", [
    "relu(y, inplace=True)", "leaky_relu(y, 0.2, True)", "elu(y, 1.0, True)", "selu(y, True)", "silu(y, inplace=True)",
    "hardtanh(y, -1.0, 1.0, True)", "relu6(y, inplace=True)",
])  # fmt: skip
def test_in_place(call: str) -> None:
    same(f"(lambda y: (t.nn.functional.{call}, y))(x * 1.5)", x=X, factor=4)


@pytest.mark.claim("4.15")
def test_relu_at_zero() -> None:
    x = ad.tensor([0.0, 1.0, -1.0], requires_grad=True)
    y = F.relu(x * 1.0)
    assert y.grad_fn.name() == "ReluBackward0"
    y.sum().backward()
    assert y.tolist() == [0.0, 1.0, 0.0]
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize(
    ("shape", "dims"), [((3, 4), (0, 1, -1)), ((5,), (0,)), ((2, 3, 4), (0, 1, 2, -2)), ((), (0, -1))]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax(name: str, shape: Any, dims: Any, dtype: Any) -> None:
    x = (RNG.normal(size=shape) * 5).astype(dtype)
    for dim in dims:
        same(f"t.nn.functional.{name}(x, dim={dim})", x=np.asarray(x), factor=4)
    same(f"t.nn.functional.{name}(x)", x=np.asarray(x), factor=4)  # PyTorch's implicit choice
    same(f"t.nn.functional.{name}(x, dim=0, dtype=t.float64)", x=np.asarray(x), factor=4)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_extremes(name: str) -> None:
    x = np.array([[1000.0, 0.0, -1000.0], [-np.inf, 1.0, 2.0], [1e30, 1e30, -1e30], [np.nan, 1.0, 2.0]])
    same(f"t.nn.functional.{name}(x, 1)", x=x[:3])
    same(f"t.nn.functional.{name}(x, 1)", x=x, gradient=False)
    same(f"t.nn.functional.{name}(x, 1)", x=np.full((2, 3), -np.inf), gradient=False)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_errors(name: str) -> None:
    same_error(f"t.nn.functional.{name}(x, 2)", "Dimension out of range", x=X)
    same_error(f"t.nn.functional.{name}(x, 0)", "not implemented for", x=np.arange(3))


def test_errors() -> None:
    same_error("t.nn.functional.gelu(x, approximate='none ')", "approximate argument must be either none or tanh", x=X)
    same_error("t.nn.functional.dropout(x, 1.5)", "dropout probability has to be between 0 and 1, but got 1.5", x=X)
    same_error("t.nn.functional.dropout(x, -0.1)", "dropout probability has to be between 0 and 1, but got -0.1", x=X)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("shape", [(7,), (16,), (33, 5)])
def test_dropout_draws_what_torch_draws(p: float, shape: Any) -> None:
    values = RNG.normal(size=shape).astype(np.float32)
    same(f"(t.manual_seed(3), t.nn.functional.dropout(x, {p}))[1]", x=values)


@pytest.mark.parametrize("op", [activation._softmax, activation._log_softmax])
@pytest.mark.parametrize("axis", [0, 1])
def test_fused_equals_composite(op: Any, axis: int) -> None:
    results = []
    for form in (op, op.op.composite):
        x = tensor(ad, X)
        out = form(x, axis=axis)
        (first,) = ad.autograd.grad(out, x, ad.tensor(weights(out.shape)), create_graph=True)
        first.square().sum().backward()
        results.append([part.detach().numpy() for part in (out, first, x.grad)])
    for fused, composed in zip(*results, strict=True):
        np.testing.assert_allclose(fused, composed, rtol=1e-12, atol=1e-14)


def test_second_derivatives() -> None:
    for name in ("softmax", "log_softmax"):
        same_second_gradients(f"t.nn.functional.{name}(x, 1)", x=X)


# x: x / (1 + e⁻²ᵘ) with u = √(2/π) (x + 0.044715 x³), of the float32 x, by mpmath
TANH_GELU = {
    -8.0: -3.1077829375011112e-21, -5.381052: -1.489878000345798e-08, -3.0: -0.003637392081773019,
    -1.0: -0.1588080093917233, 0.5: 0.34571400982514394, 3.0: 2.996362607918227,
}  # fmt: skip


@pytest.mark.parametrize("x", TANH_GELU)
def test_tanh_gelu_keeps_its_digits_below_zero(x: float) -> None:
    given = ad.tensor([x] * 3)
    for function in (lambda v: F.gelu(v, approximate="tanh"), ad.compile(lambda v: F.gelu(v, approximate="tanh"))):
        np.testing.assert_allclose(function(given).numpy(), TANH_GELU[x], rtol=1e-5)


def test_silu_of_complex_numbers_is_holomorphic() -> None:
    x = ad.tensor([1 + 2j], dtype=ad.complex128, requires_grad=True)
    for function in (F.silu, ad.compile(F.silu)):
        out = function(x)
        np.testing.assert_allclose(out.detach().numpy(), [0.2145379520090956 + 2.4462694344259036j], rtol=1e-14)
        (slope,) = ad.autograd.grad(out, x, ad.ones(1, dtype=ad.complex128))
        # the gradient is the conjugate of the derivative 2.003740731152765 + 0.264498041516104i, by mpmath
        np.testing.assert_allclose(slope.numpy(), [2.003740731152765 - 0.2644980415161041j], rtol=1e-14)
    inplace = ad.tensor([1 + 2j])
    assert F.silu(inplace, inplace=True) is inplace

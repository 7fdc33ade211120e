"""Further functions of single elements against PyTorch: values, gradients, types, errors."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad

torch = pytest.importorskip("torch")

X = np.array([-2.5, -1.0, -0.3, 0.0, 0.4, 1.0, 3.7])
U = np.array([-0.999999, -0.7, -0.2, 0.0, 0.1, 0.55, 0.97])
P = np.array([0.01, 0.3, 1.0, 1.7, 2.0, 9.5, 130.0])
G = np.array([-3.7, -2.0, -1.2, -0.0, 0.0, 0.5, 25.0])
F = np.array([1.5, -2.0, 0.25], np.float32)
A = np.array([np.nan, np.inf, -np.inf, -0.0, 1.0, -1.0, 5.0])
WHOLE = np.array([12, -18, 0, 7])
J = np.array([8, 12, 5, 0])
B = np.array([True, False])
GIVEN = {"x": X, "u": U, "p": P, "g": G, "f": F, "a": A, "i": WHOLE, "j": J, "b": B}


@pytest.mark.parametrize("expression", [
    "(p + 1).acosh()", "x.asinh()", "u.atanh()", "t.arccosh(p + 1)", "t.arcsinh(i)", "(u.detach() * 1).arctanh_()",
    "x.erfc()", "(x * 4).erfc()", "f.erfc()", "a.erfc()", "u.erfinv()", "t.erfinv(f / 3)",
    "t.erfinv(t.tensor([1.0, -1.0, 2.0]))", "p.lgamma()", "t.lgamma(g)", "f.lgamma()", "i.lgamma()",
    "t.digamma(g.detach())", "f.detach().digamma()", "p.polygamma(2)", "t.polygamma(0, p.detach())",
    "t.polygamma(3, f)", "(p + 2).mvlgamma(2)", "x.sinc()", "f.sinc()", "x.frac()", "f.frac()", "t.signbit(a)",
    "i.signbit()", "x.sgn()", "x.fix()", "x.hypot(p)", "t.hypot(x.detach() * 0, u.detach() * 0)", "x.logaddexp(u)",
    "t.logaddexp2(x, u)", "t.xlogy(x, p)", "t.xlogy(x, 2.0)", "t.xlogy(x * 0, a)", "x.copysign(u)",
    "t.copysign(x, -1.0)", "x.copysign(a)", "x.detach().nextafter(u.detach())", "x.detach().heaviside(u.detach())",
    "i.heaviside(j)", "t.fmax(x, a)", "a.fmin(u)", "t.fmax(x, x)", "i.fmax(j)", "i.gcd(j)", "t.lcm(i, j)",
    "x.clamp_min(0.1)", "t.clamp_max(x, 0.2)", "x.clamp_max(u)", "x.deg2rad()", "t.rad2deg(f)", "f.float_power(2)",
    "t.float_power(p, x)", "t.float_power(2.0, f)", "f.ldexp(t.tensor([1, 2, 3]))", "(u.abs() + 0.001).logit()",
    "u.abs().logit(0.05)", "t.logit(x)", "t.logit(x, eps=0.1)", "t.nan_to_num(a)", "a.nan_to_num(1.0, 2.0, -3.0)",
    "t.nan_to_num(f)", "i.nan_to_num()", "t.threshold(x, 0.0, 9.0)", "t.nn.functional.threshold(x, 0.1, -1)",
    "t.positive(x)", "t.isposinf(a)", "a.isneginf()", "a.isreal()", "t.nansum(a[3:])",
    "t.igamma(p.detach()[:6], p[:6])", "t.igammac(p.detach(), x.abs() + 0.1)", "p.detach().igamma(p * 3)",
    "t.igamma(t.tensor([0.0, 1.0, -1.0, 2.0, 3.0, inf]), t.tensor([1.0, 0.0, 2.0, inf, nan, 1.0]))",
    "t.nansum(t.cat([a[:1], x]))", "t.nanmean(t.cat([a[:1], x]))", "i.nansum()",
    "t.nanmean(t.stack([a[3:], a[2:6]]), 0, True)",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, factor=100.0, **GIVEN)


@pytest.mark.parametrize("name", ["lgamma", "erfinv", "erfc", "sinc", "logit", "frac", "clamp_min"])
def test_in_place(name: str) -> None:
    more = "0.3" if name == "clamp_min" else ""
    same(f"(u.abs() * 0.9 + 0.05).{name}_({more})", factor=100.0, **GIVEN)


def test_polygamma_of_float64() -> None:
    """PyTorch's trigamma is right to nine digits only."""
    same("t.digamma(p)", factor=1e4, **GIVEN)
    x: Any = ad.ones(1, dtype=ad.float64)
    np.testing.assert_allclose(x.polygamma(1).numpy(), np.pi**2 / 6, rtol=1e-15)


def test_incomplete_gamma_functions_of_a_large_order() -> None:
    """PyTorch's series is right to nine digits there; the value is from mpmath, in 30 digits."""
    a: Any = ad.tensor([130.0], dtype=ad.float64)
    np.testing.assert_allclose(a.igamma(a).numpy(), [0.5116636740671786], rtol=1e-13)
    np.testing.assert_allclose(a.igammac(a).numpy(), [1 - 0.5116636740671786], rtol=1e-13)


def test_the_slope_of_a_distance_at_the_origin_is_zero() -> None:
    x, y = (ad.zeros(1, requires_grad=True) for _ in range(2))
    gradients = ad.autograd.grad(ad.hypot(x, y), (x, y))
    assert [g.tolist() for g in gradients] == [[0.0], [0.0]]


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.polygamma(-1, p)", "polygamma(n, x) does not support negative n."),
        ("p.mvlgamma(0)", "p has to be greater than or equal to 1"),
        ("t.positive(b)", "on a bool tensor is not supported."),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


def test_settings_are_kept_in_the_nodes() -> None:
    x = ad.zeros(5, requires_grad=True)
    assert ad.threshold(x, threshold=1, value=1).grad_fn._saved_threshold == 1
    assert ad.logit(x, 1.0).grad_fn._saved_eps == 1.0
    assert ad.logit(x).grad_fn._saved_eps is None


def test_functions_in_place() -> None:
    x = ad.zeros(2)
    assert ad.exp_(x) is x
    assert x.tolist() == [1.0, 1.0]


def test_threshold_in_place_keeps_what_its_gradient_needs() -> None:
    same("t.nn.functional.threshold((x + 1).view_as(x), 0.9, -7.0, True) * x", x=np.linspace(-1.0, 1.0, 6))


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc", "sign"])
def test_the_slope_of_steps_is_zero_whatever_arrives(name: str) -> None:
    for library in (torch, ad):
        x = library.tensor([0.3, 1.5, -2.5], requires_grad=True)
        getattr(x, name)().backward(library.tensor([float("inf"), float("nan"), -1.0]))
        np.testing.assert_array_equal(x.grad.numpy(), np.zeros(3))
        assert not np.signbit(x.grad.numpy()).any()


@pytest.mark.parametrize("given", [{}, {"nan": 2.0}, {"posinf": 3.0}, {"nan": -1.0, "posinf": 1.0, "neginf": 0.0}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_to_num(dtype: Any, given: dict[str, float]) -> None:
    array = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e-30], dtype)
    ours, theirs = (t.nan_to_num(t.from_numpy(array), **given).numpy() for t in (ad, torch))
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))


def test_isreal_of_complex_numbers_that_are_not_known_yet() -> None:
    x = ad.tensor([1 + 0j, 2 + 1j, complex(0, -0.0)])
    for found in (ad.isreal(x), ad.compile(ad.isreal)(x), ad.vmap(ad.isreal)(x)):
        assert found.tolist() == [True, False, True]

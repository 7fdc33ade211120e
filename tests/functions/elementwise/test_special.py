"""Special functions against PyTorch: values, gradients to the second, types, poles and infinities, errors."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad
from adjoint import special

torch = pytest.importorskip("torch")

INFINITE = [np.inf, -np.inf, np.nan, 0.0]
GIVEN = {
    "x": np.array([-4.7, -2.0, -0.6, 0.0, 0.3, 1.0, 3.9]), "p": np.array([0.05, 0.3, 1.0, 1.9, 4.5]),
    "wide": np.array([-60.0, -9.5, -7.9, 0.001, 8.1, 20.0, 300.0]), "u": np.array([0.001, 0.1, 0.5, 0.8, 0.99]),
    "e": np.array(INFINITE), "f": np.array([0.25, 0.5, 2.0], np.float32), "i": np.array([3, 1, 2]),
    "b": np.array([True, False]), "n": np.array([[-1.0], [0.0], [1.0], [2.0], [5.0], [7.0], [9.7], [25.0]]),
    "m": np.array([-1.3, -1.0, -0.4, 0.0, 0.3, 1.0, 1.6]), "s": np.array([[1.0], [1.1], [2.0], [7.5], [40.0], [0.5]]),
    "q": np.array([-2.5, -1.0, -0.3, 0.0, 0.1, 1.0, 12.0, 300.0]),
}  # fmt: skip
UNARY = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "digamma", "entr", "erf", "erfc", "erfcx",
    "erfinv", "exp2", "expit", "expm1", "gammaln", "i0", "i0e", "i1", "i1e", "log1p", "log_ndtr", "logit",
    "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "ndtr", "ndtri", "psi",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "sinc", "spherical_bessel_j0",
]  # fmt: skip
DIFFERENTIABLE = ["entr", "erfcx", "i0", "i0e", "i1", "i1e", "log_ndtr", "ndtr", "ndtri"]
POLYNOMIALS = [name for name in special.__all__ if "polynomial" in name]


def test_every_documented_name_is_there() -> None:
    theirs = {n for n in dir(torch.special) if n[0] != "_" and n != "Tensor" and callable(getattr(torch.special, n))}
    assert set(special.__all__) == theirs
    assert ad.special is special


@pytest.mark.parametrize("name", UNARY)
def test_types(name: str) -> None:
    """Where PyTorch's own float64 is right to nine digits only, ours is compared in tests/ops/test_special.py."""
    for given in ("f.detach()", "i", "b"):
        same(f"t.special.{name}({given} * 1)" if given != "b" else f"t.special.{name}(b)", factor=5.0, **GIVEN)
    same(f"t.special.{name}(f.detach(), out=t.empty(3, dtype=t.float64))", factor=1e6, **GIVEN)


@pytest.mark.parametrize("name", UNARY)
def test_poles_and_infinities(name: str) -> None:
    same(f"t.special.{name}(e.detach())", **GIVEN)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_values_and_gradients(name: str) -> None:
    for given in ("u",) if name == "ndtri" else ("x", "wide", "u"):
        same(f"t.special.{name}({given})", factor=10.0, **GIVEN)
        same(f"t.autograd.grad(t.special.{name}({given}).sum(), {given}, create_graph=True)", factor=1e3, **GIVEN)


@pytest.mark.parametrize("expression", [
    "t.special.xlog1py(x, p[:, None])", "t.special.xlog1py(x * 0, e)", "t.special.xlog1py(x, 2.0)",
    "t.special.xlog1py(2.5, p)", "t.special.xlog1py(f, i)", "t.special.xlogy(x, 3.0)", "t.i0(x)", "x.i0()",
    "t.i0_(x * 1)", "(x * 1).i0_()", "t.special.multigammaln(p + 2, 2)", "t.special.polygamma(2, p)",
    "t.special.logsumexp(x, 0)", "t.special.logsumexp(x.detach(), 0, out=t.empty(()).double())",
    "t.special.softmax(x, 0)", "t.special.log_softmax(i, 0, dtype=t.float64)", "t.special.logit(u, eps=0.2)",
    "t.special.round(x, decimals=1)", "t.special.gammainc(p.detach(), p)", "t.special.gammaincc(p.detach(), p)",
    "t.frexp(x)", "f.frexp()[0]", "t.frexp(e)", "t.frexp(wide)[1]", "t.frexp(t.tensor(5e-324, dtype=t.float64))",
    "t.bitwise_left_shift(i, 2)", "i << 70", "i >> 1", "(i - 3) >> 64", "9 >> i", "2 << i", "i.bitwise_right_shift(i)",
    "i.to(t.int8) << t.tensor([6, 7, 8], dtype=t.int8)", "i << -1", "i.clone().bitwise_left_shift_(1)",
    "(i * 100).bitwise_right_shift_(i)", "i.to(t.uint8) << t.tensor([300])",
])  # fmt: skip
def test_further_calls(expression: str) -> None:
    same(expression, factor=100.0, **GIVEN)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    """PyTorch takes the angle of Chebyshev's a little earlier, and has no gradients."""
    for x in ("m.detach()", "m.detach() / 2 + 0.5"):
        same(f"t.special.{name}({x}, n.detach())", factor=300.0, **GIVEN)
    for call in ("f.detach(), 3", "2, i", "i, 4", "b, 2", "f.detach(), 2.9"):
        same(f"t.special.{name}({call})", **GIVEN)


@pytest.mark.parametrize("name", [name for name in POLYNOMIALS if "chebyshev" in name or "legendre" in name])
@pytest.mark.parametrize("degree", [1, 4, 5, 1_000_000_000, 1_000_000_001])
def test_polynomials_at_the_ends(name: str, degree: int) -> None:
    ends = "t.tensor([0, 1], dtype=t.float64)" if "shifted" in name else "t.tensor([-1, 1], dtype=t.float64)"
    same(f"t.special.{name}({ends}, {degree})", factor=1.0, **GIVEN)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_of_any_degree_end(name: str) -> None:
    found = getattr(special, name)(ad.tensor([-1.5, -1.0, -0.5, 0.0, 0.25, 1.0, 1.0 + 1e-15], dtype=ad.float64), 1e38)
    if "chebyshev" in name:
        assert np.isfinite(found.numpy()[3 if "shifted" in name else 1 : -1]).all()


def test_polynomials_of_nan_and_of_no_degree() -> None:
    for name in POLYNOMIALS:
        f = getattr(special, name)
        assert f(ad.tensor([np.nan]), 3.0).isnan().item()
        assert f(ad.zeros(0), 2.0).shape == (0,)
        with pytest.raises(NotImplementedError, match=f"the derivative for {name} is not implemented"):
            f(ad.ones(2, requires_grad=True), 3).sum().backward()


def test_zeta() -> None:
    same("t.special.zeta(s.detach(), q.detach())", factor=100.0, **GIVEN)
    same("t.special.zeta(s.detach()[1:-1], q[5:])", factor=100.0, **GIVEN)
    same("t.special.zeta(3, f)", factor=5.0, **GIVEN)
    same("t.special.zeta(i, 2.5)", factor=5.0, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.frexp(i)", "torch.frexp() only supports floating-point dtypes"),
        ("x << 1", " implemented for "),
        ("b >> b", " implemented for "),
        ("t.special.softmax(i, 0)", " implemented for "),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


def test_shifts_in_place_by_operator() -> None:
    x: Any = ad.tensor([1, 2])
    before = x
    x <<= 3
    x >>= ad.tensor([1, 2])
    assert x is before
    assert x.tolist() == [4, 4]

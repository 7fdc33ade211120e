"""Norms, conditions, determinants, products, powers and exponentials against PyTorch."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad

torch = pytest.importorskip("torch")

A = np.cos(np.arange(18.0)).reshape(2, 3, 3) + 2 * np.eye(3)
GIVEN = {
    "a": A, "p": A[0] @ A[0].T, "w": np.cos(np.arange(8.0) ** 1.2).reshape(4, 2), "v": np.array([1.0, -2.0, 3.0]),
    "four": np.sin(np.arange(48.0) ** 1.4).reshape(2, 3, 2, 4), "z": np.zeros((2, 2)), "e": np.zeros((0, 3)),
    "s": np.stack([A[0], np.ones((3, 3))]), "nothing": np.zeros((2, 0, 0)), "none": np.zeros((0, 3, 3)),
    "u": np.array([2.0, -1.0]), "x": np.sin(np.arange(6.0)).reshape(2, 3), "i": np.array([[1, 2], [3, 4]]),
    "y": np.cos(np.arange(3.0)).reshape(1, 3), "empty": np.zeros(0),
}  # fmt: skip
ORDERS = ["'fro'", "'nuc'", "2", "-2", "1", "-1", "inf", "-inf"]


@pytest.mark.parametrize("expression", [
    *(f"t.linalg.matrix_norm({x}, {ord})" for x in ("w", "a") for ord in ORDERS),
    *(f"t.linalg.matrix_norm(four, {ord}, dim=(0, 2), keepdim=True)" for ord in ORDERS),
    *(f"t.linalg.norm(four, {ord}, dim=(-1, 1))" for ord in ORDERS), *(f"t.linalg.norm(w, {ord})" for ord in ORDERS),
    *(f"t.linalg.vector_norm({x}, {ord})" for x in ("v", "a") for ord in ("1", "2", "3.5", "-1", "inf", "-inf")),
    *(f"t.linalg.cond({x}, {p})" for x in ("a", "p") for p in ("None", "2", "-2", "'nuc'")),
    "t.linalg.vector_norm(a, 3, dim=(0, 2), keepdim=True)", "t.linalg.vector_norm(v.float(), dtype=t.float64)",
    "t.linalg.vector_norm(z)", "t.linalg.vector_norm(e, dim=0)", "t.linalg.vector_norm(empty, 1)",
    "t.linalg.norm(a)", "t.linalg.norm(a, dim=1)", "t.linalg.norm(a, 1, dim=-1)", "t.linalg.norm(v, inf)",
    "t.linalg.norm(v, -2)", "t.linalg.norm(w, keepdim=True)", "t.linalg.norm(w.float(), 2, dtype=t.float64)",
    "t.linalg.matrix_norm(e)", "t.linalg.matrix_norm(e, 1)", "t.linalg.matrix_norm(e, 'nuc')",
    "t.linalg.matrix_norm(t.eye(3, dtype=t.float64) * v[0], 'nuc')",
    "t.linalg.cond(w)", "t.linalg.cond(w, -2)", "t.linalg.cond(s.detach(), 'fro')", "t.linalg.cond(nothing)",
    "t.linalg.cond(nothing, 1)", "t.linalg.cond(none, 'fro')",
    "t.nuclear_norm(w)", "t.nuclear_norm(w, True)", "t.nuclear_norm(four, (0, 2), True)",
    "t.frobenius_norm(w, 1)", "t.frobenius_norm(four, (1, 2), True)", "t.frobenius_norm(w, [])",
    "t.norm_except_dim(w)", "t.norm_except_dim(four, 2, 2)", "t.norm_except_dim(w, 2, -1)",
    "t.norm_except_dim(w, 1, 1)", "t.norm(w, 'nuc')", "t.norm(four, 'nuc', dim=(1, 3))", "w.norm('nuc')",
    "t.linalg.det(a)", "t.linalg.det(nothing)", "t.linalg.det(none)", "t.linalg.slogdet(a)", "a.slogdet()",
    "t.linalg.slogdet(nothing)", "t.logdet(p)", "a.logdet()", "t.linalg.det(-p)", "t.logdet(nothing)",
    "t.linalg.matrix_exp(a)", "a.matrix_exp()", "t.matrix_exp(none)", "t.matrix_exp(nothing)", "t.matrix_exp(z)",
    "t.matrix_exp(a * 10)", "t.matrix_exp(a * 0.001)", "t.matrix_exp(p.float() / 20)",
    "t.linalg.matrix_power(a, 5)", "t.linalg.matrix_power(a, -3)", "t.linalg.matrix_power(i, 3)",
    "t.linalg.matrix_power(nothing, 2)", "a.matrix_power(2)",
    "t.linalg.multi_dot([v, a[0], p, v])", "t.linalg.multi_dot([w, x, p])", "t.linalg.multi_dot((x, p))",
    "t.linalg.multi_dot([w, w.mT, w, x, a[1], v])", "t.chain_matmul(w, x, p)", "t.chain_matmul(w)",
    "t.linalg.vecdot(x, y)", "t.linalg.vecdot(x, x, dim=0)", "t.linalg.vecdot(x, v)",
    "t.linalg.vander(x)", "t.linalg.vander(v, N=5)", "t.linalg.vander(i)", "t.linalg.vander(u, N=2)",
    "t.linalg.cross(x, y)", "t.linalg.cross(a, p.expand(2, 3, 3), dim=1)", "t.linalg.diagonal(four, offset=1)",
    "t.linalg.diagonal(four, dim1=0, dim2=1)", "t.linalg.matmul(w, x)",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, factor=1e7 if "float()" in expression else 1e4, **GIVEN)


@pytest.mark.parametrize("expression", [
    "t.linalg.norm(w, out=t.zeros(()).double())", "t.linalg.vector_norm(a, dim=0, out=p * 1)",
    "t.linalg.matrix_norm(a, 1, out=u * 1)", "t.linalg.det(a, out=u * 1)", "t.linalg.slogdet(a, out=(u * 1, u * 2))",
    "t.linalg.cond(a, out=u * 1)", "t.linalg.matrix_power(a, 2, out=a * 1)", "t.linalg.vecdot(x, y, out=u * 1)",
    "t.linalg.multi_dot([w, x], out=t.zeros(4, 3).double())", "t.linalg.cross(x, x, out=x * 1)",
    *(f"t.linalg.cond({x}, {p})" for x in ("a", "p") for p in ORDERS), "t.linalg.matrix_norm(e, inf)",
    "t.linalg.matrix_norm(e.mT, 1)", "t.linalg.matrix_norm(e, 2)", "t.linalg.vector_norm(a, 0)",
    "t.linalg.vector_norm(v, 0)", "t.linalg.matrix_power(a, 0)", "t.linalg.matrix_power(nothing, 0)",
    "t.linalg.cond(t.eye(2) * 0)", "t.linalg.cond(t.ones(2, 2), 1)",
])  # fmt: skip
def test_values(expression: str) -> None:
    same(expression, gradient=False, factor=1000.0, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.linalg.vector_norm(v, 'fro')", "argument 'ord' (position 2) must be Number, not str"),
        ("t.linalg.vector_norm(empty, inf)", "cannot compute the inf norm on an empty tensor because the operation"),
        ("t.linalg.vector_norm(i)", "linalg.vector_norm: Expected a floating point or complex tensor as input. Got"),
        ("t.linalg.vector_norm(v, dtype=t.float32)", "should be convertible without narrowing to the specified dtype"),
        ("t.linalg.matrix_norm(v)", "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."),
        ("t.linalg.matrix_norm(w, 'x')", "linalg.matrix_norm: Order x not supported."),
        ("t.linalg.matrix_norm(w, 3)", "linalg.matrix_norm: Order 3 not supported."),
        ("t.linalg.matrix_norm(w, dim=(0, 0))", "linalg.matrix_norm: dims must be different. Got (0, 0)"),
        ("t.linalg.matrix_norm(i)", "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got"),
        ("t.linalg.matrix_norm(w, dim=0)", "linalg_matrix_norm()"),
        ("t.linalg.norm(v, 'nuc')", "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."),
        (
            "t.linalg.norm(four, 2, dim=(0, 1, 2))",
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got [0, 1, 2]",
        ),
        (
            "t.linalg.cond(w, 1)",
            "linalg.cond(ord=1): A must be batches of square matrices, but they are 4 by 2 matrices",
        ),
        ("t.linalg.cond(p, 3)", "linalg.cond got an invalid norm type: 3"),
        ("t.linalg.cond(v)", "linalg.cond: The input tensor must have at least 2 dimensions."),
        ("t.frobenius_norm(four, (0, 1, 2))", "Expected at most 2 dimensions, but got 3 dimensions instead."),
        ("t.linalg.det(i)", "linalg.det: Expected a floating point or complex tensor as input. Got"),
        ("t.linalg.matrix_exp(w)", "linalg.matrix_exp: A must be batches of square matrices, but they are 4 by 2"),
        (
            "t.linalg.matrix_power(w, 2)",
            "linalg.matrix_power: A must be batches of square matrices, but they are 4 by 2",
        ),
        ("t.linalg.matrix_power(p, 1.5)", "linalg_matrix_power(): argument 'n' (position 2) must be int, not float"),
        ("t.linalg.matrix_power(z, -1)", "linalg.inv: The diagonal element 1 is zero"),
        ("t.linalg.multi_dot([w])", "multi_dot(): expected at least 2 tensors but got 1"),
        (
            "t.linalg.multi_dot([w, w])",
            "multi_dot(): tensors 0 and 1 with shapes [4, 2] and [4, 2] cannot be multiplied",
        ),
        ("t.linalg.multi_dot([w, a, v])", "multi_dot(): tensor 1 must be 2D but got 3D"),
        ("t.chain_matmul()", "chain_matmul(): Expected one or more matrices"),
        ("t.linalg.vecdot(x, x.float())", "Expected x and y to have the same dtype"),
        ("t.linalg.vecdot(i, i)", "linalg.vecdot: Expected a floating point or complex tensor as input. Got"),
        ("t.linalg.vecdot(x, u)", "The size of tensor a (3) must match the size of tensor b (2)"),
        ("t.linalg.vander(v, N=1)", "N must be greater than 1."),
        ("t.linalg.cross(w, w)", "must have length 3. Got 2 and 2"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


SMOOTH: dict[str, Any] = {
    **{
        f"matrix_norm-{ord}": (eval(f"lambda t, a: t.linalg.matrix_norm(a, {ord})", {"inf": np.inf}), "a")
        for ord in ORDERS
    },
    **{f"cond-{ord}": (eval(f"lambda t, a: t.linalg.cond(a, {ord})", {"inf": np.inf}), "a") for ord in ORDERS},
    "vector_norm": (lambda t, a: t.linalg.vector_norm(a, 3, dim=1), "a"),
    "matrix_exp": (lambda t, a: t.matrix_exp(a / 2), "a"),
    "slogdet": (lambda t, a: t.slogdet(a), "a"),
    "vander": (lambda t, x: t.linalg.vander(x, 4), "x"),
    "multi_dot": (lambda t, w, x, v: t.linalg.multi_dot([w, x, v]), "w x v"),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_higher_derivatives(name: str) -> None:
    function, names = SMOOTH[name]
    inputs = tuple(ad.tensor(GIVEN[n], requires_grad=True) for n in names.split())
    assert ad.autograd.gradcheck(lambda *x: function(ad, *x), inputs, check_forward_ad=True)
    assert ad.autograd.gradgradcheck(lambda *x: function(ad, *x), inputs)


@pytest.mark.parametrize("name", [n for n, (_, given) in SMOOTH.items() if given == "a" and n != "vector_norm"])
def test_examples_of_a_batch(name: str) -> None:
    function, _ = SMOOTH[name]
    x = ad.tensor(A)
    whole, mapped = function(ad, x), ad.vmap(lambda x: function(ad, x))(x)
    for expected, got in zip(*(y if isinstance(y, tuple) else (y,) for y in (whole, mapped)), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-12)


def test_the_order_of_a_product_is_the_cheapest() -> None:
    x, y, z = ad.ones(2, 100), ad.ones(100, 2), ad.ones(2, 100)
    out = ad.compile(lambda x, y, z: ad.linalg.multi_dot([x, y, z]))
    out(x, y, z)
    sizes = [value.shape for value in out.graph.equations if value.op.name == "mm"]
    assert sizes == [(2, 2), (2, 100)]


def test_the_exponential_of_what_is_not_finite_is_nan() -> None:
    x = np.stack([np.eye(2), np.full((2, 2), np.inf)])
    out = ad.matrix_exp(ad.tensor(x)).numpy()
    np.testing.assert_allclose(out[0], np.e * np.eye(2), atol=1e-15)
    assert np.isnan(out[1]).all()


def test_norms_of_equal_singular_values_have_gradients() -> None:
    x = ad.eye(3, dtype=ad.float64).requires_grad_()
    (slope,) = ad.autograd.grad(ad.linalg.matrix_norm(x, "nuc"), x)
    np.testing.assert_allclose(slope.numpy(), np.eye(3), atol=1e-15)

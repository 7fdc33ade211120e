"""Equations, inverses and least squares against PyTorch: values, gradients, higher derivatives, batches, errors."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad

torch = pytest.importorskip("torch")

A = np.cos(np.arange(18.0)).reshape(2, 3, 3) + 2 * np.eye(3)
TALL = np.cos(np.arange(24.0) ** 1.3).reshape(2, 4, 3)
GIVEN = {
    "a": A, "p": A[0] @ A[0].T, "b": np.sin(np.arange(12.0)).reshape(2, 3, 2), "v": np.array([1.0, 2.0, 3.0]),
    "tall": TALL, "wide": np.swapaxes(TALL, 1, 2).copy(), "c": np.sin(np.arange(16.0) ** 1.1).reshape(2, 4, 2),
    "rows": np.sin(np.arange(8.0)).reshape(2, 4), "z": np.zeros((3, 3)), "mixed": np.stack([A[0], np.ones((3, 3))]),
    "none": np.zeros((0, 3, 3)), "nothing": np.zeros((2, 0, 0)), "flat": np.zeros((2, 3, 0)),
    "cube": np.cos(np.arange(36.0) ** 1.2).reshape(2, 3, 6), "mid": np.cos(np.arange(36.0) ** 1.2).reshape(2, 6, 3),
    "face": np.sin(np.arange(6.0)).reshape(2, 3),
    "large": np.random.default_rng(0).standard_normal((40, 40)) + 40 * np.eye(40),
    "r": np.outer(np.arange(1.0, 5.0), np.array([1.0, -1.0, 2.0])), "tol": np.array([0.5, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("expression", [
    "t.linalg.inv(a)", "t.inverse(a)", "a.inverse()", "t.linalg.inv_ex(a)", "t.linalg.inv_ex(mixed).info",
    "t.linalg.inv(none)", "t.linalg.inv(nothing)", "t.linalg.inv_ex(nothing)",
    "t.linalg.solve(a, b)", "t.linalg.solve(a, v)", "t.linalg.solve(p, v)", "t.linalg.solve(a, b[..., 0])",
    "t.linalg.solve(p, b)", "t.linalg.solve(a, p)", "t.linalg.solve(a, b.mT, left=False)",
    "t.linalg.solve(nothing, flat[:, :0])", "t.linalg.solve(a, flat)", "t.linalg.solve(none, p)",
    "t.linalg.solve_ex(a, b)", "t.linalg.solve_ex(mixed, b).info", "t.linalg.solve_ex(a, b.mT, left=False)",
    *(
        f"t.linalg.solve_triangular({x}, {y}, upper={upper}, left={left}, unitriangular={unit})"
        for x, y in [("a", "b"), ("p", "b"), ("a", "p"), ("large", "large")]
        for upper in (True, False) for left in (True, False) for unit in (True, False)
        if left or y != "b"
    ),
    "t.linalg.solve_triangular(a, b.mT, upper=True, left=False)", "t.linalg.solve_triangular(z, p, upper=True)",
    "t.linalg.solve_triangular(nothing, nothing, upper=True)",
    "t.triangular_solve(b, a)", "t.triangular_solve(b, p, False, True, True)",
    "b.triangular_solve(a, transpose=True)",
    "t.linalg.pinv(tall)", "t.linalg.pinv(wide)", "t.linalg.pinv(r)", "t.linalg.pinv(p, hermitian=True)",
    "t.linalg.pinv(a, atol=0.5)", "t.linalg.pinv(a, rtol=0.5)", "t.linalg.pinv(a, 0.5)", "t.pinverse(tall)",
    "t.linalg.pinv(a, atol=t.tensor([0.5, 2.0]))", "t.linalg.pinv(p, rtol=t.tensor([[0.1], [0.7]]).double())",
    "t.linalg.pinv(none)", "t.linalg.pinv(flat)", "tall.pinverse(0.3)", "t.linalg.pinv(z)",
    "t.linalg.lstsq(tall, c)[::2]", "t.linalg.lstsq(wide, b)[::2]", "t.linalg.lstsq(a, b)[::2]",
    "t.linalg.lstsq(tall, rows)[::2]",
    "t.linalg.lstsq(tall[0], rows[0])[::2]", "t.linalg.lstsq(tall, c, driver='gels')",
    "t.linalg.lstsq(tall, c, driver='gelsd')", "t.linalg.lstsq(tall, c, driver='gelss')",
    "t.linalg.lstsq(wide, b, driver='gelsd')[::2]", "t.linalg.lstsq(tall[0], c).solution",
    "t.linalg.lstsq(tall, c, rcond=0.5, driver='gelsd')[2]",
    "t.linalg.tensorinv(cube)", "t.linalg.tensorinv(mid.permute(1, 0, 2), ind=1)",
    "t.linalg.tensorsolve(cube, face)",
    "t.linalg.tensorsolve(mid, face, dims=(1,))", "t.linalg.tensorsolve(mid, face, (-2,))",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, factor=1e5 if "mid" in expression or "cube" in expression else 1000.0, **GIVEN)


@pytest.mark.parametrize("expression", [
    "t.linalg.lstsq(r, t.ones(4, 1).double(), driver='gelsd')", "t.linalg.lstsq(wide, b, driver='gelss')",
    "t.linalg.lstsq(tall, c)", "t.linalg.inv(a, out=t.zeros(2, 3, 3).double())",
    "t.linalg.solve(a, b, out=t.zeros(2, 3, 2).double())", "t.linalg.inv_ex(a, out=(a * 0, t.zeros(2).int()))",
    "t.linalg.tensorinv(cube, out=t.zeros(6, 2, 3).double())", "t.linalg.pinv(tall, out=wide * 1)",
    "t.linalg.solve_triangular(a, b, upper=True, out=b * 1)", "t.linalg.matrix_rank(r)", "t.linalg.matrix_rank(a)",
    "t.linalg.matrix_rank(a, 2.5)", "t.linalg.matrix_rank(a, tol=2.5)", "t.linalg.matrix_rank(a, atol=2.5)",
    "t.linalg.matrix_rank(a, rtol=0.6)", "t.linalg.matrix_rank(p, hermitian=True)",
    "t.linalg.matrix_rank(-p, 5, True)", "t.linalg.matrix_rank(a, atol=tol)", "t.linalg.matrix_rank(p, rtol=tol)",
    "t.linalg.matrix_rank(z)", "t.linalg.matrix_rank(none)", "t.linalg.matrix_rank(flat)",
    "t.linalg.matrix_rank(a, out=t.zeros(2).long())", "t.linalg.matrix_rank(a, atol=1.5, rtol=0.1)",
    "t.linalg.matrix_rank(a.float())",
])  # fmt: skip
def test_values(expression: str) -> None:
    same(expression, gradient=False, factor=1000.0, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.linalg.inv(z)", "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because"),
        ("t.linalg.inv(mixed)", "linalg.inv: (Batch element 1): The diagonal element 2 is zero"),
        ("t.linalg.inv_ex(z, check_errors=True)", "linalg.inv_ex: The diagonal element 1 is zero"),
        ("t.linalg.solve(z, v)", "torch.linalg.solve: The solver failed because the input matrix is singular."),
        ("t.linalg.solve(mixed, b)", "torch.linalg.solve: (Batch element 1): The solver failed because the input"),
        ("t.linalg.solve_ex(z, v, check_errors=True)", "torch.linalg.solve_ex: The solver failed because the input"),
        ("t.linalg.solve(a, b.float())", "linalg.solve: Expected A and B to have the same dtype"),
        ("t.linalg.solve(a, a[:, 0], left=False)", "for the equation XA = B (3x3 and 3x1)"),
        ("t.linalg.solve(tall, b)", "linalg.solve: A must be batches of square matrices, but they are 4 by 3 matrices"),
        ("t.linalg.inv(p.half())", "linalg.inv: Low precision dtypes not supported. Got"),
        ("t.linalg.inv(p.int())", "linalg.inv: Expected a floating point or complex tensor as input. Got"),
        ("t.linalg.solve_triangular(tall, b, upper=True)", "A must be batches of square matrices, but they are 4 by 3"),
        ("t.linalg.solve_triangular(p, v, upper=True)", "The input tensor B must have at least 2 dimensions."),
        ("t.linalg.solve_triangular(p, tall, upper=True)", "for the equation AX = B (3x3 and 4x3)"),
        ("t.triangular_solve(v, p)", "Expected b to have at least 2 dimensions, but it has 1 dimensions instead"),
        ("t.linalg.pinv(v)", "expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types"),
        ("t.linalg.pinv(tall, hermitian=True)", "A must be batches of square matrices, but they are 4 by 3 matrices"),
        ("t.linalg.matrix_rank(v)", "The input tensor input must have at least 2 dimensions."),
        ("t.linalg.lstsq(v, c)", "torch.linalg.lstsq: input must have at least 2 dimensions."),
        ("t.linalg.lstsq(tall, b)", "torch.linalg.lstsq: input.size(-2) should match other.size(-2)"),
        ("t.linalg.lstsq(tall, c, driver='x')", "parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"),
        ("t.linalg.tensorinv(cube, ind=0)", "Expected a strictly positive integer for 'ind', but got 0"),
        ("t.linalg.tensorinv(cube, ind=1)", "prod(self.shape[ind:]) == prod(self.shape[:ind]), but got 18 != 2"),
        ("t.linalg.tensorsolve(mid, face)", "Expected self to satisfy the requirement prod(self.shape[other.ndim:])"),
        ("t.linalg.inv(a.requires_grad_(), out=a * 1)", "functions with out=... arguments don't support automatic"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


SMOOTH: dict[str, Any] = {
    "inv_ex": (lambda t, a: t.linalg.inv_ex(a).inverse, "a"),
    "solve_ex": (lambda t, a, b: t.linalg.solve_ex(a, b).result, "a b"),
    "solve-right": (lambda t, p, tall: t.linalg.solve(p, tall, left=False), "p tall"),
    "solve_triangular": (lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True), "a b"),
    "solve_triangular-unit": (
        lambda t, p, tall: t.linalg.solve_triangular(p, tall, upper=False, left=False, unitriangular=True),
        "p tall",
    ),
    "pinv-tall": (lambda t, tall: t.linalg.pinv(tall), "tall"),
    "pinv-wide": (lambda t, wide: t.linalg.pinv(wide), "wide"),
    "pinv-one-value": (lambda t, a: t.linalg.pinv(a * 0.0 + t.eye(3, dtype=a.dtype) + (a - a.detach())), "a"),
    "lstsq": (lambda t, tall, c: t.linalg.lstsq(tall, c).solution, "tall c"),
    "lstsq-wide": (lambda t, wide, b: t.linalg.lstsq(wide, b).solution, "wide b"),
    "lstsq-residuals": (lambda t, tall, c: t.linalg.lstsq(tall, c, driver="gels").residuals, "tall c"),
    "tensorsolve": (lambda t, mid, face: t.linalg.tensorsolve(mid, face, (1,)), "mid face"),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_higher_derivatives(name: str) -> None:
    function, names = SMOOTH[name]
    inputs = tuple(ad.tensor(GIVEN[n] / (4 if n == "mid" else 1), requires_grad=True) for n in names.split())
    tolerance = {"atol": 1e-3, "rtol": 1e-3} if name == "tensorsolve" else {}
    if name != "pinv-one-value":  # its function is another at each point
        assert ad.autograd.gradcheck(lambda *x: function(ad, *x), inputs, check_forward_ad=True, **tolerance)
    if name not in ("pinv-one-value", "tensorsolve"):
        assert ad.autograd.gradgradcheck(lambda *x: function(ad, *x), inputs)


@pytest.mark.parametrize("name", [n for n, (_, given) in SMOOTH.items() if given in ("a", "tall", "wide", "a b")])
def test_examples_of_a_batch(name: str) -> None:
    function, names = SMOOTH[name]
    inputs = [ad.tensor(GIVEN[n]) for n in names.split()]
    whole, mapped = function(ad, *inputs), ad.vmap(lambda *x: function(ad, *x))(*inputs)
    np.testing.assert_allclose(mapped.numpy(), whole.numpy(), atol=1e-13)


def test_equal_singular_values_have_a_pseudoinverse_with_a_gradient() -> None:
    x = ad.eye(3, dtype=ad.float64).requires_grad_()
    (slope,) = ad.autograd.grad(ad.linalg.pinv(x).sum(), x)
    np.testing.assert_allclose(slope.numpy(), -np.ones((3, 3)))


def test_a_singular_matrix_leaves_the_others() -> None:
    out, info = ad.linalg.inv_ex(ad.tensor(GIVEN["mixed"]))
    np.testing.assert_allclose(out[0].numpy(), np.linalg.inv(A[0]))
    assert np.isnan(out[1].numpy()).all()
    assert info.tolist() == [0, 2]
    result = ad.linalg.solve_ex(ad.tensor(GIVEN["mixed"]), ad.tensor(GIVEN["b"])).result
    np.testing.assert_allclose(result[0].numpy(), np.linalg.solve(A[0], GIVEN["b"][0]))
    assert np.isnan(result[1].numpy()).all()


@pytest.mark.parametrize("name", ["eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_removed_functions_raise(name: str) -> None:
    for library in (ad, torch):
        x = library.eye(2)
        with pytest.raises(RuntimeError, match="now removed"):
            getattr(library, name)(x, x) if name in ("lstsq", "solve") else getattr(library, name)(x)
        assert hasattr(library.Tensor, name) == (name != "matrix_rank")


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares_of_a_batch_have_residuals_if_all_examples_have_full_rank(driver: str) -> None:
    full = ad.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[2.0, 1.0], [0.0, 1.0], [1.0, 3.0]]], dtype=ad.float64)
    b = ad.tensor([[1.0], [2.0], [4.0]], dtype=ad.float64)
    one_singular = full.clone()
    one_singular[1, :, 1] = 0.0
    for a in (full, one_singular):
        if driver == "gels" and a is one_singular:
            continue  # which PyTorch leaves undefined
        whole = ad.linalg.lstsq(a, b.expand(2, 3, 1), driver=driver)
        mapped = ad.vmap(lambda x: tuple(ad.linalg.lstsq(x, b, driver=driver)))(a)
        np.testing.assert_allclose(mapped[0].numpy(), whole.solution.numpy(), atol=1e-13)
        assert (mapped[1].numel() > 0) is (a is full and driver != "gelsy")
        if mapped[1].numel():
            np.testing.assert_allclose(mapped[1].numpy(), whole.residuals.numpy(), atol=1e-13)

"""Eigenvalues and singular values against PyTorch, all of them and few of many; and all factors of complex matrices."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad

torch = pytest.importorskip("torch")

A = np.cos(np.arange(18.0)).reshape(2, 3, 3) + 2 * np.eye(3)
P = np.array([[3.0, 0.5, -0.2], [0.5, 2.0, 0.3], [-0.2, 0.3, 1.0]])
numbers = np.random.default_rng(3)
GIVEN = {
    "a": A, "p": P, "l": np.tril(P) + np.triu(np.full((3, 3), 9.0), 1),
    "tall": np.cos(np.arange(24.0) ** 1.3).reshape(2, 4, 3), "v": np.arange(3.0), "z": np.zeros((2, 2)),
    "wide": np.sin(np.arange(10.0) ** 1.4).reshape(2, 5), "none": np.zeros((0, 3, 3)), "nothing": np.zeros((2, 0, 0)),
    "flat": np.zeros((2, 3, 0)), "bad": np.full((2, 2), np.nan),
    "large": numbers.standard_normal((30, 12)) @ np.diag(2.0 ** -np.arange(12)) @ numbers.standard_normal((12, 12)),
}  # fmt: skip


@pytest.mark.parametrize("expression", [
    "t.linalg.eigh(p)[0]", "t.linalg.eigh(l)[0]", "t.linalg.eigh(l, 'U')[0]", "t.linalg.eigh(p, UPLO='u')[1].abs()",
    "t.linalg.eigvalsh(p)", "t.linalg.eigvalsh(l)", "t.linalg.eigvalsh(l, 'U')", "t.linalg.eigvalsh(none)",
    "t.linalg.eigh(nothing)", "t.linalg.eigvalsh(t.eye(3).double() * v[1])",
    "t.linalg.svd(tall)[0][..., :3].abs()", "t.linalg.svd(tall)[1]", "t.linalg.svd(wide)[2][:2].abs()",
    "t.linalg.svd(wide, full_matrices=False)[0].abs()", "t.linalg.svd(tall, False)[2].abs()",
    "t.svd(tall)[2].abs()", "t.svd(wide)[2].abs()", "t.svd(wide, False)[2][:, :2].abs()", "tall.svd()[1]",
    "t.linalg.svdvals(wide)", "t.linalg.svdvals(z)", "t.linalg.svdvals(flat)", "t.linalg.svd(none)",
    "t.linalg.svd(flat, False)", "t.linalg.eig(a)[0].abs()", "t.linalg.eigvals(a).real.sum()",
    "t.linalg.eigvals(a).abs()", "t.linalg.eig(a)[1].abs()", "t.linalg.eig(p)[0].real", "t.linalg.eigvals(a)",
    "t.linalg.eig(none)[0].abs()",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, factor=1e4, **GIVEN)


@pytest.mark.parametrize("expression", [
    "t.linalg.svd(tall)[0].shape", "t.linalg.svd(wide)[2].shape", "t.linalg.svd(flat)", "t.svd(tall, True, False)",
    "t.svd(wide, compute_uv=False)", "t.linalg.svdvals(tall, out=t.zeros(2, 3).double())",
    "t.linalg.eig(a.float())[0].abs()",
    "[x.abs() for x in t.linalg.eigh(p, out=(v * 1, p * 1))]", "t.linalg.eigvals(p.float())", "t.linalg.eig(nothing)",
])  # fmt: skip
def test_values(expression: str) -> None:
    same(expression, gradient=False, factor=1e7 if "float()" in expression else 1000.0, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.linalg.eigh(p, 'X')", "Expected UPLO argument to be 'L' or 'U', but got X"),
        ("t.linalg.eigh(tall)", "linalg.eigh: A must be batches of square matrices, but they are 4 by 3 matrices"),
        ("t.linalg.eig(wide)", "linalg.eig: A must be batches of square matrices, but they are 2 by 5 matrices"),
        ("t.linalg.eig(bad)", "torch.linalg.eig: input tensor should not contain infs or NaNs."),
        (
            "t.linalg.svd(bad)",
            "linalg.svd: The algorithm failed to converge because the input matrix contained non-fin",
        ),
        ("t.linalg.svd(v)", "linalg.svd: The input tensor A must have at least 2 dimensions."),
        ("t.linalg.svd(p, driver='gesvd')", "keyword argument `driver=` is only supported on CUDA inputs"),
        ("t.lobpcg(p, 2)", "LOBPCG algorithm is not applicable when the number of A rows (=3) is smaller than 3 x"),
        ("t.pca_lowrank(p, q=4)", "q(=4) must be non-negative integer and not greater than min(m, n)=3"),
        ("t.pca_lowrank(p, niter=-1)", "niter(=-1) must be non-negative integer"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


SMOOTH: dict[str, Any] = {
    "eigh": (lambda t, p: t.linalg.eigh((p + p.mT) / 2), "p"),
    "eigvalsh": (lambda t, p: t.linalg.eigvalsh((p + p.mT) / 2), "p"),
    "svd": (lambda t, tall: t.linalg.svd(tall, False), "tall"),
    "svdvals": (lambda t, wide: t.linalg.svdvals(wide), "wide"),
    "svd-full": (lambda t, wide: t.linalg.svd(wide)[:2], "wide"),
    "eigvals": (lambda t, a: t.linalg.eigvals(a).abs(), "a"),
    "eig": (lambda t, a: t.linalg.eig(a)[1].abs(), "a"),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_higher_derivatives(name: str) -> None:
    function, names = SMOOTH[name]
    inputs = tuple(ad.tensor(GIVEN[n], requires_grad=True) for n in names.split())
    assert ad.autograd.gradcheck(lambda *x: function(ad, *x), inputs, check_forward_ad=not name.startswith("eigv"))
    assert ad.autograd.gradgradcheck(lambda *x: function(ad, *x), inputs)


def complex_numbers(*shape: int) -> Any:
    draws = np.random.default_rng(sum(shape))
    return draws.standard_normal(shape) + 1j * draws.standard_normal(shape)


COMPLEX = {
    "a": complex_numbers(2, 3, 3) + 2 * np.eye(3), "b": complex_numbers(2, 3, 2), "tall": complex_numbers(2, 4, 3),
    "wide": complex_numbers(2, 3, 4), "c": complex_numbers(2, 4, 2), "tau": complex_numbers(2, 3),
    "h": complex_numbers(3, 3) @ complex_numbers(3, 3).conj().T + np.eye(3),
}  # fmt: skip


@pytest.mark.parametrize("expression", [
    "t.linalg.inv(a)", "t.linalg.det(a)", "t.linalg.slogdet(a)[0]", "t.linalg.slogdet(a)[1]",
    "t.linalg.solve(a, b)", "t.linalg.solve_triangular(a, b, upper=True)", "t.linalg.cholesky(h)",
    "t.linalg.cholesky(h, upper=True)", "t.linalg.qr(tall)[0]", "t.linalg.qr(wide)[1]", "t.linalg.lu(a)[1]",
    "t.linalg.lu_factor(tall)[0]", "t.linalg.eigh(h)[0]", "t.linalg.eigh(h, 'U')[1].abs()", "t.linalg.eigvalsh(h)",
    "t.linalg.svdvals(tall)", "t.linalg.svd(tall, False)[0].abs()", "t.linalg.svd(wide, False)[2].abs()",
    "t.svd(tall)[2].abs()", "t.linalg.pinv(tall)", "t.linalg.lstsq(tall, c).solution", "t.matrix_exp(a)",
    "t.linalg.matrix_norm(a, 'nuc')", "t.linalg.matrix_norm(a, 1)", "t.linalg.norm(a)",
    "t.linalg.householder_product(tall, tau)", "t.ormqr(tall, tau, c, transpose=True)",
    "t.linalg.lu_solve(*t.linalg.lu_factor(a), b)", "t.linalg.lu_solve(*t.linalg.lu_factor(a), b, adjoint=True)",
    "t.linalg.lu_solve(*t.linalg.lu_factor(a), b.mT, left=False, adjoint=True).resolve_conj()",
    "t.cholesky_solve(b, h.tril())",
    "t.linalg.vander(b)", "t.linalg.eigvals(a)", "t.linalg.eig(a)[1].abs()", "t.linalg.matrix_power(a, -2)",
    "t.linalg.vecdot(a, a.mT).resolve_conj()",
])  # fmt: skip
def test_complex_values_and_gradients(expression: str) -> None:
    found = []
    for library in (ad, torch):
        tensors = {n: library.tensor(x, requires_grad=True) for n, x in COMPLEX.items()}
        out = eval(expression, {"t": library, **tensors})
        weights = library.tensor(np.cos(np.arange(out.numel())).reshape(tuple(out.shape)))
        real = library.view_as_real(out) @ library.tensor([1.0, 0.5]).double() if out.is_complex() else out
        (real * weights + out.abs() ** 2).sum().backward()
        found.append([out.detach().numpy(), *(x.grad.numpy() for x in tensors.values() if x.grad is not None)])
    for ours, theirs in zip(*found, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("hermitian", [True, False])
def test_complex_symmetric_factors_solve(hermitian: bool) -> None:
    x, b = complex_numbers(6, 6), complex_numbers(6, 2)
    x = x + (x.conj().T if hermitian else x.T)
    ours = ad.linalg.ldl_factor(ad.tensor(x), hermitian=hermitian)
    theirs = torch.linalg.ldl_factor(torch.tensor(x), hermitian=hermitian)
    np.testing.assert_array_equal(ours.pivots.numpy(), theirs.pivots.numpy())
    np.testing.assert_allclose(ours.LD.numpy(), theirs.LD.numpy(), atol=1e-12)
    given = ad.tensor(b, requires_grad=True)
    out = ad.linalg.ldl_solve(*ours, given, hermitian=hermitian)
    np.testing.assert_allclose(x @ out.detach().numpy(), b, atol=1e-11)
    out.abs().sum().backward()
    y = torch.tensor(b, requires_grad=True)
    torch.linalg.solve(torch.tensor(x), y).abs().sum().backward()
    np.testing.assert_allclose(given.grad.numpy(), y.grad.numpy(), atol=1e-11)


@pytest.mark.parametrize("expression", [
    "t.svd_lowrank(large, 5)", "t.svd_lowrank(large.mT, q=4, M=large.mT * 0.1)", "t.pca_lowrank(large, 4)",
    "t.pca_lowrank(large, center=False, niter=3)",
])  # fmt: skip
def test_low_rank_from_the_same_random_vectors(expression: str) -> None:
    found = []
    for library in (ad, torch):
        library.manual_seed(5)
        x = library.tensor(GIVEN["large"], requires_grad=True)
        u, s, v = eval(expression, {"t": library, "large": x})
        (s.sum() + u.abs().sum() + v.abs().sum()).backward()
        found.append([y.detach().numpy() for y in (u.abs(), s, v.abs(), x.grad)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("largest", [True, False])
def test_few_eigenpairs_of_many(largest: bool) -> None:
    square = GIVEN["large"] @ GIVEN["large"].T + np.diag(np.arange(30.0))
    x = ad.tensor(square, requires_grad=True)
    values, vectors = ad.lobpcg(x, 3, X=ad.tensor(complex_numbers(30, 4).real), largest=largest, tol=1e-13)
    all_of_them = torch.tensor(square, requires_grad=True)
    w, q = torch.linalg.eigh(all_of_them)
    order = [-1, -2, -3] if largest else [0, 1, 2]
    np.testing.assert_allclose(values.detach().numpy(), w[order].detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(vectors.detach().abs().numpy(), q[:, order].detach().abs().numpy(), atol=1e-7)
    (values.sum() + vectors.abs().sum()).backward()
    (w[order].sum() + q[:, order].abs().sum()).backward()
    symmetric = (all_of_them.grad + all_of_them.grad.T) / 2
    np.testing.assert_allclose(x.grad.numpy(), symmetric.numpy(), atol=1e-5)


def test_few_eigenpairs_of_a_pair_of_matrices() -> None:
    a, b = np.diag(np.arange(1.0, 13.0)), np.eye(12) + 0.1
    values, vectors = ad.lobpcg(ad.tensor(a), 2, ad.tensor(b), ad.tensor(complex_numbers(12, 2).real), tol=1e-13)
    np.testing.assert_allclose(a @ vectors.numpy(), b @ vectors.numpy() * values.numpy(), atol=1e-9)
    with pytest.raises(NotImplementedError, match="tracker= is not supported"):
        ad.lobpcg(ad.tensor(a), 2, tracker=print)


def test_few_eigenpairs_of_a_pair_have_gradients() -> None:
    a, b = np.diag([9.0, 6.0, 4.0, 2.5, 1.0, 0.5]), np.eye(6) + 0.1
    start = ad.tensor(complex_numbers(6, 2).real)

    def found(a: Any, b: Any) -> Any:
        return ad.lobpcg((a + a.mT) / 2, 2, (b + b.mT) / 2, start, tol=1e-14)

    given = ad.tensor(a, requires_grad=True), ad.tensor(b, requires_grad=True)
    assert ad.autograd.gradcheck(found, given)
    assert ad.autograd.gradgradcheck(found, given)

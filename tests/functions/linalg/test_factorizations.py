"""Factorisations against PyTorch: values, gradients, second gradients, forward mode, batches, errors."""

from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises
from tests.support.oracle import same, same_error

import adjoint as ad

torch = pytest.importorskip("torch")

A = np.cos(np.arange(18.0)).reshape(2, 3, 3) + 2 * np.eye(3)
P = np.array([[3.0, 0.5, -0.2], [0.5, 2.0, 0.3], [-0.2, 0.3, 1.0]])
SHIFTED = np.stack([P, P - 1.5 * np.eye(3)])
TALL = np.cos(np.arange(24.0) ** 1.3).reshape(2, 4, 3)
GIVEN = {
    "a": A, "p": P, "s": SHIFTED, "l": np.tril(P) + np.triu(np.full((3, 3), 9.0), 1), "tall": TALL,
    "wide": np.swapaxes(TALL, 1, 2).copy(), "b": np.sin(np.arange(12.0)).reshape(2, 3, 2),
    "tau": np.array([[0.5, 1.2, 0.3], [1.0, 0.0, 0.7]]), "z": np.zeros((2, 2)), "e": np.eye(2),
    "none": np.zeros((0, 3, 3)), "nothing": np.zeros((2, 0, 0)), "flat": np.zeros((2, 3, 0)),
    "long": np.random.default_rng(0).standard_normal((1, 35, 20)), "v": np.arange(3.0),
    "indefinite": np.array([[0.0, 2.0, 1.0, 3.0], [2.0, 0.0, -1.0, 0.5], [1.0, -1.0, 0.2, 4.0], [3.0, 0.5, 4.0, 0.1]]),
}  # fmt: skip


@pytest.mark.parametrize("expression", [
    "t.linalg.cholesky(p)", "t.cholesky(p, True)", "t.linalg.cholesky_ex(l)", "t.linalg.cholesky_ex(p, upper=True)",
    "t.linalg.cholesky_ex(s).info", "t.linalg.cholesky_ex(-p).info", "t.linalg.cholesky(none)",
    "t.linalg.cholesky(nothing)", "t.linalg.cholesky_ex(nothing)",
    "t.linalg.lu(a)", "t.linalg.lu(tall)", "t.linalg.lu(wide)", "t.linalg.lu(z)", "t.linalg.lu(long)",
    "t.linalg.lu(none)", "t.linalg.lu(nothing)", "t.linalg.lu(flat)",
    "t.linalg.lu_factor(a)", "t.linalg.lu_factor(tall)", "t.linalg.lu_factor(wide)", "t.linalg.lu_factor(long)",
    "t.linalg.lu_factor_ex(a)", "t.linalg.lu_factor_ex(z)", "t.linalg.lu_factor_ex(nothing)", "t.lu(a)", "a.lu()",
    "t.lu(z, get_infos=True)[2]", "t.lu_unpack(*t.linalg.lu_factor(a))", "t.lu_unpack(*t.lu(tall))",
    "t.lu_unpack(*t.lu(wide), True, False)[1:]", "t.lu_unpack(*t.lu(wide), False, True)[0]",
    "t.linalg.lu_solve(*t.linalg.lu_factor(a), b)", "t.lu_solve(b, *t.lu(a))", "b.lu_solve(*a.lu())",
    "t.linalg.lu_solve(*t.linalg.lu_factor(a), b, adjoint=True)",
    "t.linalg.lu_solve(*t.linalg.lu_factor(p), b)", "t.linalg.lu_solve(*t.linalg.lu_factor(a), p)",
    "t.linalg.lu_solve(*t.linalg.lu_factor(a), b.mT, left=False)",
    "t.linalg.lu_solve(*t.linalg.lu_factor(a), b.mT, left=False, adjoint=True)",

    "t.linalg.qr(tall)", "t.linalg.qr(wide)", "t.linalg.qr(wide, 'complete')", "t.linalg.qr(a, 'complete')",
    "t.qr(tall)", "t.qr(wide, False)", "tall.qr()", "t.linalg.qr(none)", "t.linalg.qr(nothing)",
    "t.linalg.householder_product(tall, tau)", "t.orgqr(tall, tau)", "t.orgqr(a, tau[:, :2])", "tall.orgqr(tau)",
    "t.linalg.householder_product(none, tau[:0])", "t.linalg.householder_product(nothing, tau[:, :0])",
    "t.ormqr(tall, tau, t.ones(2, 4, 3, dtype=t.float64))", "t.ormqr(a, tau, b, True, True)",
    "t.ormqr(a, tau, b.mT, False)", "t.ormqr(a, tau, b.mT, left=False, transpose=True)",
    "t.cholesky_inverse(l.tril())", "t.cholesky_inverse(a.triu(), True)", "l.tril().cholesky_inverse()",
    "t.cholesky_inverse(nothing)",
    "t.cholesky_solve(b, l.tril())", "b.cholesky_solve(a.triu(), True)", "t.cholesky_solve(b[0], a.tril())",
    "t.cholesky_solve(b, a.tril())",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, factor=1000.0, **GIVEN)


@pytest.mark.parametrize("expression", [
    "t.linalg.qr(tall, 'complete')", "t.linalg.qr(tall, 'r')", "t.geqrf(a)", "t.geqrf(tall)", "t.geqrf(wide)",
    "t.geqrf(nothing)", "t.linalg.ldl_factor(p)", "t.linalg.ldl_factor(indefinite)", "t.linalg.ldl_factor_ex(s)",
    "t.linalg.ldl_factor_ex(z)", "t.linalg.ldl_factor(nothing)", "t.linalg.ldl_factor(l)",
    "t.linalg.ldl_solve(*t.linalg.ldl_factor(indefinite), indefinite)",
    "t.linalg.ldl_solve(*t.linalg.ldl_factor(a), b)", "t.qr(tall, some=False)",
    "t.linalg.cholesky(p, out=t.zeros(3, 3, dtype=t.float64))", "t.linalg.lu(a, out=t.linalg.lu(p * 1))[0]",
])  # fmt: skip
def test_values(expression: str) -> None:
    same(expression, gradient=False, factor=1000.0, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        (
            "t.linalg.cholesky(-p)",
            "linalg.cholesky: The factorization could not be completed because the input is not p",
        ),
        ("t.linalg.cholesky(s)", "(Batch element 1): The factorization could not be completed"),
        ("t.linalg.cholesky(s)", "(the leading minor of order 3 is not positive-definite)"),
        ("t.linalg.cholesky_ex(-p, check_errors=True)", "linalg.cholesky_ex: The factorization could not be completed"),
        ("t.cholesky(-p)", "cholesky: The factorization could not be completed"),
        ("t.linalg.lu(v)", "Expected tensor with 2 or more dimensions. Got size: [3] instead"),
        ("t.linalg.lu(p.int())", '"lu_cpu" not implemented for'),
        ("t.linalg.lu(p, pivot=False)", "LU without pivoting is not implemented on the CPU"),
        ("t.linalg.lu_factor(z)", "torch.linalg.lu_factor: U[1,1] is zero and using it on lu_solve would result"),
        ("t.linalg.lu_factor_ex(z, check_errors=True)", "torch.linalg.lu_factor_ex: U[1,1] is zero"),
        (
            "t.linalg.lu_solve(*t.lu(p), b[:, :2])",
            "Incompatible shapes of A and B for the equation AX = B (3x3 and 2x2)",
        ),
        ("t.linalg.lu_solve(p, t.tensor([1, 2, 3]), p)", "pivots should be a Tensor of scalar type torch.int32"),
        ("t.linalg.lu_solve(*t.lu(p), p.float())", "Expected LU and B to have the same dtype"),
        ("t.lu_unpack(p, t.tensor([1, 2, 3]))", "LU_pivots is expected to be a contiguous tensor of torch.int32 dtype"),
        ("t.linalg.ldl_factor(tall)", "A must be batches of square matrices, but they are 4 by 3 matrices"),
        ("t.linalg.ldl_solve(p, t.tensor([1, 2]).int(), p)", "Expected LD.shape[:-1] and pivots.shape to be the same"),
        ("t.linalg.qr(p, 'most')", "qr received unrecognized mode 'most'"),
        ("t.linalg.qr(v)", "The input tensor A must have at least 2 dimensions."),
        ("t.linalg.householder_product(v, v)", "input must have at least 2 dimensions."),
        ("t.linalg.householder_product(wide, tau)", "input.shape[-2] must be greater than or equal to input.shape[-1]"),
        (
            "t.linalg.householder_product(p, t.ones(4))",
            "input.shape[-1] must be greater than or equal to tau.shape[-1]",
        ),
        ("t.linalg.householder_product(tall, tau[0])", "Expected tau to have one dimension less than input"),
        ("t.ormqr(a, tau, t.ones(2, 2, 3).double())", "other.shape[-2] must be equal to input.shape[-2]"),
        ("t.cholesky_solve(v, p)", "b should have at least 2 dimensions, but has 1 dimensions instead"),
        ("t.cholesky_solve(z, p)", "each A matrix is 3 by 3 but each b matrix is 2 by 2"),
        ("t.cholesky_inverse(tall)", "A must be batches of square matrices, but they are 4 by 3 matrices"),
        ("t.geqrf(v)", "torch.geqrf: input must have at least 2 dimensions."),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


@pytest.mark.parametrize(
    "message",
    [
        "linalg.qr(tall, 'complete').Q: not differentiable when mode='complete' and nrows > ncols",
        "linalg.qr(tall, 'r').R: depends on Q, which is not computed when mode='r'",
        "geqrf(tall).a: derivative for geqrf is not implemented",
        "linalg.ldl_factor(p).LD: derivative for ldl is not implemented",
    ],
)
def test_what_has_no_gradient_says_so(message: str) -> None:
    call, _, words = message.partition(": ")
    tensors = {name: ad.tensor(GIVEN[name], requires_grad=True) for name in ("tall", "p")}
    assert_raises(RuntimeError, words, lambda: eval(f"ad.{call}", {"ad": ad, **tensors}).sum().backward())


SMOOTH: dict[str, Any] = {
    "cholesky": (lambda t, p: t.linalg.cholesky((p + p.mT) / 2), "p"),
    "cholesky_ex": (lambda t, p: t.linalg.cholesky_ex((p + p.mT) / 2, upper=True).L, "p"),
    "lu": (lambda t, a: t.linalg.lu(a)[1:], "a"),
    "lu-tall": (lambda t, tall: t.linalg.lu(tall)[1:], "tall"),
    "lu-wide": (lambda t, wide: t.linalg.lu_factor(wide).LU, "wide"),
    "lu_solve": (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b), "a b"),
    "qr": (lambda t, tall: t.linalg.qr(tall), "tall"),
    "qr-wide": (lambda t, wide: t.linalg.qr(wide, "complete"), "wide"),
    "householder_product": (lambda t, tall, tau: t.linalg.householder_product(tall, tau), "tall tau"),
    "ormqr": (lambda t, a, tau, b: t.ormqr(a, tau, b, transpose=True), "a tau b"),
    "cholesky_solve": (lambda t, b, low: t.cholesky_solve(b, low), "b l"),
    "ldl_solve": (lambda t, b: t.linalg.ldl_solve(*t.linalg.ldl_factor(t.tensor(P)), b), "b"),
    "cholesky_inverse": (lambda t, low: t.cholesky_inverse(low), "l"),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_higher_derivatives(name: str) -> None:
    function, names = SMOOTH[name]
    inputs = tuple(ad.tensor(GIVEN[n], requires_grad=True) for n in names.split())
    assert ad.autograd.gradcheck(lambda *x: function(ad, *x), inputs, check_forward_ad=True)
    assert ad.autograd.gradgradcheck(lambda *x: function(ad, *x), inputs)


@pytest.mark.parametrize("name", [n for n, (_, given) in SMOOTH.items() if given in ("a", "tall", "wide", "a b")])
def test_examples_of_a_batch(name: str) -> None:
    function, names = SMOOTH[name]
    inputs = [ad.tensor(GIVEN[n]) for n in names.split()]
    whole, mapped = function(ad, *inputs), ad.vmap(lambda *x: function(ad, *x))(*inputs)
    for expected, got in zip(*(x if isinstance(x, tuple) else (x,) for x in (whole, mapped)), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-14)


def test_reflectors_make_q() -> None:
    x = ad.tensor(TALL)
    q, r = ad.linalg.qr(x)
    a, tau = ad.geqrf(x)
    np.testing.assert_allclose(ad.linalg.householder_product(a, tau).numpy(), q.numpy(), atol=1e-14)
    np.testing.assert_allclose(
        ad.ormqr(a, tau, ad.orgqr(a, tau), transpose=True)[:, :3].numpy(), [np.eye(3)] * 2, atol=1e-14
    )
    np.testing.assert_allclose(ad.triu(a)[:, :3].numpy(), r.numpy(), atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 5, 9, 40])
def test_symmetric_factors_solve(n: int) -> None:
    numbers = np.random.default_rng(n)
    x = numbers.standard_normal((2, n, n))
    x = x + np.swapaxes(x, 1, 2)
    ours, theirs = ad.linalg.ldl_factor(ad.tensor(x)), torch.linalg.ldl_factor(torch.tensor(x))
    np.testing.assert_array_equal(ours.pivots.numpy(), theirs.pivots.numpy())
    np.testing.assert_allclose(np.tril(ours.LD.numpy()), np.tril(theirs.LD.numpy()), atol=1e-9)
    b = numbers.standard_normal((n, 3))
    np.testing.assert_allclose(x @ ad.linalg.ldl_solve(*ours, ad.tensor(b).expand(2, n, 3)).numpy(), [b] * 2, atol=1e-9)


def test_a_matrix_without_a_factor_gives_nan_and_leaves_the_others() -> None:
    out = ad.linalg.cholesky_ex(ad.tensor(SHIFTED)).L
    np.testing.assert_allclose(out[0].numpy(), np.linalg.cholesky(P))
    assert np.isnan(out[1].numpy()[np.tril_indices(3)]).all()


def test_errors_are_of_one_class() -> None:
    assert issubclass(ad.linalg.LinAlgError, RuntimeError)
    assert_raises(ad.linalg.LinAlgError, r"Given f64\[3,3\]", lambda: ad.linalg.cholesky(ad.tensor(-P)))

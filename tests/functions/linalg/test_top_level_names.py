"""Linear algebra against PyTorch: values, gradients, errors."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error, same_node

import adjoint as ad

torch = pytest.importorskip("torch")

A = np.cos(np.arange(18.0)).reshape(2, 3, 3) + 2 * np.eye(3)
P = np.array([[3.0, 0.5, -0.2], [0.5, 2.0, 0.3], [-0.2, 0.3, 1.0]])
L = np.tril(P) + np.triu(np.full((3, 3), 9.0), 1)
B = np.sin(np.arange(12.0)).reshape(2, 3, 2)
V = np.array([1.0, 2.0, 3.0])
T = np.cos(np.arange(8.0)).reshape(4, 2)
GIVEN = {"a": A, "p": P, "l": L, "b": B, "v": V, "w": T}


@pytest.mark.parametrize("expression", [
    "t.linalg.inv(a)", "a.inverse()", "t.linalg.det(a)", "a.det()", "t.linalg.slogdet(a)", "a.slogdet()",
    "t.logdet(p)", "t.linalg.solve(a, b)", "t.linalg.solve(p, v)",
    "t.linalg.solve(a, b.transpose(1, 2), left=False)", "t.linalg.cholesky(p)", "t.linalg.cholesky(l)",
    "p.cholesky()", "t.linalg.cholesky(p, upper=True)",
    "t.linalg.cholesky(l.t(), upper=True)", "t.linalg.eigvalsh(p)", "t.linalg.eigvalsh(l)",
    "t.linalg.eigh(p)[1].abs()", "t.linalg.eigvalsh(l, 'U')[0]", "t.linalg.qr(w)[0].abs()",
    "t.linalg.qr(a)[1].abs()", "t.linalg.svdvals(w)", "t.linalg.svd(w, False)[1]",
    "t.linalg.svd(w, full_matrices=False)[0].abs()", "t.linalg.svd(w.t(), full_matrices=False)[2].abs()",
    "t.linalg.pinv(w)", "t.linalg.matrix_rank(w)", "t.linalg.matrix_power(a, 3)", "t.matrix_power(a, -2)",
    "t.linalg.vector_norm(a)", "t.linalg.vector_norm(a, 3, dim=(0, 1))", "t.linalg.vector_norm(v, inf)",
    "t.linalg.matrix_norm(a)", "t.linalg.matrix_norm(w, 1)", "t.linalg.matrix_norm(a, inf, keepdim=True)",
    "t.linalg.matrix_norm(w, 'nuc')", "t.linalg.matrix_norm(a, 2)", "t.linalg.matrix_norm(w, -2)",
    "t.linalg.matrix_norm(w, -1)", "t.linalg.norm(w)", "t.linalg.norm(w, 1)", "t.linalg.norm(v, 1)",
    "t.linalg.norm(a, dim=(1, 2))", "t.linalg.diagonal(a)", "t.linalg.cross(p, p.t() + 1)",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, factor=1000.0, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.linalg.inv(v)", "The input tensor A must have at least 2 dimensions."),
        ("t.linalg.det(w)", "A must be batches of square matrices, but they are 4 by 2 matrices"),
        ("t.linalg.solve(p, w)", "linalg.solve: Incompatible shapes of A and B for the equation AX = B"),
        ("t.linalg.qr(a, 'most')", "qr received unrecognized mode 'most'"),
        ("t.linalg.eigh(p, 'X')", "Expected UPLO argument to be 'L' or 'U'"),
        ("t.linalg.norm(a, 2)", "If dim is not specified but ord is, the input must be 1D or 2D. Got 3D."),
        ("t.linalg.cross(p, v)", "inputs must have the same number of dimensions"),
        ("t.linalg.matrix_norm(w, 3)", "linalg.matrix_norm: Order 3 not supported."),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


def test_a_singular_matrix_has_no_inverse() -> None:
    with pytest.raises(RuntimeError, match="The diagonal element 1 is zero"):
        ad.linalg.inv(ad.zeros(2, 2))


@pytest.mark.parametrize("name", ["inv", "slogdet", "cholesky", "eigh", "qr", "svd"])
def test_nodes_are_named_as_in_pytorch(name: str) -> None:
    same_node(f"t.linalg.{name}(p)", p=P)


def test_a_determinant_has_a_gradient_where_there_is_no_inverse() -> None:
    ones = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])  # of rank 2
    x = ad.tensor(np.stack([ones, np.eye(3), np.zeros((3, 3))]), requires_grad=True)
    (slope,) = ad.autograd.grad(ad.linalg.det(x).sum(), x)
    minors = [[4.0, 4.0, -4.0], [-2.0, -2.0, 2.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(slope[0].numpy(), minors, atol=1e-12)
    np.testing.assert_allclose(slope[1:].numpy(), [np.eye(3), np.zeros((3, 3))], atol=1e-12)
    assert ad.autograd.gradcheck(ad.linalg.det, x, check_forward_ad=True)


def test_pseudoinverses_of_examples() -> None:
    x = ad.tensor(B)
    assert ad.allclose(ad.vmap(ad.linalg.pinv)(x), ad.linalg.pinv(x))
    assert ad.linalg.pinv(ad.zeros(0, 3)).shape == (3, 0)


def test_the_identity_that_is_a_power_can_be_written() -> None:
    out: Any = ad.linalg.matrix_power(ad.ones(2, 2, 2), 0).add_(1)
    assert out.tolist() == [[[2.0, 1.0], [1.0, 2.0]]] * 2

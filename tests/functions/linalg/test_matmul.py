"""Matrix products and einsum against PyTorch."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error, torch

import adjoint as ad

RANDOM = np.random.default_rng(0)


def draw(*shape: int) -> Any:
    return RANDOM.standard_normal(shape)


A, B, V, W = draw(2, 3), draw(3, 4), draw(3), draw(2)
P, Q = draw(5, 2, 3), draw(5, 3, 4)
SHAPES = [
    ((3,), (3,)), ((2, 3), (3, 4)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)),
    ((0, 3), (3, 4)), ((2, 0), (0, 4)), ((0, 2, 3), (3, 4)), ((1, 1), (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("x", "y"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matmul(x: Any, y: Any, dtype: Any) -> None:
    operands = {"x": draw(*x).astype(dtype), "y": draw(*y).astype(dtype)}
    same("x @ y", factor=10, **operands)
    same("t.matmul(x, y)", factor=10, **operands)


@pytest.mark.parametrize("expression", [
    "t.mm(a, b)", "a.mm(b)", "t.bmm(p, q)", "t.mv(a, v)", "t.dot(v, v)", "v.dot(v)", "t.outer(v, w)",
    "t.addmm(w[:, None], a, b)", "t.addmm(w[:1], a, b, alpha=-1)",
    "t.addmm(w[0], a, b, beta=0.5, alpha=2)", "a.matmul(b)", "a.t() @ a", "i @ j",
    "t.nn.functional.linear(a, b.t())", "t.nn.functional.linear(a, b.t(), t.ones(4, dtype=t.float64))",
    "t.nn.functional.linear(v, a)", "t.nn.functional.linear(p, a, w)", "p @ q[0]", "(a @ b).T @ a",
])  # fmt: skip
def test_products(expression: str) -> None:
    i, j = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
    same(expression, a=A, b=B, v=V, w=W, p=P, q=Q, i=i, j=j, factor=10)


@pytest.mark.parametrize("equation", [
    "ij,jk->ik", "ij,jk", "ij->ji", "ij->", "ij->i", "ij->j", "ij,ij->ij", "ij,ij->", "ij,kj->ik", "ij,ik->jk",
    "ij,ij->i", "ji,jk->ik",
])  # fmt: skip
def test_einsum_of_matrices(equation: str) -> None:
    terms = equation.split("->", maxsplit=1)[0].split(",")
    sizes = dict(zip("ijk", (2, 3, 4), strict=True))
    operands = {f"x{n}": draw(*(sizes[c] for c in term)) for n, term in enumerate(terms)}
    same(f"t.einsum({equation!r}, {', '.join(operands)})", factor=10, **operands)


@pytest.mark.parametrize("expression", [
    "t.einsum('bij,bjk->bik', p, q)", "t.einsum('bij,bjk->ik', p, q)", "t.einsum('bij,jk->bik', p, b)",
    "t.einsum('i,i->', v, v)", "t.einsum('i,j->ij', v, w)", "t.einsum('i,i,i->i', v, v, v)",
    "t.einsum('ij,jk,kl->il', a, b, b.t())", "t.einsum('ii->i', s)", "t.einsum('ii', s)", "t.einsum('iij->j', c)",
    "t.einsum('...ij->...ji', p)", "t.einsum('...ij,...jk->...ik', p, q)", "t.einsum('...ij,jk->...ik', p, b)",
    "t.einsum('b...,b...->b', p, p)", "t.einsum('...,...', v, v)", "t.einsum('i...->...', a)",
    "t.einsum('bhqd,bhkd->bhqk', h, h)", "t.einsum(' ij , jk -> ik ', a, b)", "t.einsum('ij,jk->ik', [a, b])",
    "t.einsum('ij->ij', a)", "t.einsum('a,b,c->abc', v, w, v)", "t.einsum('ij,j->i', a, v)",
    "t.einsum('iJ,Jk->ki', a, b)", "t.einsum('ij,kj->ik', a, o)", "t.einsum('ij,ij->ij', a, o[:, :1])",
    "t.einsum('zij,zjk->zik', p, q)", "t.einsum('ij,ji->', a, a.t())", "t.einsum('ij,k->ijk', a, w)",
    "t.einsum('aij,bjk->abik', p, q)",
])  # fmt: skip
def test_einsum(expression: str) -> None:
    operands = {"s": draw(3, 3), "c": draw(3, 3, 2), "h": draw(2, 2, 3, 4), "o": draw(2, 1)}
    same(expression, a=A, b=B, v=V, w=W, p=P, q=Q, factor=30, **operands)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("a @ a", "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
        (
            "a @ t.tensor(1.0, dtype=t.float64)",
            "both arguments to matmul need to be at least 1D, but they are 2D and 0D",
        ),
        ("t.mm(a, v)", "must be a matrix"),
        (
            "t.dot(v, w)",
            "inconsistent tensor size, expected tensor [3] and src [2] to have the same number of elements",
        ),
        ("t.dot(a, a)", "1D tensors expected, but got 2D and 2D tensors"),
        ("t.outer(a, v)", "outer: Expected 1-D argument self, but got 2-D"),
        ("a @ b.to(t.float32)", "to have the same dtype, but got: "),
        ("t.nn.functional.linear(a, a[:, :2])", "mat1 and mat2 shapes cannot be multiplied"),
        (
            "t.einsum('ij,kj->ik', a, b)",
            "einsum(): subscript j has size 4 for operand 1 which does not broadcast with previously seen size 3",
        ),
        (
            "t.einsum('ijk->i', a)",
            "einsum(): the number of subscripts in the equation (3) does not match the number of dimensions (2)",
        ),
        ("t.einsum('ij->k', a)", "einsum(): output subscript k does not appear in the equation for any input operand"),
        (
            "t.einsum('i1->i', a)",
            "einsum(): invalid subscript given at index 1 in the equation string, subscripts must be in [a-zA-Z]",
        ),
        ("t.einsum('ij,ij', a)", "einsum(): fewer operands were provided than specified in the equation"),
        ("t.einsum('ij', a, a)", "einsum(): more operands were provided than specified in the equation"),
        ("t.einsum('ij->ii', a)", "einsum(): output subscript i appears more than once in the output"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, a=A, b=B, v=V, w=W)


def test_addmm_is_one_node() -> None:
    found = []
    for library in (ad, torch):
        given = [library.ones(*shape, requires_grad=True) for shape in ((3,), (2, 4), (4, 3))]
        node = library.addmm(*given, beta=0.5).grad_fn
        leaves = [next(i for i, x in enumerate(given) if parent.variable is x) for parent, _ in node.next_functions]
        found.append((node.name(), leaves))
    assert found[0] == found[1] == ("AddmmBackward0", [0, 1, 2])
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        ad.addmm(ad.ones(3), ad.ones(2, 4), ad.ones(3, 3))


def test_a_vector_times_a_matrix_is_the_same_with_and_without_a_history() -> None:
    row, matrix = ad.rand(7), ad.rand(7, 5)
    plain = row @ matrix
    recorded = row.clone().requires_grad_() @ matrix
    assert plain.node is None
    assert recorded.node is not None
    assert plain.tolist() == recorded.tolist()
    ad.testing.assert_close(row @ matrix[:, ::2], recorded.detach()[::2])

"""Further products and distances against PyTorch."""

import numpy as np
import pytest
from tests.support.oracle import same, same_error, same_node

import adjoint as ad

torch = pytest.importorskip("torch")

A = np.cos(np.arange(6.0)).reshape(2, 3)
B = np.sin(np.arange(6.0)).reshape(2, 3)
Q = np.cos(np.arange(9.0)).reshape(3, 3)
C = np.cos(np.arange(24.0)).reshape(2, 3, 4)
D = np.sin(np.arange(24.0)).reshape(2, 4, 3)
V = np.array([0.5, -1.0, 2.0])
W = np.array([1.0, 3.0])
S = np.array(1.5)
GIVEN = {"a": A, "b": B, "q": Q, "c": C, "d": D, "v": V, "w": W, "s": S}


@pytest.mark.parametrize("expression", [
    "t.addbmm(q, c, d)", "q.addbmm(c, d, beta=2, alpha=-1)", "(q * 1).addbmm_(c, d)", "t.baddbmm(q, c, d)",
    "t.baddbmm(s, c, d, beta=0.5)", "t.addmv(v, q, v, beta=0, alpha=2)", "(v * 1).addmv_(q, v)",
    "t.addmv(v / 0, q, v, beta=0)",
    "t.addr(q / 0, v, v, beta=0)", "t.addmm(q / 0, q, q, beta=0)", "t.baddbmm(s / 0, c, d, beta=0)",
    "t.addmm(t.ones(2, dtype=t.int64), t.ones(2, 2, dtype=t.int64), t.ones(2, 2, dtype=t.int64), beta=3)",
    "t.tensordot(a[:, :1], b, ([1], [0]))", "t.tensordot(a, b[:1], ([1], [0]))", "t.addr(q, v, v)",
    "(q * 1).addr_(v, v, alpha=3)", "(q * 1).addmm_(q, q)", "v.ger(w)", "v.inner(v)", "t.inner(a, q)",
    "t.inner(c, b[:, :3].repeat(1, 2)[:, :4])", "v.inner(s)", "v.vdot(v)",
    "t.tensordot(c, d, dims=([1, 2], [2, 1]))", "t.tensordot(a, q, 1)", "t.tensordot(v, w, dims=0)",
    "t.chain_matmul(a, q, q)", "t.cross(b, b + 1, dim=1)", "q.cross(q.t())", "q.matrix_power(3)",
    "q.detach().matrix_power(0)", "t.vander(v.detach())", "t.vander(v.detach(), 4, increasing=True)",
    "t.dist(a, b)", "a.dist(b, 1)", "t.dist(a, b, inf)", "t.dist(v, v)", "t.cdist(a, q)", "t.cdist(a, q, p=1)",
    "t.cdist(a, q, 3.0)", "t.cdist(a, q, inf)", "t.cdist(c, d.transpose(1, 2))", "t.cdist(a, a)", "t.pdist(q)",
    "t.pdist(q, 1)", "t.pdist(q, 3.5)", "t.pdist(q, inf)", "t.pdist(q, 0)", "t.pdist(t.cat([q, q]))",
    "a.renorm(2, 0, 0.7)", "t.renorm(a, 1, 1, 1.1)", "(a * 2).renorm_(2, 1, 0.5)", "t.var_mean(a)",
    "t.var_mean(c, 1, keepdim=True)", "t.var_mean(c, (0, 2), False)", "t.std_mean(a, dim=1)",
    "t.std_mean(a, correction=0)", "t.var_mean(a, unbiased=False)",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, factor=100.0, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.addmv(v, q, q)", "vector"),
        ("t.addr(c, v, v)", "expand"),
        ("t.inner(a, w)", "the last dimension must match on both input tensors but got shapes [2, 3]"),
        ("t.tensordot(a, w, 1)", "contracted dimensions need to match, but first has size 3 in dim -1"),
        ("t.cross(a, b, dim=0)", "inputs dimension 0 must have length 3."),
        ("t.cdist(v, q)", "cdist only supports at least 2D tensors, X1 got: 1D"),
        ("t.cdist(a, c)", "X1 and X2 must have the same number of columns. X1: 3 X2: 4"),
        ("t.pdist(c)", "pdist only supports 2D tensors, got: 3D"),
        ("t.pdist(q, -1)", "pdist only supports non-negative p values"),
        ("a.renorm(-1, 0, 1)", "non-positive-norm not supported"),
        ("t.vander(a)", "x must be a one-dimensional"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


def test_two_results_of_one_node() -> None:
    for library in (ad, torch):
        a = library.tensor(A, requires_grad=True)
        var, mean = library.var_mean(a, dim=0)
        assert var.grad_fn is mean.grad_fn
        assert (var.output_nr, mean.output_nr) == (0, 1)
        assert var.grad_fn.name() == "VarMeanBackward0"
        mean.mul_(2)
        seen = []
        var.grad_fn.register_prehook(lambda given, seen=seen: seen.append([g is not None for g in given]))
        (var.sum() + mean.sum()).backward()
        assert seen == [[True, True]]


@pytest.mark.parametrize("expression", [
    "t.addbmm(q, c, d)", "t.baddbmm(q, c, d)", "t.addmv(v, q, v)", "t.addr(q, v, v)", "t.dist(q, q)",
    "t.cdist(q, q)", "t.pdist(q)", "t.renorm(q, 2, 0, 1.0)",
])  # fmt: skip
def test_nodes_are_named_as_in_pytorch(expression: str) -> None:
    same_node(expression, **GIVEN)


def test_products_where_the_caller_says() -> None:
    a, q, out = ad.tensor(A), ad.tensor(Q), ad.empty(2, 3, dtype=ad.float64)
    assert ad.tensordot(a, q, 1, out=out) is out
    assert ad.equal(out, a @ q)
    assert ad.chain_matmul(a, q, q, out=out) is out
    assert ad.allclose(out, a @ q @ q)


@pytest.mark.parametrize(("beta", "alpha"), [(0.5, 1), (2.7, 1.6), (1, -1.5)])
def test_fractions_are_left_out_of_factors_of_integers(beta: float, alpha: float) -> None:
    torch = pytest.importorskip("torch")
    x = np.arange(4).reshape(2, 2)
    a, b = ad.from_numpy(x), torch.from_numpy(x)
    assert ad.addmm(a, a, a, beta=beta, alpha=alpha).tolist() == torch.addmm(b, b, b, beta=beta, alpha=alpha).tolist()
    ours, theirs = (m.addmv(y[0], y, y[1], beta=beta, alpha=alpha) for m, y in ((ad, a), (torch, b)))
    assert ours.tolist() == theirs.tolist()

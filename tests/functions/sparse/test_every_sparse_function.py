"""Functions of sparse tensors against the same functions of the dense tensors that they stand for, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.functions.sparse.sparse_tensor import SparseTensor

pytestmark = pytest.mark.usefixtures("asking")
A = np.array([[0.0, 2.0, 0.0, -1.0], [0.5, 0.0, 0.0, 0.0], [0.0, 3.0, -2.0, 0.0]])
B = np.array([[1.0, 0.0, 0.0, 2.0], [4.0, 0.0, 1.0, 0.0], [0.0, -1.0, 3.0, 0.0]])
D = np.linspace(-1.0, 1.0, 8).reshape(4, 2)

ANY_LAYOUT = [
    "x.sum()", "x.sum(0)", "x.sum(1)", "x.sum((0, 1))", "x.sum(0, keepdim=True)", "x.mean()", "x.norm()", "x.norm(1)",
    "x * 3", "2.0 * x", "x / 4", "-x", "x + y", "x - y", "x * y", "d4 + x", "d4 - x", "x * d4", "d4 * x",
    "x / (d4 + 3)",
    "x.abs()", "x.sin()", "x.tanh()", "x.relu()", "x.expm1()", "x.sign()", "x.square()", "x ** 2", "x.t()", "x.T",
    "x.transpose(0, 1)", "x.permute(1, 0)", "x @ d", "x.mm(d)", "d.t() @ x.t()", "x @ y.t()", "x.mv(d[:, 0])",
    "ad.addmm(d3, x, d, beta=0.5, alpha=2.0)", "ad.sparse.addmm(d3, x, d)", "ad.sparse.mm(x, d)", "x[0]", "x[1:]",
    "x[:, 1:3]", "x[..., 1]", "x[0, 1]", "x[-1, ::2]", "x[ad.tensor([2, 0, 0])]", "x.narrow(1, 1, 2)",
    "x.index_select(1, ad.tensor([3, 1, 1]))", "x.select(1, 1)", "ad.cat([x, y])", "ad.cat([x, y], 1)", "x.double()",
    "x.clone()", "x.to_sparse()", "x.to_sparse_csr()", "x.to_sparse_csc()", "x.to_sparse_bsr((1, 2))", "x.coalesced()",
    "x.to_sparse_bsc((3, 2))", "x.add(y, alpha=2.5)", "x.sub(y, alpha=2.5)", "d4.add(x, alpha=2)", "x.nan_to_num()",
]  # fmt: skip
LAYOUTS = ["coo", "csr", "csc", "bsr"]


def make(array: np.ndarray, layout: str) -> Any:
    """A sparse leaf of an array, in a layout."""
    dense = ad.tensor(array)
    found = {
        "coo": lambda: dense.to_sparse(),
        "csr": lambda: dense.to_sparse_csr(),
        "csc": lambda: dense.to_sparse_csc(),
        "bsr": lambda: dense.to_sparse_bsr((1, 2)),
    }[layout]()
    return found.requires_grad_()


def densify(x: Any) -> Any:
    return x.to_dense() if isinstance(x, SparseTensor) else x


def run(text: str, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """The result of an expression as a dense array, and the gradients of both operands."""
    d, d3, d4 = ad.tensor(D), ad.ones(3, 2, dtype=ad.float64), ad.tensor(A + B + 0.25)
    text = text.replace("x.coalesced()", "x.coalesce() if x.is_sparse else x.clone()")
    out = densify(eval(text, {"ad": ad}, {"x": x, "y": y, "d": d, "d3": d3, "d4": d4}))
    weights = ad.arange(out.numel(), dtype=out.dtype).cos().reshape(out.shape)
    (out * weights).sum().backward()
    return out.detach().numpy(), x.grad, y.grad


@pytest.mark.sweep(3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", ANY_LAYOUT)
def test_a_function_gives_what_the_dense_one_gives(text: str, layout: str) -> None:
    out, gx, gy = run(text, make(A, layout), make(B, layout))
    x, y = (ad.tensor(v, requires_grad=True) for v in (A, B))
    plain = text.replace("ad.sparse.", "ad.").replace("x.coalesced()", "x")
    for name in ("to_sparse()", "to_sparse_csr()", "to_sparse_csc()", "to_sparse_bsr((1, 2))", "to_sparse_bsc((3, 2))"):
        plain = plain.replace(f"x.{name}", "x.clone()")
    expected, hx, hy = run(plain, x, y)
    np.testing.assert_allclose(out, expected, atol=1e-12)
    for got, wanted, held in ((gx, hx, A), (gy, hy, B)):
        assert (got is None) == (wanted is None)
        if got is not None:
            assert got.layout is make(A, layout).layout  # the gradient has the operand's pattern
            there = held != 0 if layout != "bsr" else np.repeat((held.reshape(3, 2, 2) != 0).any(2), 2, axis=1)
            np.testing.assert_allclose(got.to_dense().numpy(), np.where(there, wanted.numpy(), 0), atol=1e-12)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_counts_what_is_not_there_as_minus_infinity(name: str, dim: int) -> None:
    x = make(A, "coo")
    out = getattr(ad.sparse, name)(x, dim)
    out.values().cos().sum().backward()
    dense = ad.tensor(np.where(A == 0, -np.inf, A), requires_grad=True)
    expected = getattr(dense, name)(dim)
    held = tuple(np.nonzero(A))
    np.testing.assert_allclose(out.values().detach().numpy(), expected.detach().numpy()[held])
    expected[held].cos().sum().backward()
    np.testing.assert_allclose(x.grad.values().numpy(), dense.grad.numpy()[held], atol=1e-12)


def test_values_at_equal_indices_add_up() -> None:
    values = ad.tensor([1.0, 2.0, 4.0], requires_grad=True)
    x = ad.sparse_coo_tensor([[1, 0, 1], [0, 2, 0]], values, (2, 3))
    assert not x.is_coalesced()
    np.testing.assert_array_equal(x.to_dense().detach().numpy(), [[0, 0, 2], [5, 0, 0]])
    held = x.coalesce()
    assert held.indices().tolist() == [[0, 1], [2, 0]]
    (held.values() ** 2).sum().backward()
    assert values.grad is not None
    np.testing.assert_array_equal(values.grad.numpy(), [10, 4, 10])
    np.testing.assert_array_equal((x * x).to_dense().detach().numpy(), [[0, 0, 4], [25, 0, 0]])


def test_dense_dimensions_follow_sparse_ones() -> None:
    values = ad.tensor(np.arange(12.0).reshape(3, 2, 2), requires_grad=True)
    x = ad.sparse_coo_tensor([[0, 2, 3]], values, (4, 2, 2))
    assert (x.sparse_dim(), x.dense_dim(), x._nnz()) == (1, 2, 3)
    dense = x.to_dense()
    np.testing.assert_array_equal(dense.detach().numpy()[[0, 2, 3]], values.detach().numpy())
    for got, wanted in (
        (x.sum(0), dense.sum(0)), (x.sum(2).to_dense(), dense.sum(2)), (x[2], dense[2]), (x.sum(), dense.sum()),
        (x[:, 1].to_dense(), dense[:, 1]), (x.permute(0, 2, 1).to_dense(), dense.permute(0, 2, 1)),
        (ad.stack([x, x]).to_dense(), ad.stack([dense, dense])), (x.unsqueeze(-1).to_dense(), dense.unsqueeze(-1)),
        (ad.cat([x, x], 2).to_dense(), ad.cat([dense, dense], 2)), (x.unsqueeze(0).to_dense(), dense.unsqueeze(0)),
    ):  # fmt: skip
        np.testing.assert_array_equal(got.detach().numpy(), wanted.detach().numpy())


def test_batches_of_matrices_are_multiplied() -> None:
    x = ad.stack([ad.tensor(A).to_sparse(), ad.tensor(B).to_sparse()])
    dense = ad.tensor(np.stack([D, 2 * D]))
    np.testing.assert_allclose(x.bmm(dense).numpy(), x.to_dense().bmm(dense).numpy())


def test_second_derivatives() -> None:
    x = make(A, "coo")
    d = ad.tensor(D, requires_grad=True)
    (g,) = ad.autograd.grad(ad.sparse.mm(x, d).pow(3).sum(), d, create_graph=True)
    (again,) = ad.autograd.grad(g.pow(2).sum(), x)
    dense = ad.tensor(A, requires_grad=True)
    (h,) = ad.autograd.grad((dense @ d).pow(3).sum(), d, create_graph=True)
    (wanted,) = ad.autograd.grad(h.pow(2).sum(), dense)
    assert again.layout is ad.sparse_coo
    np.testing.assert_allclose(again.values().numpy(), wanted.numpy()[np.nonzero(A)])


def test_products_where_a_pattern_has_values() -> None:
    pattern = make(A, "csr")
    left, right = (ad.tensor(v, requires_grad=True) for v in (np.ones((3, 2)) * [[1.0, 2.0]], D.T.copy()))
    out = ad.sparse.sampled_addmm(pattern, left, right, beta=0.5, alpha=2.0)
    wanted = 0.5 * A + 2 * np.where(A != 0, left.detach().numpy() @ right.detach().numpy(), 0)
    np.testing.assert_allclose(out.to_dense().detach().numpy(), wanted)
    out.values().sum().backward()
    assert left.grad is not None
    np.testing.assert_allclose(left.grad.numpy(), 2 * (A != 0) @ right.detach().numpy().T)


@pytest.mark.parametrize("reduce", ["mean", "amax", "amin"])
def test_other_reductions_of_a_product(reduce: str) -> None:
    x, d = ad.tensor(A).to_sparse_csr(), ad.tensor(D)
    out = ad.sparse.mm(x, d, reduce).numpy()
    fold = {"mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    for i, row in enumerate(A):
        held = np.flatnonzero(row)
        np.testing.assert_allclose(out[i], fold(row[held, None] * D[held], axis=0))


def test_in_place_functions() -> None:
    x = ad.tensor(A).to_sparse()
    same = x.add_(ad.tensor(B).to_sparse()).mul_(2).neg_()
    assert same is x
    np.testing.assert_array_equal(x.to_dense().numpy(), -2 * (A + B))
    dense = ad.tensor(B)
    dense.add_(x, alpha=0.5)
    np.testing.assert_array_equal(dense.numpy(), -A)
    assert x.zero_()._nnz() == 0
    leaf = make(A, "coo")
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        leaf.mul_(2)


def test_hooks_and_gradients_are_sparse() -> None:
    x = make(A, "coo")
    seen = []
    x.register_hook(lambda g: (seen.append(g.layout), g * 2)[1])
    (g,) = ad.autograd.grad(ad.sparse.mm(x, ad.tensor(D)).sum(), x)
    assert seen == [ad.sparse_coo]
    assert g.layout is ad.sparse_coo
    x.sum().backward()
    np.testing.assert_array_equal(x.grad.to_dense().numpy(), 2.0 * (A != 0))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("ad.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,))", RuntimeError, "for dim 0, size is 3 but found index 5"),
        ("ad.sparse_coo_tensor([[0, -1]], [1.0, 2.0])", RuntimeError, "found negative index -1 for dim 0"),
        ("ad.sparse_coo_tensor([[0, 1]], [1.0])", RuntimeError, "must have same nnz"),
        ("ad.sparse_coo_tensor([0, 1], [1.0, 2.0])", RuntimeError, "sparse_dim x nnz"),
        ("ad.sparse_csr_tensor([0, 1], [0, 1], [1.0, 2.0])", RuntimeError, "end with the number of entries, 2"),
        (
            "ad.sparse_csr_tensor([0, 2], [0, 5], [1.0, 2.0], (1, 2))",
            RuntimeError,
            r"plain_indices must be in \[0, 2\)",
        ),
        ("x + ad.ones(3, 4)", RuntimeError, r"add\(sparse, dense\) is not supported. Use add\(dense, sparse\)"),
        (
            "x.exp()",
            NotImplementedError,
            r"exp: not there for tensors of the layout adjoint.sparse_coo; x.to_dense\(\)",
        ),
        ("x.numpy()", TypeError, r"Use Tensor.to_dense\(\) first"),
        ("x @ ad.ones(3, 4, dtype=x.dtype)", RuntimeError, r"cannot be multiplied \(3x4 and 3x4\)"),
        ("x + ad.tensor([[1.0]]).to_sparse()", RuntimeError, r"sizes of 'self' and 'other' to match"),
        ("ad.ones(2).coalesce()", RuntimeError, "coalesce expected a sparse tensor but got a dense one"),
        ("x.crow_indices()", RuntimeError, "expected sparse tensor layout sparse_csr or sparse_bsr but got"),
        ("x[x.to_dense() > 0]", IndexError, "masks"),
        ("x ** -1", RuntimeError, "zeros would get a value"),
        ("x.to_sparse_bsr((2, 2))", RuntimeError, "do not divide the shape"),
        ("x.sum(5)", IndexError, "Dimension out of range"),
    ],
)
def test_bad_input_is_told(text: str, error: type[Exception], message: str) -> None:
    x = ad.tensor(A).to_sparse()
    with pytest.raises(error, match=message):
        eval(text, {"ad": ad, "x": x})
    np.testing.assert_array_equal(x.to_dense().numpy(), A)

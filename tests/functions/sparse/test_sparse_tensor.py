"""Sparse tensors beside the rest of the library: gradients of embeddings, copies, files, compiled steps, PyTorch."""

from __future__ import annotations

import copy
import io
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

pytestmark = pytest.mark.usefixtures("asking")
DENSE = [[0.0, 2.0, 0.0, 1.0], [0.5, 0.0, 0.0, 0.0]]


@pytest.mark.parametrize("ways", [(True, True), (True, False), (False, True)])
def test_gradients_of_one_table_add_up(ways: tuple[bool, bool]) -> None:
    weight = ad.ones(4, 2, requires_grad=True)
    for sparse in ways:
        nn.functional.embedding(ad.tensor([1, 3, 1]), weight, sparse=sparse).sum().backward()
    assert weight.grad is not None
    assert weight.grad.is_sparse == all(ways)
    np.testing.assert_array_equal(weight.grad.to_dense().numpy(), [[0, 0], [4, 4], [0, 0], [2, 2]])
    loss = sum(nn.functional.embedding(ad.tensor([1]), weight, sparse=sparse).sum() for sparse in ways)
    (g,) = ad.autograd.grad(loss, weight)
    np.testing.assert_array_equal(g.to_dense().numpy(), [[0, 0], [2, 2], [0, 0], [0, 0]])


def test_second_derivatives_of_a_lookup() -> None:
    weight = ad.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
    out = nn.functional.embedding(ad.tensor([2, 1, 2]), weight, sparse=True).pow(3).sum()
    (g,) = ad.autograd.grad(out, weight, create_graph=True)
    (again,) = ad.autograd.grad(g.to_dense().pow(2).sum(), weight)
    np.testing.assert_allclose(again.to_dense().numpy(), [[0], [2 * 12 * 12], [2 * 54 * 36]])


def test_a_place_that_two_values_share_has_one_gradient() -> None:
    x = ad.sparse_coo_tensor([[0, 1, 0], [1, 0, 1]], [1.0, 2.0, 3.0], (2, 2), requires_grad=True)
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(g.to_dense().tolist()))
    for times in (1, 2):
        (ad.sparse.mm(x, ad.ones(2, 1)) * ad.tensor([[5.0], [7.0]])).sum().backward()
        assert x.grad is not None
        assert x.grad.to_dense().tolist() == [[0.0, 5.0 * times], [7.0 * times, 0.0]]
    x.grad.mul_(2)
    x.grad = x.grad
    assert x.grad.to_dense().tolist() == [[0.0, 20.0], [28.0, 0.0]]
    assert seen == [[[0.0, 5.0], [7.0, 0.0]]] * 2
    values = ad.ones(3, requires_grad=True)
    made = ad.sparse_coo_tensor([[0, 1, 0], [1, 0, 1]], values, (2, 2))
    g, by_values = ad.autograd.grad(made.to_dense().sum(), [made, values])
    assert g.to_dense().tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert by_values.tolist() == [1.0, 1.0, 1.0]


def test_a_step_makes_nothing_of_the_size_of_the_table() -> None:
    table = nn.Embedding(1_000_000, 8, sparse=True)
    optimizer = ad.optim.SGD(table.parameters(), lr=0.1)
    indices = ad.tensor([3, 999_999, 3])

    def step() -> None:
        optimizer.zero_grad()
        table(indices).sum().backward()
        optimizer.step()

    step()
    tracemalloc.start()
    step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_copies_and_pickles() -> None:
    for x in (ad.tensor(DENSE).to_sparse(), ad.tensor(DENSE).to_sparse_csr().requires_grad_()):
        for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert twin.layout is x.layout
            assert twin.requires_grad == x.requires_grad
            np.testing.assert_array_equal(twin.to_dense().detach().numpy(), DENSE)


def test_scipy_shares_memory() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    for layout in ("csr", "csc", "bsr", "coo"):
        matrix = scipy.csr_array(np.array(DENSE)).asformat(layout)
        x = ad.sparse.from_scipy(matrix)
        assert np.shares_memory(x._values().numpy(), matrix.data)
        back = ad.sparse.to_scipy(x)
        assert np.shares_memory(back.data, matrix.data)
        for part in ("indices", "indptr") if layout != "coo" else ():
            assert np.shares_memory(getattr(back, part), getattr(matrix, part))
        again = ad.sparse.from_scipy(back)
        assert np.shares_memory(again.pattern.indices.numpy(), x.pattern.indices.numpy()) == (layout == "coo")
        product = (back @ np.eye(4)).sum(), back.T.tocsr().sum(), back.tocsc().sum()
        assert product == (matrix.sum(),) * 3
        np.testing.assert_array_equal(back.toarray(), DENSE)


def test_products_in_compiled_steps() -> None:
    x = ad.tensor(DENSE).to_sparse().requires_grad_()
    d = ad.arange(8.0).reshape(4, 2).requires_grad_()
    step = ad.compile(lambda d: ad.sparse.mm(x, d).pow(2).sum())
    for _ in range(2):
        x.grad = d.grad = None
        out = step(d)
        out.backward()
        dense, e = ad.tensor(DENSE, requires_grad=True), d.detach().requires_grad_()
        expected = (dense @ e).pow(2).sum()
        expected.backward()
        assert out.item() == expected.item()
        np.testing.assert_allclose(d.grad.numpy(), e.grad.numpy())
        np.testing.assert_allclose(x.grad.values().numpy(), dense.grad.numpy()[np.nonzero(DENSE)])


@pytest.mark.parametrize("padding", [None, 1])
def test_gradients_of_a_batch_are_sparse(padding: int | None) -> None:
    weight, indices = ad.arange(15.0).reshape(5, 3), ad.tensor([[0, 1], [1, 1], [2, 4]])

    def loss(w: Any, i: Any, sparse: bool = True) -> Any:
        return nn.functional.embedding(i, w, padding_idx=padding, sparse=sparse).pow(2).sum()

    found = ad.vmap(ad.func.grad(loss), (None, 0))(weight, indices)
    dense = ad.vmap(ad.func.grad(lambda w, i: loss(w, i, False)), (None, 0))(weight, indices)
    assert found.is_sparse
    assert found._nnz() == (6 if padding is None else 3)
    np.testing.assert_array_equal(found.to_dense().numpy(), dense.numpy())
    moved = ad.vmap(ad.func.grad(loss), (None, 0), out_dims=1)(weight, indices)
    np.testing.assert_array_equal(moved.to_dense().numpy(), dense.numpy().swapaxes(0, 1))
    with pytest.raises(NotImplementedError, match="others for each example"):
        ad.vmap(lambda i: ad.func.grad(loss)(weight, i).coalesce().values())(indices)
    compiled = ad.compile(lambda: ad.vmap(ad.func.grad(loss), (None, 0))(weight, indices).to_dense())
    np.testing.assert_array_equal(compiled().numpy(), dense.numpy())


def test_batches_of_values() -> None:
    indices, values = ad.tensor([[0, 1], [2, 0]]), ad.arange(8.0).reshape(4, 2).requires_grad_()
    dense = ad.arange(6.0).reshape(3, 2)

    def multiply(v: Any) -> Any:
        return ad.sparse.mm(ad.sparse_coo_tensor(indices, v, (2, 3)), dense)

    out = ad.vmap(multiply)(values)
    np.testing.assert_array_equal(out.detach().numpy(), np.stack([multiply(v).detach().numpy() for v in values]))
    doubled = ad.vmap(lambda v: ad.sparse_coo_tensor(indices, v, (2, 3)) * 2)(values)
    assert doubled.is_sparse
    np.testing.assert_array_equal(doubled.to_dense()[1].detach().numpy(), [[0, 0, 4], [6, 0, 0]])
    with pytest.raises(NotImplementedError, match="map over their values"):
        ad.vmap(lambda x: x)(doubled)


STACK = np.array([[[0, 0, 1], [2, 0, 0]], [[0, 0, 0], [3, 4, 0]]], np.float32)
CROW, COL = [[0, 1, 2], [0, 0, 2]], [[2, 0], [0, 1]]


def test_batches_of_compressed_matrices() -> None:
    values = ad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x = ad.sparse_csr_tensor(CROW, COL, values)
    assert (x.shape, x._nnz(), x.sparse_dim(), x.dense_dim()) == ((2, 2, 3), 2, 2, 0)
    assert x.values().shape == (2, 2)
    dense, left = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.ones((2, 5, 2), np.float32)
    for got, wanted in (
        (x, STACK), (x.to_sparse(), STACK), (x.to_sparse_csc(), STACK), (x.clone(), STACK), (x * 2, 2 * STACK),
        (x + x, 2 * STACK), (x.abs(), STACK), (x.mT, STACK.swapaxes(1, 2)), (x[1], STACK[1]),
        (x @ ad.tensor(dense), STACK @ dense), (x.bmm(ad.tensor(dense)), STACK @ dense),
        (x @ ad.tensor(dense[0]), STACK @ dense[0]), (ad.tensor(left) @ x, left @ STACK),
    ):  # fmt: skip
        held = got.to_dense() if got.layout is not ad.strided else got
        np.testing.assert_array_equal(held.detach().numpy(), wanted)
    assert (x.mT.layout, (x * 2).layout, x[1].layout) == (ad.sparse_csc, ad.sparse_csr, ad.sparse_csr)
    (x @ ad.tensor(dense)).sum().backward()
    assert values.grad is not None
    np.testing.assert_array_equal(values.grad.numpy(), [[dense[0, 2].sum(), dense[0, 0].sum()], dense[1, :2].sum(1)])
    back = pickle.loads(pickle.dumps(ad.tensor(STACK).to_sparse_csr()))
    assert (back.crow_indices().tolist(), back.col_indices().tolist()) == (CROW, COL)
    mapped = ad.vmap(lambda v: ad.sparse_csr_tensor([0, 1, 2], [2, 0], v, (2, 3)))(ad.arange(8.0).reshape(4, 2))
    assert (mapped.layout, mapped.values().tolist()) == (ad.sparse_csr, [[0, 1], [2, 3], [4, 5], [6, 7]])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ad.sparse_csr_tensor(CROW, COL, ad.ones(2, 3)), RuntimeError, "has 2 entries, but there are 3 values"),
        (lambda: ad.sparse_csr_tensor(CROW, [0, 1], ad.ones(2)), RuntimeError, "must have the same batch"),
        (lambda: ad.sparse_csr_tensor(CROW, [[2, 5], [0, 1]], ad.ones(2, 2), (2, 2, 3)), RuntimeError, r"in \[0, 3\)"),
        (lambda: ad.sparse_csr_tensor([CROW[0], [0, 0, 1]], COL, ad.ones(2, 2)), RuntimeError, "number of entries, 2"),
        (lambda: ad.tensor([[[1.0]], [[0.0]]]).to_sparse_csr(), RuntimeError, "same number of specified elements"),
        (lambda: ad.sparse.to_scipy(ad.tensor(STACK).to_sparse_csr()), RuntimeError, "SciPy has no batches"),
    ],
)
def test_bad_batches_are_told(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # of PyTorch
def test_batches_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = (t.sparse_csr_tensor(CROW, COL, t.tensor([[1.0, 2.0], [3.0, 4.0]])) for t in (ad, torch))
    for text in ("x", "x * 2", "x.mT", "x.to_sparse()", "x.to_sparse_csc()", "x.to_dense().to_sparse_csr()", "x[1]"):
        got, wanted = (str(eval(text, {"x": x})) for x in (ours, theirs))
        assert got.replace("adjoint.", "torch.").split() == wanted.split()


def test_old_names_and_sizes() -> None:
    assert ad.sparse_coo_tensor(size=(2, 3)).to_dense().tolist() == [[0.0] * 3] * 2
    x, d = ad.tensor(DENSE).to_sparse(), ad.ones(4, 2)
    expected = (x.to_dense() @ d).numpy()
    dense = x.to_dense()
    for found in (ad.smm(x, d), ad.hspmm(x, d), ad.dsmm(x, d), ad.spmm(x, d), ad.dsmm(dense, d), ad.spmm(dense, d)):
        np.testing.assert_array_equal(found.to_dense().numpy(), expected)
    found = ad.sspaddmm(d[:2].to_sparse(), x, d, beta=2)
    np.testing.assert_array_equal(found.to_dense().numpy(), expected + 2)
    assert not ad.smm(x, d).is_coalesced()
    assert found.coalesce()._nnz() == found.numel()  # zeros of the product stay entries
    for given, beta in ((d[:2].to_sparse(), 2), (d[:2], 2), (d[:2].to_sparse(), 1)):
        found = ad.addmm(given, x, d, beta=beta, alpha=3).to_dense()
        np.testing.assert_array_equal(found.numpy(), beta + 3 * expected)
    assert x.sparse_resize_((3, 4), 2, 0).to_dense().shape == (3, 4)
    with pytest.raises(RuntimeError, match="does not shrink"):
        x.sparse_resize_((2, 4), 2, 0)
    assert x.sparse_resize_and_clear_((2,), 1, 0)._nnz() == 0


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # of PyTorch
@pytest.mark.parametrize("make", ["to_sparse()", "to_sparse_csr()", "to_sparse_csc()", "to_sparse_bsr((1, 2))"])
def test_text_and_files_are_those_of_pytorch(make: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = (eval(f"t.tensor(x).{make}", {"t": t, "x": DENSE}) for t in (ad, torch))
    assert str(ours).replace("adjoint.", "torch.") == str(theirs)
    for writer, reader, x in ((ad, torch, ours), (torch, ad, theirs)):
        file = io.BytesIO()
        writer.save({"x": x}, file)
        file.seek(0)
        back = reader.load(file)["x"]
        assert repr(back.layout).partition(".")[2] == repr(x.layout).partition(".")[2]
        np.testing.assert_array_equal(back.to_dense().numpy(), DENSE)

"""Medians, modes, distinct elements, places in an order and counts, against PyTorch."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error, same_node

import adjoint as ad

torch = pytest.importorskip("torch")

X = np.cos(np.arange(24.0)).reshape(2, 3, 4)
V = np.array([3.0, 1.0, 2.0, 1.0, 3.0, 3.0])
A = np.array([[1.0, np.nan, 3.0, 2.0], [4.0, 4.0, 1.0, 0.0], [np.nan] * 4])
WHOLE = np.array([3, 1, 1, 2, 3, 0])
M = np.array([[1, 2], [1, 2], [0, 5], [1, 2]])
S = np.array(1.5)
B = np.array([-1.0, 0.0, 0.5, 2.0])
GIVEN = {"x": X, "v": V, "a": A, "i": WHOLE, "m": M, "s": S, "b": B}


@pytest.mark.parametrize("expression", [
    "v.median()", "t.median(x)", "a.median()", "a.nanmedian()", "i.median()", "s.median()", "x.median(1)",
    "t.median(x, 2, True)", "a.detach().median(1)[0]", "a[:2].nanmedian(1)", "t.nanmedian(x, dim=0)", "s.median(0)",
    "x.kthvalue(2)", "t.kthvalue(x, 1, 0, True)", "s.kthvalue(1)", "v.mode()", "t.mode(v[:2])", "m.mode(0)",
    "m.mode(1, True)", "s.mode()", "x.msort()", "t.aminmax(x)", "x.aminmax(dim=1, keepdim=True)", "x.quantile(0.3)",
    "t.quantile(v, t.tensor([0.0, 0.25, 1.0], dtype=t.float64))", "x.quantile(0.5, 1)", "x.quantile(0.6, 2, True)",
    "x.quantile(0.4, interpolation='lower')", "x.quantile(0.4, interpolation='higher')",
    "x.quantile(0.41, interpolation='nearest')", "x.quantile(0.4, 0, interpolation='midpoint')",
    "a[:2].nanquantile(0.4, 1)", "a[1].quantile(0.5)", "v.detach().unique()", "t.unique(i, return_inverse=True)",
    "m.unique(dim=0, return_inverse=True, return_counts=True)", "m.unique(return_counts=True)", "m.unique(dim=1)",
    "v.detach().unique_consecutive(return_inverse=True, return_counts=True)", "t.unique_consecutive(m, dim=0)",
    "m.unique_consecutive(return_counts=True)", "t.searchsorted(b, v)", "t.searchsorted(b, 0.5, right=True)",
    "t.searchsorted(b, v, side='right', out_int32=True)", "t.searchsorted(t.sort(x).values, x[..., :2])",
    "t.bucketize(x, b)", "t.bucketize(v, b, right=True)", "t.isin(i, t.tensor([1, 3]))",
    "t.isin(v, t.tensor([1.0]), invert=True)", "t.isin(i, 3)",
    "t.unique(v.detach()[:0], return_inverse=True, return_counts=True)",
    "t.unique(m[:0], dim=0, return_counts=True)", "t.unique_consecutive(m[:0], dim=0, return_inverse=True)",
    "v.quantile(0.3, 0, True)", "a.quantile(0.7, 1, interpolation='higher')",
    "a.nanquantile(t.tensor([0.0, 0.5, 1.0], dtype=t.float64), 1, interpolation='nearest')",
    "x.quantile(t.tensor([0.2, 0.6], dtype=t.float64), 1, True, interpolation='midpoint')",
])  # fmt: skip
def test_values(expression: str) -> None:
    same(expression, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("x.kthvalue(9)", "selected number k out of range for dimension 2"),
        ("i.quantile(0.5)", "quantile() input tensor must be either float or double dtype"),
        ("x.quantile(0.5, interpolation='most')", "quantile() interpolation must be one of linear, lower, higher"),
        ("t.searchsorted(b, v, side='middle')", "side can only be 'left' or 'right' but got middle"),
        ("t.bucketize(v, x)", "boundaries tensor must be 1 dimension, but got dim(3)"),
        ("v.quantile(t.tensor([0.5], dtype=t.float32))", "q tensor must be same dtype as the input tensor"),
        ("v[:0].mode()", "Expected reduction dim 0 to have non-zero size"),
        ("m[:, :0].mode(1)", "Expected reduction dim 1 to have non-zero size"),
        ("t.searchsorted(b, v, right=True, side='left')", "side and right can't be set to opposites"),
        ("t.searchsorted(s, s)", "boundaries tensor"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize("array", [[1.0, 0.0, 1.0, 0.0, 1.0, 0.0], [np.nan] * 3])
def test_all_that_equal_the_median_share_its_gradient(name: str, array: list[float]) -> None:
    x: Any = ad.tensor(array, requires_grad=True)
    getattr(x, name)().backward()
    assert np.isclose(x.grad.numpy(), 1 / 3).sum() == 3
    assert np.isclose(x.grad.numpy().sum(), 1)


@pytest.mark.parametrize("count", [3, 7, 49])
def test_the_median_is_one_of_the_elements_to_the_last_bit_compiled_too(count: int) -> None:
    pytest.importorskip("llvmlite")
    for value in (0.1, 1.7, np.inf, -np.inf, np.nan):
        x = ad.tensor(np.full(count, value, np.float32))
        for found in (x.median(), ad.compile(lambda x: x.median())(x)):
            assert np.array_equal(found.numpy(), np.float32(value), equal_nan=True)


def test_what_has_no_gradient_asks_for_none() -> None:
    x = ad.tensor(V, requires_grad=True)
    for out in (ad.searchsorted(x, x), ad.bucketize(x, ad.tensor(B)), ad.isin(x, x), ad.signbit(x), x.argsort()):
        assert not out.requires_grad
    values, inverse = ad.unique(x, return_inverse=True)
    assert (values.requires_grad, inverse.requires_grad) == (True, False)


@pytest.mark.parametrize("expression", [
    "v.median()", "v.median(0)[0]", "v.nanmedian()", "v.nanmedian(0)[0]", "v.kthvalue(1)[0]", "v.mode()[0]",
])  # fmt: skip
def test_nodes_are_named_as_in_pytorch(expression: str) -> None:
    same_node(expression, **GIVEN)


def test_nan_is_never_twice_the_same_element() -> None:
    values, indices = ad.tensor([np.nan, 2.0, np.nan, 1.0, 2.0]).mode()
    assert (values.item(), indices.item()) == (2.0, 4)
    assert ad.tensor([np.nan, np.nan]).mode().values.isnan()


def test_no_integer_is_the_median_of_nothing() -> None:
    assert ad.zeros(0).median().isnan()
    with pytest.raises(RuntimeError, match=r"median\(\): an empty tensor of adjoint.int64"):
        ad.zeros(0, dtype=ad.int64).median()


def test_quantiles_of_examples() -> None:
    x = ad.tensor(X)
    each = ad.vmap(lambda row: row.nanquantile(0.3, 0))(x)
    assert ad.equal(each, ad.stack([row.quantile(0.3, 0) for row in x]))


def test_the_median_of_nothing_asks_for_a_gradient() -> None:
    x = ad.zeros(0, 4, requires_grad=True)
    out = ad.median(x)
    assert out.isnan()
    out.backward()
    assert x.grad.shape == (0, 4)


def test_nanmedian_of_rows_with_different_gaps() -> None:
    array = np.random.default_rng(0).normal(size=(5, 40)).astype(np.float32)
    array[np.arange(5)[:, None] * 3 > np.arange(40)] = np.nan
    array[4] = np.nan
    ours, theirs = (t.nanmedian(t.from_numpy(array), 1) for t in (ad, torch))
    np.testing.assert_array_equal(ours.values.numpy(), theirs.values.numpy())
    present = ~np.isnan(array[:4, 0])
    np.testing.assert_array_equal(ours.indices.numpy()[:4], theirs.indices.numpy()[:4])
    assert present.sum() == 1


def test_kthvalue_takes_a_tensor_of_one_number_for_k() -> None:
    assert ad.kthvalue(ad.tensor([3.0, 1.0, 2.0]), ad.tensor(2)).values.item() == 2


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_distinct_elements_of_a_long_vector_are_those_of_numpy(dtype: type) -> None:
    x = np.random.default_rng(0).integers(0, 400, 3000).astype(dtype)
    if dtype is np.float32:
        x[[5, 70]] = np.nan
    values, inverse, counts = ad.tensor(x).unique(return_inverse=True, return_counts=True)
    wanted = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    for got, exact in zip((values, inverse, counts), (wanted[0], *wanted[2:]), strict=True):
        np.testing.assert_array_equal(got.numpy(), exact)
    np.testing.assert_array_equal(ad.tensor(x).unique().numpy(), wanted[0])


def test_the_most_frequent_elements_of_many_rows_are_those_of_each() -> None:
    values = np.random.default_rng(0).integers(0, 4, (3, 9, 4)).astype(np.float32)
    for axis in range(3):
        found = ad.mode(ad.tensor(values), axis)
        rows = np.moveaxis(values, axis, -1)
        places = np.asarray(found.indices.numpy())
        for at in np.ndindex(*rows.shape[:-1]):
            distinct, counts = np.unique(rows[at], return_counts=True)
            assert found.values.numpy()[at] == distinct[counts.argmax()]
            assert places[at] == np.flatnonzero(rows[at] == distinct[counts.argmax()])[-1]


@pytest.mark.parametrize("dtype", [ad.int64, ad.float32])
def test_distinct_elements_without_a_history_are_those_with_one(dtype: ad.dtype) -> None:
    x = ad.tensor([3, 1, 3, 2, 1, 7], dtype=dtype)
    values, places, counts = ad.unique(x, return_inverse=True, return_counts=True)
    assert ad.unique(x).tolist() == values.tolist() == [1, 2, 3, 7]
    assert places.tolist() == [2, 0, 2, 1, 0, 3]
    assert counts.tolist() == [2, 1, 2, 1]
    assert len(ad.unique(ad.tensor([float("nan"), 1.0, float("nan")]))) == 3
    assert ad.unique(ad.zeros(0)).shape == (0,)


@pytest.mark.parametrize("invert", [False, True])
def test_few_elements_are_found_as_many_are(invert: bool) -> None:
    x, among = ad.arange(12).reshape(3, 4), ad.tensor([[2, 5], [11, 40]])
    many = ad.cat([among.flatten(), ad.arange(100, 1100)])
    expected = np.isin(x.numpy(), among.numpy(), invert=invert)
    np.testing.assert_array_equal(ad.isin(x, among, invert=invert).numpy(), expected)
    np.testing.assert_array_equal(ad.isin(x, many, invert=invert).numpy(), expected)
    assert ad.isin(x, ad.zeros(0, dtype=ad.int64)).any().item() is False

"""Reductions against PyTorch: every form of `dim`, both keyword names, integers, truths, empties, ties, NaN."""

import warnings
from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad

X = np.array([[[0.5, -1.25, 2.0, 1.0], [1.5, 0.25, -0.75, 3.0]], [[2.5, 0.125, 1.75, -3.0], [0.75, -0.25, 4.0, 5.0]]])
F = X.astype(np.float32)
WHOLE = np.array([[3, -2, 0], [5, 1, -7]])
B = np.array([[True, False, True], [False, False, False]])
TIES = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
NANS = np.array([[1.0, np.nan, 3.0], [np.inf, 2.0, -np.inf]])

MANY = ["sum", "mean", "amax", "amin", "std", "var", "logsumexp", "norm", "any", "all", "count_nonzero"]
DIMS = ["0", "-1", "(0, 2)", "[1]", "(0, 1, 2)", "()"]


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("keepdim", ["", ", keepdim=True"])
def test_over_dimensions(name: str, dim: str, keepdim: str) -> None:
    if name == "count_nonzero" and keepdim:
        pytest.skip("has no keepdim")
    if (name in ("std", "var", "logsumexp") and dim == "()") or (name == "norm" and dim == "(0, 1, 2)"):
        pytest.skip("PyTorch 2.13 gives an infinite gradient, or refuses")
    same(f"t.{name}(x, dim={dim}{keepdim})", x=X, factor=10)
    same(f"x.{name}(dim={dim}{keepdim})", x=F, factor=4)


@pytest.mark.parametrize("name", [*MANY, "prod", "max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("values", [X, F, np.array(1.5), TIES], ids=["x", "f", "0d", "ties"])
def test_over_all(name: str, values: Any) -> None:
    if name in ("std", "var") and values.ndim == 0:
        values = values.reshape(1)
    dims = f", dim={tuple(range(values.ndim))}" if name == "logsumexp" else ""
    same(f"t.{name}(x{dims})", x=values, factor=10)


@pytest.mark.parametrize("name", ["prod", "max", "min", "argmax", "argmin", "cumsum", "sort", "argsort"])
@pytest.mark.parametrize("dim", ["0", "1", "-1"])
@pytest.mark.parametrize("values", [
    X, F, WHOLE, np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0]]),
], ids=
    ["x", "f", "int", "zeros"])  # fmt: skip
def test_over_one_dimension(name: str, dim: str, values: Any) -> None:
    if name in ("sort", "argsort") and (values == 0).sum() > 1:
        pytest.skip("equal elements are in no promised order")
    same(f"tuple(t.{name}(x, dim={dim}))" if name in ("max", "min", "sort") else f"t.{name}(x, dim={dim})", x=values)
    if name in ("prod", "argmax", "argmin"):
        same(f"x.{name}({dim}, keepdim=True)", x=values)
    if name in ("max", "min"):
        same(f"tuple(x.{name}({dim}, True))", x=values)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "std", "argmax", "prod", "logsumexp", "softmax"])
def test_both_names_of_the_keywords(name: str) -> None:
    if name == "softmax":
        same("t.softmax(x, axis=1)", x=X)
        return
    same(f"t.{name}(x, axis=1, keepdims=True)", x=X, factor=10)
    same(f"x.{name}(axis=-1)", x=X, factor=10)


@pytest.mark.parametrize("expression", [
    "t.sum(i)", "t.sum(b)", "t.sum(b, 0)", "t.prod(b)", "t.prod(i, 1)", "t.amax(i)", "t.amin(b)", "t.max(i)",
    "t.any(i)", "t.all(b)", "t.any(b, 1)", "t.all(x)", "t.count_nonzero(i)", "t.cumsum(b, 1)",
    "t.sum(i, dtype=t.float32)", "t.mean(i, dtype=t.float64)", "t.prod(i, dtype=t.float32)",
    "t.sum(x, dtype=t.float32)", "t.argmax(i, 0)", "t.argmin(i)", "t.logsumexp(i, 0)", "t.sum(i.to(t.int32))",
    "t.sum(i.to(t.uint8), 0)", "t.sum(i, (0, 1))",
])  # fmt: skip
def test_integers_and_truths(expression: str) -> None:
    same(expression, x=X, i=WHOLE, b=B)


@pytest.mark.parametrize("expression", [
    "t.sum(e)", "t.sum(e, 0)", "t.sum(e, 1)", "t.prod(e)", "t.prod(e, 1)", "t.mean(e)", "t.mean(e, 1)", "t.any(e)",
    "t.all(e)", "t.any(e, 0)", "t.amax(e, 0)", "t.var(e, 0)", "t.std(e, 1)", "t.norm(e)", "t.cumsum(e, 0)",
    "t.logsumexp(e, 0)", "t.count_nonzero(e)", "tuple(t.sort(e, 0))", "t.argsort(e, 1)", "tuple(t.max(e, 0))",
    "t.var(one)", "t.std(one)", "t.argmax(e, 0)",
])  # fmt: skip
def test_empty(expression: str) -> None:
    same(expression, e=np.zeros((2, 0)), one=np.array([1.5]))
    if "0)" in expression and not any(n in expression for n in ("max", "min")):
        same(expression, e=np.zeros((0, 3)), one=np.array([1.5]))


@pytest.mark.parametrize("expression", [
    "t.max(x)", "tuple(t.max(x, 1))", "tuple(t.min(x, 0))", "t.amax(x, 1)", "t.amin(x)", "t.argmax(x)",
    "t.argmin(x, 1)", "t.sum(x, 1)", "t.mean(x)", "t.any(x)", "tuple(t.sort(x, 1))",
    "tuple(t.sort(x, 1, descending=True))", "t.argsort(x, 0)", "tuple(t.topk(x, 2))",
    "tuple(t.topk(x, 1, largest=False))",
])  # fmt: skip
def test_nan(expression: str) -> None:
    same(expression, x=NANS, gradient=False)


@pytest.mark.parametrize("expression", [
    "t.amax(x)", "t.amax(x, 1)", "t.amin(x, (0, 1))", "t.max(x)", "t.min(x)", "t.amax(x, 0, keepdim=True)",
    "t.max(x, y)", "t.maximum(x, y)", "t.min(x, y)", "t.sum(t.max(x, 1).values)", "t.max(x, dim=1).indices",
    "t.min(x, 0)[0]",
])  # fmt: skip
def test_ties(expression: str) -> None:
    same(expression, x=TIES, y=TIES[::-1].copy())


@pytest.mark.parametrize("expression", [
    "t.var(x, 0, False)", "t.var(x, False)", "x.std(1, False, True)", "t.var(x, 0, correction=0)",
    "t.std(x, correction=2)", "t.var(x, (0, 1), unbiased=False)", "t.std(x, dim=None)", "t.norm(x, 1)",
    "t.norm(x, 3, 0)", "t.norm(x, inf)", "t.norm(x, -inf, 1)", "t.norm(x.detach(), 0)",
    "t.norm(x, 2.5, (0, 1), True)", "t.norm(x, 'fro')", "x.norm(dim=1)", "x.norm(p=1, dim=(1, 2), keepdim=True)",
    "tuple(t.topk(x, 2, 0))", "tuple(t.topk(x, 3, largest=False))", "tuple(x.topk(1, dim=1))",
    "tuple(t.sort(x, 0, descending=True))", "tuple(x.sort())", "tuple(t.sort(x, stable=True))",
    "t.argsort(x, descending=True)", "t.argmax(x, keepdim=True)", "tuple(t.max(s, 0))", "tuple(t.sort(s))",
    "t.argsort(s)", "tuple(t.topk(s, 1))", "t.cumsum(s, 0)", "t.sum(s, 0)", "t.sum(s, -1, True)", "t.prod(s, 0)",
    "t.argmax(s, 0)", "t.sum(x, None)", "t.mean(x, None, True)",
])  # fmt: skip
def test_forms(expression: str) -> None:
    same(expression, x=X, s=np.array(1.5), factor=10)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.sum(x, 3)", "Dimension out of range (expected to be in range of [-3, 2], but got 3)"),
        ("t.max(x, -4)", "Dimension out of range (expected to be in range of [-3, 2], but got -4)"),
        ("t.sum(x, (0, 0))", "dim 0 appears multiple times in the list of dims"),
        ("t.sum(x, (1, -2))", "dim 1 appears multiple times in the list of dims"),
        ("t.mean(i)", "mean(): could not infer output dtype."),
        ("t.std(i)", "std and var only support floating point and complex dtypes"),
        ("t.norm(i)", "Expected a floating point or complex tensor as input."),
        ("t.amax(e)", "amax(): Expected reduction dim to be specified for input.numel() == 0."),
        ("t.max(e)", "max(): Expected reduction dim to be specified for input.numel() == 0."),
        ("t.max(e, 1)", "max(): Expected reduction dim 1 to have non-zero size."),
        ("t.amin(e, 1)", "amin(): Expected reduction dim 1 to have non-zero size."),
        ("t.argmax(e)", "argmax(): Expected reduction dim to be specified for input.numel() == 0."),
        ("t.argmin(b)", "does not support bool input"),
        ("t.topk(x, 5)", "selected index k out of range"),
        ("t.cumsum(x, 5)", "Dimension out of range"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, x=X, i=WHOLE, b=B, e=np.zeros((2, 0)))


@pytest.mark.parametrize("array", [X, X > 0, (X * 8).astype(np.int8), X.astype(np.float16), np.array(2.5)])
def test_hash_tensor_is_the_exclusive_or_of_all_bits(array: np.ndarray) -> None:
    bits = array.astype(np.float64 if array.dtype.kind == "f" else np.int64).view(np.uint64)
    x = ad.tensor(array)
    assert x.hash_tensor().item() == int(np.bitwise_xor.reduce(bits, axis=None))
    assert ad.hash_tensor(x).dtype is ad.uint64
    if array.ndim:
        for dim in (1, -1, (0, 2)):
            out = ad.hash_tensor(x, dim, keepdim=True)
            np.testing.assert_array_equal(out.numpy(), np.bitwise_xor.reduce(bits, axis=dim, keepdims=True))
            np.testing.assert_array_equal(
                ad.compile(lambda x, d=dim: x.hash_tensor(d))(x).numpy(), out.squeeze().numpy()
            )
        np.testing.assert_array_equal(ad.vmap(ad.hash_tensor)(x).numpy(), np.bitwise_xor.reduce(bits, axis=(1, 2)))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: ad.hash_tensor(ad.ones(2), mode=1), RuntimeError),
        (lambda: ad.hash_tensor(ad.zeros(0)), RuntimeError),
        (lambda: ad.hash_tensor(ad.zeros(0, 3), 0), IndexError),
        (lambda: ad.hash_tensor(ad.tensor(1j)), NotImplementedError),
    ],
)
def test_hash_tensor_refuses(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("correction", [0, 1, -1, -5])
def test_nothing_has_no_variance(correction: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert ad.isnan(ad.var(ad.zeros(0, 3), 0, correction=correction)).all()
        assert ad.isnan(ad.std(ad.zeros(0), correction=correction)).item()


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("shape", [(8, 20, 48), (20, 3), (17,), (2, 16, 5, 4), (33, 16)])
def test_extremes_and_their_first_places_along_each_dimension(shape: tuple[int, ...], recorded: bool) -> None:
    numbers = np.random.default_rng(0).integers(0, 9, shape).astype(np.float32)
    x = ad.tensor(numbers, requires_grad=recorded)
    for dim in range(len(shape)):
        for keepdim in (False, True):
            for name in ("max", "min"):
                values, places = getattr(x, name)(dim, keepdim=keepdim)
                assert values.is_contiguous()
                assert places.is_contiguous()
                np.testing.assert_array_equal(values.detach(), getattr(numbers, name)(dim, keepdims=keepdim))
                np.testing.assert_array_equal(places, getattr(numbers, f"arg{name}")(dim, keepdims=keepdim))
                np.testing.assert_array_equal(values.grad_fn is None, not recorded)


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 0), (130, 3)])
def test_truths_of_all_elements(shape: tuple[int, ...]) -> None:
    for truths in (
        np.zeros(shape, np.bool_),
        np.ones(shape, np.bool_),
        np.arange(np.prod(shape)).reshape(shape) % 2 == 0,
    ):
        x = ad.tensor(truths)
        for name in ("any", "all"):
            found = getattr(x, name)()
            assert found.dtype is ad.bool
            assert found.shape == ()
            assert bool(found) == getattr(truths, name)()

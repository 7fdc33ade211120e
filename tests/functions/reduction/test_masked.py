"""`adjoint.masked`: every function on every kind of mask, against its definition in NumPy, differences and PyTorch."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import adjoint as ad

REDUCTIONS: dict[str, Callable[[Any], Any]] = {  # of the elements that the mask admits
    "amax": lambda x: x.max(initial=-np.inf),
    "amin": lambda x: x.min(initial=np.inf),
    "logsumexp": lambda x: np.log(np.exp(x).sum()) if x.size else -np.inf,
    "mean": lambda x: x.mean() if x.size else np.nan,
    "median": lambda x: np.sort(x)[(x.size - 1) // 2] if x.size else np.nan,
    "norm": lambda x: np.sqrt((x * x).sum()),
    "prod": np.prod,
    "std": lambda x: x.std(ddof=1) if x.size > 1 else np.nan,
    "sum": np.sum,
    "var": lambda x: x.var(ddof=1) if x.size > 1 else np.nan,
}
POSITIONS = {"argmax": np.argmax, "argmin": np.argmin}
NORMALIZATIONS: dict[str, Callable[[Any], Any]] = {
    "cumprod": np.cumprod,
    "cumsum": np.cumsum,
    "log_softmax": lambda x: x - np.log(np.exp(x).sum()),
    "normalize": lambda x: x / np.sqrt((x * x).sum()),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(),
    "softmin": lambda x: np.exp(-x) / np.exp(-x).sum(),
}
LEADING = {"norm": (2.0,), "normalize": (2.0,)}  # arguments before `dim`
ONE_DIM = {"argmax", "argmin", "median", *NORMALIZATIONS}
X = np.array([[0.5, -1.25, 2.0, 0.75], [1.5, 0.25, -0.5, -2.0], [3.0, 1.0, -1.5, 0.125]])
SOME = np.array([[True, False, True, True], [False, True, True, False], [True, True, False, True]])
MASKS: dict[str, Any] = {
    "none": None,
    "all": np.ones((3, 4), bool),
    "some": SOME,
    "a row and a column out": SOME & (np.arange(3) != 1)[:, None] & (np.arange(4) != 2),
    "nothing": np.zeros((3, 4), bool),
    "one row for all": SOME[0],
    "a column": SOME[:, :1],
    "numbers": SOME * 2.0,
    "0-d": np.array(True),
}
each_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=[name.replace(" ", "_") for name in MASKS])
FUNCTIONS = [name for name in ad.masked.__all__ if name != "logaddexp"]
each_function = pytest.mark.parametrize("name", FUNCTIONS)


def masked(name: str, dim: Any = 1, library: Any = ad, **named: Any) -> Callable[..., Any]:
    """Return the function with all arguments but the tensor and its mask."""
    function, first = getattr(library.masked, name), LEADING.get(name, ())
    return lambda x, mask=None: function(x, *first, dim, mask=mask, **named)


def tensor(array: Any) -> Any:
    return None if array is None else ad.tensor(array)


def test_all_functions_have_a_definition_and_one_signature() -> None:
    assert {*FUNCTIONS} == {*REDUCTIONS, *POSITIONS, *NORMALIZATIONS}
    assert len(ad.masked.__all__) == 19
    for name in ad.masked.__all__:
        function = getattr(ad.masked, name)
        parameters = inspect.signature(function).parameters
        assert "dtype" in parameters
        assert {"mask", "input_mask"} & {*parameters}
        assert ("keepdim" in parameters) == (name in REDUCTIONS or name in POSITIONS)
        assert function.__name__ == name
        assert function.__doc__


@each_function
@each_mask
def test_only_admitted_elements_count(name: str, mask: Any) -> None:
    admitted = np.broadcast_to(True if mask is None else mask.astype(bool), X.shape)
    given = np.where(admitted, X, np.nan)  # what is left out does not count, whatever it is
    out = masked(name)(ad.tensor(given), tensor(mask)).numpy()
    for row, (x, m) in enumerate(zip(X, admitted, strict=True)):
        if name in REDUCTIONS:
            np.testing.assert_allclose(out[row], REDUCTIONS[name](x[m]), rtol=1e-12)
        elif name in POSITIONS:
            assert out[row] == (np.flatnonzero(m)[POSITIONS[name](x[m])] if m.any() else 0)
        elif m.any():
            np.testing.assert_allclose(out[row][m], NORMALIZATIONS[name](x[m]), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in REDUCTIONS if name not in ONE_DIM])
@pytest.mark.parametrize("dim", [None, (), 0, -1, (0, 1), (-1, -3), [2, 0]], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_several_dimensions_are_reduced_as_one(name: str, dim: Any, keepdim: bool) -> None:
    x, mask = np.stack([X, X[::-1] - 0.3]), np.stack([SOME, ~SOME])
    axes = tuple(range(3)) if dim is None or dim == () else tuple(np.atleast_1d(dim) % 3)
    out = masked(name, dim, keepdim=keepdim)(ad.tensor(x), ad.tensor(mask)).numpy()
    kept = [axis for axis in range(3) if axis not in axes]
    rows = [np.transpose(a, [*kept, *axes]).reshape(*[x.shape[a] for a in kept], -1) for a in (x, mask)]
    expected = np.empty(rows[0].shape[:-1])
    for place in np.ndindex(expected.shape):
        expected[place] = REDUCTIONS[name](rows[0][place][rows[1][place]])
    shape = [1 if axis in axes else n for axis, n in enumerate(x.shape) if keepdim or axis not in axes]
    np.testing.assert_allclose(out, expected.reshape(shape), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in POSITIONS])
@pytest.mark.parametrize("mask", [None, SOME, SOME[:2].all(0), MASKS["a row and a column out"]])
def test_gradients_are_central_differences_and_0_where_the_mask_is_false(name: str, mask: Any) -> None:
    if mask is not None and not mask.any(-1).all() and name in {"mean", "median", "std", "var", "softmax", "softmin"}:
        mask = MASKS["some"]  # the gradient of NaN is NaN
    if name == "log_softmax" and mask is not None:
        mask = MASKS["some"]
    x, m = ad.tensor(X, requires_grad=True), tensor(mask)
    admitted = np.broadcast_to(True if mask is None else mask, X.shape)

    def finite(x: Any) -> Any:  # -inf where the mask is false
        out = masked(name)(x, m)
        return ad.where(ad.isfinite(out), out, 0.0)

    if name == "logsumexp" and not admitted.any(1).all():
        return
    assert ad.autograd.gradcheck(finite, x)
    assert ad.autograd.gradgradcheck(finite, x)
    y = ad.tensor(np.where(admitted, X, np.nan), requires_grad=True)
    finite(y).sum().backward()
    assert not y.grad[ad.tensor(~admitted)].any()
    assert ad.isfinite(y.grad).all()


@pytest.mark.sweep(2)
@each_function
@each_mask
def test_compiled_and_mapped_as_eager(name: str, mask: Any) -> None:
    x, function = ad.tensor(X, requires_grad=True), masked(name)
    m = tensor(mask)

    def step(x: Any) -> Any:
        out = function(x, m)
        return (out, *(ad.autograd.grad(out.sum(), x) if out.requires_grad else ()))

    for got, expected in zip(ad.compile(step)(x), step(x), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-15)
    stack = ad.tensor(np.stack([X, X * 0.5, X - 1]))
    mapped = ad.vmap(lambda x: function(x, m))(stack)
    for row, one in zip(mapped, stack, strict=True):
        np.testing.assert_allclose(row.numpy(), function(one, m).numpy(), rtol=1e-12)
    if m is not None:
        masks = ad.stack([m.bool(), ~m.bool(), m.bool()])
        for row, one in zip(ad.vmap(lambda m: function(ad.tensor(X), m))(masks), masks, strict=True):
            np.testing.assert_allclose(row.numpy(), function(ad.tensor(X), one).numpy(), rtol=1e-12)


def test_logaddexp_has_a_mask_for_each_operand() -> None:
    x, y = ad.tensor(X, requires_grad=True), ad.tensor(X[::-1].copy(), requires_grad=True)
    a, b = SOME, np.array([True, False, False, True])
    out = ad.masked.logaddexp(x, y, input_mask=ad.tensor(a), other_mask=ad.tensor(b))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(out.detach().numpy(), np.log(np.exp(X) * a + np.exp(X[::-1]) * b), rtol=1e-12)
    either = ad.tensor(a | b)
    assert ad.autograd.gradcheck(
        lambda x, y: ad.masked.logaddexp(x, y, input_mask=ad.tensor(a), other_mask=ad.tensor(b))[either], (x, y)
    )


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "argmax", "cumsum", "cumprod", "median", "var"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64])
def test_integers_keep_their_type_or_are_summed_as_int64(name: str, kind: Any) -> None:
    x = np.array([[5, 1, 7], [2, 100, 3]], kind)
    mask = np.array([[True, True, False], [False, True, True]])
    out = masked(name)(ad.tensor(x), ad.tensor(mask))
    expected = {
        "sum": [6, 103], "prod": [5, 300], "amax": [5, 100], "amin": [1, 3], "argmax": [0, 1], "median": [1, 3],
        "var": [8.0, 4704.5], "cumsum": [[5, 6, 6], [0, 100, 103]],
        "cumprod": [[5, 5, 5], [1, 100, int(np.array(300).astype(kind))]],
    }[name]  # fmt: skip
    assert out.tolist() == expected
    assert out.dtype is {"sum": ad.int64, "prod": ad.int64, "var": ad.float32}.get(name, ad.tensor(x).dtype)


def test_truths_and_no_elements() -> None:
    assert ad.masked.amax(ad.tensor([True, True]), mask=ad.tensor([False, False])).item() is False
    assert ad.masked.sum(ad.tensor([True, True, True]), mask=ad.tensor([True, False, True])).item() == 2
    assert ad.masked.sum(ad.zeros(0, 3), 0, mask=ad.ones(3, dtype=ad.bool)).tolist() == [0.0, 0.0, 0.0]
    assert ad.isnan(ad.masked.mean(ad.zeros(0))).item()
    assert ad.masked.softmax(ad.zeros(2, 0), 1, mask=ad.zeros(2, 0, dtype=ad.bool)).shape == (2, 0)
    assert ad.masked.sum(ad.tensor(2.0), mask=ad.tensor(False)).item() == 0.0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ad.masked.sum(ad.ones(2), mask=ad.ones(1, 2)), IndexError, "more dimensions"),
        (lambda: ad.masked.sum(ad.ones(2), mask=ad.ones(3)), RuntimeError, "expand"),
        (lambda: ad.masked.sum(ad.ones(2), 1), IndexError, "Dimension out of range"),
        (lambda: ad.masked.sum(ad.ones(2, 2), (0, 0)), RuntimeError, "multiple times"),
        (lambda: ad.masked.mean(ad.arange(3)), ValueError, "floating point or complex"),
        (lambda: ad.masked.var(ad.ones(2), 0, True, correction=1), AssertionError, "Only one"),
        (lambda: ad.masked.median(ad.arange(3), mask=ad.zeros(3)), ValueError, "fully masked out"),
    ],
)
def test_errors(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.sweep(4)
@each_function
@each_mask
@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "uint8", "bool", "complex128"])
def test_as_pytorch(name: str, mask: Any, kind: str) -> None:
    torch = pytest.importorskip("torch")
    from tests.support.oracle import equal

    array = X if kind.startswith("float") else (X + 1j * X[::-1]) if kind == "complex128" else np.abs(X * 4)
    for dim in (0, -1, *(() if name in ONE_DIM else (None, (0, 1)))):
        for dtype in (None, "float64", *(() if name == "prod" else ("int32",))):  # PyTorch's int32 product is int64
            if name == "cumprod" and kind == "complex128" and dtype == "float64":
                continue  # PyTorch's gradient, of the real parts' product, has the imaginary parts in it
            results: list[Any] = []
            for library, made in ((torch, torch.tensor), (ad, ad.tensor)):
                x = made(array).to(getattr(library, kind)).requires_grad_(kind in ("float64", "complex128"))
                m = None if mask is None else made(mask)
                named = {} if dtype is None else {"dtype": getattr(library, dtype)}
                results.append(_attempt(partial(masked(name, dim, library, **named), x, m), x))
            theirs, ours = results
            if theirs is not None:
                assert ours is not None
                rounded = 1e5 if dtype == "float64" and kind != "float64" else 10.0  # computed in float32
                for got, expected in zip(ours, theirs, strict=False):
                    equal(got, expected, rounded)


def _attempt(call: Callable[[], Any], x: Any) -> Any:
    """Return the result, and the gradient if it is finite; None where the library refuses.

    The gradient of NaN is NaN in PyTorch also where the mask is false.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            out = call()
        except (RuntimeError, ValueError, TypeError, AssertionError):
            return None
    if not out.requires_grad:
        return [out]
    (out.real if out.is_complex() else out).sum().backward()
    return [out] if bool((x.grad != x.grad).any()) else [out, x.grad]


def test_programs_for_pytorch_find_it_under_its_names() -> None:
    import adjoint.masked._ops

    assert adjoint.masked._ops.sum is ad.masked.sum
    with pytest.raises(NotImplementedError, match="masked tensors"):
        adjoint.masked.maskedtensor.MaskedTensor(ad.ones(2), ad.ones(2))

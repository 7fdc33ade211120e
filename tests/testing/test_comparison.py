"""`adjoint.testing`: what counts as close, what is told, and what tensors `make_tensor` makes."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.testing import assert_close, make_tensor

A = ad.tensor([1.0, 2.0])


@pytest.mark.parametrize(("actual", "expected", "options"), [
    (A, A.clone(), {}), (A, A + 1e-6, {}), (A, A + 0.1, {"rtol": 0, "atol": 0.2}), (1.0, 1.0 + 1e-9, {}),
    ([A, {"a": 3}], [A, {"a": 3}], {}), (A, A.double(), {"check_dtype": False}),
    (A * float("nan"), A * float("nan"), {"equal_nan": True}), ("text", "text", {}), (None, None, {}),
])  # fmt: skip
def test_close(actual: Any, expected: Any, options: Any) -> None:
    assert_close(actual, expected, **options)


@pytest.mark.parametrize(("actual", "expected", "told"), [
    (A, A + 0.1, "Mismatched elements: 2 / 2"), (A, A.double(), "The values for attribute 'dtype' do not match"),
    (A, A[:1], "The values for attribute 'shape' do not match"), (A * float("nan"), A * float("nan"), "not close"),
    ([A, A], [A], "The length of the sequences mismatch: 2 != 1"),
    ({"a": A}, {"b": A}, "The keys of the mappings do not match"),
    ({"a": A}, {"a": A + 1}, "The failure occurred for item [a]"), ("one", "two", "'one' is not 'two'"),
])  # fmt: skip
def test_not_close(actual: Any, expected: Any, told: str) -> None:
    with pytest.raises(AssertionError) as info:
        assert_close(actual, expected)
    assert told in str(info.value)


def test_one_tolerance_needs_the_other() -> None:
    with pytest.raises(ValueError, match="got no atol"):
        assert_close(A, A, rtol=1.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
def test_made_tensors(dtype: str) -> None:
    x = make_tensor(40, 5, dtype=getattr(ad, dtype))
    assert (x.shape, x.dtype.name) == ((40, 5), dtype)
    assert len(np.unique(x.numpy())) > 1
    y = make_tensor((40, 5), dtype=getattr(ad, dtype), low=1, high=2, noncontiguous=True)
    assert not y.is_contiguous()
    assert np.all(y.numpy() >= 1)
    assert np.all(make_tensor(200, dtype=getattr(ad, dtype), exclude_zero=True).numpy() != 0)


def test_bounds_beyond_the_type_are_brought_within() -> None:
    assert set(make_tensor(200, dtype=ad.uint8, low=-9, high=3).tolist()) == {0, 1, 2}
    assert set(make_tensor(200, dtype=ad.bool, low=-9, high=9).tolist()) == {True, False}
    assert set(make_tensor(200, dtype=ad.int64, low=-1.5, high=1.5).tolist()) == {-1, 0, 1}


def test_made_leaves() -> None:
    x = make_tensor(3, dtype=ad.float64, requires_grad=True, noncontiguous=True)
    assert x.is_leaf
    assert x.requires_grad


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64", "int64", "int8", "uint8", "bool"])
@pytest.mark.parametrize("settings", [{}, {"noncontiguous": True}, {"low": 0, "high": 2}])
def test_the_elements_are_pytorchs(dtype: str, settings: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    for shape in ((3, 4), (20,), ()):
        torch.manual_seed(5)
        ad.manual_seed(5)
        theirs = torch.testing.make_tensor(shape, dtype=getattr(torch, dtype), device="cpu", **settings)
        ours = make_tensor(shape, dtype=getattr(ad, dtype), **settings)
        assert (ours.tolist(), ours.storage_offset()) == (theirs.tolist(), theirs.storage_offset())


def test_the_older_check_is_wider_and_says_that_it_is_old() -> None:
    torch = pytest.importorskip("torch")
    pairs = [(1.0, 1.00005), (1.0, 1.001), ([1, 2], [1.0, 2.0]), (float("nan"), float("nan"))]
    for x, y in pairs:
        found = []
        for library in (ad, torch):
            with pytest.warns(FutureWarning, match="is deprecated since 1.12"):
                found.append(_passes(lambda: library.testing.assert_allclose(library.tensor(x), y)))  # noqa: B023
        assert found[0] == found[1], (x, y)
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="mine"):
        ad.testing.assert_allclose(1.0, 2.0, msg="mine")


def _passes(check: Any) -> bool:
    try:
        check()
    except AssertionError:
        return False
    return True


def test_bfloat16_has_tolerances_of_its_own() -> None:
    torch = pytest.importorskip("torch")
    for library in (ad, torch):
        x = library.ones(3, dtype=library.bfloat16)
        library.testing.assert_close(x, x * 1.01)
        for y in (x * 1.05, x.float()):
            with pytest.raises(AssertionError):
                library.testing.assert_close(x, y)

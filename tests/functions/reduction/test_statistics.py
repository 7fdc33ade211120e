"""Covariances against PyTorch: values, gradients, types, errors."""

import warnings

import numpy as np
import pytest
from tests.support.oracle import same, same_error
from tests.support.samples import draw

import adjoint as ad

GIVEN = {
    "x": draw("observed", (3, 5)), "v": np.array([1.0, 2.0, 4.0]), "i": np.array([1, 2, 4]), "s": np.array(2.0),
    "n": np.array([1, 2, 3, 1, 2]), "w": np.array([0.1, 0.2, 0.3, 0.4, 0.5]), "b": np.array([True]),
    "deep": draw("deep", (3, 2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("expression", [
    "x.cov()", "t.cov(v)", "t.cov(i)", "t.cov(x, correction=0)", "t.cov(x, fweights=n)",
    "t.cov(x, aweights=w.detach())", "t.cov(x, correction=0, fweights=n, aweights=w.detach())",
    "t.cov(x, correction=2, fweights=n, aweights=w.detach())", "t.cov(s)", "t.cov(v, correction=5)",
    "t.cov(t.zeros(0))", "t.cov(x.detach().float())", "t.cov(t.tensor([[1 + 1j, 2, 4], [3, 1, 0]]))",
    "x.corrcoef()", "t.corrcoef(v)", "t.corrcoef(i)", "t.corrcoef(t.tensor([[1 + 1j, 2, 4], [3, 1, 0]]))",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, **GIVEN)


@pytest.mark.parametrize(("expression", "head"), [
    ("deep.cov()", "cov(): expected input to have two or fewer dimensions but got an input with 3 dimensions"),
    ("b.cov()", "cov(): bool dtype is not supported for input"),
    ("v.cov(fweights=v)", "cov(): expected fweights to have integral dtype but got fweights with"),
    ("v.cov(fweights=n)", "cov(): expected fweights to have the same numel as there are observations in the input"),
    ("v.cov(aweights=i)", "cov(): expected aweights to have floating point dtype but got aweights with"),
    ("v.cov(aweights=-v)", "cov(): aweights cannot be negative"),
    ("v.cov(aweights=v * 0)", "cov(): weights sum to zero, can't be normalized"),
    ("v.cov(fweights=i.reshape(1, 3))", "cov(): expected fweights to have one or fewer dimensions"),
    ("v.cov(fweights=-i)", "cov(): fweights cannot be negative"),
    ("deep.corrcoef()", "corrcoef(): expected input to have two or fewer dimensions but got an input with 3"),
])  # fmt: skip
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


def test_few_observations_are_warned_of() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert ad.cov(ad.ones(1)).isnan().item()
    assert any("cov(): degrees of freedom is <= 0" in str(w.message) and w.filename == __file__ for w in told)

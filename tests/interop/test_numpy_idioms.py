"""Programs of SciPy, matplotlib, pandas and scikit-learn take tensors where they expect arrays."""

import importlib.util
from typing import Any

import numpy as np
import pytest
from tests.support.scientific_idioms import IDIOMS, assert_same, differentiates, evaluate

import adjoint

ROWS = [(package, idiom) for package, text in IDIOMS.items() for idiom in text.splitlines()]


@pytest.mark.sweep(3)
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("package", "idiom"), ROWS)
def test_as_with_the_tensors_of_pytorch(package: str, idiom: str) -> None:
    """Without PyTorch the arrays of NumPy tell what is right."""
    pytest.importorskip(package)
    known: list[Any] = [] if differentiates(idiom) else [np]
    if importlib.util.find_spec("torch") is not None:
        known.append(importlib.import_module("torch"))
    if not known:
        pytest.skip("needs PyTorch")
    found = evaluate(package, idiom, adjoint)
    for library in known:
        assert_same(found, evaluate(package, idiom, library))


def test_idioms_are_spread_over_the_packages() -> None:
    assert {package: len(text.splitlines()) > 30 for package, text in IDIOMS.items()} == dict.fromkeys(IDIOMS, True)
    assert len({idiom for _, idiom in ROWS}) == len(ROWS)

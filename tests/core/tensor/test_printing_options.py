"""`set_printoptions`: tensors print as PyTorch's do, whatever the options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import adjoint as ad

torch = pytest.importorskip("torch")
OPTIONS: list[dict[str, Any]] = [
    {"precision": 2}, {"precision": 8}, {"precision": 0}, {"threshold": 5}, {"threshold": 5, "edgeitems": 1},
    {"threshold": 5, "edgeitems": 2}, {"linewidth": 40}, {"linewidth": 20}, {"linewidth": 200}, {"sci_mode": True},
    {"sci_mode": False}, {"profile": "short"}, {"profile": "full"}, {"profile": "default", "precision": 3},
    {"profile": "Short", "sci_mode": True, "linewidth": 60}, {"threshold": 3, "edgeitems": 0}, {"profile": "unknown"},
]  # fmt: skip
PROGRAMS = [
    "t.tensor([1.5, -22.25, 3.0])", "t.arange(30.0) / 7", "t.arange(30)", "t.arange(24.0).reshape(2, 3, 4)",
    "t.tensor([1e-5, 1.0])", "t.tensor([1e10, 1.0])", "t.tensor([float('nan'), 1.0, float('inf')])", "t.zeros(0, 3)",
    "t.tensor([1 + 2j, -1.5 - 0.25j])", "t.arange(40.0).reshape(2, 20)", "t.tensor(3.14159265)", "t.arange(1200)",
    "t.tensor([True, False] * 5)", "t.ones(2, 2, requires_grad=True) * 2", "t.zeros(3)",
    "t.arange(2000.).view(2, 1000)",
    "t.tensor([0.1, 1234.5], dtype=t.float64)", "t.tensor(7)",
]  # fmt: skip


@pytest.fixture(autouse=True)
def as_usual() -> Iterator[None]:
    """The options as they were, for the tests that follow."""
    yield
    for library in (ad, torch):
        library.set_printoptions(profile="default")  # type: ignore[attr-defined]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("given", OPTIONS, ids=str)
def test_repr(program: str, given: dict[str, Any]) -> None:
    for library in (ad, torch):
        library.set_printoptions(**given)  # type: ignore[attr-defined]
    ours, theirs = eval(program, {"t": ad}), eval(program, {"t": torch})
    assert repr(ours) == repr(theirs).replace("torch.", "adjoint.")


def test_options_stay_until_they_are_changed_but_for_the_scientific_form() -> None:
    ad.set_printoptions(precision=2, sci_mode=True)
    assert repr(ad.tensor([0.5])) == "tensor([5.00e-01])"
    ad.set_printoptions(edgeitems=1)
    assert repr(ad.tensor([0.5])) == "tensor([0.50])"

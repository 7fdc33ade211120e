"""Tables of overridable functions."""

from __future__ import annotations

import inspect

import pytest
from adjoint.overrides import (
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
    resolve_name,
)

import adjoint as ad
import adjoint.nn.functional as F


def test_functions_are_listed_with_their_modules() -> None:
    functions = get_overridable_functions()
    assert {ad, F, ad.linalg, ad.fft, ad.special, ad.Tensor} == functions.keys()
    assert ad.add in functions[ad]
    assert F.gelu in functions[F]
    assert ad.Tensor.view in functions[ad.Tensor]
    assert ad.manual_seed in get_ignored_functions()
    assert ad.manual_seed not in functions[ad]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (F.gelu, "adjoint.nn.functional.gelu"), (F.relu, "adjoint.nn.functional.relu"), (ad.relu, "adjoint.relu"),
        (ad.linalg.norm, "adjoint.linalg.norm"), (ad.Tensor.view, "adjoint.Tensor.view"), (3, None),
        (ad.nn.Linear, "adjoint.nn.layers.linear.Linear"),
    ],
)  # fmt: skip
def test_names_are_those_that_programs_write(function: object, name: str | None) -> None:
    assert resolve_name(function) == name


def test_testing_overrides_have_the_signatures() -> None:
    overrides = get_testing_overrides()
    assert inspect.signature(overrides[F.softmax]) == inspect.signature(F.softmax)
    assert overrides[F.softmax](1, dim=2) == -1
    with pytest.raises(TypeError):
        overrides[F.softmax]()
    assert set(get_overridable_functions()[ad.linalg]) <= overrides.keys()

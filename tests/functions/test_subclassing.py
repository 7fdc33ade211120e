"""Tensors as instances of a subclass: memory, history, attributes and errors as PyTorch's."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

import adjoint as ad
from adjoint import serialization

pytestmark = pytest.mark.usefixtures("asking")


class Marked(ad.Tensor):
    """A tensor with a class of its own."""

    mark: str


def test_as_subclass_is_a_view_with_its_history() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    seen = x.as_subclass(Marked)
    assert type(seen) is Marked
    assert seen.grad_fn is not None
    assert seen.grad_fn.name() == "AliasBackward0"
    (seen * 3.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]
    plain = ad.zeros(2)
    plain.as_subclass(Marked).fill_(5.0)
    assert plain.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("requires_grad", [True, False])
def test_made_over_the_memory_of_data(requires_grad: bool) -> None:
    data = ad.ones(2)
    make: Any = ad.Tensor._make_subclass
    made = make(Marked, data, requires_grad)
    made.mark = "x"
    assert (type(made), made.is_leaf, made.requires_grad) == (Marked, True, requires_grad)
    assert made.data_ptr() == data.data_ptr()
    again = copy.deepcopy(made)
    assert (type(again), again.mark, again.tolist()) == (Marked, "x", [1.0, 1.0])
    file = io.BytesIO()
    ad.save(made, file)
    file.seek(0)
    with serialization.safe_globals([Marked]):
        found = ad.load(file)
    assert (type(found), found.mark, found.requires_grad) == (Marked, "x", requires_grad)


def test_other_classes_are_refused() -> None:
    make: Any = ad.Tensor._make_subclass
    for call in (
        lambda: ad.ones(2).as_subclass(int),
        lambda: make(int, ad.ones(2)),
        lambda: make("Marked", ad.ones(2)),
    ):
        with pytest.raises(TypeError, match="a class that does not inherit from Tensor"):
            call()

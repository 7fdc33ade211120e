"""Tensors as instances of a subclass: memory, history, attributes and errors as PyTorch's."""

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
    assert seen.grad_fn.name() == "AliasBackward0"
    (seen * 3.0).sum().backward()
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


def test_a_tensor_made_of_one_with_history_has_its_history() -> None:
    torch = pytest.importorskip("torch")
    for library in (ad, torch):
        kind = type("Kind", (library.Tensor,), {})
        leaf = library.ones(3, requires_grad=True)
        doubled = leaf * 2
        made = [kind(doubled), library.Tensor(doubled), library.FloatTensor(doubled), doubled.new(doubled)]
        assert [t.grad_fn.name() for t in made] == ["AliasBackward0"] * 4
        assert [type(t) for t in made[:2]] == [kind, library.Tensor]
        assert all(t.data_ptr() == doubled.data_ptr() for t in made)
        made[0].mul_(3)
        doubled.sum().backward()
        assert leaf.grad.tolist() == [6] * 3
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-"):
            kind(leaf).mul_(2)
        assert not kind(leaf.detach()).requires_grad


def test_what_a_subclass_makes_in_new_is_not_made_again() -> None:
    torch = pytest.importorskip("torch")
    for library in (ad, torch):

        def new(cls: Any, x: Any, asks: bool, library: Any = library) -> Any:
            return library.Tensor._make_subclass(cls, x, asks)

        kind = type("Kind", (library.Tensor,), {"__new__": new, "__init__": lambda self, x, asks: None})
        plain = type("Plain", (library.Tensor,), {"__new__": lambda cls, x: new(cls, x + 1, True)})
        assert kind(library.ones(2), True).requires_grad
        assert (plain(library.ones(2)).tolist(), plain(library.ones(2)).requires_grad) == ([2, 2], True)

"""Whoever keeps a gradient of a compiled step keeps it as it is, however `.grad` was left, and whose leaf it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("llvmlite")
import adjoint as ad
from adjoint.compiler.runtime import cpython_layout, gradient_slots
from adjoint.compiler.runtime.gradient_slots import count_array_references, make_gradient_slots

KEEPS: dict[str, Callable[[Any], Any]] = {
    "the tensor": lambda g: g,
    "a detached twin": lambda g: g.detach(),
    "a view": lambda g: g[1:],
    "its array": lambda g: g.numpy(),
    "a part of its array": lambda g: g.numpy()[1:],
}
LEAVES: dict[str, Callable[[Any, Callable[[Any], object]], object]] = {
    "in its place": lambda w, again: None,
    "with None in its place": lambda w, again: setattr(w, "grad", None),
    "with another in its place": lambda w, again: setattr(w, "grad", ad.ones(3)),
    "with that of another program": lambda w, again: again(ad.full((1,), 5.0)),
}


@pytest.fixture(params=["native", "python"])
def _ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(gradient_slots.cpython_layout, "find_slot_offsets", lambda: None)


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("left", LEAVES)
@pytest.mark.parametrize("kept", KEEPS)
@pytest.mark.parametrize("given", [False, True], ids=["captured", "argument"])
def test_what_is_kept_stays_as_it_is(kept: str, left: str, given: bool) -> None:
    w = ad.ones(3, requires_grad=True)

    def body(x: Any, leaf: Any) -> None:
        leaf.grad = None
        (leaf * x * ad.ones(3)).sum().backward()

    step = ad.compile(body if given else lambda x: body(x, w))

    def call(x: Any) -> None:
        step(x, w) if given else step(x)

    for n in range(5):
        call(ad.full((3,), float(n)))
        call(ad.full((1,), float(n)))
    call(ad.full((3,), 2.0))
    held = KEEPS[kept](w.grad)
    before = held.tolist()
    assert set(before) == {2.0}
    for n in range(3):
        LEAVES[left](w, call)
        call(ad.full((3,), 10.0 + n))
        assert held.tolist() == before
        assert w.grad.tolist() == [10.0 + n] * 3


@pytest.mark.usefixtures("_ways")
def test_leaves_among_the_arguments_have_gradients_of_their_own() -> None:
    def step(x: Any) -> None:
        x.grad = None
        (x * x).sum().backward()

    compiled = ad.compile(step)
    leaves = [ad.full((2,), float(n), requires_grad=True) for n in range(6)]
    for _ in range(3):
        for leaf in leaves:
            compiled(leaf)
    assert [leaf.grad.tolist() for leaf in leaves] == [[2.0 * n] * 2 for n in range(6)]


@pytest.mark.skipif(cpython_layout.find_slot_offsets() is None, reason="this Python cannot be read from outside")
def test_placing_moves_one_reference() -> None:
    leaf, other = ad.ones(2), ad.ones(2)
    owned = SimpleNamespace(tensor=ad.zeros(2))
    counts = [(owned, count_array_references(owned))]
    are_free, place = make_gradient_slots(counts, [(leaf, owned), (other, None)])
    before = ad.ones(2)
    leaf._grad = other._grad = before
    references = sys.getrefcount(before), sys.getrefcount(owned.tensor), sys.getrefcount(None)
    for n in range(100):
        assert are_free() is (None if n else True)
        place()
    assert leaf._grad is owned.tensor
    assert other._grad is None
    assert (sys.getrefcount(before), sys.getrefcount(owned.tensor)) == (references[0] - 2, references[1] + 1)
    assert abs(sys.getrefcount(None) - references[2]) < 50
    kept = leaf._grad
    assert are_free() is False
    leaf._grad = None
    assert are_free() is False
    del kept
    assert are_free() is True

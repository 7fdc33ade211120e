"""Looks from native code: each holds while things are as they were, fails when they are not, and leaves no trace."""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")
import adjoint as ad
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.object_checks import (
    PointerCheck,
    check_argument,
    check_attribute,
    check_entries,
    check_item,
    check_key_absent,
    check_method,
    check_nonzero,
    check_slot,
    make_checker,
)

if cpython_layout.find_slot_offsets() is None:
    pytest.skip("this Python cannot be read from outside", allow_module_level=True)
SLOTS: Any = cpython_layout.find_slot_offsets()
FLOAT = np.dtype(np.float32)


class Thing:
    kind = "thing"

    def __init__(self, part: Any) -> None:
        self.part = part

    def work(self) -> None:
        """Nothing."""


class Odd:
    """A key that no str is equal to, which it says with an error."""

    def __hash__(self) -> int:
        return hash("key")

    def __eq__(self, other: object) -> bool:
        raise ValueError("do not compare")


def holds(*looks: PointerCheck | None, given: tuple[Any, ...] = ()) -> bool:
    assert None not in looks
    answer = make_checker([look for look in looks if look is not None])(*given)
    assert type(answer) is bool
    return answer


def test_no_look_at_all_holds() -> None:
    assert holds()


def test_a_slot() -> None:
    x, other = ad.ones(2), np.zeros(3)
    looks = make_checker(
        [check_slot(x, SLOTS.array, x.array), check_slot(x, SLOTS.node, None), check_slot(x, SLOTS.grad, None)]
    )
    assert looks()
    held, x.array = x.array, other
    assert not looks()
    x.array = held
    assert looks()
    x.requires_grad_()
    assert not looks()


def test_a_variable_of_a_closure() -> None:
    value = object()

    def inner() -> Any:
        return value

    (cell,) = inner.__closure__ or ()
    look = make_checker([check_slot(cell, cpython_layout.CELL, value)])
    assert look()
    value = object()
    assert not look()


@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda **held: defaultdict(int, **held)])
def test_items(kind: Callable[..., Any]) -> None:
    a, b = object(), object()
    held = kind(key=a, other=b)
    looks = make_checker([check_item(held, "key", a), check_key_absent(held, "none")])
    assert looks()
    held["key"] = b
    assert not looks()
    held["key"] = a
    assert looks()
    held["none"] = a
    assert not looks()
    del held["none"], held["key"]
    assert not looks()
    assert "key" not in held


def test_an_error_in_a_comparison_is_a_difference_and_no_error() -> None:
    value = object()
    held: dict[Any, Any] = {"key": value}
    looks = [make_checker([check_item(held, key, value)]) for key in ("key", 7)]
    del held["key"]
    held[Odd()] = value
    assert [look() for look in looks] == [False, False]
    assert ad.ones(2).tolist() == [1.0, 1.0]


def test_a_number_that_is_not_zero() -> None:
    held: dict[str, Any] = {"momentum": 0.9}
    look = make_checker([check_nonzero(held, "momentum")])
    for value in (0.5, -1e-300, float("inf")):
        held["momentum"] = value
        assert look()
    for value in (0.0, -0.0, 0, 1, True, float("nan"), None, np.float64(0.5), ad.ones(1)):
        held["momentum"] = value
        assert not look()
    del held["momentum"]
    assert not look()


def test_all_that_a_list_holds() -> None:
    a, b, c = object(), object(), object()
    held = [a, b]
    look = make_checker([look for look in [check_entries(held)] if look])
    assert look()
    for change in (lambda: held.append(c), lambda: held.pop(0), lambda: held.__setitem__(0, b), held.clear):
        held[:] = [a, b]
        assert look()
        change()
        assert not look()
    held[:] = [a, b]
    assert look()


@pytest.mark.parametrize("kind", [dict, defaultdict])
def test_all_that_a_dict_holds(kind: type[dict[Any, Any]]) -> None:
    a, b = object(), object()
    held = kind()
    empty = make_checker([look for look in [check_entries(held)] if look])
    assert empty()
    held.update(x=a, y=b)
    assert not empty()
    look = make_checker([look for look in [check_entries(held)] if look])
    assert look()
    for change in (
        lambda: held.update(x=b), lambda: held.update(z=a), lambda: held.pop("y"), held.clear,
        lambda: held.update(x=held.pop("x")),
    ):  # fmt: skip
        held.clear()
        held.update(x=a, y=b)
        assert look()
        change()
        assert not look()


def test_containers_that_cannot_be_looked_at() -> None:
    assert check_entries(OrderedDict(a=1)) is None
    assert check_entries({1, 2}) is None
    assert check_entries((1, 2)) is None
    assert check_entries(OrderedDict()) is not None


def test_attributes_and_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    part = object()
    thing = Thing(part)
    looks = {
        "part": make_checker([check_attribute(thing, "part", part)]),
        "kind": make_checker([check_attribute(thing, "kind", Thing.kind)]),
        "work": make_checker([check_method(thing, "work", Thing.work)]),
    }
    assert all(look() for look in looks.values())
    thing.part = object()
    assert not looks["part"]()
    del thing.part
    assert not looks["part"]()
    monkeypatch.setattr(Thing, "kind", object())
    assert not looks["kind"]()
    thing.work = Thing.work  # type: ignore[method-assign]
    assert not looks["work"]()
    del thing.work
    assert looks["work"]()
    monkeypatch.setattr(Thing, "work", lambda self: None)
    assert not looks["work"]()


class Derived(ad.Tensor):
    """A tensor of another class."""


def test_an_argument() -> None:
    wide = ad.zeros(4, 3).t()
    cases: dict[str, tuple[PointerCheck, Any, list[Any]]] = {
        "plain": (
            check_argument(0, None, False, FLOAT, (3, 4), None, True), ad.zeros(3, 4),
            [ad.zeros(4, 3), ad.zeros(3), ad.zeros(3, 4, 1), ad.zeros(3, 4, dtype=ad.float64), wide, 1.0, None,
             np.zeros((3, 4), np.float32), ad.zeros(3, 4, requires_grad=True), Derived(np.zeros((3, 4), np.float32))],
        ),
        "leaf": (
            check_argument(0, None, True, FLOAT, (2,), None, True), ad.zeros(2, requires_grad=True),
            [ad.zeros(2), ad.zeros(2, requires_grad=True) * 2],
        ),
        "with a history": (
            check_argument(0, None, None, FLOAT, (2,), None, True), ad.zeros(2, requires_grad=True) * 2, [ad.zeros(2)],
        ),
        "of strides": (
            check_argument(0, None, False, FLOAT, (3, 4), (4, 12), False), wide, [ad.zeros(3, 4), ad.zeros(4, 3)],
        ),
        "a number": (check_argument(0, None, False, FLOAT, (), None, False), ad.tensor(1.0), [ad.zeros(1)]),
    }  # fmt: skip
    for look, right, wrong in cases.values():
        assert holds(look, given=(right,))
        for x in wrong:
            assert not holds(look, given=(x,))


def test_an_argument_of_its_own_and_one_with_hooks() -> None:
    x, y = ad.zeros(2, requires_grad=True), ad.zeros(2, requires_grad=True)
    own = check_argument(1, x, None, FLOAT, (2,), None, True)
    assert holds(own, given=(y, x))
    assert not holds(own, given=(x, y))
    leaf = check_argument(0, None, True, FLOAT, (2,), None, True)
    assert holds(leaf, given=(x,))
    x.register_hook(lambda g: g)
    assert not holds(leaf, given=(x,))


def test_looks_leak_no_reference() -> None:
    part, key = object(), "a key of its own"
    thing, held, things, x = Thing(part), {key: part}, [part], ad.zeros(2)
    looks = [
        check_attribute(thing, "part", part),
        check_method(thing, "work", Thing.work),
        check_item(held, key, part),
        check_entries(held),
    ]
    looks += [
        check_entries(things),
        check_slot(x, SLOTS.node, None),
        check_argument(0, None, False, FLOAT, (2,), None, True),
    ]  # type: ignore[list-item]
    good, bad = make_checker(looks), make_checker([check_attribute(thing, "part", None), check_item(held, key, None)])
    counted = [part, key, thing, held, things, x, x.array, Thing.work, Thing]
    before = [sys.getrefcount(each) for each in counted]
    for _ in range(1000):
        assert good(x)
        assert not bad(x)
    assert [sys.getrefcount(each) for each in counted] == before


def test_what_is_looked_at_stays_alive() -> None:
    held = {"key": object()}
    look = make_checker([check_item(held, "key", held["key"])])
    held["key"] = object()
    for _ in range(1000):
        held["key"] = object()
        assert not look()

"""What existed before the step: found by what the step read, or told from what was made since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.checks import collector_off

import adjoint as ad
from adjoint.compiler.trace.frames import preexisting
from adjoint.compiler.trace.frames.preexisting import MIN_SEARCHED_OBJECTS, Preexisting, _are_owners_seen

pytest.importorskip("llvmlite")
where_owners_are_seen = pytest.mark.skipif(
    not _are_owners_seen(), reason="a dict may be an object's attributes, which the collector does not tell"
)


class Node:
    """One of a long chain."""

    def __init__(self, next: Any) -> None:
        self.next, self.items = next, [0]


def chain(length: int) -> Node:
    node = Node(None)
    for _ in range(length):
        node = Node(node)
    return node


def last(node: Node) -> Node:
    while node.next is not None:
        node = node.next
    return node


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of one number: how many objects were looked at since."""
    count, looks_into = [0], preexisting.visible_referents

    def look_into(x: object) -> Any:
        count[0] += 1
        return looks_into(x)

    monkeypatch.setattr(preexisting, "visible_referents", look_into)
    return count


def searched(monkeypatch: pytest.MonkeyPatch, thing: Callable[[], object], world: object) -> tuple[bool, int]:
    """Return whether what `thing()` gives was there before, and how many objects were looked at to know."""
    count = count_looks(monkeypatch)
    known = Preexisting()
    known.add(world)
    return known.contains(thing()), count[0]


@pytest.mark.parametrize("make", [lambda end: end, lambda end: end.items, lambda end: vars(end)])
def test_what_a_large_world_holds_is_found(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world = chain(3 * MIN_SEARCHED_OBJECTS)
    with collector_off():
        assert searched(monkeypatch, lambda: make(last(world)), world)[0]


def test_a_new_list_is_told_without_looking_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    world = chain(20 * MIN_SEARCHED_OBJECTS)
    with collector_off():
        found, count = searched(monkeypatch, list, world)
    assert not found
    assert count <= 2 * MIN_SEARCHED_OBJECTS


@where_owners_are_seen
def test_a_new_dict_of_keywords_is_told_without_looking_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(**options: object) -> bool:  # the collector does not count an empty dict
        variables = {"options": options, "items": []}
        return known.contains(variables["options"])

    world = chain(20 * MIN_SEARCHED_OBJECTS)
    count = count_looks(monkeypatch)
    with collector_off():
        known = Preexisting()
        known.add(world)
        assert not call()
    assert count[0] <= 2 * MIN_SEARCHED_OBJECTS


@where_owners_are_seen
def test_a_dict_that_the_step_has_put_into_an_old_object_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    world = chain(20 * MIN_SEARCHED_OBJECTS)
    count = count_looks(monkeypatch)
    with collector_off():
        known = Preexisting()
        known.add(world)
        known.expand(world)
        known.expand(world.items)  # before the change
        world.items[0] = {}
        assert not known.contains(world.items[0])
    assert count[0] <= 2 * MIN_SEARCHED_OBJECTS


def test_an_empty_dict_from_before_is_found_when_it_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    world = chain(3 * MIN_SEARCHED_OBJECTS)
    held = last(world).items
    held.append({})
    with collector_off():
        known = Preexisting()
        known.add(world)
        held[1]["list"] = [1]  # from now on the collector counts the dict
        assert known.contains(held[1])


def test_a_step_in_a_large_program_changes_old_lists_and_makes_new_ones() -> None:
    world = chain(5 * MIN_SEARCHED_OBJECTS)

    def step(x: Any) -> Any:
        fresh = [x.sum(), 2.0]
        fresh[1] = fresh[1] + 1
        old = world.next.next.items
        old[0] = old[0] + 1
        return fresh[0] * fresh[1] + old[0]

    compiled = ad.compile(step)
    x = ad.ones(3)
    assert [compiled(x).item() for _ in range(4)] == [10.0, 11.0, 12.0, 13.0]
    world.next.next.items[0] = 20
    assert compiled(x).item() == 30.0
    assert compiled.compilations <= 2

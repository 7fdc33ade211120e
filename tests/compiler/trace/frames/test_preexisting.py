"""What existed before the step: found by what the step read, or told from what was made since."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.checks import collector_off

import adjoint as ad
from adjoint.compiler.trace.frames import preexisting
from adjoint.compiler.trace.frames.preexisting import MIN_SEARCHED_OBJECTS, Preexisting

pytest.importorskip("llvmlite")


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


def searched(monkeypatch: pytest.MonkeyPatch, thing: object, world: object) -> tuple[bool, int]:
    """Return whether a thing was there before, and how many objects were looked at to know."""
    count, looks_into = [0], preexisting.visible_referents

    def counted(x: object) -> Any:
        count[0] += 1
        return looks_into(x)

    monkeypatch.setattr(preexisting, "visible_referents", counted)
    known = Preexisting()
    known.add(world)
    return known.contains([] if thing is None else thing), count[0]


@pytest.mark.parametrize("make", [lambda end: end, lambda end: end.items, lambda end: vars(end)])
def test_what_a_large_world_holds_is_found(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world = chain(3 * MIN_SEARCHED_OBJECTS)
    with collector_off():
        assert searched(monkeypatch, make(last(world)), world)[0]


def test_a_new_list_is_told_without_looking_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    world = chain(20 * MIN_SEARCHED_OBJECTS)
    with collector_off():
        found, count = searched(monkeypatch, None, world)
    assert not found
    assert count <= 2 * MIN_SEARCHED_OBJECTS


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

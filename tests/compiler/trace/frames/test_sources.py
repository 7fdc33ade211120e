"""Places: reading, writing, deleting, and the tests that generated code makes of them."""

from __future__ import annotations

from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from copy import deepcopy
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from adjoint.compiler.trace.frames import (
    MISSING,
    AttributeSource,
    CellSource,
    ContentsSource,
    DefinitionSource,
    GlobalSource,
    ItemSource,
    Source,
    is_same_constant,
)
from adjoint.compiler.trace.frames.container_snapshot import copy_container, snapshot


class Kind(Enum):
    A = 1


class Model:
    rate = 0.1

    def run(self) -> int:
        return 1

    @property
    def size(self) -> int:
        return 2


def other(_: Any) -> int:
    return 3


def cell_of(value: Any) -> Any:
    return (lambda: value).__closure__[0]  # type: ignore[index]


def guard(place: Source, value: Any) -> Callable[[], bool]:
    """The place's test, as generated code has it."""
    names: dict[str, Any] = {}

    def name(thing: Any) -> str:
        names[f"o{len(names)}"] = thing
        return f"o{len(names) - 1}"

    source = place.guard(value, name)
    test: Callable[[], bool] = eval(f"lambda: {source}", names)
    return test


PLACES: list[tuple[Source, str]] = [
    (GlobalSource({"x": 1}, "x"), "global 'x'"),
    (CellSource(cell_of(1), "x"), "closure variable 'x'"),
    (AttributeSource(SimpleNamespace(x=1), "x"), "attribute 'x' of SimpleNamespace"),
    (AttributeSource(SimpleNamespace(**{"not a name": 1}), "not a name"), "attribute 'not a name' of SimpleNamespace"),
    (ItemSource({"x": 1}, "x"), "item 'x' of a dict"),
    (ItemSource({(1, "a"): 1}, (1, "a")), "item (1, 'a') of a dict"),
    (ItemSource([1], -1), "item -1 of a list"),
    (DefinitionSource(type("Class", (), {"x": 1}), "x"), "definition of 'x' in class Class"),
]


@pytest.mark.parametrize(("place", "what"), [pytest.param(*case, id=case[1]) for case in PLACES])
def test_place(place: Source, what: str) -> None:
    assert place.what == what
    assert repr(place) == f"<{what}>"
    assert place.read() == 1
    test = guard(place, 1)
    assert test()
    place.write(1000)
    assert not test()
    place.write(True)
    assert not test()
    place.write(1)
    assert test()
    place.delete()
    assert place.read() is MISSING
    assert guard(place, MISSING)()
    with (
        pytest.raises((LookupError, AttributeError, ValueError))
        if not isinstance(place, DefinitionSource)
        else _as_is()
    ):
        assert not test()
    place.delete()
    place.write(MISSING)
    assert not place.holds(1)


class _as_is:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def test_places_are_told_apart_by_holder_and_name() -> None:
    first, second = {"x": 1}, {"x": 1}
    assert GlobalSource(first, "x") == GlobalSource(first, "x")
    assert (
        len({GlobalSource(first, "x"), GlobalSource(second, "x"), ItemSource(first, "x"), GlobalSource(first, "y")})
        == 4
    )


def test_a_method_is_its_function() -> None:
    model = Model()
    place = AttributeSource(model, "run", bound=True)
    assert place.what == "method 'run' of Model"
    assert place.read() is Model.run
    test = guard(place, Model.run)
    assert test()
    model.run = other.__get__(model)  # type: ignore[method-assign]
    assert not test()
    del model.run
    assert test()


def test_the_definition_of_a_property() -> None:
    place = DefinitionSource(Model, "size")
    assert place.read() is vars(Model)["size"]


CONTAINERS: list[tuple[Any, Callable[[Any], Any]]] = [
    ([1, 2.0], lambda c: c.append(3)),
    ([1, 2.0], lambda c: c.__setitem__(0, True)),
    ([0.0], lambda c: c.__setitem__(0, -0.0)),
    ([[1], (2, [3])], lambda c: c[1][1].append(4)),
    ([[1]], lambda c: c.__setitem__(0, [1])),
    ([Model()], lambda c: c.__setitem__(0, Model())),
    ({"a": 1}, lambda c: c.update(a=2)),
    ({"a": 1, "b": 2}, lambda c: c.update(a=c.pop("a"))),
    ({"a": {"b": [1]}}, lambda c: c["a"]["b"].append(2)),
    ({1, 2}, lambda c: c.add(3)),
    (deque([1, 2]), lambda c: c.rotate(1)),
    (bytearray(b"ab"), lambda c: c.append(1)),
    (array("d", [1.0]), lambda c: c.append(1.0)),
    (OrderedDict(a=1, b=2), lambda c: c.move_to_end("a")),
    (defaultdict(int, a=1), lambda c: c["b"]),
    (np.zeros(3), lambda c: c.__setitem__(0, 1.0)),
    (np.zeros((2, 3)), lambda c: c.resize((3, 2), refcheck=False)),
    (np.array([None, 1], object), lambda c: c.__setitem__(0, 2)),
]


@pytest.mark.parametrize(("container", "change"), CONTAINERS, ids=lambda case: type(case).__name__)
def test_contents(container: Any, change: Callable[[Any], Any]) -> None:
    container = deepcopy(container)
    place = ContentsSource(container)
    before, copy = place.read(), copy_container(container)
    test = guard(place, before)
    assert test()
    assert place.holds(before)
    change(container)
    assert not test()
    assert place.read() != before
    if len(copy) == 1 or not isinstance(copy, np.ndarray) or copy.shape == container.shape:
        place.write(copy)
        nested = isinstance(container, list | dict) and any(isinstance(x, list | dict) for x in snapshot(copy).elements)
        assert nested or place.holds(before)


def test_contents_of_a_container_in_itself() -> None:
    held: list[Any] = [1]
    held.append(held)
    place = ContentsSource(held)
    before = place.read()
    assert place.holds(before)
    held[0] = 2
    assert not place.holds(before)


def test_the_copy_of_a_set_reads_the_same() -> None:
    held: set[Any] = {Model(), "a", 3, (1, 2)}
    held.discard("a")
    assert snapshot(copy_container(held)) == snapshot(held)


def test_many_elements_are_counted_only() -> None:
    held: list[Any] = list(range(20_000))
    place = ContentsSource(held)
    before = place.read()
    assert len(before.elements) < 11_000
    held.append(1)
    assert not place.holds(before)


SAME: list[tuple[Any, Any, bool]] = [
    (1, 1, True), (1, True, False), (1, 1.0, False), (0.0, -0.0, False), (float("nan"), float("nan"), True),
    (complex(0, 1), complex(-0.0, 1), False), ("a" * 30, "".join(["a"] * 30), True),
    ((1, (2.0, "a")), (1, (2.0, "a")), True), ((1, 2), (1, True), False), (Kind.A, Kind.A, True),
    (np.float32(1), np.float32(1), True), (np.float32(1), np.float64(1), False),
    (np.dtype("f4"), np.dtype("float32"), True), ([1], [1], False), (slice(1, 2), slice(1, 2), True),
    ([].append, [].append, False),
]  # fmt: skip


@pytest.mark.parametrize(("now", "then", "same"), SAME, ids=lambda value: type(value).__name__)
def test_unchanged(now: Any, then: Any, same: bool) -> None:
    assert is_same_constant(now, then) is same


def test_bound_methods_of_one_object_are_the_same() -> None:
    model = Model()
    assert is_same_constant(model.run, model.run)
    assert not is_same_constant(model.run, Model().run)

"""What steps write outside of themselves: each step is listed with all places that it reads and writes."""

from __future__ import annotations

import functools
import heapq
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.watched_steps import Case, case, parameters, places_read, seen, watched

from adjoint.compiler.trace.frames import MISSING

counter = 0
later: int
losses: list[Any] = []
state: dict[str, Any] = {"best": 1.0, "deep": {"count": 0}}
names = {"a"}
queue = deque([1, 2, 3])
tally = Counter("aab")
ordered = OrderedDict(a=1, b=2)
grouped: defaultdict[str, list[int]] = defaultdict(list)
user_dict = UserDict(lr=0.1)
raw = bytearray(b"ab")
table = np.zeros(3)
space = SimpleNamespace(count=0)
add = losses.append


class Box:
    shared = 0
    _level = 0

    def __init__(self) -> None:
        self.count = 0
        self.seen: list[Any] = []

    def step(self) -> None:
        self.count += 1

    @property
    def level(self) -> int:
        return self._level

    @level.setter
    def level(self, value: int) -> None:
        self._level = value

    @functools.cached_property
    def lazy(self) -> int:
        return self.count + 1

    def __setitem__(self, key: int, value: Any) -> None:
        self.seen.append(value)


class Guarded:
    def __init__(self) -> None:
        object.__setattr__(self, "count", 0)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class Inherited:
    count = 0

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


class Slotted:
    __slots__ = ("count",)


box = Box()
boxes = [Box(), Box()]
guarded = Guarded()
inherited = Inherited()
slotted = Slotted()


def make_counter() -> Callable[[], int]:
    n = 0

    def count() -> int:
        nonlocal n
        n += 1
        return n

    return count


count = make_counter()

CASES: list[Case] = []
of = functools.partial(case, CASES)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Put the module's objects back: the steps here really run."""
    containers = [losses, queue, raw, state, ordered, grouped, names, tally]
    kept = [deepcopy(container) for container in containers]
    yield
    for container, before in zip(containers, kept, strict=True):
        container.clear()
        (container.update if hasattr(container, "update") else container.extend)(before)  # type: ignore[attr-defined]
    for one in (box, *boxes):
        vars(one).clear()
        one.__init__()  # type: ignore[misc]
    table[:] = 0
    globals().update(counter=0)
    globals().pop("later", None)


@of("global 'counter'", "global 'counter'")
def a_global_counter() -> Any:
    global counter  # noqa: PLW0603
    counter += 1


@of("", "global 'later'")
def a_global_that_was_not_there() -> Any:
    global later  # noqa: PLW0603
    later = 1
    return later


@of("global 'box', attribute 'count' of Box", "attribute 'count' of Box")
def an_attribute_counted_up() -> Any:
    box.count += 1


@of("global 'box'", "attribute 'hidden' of Box")
def a_new_attribute() -> Any:
    box.hidden = 1  # type: ignore[attr-defined]
    return box.hidden  # type: ignore[attr-defined]


@of("global 'box'", "attribute 'count' of Box")
def an_attribute_deleted() -> Any:
    del box.count


@of("global 'Box'", "attribute 'shared' of class Box")
def a_class_attribute() -> Any:
    Box.shared = 0


@of("global 'box', attribute 'level' of class Box", "attribute '_level' of Box")
def a_property_setter() -> Any:
    box.level = 2


@of("global 'slotted'", "attribute 'count' of Slotted")
def a_slot() -> Any:
    slotted.count = 1


@of("global 'space', attribute 'count' of SimpleNamespace", "attribute 'count' of SimpleNamespace")
def a_namespace() -> Any:
    space.count += 1


@of("global 'box'", "attribute 'count' of Box")
def by_setattr() -> Any:
    setattr(box, "count", 1)  # noqa: B010  this is what is tested


@of("global 'guarded', attribute '__setattr__' of class Guarded", "attribute 'count' of Guarded")
def by_object_setattr() -> Any:
    guarded.count = 2  # type: ignore[attr-defined]


@of(
    "global 'inherited', attribute '__setattr__' of class Inherited, attribute '__setattr__' above class Inherited",
    "attribute 'count' of Inherited",
)
def by_setattr_of_super() -> Any:
    inherited.count = 2


@of("global 'boxes', contents of a list, attribute 'count' of Box", "attribute 'count' of Box")
def attributes_in_a_loop() -> Any:
    for one in boxes:
        one.count += 1


@of("global 'losses', contents of a list", "contents of a list")
def an_append_and_a_look() -> Any:
    losses.append(1.0)
    return len(losses)


@of("global 'losses'", "contents of a list")
def an_append_read_back() -> Any:
    losses.append(1.0)
    return losses[-1]


@of("global 'losses'", "contents of a list, global 'losses'")
def an_addition_in_place() -> Any:
    global losses  # noqa: PLW0603
    losses += [1]


@of("global 'queue'", "contents of a deque")
def an_item_of_a_deque() -> Any:
    queue[0] = 5


@of("global 'state'", "contents of a dict")
def an_item() -> Any:
    state["best"] = 0.5


@of("global 'state', item 'best' of a dict", "contents of a dict")
def an_item_counted_up() -> Any:
    state["best"] += 1


@of("global 'state', item 'deep' of a dict, item 'count' of a dict", "contents of a dict")
def an_item_of_an_item() -> Any:
    state["deep"]["count"] += 1


@of("global 'state', item 'best' of a dict", "contents of a dict")
def another_item_after_a_write() -> Any:
    state["new"] = 1
    return state["best"], state["new"]


@of("global 'losses', contents of a list", "contents of a list")
def a_slice() -> Any:
    losses[:] = [1, 2]


@of("global 'table', contents of a ndarray", "contents of a ndarray")
def an_array_filled() -> Any:
    table[:] = 0


@of("global 'state', contents of a dict", "contents of a dict")
def an_item_deleted() -> Any:
    del state["best"]


@of("global 'user_dict'", "contents of a dict")
def a_user_dict() -> Any:
    user_dict["lr"] = 1


@of("global 'table'", "contents of a ndarray")
def an_element_of_an_array() -> Any:
    table[0] = 1


@of(
    "global 'table', contents of a ndarray, global 'np', attribute 'add' of module numpy",
    "contents of a ndarray, global 'table'",
)
def an_array_in_place() -> Any:
    global table  # noqa: PLW0603
    table += 1
    np.add(table, 1, out=table)


@of("global 'box', attribute '__setitem__' of class Box, attribute 'seen' of Box", "contents of a list")
def an_item_of_an_object() -> Any:
    box[0] = 1


@of("global 'Box', attribute '__init__' of class Box")
def only_what_the_step_made() -> Any:
    made = Box()
    made.count += 1
    made.seen.append(1)
    data = {"a": [1]}
    data["b"] = [2]
    data["a"].append(3)
    n = 0

    def inner() -> None:
        nonlocal n
        n += 1

    inner()
    return n


@of("global 'state', global 'Box', attribute '__init__' of class Box", "contents of a dict")
def what_the_step_made_and_stored() -> Any:
    state["box"] = Box()
    state["box"].count += 1
    state["box"].seen.append(1)


# The steps that are one expression, with what they read and write.
EXPRESSIONS: dict[str, tuple[Callable[[], Any], *tuple[str, ...]]] = {
    "a nonlocal counter": (lambda: count(), "global 'count', closure variable 'n'", "closure variable 'n'"),
    "an attribute set by a method": (
        lambda: box.step(),
        "global 'box', method 'step' of Box, attribute 'count' of Box",
        "attribute 'count' of Box",
    ),
    "a cached property": (
        lambda: box.lazy,
        "global 'box', attribute 'lazy' of class Box, attribute 'count' of Box",
        "attribute 'lazy' of Box",
    ),
    "by delattr": (lambda: delattr(box, "count"), "global 'box'", "attribute 'count' of Box"),
    "an append": (lambda: losses.append(1.0), "global 'losses'", "contents of a list"),
    "an append of a condition": (
        lambda: losses.append(1.0 if counter else 2.0),
        "global 'losses', global 'counter'",
        "contents of a list",
    ),
    "an append by another name": (lambda: add(1.0), "global 'add'", "contents of a list"),
    "an append through the class": (lambda: list.append(losses, 1.0), "global 'losses'", "contents of a list"),
    "an extension": (lambda: losses.extend([1, 2]), "global 'losses'", "contents of a list"),
    "a pop": (lambda: queue.popleft(), "global 'queue', contents of a deque", "contents of a deque"),
    "an insertion": (lambda: losses.insert(0, 1), "global 'losses', contents of a list", "contents of a list"),
    "a list emptied": (lambda: losses.clear(), "global 'losses', contents of a list", "contents of a list"),
    "an update from pairs": (
        lambda: state.update([("best", 2.0)]),
        "global 'state', contents of a dict",
        "contents of a dict",
    ),
    "an update": (lambda: state.update(best=2.0), "global 'state'", "contents of a dict"),
    "a setdefault": (
        lambda: state.setdefault("worst", 1),
        "global 'state', item 'worst' of a dict",
        "contents of a dict",
    ),
    "a setdefault of what is there": (lambda: state.setdefault("best", 1), "global 'state', item 'best' of a dict"),
    "a defaultdict": (
        lambda: grouped["a"].append(1),
        "global 'grouped', item 'a' of a defaultdict",
        "contents of a defaultdict",
    ),
    "an ordered dict": (
        lambda: ordered.move_to_end("a"),
        "global 'ordered', contents of a OrderedDict",
        "contents of a OrderedDict",
    ),
    "a counter": (
        lambda: tally.update("b"),
        "global 'tally', method 'update' of Counter, contents of a Counter",
        "contents of a Counter",
    ),
    "a set": (lambda: names.add("b"), "global 'names', contents of a set", "contents of a set"),
    "a bytearray": (lambda: raw.append(1), "global 'raw'", "contents of a bytearray"),
    "an array copied to": (
        lambda: np.copyto(table, 1.0),
        "global 'table', contents of a ndarray, global 'np', attribute 'copyto' of module numpy",
        "contents of a ndarray",
    ),
    "a heap": (
        lambda: heapq.heappush(losses, 1),
        "global 'losses', global 'heapq', attribute 'heappush' of module heapq, contents of a list",
        "contents of a list",
    ),
}


@pytest.mark.parametrize("of", parameters(EXPRESSIONS, CASES))
def test_reads_and_writes(of: Case) -> None:
    reads, writes = seen(of.step)
    assert writes == of.writes
    assert reads == of.reads


def test_the_value_before_is_kept() -> None:
    (write,) = watched(an_attribute_counted_up).writes
    assert write.before == 0
    assert write.site.function == "an_attribute_counted_up"


def test_what_was_not_there_is_missing() -> None:
    (write,) = watched(a_new_attribute).writes
    assert write.before is MISSING
    write.place.write(write.before)
    assert not hasattr(box, "hidden")


def test_an_attribute_of_the_class_is_not_the_objects_own() -> None:
    (write,) = watched(a_property_setter).writes
    assert write.before is MISSING


def test_a_container_is_copied_before_its_first_change() -> None:
    losses.append(0.0)

    def step() -> None:
        losses.append(1.0)
        losses.append(2.0)

    (write,) = watched(step).writes
    assert write.before == [0.0]
    assert losses == [0.0, 1.0, 2.0]
    write.place.write(write.before)
    assert losses == [0.0]


def test_contents_read_after_a_write_are_those_before() -> None:
    witness = watched(an_append_and_a_look)
    assert not witness.reads[-1].place.holds(witness.reads[-1].value)
    witness.writes[0].place.write(witness.writes[0].before)
    assert witness.reads[-1].place.holds(witness.reads[-1].value)


def test_keys_are_told_also_if_the_values_stay() -> None:
    def step() -> None:
        state["best"] = 1.0
        state.update(new=2, best=3.0)

    (write,) = watched(step).writes
    assert write.keys == ["best", "new"]


def test_an_argument_that_is_changed() -> None:
    def step(out: list[int]) -> None:
        out.append(1)

    out: list[int] = []
    witness = watched(step, out)
    assert [write.place.what for write in witness.writes] == ["contents of a list"]
    assert witness.is_argument(out)
    assert places_read(witness) == []

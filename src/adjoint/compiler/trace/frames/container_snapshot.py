"""Snapshots of containers: what they hold, by value where it is plain and by identity elsewhere."""

from __future__ import annotations

import gc
import sys
from array import array
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from adjoint.compiler.trace.frames.constants import ATOMS, SetMember, is_interchangeable
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

CONTAINERS = (list, dict, tuple, set, frozenset, deque, bytearray, np.ndarray, array)
MUTABLE = (list, dict, set, deque, bytearray, np.ndarray, array)
VIEW_TYPES: tuple[type[object], ...] = (
    MappingProxyType,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
    memoryview,
)
COPIED_KINDS: tuple[type[object], ...] = (list, OrderedDict, dict, set, deque, bytearray)
MAX_SNAPSHOT_ITEMS = 10_000  # elements that are looked at; beyond them only how many there are


class Snapshot:
    """The elements of a container and of the containers in it, depth first."""

    __slots__ = ("elements",)

    def __init__(self, elements: list[object]) -> None:
        self.elements = elements

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Snapshot)
            and len(self.elements) == len(other.elements)
            and all(map(is_interchangeable, self.elements, other.elements))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Snapshot({self.elements!r})"


def snapshot(holder: object, before: Callable[[object], object] | None = None) -> Snapshot:
    """Return the content of `holder`; `before` gives a container as it was before the step."""
    found: list[object] = []
    _collect_elements(holder, found, {}, before)
    return Snapshot(found)


def matches_snapshot(holder: object, then: Snapshot) -> bool:
    """True while `holder` has what the snapshot shows."""
    return snapshot(holder) == then


def flat_elements(holder: Any) -> list[object] | None:
    """The elements of a list, deque or dict that holds no further container, keys first; None for any other."""
    if type(holder) not in (list, deque, dict):
        return None
    held = [*holder, *holder.values()] if type(holder) is dict else [*holder]
    return held if len(held) <= MAX_SNAPSHOT_ITEMS and not any(isinstance(each, CONTAINERS) for each in held) else None


def copy_container(holder: object) -> Any:
    """A copy of the container alone: a list of the same elements."""
    if isinstance(holder, np.ndarray):
        return holder.copy()
    if isinstance(holder, array):
        return array(holder.typecode, holder)
    for kind in COPIED_KINDS:
        if isinstance(holder, kind):
            plain = kind()
            assign_contents(plain, holder)
            return plain
    return holder


def assign_contents(holder: Any, source: Any) -> None:
    """Give `holder` the elements of `source`, by the methods of the built-in types alone."""
    if isinstance(holder, np.ndarray):
        holder[...] = source
    elif isinstance(holder, dict):
        kind = OrderedDict if isinstance(holder, OrderedDict) else dict
        pairs = list(source.items())
        kind.clear(holder)
        for key, value in pairs:
            kind.__setitem__(holder, key, value)
    elif isinstance(holder, set):
        set.clear(holder)
        set.update(holder, set(source))
    elif isinstance(holder, deque):
        deque.clear(holder)
        deque.extend(holder, list(source))
    else:
        holder[:] = source


def container_of_view(thing: object) -> Any:
    """The container behind a view of it, such as `d.items()`, a `MappingProxyType` or a `UserDict`; otherwise None."""
    if isinstance(thing, VIEW_TYPES):
        return next((held for held in gc.get_referents(thing) if isinstance(held, CONTAINERS)), None)
    if isinstance(thing, UserDict | UserList):
        return thing.data
    return thing.maps if isinstance(thing, ChainMap) else None


def elements(container: object) -> Iterator[Any]:
    """The objects that a container holds, keys included."""
    if isinstance(container, dict):
        pairs = OrderedDict.items(container) if isinstance(container, OrderedDict) else dict.items(container)
        for pair in pairs:
            yield from pair
    elif isinstance(container, np.ndarray):
        if container.dtype.hasobject:
            yield from container.ravel().tolist()
    elif isinstance(container, CONTAINERS) and not isinstance(container, bytearray | array):
        if isinstance(container, list):
            yield from list.__iter__(container)
        if isinstance(container, tuple):
            yield from tuple.__iter__(container)
        if isinstance(container, deque):
            yield from deque.__iter__(container)
        if isinstance(container, set | frozenset):  # in an order that a copy has, too
            yield from sorted(container, key=lambda e: hash(e) if type(e) in ATOMS else id(e))


def _collect_elements(
    value: object, found: list[object], seen: dict[int, int], before: Callable[[object], object] | None
) -> None:
    if type(value) in ATOMS or not isinstance(value, CONTAINERS):
        found.append(value)
        return
    if id(value) in seen:
        found.append(("again", seen[id(value)]))  # one container twice, or in itself
        return
    seen[id(value)] = len(seen)
    shown: Any = value if before is None else before(value)
    found.append(type(value))
    if len(seen) > 1 and not isinstance(value, tuple | frozenset):
        found.append(value)  # an inner container also by its identity
    if isinstance(shown, np.ndarray):
        found += (shown.dtype, shown.shape)
        if not shown.dtype.hasobject:
            found.append(shown.tobytes())
            return
    elif isinstance(shown, bytearray | array):
        found.append(bytes(shown))
        return
    else:
        found.append(len(shown))
    for element in elements(shown):
        if len(found) > MAX_SNAPSHOT_ITEMS:
            return
        unplaced = isinstance(shown, set | frozenset) and isinstance(element, Tensor)
        _collect_elements(SetMember(element) if unplaced else element, found, seen, before)


def find_replay(
    holder: Operand, assign: Callable[[Operand], object], before: Operand, keys: list[object]
) -> tuple[Callable[[Operand], object] | None, object, bool]:
    """Return how to repeat a container's change: a function, its argument, and whether it needs the old contents.

    `assign` gives the container other contents.
    """
    if isinstance(holder, list):
        n = len(before)
        changed = {i: v for i, (a, v) in enumerate(zip(before, holder, strict=False)) if a is not v or i in keys}
        if any(isinstance(key, int) and key >= n for key in keys):  # an item of this call's own: where depends on n
            return assign, list(holder), True
        if len(holder) >= n and not changed:
            return (holder.extend, holder[n:], False) if len(holder) > n else (None, None, False)
        if len(holder) == n and all(i in keys for i in changed):
            return partial(set_items, holder), changed, False
        return assign, list(holder), True
    if isinstance(holder, dict):
        changed = {k: v for k, v in holder.items() if k not in before or before[k] is not v or k in keys}
        if all(k in holder for k in before):
            return (partial(set_items, holder), changed, False) if changed else (None, None, False)
        return assign, dict(holder), True
    if isinstance(holder, deque) and not keys and (new := _find_appended(before, holder)) is not None:
        return (holder.extend, new, False) if new else (None, None, False)
    if isinstance(holder, set) and holder >= before:
        return (holder.update, tuple(holder - before), False) if len(holder) > len(before) else (None, None, False)
    return assign, holder.copy() if isinstance(holder, np.ndarray) else list(holder), True


def _find_appended(before: Sequence[object], now: deque[object]) -> list[object] | None:
    """Return what was appended to a deque, which drops its first elements when it is full; None if more was done."""
    for dropped in range(len(before) + 1):
        kept = len(before) - dropped
        new = [*now][kept:]
        fits = dropped == max(0, len(before) + len(new) - (now.maxlen or sys.maxsize))
        if fits and kept <= len(now) and all(a is b for a, b in zip([*before][dropped:], now, strict=False)):
            return new
    return None


def set_items(holder: list[object] | dict[object, object], items: dict[Operand, object]) -> None:
    """Put the values of `items` under their keys."""
    for key, value in items.items():
        holder[key] = value

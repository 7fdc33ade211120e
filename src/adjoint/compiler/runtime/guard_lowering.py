"""From the facts on which a program relies to looks at the objects that tell them: what Python need not ask again.

Looks are stricter than the guards: they hold only while the objects are the very ones they were. Where they do not, the
guards decide. What cannot be looked at stays with Python at each call.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from types import CellType, FunctionType, ModuleType
from typing import Any

from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.object_checks import Look, absent, attribute, entries, item, method, nonzero, slot
from adjoint.compiler.trace.frames.container_snapshot import flat
from adjoint.compiler.trace.frames.sources import MISSING, Attribute, Cell, Contents, Global, Item, Place
from adjoint.compiler.trace.guards import Guard, PlaceGuard, Watch

PLAIN = (dict, defaultdict, OrderedDict)  # whose items are what a look finds


def looks_of(guard: Guard) -> list[Look] | None:
    """Looks at the objects as they are now, which tell that the guard holds while they are so; None if there are none.

    The guard must hold now.
    """
    try:
        if isinstance(guard, PlaceGuard):
            return None if guard.expected is MISSING else looks_at(guard.place)
        return _watched(guard) if isinstance(guard, Watch) else None
    except (LookupError, AttributeError, TypeError, ValueError):  # something is gone
        return None


def looks_at(place: Place) -> list[Look] | None:
    """Looks that tell that the place has the object that it has now."""
    holder, name = place.holder, place.name
    if type(place) is Contents:  # one in which no other lies, so that its elements tell all
        return None if flat(holder) is None else _optional(entries(holder))
    value = place.read()
    if value is MISSING:
        return None
    if type(place) is Global or (type(place) is Item and type(holder) in PLAIN and type(name) in (str, int)):
        return [item(holder, name, value)]
    if type(place) is Item and type(holder) is list:
        return _optional(entries(holder))
    if type(place) is Cell and type(holder) is CellType:
        return [slot(holder, cpython_layout.CELL, value)]
    if type(place) is Attribute:
        return [(method if place.bound else attribute)(holder, name, value)] if _settled(holder, place, value) else None
    return None


def _settled(holder: Any, place: Attribute, value: Any) -> bool:
    """True if a read of the attribute gives the same object each time."""
    if place.bound:
        return type(value) is FunctionType
    if isinstance(holder, (ModuleType, FunctionType, type)):
        return True
    return getattr(holder, place.name, MISSING) is value and getattr(holder, place.name, MISSING) is value


def _watched(guard: Watch) -> list[Look] | None:
    """`probe.rests_on(subject)` names what the answer depends on; a probe of a dict's items is seen reading them."""
    rests_on = getattr(guard.probe, "rests_on", None)
    if rests_on is not None:
        return looks_on(rests_on(guard.subject))
    return _reads(guard.subject, guard.probe) if type(guard.subject) in PLAIN else None


def looks_on(facts: Iterable[Any]) -> list[Look] | None:
    """Of (dict, key) the item; of (dict, key, None) the item, or that there is none; of a list or dict all it holds."""
    found: list[Look | None] = []
    for fact in facts:
        if not isinstance(fact, tuple):
            found.append(entries(fact))
            continue
        holder, key = fact[:2]
        if type(holder) not in PLAIN or (key not in holder and len(fact) == 2):
            return None
        found.append(item(holder, key, holder[key]) if key in holder else absent(holder, key))
    return None if None in found else [look for look in found if look is not None]


def _reads(subject: dict[Any, Any], probe: Callable[[Any], Any]) -> list[Look] | None:
    """Looks at the items that the probe reads, if it does nothing else with the dict.

    Of a float of which it only wants to know if it is 0, the look asks no more.
    """
    spy, careful = _Spy(subject, float), _Spy(subject, _Asked)
    try:
        answer = probe(spy)
    except (LookupError, TypeError, AttributeError):
        return None
    try:
        alike = probe(careful) is answer and [*careful.read] == [*spy.read]
    except (LookupError, TypeError, AttributeError):
        alike = False
    looks = []
    for key in spy.read:
        value = subject[key]
        if alike and type(value) is float and value:
            looks.append(nonzero(subject, key))
        elif _never_changes(value):
            looks.append(item(subject, key, value))
        else:
            return None
    return looks or None


def _never_changes(value: Any) -> bool:
    """True for None, numbers, strings, and tuples of these: the same object says the same."""
    if type(value) is tuple:
        return all(map(_never_changes, value))
    return value is None or type(value) in (bool, int, float, str)


class _Spy:
    """Stands for a dict, and notes which items are read, floats as `kind`. Anything else that is asked of it fails."""

    __slots__ = ("kind", "read", "subject")

    def __init__(self, subject: dict[Any, Any], kind: Callable[[float], Any]) -> None:
        self.subject, self.kind = subject, kind
        self.read: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        value = self.subject[key]
        return self.read.setdefault(key, self.kind(value) if type(value) is float else value)


class _Asked:
    """Stands for a float that may be asked if it is 0, and nothing else."""

    __slots__ = ("_value",)

    def __init__(self, value: float) -> None:
        self._value = value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if type(other) not in (int, float) or other != 0:
            raise TypeError("more is asked of a number than if it is 0")
        return self._value == other

    __hash__ = None  # type: ignore[assignment]


def _optional(look: Look | None) -> list[Look] | None:
    return None if look is None else [look]

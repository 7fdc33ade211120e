"""Preexisting objects: those that the step reached through the places it read, and all that they hold."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, CellType, FrameType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any

from adjoint.compiler.trace.frames.constants import ATOMS
from adjoint.compiler.trace.frames.container_snapshot import CONTAINERS, container_of_view, elements
from adjoint.compiler.trace.frames.sources import MissingItem, find_class_entry
from adjoint.compiler.trace.frames.static_getattr import Unresolvable
from adjoint.core.tensor.tensor import Tensor

IDENTITY_FREE = ATOMS | {Unresolvable, MissingItem}
MAX_DISTANCE = 16  # steps from an object to one that it holds: what is farther is looked at last
MIN_SEARCHED_OBJECTS = 2_000  # objects: as many are looked at before the collector is asked
SEARCHES_PER_YOUNG_OBJECT = 0.01  # the time to look at one object is that to list a hundred
MAX_YOUNG_OBJECTS = 100_000  # at the start, where the collector has collected none for long


class Preexisting:
    """Things by identity. What they hold is looked at when it is needed, or just before it changes."""

    def __init__(self) -> None:
        self.cells: dict[int, CellType] = {}
        self.functions: dict[int, list[FunctionType]] = {}  # by the identity of their code
        self._known_objects: dict[int, object] = {}
        # Of these, what may hold more that was not looked at: how far it is from a place that was read.
        self._unexpanded: dict[int, int] = {}
        self._stacks: list[list[object]] = [[] for _ in range(MAX_DISTANCE + 1)]  # of them, by that distance
        self._distance = 0  # of what is being added
        self._new_objects: dict[int, object] = {}  # by the step, and put where it can be found
        young = gc.get_objects(generation=0)
        self._young_before = {id(x) for x in young} if len(young) <= MAX_YOUNG_OBJECTS else None
        self._young_count = 0

    def contains(self, thing: object) -> bool:
        """True if `thing` existed before the step: it was reached through a place, or is held by what was."""
        if type(thing) in IDENTITY_FREE:
            return False
        searched = 0
        while id(thing) not in self._known_objects and self._unexpanded:
            # What a program holds may be large, and a thing made just now is nowhere in it.
            patience = MIN_SEARCHED_OBJECTS + int(self._young_count * SEARCHES_PER_YOUNG_OBJECT)
            if searched == patience and self._was_made_since(thing):
                return False
            searched += 1
            self.expand(self._find_nearest())
        return id(thing) in self._known_objects

    def _find_nearest(self) -> object:
        """The last to be met of the nearest things that were not looked at."""
        for stack in self._stacks:
            while stack:
                if id(stack[-1]) in self._unexpanded:
                    return stack[-1]
                stack.pop()
        raise AssertionError("every thing that was not looked at is on a stack")

    def _was_made_since(self, thing: object) -> bool:
        """True for what the collector counts as youngest, and did not at the start: none is collected in a trace."""
        if self._young_before is None:
            return False
        young = {id(x) for x in gc.get_objects(generation=0)}
        self._young_count = len(young)
        return self._is_held_by_new(thing, young - self._young_before, set())

    def _is_held_by_new(self, thing: object, young: set[int], met: set[int]) -> bool:
        """True for a thing among the young, and for an uncounted one that only new things and frames hold.

        The collector counts no arrays, and a dict only when it holds more than numbers and texts, so that these may be
        older. What an object from before holds, and did not hold when it was looked at, the step has put there.
        """
        if type(thing) is not dict and gc.is_tracked(thing):
            return id(thing) in young or isinstance(thing, FrameType)
        if type(thing) is dict and not _are_owners_seen() and all(type(key) is str for key in thing):
            return False  # it may be the attributes of an object, old or new
        met.add(id(thing))
        holders = gc.get_referrers(thing)
        met.add(id(holders))  # which holds the next
        for holder in holders:  # in a loop, for the collector counts the object of a generator expression
            self.expand(holder)  # if it is known, and was not looked at
            if id(holder) in met or id(holder) in self._known_objects:
                continue
            if not self._is_held_by_new(holder, young, met):
                return False
        return id(thing) not in self._known_objects

    def forget(self) -> None:
        """Let go of all things: frames and functions of the trace are among them."""
        for known in (self.cells, self.functions, self._unexpanded):
            known.clear()
        for things in (self._known_objects, self._new_objects):
            things.clear()
        for stack in self._stacks:
            stack.clear()

    def add(self, thing: object) -> None:
        """Take it that `thing` existed before the step."""
        if type(thing) in ATOMS or id(thing) in self._known_objects or id(thing) in self._new_objects:
            return
        self._known_objects[id(thing)] = thing
        self._unexpanded[id(thing)] = self._distance
        self._stacks[self._distance].append(thing)
        if isinstance(thing, FunctionType):
            self.note_function(thing)
            for cell in thing.__closure__ or ():
                self.cells[id(cell)] = cell
        elif not isinstance(thing, type | ModuleType | Tensor):
            self.add(type(thing))

    def note_function(self, function: FunctionType) -> None:
        """Keep the function in mind for a frame of its code."""
        known = self.functions.setdefault(id(function.__code__), [])
        if not any(function is other for other in known):
            known.append(function)

    def note_new(self, thing: object) -> None:
        """`thing` was put into something from before; unless it is from before itself, the step made it."""
        if type(thing) not in ATOMS and not self.contains(thing):
            self._new_objects[id(thing)] = thing

    def expand(self, thing: object) -> None:
        """Meet what is held by a thing from before."""
        distance = self._unexpanded.pop(id(thing), None)
        if distance is None:
            return
        for held in visible_referents(thing):
            self._distance = min(distance + 1, MAX_DISTANCE)
            self.add(held)
            if type(held) is dict and not isinstance(thing, CONTAINERS):
                self.expand(held)  # the attributes of an object
        self._distance = 0


class _Owner:
    """An object with an attribute."""

    def __init__(self) -> None:
        self.attribute = None


@functools.cache
def _are_owners_seen() -> bool:
    """Return whether the collector sees that an object holds the dict of its attributes: not on Python 3.13."""
    owner = _Owner()
    return any(holder is owner for holder in gc.get_referrers(vars(owner)))


def visible_referents(thing: object) -> Iterator[Any]:
    """Return the values in an object that Python's names and keys reach."""
    if isinstance(thing, CONTAINERS):
        yield from elements(thing)
    elif isinstance(thing, FunctionType):
        yield from thing.__defaults__ or ()
        yield from (thing.__kwdefaults__ or {}).values()
    elif isinstance(thing, MethodType):
        yield from (thing.__self__, thing.__func__)
    elif isinstance(thing, BuiltinFunctionType | MethodWrapperType):
        yield thing.__self__
    elif isinstance(thing, functools.partial):
        yield from (thing.func, thing.args, thing.keywords)
    elif isinstance(thing, property):
        yield from (thing.fget, thing.fset, thing.fdel)
    elif isinstance(thing, functools.cached_property):
        yield thing.func
    elif isinstance(thing, classmethod | staticmethod):
        yield thing.__func__
    elif isinstance(thing, type):
        yield from thing.__mro__
    elif not isinstance(thing, ModuleType | Tensor):
        kind = type(thing)
        yield container_of_view(thing)
        if find_class_entry(kind, "__getattribute__") is object.__getattribute__:
            held = getattr(thing, "__dict__", None)
            if type(held) is dict:
                yield held
        for name in getattr(kind, "__slots__", ()):
            yield getattr(thing, name, None)

"""Preexisting objects: those that the step reached through the places it read, and all that they hold."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any

from adjoint.compiler.trace.frames.constants import ATOMS
from adjoint.compiler.trace.frames.container_snapshot import CONTAINERS, container_of_view, elements
from adjoint.compiler.trace.frames.sources import find_class_entry
from adjoint.core.tensor.tensor import Tensor


class Preexisting:
    """Things by identity. What they hold is looked at when it is needed, or just before it changes."""

    def __init__(self) -> None:
        self.cells: dict[int, CellType] = {}
        self.functions: dict[int, list[FunctionType]] = {}  # by the identity of their code
        self._known_objects: dict[int, object] = {}
        self._unexpanded: dict[int, object] = {}  # of these, what may hold more that was not looked at
        self._new_objects: dict[int, object] = {}  # by the step, and put where it can be found

    def contains(self, thing: object) -> bool:
        """True if `thing` existed before the step: it was reached through a place, or is held by what was."""
        while id(thing) not in self._known_objects and self._unexpanded:
            self.expand(next(reversed(self._unexpanded.values())))
        return id(thing) in self._known_objects

    def forget(self) -> None:
        """Let go of all things: frames and functions of the trace are among them."""
        for things in (self.cells, self.functions, self._known_objects, self._unexpanded, self._new_objects):
            things.clear()

    def add(self, thing: object) -> None:
        """Take it that `thing` existed before the step."""
        if type(thing) in ATOMS or id(thing) in self._known_objects or id(thing) in self._new_objects:
            return
        self._known_objects[id(thing)] = thing
        self._unexpanded[id(thing)] = thing
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
        if self._unexpanded.pop(id(thing), None) is None:
            return
        for held in visible_referents(thing):
            self.add(held)
            if type(held) is dict and not isinstance(thing, CONTAINERS):
                self.expand(held)  # the attributes of an object


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

"""What a step was seen to read and write, and the rules for what of it counts: each place once, as it was before."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from adjoint.compiler.trace.frames.constants import ATOMS, is_plain, unchanged
from adjoint.compiler.trace.frames.container_snapshot import CONTAINERS, MUTABLE, copied, elements, snapshot, wrapped
from adjoint.compiler.trace.frames.impure_calls import is_suspended
from adjoint.compiler.trace.frames.preexisting import Past, held_by
from adjoint.compiler.trace.frames.sources import MISSING, Contents, Item, Place
from adjoint.compiler.trace.frames.static_getattr import MOST_CANDIDATES, Found
from adjoint.compiler.trace.frames.trace_rules import is_user_class
from adjoint.core.graph.source_location import Site
from adjoint.core.tensor.tensor import Tensor

WHOLE = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType, Tensor)  # objects that a copy shares


class Read(NamedTuple):
    """A value that the step used, as it was before the step."""

    place: Place
    value: Any
    site: Site


class Write(NamedTuple):
    """A place that the step changed: the value before (for `Contents` a copy), MISSING if there was none.

    `keys` are the keys under which a container's items were set one by one, also if to what they had been.
    """

    place: Place
    before: Any
    site: Site
    keys: list[Any]


class Observations:
    """The reads and writes of one run of a step.

    `refuse(what, site)` is told what could not be repeated, as in "calls print(), which prints", and is to raise.
    """

    def __init__(self, refuse: Callable[[str, Site], None]) -> None:
        self._refuse = refuse
        self._reads: dict[Place, Read] = {}
        self._writes: dict[Place, Write] = {}
        self.past = Past()
        self.knows = self.past.knows
        self._arguments: dict[int, Any] = {}
        self._refused: BaseException | None = None

    @property
    def reads(self) -> list[Read]:
        """The first read of each place, in order."""
        return list(self._reads.values())

    @property
    def writes(self) -> list[Write]:
        """The first write to each place, in order."""
        return list(self._writes.values())

    def is_argument(self, thing: Any) -> bool:
        """True for a container among the arguments, or in one: its reads are for the signature to guard."""
        return id(thing) in self._arguments

    def read(self, place: Place, value: Any, frame: FrameType) -> None:
        """Record that the frame reads `value`, unless the step put it there."""
        if place in self._reads or place in self._writes:
            return
        written = self._writes.get(Contents(place.holder)) if isinstance(place, Item) else None
        if written is not None and not unchanged(_item(written.before, place.name), value):
            return
        self._reads[place] = Read(place, value, site_in(frame))
        self.past.meet(value)

    def read_found(self, found: Found, frame: FrameType) -> None:
        """Record the read of an attribute that was looked up, if the holder is from before."""
        if found.place is not None and (isinstance(found.place.holder, ModuleType) or self.knows(found.place.holder)):
            self.read(found.place, found.held, frame)

    def use(self, value: Any, frame: FrameType) -> None:
        """Record that all of `value` is read, if it is a container or holds some."""
        if type(value) in ATOMS:
            return
        pending, seen = [value], set()
        while pending:
            value = pending.pop()
            if type(value) in ATOMS or id(value) in seen:
                continue
            seen.add(id(value))
            if not isinstance(value, CONTAINERS):
                if is_suspended(value) and self.knows(value):
                    self.refuse(f"advances {_described(value)}, which was there before the step", frame)
                pending.append(wrapped(value))
            elif isinstance(value, MUTABLE) and self.knows(value):
                self._read_contents(value, frame)
            elif not is_plain(value):
                pending.extend(elements(value))

    def use_object(self, thing: Any, frame: FrameType) -> None:
        """Record that all attributes are read of an object, and of the objects in them, as a copy of it does."""
        pending: list[Any] = [thing]
        seen: set[int] = set()
        while pending and len(seen) < MOST_CANDIDATES:
            thing = pending.pop()
            if type(thing) in ATOMS or isinstance(thing, WHOLE) or id(thing) in seen:
                continue
            seen.add(id(thing))
            if isinstance(thing, CONTAINERS):
                pending.extend(elements(thing))
            elif self.knows(thing) and is_user_class(type(thing)):
                held = list(held_by(thing))
                pending.extend(held)
                for attributes in held:
                    if type(attributes) is dict:
                        self.use(attributes, frame)

    def _read_contents(self, container: Any, frame: FrameType) -> None:
        place = Contents(container)
        if place not in self._reads and id(container) not in self._arguments:
            self._reads[place] = Read(place, snapshot(container, self.as_before), site_in(frame))
            self.past.expand(container)

    def write(self, place: Place, before: Any, frame: FrameType) -> None:
        """Record a write, if it is the first to its place. What the holder has now was there before."""
        if place not in self._writes:
            self.past.expand(place.holder)
            self._writes[place] = Write(place, before, site_in(frame), [])

    def change(self, container: Any, frame: FrameType, key: Any = MISSING) -> None:
        """Record that what the container holds changes, if it is from before; with `key`, that this item is set."""
        if not self.knows(container):
            return
        place = Contents(container)
        if place not in self._writes:
            self.write(place, copied(container), frame)
        if key is not MISSING:
            keys = self._writes[place].keys
            if not any(unchanged(key, other) for other in keys):
                keys.append(key)

    def refuse(self, what: str, frame: FrameType) -> None:
        """Refuse the step, for good."""
        try:
            self._refuse(what, site_in(frame))
        except BaseException as error:
            self._refused = self._refused or error
            raise

    def as_before(self, container: Any) -> Any:
        """A copy of the container as it was before the step changed it; itself if it did not."""
        written = self._writes.get(Contents(container))
        return container if written is None else written.before

    def take_argument(self, argument: Any) -> None:
        if isinstance(argument, list | tuple | dict) and id(argument) not in self._arguments:
            self._arguments[id(argument)] = argument
            for element in elements(argument):
                self.take_argument(element)
        self.past.meet(argument)


def site_in(frame: FrameType) -> Site:
    """The line of the user's program that a frame is at."""
    return Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _item(container: Any, key: Any) -> Any:
    try:
        return container[key]
    except (LookupError, TypeError):
        return MISSING


def _described(iterator: Any) -> str:
    name = getattr(iterator, "__name__", None)
    return f"the generator {name!r}" if isinstance(name, str) else f"a {type(iterator).__name__}"

"""The reads and writes of a step, and the rules for which of them count: each place once, as it was before."""

from __future__ import annotations

import dis
import functools
import random
import sys
from collections import deque
from collections.abc import Callable
from types import BuiltinFunctionType, CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.compiler.ir.graph import OverlapError, TextReadError, UnknownInstructionError
from adjoint.compiler.trace.frames.attribute_sources import AttributeSource
from adjoint.compiler.trace.frames.constants import ATOMS, is_plain, is_same_constant
from adjoint.compiler.trace.frames.container_snapshot import (
    CONTAINERS,
    MAX_SNAPSHOT_ITEMS,
    MUTABLE,
    container_of_view,
    copy_container,
    elements,
    flat_elements,
    snapshot,
)
from adjoint.compiler.trace.frames.impure_calls import is_numpy_generator, is_suspended
from adjoint.compiler.trace.frames.late_texts import LateTexts, is_made_text
from adjoint.compiler.trace.frames.preexisting import Preexisting, visible_referents
from adjoint.compiler.trace.frames.sources import MISSING, ContentsSource, ElementsSource, ItemSource, Source
from adjoint.compiler.trace.frames.static_getattr import MAX_CANDIDATES, FoundAttribute
from adjoint.compiler.trace.frames.trace_rules import is_immutable_class, is_own_class, is_user_class
from adjoint.core.graph.source_location import Site
from adjoint.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.compiler.trace.frames.host_functions import HostFunctions

SHARED_BY_COPY = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType, Tensor)  # objects that a copy shares


class ObservedRead(NamedTuple):
    """A value that the step used, as it was before the step."""

    place: Source
    value: object
    site: Site


class ObservedWrite(NamedTuple):
    """A place that the step changed: the value before (for `ContentsSource` a copy), MISSING if there was none.

    `keys` are the keys under which a container's items were set one by one, also if to what they had been.
    """

    place: Source
    before: object
    site: Site
    keys: list[object]


class Observations:
    """The reads and writes of one run of a step.

    `refuse(what, site)` is told what could not be repeated, as in "calls print(), which prints", and is to raise.
    """

    def __init__(self, refuse: Callable[[str, Site], None]) -> None:
        self._refuse = refuse
        self._reads: dict[Source, ObservedRead] = {}
        self._writes: dict[Source, ObservedWrite] = {}
        self.preexisting = Preexisting()
        self.is_preexisting = self.preexisting.contains
        self.hosts: HostFunctions | None = None  # leads calls away that act outside of the step
        self.texts = LateTexts()
        self.end_turn: Callable[[FrameType, int], None] = ignore_turn  # of a frame's loop, and where the next begins
        self.leaving: BaseException | None = None  # what is to end the trace at the next call
        self.cached_functions: dict[CodeType, functools._lru_cache_wrapper[object]] = {}  # of unknown arguments
        self._arguments: dict[int, object] = {}
        self._refusal: BaseException | None = None

    @property
    def reads(self) -> list[ObservedRead]:
        """The first read of each place, in order."""
        return list(self._reads.values())

    @property
    def writes(self) -> list[ObservedWrite]:
        """The first write to each place, in order."""
        return list(self._writes.values())

    def begin_instruction(self) -> None:
        """End what held for the one before."""
        if self.hosts is not None:
            self.hosts.restore()
        self.texts.hide()

    def lead_away(self, holder: object, name: str, value: object, is_called: bool = False) -> object:
        """Return what will be loaded in place of `value`: another callable, if it acts outside of the step."""
        if self.hosts is None or self.is_own_generator(getattr(value, "__self__", None)):
            return value
        return self.hosts.lead_away(holder, name, value, is_called)

    def stand_in(self, value: object) -> object:
        """Return what stands for a generator of NumPy's in the step; anything else itself."""
        return value if self.hosts is None else self.hosts.stand_in(value) or value

    def lead_cell_away(self, cell: CellType, frame: FrameType, value: object) -> object:
        """Return what will be loaded from a cell in place of `value`."""
        return value if self.hosts is None else self.hosts.lead_cell_away(cell, frame, value)

    def has_read(self, place: Source) -> bool:
        """Return whether the step read the place before it changed it."""
        return place in self._reads

    def is_argument(self, thing: object) -> bool:
        """True for a container among the arguments, or in one: its reads are for the signature to guard."""
        return id(thing) in self._arguments

    def read(self, place: Source, value: object, frame: FrameType) -> None:
        """Record that the frame reads `value`, unless the step put it there."""
        if place in self._reads or place in self._writes:
            return
        written = self._writes.get(ContentsSource(place.holder)) if isinstance(place, ItemSource) else None
        if written is not None and not is_same_constant(_item_or_missing(written.before, place.name), value):
            return
        self._reads[place] = ObservedRead(place, value, site_in(frame))
        self.preexisting.add(value)

    def read_before(self, write: ObservedWrite, value: object) -> None:
        """Take it that the step read what a place held before it wrote there."""
        self._reads.setdefault(write.place, ObservedRead(write.place, value, write.site))

    def read_found(self, found: FoundAttribute, frame: FrameType) -> None:
        """Record the read of an attribute that was looked up, if the holder is from before."""
        if found.place is None:
            return
        holder = found.place.holder
        if isinstance(found.place, AttributeSource) and is_immutable_class(holder):
            return  # what `list.append` is
        of_library = isinstance(holder, ModuleType) or (isinstance(holder, type) and is_own_class(holder))
        if of_library or self.is_preexisting(holder):
            self.read(found.place, found.held, frame)

    def is_own_generator(self, thing: object) -> bool:
        """True for a generator that the step made of a seed: each call of the step makes one that draws the same."""
        if is_numpy_generator(thing):
            return not any(map(self.is_preexisting, (thing, getattr(thing, "bit_generator", thing))))
        return isinstance(thing, random.Random) and not self.is_preexisting(thing)

    def look_at_text(self, value: object, frame: FrameType) -> None:
        """Refuse what looks into a text that each call makes."""
        if (is_made_text(value) or type(value) is str) and self.texts.is_late(value):
            self.refuse_text(frame)

    def use(self, value: object, frame: FrameType, looks_at: int = 1) -> None:
        """Record that all of `value` is read, if it is a container or holds some.

        `looks_at`: at which texts, 0 if it hands all on; 1 at `value` itself; 2 at those in containers, too.
        """
        pending, seen = [value], set[int]()
        while pending:
            value = pending.pop()
            if looks_at > bool(seen) and self.texts.is_late(value):
                self.refuse_text(frame)
            if type(value) in ATOMS or id(value) in seen:
                continue
            seen.add(id(value))
            if not isinstance(value, CONTAINERS):
                if is_suspended(value) and self.is_preexisting(value):
                    name = getattr(value, "__name__", None)
                    what = f"the generator {name!r}" if isinstance(name, str) else f"a {type(value).__name__}"
                    self.refuse(f"advances {what}, which was there before the step", frame)
                pending.append(container_of_view(value))
            elif isinstance(value, MUTABLE) and self.is_preexisting(value):
                read = functools.partial(snapshot, value, self.as_before)
                self._read_contents(ContentsSource(value), read, frame)
            elif not is_plain(value):
                pending.extend(elements(value))

    def use_object(self, thing: object, frame: FrameType) -> None:
        """Record that all attributes are read of an object, and of the objects in them, as a copy of it does."""
        pending: list[object] = [thing]
        seen: set[int] = set()
        while pending and len(seen) < MAX_CANDIDATES:
            thing = pending.pop()
            if type(thing) in ATOMS or isinstance(thing, SHARED_BY_COPY) or id(thing) in seen:
                continue
            seen.add(id(thing))
            if isinstance(thing, CONTAINERS):
                pending.extend(elements(thing))
            elif self.is_preexisting(thing) and is_user_class(type(thing)):
                held = list(visible_referents(thing))
                pending.extend(held)
                for attributes in held:
                    if type(attributes) is dict:
                        self.use(attributes, frame)

    def _read_contents(self, place: Source, read: Callable[[], object], frame: FrameType) -> None:
        """Record what `read` gives of a container, unless it is known or for the signature to guard."""
        if place not in self._reads and not self.is_argument(place.holder):
            self._reads[place] = ObservedRead(place, read(), site_in(frame))
            self.preexisting.expand(place.holder)

    def use_elements(self, container: object, frame: FrameType) -> None:
        """Record that a loop goes over a container: over tables, say, of each of which the loop reads what it reads."""
        shown = self.as_before(container)
        has_elements = isinstance(container, list | deque | dict) and len(container) <= MAX_SNAPSHOT_ITEMS
        holds_others = has_elements and flat_elements(shown) is None
        if holds_others and self.is_preexisting(container):
            self._read_contents(ElementsSource(container), lambda: (*elements(shown),), frame)
        else:
            self.use(container, frame)

    def write(self, place: Source, before: object, frame: FrameType) -> None:
        """Record a write, if it is the first to its place. What the holder has now was there before."""
        if place not in self._writes:
            self.preexisting.expand(place.holder)
            self._writes[place] = ObservedWrite(place, before, site_in(frame), [])

    def change(self, container: object, frame: FrameType, key: object = MISSING) -> None:
        """Record that what the container holds changes, if it is from before; with `key`, that this item is set."""
        if not self.is_preexisting(container):
            return
        place = ContentsSource(container)
        if place not in self._writes:
            self.write(place, copy_container(container), frame)
        if key is not MISSING:
            keys = self._writes[place].keys
            if not any(is_same_constant(key, other) for other in keys):
                keys.append(key)

    def change_before(self, place: Source, before: object) -> None:
        """Take it that a place that the step wrote had another value before."""
        if place in self._writes:
            self._writes[place] = self._writes[place]._replace(before=before)

    def refuse(self, what: str, frame: FrameType) -> None:
        """Refuse the step, for good."""
        try:
            self._refuse(what, site_in(frame))
        except BaseException as error:
            self._refusal = self._refusal or error
            raise

    def refuse_text(self, frame: FrameType) -> None:
        """End a trace in which a number was shown as a text that each call makes: the step looks into it."""
        self.give_up(
            TextReadError(
                f"the step looks into the text of a number that each call computes, at {site_in(frame)}: show it to "
                "calls outside of the step only, or compile with fallback=True to run it eagerly"
            )
        )

    def postpone(self, what: str, frame: FrameType) -> None:
        """Leave this call of the step to Python; the next can be traced."""
        self.give_up(OverlapError(f"the step {what} at {site_in(frame)}"))

    def give_up(self, error: BaseException) -> None:
        """End the trace with an error, which the step may not catch."""
        self._refusal = error
        try:
            raise error
        finally:
            del error  # whose traceback has this frame: cycles wait for the collector

    def leave_at_call(self) -> None:
        """End the trace if that was asked for. At the end of a loop's turn Python 3.12 and later run no `__exit__`."""
        if self.leaving is not None:
            try:
                self.give_up(self.leaving)
            finally:
                self.leaving = None

    def refuse_instruction(self, ins: dis.Instruction, frame: FrameType) -> None:
        """Refuse the step, which comes to code with an instruction that nobody knows here."""
        version = ".".join(map(str, sys.version_info[:2]))
        line = ins.positions.lineno if ins.positions is not None else None
        site = site_in(frame)._replace(line=line or frame.f_lineno)
        error = UnknownInstructionError(
            f"Python {version} has an instruction, {ins.opname}, that this version of adjoint does not know, at "
            f"{site}: what the step reads there would go unnoticed"
        )
        self.give_up(error)

    def as_before(self, container: object) -> Any:
        """A copy of the container as it was before the step changed it; itself if it did not."""
        written = self._writes.get(ContentsSource(container))
        return container if written is None else written.before

    def take_argument(self, argument: object) -> None:
        if isinstance(argument, list | tuple | dict) and id(argument) not in self._arguments:
            self._arguments[id(argument)] = argument
            for element in elements(argument):
                self.take_argument(element)
        self.preexisting.add(argument)


def site_in(frame: FrameType) -> Site:
    """The line of the user's program that a frame is at."""
    return Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def ignore_turn(frame: FrameType, target: int) -> None:
    """Take no note of a turn."""


def _item_or_missing(container: Any, key: object) -> object:
    try:
        return container[key]
    except (LookupError, TypeError):
        return MISSING

"""Sources: the places in Python's objects that a step may read or write."""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import CellType
from typing import TYPE_CHECKING, Any

from adjoint.compiler.trace.frames.constants import is_interchangeable, is_same_constant
from adjoint.compiler.trace.frames.container_snapshot import (
    assign_contents,
    elements,
    flat_elements,
    matches_snapshot,
    snapshot,
)
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from adjoint.compiler.trace.frames.container_snapshot import Snapshot


class MissingItem:
    """The type of `MISSING`, which stands for a value that is not there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING = MissingItem()
NameOf = Callable[[Any], str]  # the name of the variable to which generated code has bound an object


mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__  # whatever a metaclass says
class_dict_of: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__


def find_class_entry(kind: type, name: str) -> Any:
    """Return the attribute of a class or one above it, unbound; MISSING if there is none."""
    for base in mro_of(kind):
        held = class_dict_of(base)
        if name in held:
            return held[name]
    return MISSING


def find_entry_above(kind: type, this: type, name: str) -> object:
    """Return what `super(this, …)` finds unbound for an object of class `kind`; MISSING if that is nothing."""
    for base in classes_above(kind, this):
        held = class_dict_of(base)
        if name in held:
            found: object = held[name]
            return found
    return MISSING


def classes_above(kind: type, this: type) -> tuple[type, ...]:
    """The classes in which `super(this, …)` looks, in order."""
    order = mro_of(kind)
    return order[order.index(this) + 1 :] if this in order else ()


class Source:
    """A place is its kind, its holder by identity, and a name or key; `read` gives MISSING if nothing is there."""

    __slots__ = ("holder", "name")

    def __init__(self, holder: Any, name: Any = None) -> None:
        self.holder = holder
        self.name = name

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.holder is other.holder and bool(self.name == other.name)

    def __hash__(self) -> int:
        return hash((id(self.holder), self.name))

    def __repr__(self) -> str:
        return f"<{self.what}>"

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that is different for each place."""
        return type(self), id(self.holder), self.name

    @property
    def what(self) -> str:
        """The place in words."""
        raise NotImplementedError

    def read(self) -> Any:
        """The value that is there now, or MISSING."""
        raise NotImplementedError

    def read_own(self) -> object:
        """The value that a write replaces: of an attribute the object's own, as opposed to its class's."""
        return self.read()

    def write(self, value: object) -> None:
        """Put a value there; nothing is left if it is MISSING."""
        if value is MISSING:
            self.delete()
        else:
            self._set(value)

    def delete(self) -> None:
        """Leave nothing there; quiet if nothing was."""
        raise NotImplementedError

    def expression(self, name: NameOf) -> str:
        """Python source of a fast read. It raises where `read` gives MISSING."""
        raise NotImplementedError

    def guard(self, value: Any, name: NameOf) -> str:
        """Python source of a test that the place still has `value`. It may raise where that is gone: changed, too."""
        if value is MISSING:
            return f"{name(self)}.read() is {name(MISSING)}"
        source, expected = self.expression(name), name(value)
        if type(value) is tuple and all(type(x) is not Tensor or x.node is None for x in value):
            parts = [_part_code(i, x, name) for i, x in enumerate(value)]
            tests = " and ".join((f"type(parts) is tuple and len(parts) == {len(value)}", *parts))
            return f"((parts := {source}) is {expected} or {tests})"
        compared = is_interchangeable if isinstance(value, tuple) else is_same_constant
        return f"({source} is {expected} or {name(compared)}({source}, {expected}))"

    def holds(self, value: Any) -> bool:
        """True while a read gives `value`; numbers, strings and tuples of them are compared by type and value."""
        return (is_interchangeable if isinstance(value, tuple) else is_same_constant)(self.read(), value)

    def _set(self, value: object) -> None:
        self.holder[self.name] = value


def _part_code(i: int, value: object, name: NameOf) -> str:
    """Return the source of a test that part `i` of a tuple may stand for `value`."""
    if type(value) is Tensor:
        return f"type(parts[{i}]) is {name(Tensor)} and parts[{i}].node is None"
    return f"(parts[{i}] is {name(value)} or {name(is_interchangeable)}(parts[{i}], {name(value)}))"


class GlobalSource(Source):
    """A name in a module's namespace."""

    __slots__ = ()

    @property
    def what(self) -> str:
        """`global 'scale'`."""
        return f"global {self.name!r}"

    def read(self) -> Any:
        return self.holder.get(self.name, MISSING)

    def delete(self) -> None:
        self.holder.pop(self.name, None)

    def expression(self, name: NameOf) -> str:
        """`g['scale']`."""
        return f"{name(self.holder)}[{self.name!r}]"


class BuiltinSource(Source):
    """A name of Python's own that a module does not have."""

    __slots__ = ()

    @property
    def what(self) -> str:
        """`builtin 'max'`."""
        return f"builtin {self.name!r}"

    def read(self) -> Any:
        return self.holder.get(self.name, vars(builtins).get(self.name, MISSING))

    def delete(self) -> None:
        self.holder.pop(self.name, None)

    def expression(self, name: NameOf) -> str:
        """`(g.get('max') or builtins['max'])`."""
        return f"({name(self.holder)}.get({self.name!r}) or {name(vars(builtins))}[{self.name!r}])"


class CellSource(Source):
    """A variable that a function has from the function around it."""

    __slots__ = ()
    holder: CellType

    @property
    def what(self) -> str:
        """`closure variable 'n'`."""
        return f"closure variable {self.name!r}"

    def read(self) -> Any:
        try:
            return self.holder.cell_contents
        except ValueError:
            return MISSING

    def delete(self) -> None:
        with suppress(ValueError):
            del self.holder.cell_contents

    def expression(self, name: NameOf) -> str:
        """`c.cell_contents`."""
        return f"{name(self.holder)}.cell_contents"

    def _set(self, value: Operand) -> None:
        self.holder.cell_contents = value


class ItemSource(Source):
    """The value under a key or index of a dict, list or deque."""

    __slots__ = ()

    @property
    def what(self) -> str:
        """`item 'lr' of a dict`."""
        return f"item {self.name!r} of a {type(self.holder).__name__}"

    def read(self) -> Any:
        try:
            if isinstance(self.holder, dict):
                return dict.get(self.holder, self.name, MISSING)
            return self.holder[self.name]
        except (LookupError, TypeError):
            return MISSING

    def delete(self) -> None:
        with suppress(LookupError):
            del self.holder[self.name]

    def expression(self, name: NameOf) -> str:
        """`d['lr']`."""
        key = repr(self.name) if type(self.name) in (int, str) else name(self.name)
        return f"{name(self.holder)}[{key}]"


class DerivedSource(Source):
    """A place that is read for what it shows of others, and never written."""

    __slots__ = ()

    def delete(self) -> None:
        raise TypeError(f"{self.what} cannot be deleted")

    def _set(self, value: object) -> None:
        raise TypeError(f"{self.what} cannot be set")


class PartSource(DerivedSource):
    """The item `name` of a tuple that lies in the place `holder`."""

    __slots__ = ()
    holder: Source

    @property
    def what(self) -> str:
        """`item 0 of attribute 'state' of Model`."""
        return f"item {self.name!r} of {self.holder.what}"

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of the place around, and the item's number."""
        return type(self), self.holder.key, self.name

    def read(self) -> Operand:
        try:
            return self.holder.read()[self.name]
        except (LookupError, TypeError):
            return MISSING

    def expression(self, name: NameOf) -> str:
        """`o.state[0]`."""
        return f"{self.holder.expression(name)}[{self.name!r}]"


def tensors_in(place: Source, value: object, before: Callable[[object], object]) -> Iterator[tuple[Source, Any]]:
    """The tensors that a read of `place` found: the value, or within it, each with a place of its own.

    `before` gives a copy of a container as it was when the step began, or the container itself.
    """
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(place, ContentsSource):
        yield from _tensors_in_container(place.holder, before)
    elif isinstance(place, ElementsSource) and isinstance(value, tuple):
        is_dict = isinstance(place.holder, dict)
        for key, element in zip(value[::2], value[1::2], strict=True) if is_dict else enumerate(value):
            yield from tensors_in(ItemSource(place.holder, key), element, before)
    elif isinstance(value, tuple):
        for i, element in enumerate(value):
            yield from tensors_in(PartSource(place, i), element, before)


def _tensors_in_container(container: object, before: Callable[[object], object]) -> Iterator[tuple[Source, Any]]:
    shown = before(container)
    if isinstance(shown, dict):
        pairs: Any = shown.items()
    elif isinstance(shown, list | deque | tuple):
        pairs = enumerate(shown)
    else:
        return
    for key, element in pairs:
        if isinstance(element, dict | list | deque):
            yield from _tensors_in_container(element, before)
        else:
            yield from tensors_in(ItemSource(container, key), element, before)


class ContentsSource(Source):
    """The content of a list, tuple, dict, set, deque or ndarray, and of such containers among its elements."""

    __slots__ = ()

    @property
    def what(self) -> str:
        """`contents of a list`."""
        return f"contents of a {type(self.holder).__name__}"

    def read(self) -> Snapshot:
        return snapshot(self.holder)

    def write(self, value: object) -> None:
        assign_contents(self.holder, value)

    def delete(self) -> None:
        assign_contents(self.holder, type(self.holder)())

    def expression(self, name: NameOf) -> str:
        """`snapshot(o)`."""
        return f"{name(snapshot)}({name(self.holder)})"

    def guard(self, value: Snapshot, name: NameOf) -> str:
        """`matches_snapshot(o, snapshot)`; of a flat container a look at identities first, a tenth of the time."""
        test = f"{name(matches_snapshot)}({name(self.holder)}, {name(value)})"
        held = flat_elements(self.holder)
        if held is None or not matches_snapshot(self.holder, value):
            return test
        source = name(self.holder)
        all_of = f"*{source}, *{source}.values()" if type(self.holder) is dict else f"*{source}"
        name(held)  # which keeps the objects, so that no other gets an identity of theirs
        return f"([*map(id, ({all_of},))] == {name([*map(id, held)])} or {test})"

    def holds(self, value: Snapshot) -> bool:
        return matches_snapshot(self.holder, value)


class ElementsSource(DerivedSource):
    """The elements of a list, dict or deque, keys included: not what is in them, which a loop may change."""

    __slots__ = ()

    @property
    def what(self) -> str:
        """`elements of a list`."""
        return f"elements of a {type(self.holder).__name__}"

    def read(self) -> tuple[object, ...]:
        return (*elements(self.holder),)

    def expression(self, name: NameOf) -> str:
        """`(*elements(o),)`."""
        return f"(*{name(elements)}({name(self.holder)}),)"

    def guard(self, value: object, name: NameOf) -> str:
        """`place.holds(elements)`: of any number of them."""
        return f"{name(self)}.holds({name(value)})"

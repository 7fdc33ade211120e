"""Static attribute lookup: the result of `getattr`, without running the user's code."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from enum import Enum
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

from adjoint.compiler.trace.frames.attribute_sources import (
    AttributeSource,
    DefinitionSource,
    DirectAttributeSource,
    SuperSource,
)
from adjoint.compiler.trace.frames.constants import ATOMS, is_plain
from adjoint.compiler.trace.frames.container_snapshot import container_of_view, elements
from adjoint.compiler.trace.frames.sources import MISSING, Source, find_class_entry, find_entry_above
from adjoint.compiler.trace.frames.trace_rules import is_user_code, is_user_function
from adjoint.core.runtime.lazy_import import names_of
from adjoint.core.tensor.tensor import Tensor


class Unresolvable:
    """The type of `UNKNOWN`, a value that only the interpreter has."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unresolvable()
MAX_CANDIDATES = 1_000


class OneOf:
    """A value that is one of some objects, or something that C code made of them."""

    __slots__ = ("candidates",)

    def __init__(self, candidates: list[object]) -> None:
        self.candidates = candidates


def one_of(values: Iterable[object]) -> OneOf | Unresolvable:
    """Return what C code may return for these values: an element of one, say. UNKNOWN if they hold no objects."""
    found = []
    for value in values:
        if isinstance(value, OneOf):
            found += value.candidates
        elif type(value) not in ATOMS:
            inner = container_of_view(value)
            held = elements(value if inner is None else inner)
            found += [x for x in held if x is not UNKNOWN and not isinstance(x, Tensor) and not is_plain(x)]
    return OneOf(found[:MAX_CANDIDATES]) if found else UNKNOWN


class FoundAttribute(NamedTuple):
    """An attribute's value, the place to remember with what is in it, and the user's code that makes the value."""

    value: object = UNKNOWN
    place: Source | None = None
    held: object = UNKNOWN  # what the place has
    runs: CodeType | None = None


UNKNOWN_ATTRIBUTE = FoundAttribute()
OBJECT_GETATTRIBUTE: Any = object.__getattribute__
SLOT_DESCRIPTOR_TYPES = (MemberDescriptorType, GetSetDescriptorType)
CLASS_METHOD_TYPES = (staticmethod, classmethod)


def getattr_static(holder: Any, name: str, direct: bool = False) -> FoundAttribute:
    """The attribute `name` of `holder`. The value is UNKNOWN where getting it runs code.

    `direct`: as `object.__getattribute__` finds it, whatever `__getattribute__` the class has of its own.
    """
    kind = type(holder)
    if direct and isinstance(find_class_entry(kind, "__getattribute__"), FunctionType):
        own = _instance_entry(holder, name)
        if own is not MISSING:
            return FoundAttribute(own, DirectAttributeSource(holder, name), own)
        return _lookup_in_object(holder, kind, name)
    if isinstance(holder, Tensor):  # the tracer sees to tensors; a user may have put more into a parameter
        if name == "__dict__":
            return _evaluate_getattr(holder, name)
        own = _instance_entry(holder, name)
        entry = find_class_entry(kind, name)
        if own is not MISSING or entry is MISSING:
            return _found_in(holder, name, own)
        return FoundAttribute(place=DefinitionSource(kind, name) if type(entry) is FunctionType else None, held=entry)
    if isinstance(holder, super):
        return _lookup_in_super(holder, name)
    if kind is ModuleType or isinstance(holder, ModuleType):
        return _lookup_in_module(holder, name)
    if type(kind) is not type or kind.__getattribute__ is not OBJECT_GETATTRIBUTE:
        access = find_class_entry(kind, "__getattribute__")
        if isinstance(access, FunctionType):
            return FoundAttribute(runs=access.__code__ if is_user_code(access.__code__) else None)
    if isinstance(holder, Enum) and (own := _instance_entry(holder, name)) is not MISSING:
        return _found_in(holder, name, own)
    if is_plain(holder):
        found = find_class_entry(kind, name)
        return UNKNOWN_ATTRIBUTE if is_user_function(getattr(found, "fget", found)) else _evaluate_getattr(holder, name)
    return _lookup_in_object(holder, kind, name)


def _lookup_in_object(holder: Any, kind: type, name: str) -> FoundAttribute:
    general = find_class_entry(kind, name)
    of_class = isinstance(holder, type)
    own = find_class_entry(holder, name) if of_class else _instance_entry(holder, name)
    descriptor = MISSING if general is MISSING or type(general) is FunctionType else type(general)
    if hasattr(descriptor, "__set__") or hasattr(descriptor, "__delete__"):  # goes before the object's own attribute
        return _resolve_class_entry(holder, kind, name, general)
    if own is not MISSING:
        return _class_attribute(holder, name, own) if of_class else _found_in(holder, name, own)
    if general is not MISSING:
        return _resolve_class_entry(holder, kind, name, general)
    fallback = find_class_entry(kind, "__getattr__")
    if fallback is MISSING:
        # C code of its own may find it: a threading.local, a bound method
        return _found_in(holder, name, getattr_or_missing(holder, name))
    if is_user_function(fallback):
        return FoundAttribute(place=AttributeSource(kind, "__getattr__"), held=fallback, runs=fallback.__code__)
    value = getattr_or_missing(holder, name)  # a parameter, buffer or part of a Module
    return _found_in(holder, name, value)


def _resolve_class_entry(holder: object, kind: type, name: str, entry: object) -> FoundAttribute:
    """An attribute through what the class has under its name."""
    if isinstance(entry, FunctionType):
        return FoundAttribute(MethodType(entry, holder), AttributeSource(holder, name, bound=True), entry)
    if isinstance(entry, property):
        if is_user_function(entry.fget):
            assert isinstance(entry.fget, FunctionType)
            return FoundAttribute(place=AttributeSource(kind, name), held=entry, runs=entry.fget.__code__)
        return UNKNOWN_ATTRIBUTE
    if isinstance(entry, functools.cached_property):
        return FoundAttribute(place=AttributeSource(kind, name), held=entry)
    if isinstance(entry, SLOT_DESCRIPTOR_TYPES):
        value = getattr_or_missing(holder, name)
        return _found_in(holder, name, value)
    if isinstance(entry, CLASS_METHOD_TYPES):
        return _class_attribute(holder, name, entry)
    getter = find_class_entry(type(entry), "__get__")
    if is_user_function(getter):
        assert isinstance(getter, FunctionType)
        return FoundAttribute(place=DefinitionSource(kind, name), held=entry, runs=getter.__code__)
    if isinstance(getter, FunctionType):
        return UNKNOWN_ATTRIBUTE
    if getter is not MISSING:
        return _evaluate_getattr(holder, name)
    return _found_in(holder, name, entry)


def _class_attribute(holder: Any, name: str, entry: Any) -> FoundAttribute:
    """Return an attribute of a class, seen from it; also class and static methods, seen from objects."""
    if isinstance(entry, classmethod):
        owner = holder if isinstance(holder, type) else type(holder)
        function = entry.__func__
        if not isinstance(function, FunctionType):
            return _evaluate_getattr(holder, name)
        return FoundAttribute(MethodType(function, owner), AttributeSource(holder, name, bound=True), function)
    if isinstance(entry, staticmethod):
        return _found_in(holder, name, entry.__func__)
    if isinstance(entry, FunctionType | property | functools.cached_property):
        return _found_in(holder, name, entry)
    getter = find_class_entry(type(entry), "__get__")
    if isinstance(getter, FunctionType) and is_user_function(getter):
        kind = holder if isinstance(holder, type) else type(holder)
        return FoundAttribute(place=DefinitionSource(kind, name), held=entry, runs=getter.__code__)
    return _found_in(holder, name, getattr_or_missing(holder, name) if getter is not MISSING else entry)


def _lookup_in_module(module: ModuleType, name: str) -> FoundAttribute:
    held = names_of(module)
    if name == "__dict__":
        return FoundAttribute(held)
    if name not in held:
        fallback = held.get("__getattr__")
        if fallback is not None and is_user_function(fallback):
            return FoundAttribute(place=AttributeSource(module, "__getattr__"), held=fallback, runs=fallback.__code__)
        value = getattr_or_missing(module, name)  # a submodule, or a name that the library loads when it is needed
        return _found_in(module, name, value) if value is MISSING or name in held else FoundAttribute(value)
    value = held[name]
    return _found_in(module, name, value)


def _lookup_in_super(proxy: Any, name: str) -> FoundAttribute:
    """`super().name`: what the classes above have."""
    this, kind = proxy.__thisclass__, proxy.__self_class__
    entry = find_entry_above(kind, this, name)
    if entry is MISSING:
        return UNKNOWN_ATTRIBUTE
    place = SuperSource(kind, this, name)
    if isinstance(entry, property):
        runs = entry.fget.__code__ if isinstance(entry.fget, FunctionType) and is_user_function(entry.fget) else None
        return FoundAttribute(place=place, held=entry, runs=runs)
    getter = find_class_entry(type(entry), "__get__")
    if is_user_function(getter):
        return FoundAttribute(place=place, held=entry, runs=getter.__code__)
    return FoundAttribute(getattr_or_missing(proxy, name), place, entry)


def _instance_entry(holder: object, name: str) -> Any:
    """Return the entry of an object's own `__dict__`."""
    try:
        return object.__getattribute__(holder, "__dict__").get(name, MISSING)
    except AttributeError:
        return MISSING


def _found_in(holder: object, name: str, value: object) -> FoundAttribute:
    return FoundAttribute(value, AttributeSource(holder, name), value)


def _evaluate_getattr(holder: object, name: str) -> FoundAttribute:
    """An attribute that C code gives, a method of a built-in type for the most part: nothing to remember."""
    return FoundAttribute(getattr_or_missing(holder, name))


def getattr_or_missing(holder: object, name: str) -> Any:
    """`getattr`, with MISSING for what is not there."""
    return getattr(holder, name, MISSING)

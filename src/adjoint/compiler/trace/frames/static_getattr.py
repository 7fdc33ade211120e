"""What `getattr` would find, without running the user's code for it."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import (
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

from adjoint.compiler.trace.frames.constants import ATOMS, is_plain
from adjoint.compiler.trace.frames.container_snapshot import elements, wrapped
from adjoint.compiler.trace.frames.sources import MISSING, Attribute, Definition, Place, find
from adjoint.compiler.trace.frames.trace_rules import is_user_class, is_user_code, is_user_function, is_user_module
from adjoint.core.runtime.lazy_import import names_of
from adjoint.core.tensor.tensor import Tensor


class Unknown:
    """The type of `UNKNOWN`, a value that only the interpreter has."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()
MOST_CANDIDATES = 1_000


class OneOf:
    """A value that is one of some objects, or something that C code made of them."""

    __slots__ = ("candidates",)

    def __init__(self, candidates: list[Any]) -> None:
        self.candidates = candidates


def one_of(values: Iterable[Any]) -> Any:
    """What C code may give that was given these values: an element of one, say. UNKNOWN if they hold no objects."""
    found = []
    for value in values:
        if isinstance(value, OneOf):
            found += value.candidates
        elif type(value) not in ATOMS:
            inner = wrapped(value)
            held = elements(value if inner is None else inner)
            found += [x for x in held if x is not UNKNOWN and not isinstance(x, Tensor) and not is_plain(x)]
    return OneOf(found[:MOST_CANDIDATES]) if found else UNKNOWN


class Found(NamedTuple):
    """An attribute's value, the place to remember with what is in it, and the user's code that makes the value."""

    value: Any = UNKNOWN
    place: Place | None = None
    held: Any = UNKNOWN  # what the place has
    runs: CodeType | None = None


NOTHING = Found()
ORDINARY: Any = object.__getattribute__
IN_OBJECT = (MemberDescriptorType, GetSetDescriptorType)
OF_CLASS = (staticmethod, classmethod)


def lookup(holder: Any, name: str) -> Found:
    """The attribute `name` of `holder`. The value is UNKNOWN where getting it runs code."""
    kind = type(holder)
    if isinstance(holder, Tensor):  # the tracer sees to tensors; a user may have put more into a parameter
        own = _own(holder, name)
        return NOTHING if own is MISSING or name[:1] == "_" else _in(holder, name, own)
    if isinstance(holder, super):
        return _of_super(holder, name)
    if kind is ModuleType or isinstance(holder, ModuleType):
        return _of_module(holder, name)
    if type(kind) is not type or kind.__getattribute__ is not ORDINARY:
        access = find(kind, "__getattribute__")
        if isinstance(access, FunctionType):
            return Found(runs=access.__code__ if is_user_code(access.__code__) else None)
    if is_plain(holder):
        found = find(kind, name)
        return NOTHING if is_user_function(getattr(found, "fget", found)) else _evaluated(holder, name)
    return _of_object(holder, kind, name)


def _of_object(holder: Any, kind: type, name: str) -> Found:
    general = find(kind, name)
    of_class = isinstance(holder, type)
    own = find(holder, name) if of_class else _own(holder, name)
    if general is not MISSING and _stores(general):
        return _described(holder, kind, name, general)
    if own is not MISSING:
        return _class_attribute(holder, name, own) if of_class else _in(holder, name, own)
    if general is not MISSING:
        return _described(holder, kind, name, general)
    fallback = find(kind, "__getattr__")
    if fallback is MISSING:
        return _in(holder, name, get(holder, name))  # C code of its own may find it: a threading.local, a bound method
    if is_user_function(fallback):
        return Found(place=Attribute(kind, "__getattr__"), held=fallback, runs=fallback.__code__)
    value = get(holder, name)  # a parameter, buffer or part of a Module
    return _in(holder, name, value)


def _described(holder: Any, kind: type, name: str, entry: Any) -> Found:
    """An attribute through what the class has under its name."""
    if isinstance(entry, FunctionType):
        value: Any = MethodType(entry, holder)
        place = Attribute(holder, name, bound=True) if is_user_code(entry.__code__) else None
        return Found(value, place, entry)
    if isinstance(entry, property):
        if is_user_function(entry.fget):
            assert isinstance(entry.fget, FunctionType)
            return Found(place=Attribute(kind, name), held=entry, runs=entry.fget.__code__)
        return NOTHING
    if isinstance(entry, functools.cached_property):
        return Found(place=Attribute(kind, name), held=entry)
    if isinstance(entry, IN_OBJECT):
        value = get(holder, name)
        return _in(holder, name, value)
    if isinstance(entry, OF_CLASS):
        return _class_attribute(holder, name, entry)
    getter = find(type(entry), "__get__")
    if is_user_function(getter):
        assert isinstance(getter, FunctionType)
        return Found(place=Definition(kind, name), held=entry, runs=getter.__code__)
    if isinstance(getter, FunctionType):
        return NOTHING
    if getter is not MISSING:
        return _evaluated(holder, name)
    return _in(holder, name, entry)


def _class_attribute(holder: Any, name: str, entry: Any) -> Found:
    """What a class has under a name, seen from the class; also class methods and static methods seen from objects."""
    if isinstance(entry, classmethod):
        owner = holder if isinstance(holder, type) else type(holder)
        function = entry.__func__
        if not isinstance(function, FunctionType):
            return _evaluated(holder, name)
        value = MethodType(function, owner)
        return Found(value, Attribute(holder, name, bound=True) if is_user_function(function) else None, function)
    if isinstance(entry, staticmethod):
        function = entry.__func__
        return Found(function, Attribute(holder, name) if is_user_function(function) else None, function)
    if isinstance(entry, FunctionType | property | functools.cached_property):
        return Found(entry, Attribute(holder, name) if is_user_function(getattr(entry, "fget", entry)) else None, entry)
    getter = find(type(entry), "__get__")
    if isinstance(getter, FunctionType) and is_user_function(getter):
        return Found(runs=getter.__code__)
    value = get(holder, name) if getter is not MISSING else entry
    return _in(holder, name, value) if is_user_class(holder) else Found(value)


def _of_module(module: ModuleType, name: str) -> Found:
    held = names_of(module)
    if name not in held:
        fallback = held.get("__getattr__")
        if fallback is not None and is_user_function(fallback):
            return Found(place=Attribute(module, "__getattr__"), held=fallback, runs=fallback.__code__)
        value = get(module, name)  # a submodule, or a name that the library loads when it is needed
        return Found(value) if value is not MISSING else Found(value, Attribute(module, name), value)
    value = held[name]
    if is_user_module(module) or isinstance(value, list | dict):  # sys.argv, say
        return Found(value, Attribute(module, name), value)
    return Found(value)


def _of_super(proxy: Any, name: str) -> Found:
    """`super().name`: what the classes above have."""
    this, classes = proxy.__thisclass__, proxy.__self_class__.__mro__
    for base in classes[classes.index(this) + 1 :]:
        entry = base.__dict__.get(name, MISSING)
        if entry is MISSING:
            continue
        if isinstance(entry, property) and is_user_function(entry.fget):
            assert isinstance(entry.fget, FunctionType)
            return Found(place=Attribute(base, name), held=entry, runs=entry.fget.__code__)
        if isinstance(entry, property):
            return NOTHING
        value = get(proxy, name)
        if isinstance(entry, FunctionType):
            return Found(value, Attribute(base, name) if is_user_function(entry) else None, entry)
        if isinstance(entry, classmethod):
            wanted = is_user_function(entry.__func__)
            return Found(value, Attribute(base, name, bound=True) if wanted else None, entry.__func__)
        shown = get(base, name)
        return Found(value, Attribute(base, name) if shown is value and is_user_class(base) else None, value)
    return NOTHING


def _own(holder: Any, name: str) -> Any:
    """What an object's own `__dict__` has under the name."""
    try:
        return object.__getattribute__(holder, "__dict__").get(name, MISSING)
    except AttributeError:
        return MISSING


def _in(holder: Any, name: str, value: Any) -> Found:
    return Found(value, Attribute(holder, name), value)


def _evaluated(holder: Any, name: str) -> Found:
    """An attribute that C code gives, a method of a built-in type for the most part: nothing to remember."""
    return Found(get(holder, name))


def get(holder: Any, name: str) -> Any:
    """`getattr`, with MISSING for what is not there."""
    return getattr(holder, name, MISSING)


def _stores(entry: Any) -> bool:
    """True for what decides also about an object's own attribute of its name."""
    kind = type(entry)
    return kind is not FunctionType and (hasattr(kind, "__set__") or hasattr(kind, "__delete__"))

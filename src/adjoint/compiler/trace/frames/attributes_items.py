"""Attribute access and subscripts: their reads and writes."""

from __future__ import annotations

import functools
import os
from collections import ChainMap, UserDict, UserList, deque
from enum import Enum, EnumMeta
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from adjoint.compiler.trace.frames.attribute_sources import AttributeSource
from adjoint.compiler.trace.frames.constants import is_plain
from adjoint.compiler.trace.frames.container_snapshot import CONTAINERS, MUTABLE, VIEW_TYPES
from adjoint.compiler.trace.frames.shadow_frame import ShadowFrame
from adjoint.compiler.trace.frames.sources import MISSING, ItemSource, find_class_entry
from adjoint.compiler.trace.frames.static_getattr import UNKNOWN, OneOf, getattr_static, one_of
from adjoint.compiler.trace.frames.trace_rules import is_own_class, is_user_class, is_user_code, is_user_function
from adjoint.core.tensor.tensor import Tensor

# Attributes of classes, functions and type parameters whose code runs when they are first asked for, since Python 3.12.
DEFERRED_ATTRIBUTES = frozenset(("__annotations__", "__bound__", "__constraints__", "__default__", "__value__"))


def get_attribute(a: ShadowFrame, frame: FrameType, holder: object, name: str, direct: bool = False) -> Any:
    """`holder.name`: the value if it can be known before; `direct` beside the class's own `__getattribute__`."""
    if holder is UNKNOWN or not isinstance(name, str):
        return UNKNOWN
    if isinstance(holder, OneOf):
        values = [
            get_attribute(a, frame, each, name)
            for each in holder.candidates
            # as far as can be seen without running code
            if name in (getattr(each, "__dict__", None) or ()) or find_class_entry(type(each), name) is not MISSING
        ]
        a.await_result(None)
        return one_of([values])
    if name in DEFERRED_ATTRIBUTES and not a.observer.is_preexisting(holder):
        return UNKNOWN  # to look would run the code here, unseen
    found = getattr_static(holder, name, direct)
    a.observer.read_found(found, frame)
    if name == "__dict__" and isinstance(holder, ModuleType | Tensor):
        a.observer.preexisting.add(found.value)
    if isinstance(found.held, functools.cached_property) and a.observer.is_preexisting(holder):
        a.observer.write(AttributeSource(holder, name), MISSING, frame)
    a.await_result(found.runs)
    return UNKNOWN if found.value is MISSING else found.value


def set_attribute(
    a: ShadowFrame, frame: FrameType, holder: object, name: object, value: object, direct: bool = False
) -> None:
    """`holder.name = value`; `direct` if the class's own `__setattr__` has decided already."""
    if holder is UNKNOWN or not isinstance(name, str) or isinstance(holder, Tensor):
        return
    if isinstance(holder, OneOf):
        for each in holder.candidates:
            set_attribute(a, frame, each, name, value)
        return
    kind = type(holder)
    access = "__delattr__" if value is MISSING else "__setattr__"
    if not direct and is_user_function(find_class_entry(kind, access)):
        return  # runs as a frame, and so does a setter
    entry = find_class_entry(kind, name)
    if isinstance(entry, property) or is_user_function(find_class_entry(type(entry), "__set__")):
        return
    if a.observer.is_preexisting(holder):
        a.observer.write(AttributeSource(holder, name), AttributeSource(holder, name).read_own(), frame)
        a.observer.preexisting.note_new(value)


def get_item(a: ShadowFrame, frame: FrameType, container: Any, key: Any) -> Any:
    """`container[key]`: the value if it can be known before."""
    w = a.observer
    if container is UNKNOWN:
        w.use(key, frame)
        return UNKNOWN
    if isinstance(container, OneOf):
        held = [[get_item(a, frame, each, key)] for each in container.candidates if isinstance(each, CONTAINERS)]
        return one_of([container.candidates, *held])
    if _is_view(container):
        if type(key) in (int, str):
            return read_item(a, frame, container, key)
        w.use(container, frame)
        return UNKNOWN
    if isinstance(container, os._Environ):
        w.preexisting.add(container)
        return read_item(a, frame, container, key)
    getter = find_class_entry(type(container), "__getitem__")
    if isinstance(getter, FunctionType):
        if is_user_code(getter.__code__):
            a.await_result(getter.__code__)
            return UNKNOWN
        one_part = is_own_class(type(container)) and not isinstance(container, Tensor)  # of a ModuleList, say
        if (one_part or isinstance(container, EnumMeta)) and type(key) in (int, str):
            try:
                return note_member(a, container, container[key])
            except LookupError:
                return UNKNOWN
        w.use_object(container, frame)  # a method of Python's library, in a class of the user's
        w.use(container, frame)
        return one_of([container])
    if not isinstance(container, dict | list | tuple | deque) or not is_key(container, key):
        w.use(container, frame)
        w.use(key, frame)
        if not (isinstance(key, Tensor) and isinstance(container, dict) and dict.__contains__(container, key)):
            _add_missing_item(a, frame, container)
        return one_of([container])
    if isinstance(container, tuple):
        return container[key] if -len(container) <= key < len(container) else UNKNOWN
    value = read_item(a, frame, container, key)
    if value is UNKNOWN:
        _add_missing_item(a, frame, container, key)
    return value


def _add_missing_item(a: ShadowFrame, frame: FrameType, container: object, key: object = MISSING) -> None:
    """Record what the lookup of an absent key changes: a `defaultdict` adds the item."""
    missing = find_class_entry(type(container), "__missing__")
    if is_user_function(missing):
        a.await_result(missing.__code__)
    elif missing is not MISSING:
        a.observer.change(container, frame, key)


def note_member(a: ShadowFrame, holder: object, member: object) -> object:
    """Take a member of an enumeration for what was there before, if that was."""
    if isinstance(member, Enum) and a.observer.is_preexisting(holder):
        a.observer.preexisting.add(member)
    return member


def set_item(a: ShadowFrame, frame: FrameType, container: Any, key: Any, value: object) -> None:
    """`container[key] = value`; MISSING deletes."""
    w = a.observer
    if isinstance(container, os._Environ):
        w.refuse("sets an environment variable", frame)
    if isinstance(container, UserDict | UserList | ChainMap) and not is_user_class(type(container)):
        container = container.maps[0] if isinstance(container, ChainMap) else container.data
    method = "__delitem__" if value is MISSING else "__setitem__"
    if not isinstance(container, MUTABLE) or is_user_function(find_class_entry(type(container), method)):
        return
    w.use(key, frame)
    if isinstance(container, np.ndarray):
        w.use(value, frame)
    keyed = is_key(container, key) and value is not MISSING
    if not keyed:
        w.use(container, frame)  # what changes is seen by comparison
    w.change(container, frame, key if keyed else MISSING)
    w.preexisting.note_new(value)


def has_item(a: ShadowFrame, frame: FrameType, container: Any, key: Any) -> bool:
    """Record `key in container` by the item, where that is what it is about: in a dict."""
    plain = isinstance(container, dict) and not isinstance(
        find_class_entry(type(container), "__contains__"), FunctionType
    )
    if isinstance(container, os._Environ):
        a.observer.preexisting.add(container)
    elif not plain or not is_key(container, key):
        return False
    read_item(a, frame, container, key)
    return True


def read_item(a: ShadowFrame, frame: FrameType, container: Any, key: Any) -> Any:
    """The item, recorded if the container is from before and no argument; UNKNOWN if there is none."""
    w, place = a.observer, ItemSource(container, key)
    value = place.read()
    if w.is_preexisting(container) and not w.is_argument(container):
        w.read(place, value, frame)
    return UNKNOWN if value is MISSING else value


def is_key(container: object, key: object) -> bool:
    """True for a key that can be looked up without running the user's code."""
    if isinstance(container, dict | os._Environ):
        return key is not UNKNOWN and (is_plain(key) or isinstance(key, type | FunctionType | CodeType))
    return type(key) in (int, bool)


def _is_view(container: object) -> bool:
    """True for what shows the items of another container, written in C or by Python's library."""
    return isinstance(container, (*VIEW_TYPES, UserDict, UserList, ChainMap)) and not is_user_class(type(container))

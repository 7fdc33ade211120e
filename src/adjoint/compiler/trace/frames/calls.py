"""Calls: their reads and writes."""

from __future__ import annotations

import bisect
import functools
import heapq
import operator
import os
from collections import Counter, UserDict, UserList
from collections.abc import Callable, Sequence
from enum import EnumMeta
from types import (
    BuiltinFunctionType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.compiler.trace.frames.attribute_sources import AttributeSource
from adjoint.compiler.trace.frames.attributes_items import (
    get_attribute,
    get_item,
    is_key,
    note_member,
    read_item,
    set_attribute,
    set_item,
)
from adjoint.compiler.trace.frames.cached_calls import CachedFunction, record_cached_call
from adjoint.compiler.trace.frames.constants import is_plain
from adjoint.compiler.trace.frames.container_snapshot import CONTAINERS, MUTABLE
from adjoint.compiler.trace.frames.host_functions import CHOICES, HostFunction
from adjoint.compiler.trace.frames.impure_calls import HASHABLE_CALLABLE_TYPES, describe_impurity
from adjoint.compiler.trace.frames.late_texts import hands_texts_on, lays_out_fields, makes_text
from adjoint.compiler.trace.frames.shadow_frame import ShadowFrame
from adjoint.compiler.trace.frames.sources import MISSING, find_class_entry
from adjoint.compiler.trace.frames.static_getattr import UNKNOWN, OneOf, getattr_static, one_of
from adjoint.compiler.trace.frames.trace_rules import is_standard_file, is_user_function
from adjoint.core.runtime.mode import guard_on, runtime_input
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function

if TYPE_CHECKING:
    from adjoint.compiler.trace.frames.static_getattr import Unresolvable

ADDING_METHODS = frozenset(("append", "extend", "__iadd__", "frombytes", "fromlist"))
CHANGING_METHODS = frozenset((  # methods of built-in containers that change them so that it depends on what they hold
    "update", "clear", "__setitem__", "fill", "put", "setfield", "insert", "resize", "pop", "popleft", "popitem",
    "remove", "sort", "reverse", "rotate", "setdefault", "discard", "add", "subtract", "difference_update",
    "intersection_update", "symmetric_difference_update", "move_to_end", "__delitem__", "partition", "byteswap",
    "__ior__", "__iand__", "__isub__", "__ixor__", "__imul__", "appendleft", "extendleft",
))  # fmt: skip
KEY_METHODS = frozenset(("__getitem__", "get", "__contains__", "setdefault"))  # methods of a dict about one item
# These do not look into their arguments.
SHALLOW_FUNCTIONS = frozenset((isinstance, issubclass, callable, id, type, functools.partial))
# What a loop goes over, and the number of names that it gives in each turn.
LOOP_PARTS: dict[type, Callable[[Sequence[object]], int]] = {enumerate: lambda _: 2, zip: len, reversed: lambda _: 1}
VIEW_PARTS = {"items": 2, "keys": 1, "values": 1}  # the same for methods of dicts
FILLING_FUNCTIONS = frozenset((  # functions that change their first argument
    np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis, heapq.heappush, heapq.heappop,
    heapq.heapify, heapq.heapreplace, heapq.heappushpop, bisect.insort_left, bisect.insort_right, operator.setitem,
    operator.delitem, operator.iadd, operator.iconcat, operator.ior,
))  # fmt: skip


def record_call(a: ShadowFrame, frame: FrameType, callee: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A call: its value if it can be known before."""
    w = a.observer
    if isinstance(callee, HostFunction) and looks_into(callee.function, args):
        callee = callee.function
    while isinstance(callee, functools.partial):
        w.use(callee.args, frame)
        w.use(callee.keywords, frame)
        callee, args, keywords = callee.func, (*callee.args, *args), {**callee.keywords, **keywords}
    if isinstance(callee, DESCRIPTOR_TYPES) and args and isinstance(args[0], callee.__objclass__):
        callee, args = callee.__get__(args[0], type(args[0])), args[1:]  # list.append(x, y), object.__setattr__(x, …)
    # Calls whose result the program takes as an input, such as clocks, and calls that make or print a text: the numbers
    # among their arguments may still change, so nothing is guarded on.
    if isinstance(callee, HostFunction) or makes_text(callee) or hands_texts_on(callee):
        for value in (*args, *keywords.values()):
            w.use(value, frame, looks_at=0)
            if lays_out_fields(callee):
                w.look_at_text(value, frame)
        if isinstance(callee, HostFunction) and callee.function.__name__ == "shuffle" and isinstance(args[0], list):
            w.change(args[0], frame)
        if not makes_text(callee):
            return UNKNOWN
        w.texts.show()
        return w.texts.combine([*args, *keywords.values()])
    # Reading a file or drawing from a generator of Python's cannot be repeated by a program.
    what = describe_impurity(callee, args)
    if what is not None and not w.is_own_generator(getattr(callee, "__self__", None)):
        w.refuse(what, frame)
    # The frame of a user's function is observed when it begins, and gives the value when it returns.
    function = python_function(callee)
    if function is not None:
        a.await_result(function.__code__, function if isinstance(callee, FunctionType | MethodType) else callee)
        return UNKNOWN
    if isinstance(callee, EnumMeta) and len(args) == 1 and not keywords and is_plain(args[0]):
        return note_member(a, callee, vars(callee)["_value2member_map_"].get(args[0], UNKNOWN))
    if isinstance(callee, CachedFunction):
        record_cached_call(a, frame, callee, args, keywords)
    if isinstance(callee, FunctionType) and callee in SELF_REPORTING_FUNCTIONS:
        return UNKNOWN
    # From here on the callee is C code, or a library's, into which nobody looks. Its effects are known from tables;
    # where they say nothing, all that it is given counts as read.
    values = (*args, *keywords.values())
    for value in values:
        inner = value.__func__ if isinstance(value, MethodType) else value
        if isinstance(inner, FunctionType):
            w.preexisting.note_function(inner)
        elif (what := describe_impurity(value, ())) is not None and (callee is map or callee is filter):
            w.refuse(what, frame)
    special = CALL_HANDLERS.get(callee) if isinstance(callee, BuiltinFunctionType | type | FunctionType) else None
    if special is not None and not keywords and not any(x is UNKNOWN for x in args[:2]):
        return special(a, frame, *args)
    owner = getattr(callee, "__self__", None) if isinstance(callee, METHOD_TYPES) else None
    if owner is not None and not isinstance(owner, type):
        handled, value = _call_method(a, frame, owner, callee.__name__, args, keywords)
        if handled:
            return value
    # A function of the standard library may read any attribute of what it is given.
    reads_objects = isinstance(callee, FunctionType) and is_standard_file(callee.__code__.co_filename)
    if isinstance(callee, type) and callee in LOOP_PARTS and a.names_elements(frame, LOOP_PARTS[callee](args)):
        for value in values:
            w.use_elements(value, frame)
    elif not (isinstance(callee, BuiltinFunctionType | type) and callee in SHALLOW_FUNCTIONS):
        for value in values:
            w.use(value, frame, looks_at=2)
            if reads_objects:
                w.use_object(value, frame)
    out = keywords.get("out")
    fills = type(callee) in HASHABLE_CALLABLE_TYPES and callee in FILLING_FUNCTIONS
    for changed in (*(out if isinstance(out, tuple) else (out,)), *(args[:1] if fills else ())):
        if isinstance(changed, MUTABLE):
            w.change(changed, frame)
    if isinstance(callee, operator.attrgetter | operator.itemgetter) and len(args) == 1:
        return _call_getter(a, frame, callee, args[0])
    if (callee is operator.attrgetter or callee is operator.itemgetter) and all(map(is_plain, args)) and args:
        return callee(*args)
    return one_of(values)


def looks_into(function: Function, args: tuple[Any, ...]) -> bool:
    """True for a function that computes a number of what is in its arguments, like any function of a container."""
    if function in CHOICES:
        return len(args) < 2 or not all(x is UNKNOWN or isinstance(x, int | float) for x in args)
    return function is len


DESCRIPTOR_TYPES = (MethodDescriptorType, WrapperDescriptorType)
SELF_REPORTING_FUNCTIONS = (runtime_input, guard_on)  # they tell the tracer themselves what they read
METHOD_TYPES = (BuiltinFunctionType, MethodType, MethodWrapperType)


def python_function(callee: object) -> FunctionType | None:
    """The user's function that a call runs first, if it is one."""
    if isinstance(callee, MethodType):
        callee = callee.__func__
    if isinstance(callee, FunctionType):
        return callee if is_user_function(callee) else None
    if callee is UNKNOWN or isinstance(callee, BuiltinFunctionType | MethodWrapperType):
        return None
    name = "__init__" if isinstance(callee, type) else "__call__"
    found = find_class_entry(callee if isinstance(callee, type) else type(callee), name)
    return found if is_user_function(found) else None


def make_super(kind: Any, this: Any) -> Any:
    """`super(kind, this)`."""
    try:
        return super(kind, this)
    except TypeError:
        return UNKNOWN


def _call_method(
    a: ShadowFrame, frame: FrameType, owner: object, name: str, args: tuple[Any, ...], keywords: dict[str, object]
) -> tuple[bool, Any]:
    """A method of C code or of a library: (True, its value) if all of its effects were recorded."""
    w, values = a.observer, (*args, *keywords.values())
    if name in ("__setattr__", "__delattr__") and args:
        set_attribute(a, frame, owner, args[0], args[1] if len(args) > 1 else MISSING, direct=True)
        return True, None
    if name in ("__getattribute__", "__getattr__") and len(args) == 1:
        return True, get_attribute(a, frame, owner, args[0], direct=True)
    if isinstance(owner, os._Environ):
        w.preexisting.add(owner)
        if name == "get" and args:
            value = read_item(a, frame, owner, args[0])
            return True, UNKNOWN if value is UNKNOWN and len(args) > 1 else value
        if name in CHANGING_METHODS:
            w.refuse("sets an environment variable", frame)
    if isinstance(owner, UserDict | UserList):
        owner = owner.data
    if not isinstance(owner, CONTAINERS):
        w.use(owner, frame)  # an iterator
        return False, UNKNOWN
    # `d.get(key)` depends on one item, not on the whole dict.
    if name in KEY_METHODS and isinstance(owner, dict) and args and is_key(owner, args[0]):
        value = read_item(a, frame, owner, args[0])
        if name == "setdefault" and args[0] not in owner:
            w.change(owner, frame, args[0])
            w.preexisting.note_new(args[1] if len(args) > 1 else None)
        if value is UNKNOWN and name == "get":
            value = args[1] if len(args) > 1 else None
        return True, UNKNOWN if name == "__contains__" else value
    if name == "__setitem__" and len(args) == 2:
        set_item(a, frame, owner, *args)
        return True, None
    # Appending does not depend on what a list holds already, so that `losses.append(loss)` guards on nothing.
    if name in CHANGING_METHODS or name in ADDING_METHODS:
        keys: tuple[object, ...] = ()  # those that `update` sets, if they can be told
        known = name == "update" and isinstance(owner, dict) and not isinstance(owner, Counter)
        if known and all(type(given) is dict for given in args):
            keys = (*keywords, *(key for given in args for key in given))
        if name in CHANGING_METHODS and not keys:
            w.use(owner, frame)
        for value in values:
            if name not in ("append", "appendleft", "insert", "add", "setdefault"):
                w.use(value, frame)
        for key in keys or (MISSING,):
            w.change(owner, frame, key)
        for value in values:
            w.preexisting.note_new(value)
        return True, one_of([owner])
    if name in VIEW_PARTS and isinstance(owner, dict) and a.names_elements(frame, VIEW_PARTS[name]):
        w.use_elements(owner, frame)
    else:
        w.use(owner, frame)
    return not args, one_of([owner])


def _call_getter(a: ShadowFrame, frame: FrameType, getter: Any, subject: object) -> object:
    """`operator.attrgetter(names)(subject)`, `operator.itemgetter(keys)(subject)`."""
    value: object = UNKNOWN
    for entry in getter.__reduce__()[1]:
        value = subject
        for part in entry.split(".") if isinstance(getter, operator.attrgetter) else (entry,):
            read = get_attribute if isinstance(getter, operator.attrgetter) else get_item
            value = read(a, frame, value, part)
    return value if len(getter.__reduce__()[1]) == 1 else UNKNOWN


def _getattr(a: ShadowFrame, frame: FrameType, *args: Any) -> Any:
    value = get_attribute(a, frame, *args[:2])
    if value is not UNKNOWN or len(args) < 3 or isinstance(args[0], OneOf):
        return value
    if a.awaited_code or getattr_static(args[0], args[1]).value is MISSING:
        return args[2]  # unless the user's code that runs now gives another value
    return value


def _hasattr(a: ShadowFrame, frame: FrameType, holder: object, name: str) -> Unresolvable:
    get_attribute(a, frame, holder, name)
    a.await_result(None)
    return UNKNOWN


def _setattr(a: ShadowFrame, frame: FrameType, holder: object, name: object, value: object = MISSING) -> None:
    set_attribute(a, frame, holder, name, value)


def _type(a: ShadowFrame, frame: FrameType, *args: object) -> Any:
    if len(args) != 1 or isinstance(args[0], OneOf):
        return UNKNOWN
    if a.observer.is_preexisting(args[0]) and not is_plain(args[0]) and not isinstance(args[0], Tensor):
        a.observer.read(AttributeSource(args[0], "__class__"), type(args[0]), frame)
    return type(args[0])


def _super(a: ShadowFrame, frame: FrameType, *args: Any) -> Any:
    variables = frame.f_locals
    if not args and frame.f_code.co_argcount:
        kind = variables.get("__class__", UNKNOWN)
        return make_super(kind, variables.get(frame.f_code.co_varnames[0], UNKNOWN))
    return make_super(*args) if len(args) == 2 else UNKNOWN


def _globals(a: ShadowFrame, frame: FrameType) -> Any:
    a.observer.preexisting.add(frame.f_globals)
    return frame.f_globals


CALL_HANDLERS: dict[object, Function] = {
    getattr: _getattr,
    hasattr: _hasattr,
    setattr: _setattr,
    delattr: _setattr,
    vars: lambda a, frame, *args: get_attribute(a, frame, args[0], "__dict__") if args else UNKNOWN,
    type: _type,
    super: _super,
    globals: _globals,
    os.getenv: lambda a, frame, *args: _call_method(a, frame, os.environ, "get", args, {})[1],
}

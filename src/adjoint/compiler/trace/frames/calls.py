"""What calls read and write."""

from __future__ import annotations

import bisect
import functools
import heapq
import operator
import os
from collections import Counter, UserDict, UserList
from types import (
    BuiltinFunctionType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from adjoint.compiler.trace.frames.attributes_items import (
    get_attribute,
    get_item,
    is_key,
    read_item,
    set_attribute,
    set_item,
)
from adjoint.compiler.trace.frames.constants import is_plain
from adjoint.compiler.trace.frames.container_snapshot import CONTAINERS, MUTABLE
from adjoint.compiler.trace.frames.impure_calls import NAMED, impurity
from adjoint.compiler.trace.frames.shadow_frame import Activation
from adjoint.compiler.trace.frames.sources import MISSING, Attribute, find
from adjoint.compiler.trace.frames.static_getattr import UNKNOWN, OneOf, lookup, one_of
from adjoint.compiler.trace.frames.trace_rules import is_standard_file, is_user_function
from adjoint.core.runtime.mode import setting, watch
from adjoint.core.tensor.tensor import Tensor

ADDING = frozenset(("append", "appendleft", "extend", "extendleft", "__iadd__", "frombytes", "fromlist"))
CHANGING = frozenset((  # methods of built-in containers that change them so that it depends on what they hold
    "update", "clear", "__setitem__", "fill", "put", "setfield", "insert", "resize", "pop", "popleft", "popitem",
    "remove", "sort", "reverse", "rotate", "setdefault", "discard", "add", "subtract", "difference_update",
    "intersection_update", "symmetric_difference_update", "move_to_end", "__delitem__", "partition", "byteswap",
    "__ior__", "__iand__", "__isub__", "__ixor__", "__imul__",
))  # fmt: skip
KEYED = frozenset(("__getitem__", "get", "__contains__", "setdefault"))  # methods of a dict about one item
OUTSIDE = frozenset((isinstance, issubclass, callable, id, type, functools.partial))  # do not look into arguments
FILLING = frozenset((  # functions that change their first argument
    np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis, heapq.heappush, heapq.heappop,
    heapq.heapify, heapq.heapreplace, heapq.heappushpop, bisect.insort_left, bisect.insort_right, operator.setitem,
    operator.delitem, operator.iadd, operator.iconcat, operator.ior,
))  # fmt: skip


def call(a: Activation, frame: FrameType, callee: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A call: its value if it can be known before."""
    w = a.witness
    while isinstance(callee, functools.partial):
        w.use(callee.args, frame)
        w.use(callee.keywords, frame)
        callee, args, keywords = callee.func, (*callee.args, *args), {**callee.keywords, **keywords}
    if isinstance(callee, DESCRIPTORS) and args and isinstance(args[0], callee.__objclass__):
        callee, args = callee.__get__(args[0], type(args[0])), args[1:]  # list.append(x, y), object.__setattr__(x, …)
    what = impurity(callee, args)
    if what is not None:
        w.refuse(what, frame)
    function = python_function(callee)
    if function is not None:
        a.await_result(function.__code__, function if isinstance(callee, FunctionType | MethodType) else callee)
        return UNKNOWN
    if isinstance(callee, FunctionType) and callee in TELLING:
        return UNKNOWN
    values = (*args, *keywords.values())
    for value in values:
        inner = value.__func__ if isinstance(value, MethodType) else value
        if isinstance(inner, FunctionType):
            w.past.note_function(inner)
        elif (what := impurity(value, ())) is not None and (callee is map or callee is filter):
            w.refuse(what, frame)
    special = SPECIAL.get(callee) if isinstance(callee, BuiltinFunctionType | type | FunctionType) else None
    if special is not None and not keywords and not any(x is UNKNOWN for x in args[:2]):
        return special(a, frame, *args)
    owner = getattr(callee, "__self__", None) if isinstance(callee, METHODS) else None
    if owner is not None and not isinstance(owner, type):
        handled, value = _call_method(a, frame, owner, callee.__name__, args, keywords)
        if handled:
            return value
    reads_objects = isinstance(callee, FunctionType) and is_standard_file(callee.__code__.co_filename)
    if not (isinstance(callee, BuiltinFunctionType | type) and callee in OUTSIDE):
        for value in values:
            w.use(value, frame)
            if reads_objects:
                w.use_object(value, frame)
    out = keywords.get("out")
    for changed in (*(out if isinstance(out, tuple) else (out,)), *(args[:1] if _is_filling(callee) else ())):
        if isinstance(changed, MUTABLE):
            w.change(changed, frame)
    if isinstance(callee, operator.attrgetter | operator.itemgetter) and len(args) == 1:
        return _call_getter(a, frame, callee, args[0])
    if (callee is operator.attrgetter or callee is operator.itemgetter) and all(map(is_plain, args)) and args:
        return callee(*args)
    return one_of(values)


DESCRIPTORS = (MethodDescriptorType, WrapperDescriptorType)
TELLING = (setting, watch)  # they tell the tracer themselves what they read
METHODS = (BuiltinFunctionType, MethodType, MethodWrapperType)


def python_function(callee: Any) -> FunctionType | None:
    """The user's function that a call runs first, if it is one."""
    if isinstance(callee, MethodType):
        callee = callee.__func__
    if isinstance(callee, FunctionType):
        return callee if is_user_function(callee) else None
    if callee is UNKNOWN or isinstance(callee, BuiltinFunctionType | MethodWrapperType):
        return None
    name = "__init__" if isinstance(callee, type) else "__call__"
    found = find(callee if isinstance(callee, type) else type(callee), name)
    return found if is_user_function(found) else None


def super_of(kind: Any, this: Any) -> Any:
    """`super(kind, this)`."""
    try:
        return super(kind, this)
    except TypeError:
        return UNKNOWN


def _call_method(
    a: Activation, frame: FrameType, owner: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[bool, Any]:
    """A method of C code or of a library: (True, its value) if all of its effects were recorded."""
    w, values = a.witness, (*args, *keywords.values())
    if name in ("__setattr__", "__delattr__") and args:
        set_attribute(a, frame, owner, args[0], args[1] if len(args) > 1 else MISSING, direct=True)
        return True, None
    if name in ("__getattribute__", "__getattr__") and len(args) == 1:
        return True, get_attribute(a, frame, owner, args[0])
    if isinstance(owner, os._Environ):
        w.past.meet(owner)
        if name == "get" and args:
            value = read_item(a, frame, owner, args[0])
            return True, UNKNOWN if value is UNKNOWN and len(args) > 1 else value
        if name in CHANGING:
            w.refuse("sets an environment variable", frame)
    if isinstance(owner, UserDict | UserList):
        owner = owner.data
    if not isinstance(owner, CONTAINERS):
        w.use(owner, frame)  # an iterator
        return False, UNKNOWN
    if name in KEYED and isinstance(owner, dict) and args and is_key(owner, args[0]):
        value = read_item(a, frame, owner, args[0])
        if name == "setdefault" and args[0] not in owner:
            w.change(owner, frame, args[0])
            w.past.note_made(args[1] if len(args) > 1 else None)
        if value is UNKNOWN and name == "get":
            value = args[1] if len(args) > 1 else None
        return True, UNKNOWN if name == "__contains__" else value
    if name == "__setitem__" and len(args) == 2:
        set_item(a, frame, owner, *args)
        return True, None
    if name in CHANGING or name in ADDING:
        keys = _updated(owner, args, keywords) if name == "update" else ()
        if name in CHANGING and not keys:
            w.use(owner, frame)
        for value in values:
            if name not in ("append", "appendleft", "insert", "add", "setdefault"):
                w.use(value, frame)
        for key in keys or (MISSING,):
            w.change(owner, frame, key)
        for value in values:
            w.past.note_made(value)
        return True, one_of([owner])
    w.use(owner, frame)
    return not args, one_of([owner])


def _updated(owner: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """The keys that `update` sets, if they can be told."""
    if isinstance(owner, Counter) or not isinstance(owner, dict) or not all(type(given) is dict for given in args):
        return ()
    return (*keywords, *(key for given in args for key in given))


def _call_getter(a: Activation, frame: FrameType, getter: Any, subject: Any) -> Any:
    """`operator.attrgetter(names)(subject)`, `operator.itemgetter(keys)(subject)`."""
    value = UNKNOWN
    for entry in getter.__reduce__()[1]:
        value = subject
        for part in entry.split(".") if isinstance(getter, operator.attrgetter) else (entry,):
            read = get_attribute if isinstance(getter, operator.attrgetter) else get_item
            value = read(a, frame, value, part)
    return value if len(getter.__reduce__()[1]) == 1 else UNKNOWN


def _getattr(a: Activation, frame: FrameType, *args: Any) -> Any:
    value = get_attribute(a, frame, *args[:2])
    if value is not UNKNOWN or len(args) < 3 or isinstance(args[0], OneOf):
        return value
    if a.awaited or lookup(args[0], args[1]).value is MISSING:
        return args[2]  # unless the user's code that runs now gives another value
    return value


def _hasattr(a: Activation, frame: FrameType, holder: Any, name: Any) -> Any:
    get_attribute(a, frame, holder, name)
    a.await_result(None)
    return UNKNOWN


def _setattr(a: Activation, frame: FrameType, holder: Any, name: Any, value: Any = MISSING) -> Any:
    set_attribute(a, frame, holder, name, value)
    return None


def _vars(a: Activation, frame: FrameType, *args: Any) -> Any:
    return get_attribute(a, frame, args[0], "__dict__") if args else UNKNOWN


def _type(a: Activation, frame: FrameType, *args: Any) -> Any:
    if len(args) != 1 or isinstance(args[0], OneOf):
        return UNKNOWN
    if a.witness.knows(args[0]) and not is_plain(args[0]) and not isinstance(args[0], Tensor):
        a.witness.read(Attribute(args[0], "__class__"), type(args[0]), frame)
    return type(args[0])


def _super(a: Activation, frame: FrameType, *args: Any) -> Any:
    variables = frame.f_locals
    if not args and frame.f_code.co_argcount:
        kind = variables.get("__class__", UNKNOWN)
        return super_of(kind, variables.get(frame.f_code.co_varnames[0], UNKNOWN))
    return super_of(*args) if len(args) == 2 else UNKNOWN


def _globals(a: Activation, frame: FrameType) -> Any:
    a.witness.past.meet(frame.f_globals)
    return frame.f_globals


def _getenv(a: Activation, frame: FrameType, key: Any, default: Any = None) -> Any:
    a.witness.past.meet(os.environ)
    value = read_item(a, frame, os.environ, key)
    return default if value is UNKNOWN else value


SPECIAL: dict[Any, Any] = {
    getattr: _getattr,
    hasattr: _hasattr,
    setattr: _setattr,
    delattr: _setattr,
    vars: _vars,
    type: _type,
    super: _super,
    globals: _globals,
    os.getenv: _getenv,
}


def _is_filling(callee: Any) -> bool:
    return type(callee) in NAMED and callee in FILLING

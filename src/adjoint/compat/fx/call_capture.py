"""Capture of calls with proxies: while there are some, public functions and methods of tensors record them.

Functions are reached by many ways: names of modules, names that programs imported, tables, closures. So the code of
each function is replaced for that time by one that looks for proxies, and does what the function did where there are
none. A function of several names is known by the name that was looked up in its module.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from textwrap import dedent
from types import CodeType, FunctionType
from weakref import WeakSet

from adjoint.compat.fx.immutable_collections import Argument, iterate_leaves
from adjoint.compat.fx.proxy import Proxy, find_tracer, new_proxy_slot, record_call
from adjoint.compat.fx.qualified_names import (
    PACKAGE,
    POSITIONAL_COUNTS,
    PublicName,
    public_functions,
    signature_of,
)
from adjoint.core.graph.source_location import library_files
from adjoint.core.runtime.lazy_import import names_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.tensor.torch_function import (
    METHODS_NEVER_DISPATCHED,
    NEVER_DISPATCHED,
    OPERATORS,
    DispatchedFunction,
)
from adjoint.core.typing import Function
from adjoint.functions.api.lazy_index import import_all_modules

_ASKING = "has_torch_function has_torch_function_unary has_torch_function_variadic handle_torch_function"
NEVER_RECORDED = NEVER_DISPATCHED.union(_ASKING.split())
METHOD_NAMES = {"__lshift__": "__lshift__", "__rshift__": "__rshift__"} | OPERATORS
METHODS_NEVER_RECORDED = METHODS_NEVER_DISPATCHED | {"__bool__", "__deepcopy__", "__float__", "__int__", "__repr__"}

_lock = threading.RLock()
_changes = ExitStack()  # undoes what is changed while calls are captured
_traces: list[object] = []  # the traces that run
free_proxies: WeakSet[Proxy] = WeakSet()  # proxies that programs made by themselves, while nothing is traced


@contextmanager
def capture_calls() -> Iterator[None]:
    """Record calls with proxies in this block."""
    trace = object()
    _traces.append(trace)
    try:
        start_capture()
        yield
    finally:
        _traces.remove(trace)
        stop_unused_capture()


@new_proxy_slot.fill
def watch_proxy(proxy: Proxy) -> None:
    """Record calls with a proxy as long as it lives, if nothing is traced that does so anyway."""
    if not _traces:
        free_proxies.add(proxy)
        start_capture()


def is_capturing() -> bool:
    """Return whether functions and methods look for proxies."""
    return hasattr(Tensor.abs, "recorded_function")


def start_capture() -> None:
    """Let functions and methods look for proxies from now on."""
    with _lock:
        if not is_capturing():
            _capture_functions()
            _capture_methods()


def stop_unused_capture() -> None:
    """Restore functions and methods if there are no proxies."""
    with _lock:
        if is_capturing() and not _traces and not free_proxies:
            _changes.close()


def find_proxy(*arguments: Argument) -> Proxy | None:
    """Return a proxy among the arguments, or in lists, tuples and dicts of them; None if there is none."""
    return next((x for x in iterate_leaves(arguments) if isinstance(x, Proxy)), None)


def _capture_functions() -> None:
    """Replace the code of the public functions, and those of their names that are not the first."""
    for function, names in public_functions().items():
        if NEVER_RECORDED.isdisjoint(public.name for public in names):
            original = _copy_function(function)
            _changes.callback(setattr, function, "__code__", function.__code__)
            of_nn = (public for public in names if public.name in POSITIONAL_COUNTS.get(public.module, ()))
            in_modules = next((public for public in of_nn if public.module), names[0])
            recorder = _make_recorder(function, original, names[0], in_modules)
            function.__code__ = make_calling_code(recorder, original.__code__)
            for public in names[1:]:
                _replace_name(public, _make_recorder(function, original, public, public))


def _copy_function(function: Function) -> Function:
    """Return a function that goes on to do what this one does now."""
    signature_of(function)  # while it can be read
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def make_calling_code(call: Function, code: CodeType) -> CodeType:
    """Return the code of a function with the name of `code`, and as many free variables, that calls another one."""
    made = _make_template(len(code.co_freevars))
    constants = tuple(call if value == "function" else value for value in made.co_consts)
    return made.replace(co_consts=constants, co_name=code.co_name, co_qualname=code.co_qualname)


@cache
def _make_template(count: int) -> CodeType:
    """Return the code of a function that calls a constant, and has free variables to fit a closure."""
    variables = "".join(f"v{i}, " for i in range(count))
    source = f"""
        def enclose({variables}):
            def template(*args, **kwargs):
                function = "function"
                return function(*args, **kwargs)
                ({variables})
            return template
    """
    names: dict[str, Argument] = {}
    exec(compile(dedent(source), __file__, "exec"), names)
    code: CodeType = names["enclose"](*range(count)).__code__
    return code


def _make_recorder(function: Function, original: Function, public: PublicName, in_modules: PublicName) -> Function:
    """Return a function that records calls with proxies as calls by one name, or by another from modules of `nn`."""

    def call(*args: Argument, **kwargs: Argument) -> Argument:
        if (proxy := find_proxy(args, kwargs)) is not None:
            if _has_own_override(type(proxy)):
                return proxy.__torch_function__(function, (type(proxy),), args, kwargs)
            caller = sys._getframe(2).f_code.co_filename
            return record_call(function, in_modules if library_files[caller] else public, args, kwargs)
        stop_unused_capture()
        return original(*args, **kwargs)

    setattr(call, "recorded_function", function)  # noqa: B010
    return call


def _has_own_override(kind: type[Proxy]) -> bool:
    """Return whether a class of proxies has its own `__torch_function__`, which is to see the call."""
    first = next(each for each in kind.__mro__ if "__torch_function__" in vars(each))
    return first is not Proxy


def _replace_name(public: PublicName, value: Function) -> None:
    """Let a module, and the module `torch`, have another function under a name."""
    homes = [f"{PACKAGE}.{public.module}".rstrip("."), *["torch"] * (not public.module and "torch" in sys.modules)]
    for module in map(import_module, homes):
        names = names_of(module)
        if getattr(module, public.name, None) is not None and public.name in names:
            _changes.callback(names.__setitem__, public.name, names[public.name])
            names[public.name] = value


def _capture_methods() -> None:
    """Replace the methods of tensors, which get proxies beside them."""
    import_all_modules()
    for base in Tensor.__mro__[:-1]:
        for name, method in list(vars(base).items()):
            is_special = name.startswith("__") and name not in METHOD_NAMES
            is_method = isinstance(method, (FunctionType, DispatchedFunction))
            if is_method and not is_special and name not in METHODS_NEVER_RECORDED:
                _changes.callback(setattr, base, name, method)
                setattr(base, name, _make_method_recorder(METHOD_NAMES.get(name, name), method))


def _make_method_recorder(name: str, method: Function) -> Function:
    def call(*args: Argument, **kwargs: Argument) -> Argument:
        if find_proxy(args, kwargs) is not None:
            return find_tracer(args, kwargs).create_proxy("call_method", name, args, kwargs)
        stop_unused_capture()
        return method(*args, **kwargs)

    setattr(call, "recorded_function", method)  # noqa: B010
    return call

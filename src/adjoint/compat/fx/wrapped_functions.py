"""Functions that a trace records as one call: those that `wrap` names, and functions of `math`."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import wraps

from adjoint.compat.fx.immutable_collections import Argument, iterate_leaves
from adjoint.compat.fx.proxy import Proxy
from adjoint.core.typing import Function

# The names that `wrap` was called for, with the globals of their modules.
_wrapped_names: dict[tuple[int, str], dict[str, Argument]] = {}


def wrap(fn_or_name: str | Function) -> str | Function:
    """Record calls of this global function as one call, and do not trace what is in it. A decorator, too.

    Raises NotImplementedError outside of the top level of a module.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    _wrapped_names[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


class Wrapping:
    """Changes of global names for the time of one trace: `undo` takes them back."""

    def __init__(self, undo: ExitStack, functions: Iterable[Function]) -> None:
        self.undo = undo
        self.functions = {id(function): function for function in functions}
        self._seen: set[int] = set()

    def wrap_named(self) -> None:
        """Replace the functions that `wrap` names."""
        for (_, name), names in list(_wrapped_names.items()):
            function = names[name] if name in names else getattr(builtins, name)
            self._replace(names, name, function)

    def wrap_found(self, names: dict[str, Argument]) -> None:
        """Replace the functions of this trace where they are global names."""
        if id(names) in self._seen:
            return
        self._seen.add(id(names))
        for name, value in list(names.items()):
            if not name.startswith("_") and id(value) in self.functions:
                self._replace(names, name, value)

    def _replace(self, names: dict[str, Argument], name: str, function: Function) -> None:
        if name in names:
            self.undo.callback(names.__setitem__, name, names[name])
        else:
            self.undo.callback(names.pop, name)
        names[name] = make_wrapped(function)


def make_wrapped(function: Function) -> Callable[..., Argument]:
    """Return a function that records its calls with proxies."""

    @wraps(function)
    def call(*args: Argument, **kwargs: Argument) -> Argument:
        proxy = next((x for x in reversed(iterate_leaves((args, kwargs))) if isinstance(x, Proxy)), None)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return call


def compatibility(is_backward_compatible: bool) -> Callable[[Function], Function]:
    """Decorate a function without a change: PyTorch marks those so that stay as they are."""
    return lambda function: function

"""Tables of the functions that `__torch_function__` overrides, as `adjoint.overrides` gives them to programs."""

from __future__ import annotations

import inspect
from functools import wraps
from importlib import import_module

from adjoint.compat.fx.qualified_names import PACKAGE, public_functions, unwrap
from adjoint.compat.torch_function import is_tensor_method_or_property
from adjoint.core.runtime.package_name import display_name
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.tensor.torch_function import NEVER_DISPATCHED
from adjoint.core.typing import Function, Operand

__all__ = ["get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "resolve_name"]


def resolve_name(f: Operand) -> str | None:
    """Return the name by which programs call a function, such as "adjoint.nn.functional.relu", or None."""
    function = unwrap(f)
    if function in (public := public_functions()):
        return ".".join(filter(None, (display_name.package, *public[function][0])))
    name = getattr(function, "__qualname__", None)
    if name is None:
        return None
    is_method = is_tensor_method_or_property(f)
    return f"{display_name.package}.Tensor.{function.__name__}" if is_method else f"{function.__module__}.{name}"


def get_ignored_functions() -> set[Function]:
    """Return the public functions for which no override is asked."""
    return {function for function, names in public_functions().items() if names[0].name in NEVER_DISPATCHED}


def get_overridable_functions() -> dict[Operand, list[Function]]:
    """Return the functions for which overrides are asked, by the modules that have them, and Tensor's methods."""
    functions: dict[Operand, list[Function]] = {}
    ignored = get_ignored_functions()
    for function, names in public_functions().items():
        if function not in ignored:
            for module in dict.fromkeys(public.module for public in names):
                functions.setdefault(import_module(f"{PACKAGE}.{module}".rstrip(".")), []).append(function)
    methods = (getattr(Tensor, name) for name in dir(Tensor) if name[:1] != "_")
    functions[Tensor] = [method for method in methods if callable(method)]
    return functions


def get_testing_overrides() -> dict[Function, Function]:
    """Return, for each such function, one of the same signature that returns -1."""
    overridable = (function for functions in get_overridable_functions().values() for function in functions)
    return {function: _make_testing_override(function) for function in dict.fromkeys(overridable)}


def _make_testing_override(function: Function) -> Function:
    try:
        signature = inspect.signature(function)
    except ValueError:
        signature = inspect.signature(lambda *args, **kwargs: -1)

    @wraps(function)
    def override(*args: object, **kwargs: object) -> int:
        signature.bind(*args, **kwargs)
        return -1

    return override

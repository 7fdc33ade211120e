"""Parameter names, read from a function's code object; `inspect.signature` would slow the import by a fifth."""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS
from typing import Any, NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Parameters(NamedTuple):
    """Parameter names by kind, in order; a variadic `*xs` is the last positional one."""

    positional: tuple[str, ...]
    keyword: tuple[str, ...]
    variadic: bool


def with_parameters(wrapper: Function, names: tuple[str, ...]) -> Function:
    """Give a wrapper the parameter names that `parameters_of` returns for it."""
    vars(wrapper)["parameters"] = names
    return wrapper


def with_parameters_of(wrapper: Function, function: Callable[..., Any]) -> Function:
    """Give a wrapper the parameter names of the function that it wraps."""
    return with_parameters(wrapper, parameters_of(function).positional)


def parameters_of(function: Callable[..., Any]) -> Parameters:
    """Return the parameters of a plain function, or those that `with_parameters` gave to a wrapper."""
    given = getattr(function, "parameters", None)
    if given is not None:
        return Parameters(tuple(given), (), False)
    code = function.__code__
    count, names = code.co_argcount, code.co_varnames
    end = count + code.co_kwonlyargcount
    variadic = bool(code.co_flags & CO_VARARGS)
    return Parameters(names[:count] + (names[end : end + 1] if variadic else ()), names[count:end], variadic)

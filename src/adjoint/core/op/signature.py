"""Parameter names, read from a function's code object; `inspect.signature` would slow the import by a fifth."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from inspect import CO_VARARGS
from typing import NamedTuple, TypeVar

from adjoint.core.graph.source_location import library_files
from adjoint.core.runtime.explanation_slot import with_explanation
from adjoint.core.typing import Function, Operand

Wrapper = TypeVar("Wrapper", bound=Function)


class Parameters(NamedTuple):
    """Parameter names by kind, in order; a variadic `*xs` is the last positional one."""

    positional: tuple[str, ...]
    keyword: tuple[str, ...]
    variadic: bool


def with_parameters(wrapper: Wrapper, names: tuple[str, ...]) -> Wrapper:
    """Give a wrapper the parameter names that `parameters_of` returns for it."""
    vars(wrapper)["parameters"] = names
    return wrapper


def with_all_parameters_of(wrapper: Wrapper, function: Function) -> Wrapper:
    """Give a wrapper the parameters of the function that it wraps, keywords and defaults too."""
    vars(wrapper).update(parameters=parameters_of(function), __wrapped__=function)
    return wrapper


def with_parameters_of(wrapper: Wrapper, function: Function) -> Wrapper:
    """Give a wrapper the parameter names of the function that it wraps."""
    return with_parameters(wrapper, parameters_of(function).positional)


def check_keywords(kind: Operand, keywords: Mapping[str, object]) -> None:
    """Raise TypeError, as Python would, for keywords that the `__init__` of a class of the library does not take."""
    function = kind.__init__
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not library_files[code.co_filename] or code.co_flags & inspect.CO_VARKEYWORDS:
        return
    taken = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    for name in keywords:
        if name not in taken:
            message = f"{function.__qualname__}() got an unexpected keyword argument {name!r}"
            raise with_explanation(TypeError(message))


def parameters_of(function: Function) -> Parameters:
    """Return the parameters of a plain function, or those that `with_parameters` gave to a wrapper."""
    given = getattr(function, "parameters", None)
    if given is not None:
        return given if type(given) is Parameters else Parameters(tuple(given), (), False)
    code = function.__code__
    count, names = code.co_argcount, code.co_varnames
    end = count + code.co_kwonlyargcount
    variadic = bool(code.co_flags & CO_VARARGS)
    return Parameters(names[:count] + (names[end : end + 1] if variadic else ()), names[count:end], variadic)

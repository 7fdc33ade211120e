"""The names of a function's parameters, read from its code: `inspect.signature` would slow the import by a fifth."""

from __future__ import annotations

from inspect import CO_VARARGS
from typing import Any, NamedTuple


class Parameters(NamedTuple):
    """Names by kind, in order; a variadic `*xs` is the last of the positional ones."""

    positional: tuple[str, ...]
    keyword: tuple[str, ...]
    variadic: bool


def parameters_of(function: Any) -> Parameters:
    """The parameters of a plain function; a wrapper tells its own in an attribute `parameters`."""
    given = getattr(function, "parameters", None)
    if given is not None:
        return Parameters(tuple(given), (), False)
    code = function.__code__
    count, names = code.co_argcount, code.co_varnames
    end = count + code.co_kwonlyargcount
    variadic = bool(code.co_flags & CO_VARARGS)
    return Parameters(names[:count] + (names[end : end + 1] if variadic else ()), names[count:end], variadic)

"""The calls that a compiled step cannot repeat: what they do, told by the object called."""

from __future__ import annotations

import builtins
import datetime as dt
import io
import os
import random
import secrets
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, GeneratorType, MethodType
from typing import Any

import numpy as np

from adjoint.compiler.trace.frames.sources import find_class_entry
from adjoint.compiler.trace.frames.trace_rules import is_user_function
from adjoint.core.dtype.dtype import set_default_dtype
from adjoint.core.typing import Function

PRINTS = "prints"
ASKS = "waits for input"
OPENS = "opens a file"
CLOCK = "reads the clock"
WAITS = "waits"
DRAWS = "draws random numbers outside of adjoint"
LOGS = "writes to a log"
FILES = "reads or writes a file"
MAKES = "makes an identifier that is new each time"
SYSTEM = "acts on the operating system"
WARNS = "warns"
OS_FUNCTIONS = "listdir makedirs mkdir putenv remove rename replace rmdir stat system unlink unsetenv"

IMPURE_FUNCTIONS: dict[object, str] = {
    print: PRINTS,
    input: ASKS,
    open: OPENS,
    builtins.breakpoint: "stops in the debugger",
    os.urandom: DRAWS,
    os.getpid: "asks the operating system",
    dt.datetime.now: CLOCK,
    dt.datetime.utcnow: CLOCK,
    dt.datetime.today: CLOCK,
    dt.date.today: CLOCK,
    warnings.warn: WARNS,
}
IMPURE_FUNCTIONS |= {
    getattr(time, name): CLOCK
    for name in dir(time)
    if name in ("time", "perf_counter", "monotonic", "process_time", "thread_time", "localtime", "gmtime", "ctime")
    or name.endswith("_ns")
}
IMPURE_FUNCTIONS |= {time.strftime: CLOCK, time.sleep: WAITS}
IMPURE_FUNCTIONS |= {f: DRAWS for name in secrets.__all__ if isinstance(f := getattr(secrets, name), FunctionType)}
IMPURE_FUNCTIONS |= {getattr(os, name): SYSTEM for name in OS_FUNCTIONS.split()}
IMPURE_FUNCTIONS[threading.Thread.start] = "starts a thread"
IMPURE_FUNCTIONS[set_default_dtype] = "sets the type of all that is made later"
for _name in ("save", "savez", "savez_compressed", "savetxt", "load", "loadtxt", "genfromtxt", "fromfile", "memmap"):
    IMPURE_FUNCTIONS[getattr(np, _name)] = FILES

# Each method of these classes does it.
IMPURE_CLASSES: list[tuple[type, str]] = [(random.Random, DRAWS), (io.IOBase, FILES)]
HARMLESS_METHODS = {"getEffectiveLevel", "isEnabledFor", "getChild", "hasHandlers", "__class__", "fileno", "closed"}
HASHABLE_CALLABLE_TYPES: set[type] = {BuiltinFunctionType, FunctionType, MethodType, type(np.save)}  # have a hash

IMPURE_CODES: dict[CodeType, str] = {  # the same, for calls by the standard library on behalf of the user
    **{function.__code__: what for function, what in IMPURE_FUNCTIONS.items() if isinstance(function, FunctionType)},
    **{f.__code__: DRAWS for f in vars(random.Random).values() if isinstance(f, FunctionType) and f.__name__[0] != "_"},
}
FILES_WITH_IMPURE_CODES = {code.co_filename for code in IMPURE_CODES}


def describe_impurity(callee: Any, args: tuple[object, ...]) -> str | None:
    """Describe the side effect of calling `callee`, as in "calls print(), which prints"; None if there is none."""
    effect = find_effect(callee, args)
    if effect is None:
        return None
    kind = _find_impure_class(callee)
    name = _qualified_name(callee) if kind is None else f"{_qualified_name(kind)}.{callee.__name__}"
    return f"calls {name}(), which {effect}"


def find_effect(callee: Any, args: tuple[object, ...]) -> str | None:
    """The side effect of calling `callee`; None if there is none."""
    learn_imported_modules()
    kind = _find_impure_class(callee)
    return _known_effect(callee, args) if kind is None else dict(IMPURE_CLASSES)[kind]


def _find_impure_class(callee: Any) -> type | None:
    """The class whose methods have an effect, of a method that is bound to an object of it."""
    owner = getattr(callee, "__self__", None) if isinstance(callee, BuiltinFunctionType | MethodType) else None
    if owner is None or isinstance(owner, type) or callee.__name__ in HARMLESS_METHODS:
        return None
    return next((kind for kind, _ in IMPURE_CLASSES if isinstance(owner, kind)), None)


def learn_imported_modules() -> None:
    """Learn of the modules that are known, but not imported here: each takes milliseconds."""
    for name, learn in LEARNERS_BY_MODULE.items():
        if name in sys.modules:
            learn()


@cache
def _learn_logging() -> None:
    import logging

    names = ("critical", "debug", "error", "exception", "info", "log", "warning")
    functions = [getattr(logging, name) for name in names]
    IMPURE_FUNCTIONS.update(dict.fromkeys(functions, LOGS))
    IMPURE_CLASSES.extend(((logging.Logger, LOGS), (logging.LoggerAdapter, LOGS)))
    _learn_codes([*functions, logging.Logger.handle], LOGS)


@cache
def _learn_uuid() -> None:
    import uuid

    IMPURE_FUNCTIONS.update({uuid.uuid1: MAKES, uuid.uuid4: MAKES})
    _learn_codes([uuid.uuid1, uuid.uuid4], MAKES)


def _learn_codes(functions: Sequence[Function], what: str) -> None:
    IMPURE_CODES.update((function.__code__, what) for function in functions)
    FILES_WITH_IMPURE_CODES.update(function.__code__.co_filename for function in functions)


@cache
def _learn_numpy() -> None:
    random = np.random
    IMPURE_FUNCTIONS.update({random.default_rng: DRAWS, random.seed: DRAWS})
    IMPURE_FUNCTIONS[random.Generator] = "may advance a generator from before"
    seeded = (random.RandomState, random.SeedSequence, *random.BitGenerator.__subclasses__())
    IMPURE_FUNCTIONS.update(dict.fromkeys(seeded, DRAWS))
    IMPURE_CLASSES.extend((kind, DRAWS) for kind in (random.Generator, random.RandomState, random.BitGenerator))
    HASHABLE_CALLABLE_TYPES.add(type(random.seed))


def is_numpy_generator(value: object) -> bool:
    """True for a generator of NumPy's, whose module nobody has imported otherwise."""
    random = sys.modules.get("numpy.random")
    return random is not None and isinstance(value, (random.Generator, random.RandomState))


LEARNERS_BY_MODULE = {"logging": _learn_logging, "numpy.random": _learn_numpy, "uuid": _learn_uuid}


def is_suspended(value: object) -> bool:
    """True for an iterator whose position no code that is observed knows.

    So a generator, the iterator of a list, a zip, a file; a loader's iterator, and those of Python's own modules.
    """
    step = find_class_entry(type(value), "__next__")
    return isinstance(value, GeneratorType) or (callable(step) and not is_user_function(step))


def _known_effect(callee: Any, args: tuple[object, ...]) -> str | None:
    if type(callee) not in HASHABLE_CALLABLE_TYPES and type(callee) is not type:
        return None
    what = IMPURE_FUNCTIONS.get(callee)
    if what is CLOCK and args and callee in (time.localtime, time.gmtime, time.ctime):
        return None  # converts the time it is given
    if what is DRAWS and args and args[0] is not None and (callee.__name__ == "default_rng" or type(callee) is type):
        return None  # has its seed
    return what


def _qualified_name(thing: Function) -> str:
    module = getattr(thing, "__module__", None) or ""
    name = str(getattr(thing, "__qualname__", None) or type(thing).__name__)
    module = {"builtins": "", "_io": "io", "_random": "random", "posix": "os", "nt": "os"}.get(module, module)
    return f"{module}.{name}" if module else name

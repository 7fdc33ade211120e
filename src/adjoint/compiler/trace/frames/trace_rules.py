"""The code to observe: the user's, as opposed to that of Python, NumPy and this library, which is relied upon."""

from __future__ import annotations

import builtins
import functools
import os
import sys
from types import CodeType, FunctionType

import numpy as np

from adjoint.core.graph.source_location import PACKAGE
from adjoint.core.runtime.package_name import display_name

STDLIB_PATH = os.path.join(os.path.realpath(os.path.dirname(os.__file__)), "")  # sysconfig takes milliseconds
SITE_PACKAGES_NAMES = ("site-packages", "dist-packages")
TRUSTED_PATHS = (PACKAGE, os.path.join(os.path.dirname(os.path.abspath(np.__file__)), ""))
IMMUTABLE_TYPE_FLAG = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
# Modules of this library that are observed as the user's are: they keep numbers of their own, and decide by values; or
# their hooks set an attribute of the module that is called; and the step by which the observer is tried.
FOLLOWED_MODULES = frozenset((
    "adjoint.amp.grad_scaler", "adjoint.compiler.runtime.observer_self_test", "adjoint.nn.utils.pruning_methods",
    "adjoint.nn.utils.spectral_norm", "adjoint.nn.utils.weight_norm", "adjoint.optim.lbfgs",
    "adjoint.optim.line_search",
))  # fmt: skip
FOLLOWED_FILES = frozenset(os.path.join(PACKAGE, *name.split(".")[1:]) + ".py" for name in FOLLOWED_MODULES)
TRUSTED_PACKAGES = frozenset(("adjoint", "numpy", "llvmlite"))


trusted_files: set[str] = set()  # the files met so far that are not the user's


@functools.cache
def is_user_file(file: str) -> bool:
    """True unless the file belongs to Python, NumPy, llvmlite or this library. A package of others is the user's."""
    found = _is_user_path(file)
    if not found:
        trusted_files.add(file)
    return found


def _is_user_path(file: str) -> bool:
    if file in FOLLOWED_FILES:
        return True
    if file.startswith(("<frozen ", "<__array_function__")) or file.startswith(TRUSTED_PATHS):
        return False
    if f"{os.sep}llvmlite{os.sep}" in file:
        return False
    return not is_standard_file(file)


@functools.cache
def is_standard_file(file: str) -> bool:
    """True if the file belongs to Python's library."""
    path = os.path.realpath(file) if os.path.isabs(file) else file
    return path.startswith(STDLIB_PATH) and path[len(STDLIB_PATH) :].split(os.sep, 1)[0] not in SITE_PACKAGES_NAMES


def is_user_code(code: CodeType) -> bool:
    """True for code whose running is observed."""
    return is_user_file(code.co_filename)


def is_user_namespace(namespace: dict[str, object]) -> bool:
    """False for the globals of code that was generated for a class of this library, or for a named tuple."""
    name = str(namespace.get("__name__", ""))
    return name.partition(".")[0] not in TRUSTED_PACKAGES and not name.startswith("namedtuple_")


def is_user_function(function: object) -> bool:
    """True for a function written in Python by the user."""
    if not isinstance(function, FunctionType) or not is_user_file(function.__code__.co_filename):
        return False
    return function.__code__.co_filename[:1] != "<" or is_user_namespace(function.__globals__)


def is_user_class(kind: type) -> bool:
    """True for a class of the user's: `exec` and `python -m cProfile` give it a name that is not its module's."""
    name = getattr(kind, "__module__", None)
    if not isinstance(name, str) or _is_user_name(name):
        return True
    if is_immutable_class(kind) or "<locals>" in kind.__qualname__:
        return False
    return name == "builtins" and getattr(builtins, kind.__name__, None) is not kind


def is_immutable_class(kind: object) -> bool:
    """True for a class whose attributes nobody can set: one of C code."""
    return isinstance(kind, type) and bool(kind.__flags__ & IMMUTABLE_TYPE_FLAG)


def is_own_class(kind: type) -> bool:
    """True for a class of this library."""
    return str(getattr(kind, "__module__", "")).partition(".")[0] in {"adjoint", display_name.package}


def _is_user_name(name: str) -> bool:
    if name == "__main__" or name in FOLLOWED_MODULES:  # a profiler that runs the user's script may be `__main__`
        return True
    if name.partition(".")[0] in TRUSTED_PACKAGES or name in sys.builtin_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    if isinstance(file, str):
        return is_user_file(file)
    return name.partition(".")[0] not in sys.stdlib_module_names

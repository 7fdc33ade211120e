"""Explain a function of a script: run the script until it has called the function, then print its program."""

from __future__ import annotations

import ast
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from types import ModuleType

from adjoint.compiler.compile import CompiledFunction
from adjoint.compiler.compile import compile as compile_step

CALLS_BEFORE_STOP = 2  # the first call of a training step makes gradients and moments: the second shows what is usual
DECORATOR = "__adjoint_compile__"


class ExplainError(Exception):
    """A target that cannot be explained; the message says why."""


class _EnoughCalls(BaseException):
    """Ends the script when its function has been called often enough."""


def explain_script(target: str, arguments: Sequence[str]) -> str:
    """Run `script.py` with these arguments and return what `explain()` says of `name`, for a target `script.py:name`.

    `name` is a function or method of the script, compiled or not, or a variable that holds a compiled function. The
    script runs as `__main__` until `name` has been called twice, or to its end. What it prints goes to standard error.

    Raises: ExplainError if there is no such script or name, or if nothing calls it; whatever the script raises.
    """
    path, colon, name = target.rpartition(":")
    if not colon or not name.replace(".", "_").isidentifier():
        raise ExplainError(f"expected script.py:function, not {target!r}")
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        raise ExplainError(f"can't open file {path!r}: {error.strerror}") from None
    tree = ast.parse(source, path)
    definitions = list(_find_definitions(tree.body, name.split(".")))
    for definition in definitions:
        definition.decorator_list.insert(0, ast.Name(DECORATOR, ast.Load(), lineno=definition.lineno, col_offset=0))
    module = ModuleType("__main__")
    watcher = _CallWatcher(lambda: vars(module).get(name))
    vars(module).update({"__file__": os.path.abspath(path), DECORATOR: watcher.compile_and_watch})
    sys.modules["__main__"] = module
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    with redirect_stdout(sys.stderr), watcher:
        exec(compile(tree, os.path.abspath(path), "exec"), vars(module))
    if watcher.explained is not None:
        return str(watcher.explained.explain())
    if definitions or name in vars(module):
        raise ExplainError(f"{path} does not call {name!r} with these arguments, or not as a compiled function")
    raise ExplainError(f"{path} has no function {name!r}")


def _find_definitions(body: Sequence[ast.stmt], names: Sequence[str]) -> list[ast.FunctionDef]:
    """Find the definitions of `name`, or of `Class.name`, at any depth outside of other classes."""
    found: list[ast.FunctionDef] = []
    for node in body:
        if isinstance(node, ast.FunctionDef) and [node.name] == list(names):
            found.append(node)
        elif isinstance(node, ast.ClassDef):
            if node.name == names[0] and len(names) > 1:
                found += _find_definitions(node.body, names[1:])
        else:
            inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            found += _find_definitions(inner, names)
    return found


class _CallWatcher:
    """Counts the calls of one compiled function: one that it compiled, or the one that a variable holds."""

    def __init__(self, find_variable: Callable[[], object]) -> None:
        self.find_variable = find_variable
        self.explained: CompiledFunction | None = None
        self.count = 0
        self.watched: list[object] = []

    def compile_and_watch(self, function: Callable[..., object]) -> object:
        """Return the function compiled, if the script has not compiled it."""
        compiled = function if type(function) is CompiledFunction else compile_step(function)
        self.watched.append(compiled)
        return compiled

    def __enter__(self) -> None:
        self.call = call = CompiledFunction.__call__

        def count_call(compiled: CompiledFunction, *args: object, **kwargs: object) -> object:
            result = call(compiled, *args, **kwargs)
            if (compiled in self.watched or self.find_variable() is compiled) and compiled.compilations:
                self.explained, self.count = compiled, self.count + 1
                if self.count == CALLS_BEFORE_STOP:
                    raise _EnoughCalls
            return result

        type.__setattr__(CompiledFunction, "__call__", count_call)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        type.__setattr__(CompiledFunction, "__call__", self.call)
        return kind is not None and issubclass(kind, (_EnoughCalls, SystemExit))

"""`adjoint.jit`: PyTorch's compiler of a subset of Python. Functions and modules stay plain Python here."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from adjoint.compat.stubs.futures import Future
from adjoint.core.typing import Function
from adjoint.nn.module.module import Module

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction",
    "ScriptModule", "annotate", "export", "fork", "freeze", "fuser", "ignore", "interface", "is_scripting",
    "is_tracing", "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution",
    "save", "script", "script_if_tracing", "script_method", "set_fusion_strategy", "trace", "trace_module", "unused",
    "wait",
]  # fmt: skip

_isinstance = isinstance
_noted: set[str] = set()


class ScriptModule(Module):
    """Base of modules whose methods PyTorch compiles."""


class RecursiveScriptModule(ScriptModule):
    """Module that PyTorch has compiled: nothing here is one."""


class ScriptFunction:
    """Function that PyTorch has compiled: nothing here is one."""


class TracerWarning(Warning):
    """Warning of PyTorch's tracer; nothing here gives it."""


class Error(RuntimeError):
    """Error of compiled code; nothing here raises it."""


def script(obj: Any, *args: object, **kwargs: object) -> Any:
    """Return `obj` itself; the first call warns."""
    _note("script")
    return obj


def trace(func: Any, *args: object, **kwargs: object) -> Any:
    """Return `func` itself; the first call warns."""
    _note("trace")
    return func


def trace_module(mod: Any, *args: object, **kwargs: object) -> Any:
    """Return the module itself; the first call warns."""
    _note("trace_module")
    return mod


def freeze(mod: Any, *args: object, **kwargs: object) -> Any:
    """Return the module itself. Raises RuntimeError for a module in training mode."""
    if mod.training:
        raise RuntimeError(
            "Freezing module in training mode is not yet supported. Please call .eval() on your module before freezing."
        )
    return mod


def optimize_for_inference(mod: Any, other_methods: object = None) -> Any:
    """Return the module itself."""
    return mod


def ignore(drop: Any = False, **kwargs: object) -> Any:
    """Decorate a function without a change, with or without arguments."""
    return drop if callable(drop) else unused


def unused(fn: Any) -> Any:
    """Return the function itself."""
    return fn


export = interface = script_method = script_if_tracing = unused
_copy_to_script_wrapper = _overload = _overload_method = _script_if_tracing = unused


def annotate(the_type: object, the_value: Any) -> Any:
    """Return the value."""
    return the_value


def Attribute(value: Any, type: object) -> Any:
    """Return the value."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return Python's `isinstance`; a generic type such as `list[int]` counts as its class."""
    kinds = target_type if _isinstance(target_type, tuple) else (target_type,)
    return _isinstance(obj, tuple(getattr(kind, "__origin__", None) or kind for kind in kinds))


def is_scripting() -> bool:
    """Return False: the Python code itself runs."""
    return False


def is_tracing() -> bool:
    """Return False: the Python code itself runs."""
    return False


def fork(func: Function, *args: Any, **kwargs: Any) -> Future[Any]:
    """Run the function at once; `wait` returns its result."""
    done: Future[Any] = Future()
    done.set_result(func(*args, **kwargs))
    return done


def wait(future: Future[Any]) -> Any:
    """Return the result of `fork`."""
    return future.wait()


def set_fusion_strategy(strategy: object) -> list[Any]:
    """Do nothing: `adjoint.compile` decides by itself."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Do nothing: oneDNN is not used."""


def onednn_fusion_enabled() -> bool:
    """Return False: oneDNN is not used."""
    return False


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Return a context that changes nothing."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Return a context that changes nothing."""
    yield


class CompilationUnit:
    """Source text of PyTorch's language, which raises NotImplementedError."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        _refuse("CompilationUnit")


def save(m: object, f: str | os.PathLike[str], _extra_files: object = None) -> NoReturn:
    """Raise NotImplementedError: save the `state_dict` instead."""
    _refuse("save")


def load(
    f: object, map_location: object = None, _extra_files: object = None, _restore_shapes: bool = False
) -> NoReturn:
    """Raise NotImplementedError: load a `state_dict` instead."""
    _refuse("load")


def _note(name: str) -> None:
    if not _noted:
        _noted.add(name)
        warnings.warn(
            f"adjoint.jit.{name}: functions and modules stay plain Python; adjoint.compile makes native code of a step",
            UserWarning,
            stacklevel=3,
        )


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"adjoint.jit.{name}: there are no compiled programs of PyTorch's kind here; keep the module's code, and save "
        "and load its state_dict"
    )

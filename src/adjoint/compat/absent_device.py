"""Functions of an absent device: questions have answers, orders and handles raise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Self

from adjoint.compat.module_alias import MissingClass
from adjoint.core.dtype.device import DeviceError
from adjoint.core.typing import Function


def constant_functions(module: str, answers: Mapping[str, Any]) -> dict[str, Function]:
    """Return a function for each name that returns its answer whatever it is given; lists and dicts are copied."""
    return {name: _constant_function(module, name, value) for name, value in answers.items()}


def raising_functions(module: str, names: str, kind: str) -> dict[str, Callable[..., NoReturn]]:
    """Return a function for each name that raises DeviceError: there is no device of this kind."""
    return {name: _raising_function(module, name, kind) for name in names.split()}


def absent_classes(module: str, names: str, kind: str) -> dict[str, type]:
    """Return a class without instances for each name: there is no device of this kind."""
    about = {"__module__": module, "reason": f"there is no {kind} device: it computes on the CPU only"}
    return {name: MissingClass(name, (), dict(about)) for name in names.split()}


class NoStream:
    """Context of a stream or a device that is absent: its block runs unchanged."""

    def __init__(self, device: Any = None) -> None:
        self.device = device

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def _constant_function(module: str, name: str, value: Any) -> Function:
    def answer(*args: object, **kwargs: object) -> Any:
        return type(value)(value) if isinstance(value, (list, dict)) else value

    return _set_identity(answer, module, name, f"{value!r}: there is no such device.")


def _raising_function(module: str, name: str, kind: str) -> Callable[..., NoReturn]:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise DeviceError(f"{module}.{name}: there is no {kind} device: adjoint computes on the CPU only")

    return _set_identity(refuse, module, name, f"Raises DeviceError: there is no {kind} device.")


def _set_identity(function: Function, module: str, name: str, doc: str) -> Function:
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = doc
    return function

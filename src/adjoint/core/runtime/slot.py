"""Slots for calls upward: a lower layer calls a slot that a higher layer fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


class Slot(Generic[Function]):
    """A place for a function that a higher layer provides. `slot.call(…)` calls it, or the default.

    The module that needs the call declares the slot; one module fills it when it is loaded. A slot without a default
    is filled once the package is imported.
    """

    __slots__ = ("call", "default", "name")

    def __init__(self, name: str, default: Function | None = None) -> None:
        self.name, self.default = name, default
        self.call: Function = cast("Function", self._refuse) if default is None else default
        SLOTS.append(self)

    def fill(self, function: Function) -> Function:
        """Put a function in, and return it, so that this can decorate its definition."""
        self.call = function
        return function

    def empty(self) -> None:
        """Remove the function: the default is called again."""
        self.call = cast("Function", self._refuse) if self.default is None else self.default

    def is_filled(self) -> bool:
        """Return whether a function other than the default was put in."""
        return self.call != (self._refuse if self.default is None else self.default)

    def _refuse(self, *arguments: object, **options: object) -> NoReturn:
        raise RuntimeError(f"nothing fills the slot {self.name}: import adjoint")

    def __repr__(self) -> str:
        return f"<slot {self.name}: {self.call.__module__ if self.is_filled() else 'empty'}>"


SLOTS: list[Slot[Any]] = []  # all there are, in the order in which their modules are loaded

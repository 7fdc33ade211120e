"""Calls upward: a slot below is filled with a function from above, which knows how to do what the slot is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


class Slot(Generic[Function]):
    """A place for a function that a higher layer provides: `slot.call(…)` is what is in it, or its default.

    The module that needs the call declares the slot; the one module that knows how to do it fills the slot when it is
    loaded, with a function. A slot without a default is filled once the package is imported.
    """

    __slots__ = ("call", "default", "name")

    def __init__(self, name: str, default: Function | None = None) -> None:
        self.name, self.default = name, default
        self.call: Function = cast("Function", self._refuse) if default is None else default
        SLOTS.append(self)

    def fill(self, function: Function) -> Function:
        """Put a function in. Returns it, so that this can decorate its definition."""
        self.call = function
        return function

    def empty(self) -> None:
        """Take out what was put in: the default is called again."""
        self.call = cast("Function", self._refuse) if self.default is None else self.default

    def is_filled(self) -> bool:
        """Return whether a function was put in: one other than the default."""
        return self.call != (self._refuse if self.default is None else self.default)

    def _refuse(self, *arguments: Any, **options: Any) -> NoReturn:
        raise RuntimeError(f"nothing fills the slot {self.name}: import adjoint")

    def __repr__(self) -> str:
        return f"<slot {self.name}: {self.call.__module__ if self.is_filled() else 'empty'}>"


SLOTS: list[Slot[Any]] = []  # all there are, in the order in which their modules are loaded

"""Attributes of classes that are replaced while a program is watched, and restored afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from adjoint.core.typing import Function, Operand


class Patches:
    """Replaced attributes with their former values."""

    def __init__(self) -> None:
        self.replaced: list[tuple[Operand, str, object]] = []

    def replace(self, owner: Operand, name: str, make: Callable[[Operand], object]) -> None:
        """Replace an attribute where the class, or the base that it comes from, has it."""
        for kind in owner.__mro__:
            if name in vars(kind):
                held = vars(kind)[name]
                self.replaced.append((kind, name, held))
                setattr(kind, name, make(held))
                break

    def restore(self) -> None:
        """Give all attributes their former values."""
        while self.replaced:
            owner, name, held = self.replaced.pop()
            setattr(owner, name, held)


def call_first(notice: Function) -> Callable[[Function], Function]:
    """Return a maker of methods that call `notice(self, *arguments)` ahead of the method they replace."""

    def make(method: Function) -> Function:
        def call(self: Operand, *args: object, **kwargs: object) -> Operand:
            notice(self, *args, **kwargs)
            return method(self, *args, **kwargs)

        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(call, name, getattr(method, name))
        return call

    return make


def classes_below(kind: type[Operand]) -> Iterator[type[Operand]]:
    """Yield a class and all its subclasses."""
    yield kind
    for below in kind.__subclasses__():
        yield from classes_below(below)

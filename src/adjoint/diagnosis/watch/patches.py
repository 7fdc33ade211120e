"""Replaced attributes of classes and modules, which all get their former values again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType

from adjoint.core.typing import Function, Operand


class Patches:
    """Replaced attributes with their former values."""

    def __init__(self) -> None:
        self.replaced: list[tuple[Operand, str, object]] = []

    def replace(self, owner: Operand, name: str, make: Callable[[Operand], object]) -> None:
        """Replace an attribute of a module, or of a class where it, or the base that it comes from, has it."""
        if isinstance(owner, ModuleType):  # its `__dict__` would import all lazy names
            kind, held = owner, getattr(owner, name)
        else:
            getattr(owner, name)  # one that is found late takes its place
            kind = next(kind for kind in owner.__mro__ if name in vars(kind))
            held = vars(kind)[name]
        made = make(held)
        self.replaced.append((kind, name, held))
        for each in holders_of(kind, name, held):
            setattr(each, name, made)

    def restore(self) -> None:
        """Give all attributes their former values."""
        while self.replaced:
            owner, name, held = self.replaced.pop()
            made = getattr(owner, name) if isinstance(owner, ModuleType) else vars(owner)[name]
            for each in holders_of(owner, name, made):
                setattr(each, name, held)


def holders_of(owner: Operand, name: str, value: object) -> list[Operand]:
    """Return the owner of an attribute, and the module `torch` of a program that has the same one from it."""
    namesake = sys.modules.get("torch") if isinstance(owner, ModuleType) else None
    return [owner] if namesake is None or getattr(namesake, name, None) is not value else [owner, namesake]


def call_first(notice: Function) -> Callable[[Function], Function]:
    """Return a maker of methods that call `notice(self, *arguments)` ahead of the method they replace."""

    def make(method: Function) -> Function:
        def call(*args: object, **kwargs: object) -> Operand:
            notice(*args, **kwargs)
            return method(*args, **kwargs)

        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(call, name, getattr(method, name))
        return call

    return make


def classes_below(kind: type[Operand]) -> Iterator[type[Operand]]:
    """Yield a class and all its subclasses."""
    yield kind
    for below in kind.__subclasses__():
        yield from classes_below(below)

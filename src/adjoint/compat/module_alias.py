"""Modules without files: aliases of other modules under PyTorch's name, and absent parts of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn, cast

from adjoint.core.runtime.lazy_import import names_of


class AliasModule(ModuleType):
    """Module whose names are those of other modules.

    `homes` are the full names of these modules, searched in order; `renames` maps a name to what it is called there.
    """

    def __init__(self, name: str, homes: Sequence[str], renames: dict[str, str]) -> None:
        super().__init__(name, f"PyTorch's name of {', '.join(homes)}.")
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__: list[str] = []
        self._homes, self._renames = homes, renames
        names_of(self)["__getattr__"] = self.find

    def all_names(self) -> dict[str, object]:
        """Return all names with their values, for programs that look through `vars(module)`."""
        held = names_of(self)
        for name in dir(self):
            if name not in held and hasattr(self, name):
                held[name] = getattr(self, name)
        return held

    __dict__ = cast("Any", property(all_names))

    def find(self, name: str) -> Any:
        """Return what the first home that has it calls `name`. Raises AttributeError."""
        if not (name.startswith("__") and name.endswith("__")):
            for home in map(import_module, self._homes):
                value = getattr(home, self._renames.get(name, name), self)
                if value is not self:
                    setattr(self, name, value)
                    return value
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        homes = (names_of(import_module(home)) for home in self._homes)
        return sorted({*self._renames, *(name for home in homes for name in home if not name.startswith("_"))})


class AbsentModule(ModuleType):
    """Absent part of PyTorch. Its names can be imported and asked for their type; using one raises.

    The names in `decorators` return the function that they decorate; those in `predicates`, and `is_available`, return
    False.
    """

    def __init__(self, name: str, reason: str, decorators: str = "", predicates: str = "") -> None:
        super().__init__(name, f"Not part of adjoint: {reason}.")
        for decorator in decorators.split():
            setattr(self, decorator, _decorate)
        for predicate in ("is_available", *predicates.split()):
            setattr(self, predicate, lambda *args, **kwargs: False)
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__: list[str] = []
        self.reason = reason
        vars(self)["__getattr__"] = self.find

    def find(self, name: str) -> Any:
        """Return the class without instances of this name. Raises AttributeError for names that Python asks for."""
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}: {self.reason}")
        value = MissingClass(name, (), {"__module__": self.__name__, "reason": self.reason})
        setattr(self, name, value)
        return value


class MissingClass(type):
    """Metaclass of absent names, which are classes without instances."""

    reason: str

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(f"{cls.__module__}.{cls.__name__} is not part of adjoint: {cls.reason}")


def _decorate(*args: Any, **kwargs: object) -> Any:
    """Return the function, or a decorator where something else is given."""
    return args[0] if len(args) == 1 and callable(args[0]) else lambda function: function

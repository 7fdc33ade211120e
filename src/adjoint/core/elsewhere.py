"""Modules that are no files: PyTorch's address of what is kept elsewhere, and parts of PyTorch that are not here.

They are put among the imported modules at once, and look for nothing until a name is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from adjoint.core.later import names_of

# What Absent is told of some parts beside the reason.
MARKS = {
    "elastic.multiprocessing.errors": "record", "fx": "wrap", "onnx": "register_custom_op_symbolic",
    "onnx.symbolic_helper": "parse_args",
}  # fmt: skip

NO = {"_subclasses.fake_tensor": "is_fake", "onnx": "is_in_onnx_export"}


class Elsewhere(ModuleType):
    """A module whose names are those of other modules.

    `homes` are these, and `name=other` for a name that is called otherwise there.
    """

    def __init__(self, name: str, homes: str) -> None:
        pairs = dict(word.split("=") for word in homes.split() if "=" in word)
        homes = " ".join(word for word in homes.split() if "=" not in word)
        super().__init__(name, f"Where programs written for PyTorch may look for what is in {homes}.")
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__: list[str] = []
        self._homes, self._names = homes.split(), pairs
        vars(self)["__getattr__"] = self.find

    def find(self, name: str) -> Any:
        """What the first of the homes has that has it. Raises AttributeError."""
        if not (name.startswith("__") and name.endswith("__")):
            for home in map(import_module, self._homes):
                found = getattr(home, self._names.get(name, name), self)
                if found is not self:
                    setattr(self, name, found)
                    return found
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        homes = (names_of(import_module(home)) for home in self._homes)
        return sorted({*self._names, *(name for home in homes for name in home if not name.startswith("_"))})


class Absent(ModuleType):
    """A part of PyTorch that is not here. Its names can be imported and asked for their kind; using one raises.

    The names in `marks` only mark a function for it, which stays as it is; those in `no`, and is_available, ask, and
    are told False.
    """

    def __init__(self, name: str, reason: str, marks: str = "", no: str = "") -> None:
        super().__init__(name, f"Not part of adjoint: {reason}.")
        for mark in marks.split():
            setattr(self, mark, _mark)
        for question in ("is_available", *no.split()):
            setattr(self, question, _no)
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__: list[str] = []
        self.reason = reason
        vars(self)["__getattr__"] = self.find

    def find(self, name: str) -> Any:
        """The class without instances of this name. Raises AttributeError for one that Python itself asks for."""
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}: {self.reason}")
        found = Missing(name, (), {"__module__": self.__name__, "reason": self.reason})
        setattr(self, name, found)
        return found


class Missing(type):
    """The class of names that are not here: each is a class without instances."""

    reason: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{cls.__module__}.{cls.__name__} is not part of adjoint: {cls.reason}")


def place(package: str, elsewhere: Mapping[str, str], absent: Mapping[str, str] | None = None) -> None:
    """Put modules where `import` finds them, and into the packages that they are parts of.

    `elsewhere` tells by name in which modules to look, `absent` why there is nothing.
    """
    found: list[ModuleType] = [Elsewhere(f"{package}.{name}", homes) for name, homes in elsewhere.items()]
    found += [
        Absent(f"{package}.{name}", reason, MARKS.get(name, ""), NO.get(name, ""))
        for name, reason in (absent or {}).items()
    ]
    for module in found:
        sys.modules[module.__name__] = module
        parent, _, name = module.__name__.rpartition(".")
        setattr(sys.modules[parent], name, module)
        names_of(sys.modules[parent]).setdefault("__path__", [])  # what has parts is a package


def _mark(*args: Any, **kwargs: Any) -> Any:
    """The function, or a decorator where something else is given."""
    return args[0] if len(args) == 1 and callable(args[0]) else lambda function: function


def _no(*args: Any, **kwargs: Any) -> bool:
    """False: that part of PyTorch is not here."""
    return False

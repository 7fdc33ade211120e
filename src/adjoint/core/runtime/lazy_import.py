"""Lazy names of a package (PEP 562): a module is imported when one of its names is first read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from adjoint.core.runtime.gc_pause import gc_paused
from adjoint.core.runtime.signal_handlers import handlers_deferred
from adjoint.core.runtime.slot import Slot

_MODULE_DICT = vars(ModuleType)["__dict__"]
# The name that a module has now, for one that a file or a program may call by an older name.
module_name_slot: Slot[Callable[[str], str]] = Slot("module_name", lambda name: name)


class LazyModule(ModuleType):
    """A module with lazy names; a program that reads `__dict__` gets all of them."""

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """All names with their values, lazy ones included."""
        names = names_of(self)
        for name in names["__dir__"]():
            getattr(self, name)
        return names


@contextmanager
def importing() -> Iterator[None]:
    """A block that imports modules when they are needed: without collections, and no handler finds half a module."""
    with handlers_deferred(), gc_paused():
        yield


def names_of(module: ModuleType) -> dict[str, Any]:
    """Return the names that a module has at present."""
    return _MODULE_DICT.__get__(module)


def attach_lazy_names(
    module: str, homes: Mapping[str, str], home: str = "", parts: str = ""
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of `module`.

    `homes` tells the names that a module of the package `home` gives, by default of `module` itself; `parts` are
    modules of that package which are names themselves.
    """
    home = home or module
    sources = {name: f"{home}.{file}" for file, names in homes.items() for name in names.split()}
    sys.modules[module].__class__ = LazyModule
    own = names_of(sys.modules[module])
    modules = {*parts.split(), *(homes if home == module else ())}

    def find(name: str) -> Any:
        if name not in sources and name not in modules:
            from adjoint.core.runtime.similar_names import missing_name_error  # the package is imported without it

            raise missing_name_error(module, name, names)
        with importing():
            found = import_module(sources.get(name) or f"{home}.{name}")
        own[name] = found = getattr(found, name) if name in sources else found
        return found

    def names() -> list[str]:
        return sorted({*own, *sources, *parts.split()})

    return sorted([*sources, *parts.split()]), find, names

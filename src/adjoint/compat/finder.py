"""Finder that serves `compat.namespace`: `import adjoint.nn.utils.rnn` and `adjoint.nn.utils.rnn` find its rows.

Python asks it before it looks for files. A row's module is imported when it is first asked for. A package of which rows
are parts, such as `adjoint.nn`, finds them as attributes too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, cast

from adjoint.compat.module_alias import AbsentModule, AliasModule
from adjoint.compat.namespace import (
    ABSENT,
    DECORATORS,
    DISPATCHING_IMPLEMENTATIONS,
    DISPATCHING_IMPORTERS,
    DISPATCHING_NAMESPACES,
    MODULES,
    PREDICATES,
)
from adjoint.compat.namespace import NAMES as PYTORCH_NAMES
from adjoint.compat.renamed_modules import FOLDERS, FUNCTIONS, RENAMED
from adjoint.core.runtime.lazy_import import module_name_slot, names_of
from adjoint.core.tensor.torch_function import DispatchScope, dispatch_scope_slot

PACKAGE = __name__.partition(".")[0]
NAMES = PYTORCH_NAMES | FUNCTIONS
ROWS = {*MODULES, *RENAMED, *ABSENT}
PARENTS = {name.rpartition(".")[0] for name in (*ROWS, *NAMES)} - {""} | {*FOLDERS}
PACKAGES: set[str] = set()  # modules with rows below
for _row in ROWS:
    while (_row := _row.rpartition(".")[0]) and _row not in PACKAGES:
        PACKAGES.add(_row)
CHILDREN: dict[str, set[str]] = {}  # what a module lists: PyTorch's names directly below it; those of 0.1 are hidden
for _row in (*MODULES, *ABSENT, *NAMES):
    _parent, _, _name = _row.rpartition(".")
    CHILDREN.setdefault(_parent, set()).add(_name)


class NamespaceFinder:
    """Finder of the table's modules, which also lets packages that are files find their rows.

    It does not inherit from `importlib.abc.MetaPathFinder`, whose import would cost every program some thirty modules.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        name = fullname[len(PACKAGE) + 1 :]
        if name in ROWS:
            return ModuleSpec(fullname, cast("Any", RowLoader(name)), is_package=True)
        if name not in PARENTS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            _extend_after_load(spec.loader, name)
        return spec


class RowLoader:
    """Loader of a row's module."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        made = _make_module(self.name)
        if self.name in PARENTS:
            add_rows(made, self.name)
        sys.modules[module.__name__] = made  # the import system takes what stands here now


def install_namespace() -> None:
    """Serve the table from now on."""
    sys.meta_path.insert(0, NamespaceFinder())
    module_name_slot.fill(current_module_name)
    dispatch_scope_slot.fill(dispatch_scope)
    for name in PARENTS:  # those that have been imported before
        if (module := sys.modules.get(f"{PACKAGE}.{name}")) is not None:
            add_rows(module, name)


def find_name(name: str) -> Any:
    """Return what the table has under a dotted name; None where it has nothing."""
    if name in NAMES:
        module, _, attribute = NAMES[name].partition(":")
        return getattr(import_module(f"{PACKAGE}.{module}"), attribute)
    return import_module(f"{PACKAGE}.{name}") if name in ROWS else None


def current_module_name(fullname: str) -> str:
    """Return what a module is called now that version 0.1 called `fullname`."""
    name = fullname.removeprefix(f"{PACKAGE}.")
    home = RENAMED.get(name) or FOLDERS.get(name)
    return fullname if home is None else f"{PACKAGE}.{home.split()[0]}"


def dispatch_scope() -> DispatchScope:
    """Return the modules whose functions ask for overrides."""
    return DispatchScope(
        {PACKAGE: ""} | {f"{PACKAGE}.{name}": prefix for name, prefix in DISPATCHING_NAMESPACES.items()},
        tuple(f"{PACKAGE}.{name}" for name in DISPATCHING_IMPLEMENTATIONS),
        tuple(f"{PACKAGE}.{name}" for name in DISPATCHING_IMPORTERS),
    )


def names_below(name: str) -> list[str]:
    """Return the names that the table has directly below a module, "" for the package."""
    return sorted(CHILDREN.get(name, ()))


def add_rows(module: ModuleType, name: str) -> None:
    """Let `module`, which the table calls `name`, find its rows as attributes."""
    names = names_of(module)
    if name in PACKAGES:
        names.setdefault("__path__", [])  # a module with modules below it is a package
    found_before: Callable[[str], Any] | None = names.get("__getattr__")

    def find(attribute: str) -> Any:
        row = f"{name}.{attribute}"
        if row in ROWS or row in NAMES:
            names[attribute] = value = find_name(row)
            return value
        if name in FOLDERS and not attribute.startswith("__") and PathFinder.find_spec(row, module.__path__) is None:
            homes = (import_module(f"{PACKAGE}.{home}") for home in FOLDERS[name].split())
            value = next((value for home in homes if (value := getattr(home, attribute, None)) is not None), None)
            if value is not None:
                return value
        if found_before is not None:
            return found_before(attribute)
        raise AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")

    dir_before: Callable[[], list[str]] = names.get("__dir__", lambda: list(names))
    names["__getattr__"] = find
    if "__all__" in names:
        public = {part for part in names_below(name) if f"{name}.{part}" in NAMES and not part.startswith("_")}
        names["__all__"] = sorted({*names["__all__"], *public})
    names["__dir__"] = lambda: sorted({*dir_before(), *names_below(name)})


def _make_module(name: str) -> ModuleType:
    """Return the module of a row: the one that it names, or a new one that has the names of several."""
    fullname = f"{PACKAGE}.{name}"
    if name in ABSENT:
        return AbsentModule(fullname, ABSENT[name], DECORATORS.get(name, ""), PREDICATES.get(name, ""))
    words = (MODULES.get(name) or RENAMED[name]).split()
    homes = [f"{PACKAGE}.{word}".removesuffix(".__init__") for word in words if "=" not in word]
    if len(words) == 1:
        home, _, value = homes[0].partition(":")
        return getattr(import_module(home), value) if value else import_module(home)
    return AliasModule(fullname, homes, dict(word.split("=") for word in words if "=" in word))


def _extend_after_load(loader: Any, name: str) -> None:
    """Let the module that `loader` makes find its rows, once it has been executed."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        add_rows(module, name)

    loader.exec_module = exec_module

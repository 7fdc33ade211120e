"""The import hook that makes `import torch` mean adjoint: a finder of `torch` and its submodules, before all others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution
from types import ModuleType
from typing import Any

from adjoint.compat.module_alias import AbsentModule, AliasModule
from adjoint.compat.run.foreign_torch_function import watch_class_statements
from adjoint.compat.run.missing_names import (
    is_adjoint_module,
    missing_module,
    missing_name,
    report_as_torch,
    torch_name,
)
from adjoint.compat.run.version import VERSION
from adjoint.core.dtype.device import device
from adjoint.core.dtype.dtype import dtype
from adjoint.core.runtime.package_name import display_name
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor

# Parts of adjoint whose names mean something else in PyTorch, or nothing.
PARTS_NOT_IN_TORCH = frozenset({"array_api", "core", "data", "functions", "interop", "ops", "run"})
# classes that programs print, and ask for their module
RENAMED_CLASSES: tuple[type, ...] = (Tensor, Size, dtype, device)


def stand_in(doctor: bool = False) -> None:
    """Let `import torch` mean adjoint from now on, in this process; a second call does nothing.

    PyTorch may be installed: it is not looked at. Raises RuntimeError where it has been imported before. `doctor`:
    watch the training steps from now on, and report at the end of the process what is silently wrong with them.
    """
    if doctor:
        from adjoint.diagnosis.doctor import watch_until_exit

        watch_until_exit()
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    if "torch" in sys.modules:
        raise RuntimeError(
            "stand_in: PyTorch itself has been imported before. Call adjoint.run.stand_in() ahead of the first "
            "`import torch`, or start the program with `python -m adjoint.run`"
        )
    sys.meta_path.insert(0, Finder())
    watch_class_statements()
    display_name.rename("torch")
    for kind in RENAMED_CLASSES:
        kind.__module__ = "torch"


class Finder(MetaPathFinder):
    """Finder of `torch` and its submodules, and of `functorch`, in adjoint."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "torch":
            return ModuleSpec(
                fullname, ExistingModuleLoader(_make_torch), origin=sys.modules["adjoint"].__file__, is_package=True
            )
        if fullname == "functorch":  # once a package of its own, now one of PyTorch's
            make = partial(AliasModule, "functorch", ["adjoint.func", "adjoint.func.stateless"], {})
            return ModuleSpec(fullname, ExistingModuleLoader(make), is_package=True)
        if not fullname.startswith("torch."):
            return None
        part = _find_part("adjoint" + fullname.removeprefix("torch"))
        if part is not None:
            return ModuleSpec(fullname, ExistingModuleLoader(lambda: part), is_package=hasattr(part, "__path__"))
        if sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":  # an import; others only ask
            return ModuleSpec(fullname, ExistingModuleLoader(_absent_maker(fullname)), is_package=True)
        return None

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        """Yield the distribution whose version `importlib.metadata.version("torch")` reads."""
        if context is not None and context.name == "torch":
            yield TorchDistribution()


class ExistingModuleLoader(Loader):
    """Loader of a module that exists already."""

    def __init__(self, make: Callable[[], ModuleType]) -> None:
        self.make = make

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        existing = self.make()
        existing.__spec__ = existing.__spec__ or module.__spec__
        sys.modules[module.__name__] = existing  # the import system takes what stands here now


class TorchDistribution(Distribution):
    """Metadata of the package `torch`: its version."""

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return path


def _find_part(name: str) -> ModuleType | None:
    """Return adjoint's module of this name, or the module that its parent has as an attribute; None without either."""
    if name.split(".")[1] in PARTS_NOT_IN_TORCH:
        return None
    try:
        return report_as_torch(import_module(name), name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is here, and misses something of its own
    parent, _, last = name.rpartition(".")
    found = getattr(sys.modules.get(torch_name(parent)) or sys.modules.get(parent), last, None)
    return found if isinstance(found, ModuleType) else None


def _absent_maker(name: str) -> Callable[[], ModuleType]:
    """Return a maker of a part of an absent module. Raises ModuleNotFoundError if its parent is not absent."""
    whole = sys.modules.get(name.rpartition(".")[0])
    if not isinstance(whole, AbsentModule):
        raise missing_module(name)
    reason = whole.reason
    return lambda: AbsentModule(name, reason)


def _make_torch() -> ModuleType:
    """Make the module `torch`: adjoint's names, PyTorch's version."""
    adjoint = sys.modules["adjoint"]
    torch = ModuleType("torch", adjoint.__doc__)
    names = vars(torch)
    own = {name for name in vars(adjoint) if name in PARTS_NOT_IN_TORCH or name.startswith("_")}
    names.update({name: value for name, value in vars(adjoint).items() if name not in own})
    for value in list(names.values()):
        if is_adjoint_module(value):
            report_as_torch(value)

    def find_or_raise(name: str) -> Any:
        if name == "__all__":
            return _star_import_names(adjoint)
        if name == "ops":
            return import_module("adjoint.library").ops
        try:
            found = getattr(adjoint, name) if name not in PARTS_NOT_IN_TORCH else None
        except AttributeError as error:
            if error.name not in {None, name}:
                raise  # a part of adjoint fails on its own
            found = None
        if found is None or (name.startswith("__") and name not in {"__config__", "__file__", "__path__"}):
            raise missing_name("torch", name, torch, sys._getframe(1))
        names[name] = found = report_as_torch(found, f"adjoint.{name}") if is_adjoint_module(found) else found
        return found

    names.update(torch=torch, __version__=VERSION, __path__=[], __file__=adjoint.__file__, __getattr__=find_or_raise)
    names["__dir__"] = lambda: sorted({*names, *dir(adjoint)} - PARTS_NOT_IN_TORCH)
    return torch


def _star_import_names(adjoint: ModuleType) -> list[str]:
    """Return the names that `from torch import *` brings: no submodules."""
    public = [name for name in dir(adjoint) if not name.startswith("_") and name not in PARTS_NOT_IN_TORCH]
    return [name for name in public if not isinstance(getattr(adjoint, name), ModuleType)]

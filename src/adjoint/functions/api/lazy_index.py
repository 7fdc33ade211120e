"""Functions and methods that few programs use: their modules are imported when a name is first asked for.

Programs start sooner so. The tables of names are made by tools/lazy_names.py from what the modules declare. A method
is a descriptor at first, in whose place its module puts the method itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from adjoint.core.runtime.lazy_import import importing
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand
from adjoint.functions.api.lazy_table import FUNCTIONS, METHODS

MODULE_BY_NAME: dict[str, str] = {}
FUNCTIONS_IN_PLACE: set[str] = set()  # methods of Tensor that are functions of the package too


class LazyMethod:
    """Descriptor of a method or an attribute until its module is imported."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source

    def __get__(self, tensor: Tensor | None, kind: type[Tensor]) -> Function:
        with importing():
            import_module(self.source)
        return getattr(kind if tensor is None else tensor, self.name)

    def __set__(self, tensor: Tensor, value: Operand) -> None:
        with importing():
            import_module(self.source)
        setattr(tensor, self.name, value)


def find_lazy_function(name: str) -> Any:
    """Return the function of this name, whose module is imported for it; None if there is none."""
    if name in FUNCTIONS_IN_PLACE:
        return getattr(Tensor, name)
    if name not in MODULE_BY_NAME:
        return None
    with importing():
        module = import_module(MODULE_BY_NAME[name])
    return getattr(module, name) if name in module.__all__ else None


def lazy_function_names() -> list[str]:
    """Return the names of all such functions. Imports their modules."""
    import_all_modules()
    exported = (import_module(source).__all__ for source in set(MODULE_BY_NAME.values()))
    return [*FUNCTIONS_IN_PLACE, *(name for names in exported for name in names if name in MODULE_BY_NAME)]


def import_all_modules() -> None:
    """Import all the modules, for tools that list names."""
    for source in sorted(set(MODULE_BY_NAME.values())):
        import_module(source)


def add_lazy_names(methods: Mapping[str, str], functions: Mapping[str, str], package: str) -> None:
    """Enter names that the modules of `package` give: methods of Tensor, and functions."""
    for table in (methods, functions):
        MODULE_BY_NAME.update(
            {name: f"{package}.{module}" for module, names in table.items() for name in names.split()}
        )
    for module, names in methods.items():
        for name in names.split():  # a function of the name, such as F.unfold, may live elsewhere
            if name not in vars(Tensor):
                setattr(Tensor, name, LazyMethod(name, f"{package}.{module}"))


add_lazy_names(METHODS, FUNCTIONS, "adjoint.functions")

"""Which classes a file may have instances of though nobody named them: those that run nothing when they are made."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from adjoint.core.runtime.lazy_import import module_name_slot

# What Python or a pickle calls by itself, and what would make an instance more than data
ACTING_METHODS = ("__del__", "__setstate__", "__new__")
CALL_METHODS = ("__call__",)


def find_inert_class(module: str, name: str) -> Any:
    """The class of this name, if it is imported already and an instance is its attributes and no more; else None.

    Modules of networks and optimizers are, and plain classes that can neither be called nor act when they are made or
    dropped.
    """
    found = _find_imported(module, name)
    if not isinstance(found, type) or not all(kind.__flags__ & HEAP_TYPE_FLAG for kind in found.__mro__[:-1]):
        return None
    known = _is_module(found) or _is_subclass_of(found, "adjoint.optim.step.optimizer", "Optimizer")
    parts = [kind for kind in found.__mro__[:-1] if not (known and kind.__module__.startswith("adjoint."))]
    acts = any(
        name in vars(kind) for kind in parts for name in (*ACTING_METHODS, *(() if _is_module(found) else CALL_METHODS))
    )
    return None if acts or not any("__dict__" in vars(kind) for kind in found.__mro__) else found


def find_inert_function(module: str, name: str) -> Any:
    """The function of this name, if it is one of the library's functions of tensors; else None."""
    found = _find_imported(module, name)
    return found if module.startswith(TENSOR_FUNCTION_MODULES) and isinstance(found, FunctionType) else None


TENSOR_FUNCTION_MODULES = ("adjoint.functions.", "adjoint.ops.", "adjoint.nn.functional", "adjoint.compat.functions.")
HEAP_TYPE_FLAG = 1 << 9  # CPython sets this flag of a type on the heap


def _find_imported(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module_name_slot.call(module))
    for part in name.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found


def _is_module(kind: type) -> bool:
    return _is_subclass_of(kind, "adjoint.nn.module.module", "Module")


def _is_subclass_of(kind: type, module: str, name: str) -> bool:
    found = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return found is not None and issubclass(kind, found)

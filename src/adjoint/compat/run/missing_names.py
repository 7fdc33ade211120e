"""Errors for names of `torch` that are absent: the name, the line that asked, and where to read on."""

from __future__ import annotations

import sys
from opcode import opmap
from types import FrameType, ModuleType
from typing import Any

from adjoint.core.graph.source_location import user_frame
from adjoint.core.runtime.lazy_import import names_of

IMPORT_FROM = opmap["IMPORT_FROM"]
COVERAGE_HINT = "docs/coverage.md lists what it has, and why it lacks the rest"
_torch_names: dict[ModuleType, str] = {}


def report_as_torch(module: ModuleType, asked: str = "") -> ModuleType:
    """Let `module` of adjoint, and the modules that it names, use PyTorch's names in errors. Returns it.

    `asked`: the name by which the program has come to it, in adjoint. It tells what a module of `adjoint.compat` is
    called in PyTorch.
    """
    if module in _torch_names:
        return module
    own = asked if asked and module.__name__.startswith("adjoint.compat.") else module.__name__
    _torch_names[module] = name = torch_name(own)
    find = names_of(module).get("__getattr__")

    def find_or_raise(attribute: str) -> Any:
        if find is not None:
            try:
                found = find(attribute)
            except AttributeError as error:
                if error.name not in {None, attribute}:
                    raise
            else:
                return report_as_torch(found, f"{own}.{attribute}") if is_adjoint_module(found) else found
        raise missing_name(name, attribute, module, sys._getframe(1)) from None

    names_of(module)["__getattr__"] = find_or_raise
    for value in list(names_of(module).values()):
        if is_adjoint_module(value):
            report_as_torch(value)
    return module


def missing_name(name: str, attribute: str, module: ModuleType, asking: FrameType) -> AttributeError | ImportError:
    """Return the error of `torch.name`, an AttributeError, or of `from torch import name`, an ImportError."""
    if attribute.startswith("__"):  # Python itself asks for these
        return AttributeError(f"module {name!r} has no attribute {attribute!r}", name=attribute, obj=module)
    told = describe_missing(f"{name}.{attribute}", asking)
    if asking.f_code.co_code[asking.f_lasti] == IMPORT_FROM:
        return ImportError(told, name=name, path=getattr(module, "__file__", None))
    return AttributeError(told, name=attribute, obj=module)


def missing_module(name: str) -> ModuleNotFoundError:
    """Return the error of `import torch.name`."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (user_frame(frame) is not frame or "importlib" in frame.f_code.co_filename):
        frame = frame.f_back
    return ModuleNotFoundError(f"No module named {name!r}: {describe_missing(name, frame)}", name=name)


def describe_missing(name: str, asking: FrameType) -> str:
    """Return the sentence that says which name is missing, and which line asked for it."""
    where = f"{asking.f_code.co_filename}:{asking.f_lineno}"
    return f"adjoint, in place of PyTorch, has no {name} ({where}); {COVERAGE_HINT}"


def is_adjoint_module(value: Any) -> bool:
    """Return whether `value` is one of adjoint's modules."""
    return isinstance(value, ModuleType) and value.__name__.startswith("adjoint.")


def torch_name(name: str) -> str:
    """Convert "adjoint.nn" to "torch.nn"."""
    return f"torch{name.removeprefix('adjoint')}"

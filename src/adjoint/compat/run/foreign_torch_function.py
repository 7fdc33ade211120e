"""Overrides by classes that are not tensors: once one defines `__torch_function__`, functions and methods ask it.

A subclass of Tensor registers itself when it is defined. Other classes do not, so class statements are watched.
"""

from __future__ import annotations

import builtins
import sys
from types import CodeType
from typing import Any

from adjoint.core.graph.source_location import library_files
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.tensor.torch_function import dispatch_on_operands, patch_functions
from adjoint.core.typing import Function

PROTOCOL_NAME = "__torch_function__"
_build: Function = builtins.__build_class__


class ClassStatements:
    """Replacement of `builtins.__build_class__`, which Python calls for every class statement.

    Calls go on to Python's own with no frame of ours between, unless the statement defines `__torch_function__`:
    metaclasses look at the frame of the statement, by its depth.
    """

    @property
    def __call__(self) -> Function:
        """Return the function that makes the class; Python looks it up before every call.

        Classes of this package are asked where it needs it, and not by all functions for good.
        """
        code = sys._getframe(1).f_code
        if library_files[code.co_filename]:
            return _build
        bodies = [body for body in code.co_consts if isinstance(body, CodeType)]
        return _build_overriding if any(map(_defines_torch_function, bodies)) else _build


def watch_class_statements() -> None:
    """Let functions and methods ask the instances of classes that are defined from now on."""
    builtins.__build_class__ = ClassStatements()


def _build_overriding(body: Any, name: str, /, *bases: Any, **kwargs: Any) -> Any:
    has_override = _defines_torch_function(body.__code__)
    if has_override:
        patch_functions()  # ahead of the body: it may fill tables with public functions
    kind = _build(body, name, *bases, **kwargs)
    if has_override and isinstance(kind, type) and not issubclass(kind, Tensor):
        dispatch_on_operands()
    return kind


def _defines_torch_function(body: CodeType) -> bool:
    return any(isinstance(part, CodeType) and part.co_name == PROTOCOL_NAME for part in body.co_consts)

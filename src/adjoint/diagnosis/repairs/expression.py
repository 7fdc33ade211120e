"""Expressions of a trial: edits of their parts, their text, and what statements do as expressions."""

from __future__ import annotations

import ast
import copy
import inspect
from dataclasses import dataclass
from types import FrameType, ModuleType

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.typing import Operand
from adjoint.diagnosis.operands import MISSING, evaluate
from adjoint.diagnosis.repairs.trial import STORES, Trial, compute
from adjoint.diagnosis.source_expressions import text_of

Values = list[tuple[ast.expr, Operand]]  # parts of an expression


@dataclass(frozen=True)
class Edit:
    """An expression in place of a part of the user's, and whether it changes the part's shape alone."""

    part: ast.expr
    replacement: ast.expr
    is_shape: bool = False

    def apply(self, root: ast.expr) -> ast.expr:
        """Return a copy of the root in which the replacement stands for the part."""
        if self.part is root:
            return self.replacement
        changed: ast.expr = copy.deepcopy(root, {id(self.part): self.replacement})
        return changed


def parse(text: str) -> ast.expr:
    """Return the syntax tree of an expression."""
    return ast.parse(text, mode="eval").body


def bracket(part: ast.expr) -> str:
    """Return the text of a part, in brackets where a method is to be called on it."""
    text = ast.unparse(part)
    return text if isinstance(part, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else f"({text})"


def call_of(node: ast.AST) -> ast.expr | None:
    """Return an expression that does what a statement does: itself, or a call that stores an item or an attribute."""
    if isinstance(node, ast.expr):
        return node if not isinstance(getattr(node, "ctx", None), ast.Store) else None
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if isinstance(target, ast.Subscript) and isinstance(node, ast.Assign):
        return ast.Call(ast.Name("setitem()", ast.Load()), [target.value, _index_of(target.slice), node.value], [])
    if isinstance(target, ast.Attribute) and isinstance(node, ast.Assign):
        return ast.Call(ast.Name("setattr()", ast.Load()), [target.value, ast.Constant(target.attr), node.value], [])
    return None


def _index_of(node: ast.expr) -> ast.expr:
    """Return an index as an argument, in which slices are calls."""
    if isinstance(node, ast.Slice):
        none = ast.Constant(None)
        return ast.Call(ast.Name("slice", ast.Load()), [node.lower or none, node.upper or none, node.step or none], [])
    return ast.Tuple([*map(_index_of, node.elts)], ast.Load()) if isinstance(node, ast.Tuple) else node


def write_line(changed: ast.expr, node: ast.AST) -> str:
    """Return a changed expression as the program writes it."""
    stored = changed.func.id if isinstance(changed, ast.Call) and isinstance(changed.func, ast.Name) else ""
    if isinstance(node, ast.Assign) and isinstance(changed, ast.Call) and stored in STORES:
        target = text_of(node.targets[0])
        given = node.targets[0]
        if isinstance(given, ast.Subscript) and ast.dump(_index_of(given.slice)) != ast.dump(changed.args[1]):
            target = f"{text_of(changed.args[0])}[{text_of(changed.args[1]).strip('()').replace('slice(None)', ':')}]"
        return f"{target} = {text_of(changed.args[2])}"
    return text_of(changed)


def name_library(trial: Trial) -> str:
    """Return the name by which the frame knows the package."""
    for name, value in trial.frame.f_globals.items():
        if isinstance(value, ModuleType) and "." not in value.__name__ and is_name_of_package(value.__name__):
            return name
    return "torch"


def parameter_names(call: ast.Call, frame: FrameType) -> list[str]:
    """Return the names of the parameters of what is called, of a method without the tensor itself."""
    function = evaluate(call.func, frame)
    if function is not MISSING or not isinstance(call.func, ast.Attribute):
        return _parameter_names(function)
    owner = compute(call.func.value, frame)
    is_module_of_python = isinstance(owner, ModuleType)
    function = getattr(owner if is_module_of_python else type(owner), call.func.attr, MISSING)
    return _parameter_names(function)[0 if is_module_of_python or "self" in _all_names(function) else 1 :]


def _parameter_names(function: Operand) -> list[str]:
    return [] if function is MISSING else [name for name in _all_names(function) if name != "self"]


def _all_names(function: Operand) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []

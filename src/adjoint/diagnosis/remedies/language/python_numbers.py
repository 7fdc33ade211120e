"""Remedies for Python numbers where tensors belong: the `.item()` that made them, in this function or another."""

from __future__ import annotations

import ast
import re

from adjoint.diagnosis.causes.operand_history import walk_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, find_origin, find_return
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.source_expressions import SourceFile, text_of


@remedy(r"^'(int|float|bool)' object has no attribute '(\w+)'")
def keep_tensor(failure: Failure, match: re.Match[str]) -> str | None:
    """A Python number where a tensor belongs, for .item() or a comparison gave it."""
    x = next((each for each in failure.operands if type(each.value).__name__ == match[1]), None)
    inner = _find_conversion(failure)
    if inner is not None:
        return f"{inner} makes a Python number of a tensor: without it there it stays a tensor, with .{match[2]}"
    made = None if x is None or x.origin is None else x.origin.value
    if x is None or made is None:
        return None
    far = walk_back(failure, _describe_conversion)
    if far is not None and not far.endswith(at(x)):
        return f"{x.text}{at(x)} is a Python number, by {far}: without that it stays a tensor, with .{match[2]}"
    text = text_of(made)
    for part in ast.walk(made):  # of sum(losses) / n, where the losses are numbers
        source = None if x.origin is None else x.origin.source
        further = find_origin(source, part, failure.stack) if source and isinstance(part, ast.Name) else None
        value = None if further is None or further.value is None else further.value
        if further is not None and value is not None and ".item()" in text_of(value):
            told = f"{text_of(part)} at {further.place()} holds Python numbers, by .item()"
            return f"{told}: without it there they stay tensors, with .{match[2]}"
    if ".item()" in text or text.startswith("float("):
        return f"{x.text}{at(x)} is a Python number: without .item() there it stays a tensor, with .{match[2]}"
    if isinstance(made, ast.Call) and text_of(made.func) == "sum" and made.args and not x.value:
        return (
            f"{x.text}{at(x)} is 0, the sum of nothing: {text_of(made.args[0])} is empty, so nothing was added "
            "to it before"
        )
    told = f"{x.text}{at(x)} is a Python number, {x.value}, which has no .{match[2]}"
    return f"{told}: torch.tensor({x.text}), or leave it out"


def _describe_conversion(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return the first `.item()` or `.tolist()` of a line, or of a function that it calls, with its place."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("item", "tolist"):
            return f"{text_of(call)} at {source.place_of(call)}"
    return None


def _find_conversion(failure: Failure) -> str | None:
    """Return the `.item()` in the user's function whose result the line uses, with its place."""
    source = None if failure.line is None else failure.line.source
    node = failure.line.node if failure.line is not None else None
    used = node.value if isinstance(node, ast.Attribute) else None
    own = None if used is None else failure.find_operand(text_of(used))
    returned = own.returned if own is not None else None
    if source is not None and isinstance(used, ast.Call):
        returned = find_return(Origin(source, used), failure.stack)
    value = None if returned is None else getattr(returned.node, "value", None)
    if returned is None or value is None:
        return None
    names = {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
    given = returned.source.assignments_in(returned.source.scope_of(returned.node))
    for part in (value, *(each for name in names for each in given.get(name, ()))):
        for call in ast.walk(part):
            if isinstance(call, ast.Call) and text_of(call.func).endswith(".item"):
                return f"{text_of(call)} at {returned.source.place_of(call)}"
    return None

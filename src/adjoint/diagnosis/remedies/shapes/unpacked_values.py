"""Remedies by what stands beside a value: the others that one statement unpacked, and tensors with its sizes."""

from __future__ import annotations

import ast
import copy
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.causes.operand_history import walk_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import (
    MISSING,
    NamedValue,
    Origin,
    describe_tensor,
    evaluate,
    find_origin,
    find_return,
)
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, text_of


@remedy(
    r"linear: input is|expected input\[|\(unbatched\)|argument #1 'indices'|[Tt]arget size|same dtype|input\.size\(-1\)"
)
def exchange_values(failure: Failure, match: re.Match[str]) -> str | None:
    """Two values of one statement, such as the inputs and the targets of a batch, that have changed places."""
    for x in failure.tensors():
        other = None if x.value.is_floating_point() else _find_sibling(failure, x)
        if other is None or not other.value.is_floating_point():
            continue
        if not _fits_exchanged(failure, x.text, other.text):
            continue
        told = f"{x.text}{at(x)} is {describe_tensor(x.value)}, and {other.text} {describe_tensor(other.value)}"
        given = x.source.origin if x.source is not None else x.origin
        returned = find_return(given, failure.stack)
        value = None if returned is None else getattr(returned.node, "value", None)
        if returned is not None and isinstance(value, ast.Tuple) and len(value.elts) == 2:
            first, second = map(text_of, value.elts)
            return f"{told}: they have changed places, return {second}, {first} at {returned.place()}"
        return f"{told}: they have changed places, {other.text}, {x.text} = … there"
    return None


def _find_sibling(failure: Failure, x: NamedValue) -> NamedValue | None:
    """Return the only other tensor of the two that a statement has unpacked."""
    node = None if x.origin is None else x.origin.node
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if isinstance(node, (ast.For, ast.AsyncFor)) and text_of(node.iter).startswith("enumerate("):
        target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else None
    names = [text_of(each) for each in target.elts] if isinstance(target, (ast.Tuple, ast.List)) else []
    if len(names) != 2 or x.text not in names:
        return None
    name = names[1 - names.index(x.text)]
    value = evaluate(ast.Name(name, ast.Load()), failure.frame)
    return NamedValue(name, value) if isinstance(value, Tensor) else None


def _fits_exchanged(failure: Failure, x: str, y: str) -> bool:
    """Return whether the line runs with both names exchanged; it may where the user's own code cannot be tried."""
    node = failure.node
    if not isinstance(node, ast.expr):
        return False
    changed = copy.deepcopy(node)
    names = {each.id for each in ast.walk(changed) if isinstance(each, ast.Name)}
    for each in ast.walk(changed):
        if isinstance(each, ast.Name) and each.id in (x, y):
            each.id = y if each.id == x else x
    layer = failure.module() if failure.modules else None
    width = None if layer is None else getattr(layer.value, "in_features", getattr(layer.value, "in_channels", None))
    value = evaluate(ast.Name(y, ast.Load()), failure.frame)
    is_wide = width is not None and width in tuple(value.shape)[1:]
    return x in names and (compute(changed, failure.frame) is not MISSING or is_wide)


@remedy(r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)")
def add_dimension(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor that lacks a dimension of 1 which another of the function has."""
    x = next((each for each in failure.tensors() if each.value.ndim == int(match[2]) + 1), None)
    if x is None or int(match[3]) != x.value.ndim or x.value.ndim < 2:
        return None
    shape = tuple(x.value.shape)
    for name, other in failure.frame.f_locals.items():
        if not isinstance(other, Tensor) or other.ndim != len(shape) + 1 or name == x.text:
            continue
        size = tuple(other.shape)
        for place in range(1, len(size)):
            if size[place] == 1 and size[:place] + size[place + 1 :] == shape:
                given = "" if x.returned is None else f", given at {Origin(x.returned.source, x.returned.node).place()}"
                told = f"{x.text}{at(x)}{given}, is {shape}, and {name} {size}"
                return f"{told}: {x.text}.unsqueeze({place}) has that dimension of 1 too"
    return None


@remedy(r"expected target dtype to be Long or Byte, but got")
def exchange_loss_arguments(failure: Failure, match: re.Match[str]) -> str | None:
    """A loss that gets the classes first, and the scores after them."""
    node = failure.node
    for call in ast.walk(node) if node is not None else ():
        values = [evaluate(each, failure.frame) for each in call.args[:2]] if isinstance(call, ast.Call) else []
        if len(values) != 2 or not all(isinstance(each, Tensor) for each in values) or not isinstance(call, ast.Call):
            continue
        first, second = values
        if not first.is_floating_point() and second.is_floating_point() and second.ndim > first.ndim:
            rest = [text_of(each) for each in (*call.args[2:], *call.keywords)]
            swapped = ", ".join([text_of(call.args[1]), text_of(call.args[0]), *rest])
            return f"the scores come first, then the classes: {text_of(call.func)}({swapped})"
    return None


def find_uneven_product(failure: Failure) -> str | None:
    """Return the sides of the product, as of images and their texts, that gave scores of all pairs, if not square."""

    def describe(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
        for part in ast.walk(node):
            if not isinstance(part, ast.BinOp) or not isinstance(part.op, ast.MatMult):
                continue
            sides = [side.value if isinstance(side, ast.Attribute) else side for side in (part.left, part.right)]
            named = [NamedValue(text_of(side), evaluate(side, failure.frame)) for side in sides]
            if not all(isinstance(each.value, Tensor) and each.value.ndim == 2 for each in named):
                continue
            rows = [each.value.shape[0] for each in named]
            if rows[0] != rows[1]:
                found = [find_origin(source, side, failure.stack) for side in sides]
                told = [
                    f"{each.text}{'' if made is None else f' at {made.place()}'} has {count} rows"
                    for each, made, count in zip(named, found, rows, strict=True)
                ]
                return f"{' and '.join(told)}, and the diagonal of {text_of(part)} is to be of pairs: as many of each"
        return None

    return walk_back(failure, describe)

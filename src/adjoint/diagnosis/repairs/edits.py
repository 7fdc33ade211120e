"""Edits of an expression, each a way in which users mend its kind of mistake, in the order in which they are tried."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from adjoint.core.dtype.dtype import float32
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.operands import evaluate, is_module
from adjoint.diagnosis.repairs.calls import (
    call_otherwise,
    call_sibling,
    call_with_items,
    read_attribute_otherwise,
    read_otherwise,
)
from adjoint.diagnosis.repairs.conversions import convert, leave_conversion, leave_tensors
from adjoint.diagnosis.repairs.expression import Edit, Values, name_library
from adjoint.diagnosis.repairs.reshapes import (
    expand_index,
    find_dimensions,
    make_square,
    reshape,
    reshape_all,
    swap_sides,
)
from adjoint.diagnosis.repairs.sequences import change_index, change_numbers, change_stored_index
from adjoint.diagnosis.repairs.trial import STORES, Trial, compute

VALUE_WORDS = re.compile(r"all elements|negative|positive|non-negative|[<>]=? ?\d|between")
WEIGHTS = ("weight", "pos_weight")  # one for each class, whatever the shapes allow


def find_edits(trial: Trial, message: str, *, is_of_shapes: bool) -> Iterator[Edit]:
    """Yield the edits of an expression: of the kind of its parts, of how it is called, and of shapes."""
    values = [(part, compute(part, trial.frame)) for part in _operands(trial.expression)]
    if is_of_shapes:  # data is in the wrong order more often than what a model gives
        values.sort(key=lambda each: isinstance(each[1], Tensor) and each[1].node is not None)
    if not is_of_shapes:
        yield from _find_edits_of_kinds(trial, message, values)
        return
    dimensions = [part for node in ast.walk(trial.expression) for part in find_dimensions(node, trial)]
    for node in ast.walk(trial.expression):
        if isinstance(node, ast.Call):
            yield from call_sibling(node)
            yield from expand_index(node, values)
            yield from change_numbers(node, trial, values)
            yield from change_stored_index(node, trial)
        elif isinstance(node, ast.Subscript):
            yield from change_index(node, trial)
        yield from make_square(node, message)
    is_module_call = isinstance(trial.expression, ast.Call) and is_module(evaluate(trial.expression.func, trial.frame))
    weights = {
        id(each.value) for each in ast.walk(trial.expression) if isinstance(each, ast.keyword) and each.arg in WEIGHTS
    }
    call = trial.expression if isinstance(trial.expression, ast.Call) else None
    stored = call.args[0] if call is not None and ast.unparse(call.func) in STORES else None
    is_sum, first = isinstance(trial.expression, ast.BinOp), "" if "broadcast" in message else ".T"
    for part, value in values:
        if id(part) in weights or part is stored:
            continue
        yield from reshape(part, value, values, dimensions, first=first, is_input=is_module_call, is_sum=is_sum)
    yield from reshape_all(trial.expression, values)
    if not VALUE_WORDS.search(message):
        yield from swap_sides(trial.expression)


def _find_edits_of_kinds(trial: Trial, message: str, values: Values) -> Iterator[Edit]:
    library = name_library(trial)
    for node in ast.walk(trial.expression):
        if isinstance(node, ast.Call):
            yield from call_with_items(node)
    for node in ast.walk(trial.expression):
        if isinstance(node, ast.Call):
            yield from call_sibling(node)
    # what is of another type than the parameters of most models is to be converted, not the other way round
    values = sorted(values, key=lambda each: isinstance(each[1], Tensor) and each[1].dtype == float32)
    for part, _ in values:
        yield from leave_conversion(part)
    for part, value in values:
        yield from convert(part, value, library, message)
    for part, value in values:
        yield from leave_tensors(part, value, message)
    for node in ast.walk(trial.expression):
        if isinstance(node, ast.Call):
            yield from call_otherwise(node, trial, library, message)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield Edit(node, ast.Call(node, [], []))
            if "has no attribute" in message:
                yield from read_attribute_otherwise(node, trial, library)
        elif isinstance(node, ast.Subscript):
            yield from read_otherwise(node)
        elif isinstance(node, ast.Tuple) and any(map(_is_division, node.elts)) and "float" in message:
            whole = [ast.BinOp(e.left, ast.FloorDiv(), e.right) if _is_division(e) else e for e in node.elts]
            yield Edit(node, ast.Tuple(whole, ast.Load()))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield Edit(node, ast.UnaryOp(ast.Invert(), node.operand))


def _is_division(node: ast.expr) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)


def _operands(root: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts that stand for values: arguments, sides of operators, what a method or an index is of."""
    for node in ast.walk(root):
        if isinstance(node, ast.Call):
            yield from (each.value if isinstance(each, ast.Starred) else each for each in node.args)
            yield from (each.value for each in node.keywords)
            if isinstance(node.func, ast.Attribute):
                yield node.func.value
        elif isinstance(node, ast.BinOp):
            yield node.left
            yield node.right
        elif isinstance(node, ast.Compare):
            yield node.left
            yield from node.comparators
        elif isinstance(node, ast.Subscript):
            yield node.slice
            yield node.value
        elif isinstance(node, (ast.List, ast.Tuple)):
            yield from (each for each in node.elts if isinstance(each, (ast.Name, ast.Attribute)))

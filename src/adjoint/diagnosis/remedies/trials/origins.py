"""Remedies that were tried at the line that made an operand: the user's line runs with what it makes then."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.expression import call_of, parameter_names
from adjoint.diagnosis.repairs.trial import Trial, compute
from adjoint.diagnosis.source_expressions import text_of

# methods that lose what the next line may need, each with what it loses
LOSING = {
    "squeeze": "takes out every dimension of 1",
    "flatten": "puts all dimensions into one",
    "ravel": "puts all dimensions into one",
    "item": "gives a Python number",
    "tolist": "gives a list",
    "numpy": "gives an array",
    "float": "makes floats",
    "long": "makes integers",
    "int": "makes integers",
    "double": "makes doubles",
    "half": "makes half floats",
    "t": "transposes",
}
FITTING = re.compile(r"shape|size|dimension|broadcast|indices|dtype|scalar type|expected|has no attribute|must be")


@remedy(FITTING.pattern)
def change_origin(failure: Failure, match: re.Match[str]) -> str | None:
    """An operand that was reduced without its dimension, or that went through a method too many."""
    node = None if failure.line is None else call_of(failure.line.node)
    if node is None:
        return None
    for operand, made in find_made(failure):
        whole = substitute(node, operand.text, made)
        if not Trial(whole, failure.frame).fails_alike(failure.error):
            continue  # what it is made of has changed since
        for changed, told in _change(failure, made):
            if runs_with(failure, node, operand, changed):
                return f"{operand.text}{at(operand)} {told}: {operand.text} = {text_of(changed)} there"
    return None


def find_made(failure: Failure) -> Iterator[tuple[NamedValue, ast.expr]]:
    """Yield the operands that a statement of the same function gave a value, with the expression of it."""
    for operand in failure.operands:
        origin = operand.origin
        if origin is None or failure.line is None or not operand.text.isidentifier():
            continue
        statement = origin.node
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        is_near = origin.source is failure.line.source and origin.source.scope_of(statement) is (
            failure.line.source.scope_of(failure.line.node)
        )
        reads_itself = any(isinstance(each, ast.Name) and each.id == operand.text for each in ast.walk(statement.value))
        if is_near and isinstance(statement.targets[0], ast.Name) and not reads_itself:
            yield operand, statement.value


def _change(failure: Failure, made: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """Yield the expression that made an operand with one call of it changed, and what that call does."""
    for call in ast.walk(made):
        if isinstance(call, ast.Subscript):
            yield from _take_columns(failure, made, call)
        if not isinstance(call, ast.Call):
            continue
        names = parameter_names(call, failure.frame)
        given = {*names[: len(call.args)], *(each.arg for each in call.keywords)}
        if "keepdim" in names and "keepdim" not in given and "dim" in given:
            kept = ast.Call(call.func, call.args, [*call.keywords, ast.keyword("keepdim", ast.Constant(True))])
            yield copy.deepcopy(made, {id(call): kept}), "has lost a dimension"
        if isinstance(call.func, ast.Attribute) and call.func.attr in LOSING:
            told = f"goes through .{call.func.attr}(), which {LOSING[call.func.attr]}"
            yield copy.deepcopy(made, {id(call): call.func.value}) if call is not made else call.func.value, told


def _take_columns(failure: Failure, made: ast.expr, item: ast.Subscript) -> Iterator[tuple[ast.expr, str]]:
    """Yield an expression that takes a column of a tensor of samples, where it takes one of its rows."""
    held = compute(item.value, failure.frame)
    is_number = isinstance(item.slice, (ast.Name, ast.Constant)) and not isinstance(held, (list, tuple, dict))
    if is_number and isinstance(held, Tensor) and held.ndim > 1:
        column = ast.Subscript(item.value, ast.Tuple([ast.Slice(), item.slice], ast.Load()), ast.Load())
        told = f"reads rows of {text_of(item.value)}, {tuple(held.shape)}, by {text_of(item)}"
        yield (column if item is made else copy.deepcopy(made, {id(item): column})), told


def substitute(node: ast.expr, name: str, made: ast.expr) -> ast.expr:
    """Return the expression with another in place of a name."""
    places = {
        id(each): made
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)
    }
    return made if id(node) in places else copy.deepcopy(node, places)


def runs_with(failure: Failure, node: ast.expr, operand: NamedValue, changed: ast.expr) -> bool:
    """Return whether the line runs with its operand made in another way, and gives nothing larger than it takes."""
    try:
        result = Trial(substitute(node, operand.text, changed), failure.frame).run(
            substitute(node, operand.text, changed)
        )
    except Exception:  # noqa: BLE001  what a changed line may raise
        return False
    largest = max((each.value.numel() for each in failure.tensors()), default=0)
    is_elementwise = isinstance(node, ast.BinOp)
    return not is_elementwise or not isinstance(result, Tensor) or result.numel() <= largest

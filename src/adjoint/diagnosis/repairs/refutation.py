"""Refutation of advice: what it tells to write, or the line with it, fails on copies of the frame's values."""

from __future__ import annotations

import ast
import copy
import re
from types import ModuleType

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate
from adjoint.diagnosis.repairs.expression import Edit, call_of
from adjoint.diagnosis.repairs.trial import Trial, UntriableError, compute
from adjoint.diagnosis.source_expressions import text_of

END = re.compile(r"$|[,;] | (?:there|at|before|after)\b| is \([\d, ]*\)")  # of what is to be written
OTHER_PLACE = re.compile(r" (?:there|at|before|after)\b")  # the names may have other values in that line
CALL_ELSEWHERE = re.compile(r".*[)\]] at [\w./]+:\d+")
GRADIENTS = re.compile(r"\bgrad\(|\.grad\b")  # copies have no graph


def is_refuted(failure: Failure, advice: str) -> bool:
    """Return whether the expression that advice tells to write, or the line with it, fails, as far as a trial can tell.

    Advice tells facts, a colon, and what to write, which begins with an expression.
    """
    if failure.line is None or failure.node is None:
        return False
    facts, _, told = advice.rpartition(": ") if advice.count(": ") == 1 else ("", "", advice)
    if "with " in facts:  # of a block
        return False
    for place in [*(match.start() for match in re.finditer(r"[,;]? ", told)), len(told)]:
        expression, rest = _parse(told[:place]), told[place:]
        if expression is not None and END.match(rest):
            is_elsewhere = OTHER_PLACE.match(rest) is not None or CALL_ELSEWHERE.match(facts) is not None
            return _fails_here(failure, expression, is_elsewhere=is_elsewhere)
    return False


def _fails_here(failure: Failure, expression: ast.expr, *, is_elsewhere: bool) -> bool:
    source = failure.line.source if failure.line is not None else None
    if source is None or failure.node is None:
        return False
    line = text_of(source.statement_of(failure.node) if failure.node in source.parents else failure.node)
    text = text_of(expression)
    if text in line or GRADIENTS.search(text):
        return False
    names = [each for each in ast.walk(expression) if isinstance(each, ast.Name)]
    if is_elsewhere and not all(isinstance(evaluate(each, failure.frame), ModuleType) for each in names):
        return False  # what names modules alone has the same value everywhere
    is_stored = isinstance(expression, ast.Subscript) and call_of(failure.node) is None
    fails = not is_stored and (_fails(Trial(expression, failure.frame), expression) or _rounds(failure, expression))
    return fails or (not is_elsewhere and _leaves_line_failing(failure, expression))


def _rounds(failure: Failure, expression: ast.expr) -> bool:
    """Return whether an expression makes integers of numbers that are not whole, and so loses what they tell."""
    for call in ast.walk(expression):
        function = call.func if isinstance(call, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr in ("long", "int"):
            x = compute(function.value, failure.frame)
            if isinstance(x, Tensor) and x.is_floating_point() and bool((x != x.round()).any()):
                return True
    return False


def _parse(text: str) -> ast.expr | None:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    is_whole = ast.unparse(node) == text  # `out [4]` tells a shape
    return node if is_whole and isinstance(node, (ast.Call, ast.Subscript)) else None


def _fails(trial: Trial, expression: ast.expr) -> bool:
    try:
        trial.run(expression)
    except UntriableError:
        return False
    except Exception:  # noqa: BLE001  what advice may raise
        return True
    return False


def _leaves_line_failing(failure: Failure, expression: ast.expr) -> bool:
    """Return whether the line fails with `x.unsqueeze(0)` in place of its argument x."""
    root = expression
    while isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute):
        root = root.func.value
    node = None if failure.line is None else call_of(failure.line.node)
    if node is None or root is expression or not isinstance(root, (ast.Name, ast.Attribute)):
        return False
    functions = [text_of(each.func).rpartition(".")[2] for each in (node, expression) if isinstance(each, ast.Call)]
    if len(functions) == 2 and functions[0] == functions[1]:
        return False  # it stands for the whole line
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    calls = [each for each in calls if not isinstance(evaluate(each.func, failure.frame), type)]  # of range(x)
    places = [part for call in calls for part in (call.func, *call.args) if text_of(part) == text_of(root)]
    if len(places) != 1:
        return False
    trial = Trial(node, failure.frame)
    changed = Edit(places[0], copy.deepcopy(expression)).apply(node)
    return trial.fails_alike(failure.error) and _fails(trial, changed)

"""Remedies for decisions by several elements: what the statement around them does says which one answer is meant."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.causes.arguments import find_default
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue, evaluate, find_origin
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of

PYTHON_DECISIONS = ("max", "min", "sorted", "bool", "any", "all", "sum")
TESTS = (ast.If, ast.While, ast.Assert, ast.IfExp)
RECORDS = re.compile(r"best|min|max|prev|last|lowest|highest|patience", re.IGNORECASE)


@remedy(r"Boolean value of Tensor with more than one value is ambiguous")
def give_one_answer(failure: Failure, match: re.Match[str]) -> str | None:
    """A decision by several elements."""
    node = failure.node
    if failure.stack[0].called and isinstance(node, ast.Call) and text_of(node.func) not in PYTHON_DECISIONS:
        return None  # a function of the library asked, which takes a number or a truth there
    if isinstance(node, ast.Call) and text_of(node.func) in ("max", "min", "sorted") and node.args:
        return _compare_elements(failure, node)
    test, around = _find_test(failure, node)
    if failure.line is None or test is None:
        return None
    told = _describe_largest(failure, test)
    if isinstance(test, ast.BoolOp) and not isinstance(around, TESTS):
        sign, word = (" & ", "and") if isinstance(test.op, ast.And) else (" | ", "or")
        return f"{word} asks for one truth: {sign.join(f'({text_of(each)})' for each in test.values)}"
    value = None if isinstance(around, TESTS) else _compute_by_element(failure, test)
    if value is not None:
        return value
    chosen = _choose_by_element(failure, test, around)
    if chosen is not None:
        return f"{told}{chosen}"
    answer = _answer(failure, test, isinstance(around, ast.Assert))
    return f"{told}{answer}" if answer != text_of(test) else f"{told}{bracket(test)}.any(), or .all(), for one answer"


def _describe_largest(failure: Failure, test: ast.expr) -> str:
    """Return how many elements the largest tensor of a condition has, with its line."""
    found: list[NamedValue] = []
    for part in ast.walk(test) if failure.line is not None else ():
        value = evaluate(part, failure.frame) if isinstance(part, (ast.Name, ast.Attribute)) else None
        if isinstance(part, ast.expr) and isinstance(value, Tensor) and failure.line is not None:
            origin = find_origin(failure.line.source, part, failure.stack)
            found.append(NamedValue(text_of(part), value, origin))
    x = max(found, key=lambda each: each.value.numel(), default=None)
    return "" if x is None else f"{x.text}{at(x)} has {x.value.numel()} elements: "


def _find_test(failure: Failure, node: ast.AST | None) -> tuple[ast.expr | None, ast.AST | None]:
    """Return the whole condition of which the expression that failed is a part, and what decides by it."""
    test = node.test if isinstance(node, TESTS) else node
    parents = {} if failure.line is None else failure.line.source.parents
    while test is not None and isinstance(parents.get(test), (ast.BoolOp, ast.UnaryOp)):
        test = parents[test]
    around = None if test is None else parents.get(test)
    return test if isinstance(test, ast.expr) else None, around


def _answer(failure: Failure, test: ast.expr, is_asserted: bool) -> str:
    """Return a condition as one truth; a part that is one already stays as it is."""
    if isinstance(test, ast.BoolOp):
        sign = " and " if isinstance(test.op, ast.And) else " or "
        return sign.join(_answer(failure, each, is_asserted) for each in test.values)
    value = compute(test, failure.frame)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _answer(failure, test.operand, is_asserted=True)
        return inner.replace(" is not None", " is None") if " is not None" in inner else f"not {inner}"
    if isinstance(test, ast.Compare):
        told = _answer_comparison(failure, test, is_asserted)
        if told is not None:
            return told
    if not isinstance(value, Tensor) or value.numel() < 2:
        return text_of(test)
    if isinstance(test, ast.Name) and _is_optional(failure, test):
        return f"{test.id} is not None"
    name = text_of(test.func) if isinstance(test, ast.Call) else ""
    if re.search(r"isnan|isinf", name):
        return f"{text_of(test)}.any()"
    is_of_all = is_asserted or re.search(r"isfinite|isclose|done", name or text_of(test))
    return f"{bracket(test)}.all()" if is_of_all else f"{bracket(test)}.any()"


def _answer_comparison(failure: Failure, test: ast.Compare, is_asserted: bool) -> str | None:
    left, right, op = test.left, test.comparators[0], test.ops[0]
    a, b = text_of(left), text_of(right)
    if len(test.ops) > 1:
        return f"({_split_chain(test)}).all()"
    if isinstance(right, ast.Constant) and right.value is None:
        return f"{a} is {'' if isinstance(op, ast.Eq) else 'not '}None"
    sides = [compute(each, failure.frame) for each in (left, right)]
    if isinstance(op, (ast.In, ast.NotIn)):
        found = f"any(torch.equal({a}, each) for each in {b})"
        return found if isinstance(op, ast.In) else f"not {found}"
    lists = [each for each in sides if _is_list_of_tensors(each)]
    if len(lists) == 2:
        join = "torch.cat" if lists[0][0].ndim else "torch.stack"
        return f"torch.equal({join}({a}), {join}({b}))"
    counts = [each.numel() if isinstance(each, Tensor) else 1 for each in sides]
    if max(counts) < 2:
        return None
    if isinstance(op, ast.Eq) and min(counts) > 1:
        return f"torch.equal({a}, {b})"
    if isinstance(op, (ast.Lt, ast.Gt, ast.LtE, ast.GtE)) and min(counts) == 1 and RECORDS.search(f"{a} {b}"):
        large = left if counts[0] > 1 else right
        return text_of(test).replace(text_of(large), f"{bracket(large)}.mean()", 1)
    is_of_all = is_asserted or isinstance(op, ast.Eq)
    return f"({text_of(test)}).{'all' if is_of_all else 'any'}()"


def _compute_by_element(failure: Failure, test: ast.expr) -> str | None:
    """Return what gives a truth for each element, of a condition whose value is kept, and not asked for."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return f"not asks for one truth: ~{bracket(test.operand)} is the opposite of each element"
    if not isinstance(test, ast.Compare):
        return None
    if len(test.ops) > 1:
        return f"a chain asks for one truth: {_split_chain(test)}"
    sides = [compute(each, failure.frame) for each in (test.left, test.comparators[0])]
    lists = [each for each in sides if _is_list_of_tensors(each)]
    if len(lists) < 2:
        return None
    x, a, b = failure.find_operand(text_of(test.left)), text_of(test.left), text_of(test.comparators[0])
    join = "torch.cat" if lists[0][0].ndim else "torch.stack"
    return f"{a}{at(x)} and {b} are lists of {len(lists[0])} tensors: {join}({a}) == {join}({b})"


def _split_chain(test: ast.Compare) -> str:
    pairs = zip(pairwise([test.left, *test.comparators]), test.ops, strict=True)
    parts = [text_of(ast.Compare(one, [each], [other])) for (one, other), each in pairs]
    return " & ".join(f"({each})" for each in parts)


def _is_list_of_tensors(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Tensor) for each in value)


def _choose_by_element(failure: Failure, test: ast.expr, around: ast.AST | None) -> str | None:
    """Return what counts the elements, or chooses by each, where a statement does that by one."""
    if isinstance(test, (ast.BoolOp, ast.Name)) or failure.line is None:
        return None
    parents, condition = failure.line.source.parents, text_of(test)
    if isinstance(around, ast.IfExp) and around.test is test:
        statement = parents.get(around)
        if text_of(around.body) == "1" and text_of(around.orelse) == "0" and isinstance(statement, ast.AugAssign):
            return f"{text_of(statement.target)} += int(({condition}).sum())"
        return f"torch.where({condition}, {text_of(around.body)}, {text_of(around.orelse)})"
    if not isinstance(around, ast.If) or around.test is not test or not around.body:
        return None
    body = around.body[-1]
    if isinstance(body, ast.AugAssign) and isinstance(body.op, ast.Add) and not around.orelse:
        is_one = isinstance(body.value, ast.Constant) and body.value.value == 1
        more = "" if is_one else f" * {text_of(body.value)}"
        return f"{text_of(body.target)} += int(({condition}).sum()){more}, without the if"
    block = getattr(parents.get(around), "body", [])
    after = block[block.index(around) + 1 :][:1] if around in block and not around.orelse else around.orelse[-1:]
    if len(around.body) != 1 or not after or type(after[0]) is not type(body):
        return None
    other = after[0]
    if isinstance(body, ast.Return) and isinstance(other, ast.Return) and body.value and other.value:
        return f"return torch.where({condition}, {text_of(body.value)}, {text_of(other.value)}) for each"
    if isinstance(body, ast.Assign) and isinstance(other, ast.Assign) and around.orelse:
        target = text_of(body.targets[0])
        if target == text_of(other.targets[0]):
            return f"{target} = torch.where({condition}, {text_of(body.value)}, {text_of(other.value)}) for each"
    return None


def _is_optional(failure: Failure, name: ast.Name) -> bool:
    """Return whether a name is a parameter that may be None."""
    scope = None if failure.line is None else failure.line.source.scope_of(name)
    arguments = getattr(scope, "args", None)
    default = find_default(arguments, name.id) if isinstance(arguments, ast.arguments) else None
    return isinstance(default, ast.Constant) and default.value is None


def _compare_elements(failure: Failure, node: ast.Call) -> str:
    """Return what compares each element, in place of a function of Python that asks for one truth."""
    name = text_of(node.func)
    if name in ("max", "min") and len(node.args) == 2:
        values = [compute(each, failure.frame) for each in node.args]
        a, b = map(text_of, node.args)
        if all(isinstance(each, Tensor) for each in values):
            return f"Python's {name} asks for one truth: torch.{name}imum({a}, {b}) compares each element"
        a, b = (a, b) if isinstance(values[0], Tensor) else (b, a)
        bound = "min" if name == "max" else "max"
        return f"Python's {name} asks for one truth: {a}.clamp({bound}={b}) compares each element"
    told = f"{name} compares by one number each, and these have several"
    return f"{told}: key= gives one, such as x.mean().item(); torch.{name[:3]} goes by elements"

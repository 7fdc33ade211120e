"""Remedies for None that a function has given: for a key that it did not find, for a case that it does not know."""

from __future__ import annotations

import ast
import math
import re

from adjoint.core.runtime.similar_names import find_spelling
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.causes.arguments import defines
from adjoint.diagnosis.causes.computing import open_step
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.numbers import trace_number
from adjoint.diagnosis.causes.results import enter_call
from adjoint.diagnosis.causes.steps import trace_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, Origin, describe_value, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.registry import at, find_part, named_parts, remedy
from adjoint.diagnosis.source_expressions import SourceFile, find_function, find_value_of, parse_source, text_of

MAX_SHOWN_KEYS = 6


@remedy(r"'?NoneType'?")
def find_source_of_none(failure: Failure, match: re.Match[str]) -> str | None:
    """A lookup, or a chain of cases, in a function of the user's that gave None for what it was called with."""
    for each in ast.walk(failure.line.node) if failure.line is not None else ():
        if isinstance(each, ast.Attribute) and evaluate(each, failure.frame) is MISSING:  # of a property
            first = open_step(failure, each)
            for step in trace_back(first) if first is not None else ():
                told = None if step.context.stack else describe_lookup(step)
                if told is not None:
                    owner = failure.find_operand(text_of(each.value))
                    return f"{text_of(each)}, of {text_of(each.value)}{at(owner)}, is None, as {told}"
    for call in ast.walk(failure.line.node) if failure.line is not None else ():
        first = open_step(failure, call) if isinstance(call, ast.Call) else None
        told = None if first is None else _describe_unknown_case(first)
        if told is not None:
            return f"{text_of(call)} is None, as {told}"
    for operand in named_parts(failure):
        node = find_part(failure, operand.text)
        if operand.value is not None or node is None or operand.text.endswith(".grad"):
            continue
        first = open_step(failure, node)
        for step in trace_back(first) if first is not None else ():
            told = (None if step.context.stack else describe_lookup(step)) or _describe_unknown_case(step)
            if told is not None:
                return f"{operand.text}{at(operand)} is None, as {told}"
    return None


def describe_lookup(step: SourceStep) -> str | None:
    """Return which key `table.get(key)` of a function that has returned did not find."""
    call = step.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "get":
        return None
    held = step.context.program.compute(step.at(call.func.value, ()))
    key = step.context.program.compute(step.at(call.args[0], ())) if len(call.args) == 1 else MISSING
    if not isinstance(held, dict) or not isinstance(key, (str, int, type(None))) or key in held:
        return None
    if key is None:
        return f"{text_of(call)} at {step.place()} looks for {text_of(call.args[0])}, which is None: give it a value"
    where = find_literal(step.source, key, step.node)
    return f"{text_of(call)} at {step.place()} finds no {key!r}{where}: {_choose(key, list(held))}"


def _choose(key: Operand, known: list[Operand]) -> str:
    """Return which of the known keys or cases is meant, or what they are."""
    near = find_spelling(key, [each for each in known if isinstance(each, str)]) if isinstance(key, str) else None
    shown = ", ".join(map(repr, known[:MAX_SHOWN_KEYS])) + (", …" if len(known) > MAX_SHOWN_KEYS else "")
    return f"{near!r} is meant, perhaps" if near is not None else f"one of {shown}" if known else "it is empty"


def _describe_unknown_case(step: SourceStep) -> str | None:
    """Return which value a chain of `if kind == "a": return …` of a function that is called does not know."""
    context = enter_call(step, step.node) if isinstance(step.node, ast.Call) else None
    made = None if context is None else defines(context.function)
    if context is None or made is None or not isinstance(made[1].body[-1], (ast.If, ast.Match)):
        return None
    source, scope = made
    inside, compute = SourceStep(context, step.node), context.program.compute
    last = scope.body[-1]
    if isinstance(last, ast.If) and not last.orelse:
        for name in (each for each in ast.walk(last.test) if isinstance(each, ast.Name)):
            looked = (describe_lookup(former) for former in trace_back(inside.at(name, ())))
            told = next((each for each in looked if each is not None), None)
            if told is not None:
                return f"{told}; {scope.name} at {source.place_of(scope)} returns nothing then"
    test = last.test if isinstance(last, ast.If) and not last.orelse else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.In):
        key, held = (compute(inside.at(each, ())) for each in (test.left, test.comparators[0]))
        if isinstance(held, (dict, list, tuple, set)) and isinstance(key, (str, int)) and key not in held:
            told = f"{scope.name} at {source.place_of(scope)} returns nothing where {text_of(test.left)} is {key!r}"
            return f"{told}{find_literal(source, key, scope)}: {_choose(key, list(held))}"
    subjects: dict[str, ast.expr] = {}
    known: list[Operand] = []
    for case in last.cases if isinstance(last, ast.Match) else ():
        if not isinstance(case.pattern, ast.MatchValue) or not isinstance(case.pattern.value, ast.Constant):
            return None
        subject = last.subject if isinstance(last, ast.Match) else None
        subjects |= {} if subject is None else {text_of(subject): subject}
        known.append(case.pattern.value.value)
    for statement in scope.body:
        branch: ast.stmt | None = statement
        while isinstance(branch, ast.If):
            subject, cases = read_test(branch.test)
            if subject is not None:
                subjects[text_of(subject)] = subject
                known += cases
            if branch.orelse and not (len(branch.orelse) == 1 and isinstance(branch.orelse[0], ast.If)):
                return None  # it has an else
            branch = branch.orelse[0] if branch.orelse else None
    if len(subjects) != 1:
        return None
    told = describe_unknown_value(inside.at(next(iter(subjects.values())), ()), known)
    return None if told is None else f"{scope.name} at {source.place_of(scope)} returns nothing where {told}"


def describe_unknown_value(subject: SourceStep, known: list[Operand]) -> str | None:
    """Return which value a chain of cases does not know, where it stands, and which case is meant."""
    value = subject.context.program.compute(subject)
    if not known or not isinstance(value, (str, int)) or value in known:
        return None
    root = trace_number(subject, value).root
    where = "" if root.node is subject.node else f", from {root.place()}"
    told = f"{text_of(subject.node)} is {value!r}{where}"
    return f"{told}: {_choose(value, known)}, or an else that raises ValueError"


def describe_untaken_branch(failure: Failure, origin: Origin, name: str) -> str | None:
    """Return the branch that would have given a name its value, and was taken in no turn, with what it compares."""
    source, scope = origin.source, origin.source.scope_of(origin.node)
    for made in source.assignments_in(scope).get(name, ()):
        around: ast.AST | None = source.parents.get(made)
        while around is not None and not isinstance(around, (ast.If, ast.FunctionDef)):
            around = source.parents.get(around)
        test = around.test if isinstance(around, ast.If) else None
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            continue
        told = f"{source.place_of(made)} gives it a value only where {text_of(test)}, which was true in no turn"
        sides = (test.left, test.comparators[0])
        for best in sides:
            first = source.assignments_in(scope).get(text_of(best), [])
            value = evaluate(best, failure.frame)
            if len(first) < 2 or not isinstance(test.ops[0], (ast.Lt, ast.Gt)) or type(value) not in (int, float):
                continue
            if find_value_of(first[0], text_of(best)) is not None and abs(value) != math.inf:
                start = '-float("inf")' if isinstance(test.ops[0], ast.Gt) == (best is sides[1]) else 'float("inf")'
                other = sides[best is sides[0]]
                shown = describe_value(evaluate(other, failure.frame))
                told = f"{told}, for {text_of(other)} is {shown} and {text_of(best)} {value!r}"
                return f"{told}: {text_of(best)} = {start} at {source.place_of(first[0])}"
        return f"{told}: {name} = … before it too"
    return None


def read_test(test: ast.expr) -> tuple[ast.expr | None, list[Operand]]:
    """Return what a test such as `kind == "a"` or `kind in ("a", "b")` looks at, and for which values."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None, []
    other = test.comparators[0]
    if isinstance(test.ops[0], ast.Eq) and isinstance(other, ast.Constant):
        return test.left, [other.value]
    if isinstance(test.ops[0], ast.In) and isinstance(other, (ast.Tuple, ast.List, ast.Set)):
        return test.left, [each.value for each in other.elts if isinstance(each, ast.Constant)]
    return None, []


def find_literal(source: SourceFile, value: Operand, but: ast.AST) -> str:
    """Return ", from train.py:15" for the only place of a file where a text stands, outside of a function."""
    inside = set(ast.walk(but))
    found = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(value, str) and node.value == value and node not in inside
    ]
    return f", from {source.place_of(found[0])}" if len(found) == 1 else ""


def find_stored_item(failure: Failure, name: str) -> str:
    """Return " at train.py:6" for the statement that stores an item of a table, as a hook does."""
    source = None if failure.line is None else failure.line.source
    for node in source.nodes_of(ast.Assign) if source is not None and name.endswith("]") else ():
        if any(text_of(target) == name for target in node.targets) and source is not None:
            return f" at {source.place_of(node)}"
    return ""


def find_unasked_argument(failure: Failure, node: ast.AST | None) -> str | None:
    """Return which argument a call left to None, without which its function does not compute what the line reads."""
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)] if node is not None else []
    for part in names if failure.line is not None else ():
        origin = find_origin(failure.line.source, part, failure.stack) if failure.line is not None else None
        call = None if origin is None else origin.value
        called = evaluate(call.func, failure.frame) if isinstance(call, ast.Call) else None
        function = getattr(type(called), "forward", None) if is_module(called) else called
        code = getattr(function, "__code__", None)
        source = parse_source(code.co_filename) if code is not None and user_files[code.co_filename] else None
        scope = find_function(source, code.co_firstlineno) if source is not None and code is not None else None
        if scope is None or not isinstance(call, ast.Call) or origin is None:
            continue
        defaults = [each.arg for each in scope.args.args[len(scope.args.args) - len(scope.args.defaults) :]]
        given = [each.arg for each in scope.args.args if each.arg != "self"][: len(call.args)]
        left = [each for each in defaults if each not in given and each not in {key.arg for key in call.keywords}]
        tests = {text_of(each.test) for each in ast.walk(scope) if isinstance(each, ast.If)}
        label = next((each for each in left if f"{each} is not None" in tests), None)
        if label is not None:
            changed = ast.Call(call.func, call.args, [*call.keywords, ast.keyword(label, ast.Constant(...))])
            told = f"{text_of(call)} at {origin.place()} gives no {label}"
            return f"{told}: {text_of(changed).replace('Ellipsis', '…').replace('...', '…')}"
    return None

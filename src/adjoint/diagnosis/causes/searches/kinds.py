"""Causes of values of a wrong kind: where None, a text, a tuple or a list comes from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.assignments import find_truth
from adjoint.diagnosis.causes.called_functions import find_function_called
from adjoint.diagnosis.causes.contexts import MAX_DEPTH, CodeContext, SourceStep, pair_targets
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.numbers import trace_number
from adjoint.diagnosis.causes.results import enter_call, find_returned
from adjoint.diagnosis.causes.searches.keys import find_absent_key
from adjoint.diagnosis.causes.searches.kind_traces import trace_kind
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, describe_value
from adjoint.diagnosis.source_expressions import text_of

KINDS = re.compile(
    r"'(\w+)'(?: object| and|$)|data type '(\w+)'|"
    r"not (?:type )?'?(\w+)'?(?:$|\.|\))|but got (\w+)$|type (\w+)\b|non-iterable (\w+) object|\(not \"(\w+)\"\)"
)


SKIPPED = frozenset({"Tensor", "module", "type", "a", "in", "be"})


NUMBERS = ("int", "float")


UNFITTING_TUPLES = "Can't call numpy() on Tensor that requires grad"


def find_kind_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return where a value of a kind that the error tells of comes from."""
    names = [next(name for name in each if name) for each in KINDS.findall(failure.message) if any(each)]
    wanted = {each for each in names if each not in SKIPPED}
    skipped = isinstance(failure.error, AttributeError) and "self" in wanted
    wanted = set() if skipped else wanted
    if UNFITTING_TUPLES in failure.message:
        wanted = {"tuple", "list"}
    wanted |= _find_odd_kinds(failure, step)
    option = _find_option(failure, step, wanted)
    if option is not None:
        return option
    wanted = {each for each in wanted if each not in NUMBERS} or wanted  # a number beside None is not to blame
    for part in sorted(_find_parts(failure, step), key=lambda each: _kind_of(each) in NUMBERS):
        ended = _describe_end(part) if "NoneType" in wanted else None
        if ended is not None and isinstance(part.node, ast.Call):
            return f"{text_of(part.node)} is None: {ended[0]}", ended[1]
        absent = _find_absent(part) if "NoneType" in wanted and isinstance(part.node, ast.Call) else None
        if absent is not None:
            return f"{text_of(part.node)} is None: {absent[0]}", absent[1]
        is_held = not part.keys and not isinstance(part.node, ast.Call)
        value = look_up(part.context, part.node) if is_held else step.context.program.compute(part)
        kind = type(value).__name__
        if UNFITTING_TUPLES in failure.message and kind == "list" and not part.keys:
            continue  # it is what it holds that has graphs
        if (
            value is MISSING
            or kind not in wanted
            or is_name_of_package(type(value).__module__)
            or text_of(part.node) == "self"
        ):
            continue
        found = _trace_unfitting(part, value)
        if found is not None:
            return found
    return None


def _find_option(failure: Failure, step: SourceStep, wanted: set[str]) -> tuple[str, SourceStep] | None:
    """Return the statement such as `group["lr"] = value` that gave an optimizer an option of a wrong kind."""
    owners = [getattr(each.value, "__dict__", {}) for each in failure.operands]
    groups = [group for held in owners for group in held.get("param_groups", ())]
    odd = {key: value for each in groups for key, value in each.items() if type(value).__name__ in wanted}
    program = step.context.program
    for source in program.sources if odd else ():
        for each in source.nodes_of(ast.Assign):
            target = each.targets[0]
            key = (
                target.slice.value
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant)
                else None
            )
            if key in odd:
                given = SourceStep(program.find_context(source, source.scope_of(each)), each.value)
                ended = _describe_end(given) if odd[key] is None else None
                told = f": {ended[0]}" if ended is not None else ""
                return f"the option {key!r} is {describe_value(odd[key])}, by {given.line()}{told}", given
    return None


def _kind_of(part: SourceStep) -> str:
    return type(look_up(part.context, part.node)).__name__


def _find_odd_kinds(failure: Failure, step: SourceStep) -> set[str]:
    """Return the kinds of texts, lists and None that a line computes with, where the message does not tell them."""
    found: set[str] = set()
    if isinstance(failure.error, TypeError) and not isinstance(step.node, ast.Call):
        for each in ast.walk(step.node):
            for side in (each.left, each.right) if isinstance(each, ast.BinOp) else ():
                value = look_up(step.context, side)
                if value is None or isinstance(value, (str, list, dict)):
                    found.add(type(value).__name__)
    return found


def _find_parts(failure: Failure, step: SourceStep) -> Iterator[SourceStep]:
    """Yield the parts of the line that have values, whole ones first; and what the first item of a list is."""
    statement = step.source.statement_of(step.node)
    whole = step.node if not isinstance(statement, ast.AugAssign) else statement
    nodes = [each for each in ast.walk(whole) if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript))]
    nodes = [each for each in nodes if not isinstance(each.ctx, ast.Store) or isinstance(statement, ast.AugAssign)]
    for call in ast.walk(whole):
        is_given = call is not step.node or isinstance(failure.node, ast.Tuple)  # and was to be unpacked
        if isinstance(call, ast.Call) and is_given and find_function_called(step, call)[0] is not None:
            yield step.at(call, ())
    for each in sorted(nodes, key=lambda each: -len(text_of(each))):
        yield step.at(each, ())
    found = re.search(r"element (\d+)", failure.message)
    for each in nodes:
        if isinstance(look_up(step.context, each), (list, tuple)):
            place = int(found[1]) if found is not None else 0
            yield step.at(each, (place,))
            if isinstance(step.context.program.compute(step.at(each, (place,))), (list, tuple)):
                yield step.at(each, (0, place))


def _trace_unfitting(part: SourceStep, value: Operand) -> tuple[str, SourceStep] | None:
    """Return the words for where such a value comes from, and the line."""
    kind = type(value)

    def fits(other: Operand) -> bool:
        return type(other) is kind and (bool(part.keys) or not isinstance(value, (str, int)) or other == value)

    steps = trace_kind(part, fits)
    last = steps[-1]
    name = text_of(part.node) + "".join(f"[{each!r}]" for each in part.keys)
    if value is None:
        ended = _describe_end(last) or _find_absent(part) or _find_unset(steps)
        if ended is not None:
            return f"{name} is None: {ended[0]}", ended[1]
    if len(steps) == 1:
        return None
    if isinstance(value, float) and isinstance(last.node, ast.BinOp):
        for side in (last.node.left, last.node.right):
            inner = last.at(side, ())
            if type(part.context.program.compute(inner)) is float:
                last = trace_kind(inner, lambda each: type(each) is float)[-1]
    shown = describe_value(value)
    if value is not None:
        shown = f"a {shown}" if shown == kind.__name__ else f"{shown}, a {kind.__name__}"
    if isinstance(value, (list, tuple)):
        shown = f"a {kind.__name__} of {len(value)}"
    handed = find_handing(steps)
    told = "" if handed is None or handed.place() == last.place() else f", handed on at {handed.line()}"
    return f"{name} is {shown}, from {last.line()}{told}", last


def _find_unset(steps: list[SourceStep]) -> tuple[str, SourceStep] | None:
    """Return the statement that gave None to a name at first, where only one in a test can have given it more."""
    for step in steps if not isinstance(steps[-1].node, ast.Constant) else ():
        name = step.node.id if isinstance(step.node, ast.Name) and not step.context.stack else ""
        for each in step.source.assignments_in(step.context.scope).get(name, []):
            pairs = pair_targets(each) if isinstance(each, ast.Assign) else []
            given = [value for target, value in pairs if text_of(target) == name]
            if given and isinstance(given[0], ast.Constant) and given[0].value is None:
                made = step.at(given[0], ())
                test = _find_test(steps[-1], step.context.scope)
                if test is None:
                    return None
                told = f"{name} is None at {made.place()}, and {steps[-1].place()} is not reached"
                return f"{told}, under the test of {step.source.place_of(test)}: {text_of(test)}", made.at(test, ())
    return None


def _find_test(step: SourceStep, scope: ast.AST) -> ast.expr | None:
    """Return the test around an expression in its function."""
    around: ast.AST | None = step.source.parents.get(step.node)
    while around is not None and around is not scope:
        if isinstance(around, ast.If):
            return around.test
        around = step.source.parents.get(around)
    return None


def _find_absent(part: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the table on the way of None that has not the key which was asked for."""
    steps = trace_kind(part, lambda value: value is None)
    return next((found for each in steps[::-1] if (found := find_absent_key(each)) is not None), None)


def find_handing(steps: list[SourceStep]) -> SourceStep | None:
    """Return the nearest `return` by which a function of the user's handed a value on."""
    for step in steps[1:]:
        statement = step.source.statement_of(step.node)
        if isinstance(statement, ast.Return):
            return step
    return None


def _describe_end(step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return where a function of the user's ends without a return, for a call that gave None."""
    node = step.node
    if not isinstance(node, ast.Call):
        return None
    context = enter_call(step, node)
    body = getattr(context.scope, "body", []) if context is not None else []
    last = None if context is None or isinstance(body, ast.expr) else find_silent_end(context, body)
    if context is None or last is None:
        returned = [] if context is None or context.depth > MAX_DEPTH else find_returned(context, step.keys)
        return next((found for each in returned if (found := _describe_end(each)) is not None), None)
    first = next((each for each in ast.walk(last) if isinstance(each, ast.expr)), node)
    inner = SourceStep(context, first)
    called = getattr(context.function, "__qualname__", "").rpartition("<locals>.")[2]
    told = f"{called}, called at {step.place()}, ends at {inner.line()}, without a return"
    return told + _describe_tested(context, last), inner


def _describe_tested(context: CodeContext, last: ast.stmt) -> str:
    """Return the value that the tests of a function's last block read, and where it comes from."""
    tests = [last.subject] if isinstance(last, ast.Match) else []
    body = getattr(context.scope, "body", []) if isinstance(last, ast.If) else []
    branch = next((each for each in body if last in ast.walk(each)), None)
    while isinstance(branch, ast.If):
        tests.append(branch.test)
        branch = branch.orelse[0] if branch is not last and branch.orelse else None
    for each in (part for test in tests for part in ast.walk(test)):
        if not isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)):
            continue
        step = SourceStep(context, each)
        value = context.program.compute(step)
        trace = trace_number(step, value) if isinstance(value, (str, int)) else None
        if trace is not None and len(trace.steps) > 1:
            return f", where {text_of(each)} is {value!r}, from {trace.describe()}"
    return ""


def find_silent_end(context: CodeContext, body: list[ast.stmt]) -> ast.stmt | None:
    """Return the last statement of a function's block that runs, where no return follows it."""
    if not body:
        return None
    last = body[-1]
    if isinstance(last, (ast.Return, ast.Raise)):
        return None
    if isinstance(last, ast.If):
        held = find_truth(SourceStep(context, last.test))
        if held is not None:
            return find_silent_end(context, last.body if held else last.orelse) or (
                last if not held and not last.orelse else None
            )
        ends = [find_silent_end(context, each) for each in (last.body, last.orelse)]
        return next((each for each in ends if each is not None), None if last.orelse else last)
    if isinstance(last, (ast.With, ast.AsyncWith)):
        return find_silent_end(context, last.body)
    if isinstance(last, (ast.For, ast.While, ast.AsyncFor)):
        return last.body[-1]
    return last

"""Causes of values in each other's place: arguments, fields and results in another order than their names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from adjoint.diagnosis.causes.arguments import defines, find_argument, find_call, own_parameters
from adjoint.diagnosis.causes.called_functions import find_function_called
from adjoint.diagnosis.causes.contexts import ITEM, CodeContext, SourceStep, find_step
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.steps import find_former
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.repairs.trial import Trial, runs
from adjoint.diagnosis.source_expressions import text_of

MAX_CALLS = 4


def find_crossed_names(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return a call, or an assignment of several values, whose names stand in another order than those it meets."""
    for each in _related_steps(step):
        around = each.source.parents.get(each.node)
        target = around.targets[0] if isinstance(around, ast.Assign) else None
        found = _find_crossed_call(each)
        if found is None and isinstance(target, ast.Tuple):
            found = _compare_targets(each, target, find_former(each))
        if found is not None:
            return found
    return _find_crossed_samples(step) or find_swapped_arguments(failure, step)


def _related_steps(step: SourceStep) -> Iterator[SourceStep]:
    """Yield the calls of the functions that run, innermost first, and then those of the rest of the file."""
    program = step.context.program
    scopes: list[ast.AST] = []
    for i in range(len(program.stack)):
        found = find_step(program, program.stack[i:])
        if found is not None and found.context.scope not in scopes:
            scopes.append(found.context.scope)
            yield from (SourceStep(found.context, each) for each in _own_calls(found.context))
    for scope in step.source.nodes_of(ast.FunctionDef):
        if scope not in scopes:
            context = CodeContext(step.source, scope, program)
            yield from (SourceStep(context, each) for each in _own_calls(context))


def _own_calls(context: CodeContext) -> list[ast.Call]:
    found = (each for each in ast.walk(context.scope) if isinstance(each, ast.Call))
    return [each for each in found if context.source.scope_of(each) is context.scope]


def _field_names(step: SourceStep, call: ast.Call) -> list[str]:
    """Return the names of what a call takes by place: of a function, a class, a named tuple."""
    called = look_up(step.context, call.func)
    if isinstance(called, type):
        fields = getattr(called, "_fields", None) or list(getattr(called, "__dataclass_fields__", ()))
        if fields:
            return list(fields)
        called = vars(called).get("__init__")
    function = called if defines(called) is not None else find_function_called(step, call)[0]
    made = defines(function)
    return [] if made is None else own_parameters(made[1])


def _find_crossed_call(step: SourceStep) -> tuple[str, SourceStep] | None:
    call = step.node
    if not isinstance(call, ast.Call) or not call.args:
        return None
    whole = call.args[0].value if isinstance(call.args[0], ast.Starred) else None  # f(*table.values())
    if isinstance(whole, ast.Call) and text_of(whole).endswith(".values()") and isinstance(whole.func, ast.Attribute):
        table = look_up(step.context, whole.func.value)
        keys = [str(each) for each in table] if isinstance(table, dict) else []
        names = _field_names(step, call)
        crossed = _find_crossed(keys, names)
        if crossed is not None:
            i, j = crossed
            told = f"{text_of(whole)} gives {keys[i]!r} for {names[i]}, and {keys[j]!r} for {names[j]}"
            return f"{told}, in {step.line()}", step
    given = [_last_name(each) for each in call.args]
    names = _field_names(step, call)
    crossed = _find_crossed(given, names)
    if crossed is None:
        return None
    i, j = crossed
    told = f"{text_of(call.args[i])} stands where {names[i]} belongs, and {text_of(call.args[j])} where {names[j]}"
    return f"{told}, in {step.line()}", step


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _find_crossed(given: list[str], names: list[str]) -> tuple[int, int] | None:
    """Return two places of which each has the name of another place."""
    wrong = [
        i for i, name in enumerate(given[: len(names)]) if len(name) > 1 and name in names and names.index(name) != i
    ]
    for i in wrong:
        j = names.index(given[i])
        if j in wrong:
            return i, j
    return None


def _find_crossed_samples(step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the loops that run which give the parts of a sample to names in another order than a data set has."""
    program = step.context.program
    for i in range(len(program.stack)):
        found = find_step(program, program.stack[i:])
        for loop in ast.walk(found.context.scope) if found is not None else ():
            if found is not None and isinstance(loop, ast.For) and isinstance(loop.target, ast.Tuple):
                whole = found.at(loop.iter, (ITEM,))
                samples = [each for former in find_former(whole) for each in (former, *find_former(former))]
                crossed = _compare_targets(whole, loop.target, samples)
                if crossed is not None:
                    return crossed
    return None


def _compare_targets(step: SourceStep, target: ast.Tuple, results: list[SourceStep]) -> tuple[str, SourceStep] | None:
    """Return which of several names get each other's results."""
    for each in results:
        if not isinstance(each.node, ast.Tuple) or len(each.node.elts) != len(target.elts):
            continue
        names = [_last_name(part) for part in target.elts]
        stems = [part.value if isinstance(part, ast.Subscript) else part for part in each.node.elts]
        crossed = _find_crossed(names, [_last_name(part) for part in stems])
        crossed = crossed or _find_crossed_stems(names, [_name_of_root(each, part) for part in each.node.elts])
        if crossed is not None:
            i, j = crossed
            told = f"{names[i]} gets {text_of(each.node.elts[i])}, and {names[j]} {text_of(each.node.elts[j])}"
            return f"{told}, in {step.line()}; they are given at {each.line()}", step
    return None


def _name_of_root(step: SourceStep, node: ast.expr) -> str:
    """Return the caller's name of what a result is a part of."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        inner = node.value if isinstance(node, ast.Subscript) else node.func
        node = inner.value if isinstance(inner, ast.Attribute) and isinstance(node, ast.Call) else inner
    given = find_argument(step.context, node.id) if isinstance(node, ast.Name) else None
    return _last_name(given.node) if given is not None else _last_name(node)


def _find_crossed_stems(names: list[str], roots: list[str]) -> tuple[int, int] | None:
    """Return two places whose names, such as `y_train`, have each the stem of the other's result."""
    stems = [next((root for root in set(roots) if root and root in name.split("_")), "") for name in names]
    if not all(stems) or sorted(stems) != sorted(roots) or stems == roots:
        return None
    wrong = [i for i, (stem, root) in enumerate(zip(stems, roots, strict=True)) if stem != root]
    return next(((i, j) for i in wrong for j in wrong if stems[i] == roots[j] and stems[j] == roots[i]), None)


def find_swapped_arguments(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the call of a user's function that gives two arguments the wrong way round, which it hands on."""
    call = step.node
    if not isinstance(call, ast.Call) or len(call.args) < 2 or not step.context.stack:
        return None
    names = [each.id for each in call.args[:2] if isinstance(each, ast.Name)]
    outer = find_call(step.context)
    if len(names) != 2 or outer is None or not all(find_argument(step.context, each) for each in names):
        return None
    if any(each in step.source.assignments_in(step.context.scope) for each in names):
        return None
    swapped = ast.Call(call.func, [call.args[1], call.args[0], *call.args[2:]], call.keywords)
    if runs(call, failure.frame):
        return None  # what takes its result is what failed
    try:
        Trial(swapped, failure.frame).run(swapped)
    except Exception:  # noqa: BLE001  what a changed line may raise
        return None
    given = [find_argument(step.context, each) for each in names]
    for _ in range(MAX_CALLS):
        nodes = [each.node for each in given if each is not None]
        inner = [each.id for each in nodes if isinstance(each, ast.Name)]
        further: list[SourceStep | None] = (
            [find_argument(outer.context, each) for each in inner] if len(inner) == 2 else [None]
        )
        beyond = find_call(outer.context) if all(each is not None for each in further) else None
        if beyond is None:
            break
        given, outer = further, beyond
    texts = [text_of(each.node) for each in given if each is not None]
    if len(texts) != 2:
        return None
    told = f"{names[0]} is {texts[0]} and {names[1]} is {texts[1]}, the wrong way round, by {outer.line()}"
    return told, outer

"""Steps back from a value to the expression that gave it: through names, attributes, items, arguments and results."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.arguments import find_argument
from adjoint.diagnosis.causes.assignments import find_statements
from adjoint.diagnosis.causes.attributes import find_attribute
from adjoint.diagnosis.causes.called_functions import find_input
from adjoint.diagnosis.causes.contexts import ITEM, CodeContext, SourceStep
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.results import find_results, find_samples
from adjoint.diagnosis.causes.statements import enter_loop, enter_statement
from adjoint.diagnosis.source_expressions import find_attribute_assignment, is_comprehension_item

MAX_STEPS = 40


def trace_back(first: SourceStep) -> Iterator[SourceStep]:
    """Yield a step and those before it, nearest first: depth first, through what only hands a value on."""
    pending, seen = [first], set[object]()
    while pending and len(seen) < MAX_STEPS:
        step = pending.pop(0)
        mark = step.mark
        if mark in seen:
            continue
        seen.add(mark)
        yield step
        pending = [*find_former(step), *pending]


def find_former(step: SourceStep) -> list[SourceStep]:
    """Return the expressions that a value came from as it is; none where the expression makes it."""
    node = step.node
    if step.before == 0 and isinstance(node, ast.Call) and node.args:
        return [step.at(node.args[0])]
    if isinstance(node, ast.Name):
        return _find_name(step, node)
    if isinstance(node, ast.Attribute):
        owner = look_up(step.context, node.value)
        is_module = type(owner) is ModuleType
        found = _find_in_module(step, owner, node.attr) if is_module else find_attribute(step, node)
        return found or _find_field(step, node)
    if isinstance(node, ast.IfExp):
        return [step.at(node.body), step.at(node.orelse)]
    if isinstance(node, (ast.Await, ast.Starred, ast.NamedExpr)):
        return [step.at(node.value)]
    if isinstance(node, ast.BoolOp):
        return [step.at(each) for each in node.values[::-1]]
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Slice):
            return [step.at(node.value)] if step.keys else []
        key = step.context.program.compute(step.at(node.slice, ()))
        return [step.at(node.value, (*step.keys, key if isinstance(key, (int, str)) else ITEM))]
    if isinstance(node, (ast.Tuple, ast.List)):
        return _find_element(step, node.elts)
    if isinstance(node, ast.Dict):
        return _find_entry(step, node)
    if isinstance(node, ast.BinOp) and step.keys:
        return _find_joined(step, node)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return [step.at(node.elt, step.keys[:-1])] if step.keys else []
    if isinstance(node, ast.DictComp):
        return [step.at(node.value, step.keys[:-1])] if step.keys else []
    if isinstance(node, ast.Call):
        return find_results(step, node)
    return []


def _find_field(step: SourceStep, node: ast.Attribute) -> list[SourceStep]:
    """Return what gave a field to an object of a data class that no frame holds, by the call that made the object."""
    for made in trace_back(step.at(node.value, ())):
        call = made.node
        kind = look_up(made.context, call.func) if isinstance(call, ast.Call) and not made.keys else None
        fields = getattr(kind, "__dataclass_fields__", {}) if isinstance(kind, type) else {}
        if not isinstance(call, ast.Call) or node.attr not in fields:
            continue
        names = list(fields)
        given = next((each.value for each in call.keywords if each.arg == node.attr), None)
        place = names.index(node.attr)
        given = call.args[place] if given is None and place < len(call.args) else given
        if given is not None:
            return [made.at(given, step.keys)]
        found = find_attribute_assignment(kind, node.attr)
        value = None if found is None else getattr(found[1], "value", None)
        if found is None or not isinstance(value, ast.expr):
            return []
        source, statement = found
        context = CodeContext(source, source.scope_of(statement), step.context.program)
        factory = [each.value for each in getattr(value, "keywords", ()) if each.arg == "default_factory"]
        made_by = ast.copy_location(ast.Call(factory[0], [], []), value) if factory else value
        return [SourceStep(context, made_by, step.keys)]
    return []


def find_root(first: SourceStep, size: int) -> tuple[str, str] | None:
    """Return the name, with its place, that a value of so many rows was computed from, through layers and functions."""
    step, found = first, None
    for _ in range(MAX_STEPS):
        former = find_former(step)
        if isinstance(step.node, ast.Name) and former and ITEM not in former[0].keys:
            value = step.context.program.compute(step)
            rows = value.shape[:1] if isinstance(value, Tensor) else ()
            found = (step.node.id, former[0].place()) if step.context.stack and rows == (size,) else found
        if not former and isinstance(step.node, ast.Call) and (inner := find_input(step, step.node)) is not None:
            former = [inner]
        if not former:
            break
        step = former[0]
    return found


def _find_joined(step: SourceStep, node: ast.BinOp) -> list[SourceStep]:
    """Return the lists of which a sum or a multiple, such as `[a] + [b] * n`, has the item that is meant."""
    key, inner = step.keys[-1], step.keys[:-1]
    if isinstance(node.op, ast.Mult):
        lists = [each for each in (node.left, node.right) if isinstance(each, (ast.List, ast.Tuple))]
        return [step.at(each, (*inner, ITEM)) for each in lists]
    if not isinstance(node.op, ast.Add) or ast.Constant in map(type, (node.left, node.right)):  # of numbers
        return []
    count = len(node.left.elts) if isinstance(node.left, (ast.List, ast.Tuple)) else None
    if isinstance(key, int) and count is not None and key >= 0:
        return [step.at(node.left)] if key < count else [step.at(node.right, (*inner, key - count))]
    return [step.at(each, (*inner, ITEM)) for each in (node.left, node.right)]


def _find_element(step: SourceStep, elements: list[ast.expr]) -> list[SourceStep]:
    key = step.keys[-1] if step.keys else None
    if key is ITEM and elements:
        return [step.at(each, step.keys[:-1]) for each in elements]
    starred = [i for i, each in enumerate(elements) if isinstance(each, ast.Starred)]
    if isinstance(key, int) and -len(elements) <= key < len(elements) and not any(i <= key for i in starred):
        return [step.at(elements[key], step.keys[:-1])]
    return []


def _find_entry(step: SourceStep, node: ast.Dict) -> list[SourceStep]:
    key = step.keys[-1] if step.keys else None
    wholes: list[ast.expr] = []
    if key is ITEM:
        return [step.at(value, step.keys[:-1]) for name, value in zip(node.keys, node.values, strict=True) if name]
    for name, value in reversed([*zip(node.keys, node.values, strict=True)]):
        if name is None:
            wholes.append(value)
        elif isinstance(name, ast.Constant) and name.value == key:
            return [step.at(value, step.keys[:-1])]
    return [step.at(each) for each in wholes]


def _find_name(step: SourceStep, node: ast.Name) -> list[SourceStep]:
    if step.keys and step.keys[-1] is ITEM:
        samples = find_samples(step, look_up(step.context, node))
        if samples:
            return samples
    if is_comprehension_item(step.source, node):
        return _find_comprehension(step, node)
    statements = find_statements(step, node)
    if statements:
        moved = [(replace(step, context=context), each) for context, each in statements]
        return [former for inner, each in moved for former in enter_statement(inner, each, node.id)]
    given = find_argument(step.context, node.id, step.keys)
    if given is not None:
        return [given]
    if isinstance(step.context.scope, ast.Module):
        return _find_in_module(step, *step.context.program.find_import(step.context, node.id))
    outer = _outer_context(step.context)
    return [] if outer is None else _find_name(SourceStep(outer, node, step.keys), node)


def _find_in_module(step: SourceStep, module: Operand, name: str) -> list[SourceStep]:
    """Return what gave a name of a user's module its value."""
    context, node = step.context.program.enter_module(module), ast.Name(name, ast.Load())
    return [] if context is None else _find_name(SourceStep(context, node, step.keys), node)


def _outer_context(context: CodeContext) -> CodeContext | None:
    """Return the context of the function, or of the module, around a scope."""
    scope = context.source.scope_of(context.scope)
    while isinstance(scope, ast.ClassDef):
        scope = context.source.scope_of(scope)
    running, call = context.program.find_running(context.source, scope), context.call
    while running is None and call is not None:  # of a function that has returned, and has called this one
        running = call.context if call.context.scope is scope else None
        call = call.context.call
    is_whole = isinstance(scope, ast.Module)
    return running or (CodeContext(context.source, scope, context.program) if is_whole else None)


def _find_comprehension(step: SourceStep, node: ast.Name) -> list[SourceStep]:
    around: ast.AST | None = step.source.parents.get(node)
    while around is not None and not isinstance(around, ast.stmt):
        for each in getattr(around, "generators", ()):
            if any(isinstance(part, ast.Name) and part.id == node.id for part in ast.walk(each.target)):
                return enter_loop(step, each.target, each.iter, node.id)
        around = step.source.parents.get(around)
    return []

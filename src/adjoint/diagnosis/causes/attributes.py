"""Attributes of objects: the statement, the argument or the field that gave an object what it holds."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import replace

from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.assignments import find_class_value, find_fillings
from adjoint.diagnosis.causes.called_functions import unwrap
from adjoint.diagnosis.causes.contexts import CodeContext, SourceStep
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.results import find_returned
from adjoint.diagnosis.causes.statements import enter_statement
from adjoint.diagnosis.operands import MISSING
from adjoint.diagnosis.source_expressions import SourceFile, find_attribute_assignment, parse_source, text_of


def find_attribute(step: SourceStep, node: ast.Attribute) -> list[SourceStep]:
    """Return what gave an attribute: a statement of the class, an argument of the call that made its owner."""
    owner = step.context.program.compute(step.at(node.value, ()))
    if owner is MISSING and text_of(node.value) == "self" and step.context.kind is not None:
        return _find_attribute_of_kind(step, node.attr)
    if owner is MISSING or inspect.ismodule(owner):
        return []
    static = inspect.getattr_static(type(owner), node.attr, None)
    getter = unwrap(getattr(static, "fget", getattr(static, "func", None)))
    if getter is not None:
        context = step.context.program.enter(getter, None, owner)
        return [] if context is None else find_returned(context, step.keys)
    return find_attribute_of(step, owner, node.attr)


def _find_attribute_of_kind(step: SourceStep, name: str) -> list[SourceStep]:
    """Return what gives an attribute to an object of a class that no frame holds."""
    kind, context = step.context.kind, step.context
    found = step.source.attribute_assignments.get((getattr(kind, "__name__", ""), name), [])
    for statement in found[:1]:
        scope = step.source.scope_of(statement)
        function = unwrap(inspect.getattr_static(kind, getattr(scope, "name", ""), None))
        inner = replace(context, scope=scope, call=context.made, function=function, samples=None)
        first = SourceStep(inner, ast.Name(f"self.{name}", ast.Load()), step.keys)
        fillings = _find_fillings(first, f"self.{name}", statement)
        return fillings or enter_statement(first, statement, f"self.{name}")
    return []


def find_attribute_of(step: SourceStep, owner: Operand, name: str) -> list[SourceStep]:
    """Return what gave an object its attribute."""
    program = step.context.program
    for source, node in _outside_assignments(step, owner, name):
        context = program.find_running(source, source.scope_of(node))
        value = getattr(source.statement_of(node), "value", None)
        if context is not None and isinstance(value, ast.expr):
            return [SourceStep(context, value, step.keys)]
    found = find_attribute_assignment(owner, name)
    if found is None:
        return find_class_value(step, owner, name, program.find_construction(owner))
    source, statement = found
    scope = source.scope_of(statement)
    if isinstance(scope, ast.ClassDef):
        values = find_class_value(step, owner, name, program.find_construction(owner))
        value = getattr(statement, "value", None)
        own = SourceStep(CodeContext(source, scope, program), value, step.keys) if isinstance(value, ast.expr) else None
        return values or ([] if own is None else [own])
    context = context_of_method(step, owner, source, scope)
    first = SourceStep(context, ast.Name(f"self.{name}", ast.Load()), step.keys)
    fillings = _find_fillings(first, f"self.{name}", statement)
    return fillings or enter_statement(first, statement, f"self.{name}")


def _find_fillings(step: SourceStep, name: str, statement: ast.stmt) -> list[SourceStep]:
    """Return what the methods of a class put into a list or a table that a statement makes."""
    if not step.keys:
        return []
    kind = step.source.scope_of(step.context.scope)
    around = kind if isinstance(kind, ast.ClassDef) else step.context.scope
    found: list[SourceStep] = []
    for each in find_fillings(step.context, name, statement, step.keys[-1], around):
        scope, context = step.source.scope_of(each), step.context
        if scope is not context.scope:
            owner = look_up(context, ast.Name("self", ast.Load()))
            context = context_of_method(step, owner, step.source, scope)
        found += enter_statement(SourceStep(context, step.node, step.keys), each, name)
    return found


def _outside_assignments(step: SourceStep, owner: Operand, name: str) -> Iterator[tuple[SourceFile, ast.Attribute]]:
    """Yield the targets `model.name = …`, not of the class itself, by which a running frame set the attribute."""
    program = step.context.program
    for place in program.stack:
        source = parse_source(place.frame.f_code.co_filename, place.frame.f_globals)
        for target in source.outside_assignments.get(name, ()) if source is not None else ():
            context = None if source is None else program.find_running(source, source.scope_of(target))
            if source is not None and context is not None and look_up(context, target.value) is owner:
                yield source, target


def _find_method_call(step: SourceStep, owner: Operand, name: str) -> SourceStep | None:
    """Return the only call of a method of an object that has returned, such as `scaler.fit(x)`."""
    program, found = step.context.program, []
    for source in program.sources:
        for call in source.calls.get(name, ()):
            target = getattr(source.statement_of(call), "targets", [None])[0]  # of s = Scaler().fit(x) it is s
            context = program.find_context(source, source.scope_of(call))
            owners = [call.func.value if isinstance(call.func, ast.Attribute) else None, target]
            if any(isinstance(each, ast.expr) and look_up(context, each) is owner for each in owners):
                found.append(SourceStep(context, call))
    return found[0] if len(found) == 1 else None


def context_of_method(step: SourceStep, owner: Operand, source: SourceFile, scope: Operand) -> CodeContext:
    """Return the context of a method of an object: one that runs, or that of the call which made the object."""
    program = step.context.program
    running = program.find_running(source, scope)
    if running is not None and look_up(running, ast.Name("self", ast.Load())) is owner:
        return running
    name = getattr(scope, "name", "")
    kind_name = getattr(source.scope_of(scope), "name", "")
    kind = next((each for each in type(owner).__mro__ if each.__name__ == kind_name), type(owner))
    function = unwrap(vars(kind).get(name))
    made = program.find_construction(owner) if name == "__init__" else _find_method_call(step, owner, name)
    context = CodeContext(source, scope, program, (), made, owner, function)
    own = unwrap(inspect.getattr_static(type(owner), "__init__", None))
    if name == "__init__" and own is not None and own is not function:  # of a class that it extends
        outer = step.context.program.enter(own, made, owner)
        for call in ast.walk(outer.scope) if outer is not None else ():
            is_super = isinstance(call, ast.Call) and text_of(call.func).endswith("__init__")
            if outer is not None and isinstance(call, ast.Call) and is_super:
                return replace(context, call=SourceStep(outer, call))
    return context

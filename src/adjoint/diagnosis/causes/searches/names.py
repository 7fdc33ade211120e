"""Causes of names and arguments that are not there: spelled otherwise, bound later, or not taken."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from adjoint.core.runtime.similar_names import find_spelling
from adjoint.diagnosis.causes.arguments import own_parameters
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import is_module
from adjoint.diagnosis.source_expressions import find_attribute_assignment, text_of

SIGNATURE = re.compile(r"^(?:(\w+)\.)?(\w+)\(\) (?:takes|missing|got an unexpected|got multiple)")


def find_late_name(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the loop whose variable a function made in it reads, which has the last value when the function runs."""
    code = failure.frame.f_code
    for node in ast.walk(step.node):
        if not isinstance(node, ast.Name) or node.id not in code.co_freevars:
            continue
        definition: ast.AST | None = step.context.scope
        around = None if definition is None else step.source.parents.get(definition)
        while around is not None and not isinstance(around, (ast.FunctionDef, ast.Module)):
            if isinstance(around, ast.For) and node.id in {
                each.id for each in ast.walk(around.target) if isinstance(each, ast.Name)
            }:
                target = SourceStep(step.context, around.iter)
                told = f"{node.id} has the last value of the loop at {target.line()}"
                return f"{told}, for {code.co_name} reads it when it runs, not where it is made", target
            around = step.source.parents.get(around)
    return None


def find_other_attribute(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the statement that gives an object the attribute which is meant, by a name like the one that is read."""
    error = failure.error
    owner, name = getattr(error, "obj", None), getattr(error, "name", None)
    if not isinstance(error, AttributeError) or owner is None or not isinstance(name, str):
        return None
    held = [*getattr(owner, "__dict__", ()), *(vars(owner)["_modules"] if is_module(owner) else ())]
    near = [each for each in held if not each.startswith("_") and (each.startswith(name) or name.startswith(each))]
    meant = find_spelling(name, held) or (near[0] if len(near) == 1 and min(len(near[0]), len(name)) > 2 else None)
    found = None if meant is None else find_attribute_assignment(owner, meant)
    value = None if found is None else getattr(found[1], "value", None)
    if found is None or not isinstance(value, ast.expr):
        return None
    inner = SourceStep(replace(step.context, source=found[0], scope=found[0].scope_of(found[1]), stack=()), value)
    return f"the attribute is {meant}, by {inner.line()}", inner


def find_definition(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the definition of a function that was called with other arguments than it takes."""
    match = SIGNATURE.search(failure.message)
    if match is None or not isinstance(failure.error, TypeError):
        return None
    for each in step.source.nodes_of(ast.FunctionDef):
        around = step.source.parents[each]
        if each.name == match[2] and getattr(around, "name", None) == match[1]:
            first = next((part for part in ast.walk(each) if isinstance(part, ast.expr)), step.node)
            place = step.source.place_of(each)
            taken = ", ".join(own_parameters(each)) or "no arguments"
            name = ".".join(part for part in match.groups() if part)
            line = step.source.place_of(step.node)
            told = f"{name} at {place} takes {taken}, and {text_of(step.node)} at {line} gives others"
            return told, SourceStep(replace(step.context, scope=each, stack=()), first)
    return None

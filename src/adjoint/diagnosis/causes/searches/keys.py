"""Causes of keys that a table has not."""

from __future__ import annotations

import ast

from adjoint.core.runtime.similar_names import find_spelling
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.numbers import trace_number
from adjoint.diagnosis.causes.searches.kind_traces import trace_kind
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import is_module
from adjoint.diagnosis.source_expressions import text_of


def find_key_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that made a table which has not the key that is looked for."""
    key = next(iter(failure.error.args), None)
    if not isinstance(failure.error, KeyError) or (isinstance(key, str) and " " in key):  # the library's own words
        return None
    for node in ast.walk(step.node):
        if not isinstance(node, ast.Subscript):
            continue
        held = step.context.program.compute(step.at(node.value, ()))
        if is_module(held):
            made = step.context.program.find_construction(held)
            if made is not None:
                return f"{text_of(node.value)} is made without the key {key!r} at {made.line()}", made
        if type(held) is not dict:
            continue
        steps = trace_kind(step.at(node.value, ()), lambda each: isinstance(each, dict))
        last = steps[-1]
        if isinstance(last.node, ast.DictComp):  # of what the function that makes it was called with
            last = next((each for each in steps[::-1] if isinstance(each.node, ast.Call)), last)
        if len(steps) > 1 and isinstance(last.node, (ast.Dict, ast.DictComp, ast.Call)):
            near = find_spelling(str(key), [each for each in held if isinstance(each, str)])
            keys = last.node.keys if isinstance(last.node, ast.Dict) else []
            meant = next((each for each in keys if isinstance(each, ast.Constant) and each.value == near), None)
            trace = trace_number(step.at(node.slice, ()), key) if isinstance(key, (str, int)) else None
            is_here = trace is None or trace.root.place() == step.place()
            given = "" if trace is None or is_here else f"; the key is from {trace.describe()}"
            if meant is not None:
                inner = SourceStep(last.context, meant)
                return f"{text_of(node.value)} has no {key!r}, it has {inner.line()}{given}", inner
            return f"{text_of(node.value)} is made without the key {key!r} at {last.line()}{given}", last
    return None


def find_absent_key(step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the words for a table whose `get` gives None for a key, and where the key comes from."""
    call = step.node
    is_get = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "get"
    if not is_get or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or len(call.args) != 1:
        return None
    table, key = (step.context.program.compute(step.at(each, ())) for each in (call.func.value, call.args[0]))
    trace = trace_number(step.at(call.args[0], ()), key) if isinstance(key, (str, int)) else None
    if not isinstance(table, dict) or trace is None or key in table:
        return None
    where = f", from {trace.describe()}" if len(trace.steps) > 1 else ""
    return f"{text_of(call.func.value)} has no {key!r}{where}, by {step.line()}", trace.root

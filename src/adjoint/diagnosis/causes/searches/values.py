"""Causes of values out of their range, and of targets of another shape than a loss takes."""

from __future__ import annotations

import ast
import re

import numpy as np

from adjoint.diagnosis.causes.contexts import ITEM, SourceStep
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.layer_settings import SizeTrace, trace_attribute
from adjoint.diagnosis.causes.numbers import is_same, trace_number
from adjoint.diagnosis.causes.searches.kind_traces import trace_dtype, trace_kind
from adjoint.diagnosis.causes.sizes import shape_of, trace_size
from adjoint.diagnosis.causes.steps import trace_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import is_module
from adjoint.diagnosis.source_expressions import text_of

VALUES = re.compile(
    r"[Tt]arget (-?\d+) is out of bounds|index out of range in self: (-?\d+)|"
    r"index (-?\d+) is out of bounds for dimension|offsets\[0\] has to be 0.*got (\d+)|"
    r"should be between 0 and 1|Class values must be"
)


TARGET_SHAPES = re.compile(r"0D or 1D target tensor expected|multi-target not supported")


def find_value_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that made the values which a call does not take, and that which gives how many it takes."""
    match = VALUES.search(failure.message)
    if match is None:
        return None
    number = next((int(each) for each in match.groups() if each), None)
    told: list[str] = []
    places: list[SourceStep] = []
    for operand in failure.tensors():
        array = operand.value.array
        held = np.asarray(array)
        if number is None and isinstance(step.node, ast.Call) and operand.text not in map(text_of, step.node.args):
            continue
        is_given = bool((held == number).any() if number is not None else ((held < 0) | (held > 1)).any())
        is_given = is_given and (operand.value.ndim == 1 or "offsets[0]" not in failure.message)
        is_given = is_given and ("offsets[0]" not in failure.message or int(held[0]) == number)
        first = step.find_part(operand.text)
        if not is_given or (number is not None and operand.value.is_floating_point()) or first is None:
            continue
        steps = trace_dtype(first, str(operand.value.dtype).rpartition(".")[2])
        called = [look_up(each.context, each.node.func) for each in steps if isinstance(each.node, ast.Call)]
        if number is None and any(is_module(each) and any(True for _ in each.parameters()) for each in called):
            continue  # a model's result: no input of it is to blame
        last = _find_stored(steps, number) or _find_items_source(steps[-1], number, operand.value.ndim)
        if last is not first:
            told, places = [f"the values of {operand.text} are from {last.line()}{_describe_limits(last)}"], [last]
    bound = None if "offsets" in failure.message else _find_bound(failure, step)
    if bound is not None:
        name, trace = bound
        told.append(f"{name}, from {trace.describe()}")
        places += trace.roots()
    return ("; ".join(told), places[0]) if places else None


def _find_stored(steps: list[SourceStep], number: int | None) -> SourceStep | None:
    """Return the value that a statement such as `y[0] = 255` has written into a tensor of the way, where it is that."""
    for step in steps if number is not None else ():
        scope = step.context.scope
        for each in ast.walk(scope) if isinstance(step.node, ast.Name) and isinstance(scope, ast.FunctionDef) else ():
            target = each.targets[0] if isinstance(each, ast.Assign) else None
            if isinstance(each, ast.Assign) and isinstance(target, ast.Subscript):
                value = step.at(each.value, ())
                is_own = text_of(target.value) == text_of(step.node)
                if is_own and step.context.program.compute(value) == number:
                    return trace_number(value, number).root
    return None


def _find_items_source(step: SourceStep, number: int | None, ndim: int) -> SourceStep:
    """Return what gave the items of the list of which a call makes a tensor."""
    node = step.node
    name = text_of(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or name not in ("tensor", "array", "as_tensor", "LongTensor") or not node.args:
        return step
    first = step.at(node.args[0], (ITEM,) * max(ndim, 1))
    for each in trace_back(first) if number is not None else ():
        if not each.keys and each.node is not first.node and is_same(step.context.program.compute(each), number):
            return trace_number(each, number).root
    last = trace_kind(first, lambda each: type(each) is not int or number in (None, each))[-1]
    while isinstance(last.node, ast.Call) and text_of(last.node.func) in ("int", "float") and last.node.args:
        last = last.at(last.node.args[0], ())
    is_written_here = isinstance(last.node, ast.Constant) or last.place() == step.place()
    return step if is_written_here else last


def _describe_limits(step: SourceStep) -> str:
    """Return where the number comes from that limits what a call draws."""
    for each in step.node.args if isinstance(step.node, ast.Call) else ():
        if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)):
            inner = step.at(each, ())
            trace = trace_number(inner, step.context.program.compute(inner))
            if len(trace.steps) > 1:
                return f", with {text_of(each)} from {trace.describe()}"
    return ""


def _find_bound(failure: Failure, step: SourceStep) -> tuple[str, SizeTrace] | None:
    """Return how many classes or rows there are, and where that comes from."""
    classes = re.search(r"classes are 0 to (\d+)", failure.message)
    calls = [each for each in ast.walk(step.node) if isinstance(each, ast.Call) and each.args]
    if classes is not None and calls:
        count = int(classes[1]) + 1
        scores = step.at(calls[0].args[0], ())
        trace = trace_size(scores, 1, count, -1)
        return None if trace is None else (f"{text_of(scores.node)} has {count} classes", trace)
    row = re.search(r"index -?\d+ is out of bounds for dimension (\d+) with size (\d+)", failure.message)
    for operand in failure.tensors() if row is not None else ():
        shape, dim = tuple(operand.value.shape), int(row[1]) if row is not None else 0
        first = step.find_part(operand.text)
        if row is not None and first is not None and len(shape) > dim and shape[dim] == int(row[2]):
            trace = trace_size(first, len(shape) - dim, shape[dim], -1)
            if trace is not None and trace.step is not first:
                return f"{operand.text} has {shape[dim]}", trace
    module = failure.modules[0] if failure.modules else None
    if module is not None and hasattr(module, "num_embeddings"):
        named = failure.module()
        trace = trace_attribute(step, module, "num_embeddings", module.num_embeddings)
        name = "the table" if named is None else named.text
        return None if trace is None else (f"{name} has {module.num_embeddings} rows", trace)
    return None


def find_target_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that gave targets a dimension too many."""
    call = step.node
    weights = re.search(r"for all (\d+) classes .*? of shape: \[(\d+)\]", failure.message)
    if weights is not None and failure.modules:
        made = step.context.program.find_construction(failure.modules[-1])
        given = None if made is None or not isinstance(made.node, ast.Call) else _find_given(made.node, "weight")
        trace = None if made is None or given is None else trace_size(made.at(given, ()), 1, int(weights[2]), -1)
        if trace is not None and given is not None:
            return f"{text_of(given)} has {weights[2]} numbers, from {trace.describe()}", trace.step
    if TARGET_SHAPES.search(failure.message) is None or not isinstance(call, ast.Call) or len(call.args) < 2:
        return None
    is_of_pairs = re.match(r"(?:cosine_embedding|margin_ranking)_loss", failure.message) is not None
    target = step.at(call.args[2 if is_of_pairs and len(call.args) > 2 else 1], ())
    shape = shape_of(target)
    trace = trace_size(target, 1, shape[-1], -1) if shape else None
    if trace is None or shape is None:
        return None
    return f"{text_of(target.node)} is {shape}, from {trace.describe()}", trace.step


def _find_given(call: ast.Call, name: str) -> ast.expr | None:
    named = next((each.value for each in call.keywords if each.arg == name), None)
    return named or next(iter(call.args), None)

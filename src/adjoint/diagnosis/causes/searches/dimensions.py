"""Causes of dimensions that a tensor lacks."""

from __future__ import annotations

import ast
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.causes.contexts import SourceStep, find_function_called, look_up
from adjoint.diagnosis.causes.numbers import trace_number
from adjoint.diagnosis.causes.sizes import shape_of
from adjoint.diagnosis.causes.steps import find_former
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import is_module
from adjoint.diagnosis.source_expressions import text_of

MAX_SEARCHED = 40
LOST = re.compile(
    r"0-dim tensor|Dimension out of range|[Tt]oo many indices|expected \d(?:D|-D)|zero-dimensional|0-d tensor|"
    r"must be (?:at least )?\d-?[dD]|only supports? \d|iteration over a 0-d"
)


DROPPING = (
    "squeeze",
    "mean",
    "sum",
    "max",
    "min",
    "flatten",
    "item",
    "view",
    "reshape",
    "select",
    "norm",
    "prod",
    "argmax",
)


def find_dimension_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that took the dimension from a tensor which it lacks, and that which made the layer."""
    if LOST.search(failure.message) is None:
        return None
    module = failure.modules[0] if failure.modules else None
    made = None if module is None else step.context.program.find_construction(module)
    if made is not None and isinstance(made.node, ast.Call) and re.search(r"\dd$", type(module).__name__):
        names = [each for each in ast.walk(made.node.func) if isinstance(each, ast.Name) and each is not made.node.func]
        traces = [trace_number(made.at(each, ()), made.context.program.compute(made.at(each, ()))) for each in names]
        told = [f"{text_of(each.steps[0].node)} from {each.describe()}" for each in traces if len(each.steps) > 1]
        where = f", with {told[0]}" if told else ""
        return f"the layer is a {type(module).__name__}, made at {made.line()}{where}", made
    for operand in failure.tensors():
        first = step.find_part(operand.text)
        if first is None or operand.value.ndim > 3:
            continue
        found = _find_drop(first, operand.value.ndim)
        if found is not None:
            return f"{operand.text} is {tuple(operand.value.shape)}, by {found.line()}", found
    return None


def _find_drop(first: SourceStep, ndim: int) -> SourceStep | None:
    step = first
    for _ in range(MAX_SEARCHED):
        node, former = step.node, find_former(step)
        if isinstance(node, ast.Subscript) and isinstance(
            step.context.program.compute(step.at(node.value, ())), Tensor
        ):
            return step if not isinstance(node.slice, ast.Slice) and step is not first else None
        if isinstance(node, ast.BinOp):
            former = [step.at(node.left)]
        elif isinstance(node, ast.Call) and find_function_called(step, node)[0] is None and not former:
            inner = inner_of_call(step, node)
            shape = None if inner is None else shape_of(inner)
            name = text_of(node.func).rpartition(".")[2]
            if name in DROPPING and (shape is None or len(shape) != ndim):
                return step
            former = [] if inner is None else [inner]
        if not former:
            return None
        step = former[0]
    return None


def inner_of_call(step: SourceStep, node: ast.Call) -> SourceStep | None:
    """Return the tensor that a call of the library's takes: the object of a method, or the first argument."""
    called = look_up(step.context, node.func)
    base = look_up(step.context, node.func.value) if isinstance(node.func, ast.Attribute) else None
    is_method = isinstance(node.func, ast.Attribute) and not hasattr(base, "__spec__") and not is_module(called)
    inner = node.func.value if is_method and isinstance(node.func, ast.Attribute) else next(iter(node.args), None)
    listed = inner.elts if isinstance(inner, (ast.List, ast.Tuple)) else [inner]
    return step.at(listed[0], ()) if listed and listed[0] is not None else None

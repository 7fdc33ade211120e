"""The way of a value back, as long as it is of a kind, and of numbers to what gave them their type."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.contexts import SourceStep, find_function_called, look_up
from adjoint.diagnosis.causes.steps import find_former
from adjoint.diagnosis.operands import MISSING, is_module
from adjoint.diagnosis.source_expressions import text_of

MAX_STEPS = 30


CREATING = re.compile(
    r"zeros|ones|empty|full|randn?|randint|normal|uniform|random|integers|arange|linspace|tensor|array|loadtxt|astype|"
    r"float|double|long|int|half|bool|type|one_hot|argmax|argmin|standard_normal|choice|to"
)


def trace_kind(first: SourceStep, fits: Callable[[Operand], bool]) -> list[SourceStep]:
    """Return the way of a value back, as long as it can be of such a kind."""
    steps, seen = [first], {(id(first.node), first.context.depth)}
    is_none = fits(None) and not fits(0)
    while len(steps) < MAX_STEPS:
        fitting: list[tuple[bool, int, SourceStep]] = []
        for each in find_former(steps[-1]):
            value = first.context.program.compute(each)
            mark = id(each.node), each.context.depth
            if mark not in seen and (fits(value) if value is not MISSING else not (is_none and _is_something(each))):
                fitting.append((value is MISSING, len(fitting), each))
        if not fitting:
            break
        former = min(fitting, key=lambda each: each[:2])[2]
        seen.add((id(former.node), former.context.depth))
        steps.append(former)
    return steps


def _is_something(step: SourceStep) -> bool:
    """Return whether an expression never gives None."""
    node = step.node
    if isinstance(
        node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr, ast.Tuple, ast.List, ast.Dict, ast.ListComp)
    ):
        return not step.keys
    called = look_up(step.context, node.func) if isinstance(node, ast.Call) else MISSING
    method = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    if called is MISSING and hasattr(Tensor, method) and method not in ("backward", "get", "index"):
        return True
    is_module_call = is_module(called) and is_name_of_package(type(called).__module__)
    return is_module_call or isinstance(called, type) or is_name_of_package(getattr(called, "__module__", None) or "")


def trace_dtype(first: SourceStep, dtype: str) -> SourceStep | None:
    """Return the call that made an array or a tensor of a type."""

    def fits(value: Operand) -> bool:
        is_array = isinstance(value, Tensor) or type(value).__module__ == "numpy"
        return not is_array or str(getattr(value, "dtype", dtype)).rpartition(".")[2] == dtype

    step = first
    for _ in range(MAX_STEPS):
        step = trace_kind(step, fits)[-1]
        node = step.node
        if isinstance(node, ast.BinOp):
            sides = [step.at(each, ()) for each in (node.left, node.right) if not isinstance(each, ast.Constant)]
            values = [first.context.program.compute(each) for each in sides]
            pairs = zip(sides, values, strict=True)
            chosen = next((each for each, value in pairs if value is MISSING or fits(value)), None)
            if chosen is None:
                return step
            step = chosen
            continue
        if not isinstance(node, ast.Call) or find_function_called(step, node)[0] is not None:
            return step
        name = text_of(node.func).rpartition(".")[2]
        called = look_up(step.context, node.func)
        if CREATING.fullmatch(name) or (is_module(called) and isinstance(called, Tensor)):
            return step
        base = look_up(step.context, node.func.value) if isinstance(node.func, ast.Attribute) else None
        is_method = isinstance(node.func, ast.Attribute) and not hasattr(base, "__spec__") and not is_module(called)
        inner = node.func.value if is_method and isinstance(node.func, ast.Attribute) else next(iter(node.args), None)
        if inner is None or (is_method and hasattr(base, "bit_generator")):
            return step
        listed = inner.elts if isinstance(inner, (ast.List, ast.Tuple)) else [inner]
        if not listed:
            return step
        step = step.at(listed[0], ())
    return step

"""The way of a value back, as long as it is of a kind, and of numbers to what gave them their type."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.called_functions import find_function_called, find_input
from adjoint.diagnosis.causes.computing import is_in_loop
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.steps import find_former
from adjoint.diagnosis.operands import MISSING, is_module
from adjoint.diagnosis.source_expressions import is_comprehension_item, text_of

MAX_STEPS = 30


CREATING = re.compile(
    r"zeros|ones|empty|full|randn?|randint|normal|uniform|random|integers|arange|linspace|tensor|array|loadtxt|astype|"
    r"float|double|long|int|half|bool|type|one_hot|argmax|argmin|standard_normal|choice|to|[A-Z]\w+Tensor"
)


def trace_kind(first: SourceStep, fits: Callable[[Operand], bool]) -> list[SourceStep]:
    """Return the way of a value back, as long as it can be of such a kind."""
    steps, seen = [first], {first.mark}
    is_none = fits(None) and not fits(0) and not fits("")
    while len(steps) < MAX_STEPS:
        fitting: list[tuple[bool, int, SourceStep]] = []
        for each in find_former(steps[-1]):
            is_repeated = not each.context.stack and is_in_loop(each)  # which gave other values in other turns
            value = MISSING if is_repeated else first.context.program.compute(each)
            is_fit = fits(value) if value is not MISSING else not (is_none and _is_something(each))
            if is_fit and each.mark not in seen:
                fitting.append((value is MISSING, len(fitting), each))
        if not fitting:
            break
        former = min(fitting, key=lambda each: each[:2])[2]
        seen.add(former.mark)
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


def trace_dtype(first: SourceStep, dtype: str) -> list[SourceStep]:
    """Return the way of an array or a tensor back to the call that made it of a type."""
    compute = first.context.program.compute

    def fits(value: Operand) -> bool:
        is_array = isinstance(value, Tensor) or type(value).__module__ == "numpy"
        return not is_array or str(getattr(value, "dtype", dtype)).rpartition(".")[2] == dtype

    steps = [first]
    while len(steps) < MAX_STEPS:
        steps += trace_kind(steps[-1], fits)[1:]
        step, inner = steps[-1], None
        if isinstance(step.node, ast.BinOp):
            nodes = [each for each in (step.node.left, step.node.right) if not isinstance(each, ast.Constant)]
            names = [each for each in nodes if isinstance(each, ast.Name)]
            counters = [each for each in names if is_comprehension_item(step.source, each)]
            nodes = [each for each in nodes if each not in counters]
            sides = [step.at(each, ()) for each in nodes]
            known = [(each, value is MISSING) for each in sides if (value := compute(each)) is MISSING or fits(value)]
            inner = min(known, key=lambda each: each[1])[0] if known else None
        elif isinstance(step.node, ast.Subscript):
            inner = step.at(step.node.value, ())
        elif isinstance(step.node, ast.Call) and find_function_called(step, step.node)[0] is None:
            inner = _find_converted(step, step.node)
        held = MISSING if inner is None else compute(inner)
        if inner is None or inner.mark in {each.mark for each in steps} or not (held is MISSING or fits(held)):
            break
        steps.append(inner)
    return steps


def _find_converted(step: SourceStep, call: ast.Call) -> SourceStep | None:
    """Return the array or the list whose type a call of the library keeps; None where it gives a type of its own."""
    name, called = text_of(call.func).rpartition(".")[2], look_up(step.context, call.func)
    given = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if name in ("tensor", "array", "as_tensor", "asarray") and isinstance(given, ast.Subscript):
        owner = step.context.program.compute(step.at(given.value, ()))
        is_typed = owner is MISSING or isinstance(owner, Tensor) or type(owner).__module__ == "numpy"
        return step.at(given.value, ()) if is_typed else None
    base = look_up(step.context, call.func.value) if isinstance(call.func, ast.Attribute) else None
    is_layer = is_module(called) and isinstance(called, Tensor)
    if CREATING.fullmatch(name) or is_layer or hasattr(base, "bit_generator"):
        return None
    return find_input(step, call)

"""Causes of empty lists: an iterator that was used up, modules in a plain list, an object that nothing was added to."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.numbers import trace_number
from adjoint.diagnosis.causes.steps import find_former, trace_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, is_module, read_attribute
from adjoint.diagnosis.source_expressions import find_attribute_assignment, text_of

EMPTY = re.compile(
    r"empty|division by zero|expected a non-empty|non-empty TensorList|index out of range|StopIteration|"
    r"at least one array|zero-size|not enough values to unpack \(expected \d+, got 0\)"
)
USED_UP = ("zip", "map", "filter", "generator", "enumerate")


def find_empty_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return why a list of the line is empty."""
    if EMPTY.search(f"{type(failure.error).__name__} {failure.message}") is None:
        return None
    zero = _find_zero(step) if isinstance(failure.error, ZeroDivisionError) else None
    if zero is not None:
        return zero
    for node in ast.walk(step.source.statement_of(step.node)):
        if not isinstance(node, (ast.Name, ast.Attribute)) or isinstance(node.ctx, ast.Store):
            continue
        value = look_up(step.context, node)
        if type(value) not in (list, tuple, dict) or value:
            continue
        first = step.at(node, ())
        for each in _sources(first):
            found = _find_used_up(each) or _find_hidden_modules(each)
            if found is not None:
                return f"{text_of(node)} is empty: {found[0]}", found[1]
        found = _find_empty_loop(first, node) or _find_unfilled(first, node)
        if found is not None:
            return f"{text_of(node)} is empty: {found[0]}", found[1]
    return None


def _find_zero(step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return where the program writes the 0 by which the line divides."""
    divisors = [each.right for each in ast.walk(step.node) if isinstance(each, ast.BinOp)]
    for each in divisors:
        divisor = step.at(each, ())
        value = step.context.program.compute(divisor)
        trace = trace_number(divisor, value) if type(value) in (int, float) and value == 0 else None
        if trace is not None and trace.root.place() != step.place() and isinstance(trace.root.node, ast.Constant):
            return f"{text_of(each)} is 0, from {trace.describe()}", trace.root
    return None


def _sources(first: SourceStep) -> Iterator[SourceStep]:
    """Yield the expressions that gave a list."""
    step = first
    for _ in range(8):
        yield step
        former = find_former(step)
        if not former:
            return
        step = former[0]


def _find_used_up(step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that made an iterator which an earlier loop has used up."""
    for comprehension in ast.walk(step.node):
        for each in getattr(comprehension, "generators", ()):
            value = look_up(step.context, each.iter)
            is_ended = inspect.isgenerator(value) and inspect.getgeneratorstate(value) == inspect.GEN_CLOSED
            if not is_ended and type(value).__name__ not in USED_UP[:3]:
                continue
            origin = step.at(each.iter, ())
            while True:
                former = find_former(origin)
                is_call = isinstance(origin.node, ast.Call)
                if is_call or not former:
                    break
                origin = former[0]
            told = f"{text_of(each.iter)} gives its items once, and an earlier loop has taken them"
            return f"{told}; it is made at {origin.line()}", origin
    return None


def _find_empty_loop(step: SourceStep, node: ast.expr) -> tuple[str, SourceStep] | None:
    """Return the line that made a loader without a whole batch, or another list without items, which a loop reads."""
    for loop in ast.walk(step.context.scope):
        fills = isinstance(loop, ast.For) and any(
            isinstance(each, ast.Call) and text_of(each.func) == f"{text_of(node)}.append" for each in ast.walk(loop)
        )
        if not fills or not isinstance(loop, ast.For):
            continue
        items = look_up(step.context, loop.iter)
        is_own = is_name_of_package(type(items).__module__)
        is_loader = (
            is_own
            and getattr(items, "batch_sampler", None) is not None
            and is_name_of_package(type(items.dataset).__module__)
        )
        is_plain = type(items) in (list, tuple, dict)
        if items is MISSING or not (is_loader or is_plain) or len(items):
            continue
        origin = step.at(loop.iter, ())
        for _ in range(8):
            former = find_former(origin)
            if not former:
                break
            origin = former[0]
        what = "gives no batch" if is_loader else "is empty"
        told = f"{text_of(loop.iter)} {what}, from {origin.line()}"
        given = origin.node.args[0] if isinstance(origin.node, ast.Call) and origin.node.args else None
        if is_loader and given is not None and not len(items.dataset):
            first = [*trace_back(origin.at(given, ()))][-1]
            return f"{told}; {text_of(given)} has no sample, from {first.line()}", first
        return told, origin
    return None


def _find_hidden_modules(step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the plain list in which a model keeps its modules, where `parameters()` finds none."""
    for call in ast.walk(step.node):
        is_asked = isinstance(call, ast.Call) and text_of(call.func).endswith("parameters")
        if not is_asked or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        model = look_up(step.context, call.func.value)
        for name, held in vars(model).items() if is_module(model) else ():
            items = list(held.values()) if type(held) is dict else held
            if name.startswith("_") or type(items) not in (list, tuple) or not any(map(is_module, items)):
                continue
            found = find_attribute_assignment(model, name)
            value = None if found is None else getattr(found[1], "value", None)
            if found is not None and isinstance(value, ast.expr):
                context = type(step.context)(found[0], found[0].scope_of(found[1]), step.context.program)
                inner = SourceStep(context, value)
                kind = type(held).__name__
                return f"the modules of {text_of(call.func.value)} are in a plain {kind}, at {inner.line()}", inner
    return None


def _find_unfilled(step: SourceStep, node: ast.expr) -> tuple[str, SourceStep] | None:
    """Return the calls of the method that fills a list, where none of them is of the object that has it."""
    if not isinstance(node, ast.Attribute) or text_of(node.value) != "self":
        return None
    owner = look_up(step.context, node.value)
    kind = None if owner is MISSING else type(owner)
    methods = [
        step.source.scope_of(each)
        for each in step.source.nodes_of(ast.Call)
        if text_of(each.func) == f"{text_of(node)}.append"
    ]
    names = {getattr(each, "name", "") for each in methods}
    if kind is None or not names:
        return None
    calls: list[SourceStep] = []
    for each in step.source.nodes_of(ast.Call):
        if not isinstance(each.func, ast.Attribute) or each.func.attr not in names:
            continue
        scope = step.source.scope_of(each)
        program = step.context.program
        context = program.find_running(step.source, scope) or type(step.context)(step.source, scope, program)
        holder = _find_holder(SourceStep(context, each.func.value))
        if holder is owner:
            return None
        calls.append(SourceStep(context, each))
    if not calls:
        return None
    told = ", ".join(
        f"{text_of(each.node.func)} at {each.place()}" for each in calls if isinstance(each.node, ast.Call)
    )
    return f"what fills it is called of others only: {told}", calls[-1]


def _find_holder(step: SourceStep) -> Operand:
    """Return the object of an expression such as `self.meters["train"]`, by the only object that has such a name."""
    value = look_up(step.context, step.node)
    if value is not MISSING:
        return value
    for place in step.context.program.stack:
        owner = place.frame.f_locals.get("self", MISSING)
        node = step.node
        if isinstance(node, ast.Attribute) and text_of(node.value) == "self":
            found = read_attribute(owner, node.attr) if owner is not MISSING else MISSING
            if found is not MISSING:
                return found
    return MISSING

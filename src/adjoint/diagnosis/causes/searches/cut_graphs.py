"""Causes of results that no gradient reaches, and of those that keep a graph where an array is wanted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.called_functions import find_function_called, find_input
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.steps import find_former, trace_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, is_module
from adjoint.diagnosis.source_expressions import text_of

CUTS = (
    "detach",
    "item",
    "numpy",
    "tolist",
    "tensor",
    "as_tensor",
    "from_numpy",
    "argmax",
    "round",
    "detach_",
    "FloatTensor",
)


NO_GRAPH = ("no_grad", "inference_mode", "set_grad_enabled")


MAX_SEARCHED = 40


def find_cut_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that took a result out of the graph, for one that requires no gradient."""
    if "does not require grad" not in failure.message:
        return None
    for call in ast.walk(step.node):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
            continue
        steps = [*_walk_graph(step.at(call.func.value, ()))]
        found = [(told, each) for each in steps if (told := _describe_cut(each)) is not None]
        for told, each in sorted(found, key=lambda pair: pair[0].endswith("anew")):  # which may be of plain numbers
            return f"{text_of(call.func.value)} has no graph: {told} at {each.line()}", each
    return None


def _walk_graph(first: SourceStep) -> Iterator[SourceStep]:
    """Yield the expressions that a result is computed of, nearest first."""
    pending, seen = [first], set[object]()
    while pending and len(seen) < MAX_SEARCHED:
        step = pending.pop(0)
        mark = step.mark
        if mark in seen or isinstance(step.node, ast.Constant):
            continue
        seen.add(mark)
        yield step
        node, former = step.node, find_former(step)
        if isinstance(node, ast.BinOp):
            former = [step.at(node.left), step.at(node.right)]
        elif isinstance(node, ast.UnaryOp):
            former = [step.at(node.operand)]
        elif isinstance(node, ast.Call) and not former and find_function_called(step, node)[0] is None:
            own = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            joined = find_input(step, node)
            former = [joined] if joined is not None and joined.keys else []
            former += [step.at(each, ()) for each in (*own, *node.args)]
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)) and not former:
            former = [step.at(node.elt, ())]
        elif isinstance(node, (ast.List, ast.Tuple)) and not former:
            former = [step.at(each, ()) for each in node.elts]
        pending += former


def _describe_cut(step: SourceStep) -> str | None:
    """Return what takes an expression's value out of the graph."""
    node: ast.AST | None = step.node
    if isinstance(node, ast.Call):
        name = text_of(node.func).rpartition(".")[2]
        base = look_up(step.context, node.func.value) if isinstance(node.func, ast.Attribute) else MISSING
        is_made = name in ("tensor", "as_tensor") and (not node.args or _is_number(node.args[0]))
        inner = find_input(step, node)
        held = None if inner is None else look_up(inner.context, inner.node)
        had_graph = not isinstance(held, Tensor) or held.requires_grad
        if name in CUTS and not is_made and not is_module(base) and had_graph:
            return (
                f".{name}() gives it without one" if name not in ("tensor", "as_tensor") else f"{name}(…) makes it anew"
            )
    if isinstance(node, ast.Attribute) and node.attr == "data":
        return ".data gives it without one"
    around: Operand = step.node
    while around is not None and not isinstance(around, (ast.FunctionDef, ast.Module)):
        for item in around.items if isinstance(around, ast.With) else ():
            name = text_of(item.context_expr).partition("(")[0].rpartition(".")[2]
            if name in NO_GRAPH:
                return f"{name}() at {step.source.place_of(around)} is around it,"
        around = step.source.parents.get(around)
    for each in getattr(around, "decorator_list", ()):
        name = text_of(each).partition("(")[0].rpartition(".")[2]
        if name in NO_GRAPH:
            return f"@{name} at {step.source.place_of(each)} is around it,"
    return None


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, (ast.Constant, ast.List, ast.UnaryOp))


def find_graph_holder(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that kept a tensor with its graph, where an array of it is asked for."""
    if "on Tensor that requires grad" not in failure.message:
        return None
    for operand in failure.tensors():
        first = step.find_part(operand.text)
        steps = [*trace_back(first)] if first is not None and operand.value.requires_grad else []
        for place, each in enumerate(steps):
            around = each.source.parents.get(each.node)
            if isinstance(around, ast.Call) and text_of(around.func).endswith(".append"):
                outer = [each, *(former for former in steps[place:] if isinstance(former.node, ast.Name))][-1]
                told = "" if outer.place() == each.place() else f", with {text_of(each.node)} of {outer.line()}"
                return f"{operand.text} has its graph, from {each.line()}{told}", outer
    return None


def find_frozen_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that has frozen all parameters of a model, and the call of the function that it is in."""
    if "empty parameter list" not in failure.message and "does not require grad" not in failure.message:
        return None
    models = {id(each): each for place in failure.stack for each in place.frame.f_locals.values() if is_module(each)}
    frozen = [each for each in models.values() if not any(part.requires_grad for part in each.parameters())]
    if not any(next(each.parameters(), None) is not None for each in frozen):
        return None
    program = step.context.program
    found = [
        SourceStep(program.find_context(source, source.scope_of(node)), node)
        for source in program.sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.expr) and _freezes(source.parents.get(node), node)
    ]
    if len(found) != 1:
        return None
    freezing = found[0]
    name = getattr(freezing.source.scope_of(freezing.node), "name", "")
    calls = freezing.source.calls.get(name, []) if name else []
    scope = freezing.source.scope_of(calls[0]) if len(calls) == 1 else None
    outer = None if scope is None else SourceStep(program.find_context(freezing.source, scope), calls[0])
    told = f"all parameters are frozen, by {freezing.line()}"
    return told + ("" if outer is None else f", through {outer.line()}"), outer or freezing


def _freezes(parent: ast.AST | None, node: ast.expr) -> bool:
    """Return whether an expression freezes: `p.requires_grad` that gets False, or `p.requires_grad_(False)`."""
    if isinstance(node, ast.Attribute) and node.attr == "requires_grad" and isinstance(parent, ast.Assign):
        return node in parent.targets and isinstance(parent.value, ast.Constant) and parent.value.value is False
    is_call = isinstance(node, ast.Call) and text_of(node.func).endswith(".requires_grad_")
    return isinstance(node, ast.Call) and is_call and [text_of(each) for each in node.args] == ["False"]

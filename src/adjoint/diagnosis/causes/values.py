"""Causes of values out of their range, of lost dimensions, and of results that no gradient reaches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from adjoint.core.runtime.similar_names import find_spelling
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.arguments import own_parameters
from adjoint.diagnosis.causes.contexts import ITEM, SourceStep, find_function_called, look_up
from adjoint.diagnosis.causes.kinds import trace_dtype, trace_kind
from adjoint.diagnosis.causes.numbers import trace_number
from adjoint.diagnosis.causes.sizes import SizeTrace, shape_of, trace_attribute, trace_size
from adjoint.diagnosis.causes.steps import find_former, trace_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, is_module
from adjoint.diagnosis.source_expressions import find_attribute_assignment, text_of

VALUES = re.compile(
    r"[Tt]arget (-?\d+) is out of bounds|index out of range in self: (-?\d+)|"
    r"index (-?\d+) is out of bounds for dimension|should be between 0 and 1|Class values must be"
)
TARGET_SHAPES = re.compile(r"0D or 1D target tensor expected|multi-target not supported")
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


def _find_node(step: SourceStep, text: str) -> ast.expr | None:
    found = (each for each in ast.walk(step.node) if isinstance(each, ast.expr) and text_of(each) == text)
    return next(found, None)


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
        is_given = bool((held == number).any() if number is not None else ((held < 0) | (held > 1)).any())
        node = _find_node(step, operand.text)
        if not is_given or (number is not None and operand.value.is_floating_point()) or node is None:
            continue
        first = step.at(node, ())
        last = trace_dtype(first, str(operand.value.dtype).rpartition(".")[2])
        last = None if last is None else _find_items_source(last)
        if last is not None and last is not first:
            told, places = [f"the values of {operand.text} are from {last.line()}{_describe_limits(last)}"], [last]
    bound = _find_bound(failure, step)
    if bound is not None:
        name, trace = bound
        told.append(f"{name}, from {trace.describe()}")
        places += trace.roots()
    return ("; ".join(told), places[0]) if places else None


def _find_items_source(step: SourceStep) -> SourceStep:
    """Return what gave the items of the list of which a call makes a tensor."""
    node = step.node
    name = text_of(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or name not in ("tensor", "array", "as_tensor", "LongTensor") or not node.args:
        return step
    last = trace_kind(step.at(node.args[0], (ITEM,)), lambda each: True)[-1]
    while isinstance(last.node, ast.Call) and text_of(last.node.func) in ("int", "float") and last.node.args:
        last = last.at(last.node.args[0], ())
    return last if not isinstance(last.node, ast.Constant) else step


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
        node = _find_node(step, operand.text)
        if row is not None and node is not None and len(shape) > dim and shape[dim] == int(row[2]):
            trace = trace_size(step.at(node, ()), len(shape) - dim, shape[dim], -1)
            if trace is not None and trace.step.node is not node:
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
    target = step.at(call.args[1], ())
    shape = shape_of(target)
    trace = trace_size(target, 1, shape[-1], -1) if shape else None
    if trace is None or shape is None:
        return None
    return f"{text_of(target.node)} is {shape}, from {trace.describe()}", trace.step


def _find_given(call: ast.Call, name: str) -> ast.expr | None:
    named = next((each.value for each in call.keywords if each.arg == name), None)
    return named or next(iter(call.args), None)


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
        node = _find_node(step, operand.text)
        if node is None or operand.value.ndim > 3:
            continue
        found = _find_drop(step.at(node, ()), operand.value.ndim)
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


def find_cut_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that took a result out of the graph, for one that requires no gradient."""
    if "does not require grad" not in failure.message:
        return None
    for call in ast.walk(step.node):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
            continue
        for each in _walk_graph(step.at(call.func.value, ())):
            told = _describe_cut(each)
            if told is not None:
                return f"{text_of(call.func.value)} has no graph: {told} at {each.line()}", each
    return None


def _walk_graph(first: SourceStep) -> Iterator[SourceStep]:
    """Yield the expressions that a result is computed of, nearest first."""
    pending, seen = [first], set[tuple[int, int]]()
    while pending and len(seen) < MAX_SEARCHED:
        step = pending.pop(0)
        mark = id(step.node), step.context.depth
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
            former = [step.at(each, ()) for each in (*own, *node.args)]
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
        if name in CUTS and not is_made and not is_module(base):
            return (
                f".{name}() gives it without one" if name not in ("tensor", "as_tensor") else f"{name}(…) makes it anew"
            )
    if isinstance(node, ast.Attribute) and node.attr == "data":
        return ".data gives it without one"
    inner: Operand = step.node
    while inner is not None and not isinstance(inner, (ast.FunctionDef, ast.Module)):
        for item in inner.items if isinstance(inner, ast.With) else ():
            name = text_of(item.context_expr).partition("(")[0].rpartition(".")[2]
            if name in NO_GRAPH:
                return f"{name}() at {step.source.place_of(inner)} is around it,"
        inner = step.source.parents.get(inner)
    for each in getattr(inner, "decorator_list", ()):
        name = text_of(each).partition("(")[0].rpartition(".")[2]
        if name in NO_GRAPH:
            return f"@{name} at {step.source.place_of(each)} is around it,"
    return None


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, (ast.Constant, ast.List, ast.UnaryOp))


def find_text_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that made an array of texts, where numbers are wanted."""
    if re.search(r"data type 'str'|numpy\.str_|numpy\.object_|could not convert string", failure.message) is None:
        return None
    for operand in failure.operands:
        if not isinstance(operand.value, (np.ndarray, np.generic)) or operand.value.dtype.kind not in "UO":
            continue
        node = _find_node(step, operand.text)
        if node is None:
            continue
        first = step.at(node, ())
        last = trace_dtype(first, str(operand.value.dtype))
        made = last.node if last is not None else None
        if last is None or not isinstance(made, ast.Call) or not made.args:
            continue
        rows = trace_kind(last.at(made.args[0], ()), lambda each: isinstance(each, (list, tuple)))[-1]
        told = "" if rows.place() == last.place() else f", of {rows.line()}"
        return f"{operand.text} holds texts, from {last.line()}{told}", rows
    return None


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


def find_graph_holder(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that kept a tensor with its graph, where an array of it is asked for."""
    if "on Tensor that requires grad" not in failure.message:
        return None
    for operand in failure.tensors():
        node = _find_node(step, operand.text)
        for each in trace_back(step.at(node, ())) if node is not None and operand.value.requires_grad else ():
            around = step.source.parents.get(each.node)
            is_kept = isinstance(around, ast.Call) and text_of(around.func).endswith(".append")
            if is_kept:
                return f"{operand.text} has its graph, from {each.line()}", each
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


SIGNATURE = re.compile(r"^(?:(\w+)\.)?(\w+)\(\) (?:takes|missing|got an unexpected|got multiple)")


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

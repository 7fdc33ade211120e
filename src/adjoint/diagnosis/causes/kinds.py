"""Causes of values of a wrong kind: where None, a text, a tuple, or numbers of another type come from."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.runtime.similar_names import find_spelling
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.assignments import find_truth
from adjoint.diagnosis.causes.contexts import CodeContext, SourceStep, find_function_called, look_up
from adjoint.diagnosis.causes.results import enter_call
from adjoint.diagnosis.causes.steps import find_former
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, describe_value, is_module
from adjoint.diagnosis.source_expressions import text_of

MAX_STEPS = 30
KINDS = re.compile(
    r"'(\w+)'(?: object| and|$)|not (?:type )?'?(\w+)'?(?:$|\.|\))|but got (\w+)$|type (\w+)\b|\(not \"(\w+)\"\)"
)
SKIPPED = frozenset({"Tensor", "module", "type", "a", "in", "be"})
NUMBERS = ("int", "float")
DTYPES = re.compile(
    r"same dtype, but got: (\w+) != (\w+)|scalar types?: Long, Int; but got \w+\.(\w+)|"
    r"expected (?:scalar type|target dtype to be) .*?(?:but found|but got|found) (?:\w+\.)?(\w+)|"
    r"only supports boolean masks, but got mask with dtype \w+\.(\w+)|"
    r"must have the same dtype|Found dtype (\w+) but expected (\w+)|expected m1 and m2 to have the same dtype"
)
CREATING = re.compile(
    r"zeros|ones|empty|full|randn?|randint|normal|uniform|random|integers|arange|linspace|tensor|array|loadtxt|astype|"
    r"float|double|long|int|half|bool|type|one_hot|argmax|argmin|standard_normal|choice|to"
)
NAMES_OF_DTYPES = {
    "float32": ("Float",),
    "float64": ("Double",),
    "int64": ("Long",),
    "int32": ("Int",),
    "float16": ("Half",),
    "uint8": ("Byte",),
    "bool": ("Bool",),
}
UNFITTING_TUPLES = "Can't call numpy() on Tensor that requires grad"


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


def find_kind_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return where a value of a kind that the error tells of comes from."""
    names = [next(name for name in each if name) for each in KINDS.findall(failure.message) if any(each)]
    wanted = {each for each in names if each not in SKIPPED}
    skipped = isinstance(failure.error, AttributeError) and "self" in wanted
    wanted = set() if skipped else wanted
    if UNFITTING_TUPLES in failure.message:
        wanted = {"tuple", "list"}
    wanted |= _find_odd_kinds(failure, step)
    wanted = {each for each in wanted if each not in NUMBERS} or wanted  # a number beside None is not to blame
    for part in sorted(_find_parts(failure, step), key=lambda each: _kind_of(each) in NUMBERS):
        ended = _describe_end(part) if "NoneType" in wanted else None
        if ended is not None and isinstance(part.node, ast.Call):
            return f"{text_of(part.node)} is None: {ended[0]}", ended[1]
        is_held = not part.keys and not isinstance(part.node, ast.Call)
        value = look_up(part.context, part.node) if is_held else step.context.program.compute(part)
        kind = type(value).__name__
        if (
            value is MISSING
            or kind not in wanted
            or is_name_of_package(type(value).__module__)
            or text_of(part.node) == "self"
        ):
            continue
        found = _trace_unfitting(part, value)
        if found is not None:
            return found
    return None


def _kind_of(part: SourceStep) -> str:
    return type(look_up(part.context, part.node)).__name__


def _find_odd_kinds(failure: Failure, step: SourceStep) -> set[str]:
    """Return the kinds of texts, lists and None that a line computes with, where the message does not tell them."""
    found: set[str] = set()
    if isinstance(failure.error, TypeError) and not isinstance(step.node, ast.Call):
        for each in ast.walk(step.node):
            for side in (each.left, each.right) if isinstance(each, ast.BinOp) else ():
                value = look_up(step.context, side)
                if value is None or isinstance(value, (str, list, dict)):
                    found.add(type(value).__name__)
    return found


def _find_parts(failure: Failure, step: SourceStep) -> Iterator[SourceStep]:
    """Yield the parts of the line that have values, whole ones first; and what the first item of a list is."""
    statement = step.source.statement_of(step.node)
    whole = step.node if not isinstance(statement, ast.AugAssign) else statement
    nodes = [each for each in ast.walk(whole) if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript))]
    nodes = [each for each in nodes if not isinstance(each.ctx, ast.Store) or isinstance(statement, ast.AugAssign)]
    for call in ast.walk(whole):
        if isinstance(call, ast.Call) and call is not step.node and find_function_called(step, call)[0] is not None:
            yield step.at(call, ())
    for each in sorted(nodes, key=lambda each: -len(text_of(each))):
        yield step.at(each, ())
    found = re.search(r"element (\d+)", failure.message)
    for each in nodes:
        if isinstance(look_up(step.context, each), (list, tuple)):
            yield step.at(each, (int(found[1]) if found is not None else 0,))


def _trace_unfitting(part: SourceStep, value: Operand) -> tuple[str, SourceStep] | None:
    """Return the words for where such a value comes from, and the line."""
    kind = type(value)

    def fits(other: Operand) -> bool:
        return type(other) is kind and (bool(part.keys) or not isinstance(value, (str, int)) or other == value)

    steps = trace_kind(part, fits)
    last = steps[-1]
    name = text_of(part.node) + "".join(f"[{each!r}]" for each in part.keys)
    if value is None:
        ended = _describe_end(last)
        if ended is not None:
            return f"{name} is None: {ended[0]}", ended[1]
    if len(steps) == 1:
        return None
    if isinstance(value, float) and isinstance(last.node, ast.BinOp):
        for side in (last.node.left, last.node.right):
            inner = last.at(side, ())
            if type(part.context.program.compute(inner)) is float:
                last = trace_kind(inner, lambda each: type(each) is float)[-1]
    shown = "None" if value is None else f"{describe_value(value)}, a {kind.__name__}"
    if isinstance(value, (list, tuple)):
        shown = f"a {kind.__name__} of {len(value)}"
    handed = find_handing(steps)
    told = "" if handed is None or handed.place() == last.place() else f", handed on at {handed.line()}"
    return f"{name} is {shown}, from {last.line()}{told}", last


def find_handing(steps: list[SourceStep]) -> SourceStep | None:
    """Return the nearest `return` by which a function of the user's handed a value on."""
    for step in steps[1:]:
        statement = step.source.statement_of(step.node)
        if isinstance(statement, ast.Return):
            return step
    return None


def _describe_end(step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return where a function of the user's ends without a return, for a call that gave None."""
    node = step.node
    if not isinstance(node, ast.Call):
        return None
    context = enter_call(step, node)
    last = None if context is None else find_silent_end(context, getattr(context.scope, "body", []))
    if context is None or last is None:
        return None
    first = next((each for each in ast.walk(last) if isinstance(each, ast.expr)), node)
    inner = SourceStep(context, first)
    called = getattr(context.function, "__qualname__", "").rpartition("<locals>.")[2]
    return f"{called}, called at {step.place()}, ends at {inner.line()}, without a return", inner


def find_silent_end(context: CodeContext, body: list[ast.stmt]) -> ast.stmt | None:
    """Return the last statement of a function's block that runs, where no return follows it."""
    if not body:
        return None
    last = body[-1]
    if isinstance(last, (ast.Return, ast.Raise)):
        return None
    if isinstance(last, ast.If):
        held = find_truth(SourceStep(context, last.test))
        if held is not None:
            return find_silent_end(context, last.body if held else last.orelse) or (
                last if not held and not last.orelse else None
            )
        ends = [find_silent_end(context, each) for each in (last.body, last.orelse)]
        return next((each for each in ends if each is not None), None if last.orelse else last)
    if isinstance(last, (ast.With, ast.AsyncWith)):
        return find_silent_end(context, last.body)
    if isinstance(last, (ast.For, ast.While, ast.AsyncFor)):
        return last.body[-1]
    return last


def find_dtype_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that made the numbers of another type than the rest of an operation has."""
    match = DTYPES.search(failure.message)
    if match is None:
        return None
    operands = failure.tensors()
    target = step.node.args[1] if isinstance(step.node, ast.Call) and len(step.node.args) > 1 else None
    if "target dtype" in failure.message and target is not None:
        operands = [each for each in operands if each.text == text_of(target)]
    if "got mask with" in failure.message and isinstance(step.node, ast.Call) and step.node.args:
        operands = [each for each in operands if each.text == text_of(step.node.args[0])]
    kinds = {str(each.value.dtype).rpartition(".")[2] for each in operands}
    operands = [each for each in operands if len(kinds) == 1 or not str(each.value.dtype).endswith("float32")]
    operands = [each for each in operands if not each.value.requires_grad]  # a result is no target and no mask
    for operand in operands:
        dtype = str(operand.value.dtype).rpartition(".")[2]
        if not any(each in failure.message for each in (dtype, *NAMES_OF_DTYPES.get(dtype, ()))) or (
            dtype == "float32" and "same dtype" in failure.message
        ):
            continue
        node = next((each for each in ast.walk(step.node) if text_of(each) == operand.text), None)
        if not isinstance(node, ast.expr):
            continue
        first = step.at(node, ())
        last = trace_dtype(first, dtype)
        if last is not None and last is not first:
            return f"{operand.text} is of {dtype}, from {last.line()}", last
    return None


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
                return f"{text_of(node.value)} is made without the key {failure.error.args[0]!r} at {made.line()}", made
        if type(held) is not dict:
            continue
        steps = trace_kind(step.at(node.value, ()), lambda each: isinstance(each, dict))
        last = steps[-1]
        if isinstance(last.node, ast.DictComp):  # of what the function that makes it was called with
            last = next((each for each in steps[::-1] if isinstance(each.node, ast.Call)), last)
        if len(steps) > 1 and isinstance(last.node, (ast.Dict, ast.DictComp, ast.Call)):
            near = find_spelling(str(failure.error.args[0]), [each for each in held if isinstance(each, str)])
            keys = last.node.keys if isinstance(last.node, ast.Dict) else []
            meant = next((each for each in keys if isinstance(each, ast.Constant) and each.value == near), None)
            if meant is not None:
                inner = SourceStep(last.context, meant)
                return f"{text_of(node.value)} has no {failure.error.args[0]!r}, it has {inner.line()}", inner
            return f"{text_of(node.value)} is made without the key {failure.error.args[0]!r} at {last.line()}", last
    return None

"""Causes of numbers of another type than an operation takes: floats of 64 bits, truths, integers, texts."""

from __future__ import annotations

import ast
import re

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.layer_settings import find_constructor_argument
from adjoint.diagnosis.causes.searches.kind_traces import trace_dtype, trace_kind
from adjoint.diagnosis.causes.sizes import CONVERTING
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.source_expressions import text_of

DTYPES = re.compile(
    r"dtype|scalar type|[Ii]nput type|output type|boolean masks|floating point type|used as indices|index tensor"
)
INDICES = re.compile(r"used as indices|for index|only applicable to index tensor|argument #1 'indices'")
NAMES_OF_DTYPES = {
    "float32": ("Float",),
    "float64": ("Double",),
    "int64": ("Long",),
    "int32": ("Int",),
    "float16": ("Half",),
    "uint8": ("Byte",),
    "bool": ("Bool",),
}


def find_dtype_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that made the numbers of another type than the rest of an operation has."""
    if DTYPES.search(failure.message) is None:
        return None
    held = _find_held_cause(failure, step)
    if held is not None:
        return held
    operands = failure.tensors()
    target = step.node.args[1] if isinstance(step.node, ast.Call) and len(step.node.args) > 1 else None
    scores = failure.locals.get("input")
    given = failure.locals.get("target")
    is_of_classes = isinstance(given, Tensor) and isinstance(scores, Tensor) and given.shape == scores.shape
    if "target dtype" in failure.message and isinstance(given, Tensor) and is_of_classes and given.ndim > 1:
        return None  # shares of classes: the loss takes none
    if "target dtype" in failure.message and target is not None:
        operands = [each for each in operands if each.text == text_of(target)]
    if "got mask with" in failure.message and isinstance(step.node, ast.Call) and step.node.args:
        operands = [each for each in operands if each.text == text_of(step.node.args[0])]
    if INDICES.search(failure.message) is not None:
        indexed = _find_index_part(step)
        names = set() if indexed is None else {text_of(each) for each in ast.walk(indexed)}
        operands = [each for each in operands if each.text in names and each.value.is_floating_point()]
    kinds = {str(each.value.dtype).rpartition(".")[2] for each in operands}
    operands = [each for each in operands if len(kinds) == 1 or not str(each.value.dtype).endswith("float32")]
    operands = [each for each in operands if not each.value.requires_grad]  # a result is no target and no mask
    for operand in operands:
        dtype = str(operand.value.dtype).rpartition(".")[2]
        is_told = any(each in failure.message for each in (dtype, *NAMES_OF_DTYPES.get(dtype, ())))
        if not (is_told or INDICES.search(failure.message)) or (dtype == "float32" and "same dtype" in failure.message):
            continue
        first = step.find_part(operand.text)
        if first is None:
            continue
        steps = trace_dtype(first, dtype)
        if len(steps) > 1:
            calls = [
                each
                for each in steps[:-1]
                if isinstance(each.node, ast.Call) and CONVERTING.search(text_of(each.node.func))
            ]
            made = next((each for each in calls if each.place() != steps[-1].place()), None)
            told = "" if made is None else f", made a tensor at {made.line()}"
            return f"{operand.text} is of {dtype}, from {steps[-1].line()}{told}", steps[-1]
    return None


def _find_index_part(step: SourceStep) -> ast.expr | None:
    """Return the part of an expression that is the indices: within brackets, or the last argument."""
    node = step.node
    if isinstance(node, ast.Subscript):
        return node.slice
    if not isinstance(node, ast.Call):
        return None
    if text_of(node.func).endswith("one_hot"):
        return next(iter(node.args), None)
    named = [each.value for each in node.keywords if each.arg in ("index", "indices")]
    return next(iter(named or node.args[-1:]), None)


def _find_held_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that made what a loss or a layer holds of another type, such as weights of classes."""
    module = failure.modules[0] if failure.modules else None
    made = None if module is None else step.context.program.find_construction(module)
    for name, value in vars(module)["_buffers"].items() if module is not None else ():
        dtype = "float32" if value is None else str(value.dtype).rpartition(".")[2]
        call = None if made is None else made.node
        given = find_constructor_argument(call, module, name) if isinstance(call, ast.Call) else None
        if made is None or given is None or dtype == "float32" or dtype not in failure.message:
            continue
        last = trace_dtype(made.at(given, ()), dtype)[-1]
        told = "" if last.place() == made.place() else f", given as {text_of(given)} at {made.place()}"
        return f"{name} of {text_of(made.node)[:40].partition('(')[0]} is of {dtype}, from {last.line()}{told}", last
    return None


def find_text_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that made an array of texts, where numbers are wanted."""
    if re.search(r"data type 'str'|numpy\.str_|numpy\.object_|could not convert string", failure.message) is None:
        return None
    for operand in failure.operands:
        if not isinstance(operand.value, (np.ndarray, np.generic)) or operand.value.dtype.kind not in "UO":
            continue
        first = step.find_part(operand.text)
        if first is None:
            continue
        last = trace_dtype(first, str(operand.value.dtype))[-1]
        made = last.node
        if not isinstance(made, ast.Call) or not made.args:
            continue
        rows = trace_kind(last.at(made.args[0], ()), lambda each: isinstance(each, (list, tuple)))[-1]
        told = "" if rows.place() == last.place() else f", of {rows.line()}"
        return f"{operand.text} holds texts, from {last.line()}{told}", rows
    return None

"""Remedies that the message itself names: a method to be called first, what a function gives in one process alone."""

from __future__ import annotations

import ast
import re

from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of


@remedy(r"please call \.?(\w+)\(\) first")
def call_first(failure: Failure, match: re.Match[str]) -> str | None:
    """A method that wants another one before it."""
    node = None if failure.line is None else failure.line.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    owner, method = bracket(node.func.value), node.func.attr
    given = ", ".join(map(text_of, (*node.args, *node.keywords)))
    return f"{owner}{at(failure.find_operand(owner))} first: {owner}.{match[1]}().{method}({given})"


@remedy(r"'NoneType' object has no attribute '(?:id|num_workers|seed|dataset)'")
def ask_for_worker(failure: Failure, match: re.Match[str]) -> str | None:
    """The worker's number, in a loader that reads in the main process."""
    for each in failure.operands:
        made = None if each.origin is None else each.origin.value
        if each.value is None and made is not None and text_of(made).endswith("get_worker_info()"):
            told = f"{each.text}{at(each)} is None in the main process, where a loader of num_workers=0 reads"
            numbers = f"({each.text}.id, {each.text}.num_workers)"
            return f"{told}: worker, count = (0, 1) if {each.text} is None else {numbers}"
    return None


@remedy(r"^Sample larger than population or is negative")
def wait_for_samples(failure: Failure, match: re.Match[str]) -> str | None:
    """More samples than a list, such as a replay buffer, holds."""
    node = None if failure.line is None else failure.line.node
    if not isinstance(node, ast.Call) or len(node.args) + len(node.keywords) < 2:
        return None
    held, count = (compute(each, failure.frame) for each in (*node.args, *(each.value for each in node.keywords))[:2])
    if not hasattr(held, "__len__") or not isinstance(count, int):
        return None
    x, n = text_of(node.args[0]), text_of((*node.args, *(each.value for each in node.keywords))[1])
    told = f"{x}{at(failure.find_operand(x))} holds {len(held)}, and {n} is {count}"
    return f"{told}: if len({x}) >= {n} before it, or min({n}, len({x}))"


@remedy(r"onnx\.export: the arguments do not fit the model")
def give_example(failure: Failure, match: re.Match[str]) -> str | None:
    """An export without the inputs of which the model is traced."""
    node = None if failure.line is None else failure.line.node
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    given = evaluate(node.args[1], failure.frame)
    model, path = text_of(node.args[0]), text_of(node.args[1])
    if isinstance(given, str):
        told = "the inputs come second, a tuple of tensors as the model takes them, and the path third"
        return f"{told}: {text_of(node.func)}({model}, (example,), {path})"
    return f"{path} is to be a tuple of the inputs of {model}: ({path},)"


@remedy(r"shape '\[([\d, ]*)\]' is invalid for input of size \d+")
def count_parameters(failure: Failure, match: re.Match[str]) -> str | None:
    """A vector with fewer numbers than the parameters that it is to fill."""
    node = None if failure.line is None else failure.line.node
    if not isinstance(node, ast.Call) or not text_of(node.func).endswith("vector_to_parameters") or len(node.args) < 2:
        return None
    vector, owner = evaluate(node.args[0], failure.frame), node.args[1]
    model = owner.func.value if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) else owner
    held = evaluate(model, failure.frame)
    if not hasattr(held, "parameters") or not hasattr(vector, "numel"):
        return None
    x, count = text_of(node.args[0]), sum(each.numel() for each in held.parameters())
    told = (
        f"{x}{at(failure.find_operand(x))} has {vector.numel()} numbers, and the parameters of {text_of(model)} {count}"
    )
    return f"{told}: the vector of a model of the same sizes"

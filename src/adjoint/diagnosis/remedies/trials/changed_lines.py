"""Remedies that were tried: the user's expression, changed in one place, is carried out on copies of its values."""

from __future__ import annotations

import ast
import re
from inspect import ismodule
from itertools import chain

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, describe_value, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.edits import find_edits
from adjoint.diagnosis.repairs.expression import Edit, call_of, parameter_names, write_line
from adjoint.diagnosis.repairs.following import count_fitting, find_alike
from adjoint.diagnosis.repairs.trial import Trial, read_clock
from adjoint.diagnosis.source_expressions import MAX_SHOWN_CHARACTERS, SourceFile, text_of

MAX_SECONDS = 1.0
SHAPE_WORDS = re.compile(r"shape|size|dimension|broadcast|channels|numel|\d-?D\b|stride|aligned")

TRANSPOSING = re.compile(r"\.(?:transpose|permute)\(|\.m?T\b")


@remedy(r"")
def try_edits(failure: Failure, match: re.Match[str]) -> str | None:
    """The first edit of the line after which it does not fail; of shapes, the one with the least result."""
    node = failure.node
    if failure.line is None or node is None:
        return None
    parent, statement = failure.line.source.parents.get(node), node
    if isinstance(getattr(node, "ctx", None), ast.Store) and isinstance(parent, ast.Assign):
        statement = parent
    node = call_of(statement)
    if node is None:
        return None
    node = parent if isinstance(parent, ast.Call) and parent.func is node else node  # a method that is not there
    trial = Trial(node, failure.frame)
    trial.stack = failure.stack
    if not trial.fails_alike(failure.error):
        return None
    best: tuple[tuple[int, bool], Edit, ast.expr, str] | None = None
    is_of_shapes = (
        not isinstance(failure.error, (TypeError, AttributeError)) and SHAPE_WORDS.search(failure.message) is not None
    )
    names = parameter_names(node, failure.frame) if isinstance(node, ast.Call) else []
    is_of_setting = any("_" in name and name in failure.message for name in names)  # which another number may mend
    start = read_clock()
    sizes = [each.value.shape for each in failure.operands if isinstance(each.value, (Tensor, np.ndarray))]
    largest = max((int(np.prod(each)) for each in sizes), default=0)
    is_elementwise = isinstance(node, (ast.BinOp, ast.Compare)) or "broadcast" in failure.message
    edits = find_edits(trial, failure.message, is_of_shapes=is_of_shapes and not is_of_setting)
    if not is_of_shapes and isinstance(failure.error, (RuntimeError, ValueError)):
        edits = chain(edits, find_edits(trial, failure.message, is_of_shapes=True))
    for edit in edits:
        if best is not None and not edit.is_shape:
            break
        if read_clock() - start > MAX_SECONDS:
            break
        changed = edit.apply(node)
        try:
            result = trial.run(changed)
            size = int(np.prod(result.shape)) if isinstance(result, (Tensor, np.ndarray)) else 0
        except Exception:  # noqa: BLE001  what a changed line may raise
            continue
        is_empty = isinstance(result, Tensor) and not size and largest
        fitting = count_fitting(failure.line.source, trial, node, changed) if not is_empty else None
        also = ""
        if fitting is None and not is_empty and edit.is_shape:
            fitting, also = _try_before(failure.line.source, trial, node, edit)
        is_table = is_elementwise and size > largest and "broadcast" in failure.message  # of each with each
        if fitting is None or (is_table and not fitting):
            continue
        if not edit.is_shape:
            return _describe(failure, trial, edit, write_line(changed, statement))
        cost = size, is_elementwise and TRANSPOSING.search(text_of(edit.replacement)) is not None
        if best is None or cost < best[0]:
            best = cost, edit, changed, also
    return None if best is None else _describe(failure, trial, best[1], write_line(best[2], statement)) + best[3]


def _try_before(source: SourceFile, trial: Trial, node: ast.expr, edit: Edit) -> tuple[int | None, str]:
    """Return how the lines fit, and what to write, if a name, and others of its shape, are changed before the line."""
    name, changed = text_of(edit.part), text_of(edit.replacement)
    if not isinstance(edit.part, ast.Name) or not changed.startswith(name):
        return None, ""
    way, alike = changed.removeprefix(name), find_alike(source, trial, node, edit.part)
    fitting = count_fitting(source, trial, node, node, {name: changed})
    if fitting is not None:
        return fitting, f"; as the lines after it use {name} too, {name} = {changed} before it"
    if alike:
        fitting = count_fitting(source, trial, node, node, {each: each + way for each in (name, *alike)})
    return fitting, "".join(f", and {each}{way}" for each in alike)


def _describe(failure: Failure, trial: Trial, edit: Edit, whole: str) -> str:
    """Return what the changed part is, and the line as it runs."""
    part, value = text_of(edit.part), evaluate(edit.part, failure.frame)
    own = failure.find_operand(part)
    shown = whole if len(whole) < MAX_SHOWN_CHARACTERS else text_of(edit.replacement)
    if edit.is_shape:
        made = (
            None
            if isinstance(edit.part, ast.Constant) or edit.part is trial.expression
            else trial.run(edit.replacement)
        )
        told = "" if not isinstance(made, Tensor) else f", where {text_of(edit.replacement)} is {tuple(made.shape)}"
        return f"{shown}{told}"
    function = edit.part.func if isinstance(edit.part, ast.Call) else None
    held = MISSING if function is None else evaluate(function, failure.frame)
    owner = evaluate(function.value, failure.frame) if isinstance(function, ast.Attribute) else MISSING
    is_held = isinstance(held, str) or (isinstance(held, type) and owner is not MISSING and not ismodule(owner))
    if function is not None and is_held:
        origin = find_origin(failure.line.source, function, failure.stack) if failure.line is not None else None
        told = f"{text_of(function)}{at(NamedValue('', None, origin))} is {describe_kind(held)}"
        return f"{told}: {shown}"
    if value is MISSING or isinstance(edit.part, ast.Constant) or edit.part is trial.expression:
        return shown
    return f"{part}{at(own)} is {describe_kind(value)}: {shown}"


def describe_kind(value: Operand) -> str:
    """Return what a value is, with its size or its text."""
    if isinstance(value, Tensor):
        return f"a tensor, {describe_value(value)}"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}, {value.shape}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if callable(value):
        return "a module" if is_module(value) else "a function"
    if isinstance(value, (list, tuple, dict, set)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{describe_value(value)}, a {type(value).__name__}"

"""Remedies for matrix products: inner sizes that differ, and masks that have made scores too wide."""

from __future__ import annotations

import ast
import copy
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate, find_origin
from adjoint.diagnosis.remedies.registry import (
    find_both_layers,
    name_operand,
    remedy,
    shape_of,
)
from adjoint.diagnosis.repairs.expression import parse
from adjoint.diagnosis.repairs.orders import fits
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of


@remedy(r"inner sizes differ, \(([\d, ]+)\) @ \(([\d, ]+)\)")
def fit_product(failure: Failure, match: re.Match[str]) -> str | None:
    """A matrix product whose inner sizes differ."""
    a, b = shape_of(match[1]), shape_of(match[2])
    x, y = name_operand(failure, a, 0), name_operand(failure, b, 1)
    made = find_both_layers(failure)
    if made is not None and a[-1] != b[-1]:
        inner = b[-2] if len(b) > 1 else b[-1]
        told = f"{made[0].describe()} gives {a[-1]}, {made[1].describe()} {inner}"
        return f"{told}: one number for both, {made[0].write_with(inner)} or {made[1].write_with(a[-1])}"
    wide = _find_wide_mask(failure, x, a[-1], b[-2] if len(b) > 1 else b[-1])
    if wide is not None:
        return wide
    ways: list[tuple[str, str]] = []
    if len(b) > 1 and a[-1] == b[-1]:
        rows = a[:-1] if len(a) > 1 else ()
        if (
            len(a) == len(b) == 2
            and not _fits_around(failure, f"{x} @ {y}.mT")
            and _fits_around(failure, f"{y} @ {x}.mT")
        ):
            return f"rows of {y} go through a matrix of (out, in): {y} @ {x}.mT is {(b[0], a[0])}"
        ways.append((f"{x} @ {y}.mT", f"transpose the second: {x} @ {y}.mT is {(*rows, b[-2])}"))
    if len(a) > 1 and len(b) > 1 and a[-2] == b[-2]:
        ways.append((f"{x}.mT @ {y}", f"transpose the first: {x}.mT @ {y}"))
    if len(a) > 1 and len(b) > 1 and a[-2] == b[-1]:
        ways.append((f"{y} @ {x}", f"the other way round: {y} @ {x}"))
    is_named = isinstance(failure.node, ast.expr) and "the " not in (x + y) and " at " not in (x + y)
    for text, advice in ways:
        if not is_named or not isinstance(failure.node, ast.expr) or fits(failure, failure.node, text):
            return advice
    if ways:
        return ways[0][1]
    return f"the last size of {x}, {a[-1]}, must be the last but one of {y}, {b[-2] if len(b) > 1 else b[-1]}"


def _find_wide_mask(failure: Failure, name: str, size: int, wanted: int) -> str | None:
    """Return which mask of all steps has made scores larger than their keys, and how to cut it."""
    scores = next((each for each in failure.tensors() if re.search(rf"\b{re.escape(each.text)}\b", name)), None)
    made = None if scores is None else scores.origin
    for part in ast.walk(made.value) if made is not None and made.value is not None else ():
        held = evaluate(part, failure.frame) if isinstance(part, (ast.Attribute, ast.Name)) else None
        if not isinstance(held, Tensor) or made is None or tuple(held.shape)[-2:] != (size, size) or size <= wanted:
            continue
        if text_of(part) in (name, getattr(scores, "text", "")) or held.node is not None:
            continue
        known = [key for key, each in failure.frame.f_locals.items() if type(each) is int and each == wanted]
        cut = known[-1] if known else str(wanted)
        owner = find_origin(made.source, part, failure.stack) if isinstance(part, ast.expr) else None
        where = "" if owner is None else f" at {owner.place()}"
        told = f"{text_of(part)}{where} is {tuple(held.shape)}, and this input has {wanted} of {size} steps"
        return f"{told}: {text_of(part)}[..., :{cut}, :{cut}] at {made.place()}"
    return None


def _fits_around(failure: Failure, text: str) -> bool:
    """Return whether the expression around the line runs with another in its place."""
    node = failure.node
    if failure.line is None or not isinstance(node, ast.expr) or "the " in text:  # of an operand without a name
        return False
    around = node
    while isinstance(parent := failure.line.source.parents.get(around), ast.expr):
        around = parent
    return compute(copy.deepcopy(around, {id(node): parse(text)}), failure.frame) is not MISSING

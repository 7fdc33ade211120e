"""Remedies for results of several parts by name: of max, sort and topk, and of load_state_dict."""

from __future__ import annotations

import ast
import copy
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of


@remedy(
    r"'(\w+)' object has no attribute|unsupported operand type\(s\) for .*'(\w+)'|must be Tensor, not (\w+)|"
    r"but got (\w+)$|tensors used as indices must be|can't multiply sequence by non-int|"
    r"'IncompatibleKeys' object is not callable"
)
def take_named_result(failure: Failure, match: re.Match[str]) -> str | None:
    """The values and indices of max, min, sort and topk, where one of them belongs."""
    line = failure.line.node if failure.line is not None else ast.Pass()
    is_index = "indices" in failure.message
    is_wanted = is_index or "multiply" in match[0]
    for each in failure.operands:
        fields = getattr(type(each.value), "_fields", ())
        if (
            type(each.value).__name__ == "IncompatibleKeys"
            and each.origin is not None
            and each.origin.value is not None
        ):
            told = f"{each.text}{at(each)} is what load_state_dict found, and the model itself has changed"
            calls = [*each.origin.source.calls.get("load_state_dict", ())]
            kept = [each.origin.source.statement_of(call) for call in calls]
            given = next((part for part in kept if isinstance(part, ast.Assign)), each.origin.node)
            if not isinstance(given, ast.Assign):
                return f"{told}: load_state_dict alone, without its result"
            where = "" if given is each.origin.node else f" at {each.origin.source.place_of(given)}"
            return f"{told}: {text_of(given.value)}{where or ' there'}, without '{text_of(given.targets[0])} ='"
        made = None if each.origin is None else each.origin.value
        if (
            isinstance(each.value, tuple)
            and fields
            and (type(each.value).__name__ != "PackedSequence" or "pack_padded_sequence" in text_of(made or line))
            and (is_wanted or type(each.value).__name__ in match.groups() or _is_compared(line, each.text))
            and made is not None
        ):
            others = [other.value for other in failure.tensors()]
            is_compared = _is_compared(line, each.text) and any(not x.is_floating_point() for x in others)
            field = "indices" if "indices" in fields and (is_index or is_compared) else fields[0]
            return f"{each.text}{at(each)} holds {' and '.join(fields)}: {each.text} = {text_of(made)}.{field} there"
    return _take_values(failure, line)


def _take_values(failure: Failure, line: ast.AST) -> str | None:
    """Return the line with the values of a `max` or `sort` in it, kept as a dimension where that is needed."""
    if not isinstance(line, ast.BinOp):
        return None
    for part in (line.left, line.right):
        fields = getattr(compute(part, failure.frame) if isinstance(part, ast.Call) else None, "_fields", ())
        if not isinstance(part, ast.Call) or "values" not in fields:
            continue
        kept = ast.Call(part.func, part.args, [*part.keywords, ast.keyword("keepdim", ast.Constant(True))])
        for call in (part, kept):
            changed = copy.deepcopy(line, {id(part): ast.Attribute(call, "values", ast.Load())})
            if isinstance(compute(changed, failure.frame), Tensor):
                return f"{text_of(part)} gives {' and '.join(fields)}: {text_of(changed)}"
    return None


def _is_compared(line: ast.AST, name: str) -> bool:
    """Return whether a part of the line compares what has the name with another value."""
    compared = [each for each in ast.walk(line) if isinstance(each, ast.Compare)]
    return any(text_of(side) == name for each in compared for side in (each.left, *each.comparators))

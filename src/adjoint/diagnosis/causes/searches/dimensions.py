"""Causes of tensors with a dimension too few or too many: the line that took it, or that gave it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import numpy as np

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.causes.called_functions import find_function_called, find_input
from adjoint.diagnosis.causes.contexts import ITEM, SourceStep
from adjoint.diagnosis.causes.numbers import trace_number
from adjoint.diagnosis.causes.sizes import shape_of
from adjoint.diagnosis.causes.steps import find_former
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue
from adjoint.diagnosis.source_expressions import text_of

MAX_SEARCHED = 40
SINGLE = ("(1,)", "[1]", "size=(1,)", "size=[1]")  # of tensors of one element
UNFIT = re.compile(
    r"0-dim tensor|Dimension out of range|[Tt]oo many indices|[Ee]xpected[^.]* \d(?:D|-D)|zero-dimensional|0-d tensor|"
    r"must be (?:at least )?\d-?[dD]|only supports? \d|iteration over a 0-d|same number of dimensions|multi-target not"
)
TOO_MANY = re.compile(r"0D or 1D target|multi-target not")
RANKS = re.compile(r"(\d)-?D.*?(?:got|received)(?:[^\d]*(\d)-?D|.*?: \[([\d, ]*)\])", re.DOTALL)
RANGE = re.compile(r"Dimension out of range \(expected to be in range of \[-?\d+, (-?\d+)\]")
DROPPING = re.compile(
    r"squeeze|mean|sum|max|min|amax|amin|flatten|ravel|item|view|reshape|select|norm|prod|argmax|argmin|std|var|any|all"
)
ADDING = re.compile(r"unsqueeze|expand_dims|atleast_\dd|view|reshape|stack")
MAKING = re.compile(r"tensor|array|as_tensor|asarray|\w+Tensor")


def find_dimension_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that took from a tensor the dimension which it lacks, or gave it one too many."""
    if UNFIT.search(failure.message) is None:
        return None
    is_more = _has_too_many(failure)
    told: list[tuple[str, SourceStep]] = []
    for operand in _find_operands(failure, step):
        first = step.find_part(operand.text)
        found = None if first is None else find_rank_change(first, operand.value.ndim, is_more=is_more)
        if found is not None:
            told.append((f"{operand.text} is {tuple(operand.value.shape)}, by {found.line()}", found))
            break
    told = told or [*_find_lost_in_call(failure, step)]
    layer = _describe_layer(failure, step)
    told += [] if layer is None else [layer]
    return ("; ".join(text for text, _ in told), told[0][1]) if told else None


def _find_lost_in_call(failure: Failure, step: SourceStep) -> Iterator[tuple[str, SourceStep]]:
    """Yield the line that took the dimension of what a call gave, which the line asks for one: `net(x).argmax(1)`."""
    match = RANGE.search(failure.message)
    call = step.node
    owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    if match is None or not isinstance(owner, ast.Call):
        return
    found = find_rank_change(step.at(owner, ()), int(match[1]) + 1, is_more=False)
    if found is not None and found.place() != step.place():
        yield f"{text_of(owner)} has {pluralize(int(match[1]) + 1, 'dimension')}, by {found.line()}", found


def _has_too_many(failure: Failure) -> bool:
    """Return whether the error is of a tensor with more dimensions than wanted, and not with fewer."""
    match = RANKS.search(failure.message)
    if match is not None:
        given = int(match[2]) if match[2] else match[3].count(",") + 1
        return given > max(int(each) for each in re.findall(r"(\d)-?D", match[0].partition("got")[0]))
    if "same number of dimensions" in failure.message:
        ranks = [each.value.ndim for each in failure.tensors()]
        return len(ranks) > 1 and ranks[-1] >= ranks[0]
    return TOO_MANY.search(failure.message) is not None


def _find_operands(failure: Failure, step: SourceStep) -> list[NamedValue]:
    """Return the tensors of the line that may be to blame, likely ones first."""
    found = [each for each in failure.tensors() if not isinstance(each.value, Tensor) or each.value.ndim <= 5]
    call = step.node
    target = text_of(call.args[-1]) if isinstance(call, ast.Call) and len(call.args) > 1 else ""
    if TOO_MANY.search(failure.message):
        return [each for each in found if each.text == target]
    return found[::-1] if "same number of dimensions" in failure.message else found


def _describe_layer(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the words for the layer that takes other dimensions, with what its class comes from."""
    module = failure.modules[0] if failure.modules else None
    made = None if module is None else step.context.program.find_construction(module)
    if made is None or not isinstance(made.node, ast.Call) or not re.search(r"\dd$", type(module).__name__):
        return None
    names = [each for each in ast.walk(made.node.func) if isinstance(each, ast.Name) and each is not made.node.func]
    traces = [trace_number(made.at(each, ()), made.context.program.compute(made.at(each, ()))) for each in names]
    told = [f"{text_of(each.steps[0].node)} from {each.describe()}" for each in traces if len(each.steps) > 1]
    where = f", with {told[0]}" if told else ""
    return f"the layer is a {type(module).__name__}, made at {made.line()}{where}", made


def find_rank_change(first: SourceStep, ndim: int, *, is_more: bool) -> SourceStep | None:
    """Return the expression that gave a tensor a dimension, or took one; or that made it, with too many or too few."""
    step = first
    for _ in range(MAX_SEARCHED):
        node, former = step.node, find_former(step)
        held = step.context.program.compute(step.at(node.value, ())) if isinstance(node, ast.Subscript) else None
        is_named = isinstance(node, ast.Subscript) and isinstance(getattr(node.slice, "value", None), str)
        if (
            isinstance(node, ast.Subscript)
            and (held is MISSING or isinstance(held, (Tensor, np.ndarray)))
            and not is_named
        ):
            found = _find_index(step, node, is_more=is_more)
            if found is not None:
                return found if found is not first else None
            former = [step.at(node.value)]
        elif isinstance(node, ast.BinOp):
            former = [step.at(node.left)]
        elif isinstance(node, ast.Call) and find_function_called(step, node)[0] is None and not former:
            if _changes(step, node, ndim, is_more=is_more):
                return step
            inner = find_input(step, node)
            name = text_of(node.func).rpartition(".")[2]
            if inner is not None and MAKING.fullmatch(name):
                inner = inner.at(inner.node, (ITEM,))
            former = [] if inner is None else [inner]
        elif isinstance(node, (ast.List, ast.Tuple)) and is_more and not former and step is not first:
            return step  # a list for each item
        if not former:
            return step if isinstance(node, ast.Call) and step.place() != first.place() else None
        step = former[0]
    return None


def _find_index(step: SourceStep, node: ast.Subscript, *, is_more: bool) -> SourceStep | None:
    """Return an index that changes the number of dimensions; one that is a tensor of one element, where it was made."""
    for each in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
        if isinstance(each, ast.Slice):
            continue
        value = step.context.program.compute(step.at(each, ()))
        former = find_former(step.at(each, ()))
        made = former[0] if former else step.at(each, ())
        sizes = [*made.node.args, *made.node.keywords] if isinstance(made.node, ast.Call) and value is MISSING else []
        is_single = any(ast.unparse(size) in SINGLE for size in sizes)
        if isinstance(value, Tensor):
            is_single = value.ndim > 0 and value.numel() == 1
        if is_more and is_single:
            return made
        if is_more and isinstance(each, ast.Constant) and each.value is None:
            return step
        if not is_more and isinstance(each, ast.Constant) and type(each.value) is int:
            return step
    return None


def _changes(step: SourceStep, node: ast.Call, ndim: int, *, is_more: bool) -> bool:
    """Return whether a call of the library takes a dimension from its tensor, or gives it one."""
    name = text_of(node.func).rpartition(".")[2]
    inner = find_input(step, node)
    shape = None if inner is None else shape_of(inner)
    keeps = next((each.value for each in node.keywords if each.arg in ("keepdim", "keepdims")), None)
    is_kept = isinstance(keeps, ast.Constant) and keeps.value is True
    if is_more:
        return is_kept or (ADDING.fullmatch(name) is not None and shape is not None and len(shape) < ndim)
    return not is_kept and DROPPING.fullmatch(name) is not None and (shape is None or len(shape) > ndim)

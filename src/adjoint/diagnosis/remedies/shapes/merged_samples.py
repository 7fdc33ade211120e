"""Views that merge samples with other dimensions, in the forward of the model that gave a loss its input."""

from __future__ import annotations

import ast
import re
from functools import partial
from math import prod

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.causes.operand_history import walk_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, evaluate, find_origin, find_return, find_return_in, is_module
from adjoint.diagnosis.remedies.registry import argument_node, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, text_of


def keep_samples(failure: Failure, rows: int, samples: int) -> str | None:
    """Return what to write where a `view(-1, …)` in the user's forward has made more rows than there are samples."""
    merged = _find_merging_view(failure) if rows > samples > 0 else None
    view = None if merged is None else merged.value
    if merged is None or not isinstance(view, ast.Call):
        return None
    columns = compute(view.args[1], failure.frame)
    told = f"{merged.describe()} makes {rows} rows of {samples} samples: .flatten(1) keeps one row for each"
    if not isinstance(columns, int):
        return f"{told}, and the Linear after it needs in_features of that width" if rows % samples == 0 else None
    if columns * rows % samples:
        return None
    width = columns * rows // samples
    scores = argument_node(failure, 0, "input")
    origin = find_origin(failure.line.source, scores, failure.stack) if scores is not None and failure.line else None
    call = scores if isinstance(scores, ast.Call) else None if origin is None else origin.value
    model = evaluate(call.func, failure.frame) if isinstance(call, ast.Call) else None
    layers = dict(model.named_modules()) if model is not None and is_module(model) else {}
    taking = [(name, each) for name, each in layers.items() if getattr(each, "in_features", None) == columns]
    if len(taking) != 1:
        is_last = isinstance(merged.source.statement_of(merged.node), ast.Return)
        return f"{told}, of {width}{'' if is_last else ', which the layer after it is to take'}"
    name, layer = taking[0]
    return f"{told}, and self.{name} takes {width}: nn.{type(layer).__name__}({width}, {layer.out_features})"


def find_forward_result(failure: Failure) -> Origin | None:
    """Return the `return` of the user's forward that gave the scores."""
    node: ast.expr | None = argument_node(failure, 0, "input")
    if isinstance(node, ast.Name) and failure.line is not None:
        origin = find_origin(failure.line.source, node, failure.stack)
        node = None if origin is None else origin.value
    returned = None
    if isinstance(node, ast.Call) and failure.line is not None:
        returned = find_return(Origin(failure.line.source, node), failure.stack)
        made = evaluate(node.func.func, failure.frame) if isinstance(node.func, ast.Call) else None
        code = getattr(getattr(made, "forward", None), "__code__", None)
        returned = find_return_in(code) if returned is None and code is not None else returned
    return returned


def _find_merging_view(failure: Failure) -> Origin | None:
    """Return the `view(-1, …)` of the user's forward that gave the scores."""
    returned = find_forward_result(failure)
    scope = None if returned is None else returned.source.scope_of(returned.node)
    for each in ast.walk(scope) if scope is not None else ():
        is_view = isinstance(each, ast.Call) and text_of(each.func).endswith((".view", ".reshape"))
        has_rest = isinstance(each, ast.Call) and len(each.args) == 2 and text_of(each.args[0]) == "-1"
        if returned is not None and is_view and has_rest:
            return Origin(returned.source, each)
    return None


@remedy(
    r"must be equal to input_size\. Expected (\d+), got (\d+)|linear: input is \([\d, ]*?(\d+)\), weight \(\d+, (\d+)\)"
)
def keep_batch(failure: Failure, match: re.Match[str]) -> str | None:
    """A view for one sample, such as `view(1, 1, -1)`, of a batch of them."""
    before = failure.part_before()
    code = None if before is None else getattr(type(before.value).forward, "__code__", None)
    result = None if code is None or not user_files[code.co_filename] else find_return_in(code)
    told = None if result is None else _describe_channel_view(failure, result.source, result.node)
    told = told or walk_back(failure, _describe_channel_view)
    if told is not None:
        return told
    wanted, features = (int(match[1]), int(match[2])) if match[1] else (int(match[4]), int(match[3]))
    return walk_back(failure, partial(_describe_single_view, wanted, features))


def _describe_channel_view(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return the view of a line that keeps the size of dimension 1 in the place of the number of samples."""
    for call in ast.walk(node):
        method = call.func if isinstance(call, ast.Call) else None
        if not isinstance(call, ast.Call) or not isinstance(method, ast.Attribute) or len(call.args) != 2:
            continue
        x, first = text_of(method.value), text_of(call.args[0])
        is_view = method.attr in ("view", "reshape") and text_of(call.args[1]) == "-1"
        if is_view and first in (f"{x}.size(1)", f"{x}.shape[1]"):
            told = f"{text_of(call)} at {source.place_of(call)} keeps dimension 1, and samples are dimension 0"
            return f"{told}: {x}.flatten(1) there"
    return None


def _describe_single_view(
    wanted: int, features: int, failure: Failure, source: SourceFile, node: ast.AST
) -> str | None:
    """Return the view of a line whose dimension of 1 would hold the samples, where it made too many features."""
    for call in ast.walk(node):
        method = call.func if isinstance(call, ast.Call) else None
        if not isinstance(call, ast.Call) or not isinstance(method, ast.Attribute) or len(call.args) < 2:
            continue
        sizes = [text_of(each) for each in call.args]
        held = compute(method.value, failure.frame) if method.attr in ("view", "reshape") else None
        if not isinstance(held, Tensor) or sizes[-1] != "-1" or set(sizes[:-1]) != {"1"}:
            continue
        if features == prod(held.shape) != wanted and held.shape[-1] == wanted:
            changed = ", ".join([*sizes[:-2], "-1", str(wanted)])
            told = f"{text_of(call)} at {source.place_of(call)} makes one sample of {tuple(held.shape)}"
            return f"{told}: {text_of(method)}({changed}) there keeps the batch"
    return None


@remedy(r"expected input\[([\d, ]+)\] to have (\d+) channels, but got (\d+) channels")
def view_channels(failure: Failure, match: re.Match[str]) -> str | None:
    """A view into images, such as `view(-1, 32, 7, 7)`, with other channels than the samples have values for."""
    return walk_back(failure, partial(_describe_image_view, int(match[2]), int(match[3])))


def _describe_image_view(wanted: int, channels: int, failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return the view of a line that made another number of samples than the wanted channels would."""
    for call in ast.walk(node):
        method = call.func if isinstance(call, ast.Call) else None
        if not isinstance(call, ast.Call) or not isinstance(method, ast.Attribute) or len(call.args) < 3:
            continue
        if method.attr not in ("view", "reshape") or text_of(call.args[0]) != "-1":
            continue
        held, made = compute(method.value, failure.frame), compute(call, failure.frame)
        if not isinstance(held, Tensor) or not isinstance(made, Tensor) or made.shape[1] != channels:
            continue
        if held.shape[0] * wanted * prod(made.shape[2:]) == held.numel():
            changed = ", ".join(["-1", str(wanted), *map(text_of, call.args[2:])])
            told = f"{text_of(call)} at {source.place_of(call)} makes {made.shape[0]} samples of {held.shape[0]}"
            return f"{told}, each of {held.shape[1]} values: {text_of(method)}({changed}) there"
    return None

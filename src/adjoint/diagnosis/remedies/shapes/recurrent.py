"""Remedies for recurrent layers: first states, features, steps merged with samples, packed sequences."""

from __future__ import annotations

import ast
import re
from math import prod

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, Origin, evaluate, is_module
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    describe_layer,
    name_argument,
    name_of_shape,
    remedy,
    shape_of,
)
from adjoint.diagnosis.repairs.expression import Edit, bracket, parse
from adjoint.diagnosis.repairs.orders import fits
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import find_attribute_assignment, text_of


@remedy(r"Expected hidden(?:\[\d\])? size \(([\d, ]+)\), got \[([\d, ]+)\]")
def fit_hidden_state(failure: Failure, match: re.Match[str]) -> str:
    """A first state of other sizes."""
    expected, found = shape_of(match[1]), shape_of(match[2])
    x, layer = _name_state(failure, found), failure.module()
    value = None if layer is None else layer.value
    name = "the layer" if layer is None else layer.text
    given = failure.locals.get("input", failure.locals.get("x"))
    size: tuple[int, ...] = tuple(getattr(given, "shape", ()))
    if len(expected) == 3 and found == (expected[1], expected[0], expected[2]) and found != expected:
        return f"{x}{_where(failure, x)} is (layers, batch, hidden), whatever batch_first says: torch.zeros{expected}"
    if not getattr(value, "batch_first", False) and len(size) == 3 == len(found) and found[1] == size[0] != size[1]:
        return f"{name}{at(layer)} reads (time, batch, features), and its input is {size}: batch_first=True there"
    if len(expected) == 3 == len(size) and found[::2] == expected[::2]:
        if found[1] == size[1] and getattr(value, "batch_first", False):
            told = f"{x}{_where(failure, x)} is for {found[1]} samples, and {name}, of batch_first=True, gets {size}"
            return f"{told}, a batch of {expected[1]}: torch.zeros{expected}, or transpose the input"
        made = f"{x}{_where(failure, x)} is for {found[1]} samples, and this batch has {expected[1]}"
        steps = name_argument(failure, 0, "input", "x")
        batch = f"{steps}.size({0 if getattr(value, 'batch_first', False) else 1})"
        state = f"torch.zeros({expected[0]}, {batch}, {expected[2]})"
        return f"{made}: a new state for each batch, {state}; or DataLoader(drop_last=True)"
    if len(expected) == 3 and len(found) == 3 and expected[0] != found[0]:
        told = f"{getattr(value, 'num_layers', 1)} layers"
        told += " both ways" if getattr(value, "bidirectional", False) else ""
        maker = _find_bidirectional(failure, x)
        if maker is not None and found[0] == 2 * expected[0]:
            both = (
                f"{x}{_where(failure, x)} is {found}, as {maker} is bidirectional, and {name} goes one way, {expected}"
            )
            return f"{both}: {x}.view({expected[0]}, 2, *{x}.shape[1:]).sum(1) adds both directions"
        return f"{x}{_where(failure, x)} is to be {expected}: {name} has {told}, one state each"
    if found[-1] != expected[-1]:
        own = failure.find_operand(x)
        told = f"{x}{at(own)} has {found[-1]} hidden units, and {name}{at(layer)} {expected[-1]}"
        is_filled = own is not None and own.origin is not None and "zeros" in own.origin.source.text_of(own.origin.node)
        if layer is None or is_filled:
            return f"{told}: torch.zeros{expected}"
        kind, size = type(layer.value).__name__, layer.value.input_size
        between = f"nn.Linear({found[-1]}, {expected[-1]}) between them"
        return f"{told}: one number for both, nn.{kind}({size}, {found[-1]}, …) there, or {between}"
    return f"{x}{_where(failure, x)} is to be {expected}: the batch has {expected[-2]} samples"


def _name_state(failure: Failure, shape: tuple[int, ...]) -> str:
    """Return the user's name of a state, or of the tuple of states, that has the shape."""
    for each in failure.operands:
        if isinstance(each.value, tuple) and any(tuple(getattr(part, "shape", ())) == shape for part in each.value):
            return each.text
    return name_of_shape(failure, shape, "the state")


def _find_bidirectional(failure: Failure, name: str) -> str | None:
    """Return the name of the recurrent layer of two directions whose call gave a state."""
    origin = next((each.origin for each in failure.operands if each.text == name), None)
    call = None if origin is None else origin.value
    layer = evaluate(call.func, failure.frame) if isinstance(call, ast.Call) else MISSING
    parts: list[tuple[str, Operand]] = list(getattr(layer, "named_modules", list)()) if is_module(layer) else []
    for path, part in parts:
        if getattr(part, "bidirectional", False) and isinstance(call, ast.Call):
            made = find_attribute_assignment(layer, path)
            where = "" if made is None else f" at {Origin(*made).place()}"
            return ".".join(filter(None, (text_of(call.func), path))) + where
    return None


def _where(failure: Failure, name: str) -> str:
    return at(failure.find_operand(name))


@remedy(r"For (un)?batched \d-D input, hx (?:and cx )?should also be (\d)-D but got \(?(\d)-D")
def fit_state_dimensions(failure: Failure, match: re.Match[str]) -> str | None:
    """A state without its layers, or an input without its steps."""
    layer, node, given = failure.module(), failure.node, argument_node(failure, 0)
    state = argument_node(failure, 1, "hx")
    if layer is None or not isinstance(node, ast.Call) or given is None or state is None:
        return None
    alone = compute(state, failure.frame)
    if type(layer.value).__name__ == "LSTM" and isinstance(alone, Tensor):
        told = f"{text_of(state)}{_where(failure, text_of(state))} is one tensor, and the state of an LSTM is a pair"
        changed = ast.Tuple([state, parse(f"torch.zeros_like({text_of(state)})")], ast.Load())
        return f"{told}: {text_of(Edit(state, changed).apply(node))}"
    if match[1]:
        axis = 1 if layer.value.batch_first else 0
        way, size = f"{bracket(given)}.unsqueeze({axis})", getattr(compute(given, failure.frame), "shape", ())
        told = f"{text_of(given)}{_where(failure, text_of(given))} is {tuple(size)}, one step without its dimension"
        return f"{told}: {way}" if len(size) == 2 and fits(failure, given, way) else None
    parts = state.elts if isinstance(state, ast.Tuple) else [state]
    values = [compute(each, failure.frame) for each in parts]
    if not all(isinstance(each, Tensor) and each.ndim == 2 for each in values):
        return None
    count = layer.value.num_layers * (2 if layer.value.bidirectional else 1)
    more = f".expand({count}, -1, -1).contiguous()" if count > 1 else ""
    ways = [f"{bracket(each)}.unsqueeze(0){more}" for each in parts]
    way = f"({', '.join(ways)})" if isinstance(state, ast.Tuple) else ways[0]
    if not fits(failure, state, way):
        return None
    told = f"{' and '.join(text_of(each) for each in parts)}, {tuple(values[0].shape)}, lack the dimension of layers"
    told = told if len(parts) > 1 else told.replace(" lack ", " lacks ")
    return f"{told}, (layers, batch, hidden): {way}"


@remedy(r"input\.size\(-1\) must be equal to input_size\. Expected (\d+), got (\d+)")
def fit_features(failure: Failure, match: re.Match[str]) -> str:
    """A recurrent layer whose input has other features."""
    layer = failure.module()
    name, kind = describe_layer(failure, kind="RNN")
    hidden = "…" if layer is None else layer.value.hidden_size
    wanted = f"{_write_with(layer, kind, match[2], hidden)} there"
    node = argument_node(failure, 0)
    given = MISSING if node is None else evaluate(node, failure.frame)
    size: tuple[int, ...] = tuple(getattr(given, "shape", ()))
    x = name_argument(failure, 0)
    if match[1] == "1" and len(size) == 2:
        return f"{x}, {size}, has no dimension of features, and {name} takes 1: {x}.unsqueeze(-1) is {(*size, 1)}"
    if len(size) == 3 and size[1] == int(match[1]):
        return f"{name} takes {match[1]} features last, and {x} is {size}: {x}.transpose(1, 2)"
    helper = None if layer is None or layer.source is None or layer.source.origin is None else layer.source.origin.value
    given = [text_of(each) for each in helper.args] if isinstance(helper, ast.Call) else []
    if isinstance(helper, ast.Call) and hidden == int(match[2]) and given == [match[2], match[1]]:
        exchanged = text_of(ast.Call(helper.func, helper.args[::-1], helper.keywords))
        return f"{name} takes {match[1]} features, its input has {match[2]}: {exchanged} there, in the other order"
    return f"{name} takes {match[1]} features, its input has {match[2]}: {wanted}"


def _write_with(layer: NamedValue | None, kind: str, size: str, hidden: Operand) -> str:
    """Return the call that makes a recurrent layer, with another number of features and its options."""
    made = None if layer is None or layer.origin is None else layer.origin.value
    more: list[ast.expr | ast.keyword] = []
    if isinstance(made, ast.Call) and text_of(made.func).rpartition(".")[2] == kind:
        more = [*made.args[2:], *(each for each in made.keywords if each.arg not in ("input_size", "hidden_size"))]
    return f"nn.{kind}({', '.join([size, str(hidden), *map(text_of, more)])})"


@remedy(r"Expected input to be 2D or 3D, got (\d)D instead")
def split_steps(failure: Failure, match: re.Match[str]) -> str | None:
    """Steps that a view has merged with the samples, as for a convolution, before a recurrent layer."""
    x, size = name_argument(failure, 0), tuple(getattr(failure.locals.get("input"), "shape", ()))
    name, layer = describe_layer(failure)[0], failure.module()
    width = getattr(getattr(layer, "value", None), "input_size", 0)
    if len(size) < 4 or prod(size[1:]) != width or prod(size[2:]) == width:
        return None
    told = f"{name} takes (batch, time, features), and {x} is {size}"
    scope = None if failure.line is None else failure.line.source.scope_of(failure.line.node)
    for call in ast.walk(scope) if scope is not None else ():
        first = call.args[0] if isinstance(call, ast.Call) and call.args else None
        if not isinstance(first, ast.BinOp) or not isinstance(first.op, ast.Mult):
            continue
        if compute(first, failure.frame) == size[0]:
            sizes = f"{text_of(first.left)}, {text_of(first.right)}"
            return f"{told}, as samples and steps are one dimension, {text_of(first)}: {x}.view({sizes}, -1)"
    return f"{told}: {x}.flatten(1), {(size[0], width)}, with samples and steps apart"


@remedy(r"Expected input to be 2D or 3D, got (\d)D instead")
def flatten_steps(failure: Failure, match: re.Match[str]) -> str:
    """A recurrent layer whose input has more dimensions than steps and features."""
    x, name = name_argument(failure, 0), describe_layer(failure)[0]
    value = failure.locals.get("input")
    size: tuple[int, ...] = tuple(getattr(value, "shape", ()))
    layer = failure.module()
    if len(size) > 3 and layer is not None and size[-1] == layer.value.input_size:
        told = f"{name} takes (batch, time, features), and {x} is {size}"
        return f"{told}: {x}.flatten(0, {len(size) - 3}) is {(prod(size[:-2]), *size[-2:])}, each sequence a sample"
    if len(size) == 1 and layer is not None and size[0] == layer.value.input_size:
        node = argument_node(failure, 0)
        inner = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else None
        index = None if inner is None else evaluate(inner, failure.frame)
        if isinstance(index, Tensor) and index.ndim == 0 and inner is not None:
            given = text_of(inner)
            return f"{given}{_where(failure, given)} is one index, without batch and time: {given}.view(1, 1)"
    if len(size) > 3:
        told = f"{name} takes (batch, time, features), and {x} is {size}"
        return f"{told}: {x}.flatten(2) is {(*size[:2], prod(size[2:]))}"
    return f"{name} takes 2 or 3 dimensions, and {x} has {match[1]}"


@remedy(r"`len\(lengths\)` to be equal to batch_size, but got (\d+) \(batch_size=(\d+)\)")
def give_each_length(failure: Failure, match: re.Match[str]) -> str:
    """More or fewer lengths than sequences."""
    x, lengths = name_argument(failure, 0, "input"), name_argument(failure, 1, "lengths", "lengths")
    own = failure.find_operand(x)
    told = f"{lengths}{_where(failure, lengths)} has {match[1]} lengths, and {x}{_where(failure, x)} {match[2]} samples"
    size = () if own is None else tuple(own.value.shape)
    line = "" if failure.line is None else text_of(failure.line.node)
    if size and int(match[1]) == size[0] and "batch_first" not in line:
        return f"{told}: batch_first=True, for {x} is {size}"
    return f"{told}: one length for each"


@remedy(r"`lengths` array must be sorted in decreasing order")
def sort_lengths(failure: Failure, match: re.Match[str]) -> str:
    """Sequences of mixed lengths."""
    return "enforce_sorted=False takes the sequences as they come"


@remedy(r"Length of all samples has to be greater than 0")
def leave_empty_out(failure: Failure, match: re.Match[str]) -> str:
    """Empty sequences, which cannot be packed."""
    x = name_argument(failure, 1, "lengths", "lengths")
    told = f"{x}{_where(failure, x)} holds 0, an empty sequence"
    return f"{told}: leave that sample out, x[{x} > 0] and {x}[{x} > 0], or {x}.clamp(min=1)"


@remedy(r"Expected lengths of at most (\d+), the times of the input, but got (\d+)")
def put_batch_first(failure: Failure, match: re.Match[str]) -> str | None:
    """A batch of padded sequences that comes first."""
    x = next((each for each in failure.tensors() if each.value.ndim > 1), None)
    if x is None or tuple(x.value.shape[:2]) != (int(match[1]), int(match[2])):
        return None
    return f"{x.text}{at(x)} is {tuple(x.value.shape)}, (batch, time, features): batch_first=True"

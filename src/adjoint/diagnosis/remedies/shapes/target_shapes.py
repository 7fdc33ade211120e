"""Remedies for predictions and targets of different shapes."""

from __future__ import annotations

import ast
import re
from math import prod

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Shape
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, evaluate
from adjoint.diagnosis.output_layer import OutputLayer
from adjoint.diagnosis.remedies.losses import find_scores_layer
from adjoint.diagnosis.remedies.registry import (
    at,
    find_decoder,
    name_argument,
    name_of_shape,
    remedy,
    shape_of,
)
from adjoint.diagnosis.remedies.shapes.merged_samples import find_forward_result, keep_samples
from adjoint.diagnosis.source_expressions import text_of

RECURRENT = re.compile(r"lstm|gru|rnn|encoder", re.IGNORECASE)


@remedy(
    r"target size \(\S*\[([\d, ]*)\]\)\) (?:that is different to|must be the same as) "
    r"(?:the )?input size \(\S*\[([\d, ]*)\]"
)
def match_target_shape(failure: Failure, match: re.Match[str]) -> str:
    """Probabilities and truths of different shapes."""
    return _advise_shape(failure, shape_of(match[1]), shape_of(match[2]))


@remedy(r"^(?:mse|l1|smooth_l1|huber)_loss\(\w+\[([\d,]*)\], \w+\[([\d,]*)\]\): .*do not broadcast")
def match_regressionname_target(failure: Failure, match: re.Match[str]) -> str:
    """Predictions and targets of different shapes."""
    return _advise_shape(failure, shape_of(match[2]), shape_of(match[1]))


@remedy(r"\(f\d+\[(\d+),(\d+),\d+\], i64\[(\d+)\]\): Expected input batch_size")
def take_last_state(failure: Failure, match: re.Match[str]) -> str | None:
    """Scores of the states of all layers, against one class for each sample."""
    layers, samples, classes = map(int, match.groups())
    state = _find_state(failure) if samples == classes != layers else None
    if state is None:
        return None
    told = f"{state[0]} at {state[1]} is (layers, batch, hidden), with {pluralize(layers, 'layer')}"
    return f"{told}: {state[0]}[-1], that of the last"


@remedy(r"^(\w*(?:loss|similarity|distance))\((?:\w+\[[\d,]*\](?:, )?)+\): .*do not broadcast")
def match_rows(failure: Failure, match: re.Match[str]) -> str | None:
    """Inputs of a loss over pairs or triples, of different numbers of rows."""
    named = [(each.text, at(each), tuple(each.value.shape)) for each in failure.tensors() if each.value.ndim]
    if len({shape[0] for *_, shape in named}) < 2:
        return None
    told = ", ".join(f"{name}{where} is {shape}" for name, where, shape in named)
    if match[1] == "cosine_similarity" and [len(shape) for *_, shape in named] == [2, 2]:
        (first, _, (_, width)), (second, _, (_, other)) = named
        if width == other and first.isidentifier():
            call = f"cosine_similarity({first}.unsqueeze(1), {second}, dim=-1)"
            return f"{match[1]} takes one row of each: {told}; {call} compares all with all"
    return f"{match[1]} takes one row of each: {told}; all of one number of rows"


def _advise_shape(failure: Failure, target: Shape, given: Shape) -> str:
    """Return how a loss's input and its target come to one shape."""
    x = name_argument(failure, 0, "input", name_of_shape(failure, given))
    y = name_argument(failure, 1, "target", name_of_shape(failure, target, "the target"))
    if given[:-1] == target and given[-1:] == (1,):
        return f"{x}.squeeze(-1), or {y}.unsqueeze(-1): both of one shape"
    if given[:-1] == target:
        layer = find_scores_layer(failure)
        told = f"{x} has" if layer is None else f"{layer.describe()} gives"
        classes = next((each for each in failure.tensors() if each.text in (y, y.partition(".")[0])), None)
        rows = _find_read_rows(failure, x)
        if rows is not None and given == (*target, given[-1]):
            return rows
        is_of_classes = classes is not None and not classes.value.is_floating_point() and classes.value.numel()
        if classes is not None and is_of_classes and float(classes.value.max()) > 1:
            most, y = int(classes.value.max()), classes.text
            return f"{y}{at(classes)} holds classes of 0 to {most}, and {x} a score for each: F.cross_entropy({x}, {y})"
        call = None if layer is None else layer.origin.value_of(layer.name)
        outputs = call.args[1] if isinstance(call, ast.Call) and len(call.args) > 1 else None
        if isinstance(outputs, ast.Constant) and outputs.value != given[-1] and len(given) == 2:
            told = f"{x} is {given}, a value for each of {given[-1]} steps, and {y} {target}, one for each sample"
            return f"{told}: that of the last step, {x}[:, -1]"
        return f"{told} {given[-1]} scores for one truth of {y}: 1 output there, then .squeeze(-1)"
    state = _find_state(failure) if given[1:] == target and given[0] > 1 else None
    if state is not None:
        told = f"{state[0]} at {state[1]} has a row for each of {given[0]} layers or directions"
        return f"{told}: {state[0]}[-1], that of the last"
    if len(given) == 3 and given[::2] == target and given[1] > 1:
        return f"{x} has a row for each of {given[1]} steps, and {y} one for each sample: {x}[:, -1], the last step"
    merged = keep_samples(failure, given[0], target[0]) if given and target else None
    if merged is not None:
        return merged
    decoder = find_decoder(failure)
    if len(given) == len(target) > 2 and given[:2] == target[:2] and decoder is not None:
        told = f"{decoder.text}{at(decoder)} gives {x} as {given}, and {y} is {target}"
        if all(a < b for a, b in zip(given[2:], target[2:], strict=True)):
            return f"{told}: output_padding=1 in ConvTranspose{len(given) - 2}d adds the row that its stride left out"
        return f"{told}: F.interpolate({x}, size={y}.shape[2:])"
    if len(given) == len(target) == 1 and given[0] % target[0]:
        return _advise_samples(failure, (x, given[0]), (y, target[0]))
    if len(given) == len(target) and given[:1] == target[:1] and given[2:] == target[2:] and given[1:2] != target[1:2]:
        return _advise_outputs(find_scores_layer(failure), given[1], y, target[1])
    if sorted(n for n in given if n != 1) == sorted(n for n in target if n != 1):
        own = failure.find_operand(x)
        text = x if own is None or own.origin is None or own.origin.value is None else text_of(own.origin.value)
        if not given and target == (1,) and "squeeze()" in text:
            kept = text.replace("squeeze()", "squeeze(-1)")
            return f"{x} is (), as .squeeze(){at(own)} takes a batch of 1 out too, and {y} is {target}: {kept}"
        return f"{x} is {given}, {y} is {target}: {y}.reshape({x}.shape)"
    if prod(given) == prod(target) and given[:1] == target[:1]:
        flat, deep = (x, y) if len(given) < len(target) else (y, x)
        if 2 in (len(given), len(target)):
            return f"{x} is {given}, {y} is {target}: {deep}.flatten(1) has the shape of {flat}"
        return f"{x} is {given}, {y} is {target}: {y}.reshape({x}.shape)"
    is_multiple = len(given) == len(target) == 1 and given[0] % max(target[0], 1) == 0 < target[0]
    view = _find_flat_view(failure) if is_multiple else None
    if view is not None:
        told = f"{view.describe()} makes {given[0]} values of {target[0]} samples, {given[0] // target[0]} of each"
        return f"{told}: .flatten(1).mean(1) there, or a layer before it that gives one"
    if given[:-1] == target[:-1]:
        return _advise_outputs(find_scores_layer(failure), given[-1], y, target[-1])
    own = failure.find_operand(y)
    made = None if own is None or own.origin is None else own.origin.node
    is_fixed = made is not None and not isinstance(made, (ast.For, ast.AsyncFor))
    if is_fixed and given[1:] == target[1:] and given[:1] < target[:1]:
        told = f"{y}{at(own)} is for {target[0]} samples, and this batch has {given[0]}"
        return f"{told}: {y}[:{given[0]}], made for each batch, or DataLoader(drop_last=True)"
    return f"{x} is {given}, {y} is {target}: both of one shape"


def _find_flat_view(failure: Failure) -> Origin | None:
    """Return the `view(-1)` of the user's forward that has merged the values of all samples."""
    returned = find_forward_result(failure)
    scope = None if returned is None else returned.source.scope_of(returned.node)
    for each in ast.walk(scope) if scope is not None else ():
        name = text_of(each.func).rpartition(".")[2] if isinstance(each, ast.Call) else ""
        is_flat = isinstance(each, ast.Call) and [text_of(part) for part in each.args] == ["-1"]
        if returned is not None and name in ("view", "reshape") and is_flat:
            return Origin(returned.source, each)
    return None


def _find_state(failure: Failure) -> tuple[str, str] | None:
    """Return the last state of a recurrent layer that the model's forward goes on with, and where it is made."""
    returned = find_forward_result(failure)
    scope = None if returned is None else returned.source.scope_of(returned.node)
    for made in ast.walk(scope) if scope is not None else ():
        target = made.targets[0] if isinstance(made, ast.Assign) else None
        if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or not isinstance(made, ast.Assign):
            continue
        if not isinstance(made.value, ast.Call) or not RECURRENT.search(text_of(made.value.func)) or returned is None:
            continue
        state = target.elts[1].elts[0] if isinstance(target.elts[1], ast.Tuple) else target.elts[1]
        used = [each for each in ast.walk(returned.node) if isinstance(each, ast.Name) and each.id == text_of(state)]
        if used and not isinstance(returned.source.parents.get(used[0]), ast.Subscript):
            return text_of(state), returned.source.place_of(made)
    return None


def _find_read_rows(failure: Failure, name: str) -> str | None:
    """Return what to write where an index, such as that of actions, was to take one value of each row."""
    own = failure.find_operand(name)
    made = None if own is None or own.origin is None else own.origin.value
    index = evaluate(made.slice, failure.frame) if isinstance(made, ast.Subscript) else None
    if own is None or not isinstance(made, ast.Subscript) or not isinstance(index, Tensor) or index.ndim != 1:
        return None
    scores, places = text_of(made.value), text_of(made.slice)
    told = f"{text_of(made)}{at(own)} takes the rows of the numbers in {places}"
    return f"{told}: {scores}.gather(1, {places}.unsqueeze(1)).squeeze(1) takes one value of each row"


def _advise_samples(failure: Failure, result: tuple[str, int], truth: tuple[str, int]) -> str:
    """Return how a number for each sample of a batch meets targets of another number."""
    (x, count), (y, wanted) = result, truth
    own = failure.find_operand(y)
    told = f"{x} has one number for each of {count} samples, and {y}{at(own)} {wanted}"
    made = None if own is None or own.origin is None else own.origin.value_of(y)
    if isinstance(made, ast.Call) and text_of(made.func).rpartition(".")[2] in ("ones", "zeros", "full"):
        kind = text_of(made.func)
        rest = "".join(f", {text_of(each)}" for each in made.args[1:])
        return f"{told}: {kind}_like({x}{rest}) is of the same number for each batch, also the last"
    return f"{told}: both of one batch"


def _advise_outputs(layer: OutputLayer | None, given: int, target: str, wanted: int) -> str:
    """Return which layer gives more or fewer values for each sample than there are targets."""
    if layer is None:
        return f"the last layer gives {given} values for each sample, and {target} has {wanted}: make it {wanted} there"
    if ".Conv" in layer.describe() and given % wanted == 0:
        told = f"{layer.describe()} gives a map of {given // wanted} values for each of the {wanted} in {target}"
        return f"{told}: .mean((2, 3)) of it, or a kernel of its whole size there"
    return f"{layer.describe()} gives {given}, and {target} has {wanted}: {layer.write_with(wanted)} there"

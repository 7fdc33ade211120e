"""Remedies for layers and products that do not fit their input: features, channels, kernels, inner sizes."""

from __future__ import annotations

import ast
import re
from math import prod

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Shape
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue, Origin, evaluate, find_origin
from adjoint.diagnosis.output_layer import OutputLayer
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    describe_layer,
    find_producer,
    locate_tensor,
    name_argument,
    name_of_shape,
    remedy,
    shape_of,
    takes_input,
)
from adjoint.diagnosis.remedies.shapes.number_origins import describe_number, write_exchanged, write_maker
from adjoint.diagnosis.repairs.expression import Edit, bracket, parse
from adjoint.diagnosis.repairs.orders import fits
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of


@remedy(r"linear: input is \(([\d, ]*)\), weight \((\d+), (\d+)\)")
def fit_linear(failure: Failure, match: re.Match[str]) -> str:
    """A linear layer whose input has other features."""
    shape, out, expected = shape_of(match[1]), int(match[2]), int(match[3])
    x = name_of_shape(failure, shape)
    layer = failure.module()
    if layer is not None and type(layer.value).__name__ == "MultiheadAttention":
        told = f"{layer.text}{at(layer)} takes {expected} features, {x} has {shape[-1]}"
        if not any(each.value is layer.value for each in failure.operands):
            given = [find_producer(failure, argument_node(failure, place)) for place in (0, 1)]
            for made in (each for each in given if each is not None and each.origin is not None):
                if getattr(made.value, "out_features", None) == shape[-1] and made.origin is not None:
                    changed = OutputLayer(made.text, made.origin).write_with(expected)
                    return f"{told}, from {made.text}{at(made)}: {changed} there"
            return f"{told}: make that {expected} too, or the d_model of both one number"
        return f"{told}: kdim={shape[-1]}, vdim={shape[-1]} there, where it gives keys and values"
    for begin in range(len(shape) - 1):
        if begin == 0 and len(shape) == 2:
            continue  # a batch that has the features by chance
        pooled = _flatten_channels(failure, begin, shape) if prod(shape[begin:]) == expected else None
        if pooled is not None:
            return pooled
        if prod(shape[begin:]) == expected and x == "the input" and layer is not None and layer.text.endswith("]"):
            told = f"{layer.text}{at(layer)} takes {expected} features, and its input is {shape}"
            return f"{told}: nn.Flatten({'' if begin == 1 else begin}) before it"
        if prod(shape[begin:]) == expected:
            return f"flatten the input first: {x}.flatten({begin}) has {expected} features"
    if len(shape) > 2 and expected in shape[:-1]:
        turned = _turn_around(failure, x, shape.index(expected), len(shape))
        if turned is not None:
            return f"dimension {shape.index(expected)} of {x}, {shape}, has the {expected} features: {turned}"
    if len(shape) > 1 and expected in shape[:-1] and not _has_rows_of_samples(failure, x, shape):
        return f"the last dimension holds the features, and dimension {shape.index(expected)} has {expected}: transpose"
    if len(shape) == 1 and prod(shape) % expected == 0:
        return f"reshape the input to (batch, {expected}): {x}.reshape(-1, {expected})"
    features = shape[-1] if shape else 1
    weight = argument_node(failure, 1, "weight")
    if layer is None and weight is not None and features == out != expected:
        told = f"F.linear takes a weight as (out, in), and {text_of(weight)}{at(failure.find_operand(text_of(weight)))}"
        return f"{told} is ({out}, {expected}): {text_of(weight)}.T"
    name, _ = describe_layer(failure)
    pooled = _find_other_mean(failure)
    if pooled is not None:
        return pooled
    joined = _join_elsewhere(failure)
    if joined is not None:
        return joined
    if layer is not None and getattr(layer.value, "in_features", expected) == features:
        told = f"{name} takes {features} features, and {_find_set_weight(failure, layer)} is ({out}, {expected})"
        return f"{told}: {features} in the place of {expected} where that is made, ({out}, {features})"
    pooling = _find_other_pooling(failure)
    if pooling is not None:
        return pooling
    chained = _find_chained_size(layer)
    told = f"{name} takes {expected} features, {x} has {features}"
    if chained is not None:
        return f"{told}: {chained}"
    exchanged = write_exchanged(layer, features) if features == out != expected else None
    if exchanged is not None:
        return f"{told}: {exchanged} there, its sizes in the other order"
    maker = write_maker(layer, 0, "in_features", features, is_shared=takes_input(failure))
    if maker is not None:
        return f"{told}: {maker} there"
    by = describe_number(layer, 0, "in_features", features, is_shared=takes_input(failure))
    return f"{told}: nn.Linear({features}, {out}) there{by}"


def _find_chained_size(layer: NamedValue | None) -> str | None:
    """Return what to write where a loop makes layers that all take one size, and not what those before them give."""
    origin = None if layer is None else layer.origin
    calls = [each for each in ast.walk(origin.value) if isinstance(each, ast.Call)] if origin and origin.value else []
    made = next((each for each in calls if len(each.args) > 1 and text_of(each.func).endswith("Linear")), None)
    around: ast.AST | None = made
    while origin is not None and around is not None and not isinstance(around, (ast.For, ast.FunctionDef)):
        around = origin.source.parents.get(around)
    if made is None or origin is None or not isinstance(around, ast.For):
        return None
    first, second = made.args[:2]
    place = origin.source.place_of(made)
    if isinstance(first, ast.Subscript) and isinstance(second, ast.Subscript):
        is_fixed = isinstance(first.slice, ast.Constant) and text_of(first.value) == text_of(second.value)
        next_one = re.fullmatch(r"(\w+) \+ 1", text_of(second.slice))
        if is_fixed and next_one is not None:
            return f"each layer takes what the one before gives, {text_of(first.value)}[{next_one[1]}] at {place}"
    stored = {each.id for each in ast.walk(around) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    if isinstance(first, ast.Name) and first.id not in stored and text_of(second) in stored:
        return f"each layer takes what the one before gives: {first.id} = {text_of(second)} in the loop, after {place}"
    return None


def _has_rows_of_samples(failure: Failure, x: str, shape: Shape) -> bool:
    """Return whether other tensors of the frames, such as targets, have as many rows, which are samples then."""
    if len(shape) != 2:
        return False
    own = failure.find_operand(x)
    held = [each for place in failure.stack for each in place.frame.f_locals.values() if isinstance(each, Tensor)]
    others = [each for each in held if own is None or each is not own.value]
    return any(each.ndim and each.shape[0] == shape[0] and type(each) is Tensor for each in others)


def _flatten_channels(failure: Failure, begin: int, shape: Shape) -> str | None:
    """Return a call with its input flattened, and its result with the dimensions again that what follows wants."""
    call, given = failure.node, argument_node(failure, 0, "input")
    if not isinstance(call, ast.Call) or given is None or set(shape[2:]) != {1} or begin != 1:
        return None
    once = text_of(Edit(given, parse(f"{bracket(given)}.flatten(1)")).apply(call))
    back = f"{once}[:, :, {', '.join(['None'] * (len(shape) - 2))}]"
    told = f"{text_of(given)} is {shape}, and a Linear takes the channels alone"
    return f"{told}: {back}" if not fits(failure, call, once) and fits(failure, call, back) else None


def _find_other_mean(failure: Failure) -> str | None:
    """Return where images were averaged over their channels, whose means a Linear takes."""
    node = argument_node(failure, 0, "input")
    origin = (
        find_origin(failure.line.source, node, failure.stack) if isinstance(node, ast.Name) and failure.line else None
    )
    call = None if origin is None else origin.value
    method = call.func if isinstance(call, ast.Call) else None
    if origin is None or not isinstance(call, ast.Call) or not isinstance(method, ast.Attribute):
        return None
    given = next((each.value for each in call.keywords if each.arg in ("dim", "axis")), next(iter(call.args), None))
    dims = _read_numbers(given)
    if method.attr not in ("mean", "amax", "sum") or dims not in ([1, 2], [2, 1], [-2, -3], [-3, -2]):
        return None
    told = f"{text_of(call)} at {origin.place()} goes over the channels, as images are (batch, channels, height, width)"
    return f"{told}: {text_of(method)}((2, 3)) there"


def _read_numbers(node: ast.expr | None) -> list[int]:
    """Return the numbers that a tuple or a list of the program's is written with; none of what is no number."""
    try:
        given = ast.literal_eval(node) if node is not None else ()
    except ValueError:
        return []
    return [each for each in given if isinstance(each, int)] if isinstance(given, (tuple, list)) else []


def _join_elsewhere(failure: Failure) -> str | None:
    """Return a join within the line along another dimension, with which the line runs."""
    for call in ast.walk(failure.node) if failure.node is not None else ():
        if not isinstance(call, ast.Call) or not re.search(r"\b(cat|concat|concatenate)$", text_of(call.func)):
            continue
        value = compute(call, failure.frame)
        rest = [each for each in call.keywords if each.arg not in ("dim", "axis")]
        for dim in range(1, value.ndim) if isinstance(value, Tensor) else ():
            changed = text_of(ast.Call(call.func, call.args[:1], [*rest, ast.keyword("dim", ast.Constant(dim))]))
            if fits(failure, call, changed):
                told = f"{text_of(call)} is {tuple(value.shape)}, joined along dimension 0"
                return f"{told}: {changed}"
    return None


def _turn_around(failure: Failure, x: str, dim: int, count: int) -> str | None:
    """Return the call with two dimensions of its input exchanged, and exchanged back where what follows wants them."""
    call = failure.node
    given = argument_node(failure, 0, "input")
    if not isinstance(call, ast.Call) or given is None or text_of(given) != x:
        return None
    turned = f"{x}.transpose({dim}, {count - 1})"
    once = text_of(Edit(given, parse(turned)).apply(call))
    back = f"{once}.transpose({dim}, {count - 1})"
    return next((each for each in (once, back) if fits(failure, call, each)), None)


def _find_set_weight(failure: Failure, layer: NamedValue) -> str:
    """Return which statement has given a layer another weight than its own."""
    source = None if failure.line is None else failure.line.source
    for target in source.outside_assignments.get("weight", ()) if source is not None else ():
        if source is not None and text_of(target.value) == layer.text:
            statement = source.statement_of(target)
            given = getattr(statement, "value", None)
            shared = "" if given is None else f", {text_of(given)}, which must be of one width with it,"
            return f"the weight that {source.place_of(statement)} gives it{shared}"
    return "its weight"


def _find_other_pooling(failure: Failure) -> str | None:
    """Return the pooling of two dimensions that works on the result of a convolution of one, or the other way round."""
    node = argument_node(failure, 0, "input")
    for call in ast.walk(node) if node is not None else ():
        for inner in call.args if isinstance(call, ast.Call) else ():
            kinds = [
                type(evaluate(each.func, failure.frame)).__name__
                for each in (call, inner)
                if isinstance(each, ast.Call) and isinstance(call, ast.Call)
            ]
            if len(kinds) == 2 and "Pool" in kinds[0] and "Conv" in kinds[1] and kinds[0][-2:] != kinds[1][-2:]:
                own = failure.find_operand(text_of(call.func)) if isinstance(call, ast.Call) else None
                origin = None
                if failure.line is not None and isinstance(call, ast.Call):
                    origin = find_origin(failure.line.source, call.func, failure.stack)
                    own = NamedValue(text_of(call.func), None, origin)
                told = "the pooling" if own is None else f"{own.text}{at(own)}"
                return f"{told} is a {kinds[0]} after a {kinds[1]}: nn.{kinds[0][:-2]}{kinds[1][-2:]} there"
    return None


def _find_squeeze(failure: Failure) -> str | None:
    """Return the `squeeze()` of all dimensions that gave the input of the line, with its place."""
    node = argument_node(failure, 0, "input")
    origin = None if node is None or failure.line is None else Origin(failure.line.source, node)
    if isinstance(node, ast.Name) and failure.line is not None:
        origin = find_origin(failure.line.source, node, failure.stack)
    for part in ast.walk(origin.value) if origin is not None and origin.value is not None else ():
        is_method = isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "squeeze"
        if origin is not None and isinstance(part, ast.Call) and is_method and not part.args and not part.keywords:
            return f"{text_of(part)} at {origin.source.place_of(part)}"
    return None


@remedy(r"weight of size \[([\d, ]+)\], expected input\[([\d, ]+)\] to have (\d+) channels, but got (\d+)")
def fit_convolution(failure: Failure, match: re.Match[str]) -> str:
    """A convolution whose input has other channels."""
    shape, expected, found = shape_of(match[2]), int(match[3]), int(match[4])
    x = name_of_shape(failure, shape)
    is_square = len(shape) == 4 and shape[2] == shape[3] != shape[1]  # then those are height and width
    places = [i for i, size in enumerate(shape) if size == expected and i > 1]
    if len(places) == 1 and len(shape) > 3 and expected > 1 and not is_square and places[0] != len(shape) - 1:
        place = places[0]
        order = (0, place, *(i for i in range(1, len(shape)) if i != place))
        return f"dimension {place} of {x} has the {expected} channels: {x}.permute{order}"
    if shape[-1] == expected and not is_square:
        order = (0, len(shape) - 1, *range(1, len(shape) - 1))
        return f"channels come after the batch: {x}.permute{order}, which has {expected} channels"
    own = next((each for each in failure.tensors() if each.value.ndim == len(shape) - 1), None)
    if own is not None and shape[0] == 1 and tuple(own.value.shape) == shape[1:] and expected == 1 and found > 1:
        told = f"{own.text}{at(own)}, {shape[1:]}, has no dimension of channels"
        return f"{told}: {own.text}.unsqueeze(1) is {(found, 1, *shape[2:])}"
    joined = _find_batch_join(failure, shape[1], expected)
    if joined is not None:
        return joined
    squeezed = _find_squeeze(failure)
    if squeezed is not None and expected == 1:
        return f"{squeezed} takes out every dimension of 1, the channels too: leave it out, or name one, .squeeze(dim)"
    swapped = _find_swapped(failure, shape, shape_of(match[1]))
    if swapped is not None:
        return swapped
    name, kind = describe_layer(failure, kind="Conv")
    if failure.module() is None and expected == 1 < found:
        w = name_of_shape(failure, shape_of(match[1]), "the weight")
        return f"{w} is for 1 channel, and {x} has {found}: groups={found} with {w}.repeat({found}, 1, …), one for each"
    weight, groups = shape_of(match[1]), getattr(getattr(failure.module(), "value", None), "groups", 1)
    out = weight[1] * groups if "transposed=1" in failure.message else weight[0]
    growing = _find_growing(failure)
    if growing is not None:
        return growing
    told = f"{name} takes {expected} channels, its input has {found}"
    exchanged = write_exchanged(failure.module(), found) if found == out != expected else None
    if exchanged is not None:
        return f"{told}: {exchanged} there, its sizes in the other order"
    maker = write_maker(failure.module(), 0, "in_channels", found, is_shared=takes_input(failure))
    if maker is not None:
        return f"{told}: {maker} there"
    by = describe_number(failure.module(), 0, "in_channels", found, is_shared=takes_input(failure))
    return f"{told}: nn.{kind}({found}, {out}, …) there{by}"


def _find_growing(failure: Failure) -> str | None:
    """Return the sizes of layers in a list, of which each takes what those before it have added."""
    layer, statement = failure.module(), None
    if failure.line is not None:
        statement = failure.line.source.statement_of(failure.line.node)
    made = None if layer is None or layer.origin is None else layer.origin.value
    listed = (
        next((each for each in ast.walk(made) if isinstance(each, ast.ListComp)), None) if made is not None else None
    )
    call = None if listed is None else listed.elt
    joined = statement.value if isinstance(statement, ast.Assign) else None
    is_join = isinstance(joined, ast.Call) and re.search(r"\bcat$|\bconcat$", text_of(joined.func))
    if layer is None or listed is None or not isinstance(call, ast.Call) or len(call.args) < 2 or not is_join:
        return None
    counter = text_of(listed.generators[0].target)
    first, added = map(text_of, call.args[:2])
    if not isinstance(statement, ast.Assign) or text_of(statement.targets[0]) not in text_of(statement.value):
        return None
    if not text_of(listed.generators[0].iter).startswith("range("):
        return None
    if first == added:  # as many as it takes: to be added, not joined
        parts = statement.value.args[0] if isinstance(statement.value, ast.Call) and statement.value.args else None
        sides = parts.elts if isinstance(parts, (ast.List, ast.Tuple)) else []
        if len(sides) == 2:
            told = f"{text_of(statement)} doubles the channels, and {layer.text}{at(layer)} takes {first} in each turn"
            return f"{told}: {text_of(statement.targets[0])} = {text_of(sides[0])} + {text_of(sides[1])}"
    counter = "k" if counter == "_" else counter
    whole = f"{text_of(call.func)}({first} + {counter} * {added}, {', '.join(map(text_of, call.args[1:]))}, …)"
    told = f"{text_of(statement)} adds {added} channels in each turn, and {layer.text}{at(layer)} takes {first}"
    return f"{told}: {whole} there"


def _find_batch_join(failure: Failure, found: int, expected: int) -> str | None:
    """Return the `torch.cat([a, b])` in a line without a dimension, which adds samples in the place of channels."""
    for call in ast.walk(failure.node) if failure.node is not None else ():
        name = text_of(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or name not in ("cat", "concat") or len(call.args) != 1 or call.keywords:
            continue
        parts = call.args[0].elts if isinstance(call.args[0], (ast.List, ast.Tuple)) else []
        if len(parts) > 1 and expected == found * len(parts):
            told = f"{text_of(call)} joins the samples, along dimension 0"
            return f"{told}: {text_of(call.func)}({text_of(call.args[0])}, dim=1) has {expected} channels"
    return None


def _find_swapped(failure: Failure, given: Shape, weight: Shape) -> str | None:
    """Return the call of a function of convolution whose input and weight have changed places."""
    node = failure.node
    if failure.module() is not None or not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    if not all(p < q for p, q in zip(given[2:], weight[2:], strict=True)):
        return None
    x, w = map(text_of, node.args[:2])
    told = (
        f"the input comes first, then the weight, and {x} is {given}, {w} {weight}: {text_of(node.func)}({w}, {x}, …)"
    )
    channels = weight[1]
    own = given[1]
    if own == 1 < channels:
        return f"{told}, with groups={channels} and {x}.repeat({channels}, 1, …) for one of each channel"
    return told


@remedy(r"input size per channel: \(([\d x]+)\)\. Kernel size: \(([\d x]+)\).*greater than actual input size")
def shrink_kernel(failure: Failure, match: re.Match[str]) -> str:
    """A window larger than what it moves over."""
    name, _ = describe_layer(failure)
    x = name_argument(failure, 0)
    if len(failure.modules) > 1 and not any(each.value is failure.modules[0] for each in failure.operands):
        told = f"{name} has a kernel of {match[2]}, and what reaches it is {match[1]}, with its padding"
        return f"{told}: padding= there, fewer poolings or strides before it, or a larger {x}"
    told = f"{name} has a kernel of {match[2]}, and {x}{locate_tensor(failure, x)} with its padding is {match[1]}"
    return f"{told}: F.pad({x}, …) to {match[2]} or more before it, padding= or a smaller kernel there"


@remedy(r"Expected (\d)D \(unbatched\) or (\d)D \(batched\) input to (\w+), but got input of size: \[([\d, ]+)\]")
def give_spatial_dimensions(failure: Failure, match: re.Match[str]) -> str:
    """An input of a convolution with fewer or more dimensions."""
    count, shape = int(match[2]), shape_of(match[4])
    x = name_of_shape(failure, shape)
    layer = describe_layer(failure)[0]
    missing = count - len(shape)
    told = f"{layer} takes (batch, channels, …), {count} dimensions, and {x}{locate_tensor(failure, x)} is {shape}"
    weight = re.search(r"weight of size:? \[([\d, ]+)\]", failure.message)
    if not missing and weight is not None:
        size = shape_of(weight[1])
        k = name_of_shape(failure, size, "the weight")
        added = ", ".join(["None"] * (count - len(size)))
        told = f"{k}{locate_tensor(failure, k)} is {size}, and a weight is (out, in, …), {count} dimensions"
        return f"{told}: {k}[{added}] is {(*(1,) * (count - len(size)), *size)}"
    ones = [place for place, size in enumerate(shape) if size == 1 and place]
    if missing == -1 and ones:
        return f"{told}: {x}.squeeze({ones[0]}) is {(*shape[: ones[0]], *shape[ones[0] + 1 :])}"
    size = shape_of(weight[1]) if weight is not None else ()
    if missing == -1 and len(size) > 1 and shape[2] == size[1]:
        merged = (shape[0] * shape[1], *shape[2:])
        return f"{told}: {x}.flatten(0, 1) is {merged}, and .unflatten(0, {shape[:2]}) parts the result again"
    if missing <= 0:
        return f"{told}: flatten or leave out {1 - missing if missing else 1} of them"
    channels = getattr(getattr(failure.module(), "value", None), "in_channels", 0)
    side = round((shape[-1] / channels) ** (1 / (count - 2))) if channels and len(shape) == 2 else 0
    if side > 1 and channels * side ** (count - 2) == shape[1]:
        sizes = ", ".join(map(str, (channels, *(side,) * (count - 2))))
        given = name_argument(failure, 0, "input", x)
        told = told.replace(f"and {x}{locate_tensor(failure, x)} is", f"and {given} is")
        return f"{told}: {given}.view(-1, {sizes}) makes images of its {shape[1]} features"
    if "transpose" in match[3] or (len(shape) == 2 and shape[1] == channels):
        return f"{told}: {x}[{', '.join([':'] * len(shape) + ['None'] * missing)}] is {(*shape, *(1,) * missing)}"
    return f"{told}: {x}[{', '.join(['None'] * missing)}] is {(*(1,) * missing, *shape)}"

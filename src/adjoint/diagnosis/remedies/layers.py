"""Remedies for what one layer gives and the next takes: flattened batches, shortcuts, skip connections, masks."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from math import prod

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Shape
from adjoint.diagnosis.causes.operand_history import walk_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue, evaluate, find_origin, find_return_in, is_module
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    describe_layer,
    find_part,
    find_producer,
    name_argument,
    name_of_shape,
    remedy,
    shape_of,
    takes_input,
)
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.source_expressions import SourceFile, text_of

FLATTENING = re.compile(r"(?:torch\.flatten\(\w+\)|\.flatten\(\)|\.view\(-1\)|\.reshape\(-1\)|\.ravel\(\))$")

MAX_SCALE = 5


@remedy(r"linear: input is|expected input|\(unbatched\)|inner sizes differ|do not broadcast|[Ee]xpected \dD")
@remedy(r"must be Tensor, not", is_last=True)
def keep_output(failure: Failure, match: re.Match[str]) -> str | None:
    """A forward hook that returns something, which takes the place of the layer's result."""
    parent = failure.modules[1] if len(failure.modules) > 1 else failure.frame.f_locals.get("self")
    parts = list(vars(parent)["_modules"].values()) if is_module(parent) else []
    failed = failure.modules[0] if len(failure.modules) > 1 else None  # else the parent itself
    for before, part in pairwise([*parts, None]):
        hooks = getattr(before, "_forward_hooks", None) if failed is None or part is failed else None
        code = getattr(next(reversed(hooks.values())), "__code__", None) if hooks else None
        returned = None if code is None else find_return_in(code)
        value = None if returned is None else getattr(returned.node, "value", None)
        if returned is not None and value is not None and text_of(value) != "None":
            told = f"the hook of {type(before).__name__} at {returned.describe()}, puts that in place of its result"
            return f"{told}: a hook that only looks returns nothing"
    return None


@remedy(r"linear: input is \((?:\d+, )*(\d+)\), weight \(\d+, (\d+)\)")
def split_features(failure: Failure, match: re.Match[str]) -> str | None:
    """Parts of a batch, by chunk or split without a dimension, where parts of the features were meant."""
    features, expected = int(match[1]), int(match[2])
    if not expected or features % expected:
        return None

    def describe(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
        for call in ast.walk(node):
            name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
            if name not in ("chunk", "split") or not isinstance(call, ast.Call) or call.keywords:
                continue
            if len(call.args) == 1 and not text_of(call.func).startswith("torch."):
                told = f"{text_of(call)} at {source.place_of(call)} parts the batch, dimension 0"
                return f"{told}: .{name}({text_of(call.args[0])}, dim=-1) parts the features"
        return None

    return walk_back(failure, describe)


@remedy(r"linear: input is \((\d+),?\), weight \((\d+), (\d+)\)")
def keep_batch(failure: Failure, match: re.Match[str]) -> str | None:
    """A batch that was flattened with the features."""
    size, expected = int(match[1]), int(match[3])
    x = next((each for each in failure.tensors() if tuple(each.value.shape) == (size,)), None)
    made = None if x is None or x.origin is None else x.origin.value
    text = "" if made is None else text_of(made)
    if x is None or not FLATTENING.search(text):
        return None
    base = text_of(made.args[0]) if isinstance(made, ast.Call) and made.args and "flatten(" in text else x.text
    base = base if base.isidentifier() else text.rpartition(".")[0]
    told = f"{text}{at(x)} takes the batch into the features too: {base}.flatten(1) there"
    return told if size % expected == 0 else f"{told}, and the layer is to take as many features as that has"


@remedy(r"view\(\w+\[([\d,]+)\]\): shape '\[-1, (\d+)\]' is invalid for input of size (\d+)")
def flatten_features(failure: Failure, match: re.Match[str]) -> str | None:
    """A view of a batch whose features are others than expected."""
    shape, wanted = shape_of(match[1]), int(match[2])
    if len(shape) < 2:
        return None
    x, features = name_of_shape(failure, shape, "x"), prod(shape[1:])
    told = f"{x}, {shape}, has {features} features for each of {shape[0]} samples, not {wanted}"
    return f"{told}: {x}.flatten(1), and nn.Linear({features}, …) after it"


@remedy(r"linear: input is \((\d+), (\d+)\), weight \((\d+), (\d+)\)")
def count_rows(failure: Failure, match: re.Match[str]) -> str | None:
    """A view with a fixed number of rows, for a batch of another."""
    rows, features, _, expected = map(int, match.groups())
    x = next((each for each in failure.tensors() if tuple(each.value.shape) == (rows, features)), None)
    made = None if x is None or x.origin is None else x.origin.value
    if x is None or not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute) or len(made.args) != 2:
        return None
    size = rows * features
    is_view = made.func.attr in ("view", "reshape") and text_of(made.args[1]) == "-1"
    if not is_view or size % expected or rows == size // expected:
        return None
    base, first = text_of(made.func.value), text_of(made.args[0])
    told = f"{text_of(made)}{at(x)} makes {rows} rows, and this batch has {size // expected} of {expected} features"
    return f"{told}: {base}.flatten(1), or {base}.size(0) in place of {first}"


RESIZING = re.compile(r"interpolate\(|Upsample|ConvTranspose|MaxUnpool|\bup\w*\(|upsample")


@remedy(r"shapes \((\d+, \d+, \d+, \d+)\) and \((\d+, \d+, \d+, \d+)\)")
def resize_to_other(failure: Failure, match: re.Match[str]) -> str | None:
    """A map that was enlarged by a factor, beside one whose odd size was halved."""
    a, b = shape_of(match[1]), shape_of(match[2])
    if a[:2] != b[:2] or max(abs(p - q) for p, q in zip(a[2:], b[2:], strict=True)) > 1:
        return None
    for shape, other in ((a, b), (b, a)):
        own = next((each for each in failure.tensors() if tuple(each.value.shape) == shape), None)
        made = None if own is None or own.origin is None else own.origin.value
        if own is None or made is None or not RESIZING.search(text_of(made)):
            continue
        rest = next((each.text for each in failure.tensors() if tuple(each.value.shape) == other), None)
        size = f"{rest}.shape[-2:]" if rest is not None else str(other[2:])
        told = f"{own.text}{at(own)} is {shape[2:]}, and what it is added to {other[2:]}, an odd size that was halved"
        return f"{told}: F.interpolate(…, size={size}) in place of a factor"
    return None


def _find_missing_stride(failure: Failure, size: Shape, other: NamedValue) -> str | None:
    """Return which transposed convolution of the line would enlarge its input to the other's size by a stride."""
    wanted = tuple(other.value.shape[2:])
    for call in ast.walk(failure.node) if failure.node is not None else ():
        layer: Operand = evaluate(call.func, failure.frame) if isinstance(call, ast.Call) else None
        if "ConvTranspose" not in type(layer).__name__ or not isinstance(call, ast.Call) or set(layer.stride) != {1}:
            continue
        kernel = layer.kernel_size
        if tuple(s * k for s, k in zip(size, kernel, strict=False)) == wanted and failure.line is not None:
            own = find_origin(failure.line.source, call.func, failure.stack)
            where = "" if own is None else f" at {own.place()}"
            given = tuple(s + k - 1 for s, k in zip(size, kernel, strict=False))
            told = f"{text_of(call.func)}{where} makes {given} of {tuple(size)}, and {other.text} is {wanted}"
            return f"{told}: stride={kernel[0]} there"
    return None


@remedy(r"Sizes of tensors must match except in dimension (\d+)")
def match_skip_sizes(failure: Failure, match: re.Match[str]) -> str | None:
    """A skip connection whose two sides differ in height and width, for a pooling has rounded down."""
    tensors = failure.tensors()
    if len(tensors) != 2 or int(match[1]) != 1 or any(each.value.ndim < 3 for each in tensors):
        return None
    a, b = tensors
    p, q = tuple(a.value.shape), tuple(b.value.shape)
    one, many = (a, b) if p[0] == 1 else (b, a)
    if len(p) == len(q) and p[0] != q[0] and one.value.shape[0] == 1 and p[2:] == q[2:]:
        wanted = f"{one.text}.expand({many.text}.shape[0], {', '.join(['-1'] * (len(p) - 1))})"
        return f"{one.text}{at(one)} is one for the batch of {many.value.shape[0]}: {wanted}"
    enlarged = _find_missing_stride(failure, a.value.shape[2:], b)
    if enlarged is not None:
        return enlarged
    if len(p) != len(q) or p[0] != q[0] or p[2:] == q[2:] or p[2:] == (q[3:] + q[2:3]):
        return None
    if 1 in (*p[2:], *q[2:]) and sum(m != n for m, n in zip(p, q, strict=True)) == 1:
        return None  # one more step of a sequence: another dimension is meant
    small, large = (a, b) if p[2:] <= q[2:] else (b, a)
    sizes = f"{small.text}{at(small)} is {tuple(small.value.shape[2:])}, {large.text} {tuple(large.value.shape[2:])}"
    made = find_producer(failure, find_part(failure, small.text))
    if made is not None and set(getattr(made.value, "stride", ())) == {1}:
        kernel, padding = made.value.kernel_size, made.value.padding
        halves = {(size - 1) // 2 for size in kernel if size % 2}
        if len(halves) == 1 and isinstance(padding, tuple) and padding[0] < min(halves):
            return f"{sizes}: padding={halves.pop()} in {made.text}{at(made)}, whose kernel is {kernel}, keeps the size"
    for own, other in ((a, b), (b, a)):
        transposed = find_producer(failure, find_part(failure, own.text))
        is_larger = own.value.shape[-1] > other.value.shape[-1]
        if transposed is not None and is_larger and "ConvTranspose" in type(transposed.value).__name__:
            told = _fit_transposed(transposed, own.value.shape[-1], other.value.shape[-1])
            if told is not None:
                return told
    mode = {3: "linear", 4: "bilinear", 5: "trilinear"}[len(p)]
    listed = argument_node(failure, 0, "tensors")
    texts = [text_of(each) for each in listed.elts] if isinstance(listed, (ast.List, ast.Tuple)) else []
    if len(texts) == 2 and small.text not in texts and large.text in texts:  # what is joined is computed of it
        computed = texts[1 - texts.index(large.text)]
        told = f"{computed} has another height and width than {large.text}{at(large)}, {tuple(large.value.shape[2:])}"
        told = f"{told}, which is no multiple of the strides that halve it"
        return f"{told}: F.interpolate({computed}, size={large.text}.shape[2:], mode={mode!r})"
    return f"{sizes}: {small.text} = F.interpolate({small.text}, size={large.text}.shape[2:], mode={mode!r}) before it"


def _fit_transposed(layer: NamedValue, given: int, wanted: int) -> str | None:
    """Return which kernel or padding makes a transposed convolution give another size."""
    kernel, stride = layer.value.kernel_size[-1], layer.value.stride[-1]
    padding, more = layer.value.padding[-1], layer.value.output_padding[-1]
    size = (given - more + 2 * padding - kernel) // stride + 1
    told = f"{layer.text}{at(layer)} gives {given} of {size}, ({size} - 1) * {stride} - 2 * {padding} + {kernel}"
    told += f" + {more}" if more else ""
    for own in range((kernel + 1) // 2 + 1):
        added = wanted - (given - more + 2 * padding - 2 * own)
        if own >= padding and 0 <= added < stride:
            shorter = kernel - (given - wanted)
            option = f"kernel_size={shorter}, or " if shorter == stride and not padding and not more else ""
            return f"{told}, and {wanted} is wanted: {option}padding={own}, output_padding={added} there"
    return None


@remedy(r"Tensors must have same number of dimensions: got (\d+) and (\d+)")
def add_joined_dimension(failure: Failure, match: re.Match[str]) -> str | None:
    """Tensors to be joined of which one has fewer dimensions."""
    tensors = sorted(failure.tensors(), key=lambda each: each.value.ndim)
    if len(tensors) > 1 and tensors[0].value.ndim == 2 < tensors[-1].value.ndim - 1:
        return _join_row(tensors[0], tensors[-1], failure.locals.get("dim", 0))
    if len(tensors) < 2 or tensors[0].value.ndim + 1 != tensors[-1].value.ndim:
        return None
    small, large = tensors[0], tensors[-1]
    own, other = tuple(small.value.shape), tuple(large.value.shape)
    joined = failure.locals.get("dim", 0)
    joined = joined % len(other) if isinstance(joined, int) else 0
    for place in (*range(1, len(other)), 0):
        raised = (*own[:place], 1, *own[place:])
        if all(p == q for i, (p, q) in enumerate(zip(raised, other, strict=True)) if i != joined):
            return (
                f"{small.text}{at(small)} is {own}, {large.text} {other}: {small.text}.unsqueeze({place}) is {raised}"
            )
    if joined == 1 and len(other) == 3 and own[1] == other[2]:
        told = f"{small.text}{at(small)} is {own}, one for the batch of {large.text}, {other}"
        return f"{told}: {small.text}.expand({large.text}.shape[0], -1, -1)"
    if own[:1] == other[:1] and other[1:2] == (1,):
        told = f"{large.text}{at(large)} is {other}, with a dimension of 1, and {small.text} {own}"
        return f"{told}: {large.text}.squeeze(1) is {(own[0], *other[2:])}"
    if own[:1] == other[:1] and len(other) == 3:
        told = f"{small.text}{at(small)} is {own}, {large.text} {other}"
        return f"{told}: {small.text}.unsqueeze(1).expand(-1, {other[1]}, -1) is ({own[0]}, {other[1]}, {own[1]})"
    if joined == 1 and len(own) == 1:
        told = f"{small.text}{at(small)} is {own}, without the batch of {large.text}, {other}"
        made = None if small.origin is None else small.origin.value
        given = made.args[0] if isinstance(made, ast.Call) and len(made.args) == 1 else None
        index = None if given is None or failure.line is None else evaluate(given, failure.frame)
        if given is not None and isinstance(index, Tensor) and not index.ndim and small.origin is not None:
            own_index = find_origin(small.origin.source, given, failure.stack)
            where = "" if own_index is None else f" at {own_index.place()}"
            return f"{told}: {text_of(given)}{where} is one number, torch.full(({other[0]},), …) one for each sample"
        return f"{told}: {small.text}.expand({other[0]}, -1) is {(other[0], *own)}"
    return f"{small.text}{at(small)} is {own}, {large.text} {other}: unsqueeze the first, or index the second"


def _join_row(row: NamedValue, maps: NamedValue, dim: object) -> str | None:
    """Return the join of maps, such as images, and a row for each sample: at each place, or of flat maps."""
    own, other = tuple(row.value.shape), tuple(maps.value.shape)
    if own[0] != other[0] or dim not in (1, 1 - len(other), -1):
        return None
    told = f"{row.text}{at(row)} is {own}, a row for each sample, and {maps.text}{at(maps)} {other}"
    flat = f"{maps.text}.flatten(1) is {(other[0], prod(other[1:]))}"
    if prod(other[2:]) == 1 or dim == -1:
        return f"{told}: {flat}"
    ones, sizes = ", ".join(["None"] * (len(other) - 2)), ", ".join(map(str, other[2:]))
    places = f"{row.text}[:, :, {ones}].expand(-1, -1, {sizes})"
    return f"{told}: {flat}, for a layer of features; {places} joins the row at each place, for a convolution"


@remedy(r"Given normalized_shape=\[(\d+)\], expected input with shape .*, but got input of size\[([\d, ]+)\]")
def normalise_channels(failure: Failure, match: re.Match[str]) -> str | None:
    """A LayerNorm of channels that are not last."""
    size, layer = shape_of(match[2]), describe_layer(failure, "LayerNorm")[0]
    if len(size) < 3 or size[1] != int(match[1]):
        return None
    order = (0, *range(2, len(size)), 1)
    given = argument_node(failure, 0, "input")
    turned = f"{bracket(given)}.transpose(1, 2)" if given is not None and len(size) == 3 else ""
    if turned and takes_input(failure):
        own = failure.find_operand(text_of(given)) if given is not None else None
        told = f"{layer} is over the last dimension, and the {size[1]} features of {size} are the second"
        return f"{told}: {turned}{at(own)} is (batch, length, features), {tuple(size[i] for i in order)}"
    told = f"{layer} is over the last dimension, and the {size[1]} channels of {size} are the second"
    return f"{told}: nn.GroupNorm(1, {size[1]}) normalises them, or permute{order} before it"


@remedy(r"Halving dimension must be even, but dimension (-?\d+) is size (\d+)")
def give_even_size(failure: Failure, match: re.Match[str]) -> str:
    """A gate that halves an odd number of features."""
    size, x = int(match[2]), name_argument(failure, 0, "input")
    made = _describe_producer(find_producer(failure, argument_node(failure, 0, "input")))
    return f"{made or x} gives {size} features, and half of them gate the others: an even number, such as {size + 1}"


@remedy(r"pixel_unshuffle expects (height|width) .* input\.size\((-\d)\)=(\d+) is not divisible by (\d+)")
def multiply_size(failure: Failure, match: re.Match[str]) -> str:
    """An image whose height or width the factor does not divide."""
    x, size, factor = name_argument(failure, 0, "input"), int(match[3]), int(match[4])
    more = -size % factor
    sides = f"(0, 0, 0, {more})" if match[1] == "height" else f"(0, {more})"
    told = f"{x}{at(failure.find_operand(x))} has {match[1]} {size}, which {factor} does not divide"
    return f"{told}: F.pad({x}, {sides}) makes it {size + more}"


@remedy(r"pixel_shuffle expects .* but input\.size\(-3\)=(\d+) is not divisible by (\d+)")
def multiply_channels(failure: Failure, match: re.Match[str]) -> str:
    """Channels that do not divide into the square of the factor."""
    channels, square = int(match[1]), int(match[2])
    before = failure.part_before()
    made = before or find_producer(failure, argument_node(failure, 0, "input"))
    told = _describe_producer(made) or name_argument(failure, 0, "input")
    factor = round(square**0.5)
    out = channels // factor if channels % factor == 0 else max(1, channels // square)
    for scale in range(2, MAX_SCALE):  # made for another factor, perhaps
        out = channels // scale**2 if channels % scale**2 == 0 else out
    wanted = out * square
    return (
        f"{told} gives {channels} channels, and {out} for each of {factor} * {factor} pixels are {wanted}: make it that"
    )


def _describe_producer(made: NamedValue | None) -> str | None:
    return None if made is None else f"{made.text}{at(made)}"

"""Remedies for attention: widths and heads, masks of queries, keys and padding, batches."""

from __future__ import annotations

import ast
import inspect
import re

from adjoint.core.dtype.dtype import bool_
from adjoint.core.typing import Shape
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import (
    MISSING,
    describe_value,
    evaluate,
)
from adjoint.diagnosis.output_layer import find_output_layer
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    locate_tensor,
    name_argument,
    name_of_shape,
    remedy,
    shape_of,
)
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of

# of a result whose first dimension is the steps
TIME_FIRST = re.compile(r"\b(?:mean|sum|max|amax)\((?:dim=|axis=)?0\b|\[-1\]")


@remedy(r"embed_dim must be divisible by num_heads")
def divide_heads(failure: Failure, match: re.Match[str]) -> str:
    """A width that the heads do not divide."""
    width, heads = failure.locals["embed_dim"], failure.locals["num_heads"]
    fitting = [n for n in range(1, 33) if width % n == 0]
    nearest = width // heads * heads
    given = [argument_node(failure, place, name) for place, name in enumerate(("embed_dim", "num_heads"))]
    own = None if given[0] is None else failure.find_operand(text_of(given[0]))
    count = None if given[1] is None else failure.find_operand(text_of(given[1]))
    near = sorted((n for n in fitting if n > 1), key=lambda n: abs(n - heads))[:2]
    if count is not None and count.origin is not None and near:
        told = f"{count.text}{at(count)} is {heads}, and {width} is no multiple of it"
        return f"{told}: {count.text} = {' or '.join(map(str, sorted(near)))} there"
    if own is not None and own.origin is not None and nearest:
        told = f"{own.text}{at(own)} is {width}, which {heads} heads do not divide"
        return f"{told}: {own.text} = {nearest + heads} there, or {nearest}"
    return f"{heads} heads do not divide {width}: {', '.join(map(str, fitting))} do; or a width of {nearest}"


@remedy(r"the feature number of (src and tgt|src|tgt) must be equal to d_model")
def fit_source_width(failure: Failure, match: re.Match[str]) -> str | None:
    """Sources or targets of a Transformer of another width."""
    layer, width = failure.module(), int(getattr(getattr(failure.module(), "value", None), "d_model", 0))
    for place, name in enumerate(("src", "tgt")):
        node = argument_node(failure, place, name)
        value = MISSING if node is None else compute(node, failure.frame)
        size = tuple(getattr(value, "shape", ())) or tuple(getattr(failure.locals.get(name), "shape", ()))
        if node is None or layer is None or not size or size[-1] == width or failure.line is None:
            continue
        made = find_output_layer(failure.line.source, node, failure.stack)
        told = f"{text_of(node)}, {size}, has" if made is None else f"{made.describe()} gives"
        wanted = f"{width} features there" if made is None else f"{made.write_with(width)} there"
        return f"{told} {size[-1]} features, and {layer.text}{at(layer)} has d_model={width}: {wanted}"
    return None


@remedy(r"was expecting embedding dimension of (\d+), but got (\d+)")
def fit_width(failure: Failure, match: re.Match[str]) -> str:
    """Attention over tokens of another width."""
    node = argument_node(failure, 0)
    made = None if failure.line is None else find_output_layer(failure.line.source, node, failure.stack)
    x = next((each for each in failure.tensors() if int(match[2]) in each.value.shape[-1:]), None)
    told = "the input has" if x is None else f"{x.text}{at(x)}, {tuple(x.value.shape)}, has"
    told = f"{made.describe()} gives" if made is not None else told
    return f"{told} {match[2]} features, and the layer's d_model or embed_dim is {match[1]}: make them one number"


@remedy(r"The shape of the (\d)D attn_mask is \S*\[([\d, ]+)\]\), but should be \(([\d, ]+)\)")
def fit_mask(failure: Failure, match: re.Match[str]) -> str:
    """A mask of another size."""
    found, wanted = shape_of(match[2]), shape_of(match[3])
    keyword, x = _find_mask_argument(failure, found)
    own, query = failure.find_operand(x), failure.locals.get("query")
    batch = tuple(getattr(query, "shape", ()))[:2]
    told = f"{x}{at(own)} is {found}, and {keyword or 'the mask'} is (queries, keys), {wanted}"
    if own is not None and keyword is not None and len(found) == 2 and found[0] in batch and found[1] == wanted[-1]:
        padding = re.sub(r"^(?:mask|attn_mask)$|mask$", "key_padding_mask", keyword)
        padding = f"src_{padding}" if keyword == "mask" else padding
        value = x if own.value.dtype == bool_ else f"({x} == 0)"
        return f"{told}: {x} tells the padding of each sample, {padding}={value}"
    layer = failure.module()
    is_of_length = len(found) == 2 and batch[::-1] != batch and found in ((batch[0],) * 2, (batch[1],) * 2)
    if is_of_length and layer is not None and not getattr(layer.value, "batch_first", True):
        told = f"{layer.text}{at(layer)} reads (length, batch, features), a length of {wanted[-1]}"
        return f"{told}, and {x} is {found}: batch_first=True there"
    if len(found) == 2 and found[0] == found[1] > wanted[-1] and wanted[-1] == wanted[-2]:
        return f"{told}: {x}[:{wanted[0]}, :{wanted[1]}], or make it of the input's length"
    if len(found) == 3 and len(wanted) == 3 and found[0] and wanted[0] % found[0] == 0 and found[1:] == wanted[1:]:
        return f"{told}, one for each head: {x}.repeat_interleave({wanted[0] // found[0]}, 0)"
    return f"{told}: make it of the input's length"


def _find_mask_argument(failure: Failure, shape: tuple[int, ...]) -> tuple[str | None, str]:
    """Return the parameter of the layer's forward that has a mask of the shape, and the text of the mask."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None, "the mask"
    layer = evaluate(node.func, failure.frame)
    names = [each for each in inspect.signature(type(layer).forward).parameters if each != "self"]
    given = [*zip(names, node.args, strict=False), *((each.arg, each.value) for each in node.keywords)]
    for key, part in given:
        if key is not None and key.endswith("mask") and getattr(compute(part, failure.frame), "shape", None) == shape:
            return key, text_of(part)
    return None, name_of_shape(failure, shape, "the mask")


@remedy(r"only bool and floating types of (\w+) are supported")
def give_truths(failure: Failure, match: re.Match[str]) -> str | None:
    """A mask of integers, as tokenizers give it, with 1 for what takes part."""
    x = next((each for each in failure.tensors() if not each.value.is_floating_point() and each.value.ndim > 1), None)
    if x is None:
        return None
    told = f"{x.text}{at(x)} holds {describe_value(x.value)}, and {match[1]} truths, True where a place is left out"
    if match[1] == "attn_mask" and x.value.shape[-1] == x.value.shape[-2]:
        sees_itself = bool(x.value.diagonal(dim1=-2, dim2=-1).all())
        return f"{told}: {x.text} == 0" if sees_itself else f"{told}: {x.text}.bool()"
    return f"{told}: {x.text} == 0, if 1 stands for a token"


@remedy(r"expected query .* but got query \(([\d, ]+)\), key \(([\d, ]+)\), value \(([\d, ]+)\)")
def fit_attention(failure: Failure, match: re.Match[str]) -> str:
    """Queries, keys and values that do not fit."""
    query, key, value = (shape_of(each) for each in match.groups())
    names = [name_of_shape(failure, shape, word) for shape, word in ((query, "query"), (key, "key"), (value, "value"))]
    if query[-1] != key[-1]:
        where = locate_tensor(failure, names[1])
        return f"the last sizes of {names[0]} and {names[1]}{where} are one number: {query[-1]} against {key[-1]}"
    return f"{names[1]} and {names[2]} have one length: {key[-2]} against {value[-2]}"


@remedy(r"scaled_dot_product_attention of query \((.*?)\), key \((.*?)\), .* and attn_mask \((.*?)\)")
def fit_attention_mask(failure: Failure, match: re.Match[str]) -> str:
    """A mask that does not broadcast over the scores."""
    query, key, mask = (shape_of(each) for each in match.groups())
    name = name_of_shape(failure, mask, "attn_mask")
    scores = (*query[:-1], key[-2])
    if len(mask) == 2 and mask == (query[0], key[-2]):
        return f"of (batch, keys), {name}[:, None, None, :] broadcasts over the scores, {scores}; True takes part"
    return f"{name}, {mask}, is to broadcast over the scores, {scores}"


@remedy(r"scaled_dot_product_attention of query \((\d+), .*key \((\d+), ")
def fit_batches(failure: Failure, match: re.Match[str]) -> str:
    """Attention between batches of different sizes."""
    query, key = (shape_of(each) for each in re.findall(r"(?:query|key) \(([\d, ]+)\)", failure.message)[:2])
    if len(query) == len(key) == 4 and query[0] == key[0] and query[1] != key[1] and query[2:] == key[2:]:
        told = f"{name_of_shape(failure, query, 'query')}, {query}, is to be (batch, heads, length, features)"
        return f"{told}: .transpose(1, 2) of queries, keys and values, and of the result"
    return f"the batches differ, {match[1]} against {match[2]}: (length, batch, features), or batch_first=True"


@remedy(r"key_padded_mask\.shape\[(\d)\] to be (\d+), but got (\d+)")
def fit_padding_mask(failure: Failure, match: re.Match[str]) -> str | None:
    """A mask of padding of another order or length."""
    layer, key = failure.module(), failure.locals.get("key")
    mask = next((each for each in failure.tensors()[::-1] if each.value.dtype == bool_), None)
    given = failure.locals.get("key_padding_mask") if mask is None else mask.value
    found: Shape = tuple(getattr(given, "shape", ()))
    size: Shape = tuple(getattr(failure.locals.get("query"), "shape", ()) if key is None else key.shape)
    if len(size) != 3 or len(found) != 2 or layer is None:
        return None
    name = name_argument(failure, -1, "key_padding_mask", "the mask") if mask is None else f"{mask.text}{at(mask)}"
    place, length = int(match[1]), int(match[2])
    wanted = size[:2] if size[place] == length and getattr(layer.value, "batch_first", False) else (size[1], size[0])
    wanted = wanted if wanted[place] == length else wanted[::-1]
    if found == size[:2] and not getattr(layer.value, "batch_first", False):
        told = f"{layer.text}{at(layer)} reads (length, batch, features), and its input is {size}"
        code = "" if failure.line is None else ast.unparse(failure.line.source.scope_of(failure.line.node))
        if not TIME_FIRST.search(code):
            return f"{told}: batch_first=True there"
    if found == wanted[::-1]:
        return f"{name} is {found}, and is to be (batch, keys), {wanted}: transpose it, .T"
    return f"{name} is {found}, and is to be (batch, keys), {wanted}: one truth for each key, True where it is padding"

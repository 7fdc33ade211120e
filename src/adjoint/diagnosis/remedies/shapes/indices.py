"""Remedies for indices: of another type, past the end, of fewer dimensions, rows that a table has not."""

from __future__ import annotations

import ast
import copy
import re

import numpy as np

from adjoint.core.dtype.dtype import bool_, int8, int16, int64, uint8
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.causes.operand_history import walk_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    describe_layer,
    find_length,
    float_tensor,
    locate_tensor,
    name_argument,
    name_of_shape,
    remedy,
    shape_of,
)
from adjoint.diagnosis.remedies.shapes.number_origins import describe_number
from adjoint.diagnosis.remedies.shapes.short_tables import (
    find_full_buffer,
    find_last_turn,
    find_reach,
    find_short_table,
    find_small_table,
)
from adjoint.diagnosis.repairs.expression import bracket, parse
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, text_of

MAX_SPECIAL = 8  # numbers of words at most that stand for padding, the unknown, begins and ends


def _describe_draw(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return where indices are drawn as floats: `torch.rand(n) * n`."""
    for part in ast.walk(node):
        if not isinstance(part, ast.BinOp) or not isinstance(part.op, ast.Mult):
            continue
        for call, limit in ((part.left, part.right), (part.right, part.left)):
            if isinstance(call, ast.Call) and text_of(call.func) in ("torch.rand", "np.random.rand") and call.args:
                sizes = ", ".join(map(text_of, call.args))
                told = f"{text_of(part)} at {source.place_of(part)} draws floats, and indices are integers"
                if text_of(limit) == sizes:
                    return f"{told}: torch.randperm({sizes}) there, each once, or torch.randint({sizes}, ({sizes},))"
                return f"{told}: torch.randint({text_of(limit)}, ({sizes},)) there"
    return None


@remedy(
    r"tensors used as indices must be|Expected dtype int32(?:/| or )int64 for index|only applicable to index tensor"
)
def convert_index(failure: Failure, match: re.Match[str]) -> str | None:
    """Indices that are no integers."""
    array = next((x for x in failure.operands if isinstance(x.value, np.ndarray) and x.value.dtype.kind == "f"), None)
    if array is not None:
        return f"{array.text}{at(array)} holds floats, and indices are integers: {array.text}.astype(int)"
    kinds = (int8, int16, uint8)
    short = next((x for x in failure.tensors() if x.value.dtype in kinds), None)
    if short is not None and "ind" in failure.message:
        kind = str(short.value.dtype).rpartition(".")[2]
        return f"{short.text}{at(short)} is {kind}, and positions are int64 or int32: {short.text}.long()"
    if not any(each.value.is_floating_point() for each in failure.tensors()):
        return None  # the line makes them
    drawn = walk_back(failure, _describe_draw)
    if drawn is not None:
        return drawn
    node = failure.node
    if isinstance(node, ast.Subscript) and not isinstance(evaluate(node.slice, failure.frame), Tensor):
        index = compute(node.slice, failure.frame)
        if getattr(index, "dtype", None) is not None and "float" in str(index.dtype):
            return f"{text_of(node.slice)} is of floats, and indices are integers: ({text_of(node.slice)}).long()"
    mask = next((x for x in failure.tensors() if x.value.is_floating_point() and _is_mask_of(failure, x.value)), None)
    if mask is not None:
        return f"{mask.text}{at(mask)} holds 0 and 1 as floats, a mask of truths is bool: {mask.text}.bool()"
    x = next((each for each in failure.tensors()[::-1] if each.value.is_floating_point()), None)
    made = None if x is None or x.origin is None else x.origin.value
    if x is not None and isinstance(made, ast.BinOp) and isinstance(made.op, ast.Div):
        whole = text_of(ast.BinOp(made.left, ast.FloorDiv(), made.right))
        return f"{x.text}{at(x)} is {text_of(made)}, of floats, and indices are integers: {whole} there"
    if (
        isinstance(failure.node, ast.Subscript)
        and x is not None
        and x.value.numel() > 1
        and float(x.value.min()) >= 0
        and 0 < float(x.value.max()) < 1
    ):
        names = failure.frame.f_locals.items()
        held = [key for key, each in names if isinstance(each, Tensor) and each.dtype == int64 and 0 < each.ndim < 3]
        told = f"{x.text}{at(x)} holds shares of {float(x.value.min()):.2g} to {float(x.value.max()):.2g}, no indices"
        return f"{told}: {held[0]} holds some" if len(held) == 1 else f"{told}: .argsort() or .argmax() gives those"
    return f"{float_tensor(failure)} holds floats, and indices are integers: .long()"


def _is_mask_of(failure: Failure, x: Tensor) -> bool:
    """Return whether a tensor of 0 and 1 has the first sizes of what the line indexes with it."""
    node = failure.node
    held = evaluate(node.value, failure.frame) if isinstance(node, ast.Subscript) else None
    if not isinstance(held, Tensor) or held is x or not x.ndim or x.shape != held.shape[: x.ndim]:
        return False
    return bool(((x == 0) | (x == 1)).all())


@remedy(
    r"shape of the mask \[([\d, ]+)\] at index (\d+) does not match the shape of the indexed tensor \[([\d, ]+)\]",
    is_last=True,
)
def fit_index_mask(failure: Failure, match: re.Match[str]) -> str:
    """A mask of another length."""
    mask, whole = shape_of(match[1]), shape_of(match[3])
    name = name_of_shape(failure, mask, "the mask")
    where = locate_tensor(failure, name)
    node = failure.node.value if isinstance(failure.node, ast.Subscript) else None
    held = None if node is None else evaluate(node, failure.frame)
    if node is not None and isinstance(held, Tensor) and held.ndim > len(mask) > 1 and mask[0] == whole[0]:
        x = text_of(node)
        told = f"{name}{where} is {mask}, and {x}{locate_tensor(failure, x)} begins with {whole}"
        return f"{told}: {mask[1]} against {whole[1]} in dimension 1, one size for both"
    if len(mask) == len(whole) > 1 and mask[0] == whole[0]:
        told = f"{name}{where} is {mask}, and what it chooses from {whole}"
        return f"{told}: {name}.any(-1) is one truth for each row, {mask[:1]}"
    return f"{name}{where} has {mask}, and is to have {whole[: len(mask)]}: one truth for each row"


@remedy(r"shape of the mask \[(\d+)\] at index (\d+) does not match the shape of the indexed tensor")
def mask_other_dimension(failure: Failure, match: re.Match[str]) -> str | None:
    """A mask of one dimension in the place of another."""
    node, size = failure.node, int(match[1])
    if not isinstance(node, ast.Subscript):
        return None
    held, name = evaluate(node.value, failure.frame), text_of(node.value)
    masks = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    mask = masks[-1]
    if not isinstance(held, Tensor) or any(not isinstance(each, ast.Slice) for each in masks[:-1]):
        return None
    places = [i for i, n in enumerate(held.shape) if n == size]
    if len(places) != 1 or places[0] == int(match[2]):
        return None
    x = text_of(mask)
    told = f"{x}{at(failure.find_operand(x))} has {size} truths, as dimension {places[0]} of {name}"
    return f"{told}, {tuple(held.shape)}: {name}[{', '.join([':'] * places[0] + [text_of(mask)])}]"


@remedy(
    r"value tensor of shape \[([\d, ]*)\] cannot be broadcast to indexing result of shape \[([\d, ]*)\]", is_last=True
)
def fit_value(failure: Failure, match: re.Match[str]) -> str:
    """A value that does not fill the place."""
    value, place = shape_of(match[1]), shape_of(match[2])
    node = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    if not isinstance(node, ast.Assign):
        return f"the place has the shape [{match[2]}]: a value of that, or of 1 in its dimensions"
    given, where = bracket(node.value), text_of(node.targets[0])
    own = failure.find_operand(given)
    told = f"{where} is {place}, and {given}{at(own)} {value}"
    target = node.targets[0]
    held = evaluate(target.value, failure.frame) if isinstance(target, ast.Subscript) else None
    if isinstance(target, ast.Subscript) and tuple(getattr(held, "shape", ())) == value:
        return f"{told}: {given}[{text_of(target.slice)}] takes the values of the same places"
    differing = [i for i, (p, q) in enumerate(zip(value, place, strict=False)) if p != q]
    full = find_full_buffer(failure, target, held)
    if full is not None:
        return f"{told}: {full}"
    if len(value) == len(place) and len(differing) == 1 and value[differing[0]] > place[differing[0]]:
        cut = ", ".join([":"] * differing[0] + [f":{place[differing[0]]}"])
        return f"{told}: {given}[{cut}] fits"
    is_part = len(value) == len(place) and all(value[i] < place[i] for i in differing)
    if isinstance(target, ast.Subscript) and is_part:
        ends = [f":{given}.size({i})" if i in differing else ":" for i in range(differing[-1] + 1)]
        part = f"{text_of(target.value)}[{text_of(target.slice).strip('()')}, {', '.join(ends)}]"
        if tuple(getattr(compute(parse(part), failure.frame), "shape", ())) == value:
            return f"{told}: {part} = {given} fills a part of it"
    return f"{told}: a value of that shape, or of 1 in its dimensions"


@remedy(r"Class values must be non-negative and smaller than num_classes, but got (-\d+)")
def leave_negative_out(failure: Failure, match: re.Match[str]) -> str:
    """A class below 0, as labels that stand for "none" have it."""
    y = next(iter(failure.tensors()), None)
    name = "it" if y is None else y.text
    return (
        f"{name}{at(y)} holds {match[1]}, and classes begin at 0: leave those out, {name}[{name} >= 0], or "
        "make them a class"
    )


@remedy(r"Class values must be (?:non-negative and )?smaller than num_classes, but got (\d+)")
def count_one_hot(failure: Failure, match: re.Match[str]) -> str:
    """A class beyond the columns."""
    count, y = argument_node(failure, 1, "num_classes"), name_argument(failure, 0, "tensor", "the tensor")
    if count is None or isinstance(count, ast.Constant):
        return f"classes begin at 0: num_classes={int(match[1]) + 1} for a class {match[1]} of {y}"
    value = evaluate(count, failure.frame)
    own = failure.find_operand(y)
    least = int(own.value.min()) if own is not None and isinstance(own.value, Tensor) else 0
    if least == 1 and value == int(match[1]) and own is not None:
        told = f"{y}{at(own)} counts from 1, up to {value}, and classes begin at 0"
        changed = {id(each): parse(f"{y} - 1") for each in ast.walk(failure.node or count) if text_of(each) == y}
        whole = copy.deepcopy(failure.node, changed)
        return f"{told}: {text_of(whole) if whole is not None else f'{y} - 1'}"
    told = f"{text_of(count)} is {value}, and {y} holds {match[1]}"
    return f"{told}: classes begin at 0, so it is to be {int(match[1]) + 1}"


@remedy(r"index out of range in self: (-?\d+), embedding has (\d+) rows")
def grow_embedding(failure: Failure, match: re.Match[str]) -> str:
    """A row that the table has not."""
    index, rows = int(match[1]), int(match[2])
    name, _ = describe_layer(failure, "the table")
    for each in failure.tensors() if index < 0 else ():
        whole = not each.value.is_floating_point() and each.value.numel() > 0
        low, high = (int(each.value.min()), int(each.value.max())) if whole else (0, 0)
        if low == index < -1 and high - low < rows:
            told = f"{each.text}{at(each)} goes from {low} to {high}, and the {rows} rows of {name} are counted from 0"
            return f"{told}: {each.text} + {-low}"
    if index < 0:
        x = next((each for each in failure.tensors() if bool((each.value == index).any())), None)
        told = "rows are counted from 0" if x is None else f"{x.text}{at(x)} holds {index}, and rows are counted from 0"
        y = name_argument(failure, 0, "input", "x") if x is None else x.text
        if index == -1:
            return f"{told}: {y} + 1 with nn.Embedding({rows + 1}, …, padding_idx=0), or {y}.clamp(min=0)"
        return f"{told}; {index} marks places that a loss leaves out: {y}.masked_fill({y} == {index}, 0) here"
    x = next((each for each in failure.tensors() if bool((each.value == index).any())), None)
    whole = [] if x is None else [int(x.value.min()), int(x.value.max())]
    told = f"indices go from 0 to {rows - 1}"
    if x is not None and whole[0] >= rows > whole[1] - whole[0]:
        first = ord("a") if ord("a") <= whole[0] <= whole[1] < ord("a") + rows else whole[0]
        told = f"{told}, and {x.text}{at(x)} from {whole[0]} to {whole[1]}"
        if whole[0] < MAX_SPECIAL:  # after some that stand for padding and unknown words
            by = describe_number(failure.module(), 0, "num_embeddings", whole[1] + 1)
            return f"{told}: nn.Embedding({whole[1] + 1}, …){by}, or {x.text} - {first} if they are to begin at 0"
        return f"{told}: {x.text} - {first}, counted from 0"
    if x is not None and whole[0] >= 1 and whole[1] == rows:
        return (
            f"{told}, and {x.text}{at(x)} from {whole[0]} to {whole[1]}: {x.text} - 1, or nn.Embedding({rows + 1}, …)"
        )
    width = getattr(getattr(failure.module(), "value", None), "embedding_dim", "…")
    largest = max([index, *whole])
    if isinstance(width, int) and rows <= largest < width and rows * 4 <= width:
        held = f"{x.text}{at(x)} holds {largest}" if x is not None else f"{index} is asked for"
        return f"{name} has {rows} rows of {width} numbers, and {held}: rows come first, nn.Embedding({width}, {rows})"
    held = f"{x.text}{at(x)} holds {whole[1]}" if x is not None else f"{index} is asked for"
    grown = _find_growing(failure, rows)
    if grown is not None:
        return f"{told}, and {held}: {grown}"
    wanted = max([index, *whole]) + 1
    by = describe_number(failure.module(), 0, "num_embeddings", wanted, is_shared=True)
    return f"{told}, and {held}: {name} needs nn.Embedding({wanted}, {width}){by}"


def _find_growing(failure: Failure, rows: int) -> str | None:
    """Return which tensor grows in a loop, by a join with itself, beyond the rows of a table of positions."""
    for operand in failure.operands:
        made = operand.origin if operand.source is None else operand.source.origin
        value = None if made is None else made.value
        if made is None or not isinstance(made.node, ast.Assign) or not isinstance(value, ast.Call):
            continue
        target = text_of(made.node.targets[0])
        if not re.search(r"\b(?:cat|concat)$", text_of(value.func)) or "," in target:
            continue
        if any(isinstance(part, ast.Name) and part.id == target for part in ast.walk(value)):
            return (
                f"{target} at {made.place()} grows with each turn: {target}[:, -{rows}:] for the model, the last of it"
            )
    return None


@remedy(r"Expected tensor for argument #1 'indices'")
def convert_indices(failure: Failure, match: re.Match[str]) -> str:
    """Rows that are no integers."""
    x = next((each for each in failure.tensors() if each.value.is_floating_point()), None)
    x = x or next((each for each in failure.tensors() if each.value.dtype in (int8, int16, uint8)), None)
    layer = failure.module()
    rows = None if layer is None else getattr(layer.value, "num_embeddings", None)
    if x is None:
        node = argument_node(failure, 0, "input")
        divided = node if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else None
        if divided is not None:
            whole = text_of(ast.BinOp(divided.left, ast.FloorDiv(), divided.right))
            return f"rows are integers, and / gives fractions: {text_of(divided.left)}, or {whole}"
        return f"rows are integers: {name_argument(failure, 0) if node is None else bracket(node)}.long()"
    if x.value.ndim > 1 and x.value.shape[-1] == rows and bool(((x.value == 0) | (x.value == 1)).all()):
        told = f"{x.text}{at(x)} is one-hot, and an embedding takes the indices"
        if x.value.requires_grad and layer is not None and layer.text != type(layer.value).__name__:
            return f"{told}, which pass no gradient on: {x.text} @ {layer.text}.weight"
        return f"{told}: {x.text}.argmax(-1)"
    return f"rows are integers: {x.text}.long()"


@remedy(r"index (-?\d+) is out of bounds for (?:dimension|axis) (\d+) with size (\d+)")
def stay_in_bounds(failure: Failure, match: re.Match[str]) -> str:
    """An index past the end."""
    size = int(match[3])
    whole = [x for x in failure.tensors() if not x.value.is_floating_point() and not x.value.is_complex()]
    whole = [x for x in whole if x.value.dtype != bool_ and x.value.numel()]
    index = next((x for x in whole if bool((x.value == int(match[1])).any())), None)
    if index is not None and int(index.value.min()) == 1 and int(match[1]) == int(index.value.max()) == size:
        told = f"{index.text}{at(index)} counts from 1, up to {size}, and dimension {match[2]} from 0 to {size - 1}"
        made = index.source if index.source is not None and index.source.origin is not None else index
        return f"{told}: {made.text} - 1{at(made)}"
    if index is not None and match[2] == "0":
        held = next((x for x in failure.tensors() if x.value.ndim == 2 and x.value.shape[0] == size), None)
        y = index.value
        if held is not None and y.ndim == 1 and len(y) == size and int(y.max()) < held.value.shape[1]:
            told = f"{held.text}[{index.text}] takes rows, and {index.text}{at(index)} names a column of each"
            return f"{told}: {held.text}[torch.arange(len({index.text})), {index.text}]"
    plain = next((x for x in failure.operands if type(x.value) is int and x.value == int(match[1])), None)
    node = failure.node
    if plain is not None and isinstance(node, ast.Subscript) and text_of(node.slice) == plain.text:
        held = failure.find_operand(text_of(node.value))
        told = f"{text_of(node.value)}{at(held)} has {size} rows, 0 to {size - 1}, and {plain.text} is {plain.value}"
        loop = None if plain.origin is None else plain.origin.node
        counted = loop.iter.args if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) else []
        if len(counted) == 3 and text_of(counted[2]) == "-1" and plain.origin is not None:
            first = f"{bracket(counted[0])} - 1"
            told = f"{told}, of the loop at {plain.origin.describe()} from its end on"
            return f"{told}: range({first}, -1, -1) there goes over all"
        if isinstance(loop, ast.For) and plain.origin is not None:
            return f"{told}, of the loop at {plain.origin.describe()} one turn too many: range up to {size} there"
    table = find_short_table(failure, int(match[1]), size)
    if table is not None:
        return table
    small = None if index is None else find_small_table(failure, index, int(match[2]), size)
    if small is not None:
        return small
    if index is not None:
        told = f"{index.text}{at(index)} holds {match[1]}"
        return f"{told}: indices of dimension {match[2]} go from 0 to {size - 1}, or -{size} to -1"
    node = failure.node
    beyond = find_last_turn(failure, int(match[1]))
    if beyond is not None:
        return beyond
    length = find_length(failure)
    is_added = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.BinOp)
    reach = find_reach(failure, node.slice) if isinstance(node, ast.Subscript) and length is not None else ""
    is_past = int(match[1]) == size or (is_added and int(match[1]) > size)
    if length is not None and isinstance(node, ast.Subscript) and match[2] == "0" and is_past:
        name, given = text_of(node.value), getattr(length.node, "value", None)
        if reach and isinstance(given, ast.expr):
            told = f"{text_of(node)} reaches {reach} past the sample, and {length.describe()} counts more"
            more = f"({reach})" if " " in reach else reach
            return f"{told}: return len({name}) - {more} there"
        return f"{name} has {size} rows, and {length.describe()} says more: return len({name}) there"
    own = failure.find_operand(text_of(node.value)) if isinstance(node, ast.Subscript) else None
    if own is None or not isinstance(own.value, Tensor):
        return f"indices of dimension {match[2]} go from 0 to {size - 1}, or -{size} to -1"
    shape, dim = tuple(own.value.shape), int(match[2])
    told = f"{own.text}{at(own)} is {shape}: dimension {dim} has {size}, places 0 to {size - 1}"
    number = next((x for x in failure.operands if type(x.value) is int and x.value == int(match[1])), None)
    if number is not None:
        source = number.source.origin if number.source is not None else None
        where = (
            at(number) if source is None or number.source is None else f" of {number.source.text} at {source.place()}"
        )
        told += f", and {number.text}{where} is {number.value}: {number.text} below {size}, or a larger {own.text}"
    others = [i for i, n in enumerate(shape) if n > abs(int(match[1])) and i != dim and size > 1]
    return f"{told}; dimension {others[0]} has {shape[others[0]]}" if len(others) == 1 else told

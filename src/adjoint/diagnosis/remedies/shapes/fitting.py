"""Remedies for shapes that do not fit: layers, products, broadcasting, views, joins, indices."""

from __future__ import annotations

import ast
import copy
import re
from itertools import pairwise
from math import prod

from adjoint.core.dtype.dtype import bool_
from adjoint.core.graph.source_location import definition_site
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, Origin, evaluate, find_origin
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    describe_layer,
    find_length,
    first_tensor,
    locate_tensor,
    name_of_shape,
    name_operand,
    remedy,
    shape_of,
)
from adjoint.diagnosis.repairs.expression import bracket
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
            return f"{told}: make that {expected} too, or the d_model of both one number"
        return f"{told}: kdim={shape[-1]}, vdim={shape[-1]} there, where it gives keys and values"
    for begin in range(len(shape) - 1):
        if prod(shape[begin:]) == expected:
            return f"flatten the input first: {x}.flatten({begin}) has {expected} features"
    if len(shape) > 1 and expected in shape[:-1]:
        return f"the last dimension holds the features, and dimension {shape.index(expected)} has {expected}: transpose"
    if len(shape) == 1 and prod(shape) % expected == 0:
        return f"reshape the input to (batch, {expected}): {x}.reshape(-1, {expected})"
    features = shape[-1] if shape else 1
    changed = _find_changing_hook(failure, expected)
    if changed is not None:
        return f"{changed} changes the {expected} features to {features}: a hook that only looks returns nothing"
    name, _ = describe_layer(failure)
    return f"{name} takes {expected} features, {x} has {features}: nn.Linear({features}, {out}) there"


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


def _find_changing_hook(failure: Failure, expected: int) -> str | None:
    """Return the user's forward hook on the layer before, whose own output fits."""
    parent = failure.modules[1] if len(failure.modules) > 1 else None
    parts = list(vars(parent)["_modules"].values()) if parent is not None else []
    for before, part in pairwise(parts):
        hooks = vars(before).get("_forward_hooks") if part is failure.modules[0] else None
        if not hooks or getattr(before, "out_features", None) != expected:
            continue
        code = getattr(next(reversed(hooks.values())), "__code__", None)
        if code is not None:
            return f"the hook {code.co_name}, {definition_site(code).describe_briefly()},"
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
    squeezed = _find_squeeze(failure)
    if squeezed is not None and expected == 1:
        return f"{squeezed} takes out every dimension of 1, the channels too: leave it out, or name one, .squeeze(dim)"
    name, kind = describe_layer(failure, kind="Conv")
    weight, groups = shape_of(match[1]), getattr(getattr(failure.module(), "value", None), "groups", 1)
    out = weight[1] * groups if "transposed=1" in failure.message else weight[0]
    return f"{name} takes {expected} channels, its input has {found}: nn.{kind}({found}, {out}, …) there"


@remedy(r"Kernel size: \(([\d x]+)\).*greater than actual input size")
def shrink_kernel(failure: Failure, match: re.Match[str]) -> str:
    """A window larger than what it moves over."""
    name, _ = describe_layer(failure)
    return f"give {name} padding, or a smaller kernel; layers before it made the input small"


@remedy(r"inner sizes differ, \(([\d, ]+)\) @ \(([\d, ]+)\)")
def fit_product(failure: Failure, match: re.Match[str]) -> str | None:
    """A matrix product whose inner sizes differ."""
    a, b = shape_of(match[1]), shape_of(match[2])
    x, y = name_operand(failure, a, 0), name_operand(failure, b, 1)
    if len(b) > 1 and a[-1] == b[-1]:
        rows = a[:-1] if len(a) > 1 else ()
        return f"transpose the second: {x} @ {y}.mT is {(*rows, b[-2])}"
    if len(a) > 1 and len(b) > 1 and a[-2] == b[-2]:
        return f"transpose the first: {x}.mT @ {y}"
    if len(a) > 1 and len(b) > 1 and a[-2] == b[-1]:
        return f"the other way round: {y} @ {x}"
    return f"the last size of {x}, {a[-1]}, must be the last but one of {y}, {b[-2] if len(b) > 1 else b[-1]}"


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
    if missing <= 0:
        return f"{told}: flatten or leave out {1 - missing if missing else 1} of them"
    channels = getattr(getattr(failure.module(), "value", None), "in_channels", 0)
    if "transpose" in match[3] or (len(shape) == 2 and shape[1] == channels):
        return f"{told}: {x}[{', '.join([':'] * len(shape) + ['None'] * missing)}] is {(*shape, *(1,) * missing)}"
    return f"{told}: {x}[{', '.join(['None'] * missing)}] is {(*(1,) * missing, *shape)}"


@remedy(r"zero-dimensional tensor \(at position \d+\) cannot be concatenated")
def stack_numbers(failure: Failure, match: re.Match[str]) -> str:
    """Tensors without dimensions in a join along one."""
    x = next((each for each in failure.operands if isinstance(each.value, (list, tuple))), None)
    if x is None:
        return "torch.stack joins tensors without dimensions"
    return f"{x.text} holds tensors without dimensions{at(x)}: torch.stack({x.text}), or keep a dimension there"


@remedy(r"shape '\[([-\d, ]*)\]' is invalid for input of size (\d+)")
def fit_view(failure: Failure, match: re.Match[str]) -> str:
    """A view with another number of elements."""
    wanted, size = [int(n) for n in re.findall(r"-?\d+", match[1])], int(match[2])
    rest = prod(n for n in wanted if n > 0)
    if -1 in wanted:
        flat = next((each for each in failure.tensors() if each.value.shape == (size,)), None)
        if flat is not None and rest and size // rest:
            whole = size // rest * rest
            told = f"{flat.text}{at(flat)} has {size} elements, which {rest} does not divide"
            return f"{told}: {flat.text}[:{whole}] leaves the last {size - whole} out"
        x = next((each for each in failure.tensors() if each.value.numel() == size), None)
        if x is None:
            return f"{size} elements cannot be divided by {rest}: the sizes other than -1 must divide them"
        name = f"{x.text}{at(x)}, {tuple(x.value.shape)},"
        told = f"{name} has {size} elements, which {rest} does not divide"
        return f"{told}: the sizes beside -1 in {wanted} must divide them"
    x = next(iter(failure.tensors()), None)
    if x is not None and x.value.ndim and wanted[0] == x.value.shape[0] and size % rest == 0:
        return f"{wanted} would hold {rest} elements; {[*wanted, size // rest]} holds the {size}"
    known = [n for n in wanted[1:] if n > 0]
    if known and size % prod(known) == 0:
        return f"{wanted} would hold {rest} elements; {[size // prod(known), *known]} holds the {size}"
    if len(wanted) == 2 and size % wanted[0] == 0:
        return f"{wanted} would hold {rest} elements; {[wanted[0], size // wanted[0]]} holds the {size}"
    features = 0 if x is None or not x.value.ndim else int(x.value.shape[-1])
    if x is not None and len(wanted) > 2 and wanted[: x.value.ndim - 1] == list(x.value.shape[:-1]):
        heads = wanted[x.value.ndim - 1 :]
        if prod(heads) != features:
            low = features // heads[0] * heads[0]
            told = f"the {features} features of {x.text}{at(x)} are not {' * '.join(map(str, heads))} = {prod(heads)}"
            return f"{told}: a width that {heads[0]} divides, {low} or {low + heads[0]}"
    told = f"{wanted} would hold {rest} elements, and there are {size}: the sizes must multiply to that"
    return _find_remainder(failure) or told


def _find_remainder(failure: Failure) -> str | None:
    """Return the division of sizes in the line that leaves a rest, and which sizes would leave none."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv):
            continue
        size, part = compute(node.left, failure.frame), compute(node.right, failure.frame)
        if type(size) is int and type(part) is int and part > 1 and size % part:
            own = next((each for each in failure.tensors() if size in each.value.shape), None)
            name = "the input" if own is None else f"{own.text}{at(own)}, {tuple(own.value.shape)},"
            low = size // part * part
            told = f"{text_of(node)} leaves a rest, as {part} does not divide {size}"
            return f"{told}: {name} of {low} or {low + part} there, by F.pad or another {text_of(node.right)}"
    return None


@remedy(r"view size is not compatible with input tensor's size and stride")
def reshape_instead(failure: Failure, match: re.Match[str]) -> str:
    """A view of memory in another order."""
    node = None if failure.line is None else failure.line.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        x = first_tensor(failure)
        return f"{x}.reshape(…), which copies where it must, or {x}.contiguous().view(…)"
    x, sizes = bracket(node.func.value), ", ".join(map(text_of, node.args))
    return f"{x}.reshape({sizes}), which copies where it must, or {x}.contiguous().view({sizes})"


@remedy(r"Sizes of tensors must match except in dimension")
def fit_cat(failure: Failure, match: re.Match[str]) -> str | None:
    """Tensors to be joined that differ in another dimension."""
    shapes = [tuple(each.value.shape) for each in failure.tensors()]
    for dim in range(min(map(len, shapes), default=0)):
        if len({(*shape[:dim], *shape[dim + 1 :]) for shape in shapes}) == 1:
            return f"they differ in dimension {dim} alone: cat([…], dim={dim})"
    told = ", ".join(f"{each.text}{at(each)} {tuple(each.value.shape)}" for each in failure.tensors())
    return f"{told}: all sizes but the joined one are to agree" if told else "pad or cut the others to one size"


@remedy(r"equal size, but got (\[[\d, ]*\]) at entry (\d+) and (\[[\d, ]*\]) at entry (\d+)")
def fit_stack(failure: Failure, match: re.Match[str]) -> str:
    """Tensors to be stacked that differ in size."""
    first, other = shape_of(match[1]), shape_of(match[3])
    dataset = failure.locals.get("dataset")
    owner = failure.locals.get("loader", failure.locals.get("self"))
    dataset = getattr(owner, "dataset", None) if dataset is None else dataset
    if (
        isinstance(dataset, (list, tuple))
        and dataset
        and all(isinstance(each, Tensor) and each.ndim for each in dataset)
    ):
        rows = {len(each) for each in dataset}
    else:
        rows = set()
    if len(rows) == 1 and dataset is not None:
        given = next((each for each in failure.operands if each.value is dataset), None)
        name = "ds" if given is None else given.text
        told = (
            f"{name}{at(given)} is a {type(dataset).__name__} of {len(dataset)} tensors, so a dataset of "
            f"{len(dataset)} samples"
        )
        return f"{told}: torch.utils.data.TensorDataset(*{name}) has one for each row"
    x = next((each for each in failure.operands if isinstance(each.value, (list, tuple))), None)
    sizes = (
        [tuple(each.shape) for each in x.value]
        if x is not None and all(isinstance(each, Tensor) for each in x.value)
        else []
    )
    is_last = len({each[0] for each in sizes[:-1]}) == 1 and other[:1] < first[:1]
    if x is not None and len(first) > 1 and first[1:] == other[1:] and is_last:
        rows = sum(each[0] for each in sizes)
        return f"the last of {x.text} is a smaller batch: torch.cat({x.text}) joins them to {(rows, *first[1:])}"
    if 0 in other and x is not None and x.origin is not None and ":-" in text_of(x.origin.node).replace(" ", ""):
        told = f"entry {match[4]} of {x.text}{at(x)} is empty, {match[3]}: a slice to -0 ends at its begin"
        return f"{told}; count its end from the front, x[i:len(x) - k]"
    names = [name for frame in failure.stack[0].called for name in frame.f_locals]
    is_loaded = "samples" in names or "collate_fn_map" in names
    if x is None and dataset is None and not failure.tensors() and not is_loaded:
        return f"entry {match[4]} is {match[3]}, and entry {match[2]} {match[1]}: all of one size"
    way = "nn.utils.rnn.pad_sequence pads them"
    if first[1:] != other[1:]:
        is_image = len(first) == len(other) == 3 and first[0] == other[0]
        way = "F.interpolate or a Resize for images" if is_image else "a view, F.pad or unsqueeze"
    return (
        f"bring entry {match[4]}, {match[3]}, and entry {match[2]}, {match[1]}, to one size: {way}; "
        "for samples of a DataLoader, in `__getitem__` or in collate_fn="
    )


@remedy(r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)")
def stay_in_bounds(failure: Failure, match: re.Match[str]) -> str:
    """An index past the end."""
    size = int(match[3])
    whole = [x for x in failure.tensors() if not x.value.is_floating_point() and not x.value.is_complex()]
    whole = [x for x in whole if x.value.dtype != bool_ and x.value.numel()]
    index = next((x for x in whole if bool((x.value == int(match[1])).any())), None)
    if index is not None and match[2] == "0":
        held = next((x for x in failure.tensors() if x.value.ndim == 2 and x.value.shape[0] == size), None)
        y = index.value
        if held is not None and y.ndim == 1 and len(y) == size and int(y.max()) < held.value.shape[1]:
            told = f"{held.text}[{index.text}] takes rows, and {index.text}{at(index)} names a column of each"
            return f"{told}: {held.text}[torch.arange(len({index.text})), {index.text}]"
    if index is not None:
        told = f"{index.text}{at(index)} holds {match[1]}"
        return f"{told}: indices of dimension {match[2]} go from 0 to {size - 1}, or -{size} to -1"
    node = None if failure.line is None else failure.line.node
    beyond = _find_last_turn(failure, int(match[1]))
    if beyond is not None:
        return beyond
    length = find_length(failure)
    if length is not None and isinstance(node, ast.Subscript) and match[2] == "0" and int(match[1]) == size:
        name, given = text_of(node.value), getattr(length.node, "value", None)
        if isinstance(node.slice, ast.BinOp) and isinstance(node.slice.op, ast.Add) and isinstance(given, ast.expr):
            more = text_of(node.slice.right)
            told = f"{text_of(node)} reaches {more} past the sample, and {length.describe()} counts more"
            return f"{told}: return len({name}) - {more} there"
        return f"{name} has {size} rows, and {length.describe()} says more: return len({name}) there"
    return f"indices of dimension {match[2]} go from 0 to {size - 1}, or -{size} to -1"


def _find_last_turn(failure: Failure, index: int) -> str | None:
    """Return which index goes past the end in the last turn of a loop over a range."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        place = node.slice if isinstance(node, ast.Subscript) else None
        if not isinstance(node, ast.Subscript) or not isinstance(place, ast.BinOp) or not isinstance(place.op, ast.Add):
            continue
        counter, more = compute(place.left, failure.frame), compute(place.right, failure.frame)
        origin = find_origin(failure.line.source, place.left, failure.stack) if failure.line is not None else None
        loop = None if origin is None else origin.node
        held = evaluate(node.value, failure.frame)
        if not isinstance(loop, ast.For) or not isinstance(counter, int) or not isinstance(more, int) or origin is None:
            continue
        if counter + more == index and text_of(loop.iter).startswith("range(") and hasattr(held, "__len__"):
            name = text_of(node.value)
            told = f"{text_of(node)} is past the end of {name}, of {len(held)}, in the last turn at {origin.place()}"
            return f"{told}: a loop to len({name}) - {more}, or {more} more value at the end of {name}"
    return None


@remedy(r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)")
def stay_in_dimensions(failure: Failure, match: re.Match[str]) -> str:
    """A dimension that the tensor has not."""
    x = next((each for each in failure.tensors()), None)
    told = "the tensor" if x is None else f"{x.text}, {tuple(x.value.shape)},"
    node = None if failure.line is None else failure.line.node
    is_join = isinstance(node, ast.Call) and text_of(node.func).rpartition(".")[2] in ("cat", "concat", "concatenate")
    if is_join and isinstance(node, ast.Call) and int(match[3]) == int(match[2]) + 1:
        parts = text_of(node.args[0]) if node.args else "…"
        return (
            f"{told} has no dimension {match[3]}: torch.stack({parts}, dim={match[3]}) adds it, cat joins along dim=0"
        )
    if x is not None and x.value.ndim == int(match[2]):
        return f"{told} has {match[2]} dimensions, and a new one goes to 0 to {match[2]}; -1 is the end"
    count = int(match[2]) + 1
    if x is None or x.value.ndim != count or not any(x.text == text_of(each) for each in _owners(node)):
        given = next(
            (each for each in _owners(node) if getattr(compute(each, failure.frame), "ndim", 0) == count), None
        )
        told = told if given is None else f"{text_of(given)}, {tuple(compute(given, failure.frame).shape)},"
    told = f"{told} has {pluralize(count, 'dimension')}, 0 to {match[2]}"
    for part in ast.walk(node) if isinstance(node, ast.Call) else ():
        if isinstance(part, ast.Constant) and part.value == int(match[3]) and isinstance(node, ast.expr):
            fitting = copy.deepcopy(node, {id(part): ast.Constant(int(match[2]))})
            if compute(fitting, failure.frame) is not MISSING:
                return f"{told}: {text_of(fitting)} takes the last"
    return f"{told}; -1 is the last"


def _owners(node: ast.AST | None) -> list[ast.expr]:
    """Return what a call works on: the object of a method, and its arguments."""
    if not isinstance(node, ast.Call):
        return []
    return [*([node.func.value] if isinstance(node.func, ast.Attribute) else []), *node.args]


@remedy(r"subscript (\w) has size (\d+) for operand (\d+) which does not broadcast with previously seen size (\d+)")
def fit_subscripts(failure: Failure, match: re.Match[str]) -> str:
    """A letter of einsum with two sizes."""
    shapes = ", ".join(f"{each.text} is {tuple(each.value.shape)}" for each in failure.tensors())
    return f"{match[1]!r} is {match[4]}, and {match[2]} in operand {match[3]}: another letter there; {shapes}"


def is_list_of_tensors(value: object) -> bool:
    """Return whether a value is a list of tensors, which are not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(each, Tensor) for each in value)


@remedy(r"Boolean value of Tensor with more than one value is ambiguous")
def ask_any_or_all(failure: Failure, match: re.Match[str]) -> str:
    """A decision by several elements."""
    node = None if failure.line is None else failure.line.node
    around = None if failure.line is None or node is None else failure.line.source.parents.get(node)
    if isinstance(around, ast.BoolOp) or isinstance(node, ast.BoolOp):
        logic = around if isinstance(around, ast.BoolOp) else node
        if isinstance(logic, ast.BoolOp):
            sign = " & " if isinstance(logic.op, ast.And) else " | "
            word = "and" if isinstance(logic.op, ast.And) else "or"
            return f"{word} asks for one truth: {sign.join(f'({text_of(each)})' for each in logic.values)}"
    lists = [each for each in failure.operands if is_list_of_tensors(each.value)]
    if isinstance(node, ast.Compare) and len(lists) == 2:
        told = f"{lists[0].text}{at(lists[0])} and {lists[1].text} are lists of {len(lists[0].value)} tensors"
        join = "torch.cat" if lists[0].value[0].ndim else "torch.stack"
        return f"{told}: {join}({lists[0].text}) == {join}({lists[1].text})"
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        sides = [node.left, *node.comparators]
        pairs = [ast.Compare(a, [op], [b]) for (a, b), op in zip(pairwise(sides), node.ops, strict=True)]
        return f"a chain asks for one truth: {' & '.join(f'({text_of(each)})' for each in pairs)}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        name = text_of(node.operand)
        told = f"not asks for one truth: ~{name} is the opposite of each element"
        return f"{told}, {name}.any() and {name}.all() are one answer"
    if isinstance(node, ast.Compare) or (isinstance(node, ast.Name) and failure.tensors()):
        x = max(failure.tensors(), key=lambda each: each.value.numel(), default=None)
        told = "" if x is None else f"{x.text}{at(x)} has {x.value.numel()} elements: "
        condition = f"({text_of(node)})" if isinstance(node, ast.Compare) else text_of(node)
        return (
            f"{told}{condition}.any() or .all() for one answer; torch.where({text_of(node)}, a, b) chooses by element"
        )
    return "(…).any() or .all() for one answer; torch.where(condition, a, b) chooses by element; & | ~ for and, or, not"

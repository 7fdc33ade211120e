"""Remedies for batches: columns against rows, images without a batch, joins of unlike dimensions, sizes below 0."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.registry import argument_node, at, compute_argument, name_argument, remedy, shape_of
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.orders import fits
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import find_expression, text_of

MIN_STEPS = 3  # dimensions of a batch of sequences


@remedy(r"shape|size|dimension|\dD|broadcast|elements|scalar|index")
def keep_column(failure: Failure, match: re.Match[str]) -> str | None:
    """A square of a column and a vector, (N, 1) with (N,), which a line before has made by broadcasting."""
    for operand in failure.tensors():
        size = tuple(operand.value.shape)
        if len(size) != 2 or size[0] != size[1] or size[0] == 1 or operand.origin is None:
            continue
        for node in ast.walk(operand.origin.value or operand.origin.node):
            sides = node.args[:2] if isinstance(node, ast.Call) and len(node.args) > 1 else []
            if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
                sides = [node.left, node.right]
            shapes = [tuple(getattr(evaluate(each, failure.frame), "shape", ())) for each in sides]
            if sorted(shapes, key=len) == [size[:1], (size[0], 1)]:
                told = " and ".join(f"{text_of(each)} {shape}" for each, shape in zip(sides, shapes, strict=True))
                column = text_of(sides[shapes.index((size[0], 1))])
                return f"{operand.text}{at(operand)} is {size}, for it is of {told}: {column}.squeeze(1) there"
    return None


def _module_inputs(failure: Failure) -> Iterator[tuple[ast.expr, NamedValue]]:
    """Yield the tensors that modules of the user's frames were called with, innermost first."""
    for i, place in enumerate(failure.stack):
        source, call = find_expression(place) or (None, None)
        if source is None or not isinstance(call, ast.Call) or not call.args:
            continue
        called = evaluate(call.func, place.frame)
        made = evaluate(call.func.func, place.frame) if isinstance(call.func, ast.Call) else None
        value = compute(call.args[0], place.frame)
        if isinstance(value, Tensor) and (is_module(called) or isinstance(made, type)):
            origin = find_origin(source, call.args[0], failure.stack[i:])
            yield call.args[0], NamedValue(bracket(call.args[0]), value, origin)


@remedy(r"linear: input is \((\d+), (\d+)\), weight \(\d+, (\d+)\)")
def add_batch(failure: Failure, match: re.Match[str]) -> str | None:
    """One image without a batch, of which convolutions made channels where a flattening expects samples."""
    channels, features, expected = map(int, match.groups())
    if channels * features != expected:
        return None
    for _, given in _module_inputs(failure):
        size = tuple(given.value.shape)
        if len(size) == 3 and not given.text.endswith("unsqueeze(1)"):
            told = f"{given.text}{at(given)}, {size}, is one image without a batch, whose channels were taken for one"
            return f"{told}: {given.text}.unsqueeze(0) is {(1, *size)}"
    return None


@remedy(r"[Tt]rying to create tensor with negative dimension (-\d+)|negative dimensions? .*not allowed")
def give_positive_sizes(failure: Failure, match: re.Match[str]) -> str:
    """A size below 0 of a new tensor."""
    node = failure.node
    for part in ast.walk(node) if node is not None else ():
        if isinstance(part, (ast.Constant, ast.Name, ast.Attribute, ast.BinOp, ast.UnaryOp)):
            value = compute(part, failure.frame)
            if type(value) is int and value < 0:
                own = failure.find_operand(text_of(part))
                told = f"{text_of(part)}{at(own)} is {value}" if text_of(part) != str(value) else f"{value} is no size"
                return f"{told}, and a new tensor has sizes of 0 or more; -1 stands for the rest in view and reshape"
    return "a new tensor has sizes of 0 or more; -1 stands for the rest in view and reshape alone"


@remedy(r"(\w+)\(\): argument 'keepdim' \(position 2\) must be bool, not int")
def join_dimensions(failure: Failure, match: re.Match[str]) -> str | None:
    """Dimensions one by one, of which the second stands in the place of `keepdim`."""
    node = failure.node
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    is_method = isinstance(compute(node.args[0], failure.frame), int)
    first, dims = ([], node.args) if is_method else (node.args[:1], node.args[1:])
    joined = f"({', '.join(map(text_of, dims))})"
    given = ", ".join([*map(text_of, first), joined, *map(text_of, node.keywords)])
    return f"several dimensions are one tuple, the argument after it is keepdim: {text_of(node.func)}({given})"


@remedy(r"randint\(\): argument 'size' must be tuple of ints, not int")
def give_shape(failure: Failure, match: re.Match[str]) -> str | None:
    """A number in the place of a shape."""
    node = failure.node
    if not isinstance(node, ast.Call) or not node.args:
        return None
    *before, size = map(text_of, (*node.args, *(each.value for each in node.keywords if each.arg == "size")))
    others = [text_of(each) for each in node.keywords if each.arg != "size"]
    given = ", ".join([*before, f"({size},)", *others])
    return f"the last argument is the shape, a tuple: {text_of(node.func)}({given})"


@remedy(r"all the input arrays must have same number of dimensions, .*index 0 has (\d+) .*index (\d+) has (\d+)")
def give_join_dimensions(failure: Failure, match: re.Match[str]) -> str | None:
    """Tensors of a join, of which one has fewer dimensions."""
    count, place, own = map(int, match.groups())
    node = argument_node(failure, 0, "tensors")
    dim = failure.locals.get("dim", failure.locals.get("axis", 0))
    value = None if node is None else compute(node, failure.frame)
    if node is None or not isinstance(value, (list, tuple)) or place >= len(value) or not isinstance(dim, int):
        return None
    listed = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
    names = [bracket(each) for each in listed] or [f"{text_of(node)}[{i}]" for i in range(len(value))]
    short, name, other = (place, names[place], names[0]) if own < count else (0, names[0], names[place])
    size = tuple(value[short].shape)
    held = failure.find_operand(name) or failure.find_operand(text_of(node))
    squeezed = _find_last_squeeze(held)
    if len(size) == 0 and squeezed is not None:
        told = f"{squeezed} at {held.origin.place() if held and held.origin else ''} takes out the samples too"
        return f"{told}, where a batch has only one: {squeezed[:-1]}-1) there"
    more = abs(count - own)
    told = f"{name}{at(held).rstrip(',')}, {size}, has {pluralize(len(size), 'dimension')}, {other} {max(count, own)}"
    if more == 1:
        added = dim if dim >= 0 else -1
        whole = (*size[:added], 1, *size[added:]) if added >= 0 else (*size, 1)
        return f"{told}: {name}.unsqueeze({added}) is {whole}"
    return f"{told}: {name}[{', '.join([':'] * len(size) + ['None'] * more)}]"


def _find_last_squeeze(operand: NamedValue | None) -> str | None:
    """Return the `squeeze()` of all dimensions in what a statement makes or appends."""
    made = None if operand is None or operand.origin is None else operand.origin.node
    for call in ast.walk(made) if made is not None else ():
        is_squeeze = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "squeeze"
        if isinstance(call, ast.Call) and is_squeeze and not call.args and not call.keywords:
            return text_of(call)
    return None


def _find_single_step(failure: Failure, listed: list[ast.expr], values: list[Tensor]) -> str | None:
    """Return the only one of joined tensors with a dimension of 1 that the others lack, where no steps are meant."""
    own = failure.frame.f_locals.get("self")
    parts = vars(own)["_modules"].values() if is_module(own) else ()
    single = [i for i, each in enumerate(values) if each.ndim == MIN_STEPS and each.shape[1] == 1]
    is_alone = len(single) == 1 and all(each.ndim == MIN_STEPS - 1 for each in values if each is not values[single[0]])
    if not is_alone or any(hasattr(each, "batch_first") for each in parts):
        return None
    name, size = bracket(listed[single[0]]), tuple(values[single[0]].shape)
    told = f"{name} is {size}, with a dimension of 1 that the others lack"
    return f"{told}: {name}.squeeze(1) is {(size[0], *size[2:])}"


@remedy(r"^cat\(\)|same number of dimensions|Dimension out of range")
def expand_for_join(failure: Failure, match: re.Match[str]) -> str | None:
    """One row for each sample, such as a state, that is to be joined with each step of a sequence."""
    node, dim = argument_node(failure, 0, "tensors"), compute_argument(failure, 1, "dim")
    listed = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
    values = [compute(each, failure.frame) for each in listed]
    is_join = isinstance(failure.node, ast.Call) and re.search(r"\bcat$|concat\w*$", text_of(failure.node.func))
    if not is_join or not isinstance(dim, int) or not all(isinstance(each, Tensor) for each in values):
        return None
    number = next((i for i, each in enumerate(values) if each.ndim == 0), None)
    rows = next((i for i, each in enumerate(values) if each.ndim > 1), None)
    if number is not None and rows is not None:  # one number for all samples, such as a time
        counts = [f"{bracket(listed[rows])}.size({i})" for i in range(values[rows].ndim)]
        counts[dim] = "1"
        way = f"{bracket(listed[number])}.expand({', '.join(counts)})"
        given = failure.find_operand(text_of(listed[number]))
        told = (
            f"{text_of(listed[number])}{at(given)} is one number, and {text_of(listed[rows])} has a row of each sample"
        )
        return f"{told}: {way}" if fits(failure, listed[number], way) else None
    count = max((each.ndim for each in values), default=0)
    squeezed = _find_single_step(failure, listed, values) if count == MIN_STEPS and dim in (-1, count - 1) else None
    if squeezed is not None:
        return squeezed
    short = [place for place, each in enumerate(values) if each.ndim < count]
    if len(short) != 1 or values[short[0]].ndim != count - 1 or count < MIN_STEPS or not -count <= dim < count:
        return None
    own, (other, whole) = short[0], next((i, each) for i, each in enumerate(values) if each.ndim == count)
    size, name, partner = tuple(values[own].shape), bracket(listed[own]), bracket(listed[other])
    for place in range(count):
        added = (*size[:place], 1, *size[place:])
        others = [i for i in range(count) if i not in (dim % count, place)]
        if place == dim % count or any(added[i] != whole.shape[i] for i in others):
            continue
        sizes = ", ".join(f"{partner}.size({place})" if i == place else "-1" for i in range(count))
        way = f"{name}.unsqueeze({place}).expand({sizes})"
        if not fits(failure, listed[own], way):
            continue
        held = failure.find_operand(text_of(listed[own]))
        told = f"{name}{at(held)} is {size}, and {partner} {tuple(whole.shape)}"
        return f"{told}: {way} is {(*added[:place], whole.shape[place], *added[place + 1 :])}"
    return None


@remedy(r"^linear\(\w+\[[\d,]*\], \w+\[(\d+),(\d+)\], \w+\[(\d+)\]\): operands could not be broadcast")
def fit_bias(failure: Failure, match: re.Match[str]) -> str | None:
    """A bias with another number of elements than the weight has rows."""
    out, features, count = map(int, match.groups())
    if count == out:
        return None
    w, b = name_argument(failure, 1, "weight", "the weight"), name_argument(failure, 2, "bias", "the bias")
    where = at(failure.find_operand(b))
    return f"{b}{where} has {count} numbers, and {w}, {(out, features)}, gives {out}: one for each, torch.zeros({out})"


@remedy(r"expanded size of the tensor \(\d+\) must match the existing size \(\d+\) at non-singleton dimension")
def fit_copied(failure: Failure, match: re.Match[str]) -> str | None:
    """Values copied into a tensor of another size, such as vectors into the table of an embedding."""
    node = failure.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "copy_":
        return None
    target, given = text_of(node.func.value), text_of(node.args[0]) if node.args else ""
    own, source = compute(node.func.value, failure.frame), compute(node.args[0], failure.frame) if node.args else None
    if not isinstance(own, Tensor) or not isinstance(source, Tensor):
        return None
    if own.numel() == source.numel() or failure.line is None:
        return None  # another order of its dimensions
    told = f"{target} is {tuple(own.shape)}, and {given} {tuple(source.shape)}"
    holder = node.func.value.value if isinstance(node.func.value, ast.Attribute) else None
    held = None if holder is None else evaluate(holder, failure.frame)
    origin = None if holder is None else find_origin(failure.line.source, holder, failure.stack)
    layer = NamedValue(text_of(holder), held, origin) if holder is not None and is_module(held) else None
    if layer is not None and type(layer.value).__name__ == "Embedding":
        sizes = ", ".join(map(str, source.shape))
        return f"{told}: {layer.text} = nn.Embedding({sizes}){at(layer)}, or nn.Embedding.from_pretrained({given})"
    return f"{told}: one size for both{'' if layer is None else f', that of {layer.text}{at(layer)}'}"


@remedy(r"size is inconsistent with indices: for dim (\d+), size is (\d+) but found index (\d+)")
def fit_sparse_size(failure: Failure, match: re.Match[str]) -> str:
    """A sparse tensor that is smaller than its indices say."""
    dim, size, index = map(int, match.groups())
    x, given = name_argument(failure, 0, "indices", "the indices"), argument_node(failure, 2, "size")
    told = f"{x}{at(failure.find_operand(x))} holds {index} in row {dim}, and the size there is {size}"
    shape = None if given is None else compute(given, failure.frame)
    if not isinstance(shape, (tuple, list)):
        return f"{told}: {index + 1} or more there"
    return f"{told}: {(*shape[:dim], index + 1, *shape[dim + 1 :])} or more"


@remedy(r"size is \(([\d, ]+)\): one number for each is needed")
def give_spatial_sizes(failure: Failure, match: re.Match[str]) -> str | None:
    """Sizes of channels or samples too, where those of height and width are asked for."""
    told = re.search(r"spatial dimensions, \[([\d, ]+)\]", failure.message)
    count, sizes = 0 if told is None else len(shape_of(told[1])), shape_of(match[1])
    if not 0 < count < len(sizes):
        return None
    kept = sizes[-count:]
    return f"size= is of height and width alone, without channels or samples: size={kept if count > 1 else kept[0]}"


@remedy(r"output with shape \[([\d, ]*)\] doesn't match the broadcast shape \[([\d, ]*)\]")
def reduce_added(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor that is written in place with a larger one, such as a sum with a whole batch."""
    own, whole = shape_of(match[1]), shape_of(match[2])
    node = failure.node
    if not isinstance(node, ast.AugAssign):
        return None
    name, value = text_of(node.target), bracket(node.value)
    told = f"{name}{at(failure.find_operand(name))} is {own}, and what is put into it {whole}"
    if own == whole[len(whole) - len(own) :] and len(whole) == len(own) + 1:
        return f"{told}: {value}.sum(0), or .mean(0), is {own}"
    sides = text_of(ast.BinOp(node.target, node.op, node.value))
    return f"{told}: {name} = {sides} makes a new tensor, of {whole}"

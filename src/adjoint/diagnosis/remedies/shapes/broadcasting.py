"""Remedies for operands that do not broadcast: rows and classes, tables longer or shorter, results of two layers."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Shape
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate, is_module
from adjoint.diagnosis.output_layer import OutputLayer
from adjoint.diagnosis.remedies.registry import (
    BroadcastOperand,
    at,
    compute_argument,
    find_both_layers,
    find_producer,
    locate_tensor,
    name_operand,
    remedy,
    shape_of,
    try_in_order,
)
from adjoint.diagnosis.remedies.shapes.short_tables import cut_table, lengthen_table
from adjoint.diagnosis.repairs.expression import parse
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of
from adjoint.nn.module.parameter import Parameter

HALVING = re.compile(r"chunk\(2|split\(|::2\]")

MIN_CLASSES = 2
MIN_IMAGE = 3  # dimensions
TURNS = re.compile(r"cos|sin")  # of positions that are turned


@remedy(r"shapes \(([\d, ]*)\) (?:and )?\(([\d, ]*)\)")
@remedy(r"\[([\d, ]*)\] does not expand to \[([\d, ]*)\]")
def fit_broadcast(failure: Failure, match: re.Match[str]) -> str | None:
    """Elementwise operands of which neither can be stretched to the other."""
    a, b = shape_of(match[1]), shape_of(match[2])
    if not a or not b:
        return None
    x, y = BroadcastOperand(name_operand(failure, a, 0), a), BroadcastOperand(name_operand(failure, b, 1), b)
    return try_in_order(ADVICE_ON_OPERANDS, failure, x, y)


def _join_list(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return the join of a list of tensors that stands in the place of one."""
    for each in failure.operands:
        held = each.value if isinstance(each.value, list) and each.text in (x.name, y.name) else []
        if held and all(isinstance(part, (Tensor, np.ndarray)) and part.ndim for part in held):
            is_array = any(isinstance(other.value, np.ndarray) for other in failure.operands)
            join = "np.concatenate" if is_array else "torch.cat"
            told = f"{each.text}{at(each)} is a list of {len(held)} of {tuple(held[0].shape)}"
            return f"{told}: {join}({each.text}) is one of all"
    return None


def _reshape_array(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return the dimensions to add to an array that has one number for each sample."""
    large = max(x.shape, y.shape, key=len)
    for each in failure.operands:
        if isinstance(each.value, np.ndarray) and each.value.shape == large[:1] and len(large) > 1:
            axes = ", ".join(["-1", *["1"] * (len(large) - 1)])
            told = f"{each.text}{at(each)} is {each.value.shape}, one number for each sample of {large}"
            return f"{told}: {each.text}.reshape({axes})"
    return None


def _compare_classes(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return the comparison of classes where a row of scores, or of one-hot numbers, meets a class."""
    if failure.line is None or not isinstance(failure.line.node, ast.Compare):
        return None
    for wide, narrow in ((y, x), (x, y)):
        own, classes = failure.find_operand(wide.name), failure.find_operand(narrow.name)
        if own is None or len(wide.shape) != 2 or narrow.shape != wide.shape[:1]:
            continue
        if bool((own.value.sum(1) == 1).all()):
            told = f"{wide.name}{at(own)} is one-hot, and the other side one class for each row"
            return f"{told}: {wide.name}.argmax(-1)"
        if classes is None or not own.value.is_floating_point() or classes.value.is_floating_point():
            continue
        numbers = classes.value
        if numbers.numel() and int(numbers.min()) >= 0 and int(numbers.max()) < wide.shape[1]:
            told = f"{wide.name}{at(own)} has {wide.shape[1]} scores for each row, and {classes.text} one class"
            return f"{told}: {wide.name}.argmax(-1) == {classes.text}"
    return None


def _repeat_angles(failure: Failure, small: BroadcastOperand, large: BroadcastOperand) -> str | None:
    """Return the repetition of sines and cosines of positions that have one for each pair of features."""
    rest = zip(small.shape[-2::-1], large.shape[-2::-1], strict=False)
    is_half = len(small.shape) > 1 and 2 * small.shape[-1] == large.shape[-1] > 2
    if not is_half or not all(m in (1, n) for m, n in rest) or not TURNS.match(small.name):
        return None
    own = failure.find_operand(small.name)
    told = f"{small.name}{at(own)} is {small.shape}, and the last size of {large.shape} is twice its"
    return f"{told}: torch.cat([{small.name}, {small.name}], -1)"


def _add_last_dimensions(failure: Failure, small: BroadcastOperand, large: BroadcastOperand) -> str | None:
    """Return the dimensions to add at the end of what has one number for each row, or what makes rows of the other."""
    added = len(large.shape) - len(small.shape)
    if not small.is_named or added <= 0 or small.shape != large.shape[: len(small.shape)]:
        return None
    other = (
        _reduce_alike(failure, small.name, large.name)
        or _sum_parts(failure, large.name, added)
        or _choose_score(failure, small.name, large.name, large.shape)
    )
    whole = (*small.shape, *(1,) * added)
    told = f"add dimensions at the end: {small.name}{'.unsqueeze(-1)' * added} is {whole}"
    return other or told + "".join(f", and so {each}" for each in _find_alike(failure, small.name, small.shape))


def _transpose_table(failure: Failure, small: BroadcastOperand, large: BroadcastOperand) -> str | None:
    """Return the transpose of a table whose sizes are the first of the other side, in the other order."""
    is_turned = len(small.shape) == 2 < len(large.shape) and small.shape[::-1] == large.shape[:2]
    if not is_turned or small.shape[0] == small.shape[1] or "the " in small.name:
        return None
    added, name = len(large.shape) - 2, small.name
    told = f"{name}{locate_tensor(failure, name)} is {small.shape}, the first sizes of {large.shape} turned round"
    return f"{told}: {name}.T{'.unsqueeze(-1)' * added} is {(*large.shape[:2], *(1,) * added)}"


def _fit_either(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return how to fit the second operand to the first, or the first to the second."""
    for ways in ((_repeat_angles, _add_last_dimensions), (_transpose_table,)):
        advice = try_in_order(ways, failure, y, x) or try_in_order(ways, failure, x, y)
        if advice is not None:
            return advice
    return None


def _compare_each_with_each(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return the differences of all pairs of rows, where an expression around them makes distances of them."""
    (a, b) = x.shape, y.shape
    if not len(a) == len(b) == 2 or a[1] != b[1] or not _is_reduced_last(failure):
        return None
    told = f"{x.name} has {a[0]} rows, {y.name} {b[0]}, and each is compared with each"
    return f"{told}: {x.name}.unsqueeze(1) - {y.name} is {(a[0], b[0], a[1])}, or torch.cdist({x.name}, {y.name})"


def _match_layers(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return the layers whose results differ in the number of their features, and how to write either."""
    a, b = x.shape, y.shape
    sizes = [(p, q) for p, q in zip(a[::-1], b[::-1], strict=False) if p != q and 1 not in (p, q)]
    made = find_both_layers(failure)
    if made is None or len(sizes) != 1 or a[-1] == b[-1]:
        return None
    given = compute_argument(failure, 0, "input")  # the function may compute with its arguments the other way round
    a, b = (b, a) if isinstance(given, Tensor) and given.shape[-1] == b[-1] else (a, b)
    told = f"{made[0].describe()} gives {a[-1]} values, {made[1].describe()} {b[-1]}"
    return f"{told}: one number for both, {made[0].write_with(b[-1])} or {made[1].write_with(a[-1])}"


def _choose_score(failure: Failure, name: str, other: str, shape: Shape) -> str | None:
    """Return what to take of a model's scores for each row, where the other side has one number for each."""
    scores = failure.find_operand(other)
    made = None if scores is None or scores.origin is None else scores.origin.value
    model = evaluate(made.func, failure.frame) if isinstance(made, ast.Call) else None
    if scores is None or made is None or len(shape) != 2 or not is_module(model):
        return None
    told = f"{other}{at(scores)} has {shape[1]} numbers for each row, as {text_of(made)} gives them, and {name} one"
    return f"{told}: {other}.max(1).values, or .gather, takes one of them; {name}.unsqueeze(-1) goes with all"


def _align_channels(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return what to write where numbers of channels, such as means, meet images with the channels after the batch."""
    for (name, own), (_, whole) in ((x, y), (y, x)):
        held = failure.find_operand(name)
        if held is None or len(own) != 1 or len(whole) < MIN_IMAGE or whole[1] != own[0] or own[0] in whole[2:]:
            continue
        added = ", ".join([":"] + ["None"] * (len(whole) - 2))
        told = f"{name}{at(held)} has a number for each of {own[0]} channels, dimension 1 of {whole}"
        more = "".join(f" and {each}[{added}]" for each in _find_alike(failure, name, own))
        return f"{told}: {name}[{added}]{more}"
    return None


def _find_alike(failure: Failure, name: str, shape: Shape) -> list[str]:
    """Return the other tensors of that shape in the statement, which the same mistake concerns: `std` of `mean`."""
    if failure.line is None:
        return []
    statement = failure.line.source.statement_of(failure.line.node)
    found = set[str]()
    for each in ast.walk(statement):
        value = evaluate(each, failure.frame) if isinstance(each, (ast.Name, ast.Attribute)) else None
        is_alike = isinstance(value, Tensor) and value.is_floating_point() and tuple(value.shape) == shape
        if is_alike and text_of(each) not in name and isinstance(getattr(each, "ctx", None), ast.Load):
            found.add(text_of(each))
    return sorted(found)


def _reduce_alike(failure: Failure, small: str, large: str) -> str | None:
    """Return the reduction of one side that the other lacks, where neither is made of the other."""
    own, other = failure.find_operand(small), failure.find_operand(large)
    made = [None if each is None or each.origin is None else each.origin.value for each in (own, other)]
    texts = ["" if each is None else text_of(each) for each in made]
    reduction = re.search(r"\.(?:sum|mean)\(-?\d\)$", texts[0])
    names = [{part.id for part in ast.walk(each) if isinstance(part, ast.Name)} for each in made if each is not None]
    if reduction is None or len(names) != 2 or large in names[0] or small in names[1] or own is None or other is None:
        return None
    if re.search(r"\.(?:sum|mean|norm|std|max)\(", texts[1]) or not isinstance(failure.node, ast.BinOp):
        return None
    if not isinstance(failure.node.op, (ast.Add, ast.Sub)):
        return None  # a weight for each row
    told = f"{small}{at(own)} goes through {reduction[0]}, and {large}{at(other)} does not"
    return f"{told}: {large}{reduction[0]} is {tuple(own.value.shape)}"


def _sum_parts(failure: Failure, large: str, added: int) -> str | None:
    """Return the sum over the parts of a draw, of whose logarithms of probabilities there is one for each part."""
    own = failure.find_operand(large)
    made = None if own is None or own.origin is None else own.origin.value
    if own is None or made is None or not re.search(r"\.(?:log_prob|entropy)\([^()]*\)$", text_of(made)):
        return None
    dims = "-1" if added == 1 else f"tuple(range(-{added}, 0))"
    told = f"{large}{at(own)} is {tuple(own.value.shape)}, one for each part of a draw"
    return f"{told}: {large}.sum({dims}) is that of the whole, {tuple(own.value.shape[:-added])}"


def _encode_classes(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return what to write where classes meet a score for each class, all other sizes being the same."""
    for (name, own), (other, whole) in ((x, y), (y, x)):
        held = failure.find_operand(name)
        is_whole = len(whole) == len(own) + 1 > 1 and (*whole[:1], *whole[2:]) == own
        if held is None or not is_whole or not isinstance(held.value, Tensor) or held.value.is_floating_point():
            continue
        classes = held.value
        if not classes.numel() or int(classes.min()) < 0 or int(classes.max()) >= whole[1] or whole[1] < MIN_CLASSES:
            continue
        way = f"F.one_hot({name}, {whole[1]}){'.movedim(-1, 1)' if len(whole) > 2 else ''}"
        told = f"{name}{at(held)} holds classes of 0 to {int(classes.max())}, and {other}, {whole}, a score for each"
        return f"{told}: {way} is {whole}"
    return None


def _find_outer_table(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return what to write where two vectors are to fill a table, a number for each pair, which the line writes."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    held = compute(parse(text_of(target)), failure.frame) if isinstance(target, ast.Subscript) else None
    for (name, a), (_, b) in ((x, y), (y, x)):
        if isinstance(held, Tensor) and len(a) == len(b) == 1 and tuple(held.shape) == (*a, *b) and target is not None:
            told = f"{text_of(target)} is {(*a, *b)}, a number for each pair"
            return f"{told}: {name}.unsqueeze(1){locate_tensor(failure, name)} is {(*a, 1)}"
    return None


def _index_class_weights(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return what to write where a number for each class meets one for each sample, whose classes the frame knows."""
    for (name, own), (_, other) in ((x, y), (y, x)):
        if len(own) != 1 or len(other) != 1 or own[0] >= other[0] or name.startswith("the "):
            continue
        for label, value in failure.frame.f_locals.items():
            is_of_classes = isinstance(value, Tensor) and not value.is_floating_point() and value.shape == other
            if is_of_classes and value.numel() and int(value.min()) >= 0 and int(value.max()) < own[0]:
                held = failure.find_operand(name)
                made = None if held is None or held.origin is None else held.origin.value
                if isinstance(made, ast.Call) and re.search(r"\.(?:argmax|max|amax)$", text_of(made.func)):
                    told = f"{name}{at(held)} is {own}, of dimension 0, and there are {other[0]} samples"
                    return f"{told}: {text_of(ast.Call(made.func, [ast.Constant(1)], []))} there, over the classes"
                told = f"{name}{at(held)} has a number for each of {own[0]} classes, and there are {other[0]} samples"
                return f"{told}: {name}[{label}] is that of each sample"
    return None


@remedy(r"shapes \(([\d, ]*)\) (?:and )?\(([\d, ]*)\)", is_last=True)
@remedy(r"\[([\d, ]*)\] does not expand to \[([\d, ]*)\]", is_last=True)
def name_sizes(failure: Failure, match: re.Match[str]) -> str:
    """Elementwise operands of sizes that differ."""
    a, b = shape_of(match[1]), shape_of(match[2])
    x, y = name_operand(failure, a, 0), name_operand(failure, b, 1)
    if sorted(a) == sorted(b):
        return f"their dimensions come in different orders: transpose {x} or {y}"
    sizes = [(p, q) for p, q in zip(a[::-1], b[::-1], strict=False) if p != q and 1 not in (p, q)]
    told = " and ".join(f"{p} against {q}" for p, q in sizes)
    node = failure.node
    named = node.keywords if isinstance(node, ast.Call) else []
    is_weight = any(each.arg in ("weight", "pos_weight") and text_of(each.value) == y for each in named)
    last = y.partition(" at ")[0].rpartition(".")[2]
    if len(sizes) == 1 and (is_weight or last in ("weight", "pos_weight")):
        where = locate_tensor(failure, y) if " at " not in y else ""
        return f"{y}{where} has {sizes[0][1]} numbers, and {x} {sizes[0][0]}: one for each"
    counted = _find_counted_classes(failure, sizes)
    if counted is not None:
        return counted
    for name, (p, q) in ((x, sizes[0]), (y, sizes[0][::-1])) if len(sizes) == 1 else ():
        own = next((each for each in failure.tensors() if name.partition("[")[0] == each.text), None)
        maker = failure.find_maker(failure.frame.f_locals.get("self"))
        if own is not None and own.text.startswith("self.") and maker is not None:
            other = y if name is x else x
            return (
                f"{own.text}{at(own)}, by {maker.text}{at(maker)}, has {p} there, and {other} {q}: one number for both"
            )
    small, big = (x, y) if sizes and sizes[0][0] < sizes[0][1] else (y, x)
    own = next((each for each in failure.tensors() if each.text == small), None)
    made = "" if own is None or own.origin is None or own.origin.value is None else text_of(own.origin.value)
    if len(sizes) == 1 and HALVING.search(made) and abs(sizes[0][0] - sizes[0][1]) == 1:
        told = f"{small}{at(own)} is the smaller half of an odd number, {sum(sizes[0])}"
        return f"{told}, and {big}{locate_tensor(failure, big)} has {max(sizes[0])} there: an even number of features"
    if len(sizes) == 1 and HALVING.search(made) and max(sizes[0]) == 2 * min(sizes[0]):
        layer = find_producer(failure, None if own is None or own.origin is None else own.origin.value)
        if layer is not None and layer.origin is not None and own is not None:
            written = OutputLayer(layer.text, layer.origin).write_with(2 * max(sizes[0]))
            told = f"{small}{at(own)} is one half of what {layer.text}{at(layer)} gives, and {big} has {max(sizes[0])}"
            return f"{told}: {written} there"
        told += f"; {small}{at(own)} is one half, and {big}{locate_tensor(failure, big)} is for the whole"
        return f"{x} and {y} must agree in each dimension: {told}, so make {big} of half the size where it is made"
    x, y = (f"{name}{'' if ' at ' in name else locate_tensor(failure, name)}" for name in (x, y))
    return f"{x} and {y} must agree in each dimension, or have 1 there, counted from the last: {told}"


def _is_reduced_last(failure: Failure) -> bool:
    """Return whether the line is a difference whose last dimension an expression around it reduces, as distances do."""
    node: ast.AST | None = failure.node
    if failure.line is None or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
        return False
    while node is not None and not isinstance(node, ast.stmt):
        node = failure.line.source.parents.get(node)
        if isinstance(node, ast.Call) and text_of(node.func).rpartition(".")[2] in ("sum", "mean", "norm"):
            return any(text_of(each) in ("-1", "1", "dim=-1", "dim=1") for each in (*node.args, *node.keywords))
    return False


def _find_counted_classes(failure: Failure, sizes: list[tuple[int, int]]) -> str | None:
    """Return the `one_hot` that has counted its classes by the largest label of a batch."""
    parts = [failure.line.node] if failure.line is not None and len(sizes) == 1 else []
    parts += [each.origin.node for each in failure.tensors() if each.origin is not None and parts]
    for node in (each for part in parts for each in ast.walk(part)):
        is_counted = isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords
        if isinstance(node, ast.Call) and is_counted and text_of(node.func).endswith("one_hot"):
            low, high = sorted(sizes[0])
            told = f"{text_of(node)} has as many classes as the largest label says, {low} and not {high}"
            return f"{told}: {text_of(node.func)}({text_of(node.args[0])}, num_classes={high})"
    return None


@remedy(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)")
def fit_parameter(failure: Failure, match: re.Match[str]) -> str | None:
    """A parameter of another size than what a model gives, as arguments of one call such as a distribution."""
    node = failure.node
    values = [(each, compute(each, failure.frame)) for each in node.args] if isinstance(node, ast.Call) else []
    tensors = [(each, value) for each, value in values if isinstance(value, Tensor) and value.ndim]
    for part, value in tensors:
        other = next((each for each in tensors if each[1] is not value), None)
        held = [each for each in failure.tensors() if any(text_of(n) == each.text for n in ast.walk(part))]
        if other is None or len(held) != 1 or held[0].value.shape != value.shape:
            continue
        shape, size = tuple(value.shape), tuple(other[1].shape)
        if isinstance(held[0].value, Parameter) and len(shape) <= len(size) and shape != size:
            told = f"{held[0].text}{at(held[0])} is {shape}, and {text_of(other[0])} {size}"
            return f"{told}: make it {size[len(size) - len(shape) :]}"
    return None


# What knows more of the operands comes first.
ADVICE_ON_OPERANDS: tuple[Callable[[Failure, BroadcastOperand, BroadcastOperand], str | None], ...] = (
    _join_list,
    _reshape_array,
    _compare_classes,
    _fit_either,
    _align_channels,
    _encode_classes,
    _find_outer_table,
    _index_class_weights,
    _compare_each_with_each,
    cut_table,
    lengthen_table,
    _match_layers,
)

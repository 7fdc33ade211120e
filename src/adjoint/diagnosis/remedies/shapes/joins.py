"""Remedies for joins of tensors: sizes that differ beside the joined dimension, and stacks of unequal ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from math import prod
from typing import NamedTuple

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Shape
from adjoint.diagnosis.causes.computing import open_program, open_step
from adjoint.diagnosis.causes.steps import find_root
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import (
    MISSING,
    NamedValue,
    evaluate,
    is_module,
)
from adjoint.diagnosis.remedies.registry import (
    MAX_NAME_CHARACTERS,
    argument_node,
    at,
    remedy,
    shape_of,
    try_in_order,
)
from adjoint.diagnosis.repairs.expression import bracket, parse
from adjoint.diagnosis.repairs.orders import fits
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of

MIN_IMAGE = 3  # dimensions


def _find_batches(failure: Failure, parts: list[tuple[str, Shape]]) -> str | None:
    """Return what two parts of different numbers of samples were computed from, where it has such numbers itself."""
    node = failure.node.args[0] if isinstance(failure.node, ast.Call) and failure.node.args else None
    listed = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
    if failure.line is None or len(listed) != 2 or failure.locals.get("dim") == 0:
        return None
    starts = [open_step(failure, each) for each in listed]
    pairs = zip(starts, parts, strict=True)
    found = [None if start is None else find_root(start, shape[0]) for start, (_, shape) in pairs]
    if found[0] is None or found[1] is None or found[0] == found[1]:
        return None
    (x, place), (y, other) = found[0], found[1]
    return f"{x} at {place} has {parts[0][1][0]} and {y} at {other} {parts[1][1][0]} samples: as many in both"


@remedy(r"Sizes of tensors must match except in dimension 0")
def pad_first_dimension(failure: Failure, match: re.Match[str]) -> str | None:
    """Sequences whose steps come last, where padding takes them first."""
    node, given = failure.node, argument_node(failure, 0, "sequences")
    value = None if given is None else compute(given, failure.frame)
    is_padding = isinstance(node, ast.Call) and text_of(node.func).rpartition(".")[2] == "pad_sequence"
    if not is_padding or given is None or not isinstance(value, (list, tuple)) or not isinstance(node, ast.Call):
        return None
    if not all(isinstance(each, Tensor) and each.ndim == 2 for each in value) or len({x.shape[0] for x in value}) > 1:
        return None
    turned = parse(f"[x.T for x in {text_of(given)}]")
    whole = ast.Call(node.func, [turned, *node.args[1:]], node.keywords)
    shapes = f"{tuple(value[0].shape)}, {tuple(value[1].shape)}"
    told = f"pad_sequence pads the first dimension, and those of {text_of(given)}, {shapes}, differ in the last"
    return f"{told}: {text_of(whole)}"


@remedy(r"Sizes of tensors must match except in dimension")
def fit_cat(failure: Failure, match: re.Match[str]) -> str | None:
    """Tensors to be joined that differ in another dimension."""
    parts = _joined_parts(failure)
    shapes = [shape for _, shape in parts]
    for dim in range(min(map(len, shapes), default=0)):
        if len({(*shape[:dim], *shape[dim + 1 :]) for shape in shapes}) == 1:
            sizes = {shape[dim] for shape in shapes}
            name = next((name for name, shape in parts if shape[dim] == 1 < max(sizes)), None)
            is_step = len(shapes[0]) == 4 and dim == 2
            if name is not None and len(sizes) == 2 and dim != len(shapes[0]) - 1 and not is_step:
                wanted = ", ".join(["-1"] * dim + [str(max(sizes))] + ["-1"] * (len(shapes[0]) - dim - 1))
                return f"{name} has 1 in dimension {dim}, the others {max(sizes)}: {name}.expand({wanted}) before it"
            node = failure.node
            call = text_of(node.func) if isinstance(node, ast.Call) else ""
            if call and not call.endswith(("cat", "concat", "concatenate", "hstack", "vstack")):
                continue  # a function joins them along another
            roots = _find_batches(failure, parts) if dim == 0 and len(shapes) == 2 and 1 not in sizes else None
            if roots is not None:
                return roots
            given = "…" if not isinstance(node, ast.Call) or not node.args else text_of(node.args[0])
            if isinstance(node, ast.Call) and given != "…" and not fits(failure, node, f"{call}({given}, dim={dim})"):
                continue  # what stands in a list besides, or follows, does not suit it
            given = given if len(given) < MAX_NAME_CHARACTERS else "[…]"
            return f"they differ in dimension {dim} alone: {call or 'cat'}({given}, dim={dim})"
    return None


def _flatten_middle(failure: Failure, shapes: list[Shape]) -> str | None:
    """Return the join of all places of maps of several sizes, of which the first and the last dimensions agree."""
    node = failure.node
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    is_alike = len({(shape[0], shape[-1], len(shape)) for shape in shapes}) == 1 and len(shapes[0]) > 3
    if not is_alike or not isinstance(node, ast.Call) or not isinstance(given, ast.Name):
        return None
    parts = ast.unparse(parse(f"[x.flatten(1, -2) for x in {given.id}]"))
    count = sum(prod(shape[1:-1]) for shape in shapes)
    told = f"maps of {' and '.join(map(str, shapes[:2]))}"
    joined = (shapes[0][0], count, shapes[0][-1])
    return f"{told}: {text_of(node.func)}({parts}, dim=1) is that of all places, {joined}"


def _find_branch(failure: Failure, listed: NamedValue, place: int) -> str | None:
    """Return the convolution of a list that gave one of several maps another size than its input has."""
    made = None if listed.origin is None else listed.origin.value
    call, loop = (made.elt, made.generators[0]) if isinstance(made, ast.ListComp) else (None, None)
    layers: Operand = None if loop is None else evaluate(loop.iter, failure.frame)
    if not isinstance(call, ast.Call) or loop is None or text_of(call.func) != text_of(loop.target):
        return None
    layer: Operand = list(layers)[place] if is_module(layers) or isinstance(layers, list) else None
    built = None if not is_module(layer) else open_program(failure).find_construction(layer)
    if built is None or not isinstance(built.node, ast.Call) or {*getattr(layer, "stride", (0,))} != {1}:
        return None
    kept = [each for each in built.node.keywords if each.arg != "padding"]
    changed = ast.Call(built.node.func, built.node.args, [*kept, ast.keyword("padding", ast.Constant("same"))])
    told = f"{text_of(loop.iter)}[{place}] at {built.place()} has a kernel of {layer.kernel_size[-1]}"
    return f"{told}, and its padding does not keep the size: {text_of(changed)} there"


@remedy(r"Sizes of tensors must match except in dimension", is_last=True)
def name_joined(failure: Failure, match: re.Match[str]) -> str:
    """Tensors to be joined that differ, by whatever."""
    parts = _joined_parts(failure)
    told = ", ".join(f"{each.text}{at(each)} {tuple(each.value.shape)}" for each in failure.tensors())
    for each in failure.tensors():
        made = None if each.origin is None else each.origin.value
        method = made.func if isinstance(made, ast.Call) else None
        owner = method.value if isinstance(method, ast.Attribute) and method.attr in ("repeat", "expand") else None
        held = MISSING if owner is None else compute(owner, failure.frame)
        if owner is not None and isinstance(held, Tensor) and held.ndim == each.value.ndim - 1 and method is not None:
            changed = text_of(made).replace(text_of(owner), f"{bracket(owner)}.unsqueeze(1)", 1) if made else ""
            return f"{each.text}{at(each)} is {tuple(each.value.shape)}, of {tuple(held.shape)}: {changed} there"
    listed = _find_listed(failure)
    if listed is not None and len(parts) > 1:
        flat = _flatten_middle(failure, [shape for _, shape in parts])
        if flat is not None:
            return flat
        odd = next((part for part in parts if part[1][1:] != parts[0][1][1:]), parts[-1])
        told = f"{odd[0]}{at(listed)} is {odd[1]}, and {parts[0][0]} {parts[0][1]}"
        branch = _find_branch(failure, listed, parts.index(odd))
        if branch is not None:
            return f"{told}: {branch}"
    return f"{told}: all sizes but the joined one are to agree" if told else "pad or cut the others to one size"


def _find_listed(failure: Failure) -> NamedValue | None:
    """Return the operand that is a list or a tuple of tensors."""
    for each in failure.operands:
        value = each.value
        if isinstance(value, (list, tuple)) and value and all(isinstance(part, Tensor) for part in value):
            return each
    return None


def _joined_parts(failure: Failure) -> list[tuple[str, Shape]]:
    """Return the text and the shape of each tensor that the line joins."""
    node = argument_node(failure, 0, "tensors")
    if isinstance(node, (ast.List, ast.Tuple)):
        given = [(text_of(each), compute(each, failure.frame)) for each in node.elts]
    else:
        given = [(each.text, each.value) for each in failure.tensors()]
        listed = _find_listed(failure)
        if listed is not None:
            given = [(f"{listed.text}[{i}]", each) for i, each in enumerate(listed.value)]
    return [(name, tuple(value.shape)) for name, value in given if isinstance(value, Tensor)]


class UnequalStack(NamedTuple):
    """Tensors to be stacked: two of them that differ, as the message tells, and what holds them all."""

    texts: tuple[str, str]  # of the shapes
    places: tuple[str, str]
    first: Shape
    other: Shape
    listed: NamedValue | None
    dataset: Operand

    @property
    def both_shapes(self) -> str:
        return f"{self.texts[0]} and {self.texts[1]}"


@remedy(r"equal size, but got (\[[\d, ]*\]) at entry (\d+) and (\[[\d, ]*\]) at entry (\d+)")
def fit_stack(failure: Failure, match: re.Match[str]) -> str | None:
    """Tensors to be stacked that differ in size."""
    owner = failure.locals.get("loader", failure.locals.get("self"))
    dataset = failure.locals.get("dataset")
    dataset = getattr(owner, "dataset", None) if dataset is None else dataset
    listed = next((each for each in failure.operands if isinstance(each.value, (list, tuple))), None)
    shapes = shape_of(match[1]), shape_of(match[3])
    stack = UnequalStack((match[1], match[3]), (match[2], match[4]), *shapes, listed, dataset)
    return try_in_order(ADVICE_ON_STACKS, failure, stack)


def _make_dataset(failure: Failure, stack: UnequalStack) -> str | None:
    """Return the TensorDataset of tensors that have been given as a list of samples."""
    dataset = stack.dataset
    if not isinstance(dataset, (list, tuple)) or not all(isinstance(each, Tensor) and each.ndim for each in dataset):
        return None
    if len({len(each) for each in dataset}) != 1:
        return None
    given = next((each for each in failure.operands if each.value is dataset), None)
    calls = [each.origin.value for each in failure.operands if each.origin is not None]
    givens = [text_of(each.args[0]) for each in calls if isinstance(each, ast.Call) and each.args]
    name = given.text if given is not None else next((each.strip("()[]") for each in givens), "*ds")
    told = f"{name}{at(given)} is a {type(dataset).__name__} of {len(dataset)} tensors"
    way = f"torch.utils.data.TensorDataset({'' if given is None else '*'}{name})"
    return f"{told}, so a dataset of {len(dataset)} samples: {way} has one for each row"


def _make_grid(failure: Failure, stack: UnequalStack) -> str | None:
    """Return the grid of places along several axes."""
    node = argument_node(failure, 0, "tensors")
    names = [text_of(each) for each in node.elts] if isinstance(node, (ast.List, ast.Tuple)) else []
    made = [each.origin for each in map(failure.find_operand, names) if each is not None and each.origin is not None]
    is_axis = [re.search(r"\b(?:arange|linspace)\(", text_of(each.node)) is not None for each in made]
    if not names or not len(stack.first) == len(stack.other) == 1 or len(is_axis) != len(names) or not all(is_axis):
        return None
    told = f"{', '.join(names)} are the places along each axis"
    return f"{told}: torch.meshgrid({', '.join(names)}, indexing='ij') gives the grid of them, to be stacked"


def _join_batches(failure: Failure, stack: UnequalStack) -> str | None:
    """Return the join of batches of which the last one is smaller."""
    x, first, other = stack.listed, stack.first, stack.other
    is_of_tensors = x is not None and all(isinstance(each, Tensor) for each in x.value)
    sizes = [tuple(each.shape) for each in x.value] if x is not None and is_of_tensors else []
    is_last = len({each[0] for each in sizes[:-1]}) == 1 and other[:1] < first[:1]
    if x is None or first[1:] != other[1:] or not is_last or 0 in other:
        return None
    rows = sum(each[0] for each in sizes)
    return f"the last of {x.text} is a smaller batch: torch.cat({x.text}) joins them to {(rows, *first[1:])}"


def _mend_slices(failure: Failure, stack: UnequalStack) -> str | None:
    """Return how to write slices of which one is empty, or shorter than the others."""
    x = stack.listed
    is_from_end = x is not None and x.origin is not None and ":-" in text_of(x.origin.node).replace(" ", "")
    if 0 not in stack.other or not is_from_end or x is None:
        return _find_short_slice(x)
    told = f"entry {stack.places[1]} of {x.text}{at(x)} is empty, {stack.texts[1]}: a slice to -0 ends at its begin"
    return f"{told}; count its end from the front, x[i:len(x) - k]"


def _compare_models(failure: Failure, stack: UnequalStack) -> str | None:
    """Return which models of a list have other sizes."""
    x, places = stack.listed, stack.places
    if x is None or not x.value or not all(is_module(each) for each in x.value):
        return None
    told = f"{x.text}[{places[0]}] and {x.text}[{places[1]}]{at(x)} have other sizes, {stack.both_shapes}"
    return f"{told}: models of one architecture alone have a state that can be stacked"


def _compare_datasets(failure: Failure, stack: UnequalStack) -> str | None:
    """Return which datasets, joined to one, have samples of other sizes."""
    if not isinstance(getattr(stack.dataset, "__dict__", {}).get("datasets"), list):
        return None
    given = next((each for each in failure.operands if each.value is stack.dataset), None)
    name = "the ConcatDataset" if given is None else f"{given.text}{at(given)}"
    told = f"the datasets of {name} have samples of other sizes, {stack.both_shapes}"
    return f"{told}: one size for all, by a transform or in the __getitem__ of each"


def _pad_list(failure: Failure, stack: UnequalStack) -> str | None:
    """Return the padding of a list of tensors that differ in their first, or their last, dimension alone."""
    x, first, other = stack.listed, stack.first, stack.other
    inside = [name for frame in failure.stack[0].called for name in frame.f_locals]
    if "samples" in inside or "collate_fn_map" in inside:
        return None  # a loader stacks them
    if x is None and stack.dataset is None and not failure.tensors():
        (place, other_place), (shape, other_shape) = stack.places, stack.texts
        return f"entry {other_place} is {other_shape}, and entry {place} {shape}: all of one size"
    if x is None or not isinstance(x.value, list):
        return None
    if first[1:] == other[1:] and first:
        told = f"{x.text}{at(x)} holds tensors of other lengths, {stack.both_shapes}"
        return f"{told}: nn.utils.rnn.pad_sequence({x.text}, batch_first=True) pads them to the longest"
    if not MIN_IMAGE > len(first) == len(other) > 1 or first[:-1] != other[:-1]:
        return None
    told = f"{x.text}{at(x)} holds tensors of other lengths in the last dimension, {stack.both_shapes}"
    most = f"n = max(x.size(-1) for x in {x.text})"
    return f"{told}: {most}, and torch.stack([F.pad(x, (0, n - x.size(-1))) for x in {x.text}])"


def _fit_samples(failure: Failure, stack: UnequalStack) -> str:
    """Return how to bring images, or sequences, to one size."""
    first, other = stack.first, stack.other
    is_image = len(first) == len(other) == 3
    way = "nn.utils.rnn.pad_sequence pads them"
    if first[1:] != other[1:]:
        way = "a view, F.pad or unsqueeze"
        way = "F.interpolate or a Resize for images" if is_image and first[0] == other[0] else way
    elif is_image and {first[0], other[0]} <= {1, 3, 4}:
        way = "grey images become x.expand(3, -1, -1), those with alpha x[:3]"
    entries = f"entry {stack.places[1]}, {stack.texts[1]}, and entry {stack.places[0]}, {stack.texts[0]}"
    return f"bring {entries}, to one size: {way}; for samples of a DataLoader, in `__getitem__` or in collate_fn="


def _find_short_slice(x: NamedValue | None) -> str | None:
    """Return which `x[i:i + n]` that a loop appends runs past the end."""
    call = None if x is None or x.origin is None else x.origin.node
    part = call.args[0] if isinstance(call, ast.Call) and call.args else None
    bounds = part.slice if isinstance(part, ast.Subscript) else None
    if x is None or not isinstance(part, ast.Subscript) or not isinstance(bounds, ast.Slice):
        return None
    end = bounds.upper
    if not isinstance(end, ast.BinOp) or bounds.lower is None or text_of(end.left) != text_of(bounds.lower):
        return None
    whole, size = text_of(part.value), text_of(end.right)
    told = f"{text_of(part)}{at(x)} is shorter at the end of {whole}"
    return f"{told}: a loop over range(len({whole}) - {size} + 1), or {whole}.unfold(0, {size}, 1) for all of them"


# What knows more of the tensors comes first.
ADVICE_ON_STACKS: tuple[Callable[[Failure, UnequalStack], str | None], ...] = (
    _make_dataset,
    _make_grid,
    _join_batches,
    _mend_slices,
    _compare_models,
    _compare_datasets,
    _pad_list,
    _fit_samples,
)

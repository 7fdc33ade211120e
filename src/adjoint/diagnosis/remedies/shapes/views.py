"""Remedies for views, joins and dimensions: sizes that do not multiply, parts that differ, letters of einsum."""

from __future__ import annotations

import ast
import copy
import re
from itertools import permutations
from math import isqrt, prod

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.computing import open_program
from adjoint.diagnosis.causes.constructions import find_construction
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import (
    MISSING,
    NamedValue,
    evaluate,
    is_module,
)
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    compute_argument,
    first_tensor,
    remedy,
)
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.orders import fits
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of
from adjoint.nn.module.parameter import Parameter


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
        side = _find_side(failure, wanted)
        if side is not None:
            return side
        if x is None:
            width = _fit_width(failure, None, wanted)
            return width or f"{size} elements cannot be divided by {rest}: the sizes other than -1 must divide them"
        name = f"{x.text}{at(x)}, {tuple(x.value.shape)},"
        features = size // x.value.shape[0] if x.value.ndim == 2 and wanted[0] == -1 else 0
        image = _fit_image(failure, features, wanted) if features and len(wanted) > 2 else None
        if image is not None:
            told = f"{name} has {features} features for each sample, and {wanted[1:]} hold {prod(wanted[1:])}"
            return f"{told}: {image}"
        if features and len(wanted) > 2:
            square = isqrt(features // wanted[1])
            sizes = [-1, wanted[1], *[square] * (len(wanted) - 2)]
            is_whole = prod(sizes[1:]) == features
            told = f"{name} has {features} features for each sample, and {wanted[1:]} hold {prod(wanted[1:])}"
            if is_whole:
                return f"{told}: {sizes}"
            return _fit_width(failure, x, wanted) or f"{told}: sizes that multiply to {features}"
        told = f"{name} has {size} elements, which {rest} does not divide"
        return f"{told}: the sizes beside -1 in {wanted} must divide them"
    x = next(iter(failure.tensors()), None)
    if x is not None and x.value.ndim and wanted[0] == x.value.shape[0] and size % rest == 0:
        return f"{wanted} would hold {rest} elements; {[*wanted, size // rest]} holds the {size}"
    for call in ast.walk(failure.line.node) if failure.line is not None else ():
        if size == rest + 1 and isinstance(call, ast.Call) and text_of(call.func).endswith(".arange"):
            told = f"{text_of(call)} has {size} elements, one more than {rest}, as its step is rounded"
            return f"{told}: torch.linspace counts them"
    is_batch = x is not None and x.value.ndim == 2 and wanted[0] == x.value.shape[0] and len(wanted) > 3
    image = _fit_image(failure, size // wanted[0], wanted) if is_batch else None
    if image is not None and x is not None:
        told = f"{x.text}{at(x)}, {tuple(x.value.shape)}, has {size // wanted[0]} features for each sample"
        return f"{told}, and {wanted[1:]} hold {prod(wanted[1:])}: {image}"
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


def _fit_image(failure: Failure, features: int, wanted: list[int]) -> list[int] | None:
    """Return the sizes of a view that makes images of features, with the channels that the layer around it takes."""
    call = None if failure.line is None or failure.node is None else failure.line.source.parents.get(failure.node)
    layer = evaluate(call.func, failure.frame) if isinstance(call, ast.Call) else None
    parts = layer.modules() if layer is not None and is_module(layer) else ()
    channels = next((each.in_channels for each in parts if hasattr(each, "in_channels")), None)
    if channels is None and features % prod(wanted[2:]) == 0 and features != prod(wanted[1:]):
        return None
    channels, count = channels or wanted[1], len(wanted) - 2
    side = round((features / channels) ** (1 / count))
    return [wanted[0], channels, *[side] * count] if channels * side**count == features else None


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
    node = failure.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        x = first_tensor(failure)
        return f"{x}.reshape(…), which copies where it must, or {x}.contiguous().view(…)"
    x, sizes = bracket(node.func.value), ", ".join(map(text_of, node.args))
    held, wanted = compute(node.func.value, failure.frame), [compute(each, failure.frame) for each in node.args]
    shape = tuple(held.shape) if isinstance(held, Tensor) else ()
    if len(shape) == 4 and wanted[:2] == [shape[0], shape[2]] and wanted[2:] in ([shape[1] * shape[3]], [-1]):
        told = f"{x}, {shape}, has its heads before the steps, and a view would mix them"
        return f"{told}: {x}.transpose(1, 2).reshape({sizes})"
    return f"{x}.reshape({sizes}), which copies where it must, or {x}.contiguous().view({sizes})"


def _find_side(failure: Failure, wanted: list[int]) -> str | None:
    """Return a view of square images of the size that the elements of each sample make."""
    call = failure.node
    owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    value = MISSING if owner is None else compute(owner, failure.frame)
    is_square = len(wanted) == 4 and wanted[0] == -1 and wanted[2] == wanted[3] and wanted[1] > 0
    if not is_square or not isinstance(value, Tensor) or value.ndim != 2 or owner is None:
        return None
    side = isqrt(value.shape[1] // wanted[1])
    if side < 2 or wanted[1] * side * side != value.shape[1]:
        return None
    made, size = (-1, wanted[1], side, side), (value.shape[0], wanted[1], side, side)
    told = f"{text_of(owner)} has {value.shape[1]} features, {wanted[1]} x {side} x {side}"
    return f"{told}, not {' x '.join(map(str, wanted[1:]))}: {bracket(owner)}.view{made} is {size}"


def _fit_width(failure: Failure, x: NamedValue | None, wanted: list[int]) -> str | None:
    """Return the layer whose features a view divides for each sample, with the number of them that the view holds."""
    call, features = failure.node, prod(wanted[1:])
    owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    made = owner if x is None or x.origin is None else x.origin.value
    name = made.func if isinstance(made, ast.Call) else None
    value: Operand = MISSING if name is None else evaluate(name, failure.frame)
    if name is None or type(value).__name__ != "Linear" or wanted[0] != -1 or min(wanted[1:], default=0) < 1:
        return None
    step = find_construction(open_program(failure), value)
    where = "" if step is None else f" at {step.place()}"
    told = f"{text_of(name)}{where} gives {value.out_features} features for each sample, and {wanted[1:]} hold"
    return f"{told} {features}: nn.Linear({value.in_features}, {features}) there"


@remedy(r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)")
def stay_in_dimensions(failure: Failure, match: re.Match[str]) -> str:
    """A dimension that the tensor has not."""
    x = next((each for each in failure.tensors()), None)
    told = "the tensor" if x is None else f"{x.text}, {tuple(x.value.shape)},"
    node, layer = failure.node, failure.module()
    if layer is not None and failure.modules and getattr(layer.value, "dim", None) == int(match[3]):
        told = f"{layer.text}{at(layer)} goes along dimension {match[3]}, and its input has {int(match[2]) + 1}"
        return f"{told}: dim=-1, the last, there"
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
        if given is None and x is not None and x.value.ndim != count:
            owner = next(iter(_owners(node)), None)
            told = "the tensor" if owner is None else f"{text_of(owner)}{at(failure.find_operand(text_of(owner)))}"
    told = f"{told} has {pluralize(count, 'dimension')}, 0 to {match[2]}"
    is_chosen = isinstance(node, ast.Call) and text_of(node.func).rpartition(".")[2] in ("argmax", "argmin")
    owner = next((each for each in _owners(node) if isinstance(compute(each, failure.frame), Tensor)), None)
    if is_chosen and owner is not None and not compute(owner, failure.frame).is_floating_point():
        return f"{told}: {text_of(owner)} holds classes already, one for each row"
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
    shapes = ", ".join(f"{each.text}{at(each)} is {tuple(each.value.shape)}" for each in failure.tensors())
    swapped = _find_swapped_letters(failure, int(match[3]))
    if swapped is not None:
        return f"{shapes}: {swapped}"
    told = f"{shapes}; {match[1]!r} is {match[4]}, and {match[2]} in operand {match[3]}"
    other = _find_other_letter(failure, match[1], int(match[3]))
    made = next((each for each in failure.tensors() if isinstance(each.value, Parameter)), None)
    if other is None and made is not None:
        return f"{told}: one size for both, as {made.text}{at(made)} is made, or another letter there"
    return f"{told}: {other or 'one size for both, or another letter there'}"


def _find_other_letter(failure: Failure, letter: str, which: int) -> str | None:
    """Return an equation in which an operand has another letter, with which the line runs, and those after it."""
    equation = argument_node(failure, 0, "equation")
    if not isinstance(equation, ast.Constant) or "->" not in str(equation.value):
        return None
    inputs, _, output = str(equation.value).replace(" ", "").partition("->")
    terms = inputs.split(",")
    used = dict.fromkeys(each for each in inputs if each.isalpha() and each not in terms[which])
    for other in used:
        changed = ",".join(term.replace(letter, other) if i == which else term for i, term in enumerate(terms))
        exchanged = output.translate(str.maketrans(letter + other, other + letter))
        for result in dict.fromkeys((output, exchanged)):
            text = f"{changed}->{result}"
            if {*result} <= {*changed} and fits(failure, equation, repr(text)):
                return repr(text)
    return None


def _find_swapped_letters(failure: Failure, which: int) -> str | None:
    """Return how an operand's letters fit the others' sizes in another order."""
    equation, operand = argument_node(failure, 0, "equation"), argument_node(failure, which + 1)
    if not isinstance(equation, ast.Constant) or operand is None:
        return None
    terms = str(equation.value).replace(" ", "").partition("->")[0].split(",")
    shapes = [getattr(compute_argument(failure, place), "shape", ()) for place in range(1, len(terms) + 1)]
    known: dict[str, int] = {}
    for place, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        known |= dict(zip(term, shape, strict=True)) if place != which else {}
    for order in permutations(terms[which]):
        if all(known.get(letter, size) == size for letter, size in zip(order, shapes[which], strict=True)):
            fitting = "".join(order)
            told = f"the sizes of {text_of(operand)} fit as {fitting!r}, not {terms[which]!r}"
            return f"{told}: its view or transpose there, or {fitting!r} in the equation"
    return None

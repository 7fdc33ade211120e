"""Remedies for what asks for equal sizes by name, and for tensors that are empty, single or of another order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import zip_longest

from adjoint.core.dtype.dtype import bool_
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate, find_origin
from adjoint.diagnosis.remedies.gradients.derivatives import find_unreduced
from adjoint.diagnosis.remedies.registry import at, first_tensor, locate_tensor, name_argument, remedy
from adjoint.diagnosis.source_expressions import text_of

INTEGER_CASTS = (".long()", ".int()", ".short()", ".byte()", "argmax(", "randint(", "arange(")


@remedy(r"same size in the mapped dimension, got sizes \[([\d, ]+)\]")
def map_alike(failure: Failure, match: re.Match[str]) -> str:
    """Arguments of vmap of different lengths: the dimensions along which they have one."""
    values = _find_arguments(failure)
    told = ", ".join(f"{each.text} {tuple(each.value.shape)}" for each in failure.tensors())
    sizes = f"the sizes are {match[1]}{f', of {told}' if told else ''}"
    counts = [value.ndim for value in values if isinstance(value, Tensor)]
    if counts == [1, 2] and len(values) == 2 and values[1].shape[1] == len(values[0]):
        return f"in_dims=(None, 0) maps the rows of the second, and gives each the whole first: {sizes}"
    if counts == [2, 1] and len(values) == 2:
        rows, vector = values
        if rows.shape[1] == len(vector):  # what a row is multiplied with is for all of them
            return f"in_dims=(0, None) maps the rows of the first, and gives each the whole second: {sizes}"
    shapes = [tuple(value.shape) for value in values if isinstance(value, Tensor)]
    if len(shapes) == len(values) == 2 and shapes[0][1:] == shapes[1][1:] != () and len(set(shapes[0])) > 1:
        return f"rows of both in as many pairs, or all pairs, vmap(vmap(f, (None, 0)), (0, None)): {sizes}"
    for count in dict.fromkeys(n for value in values if isinstance(value, Tensor) for n in value.shape):
        shapes = [tuple(value.shape) if isinstance(value, Tensor) else () for value in values]
        dims = [shape.index(count) if count in shape else None for shape in shapes]
        mapped = [dim for dim in dims if dim is not None]
        if len(mapped) == len(values) or (mapped and not all(isinstance(value, Tensor) for value in values)):
            return f"in_dims=({', '.join(map(str, dims))}): {sizes}"
    return f"in_dims=(0, None) maps the first alone, where the second is for all: {sizes}"


def _find_arguments(failure: Failure) -> list[Operand]:
    """Return the arguments of the mapped function."""
    given = failure.locals.get("args")
    if isinstance(given, tuple):
        return list(given)
    node = failure.node
    values = [evaluate(each, failure.frame) for each in node.args] if isinstance(node, ast.Call) else []
    return [value for value in values if value is not MISSING]


@remedy(
    r"number of subscripts in the equation \((\d+)\) (?:does not match|is more than) "
    r"the number of dimensions \((\d+)\) for operand (\d+)"
)
def spell_operand(failure: Failure, match: re.Match[str]) -> str | None:
    """A term of einsum with more or fewer letters than its operand has dimensions."""
    node = failure.node
    if not isinstance(node, ast.Call) or not node.args:
        return None
    equation = evaluate(node.args[0], failure.frame)
    place = int(match[3])
    if not isinstance(equation, str) or place + 1 >= len(node.args):
        return None
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    name, value = text_of(node.args[place + 1]), evaluate(node.args[place + 1], failure.frame)
    x = next((each for each in failure.tensors() if each.text == name), None)
    told = f"{name}{at(x)} " + (f"has {match[2]} dimensions" if value is MISSING else f"is {tuple(value.shape)}")
    letters = int(match[2])
    return (
        f"{told}, and {terms[place]!r} in {equation!r} names {match[1]} dimensions: {letters} "
        f"letter{'s' * (letters != 1)} for it, or another operand"
    )


@remedy(
    r"more operands were provided than specified in the equation|fewer operands were provided than specified|"
    r"number of operands .* does not match"
)
def count_operands(failure: Failure, match: re.Match[str]) -> str | None:
    """An equation of einsum with more or fewer terms than operands."""
    node = failure.node
    equation = evaluate(node.args[0], failure.frame) if isinstance(node, ast.Call) and node.args else MISSING
    if not isinstance(equation, str) or not isinstance(node, ast.Call):
        return None
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    pairs = zip_longest(terms, map(text_of, node.args[1:]), fillvalue="nothing")
    return f"a term for each operand: {', '.join(f'{term} for {name}' for term, name in pairs)}"


@remedy(r"\"(\w+)\" not implemented for (?:'|\S*\.)?(int\d+|uint8|Long|Int|bool|Bool)'?")
def use_float_operands(failure: Failure, match: re.Match[str]) -> str | None:
    """Integers where an op computes with floats."""
    whole = [each for each in failure.tensors() if not each.value.is_floating_point() and not each.value.is_complex()]
    if not whole:
        return None
    for each in whole:
        text = "" if each.origin is None or each.origin.value is None else text_of(each.origin.value)
        if text.endswith(INTEGER_CASTS[:4]):
            name = each.text
            kept = text[: text.rindex(".")]
            return f"{name}{at(each)} was made integers, which have no gradient: {name} = {kept} there"
    names = ", ".join(f"{each.text}.float()" for each in whole)
    kinds = ", ".join(f"{each.text}{at(each)}" for each in whole)
    return f"{kinds}: {str(whole[0].value.dtype).rpartition('.')[2]}, and {match[1]} computes with floats: {names}"


@remedy(r"[Ee]xpected (\w+) to have value at most (\d+), but got value (\d+)")
def bound_values(failure: Failure, match: re.Match[str]) -> str | None:
    """A value past the end, such as a length beyond the time of the input."""
    beyond = int(match[3])
    x = next((each for each in failure.tensors() if each.value.numel() and float(each.value.max()) == beyond), None)
    if x is None:
        return None
    return f"{x.text}{at(x)} holds {beyond}, and {match[1]} go to {match[2]}: {x.text}.clamp(max={match[2]})"


@remedy(
    r"Incompatible shapes of A and B for the equation (AX = B|XA = B) \((\d+)x(\d+) and (\d+)x(\d+)\)", is_last=True
)
def fit_equation(failure: Failure, match: re.Match[str]) -> str:
    """A system of equations whose right side has other rows."""
    a, b = name_argument(failure, 0, "A", "A"), name_argument(failure, 1, "B", "B")
    if match[1] == "AX = B":
        return f"{a} has {match[2]} equations, and {b}{locate_tensor(failure, b)} {match[4]} rows: one row for each"
    return f"{a} has {match[3]} equations, and {b}{locate_tensor(failure, b)} {match[5]} columns: one for each"


@remedy(r"attempting to use a Tensor in some data-dependent control flow")
def choose_by_element(failure: Failure, match: re.Match[str]) -> str:
    """A branch by a value under vmap."""
    node = failure.node
    condition = text_of(node) if isinstance(node, ast.expr) else "condition"
    return f"each example may go another way: torch.where({condition}, a, b) computes both and chooses"


@remedy(r"step must be greater than zero")
def flip_order(failure: Failure, match: re.Match[str]) -> str | None:
    """A slice that runs backwards."""
    node = failure.node
    if not isinstance(node, ast.Subscript):
        return None
    return f"slices of tensors run forwards alone: {text_of(node.value)}.flip(0) is the other way round"


@remedy(r"only one dimension can be inferred")
def infer_one(failure: Failure, match: re.Match[str]) -> str:
    """Two sizes of -1."""
    x = next(iter(failure.tensors()), None)
    told = "" if x is None else f"{x.text}{at(x)} is {tuple(x.value.shape)}: "
    return f"{told}one size may be -1, the others are numbers, such as {'x' if x is None else x.text}.shape[0]"


@remedy(r"expects a non-empty TensorList")
def fill_list(failure: Failure, match: re.Match[str]) -> str | None:
    """A list of tensors to which nothing was added."""
    x = next((each for each in failure.operands if isinstance(each.value, (list, tuple)) and not each.value), None)
    if x is None:
        return None
    scope = None if x.origin is None else x.origin.value
    for part in ast.walk(scope) if scope is not None else ():
        spent = evaluate(part.iter, failure.frame) if isinstance(part, ast.comprehension) else None
        if isinstance(part, ast.comprehension) and isinstance(spent, Iterator) and failure.line is not None:
            origin = find_origin(failure.line.source, part.iter, failure.stack)
            where = "" if origin is None else f" at {origin.place()}"
            told = f"{text_of(part.iter)}{where} is a {type(spent).__name__}, which gives its items once"
            return f"{told}, and they were taken: a list, or make it anew for each pass"
        if isinstance(part, ast.comprehension) and part.ifs:
            told = f"{x.text}{at(x)} is empty, as {text_of(part.ifs[0])!r} is true of none"
            return f"{told}: if {x.text}: before it, and another way where there is none"
    return f"{x.text}{at(x)} is empty, for nothing was appended to it: fill it before, or test if {x.text}"


@remedy(r"passed to transform API must be Tensor, got <class '[\w.]*?(\w+)'>")
def give_tensor(failure: Failure, match: re.Match[str]) -> str:
    """An array or a number where a transform takes a tensor."""
    node = failure.node
    given = text_of(node.args[0]) if isinstance(node, ast.Call) and node.args else "the input"
    way = f"torch.from_numpy({given})" if match[1] == "ndarray" else f"torch.tensor({given})"
    return f"{given} is a {match[1]}, no tensor: {way}"


@remedy(r"Got (\d)D input, but (\w+) mode needs (\d)D input")
def fit_interpolation(failure: Failure, match: re.Match[str]) -> str | None:
    """An interpolation over more or fewer dimensions than its mode is for, or one image without a batch."""
    count, wanted, layer = int(match[1]), int(match[3]), failure.module()
    x = next((each for each in failure.tensors() if each.value.ndim == count), None)
    shape = () if x is None else tuple(x.value.shape)
    if x is not None and count == 3 and wanted == 4 and shape[0] in (1, 3, 4) and min(shape[1:]) > shape[0]:
        told = f"{x.text}{at(x)}, {shape}, is one image, and a batch is wanted"
        return f"{told}: {x.text}.unsqueeze(0) is {(1, *shape)}"
    if x is not None and count == 2 and wanted == 3:
        told = f"{x.text}{at(x)}, {shape}, has no channels, and (batch, channels, length) is wanted"
        return f"{told}: {x.text}.unsqueeze(1) is {(shape[0], 1, shape[1])}"
    mode = {3: "linear", 4: "bilinear", 5: "trilinear"}.get(count)
    mode = "bicubic" if match[2] == "cubic" and count == 4 else mode
    where = "" if layer is None or "Upsample" not in type(layer.value).__name__ else f" in {layer.text}{at(layer)}"
    form = {3: "(batch, channels, length)", 4: "(batch, channels, height, width)"}.get(count, "volumes")
    return (
        None if mode is None else f"mode={match[2]!r}{where} is for {wanted} dimensions, and {form} takes mode={mode!r}"
    )


@remedy(r"a Tensor with (\d+) elements cannot be converted to Scalar")
def reduce_first(failure: Failure, match: re.Match[str]) -> str:
    """A number asked of several elements."""
    node = failure.node
    x, value = first_tensor(failure), next((each.value for each in failure.tensors()), None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        x, own = text_of(node.func.value), node.func.value
        x = f"({x})" if isinstance(own, (ast.BinOp, ast.UnaryOp, ast.Compare)) else x
        value = failure.locals.get("self", value)
    if isinstance(value, Tensor) and value.dtype == bool_:
        return (
            f"it holds a truth for each element: {x}.sum().item() counts them, {x}.float().mean().item() is the share"
        )
    if isinstance(value, Tensor) and not value.is_floating_point():
        return f"it holds {match[1]} numbers: {x}.tolist() gives all of them"
    operand = failure.find_operand(x)
    unreduced = None if operand is None else find_unreduced(failure, operand)
    if unreduced is not None:
        return f"{unreduced}: leave that out, or {x}.mean().item()"
    return f"reduce it first, {x}.mean().item() or .sum(); {x}.tolist() gives all {match[1]}"

"""Tables, buffers and samples that an index goes past, or an operand does not fit: what makes them, of what size."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Shape
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import (
    NamedValue,
    evaluate,
    find_origin,
)
from adjoint.diagnosis.remedies.registry import BroadcastOperand, at
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import find_assignment, text_of

COUNTED = re.compile("class|num|vocab|^n$|^n_|^k$|count")
CREATION = re.compile(r"\b(zeros|ones|empty|full)$")


def find_full_buffer(failure: Failure, target: ast.expr, held: Operand) -> str | None:
    """Return the slice of a buffer that goes past its end."""
    if not isinstance(target, ast.Subscript) or not isinstance(held, Tensor):
        return None
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    own = failure.find_operand(text_of(target.value))
    for dim, each in enumerate(parts[: held.ndim]):
        bounds = [each.lower, each.upper] if isinstance(each, ast.Slice) else []
        ends = [0 if part is None else compute(part, failure.frame) for part in bounds]
        if len(ends) == 2 and all(type(end) is int for end in ends) and 0 < ends[0] <= held.shape[dim] < ends[1]:
            told = f"{text_of(target.value)}{at(own)} has {held.shape[dim]} in dimension {dim}, and {text_of(each)}"
            return f"{told} is {ends[0]}:{ends[1]}: it is full, make it of {ends[1]} or more, or begin anew"
    return None


def find_short_table(failure: Failure, index: int, size: int) -> str | None:
    """Return what to write where a table that the program makes, such as one of counts, has too few rows."""
    for node in ast.walk(failure.node) if failure.node is not None and failure.line is not None else ():
        own = failure.find_operand(text_of(node.value)) if isinstance(node, ast.Subscript) else None
        made = None if own is None or own.origin is None else own.origin.value
        names = [*made.args] if isinstance(made, ast.Call) and CREATION.search(text_of(made.func)) else []
        numbers = [each for each in names if isinstance(each, ast.Name)]
        if own is None or own.origin is None or not numbers or index < size:
            continue
        if not any(compute(each, failure.frame) == size for each in numbers):
            continue
        setting = next(each for each in numbers if compute(each, failure.frame) == size)
        origin = find_origin(own.origin.source, setting, failure.stack)
        where = "" if origin is None else f" at {origin.place()}"
        name = setting.id
        if origin is not None and isinstance(origin.node, ast.Assign):
            name = text_of(origin.node.targets[0])
        if not COUNTED.search(name) and own.value.is_floating_point():
            continue
        told = (
            f"{own.text}{at(own)} has {size} rows and columns"
            if len(numbers) > 1
            else f"{own.text}{at(own)} has {size}"
        )
        return f"{told}, by {name}{where}, and {index} is asked for: {name} = {index + 1} or more"
    return None


def find_reach(failure: Failure, index: ast.expr) -> str:
    """Return how far a place is behind the number of a sample: of `j + h - 1`, where `j = i + n`, it is n + h - 1."""
    scope = None if failure.line is None else failure.line.source.scope_of(index)
    names = [each.arg for each in getattr(getattr(scope, "args", None), "args", ()) if each.arg != "self"]
    terms = [*_find_terms(failure, index, "+")]
    if not names or ("+", names[0]) not in terms or len(terms) < 2:
        return ""
    terms.remove(("+", names[0]))
    written = " ".join(f"{sign} {text}" for sign, text in terms)
    return written.removeprefix("+ ")


def _find_terms(failure: Failure, node: ast.expr, sign: str) -> Iterator[tuple[str, str]]:
    """Yield the terms of a sum, with their signs; those of a name too that a sum gave its value."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _find_terms(failure, node.left, sign)
        other = "-" if sign == "+" else "+"
        yield from _find_terms(failure, node.right, sign if isinstance(node.op, ast.Add) else other)
        return
    source = None if failure.line is None else failure.line.source
    made = None
    if source is not None and isinstance(node, ast.Name):
        made = find_assignment(source, source.scope_of(node), node.id, node)
    value = getattr(made, "value", None)
    if isinstance(value, ast.BinOp):
        yield from _find_terms(failure, value, sign)
    else:
        yield sign, text_of(node)


def find_small_table(failure: Failure, index: NamedValue, dim: int, size: int) -> str | None:
    """Return what makes a table, of numbers or of zeros, that has one row for each index up to the largest of them."""
    tables = [each for each in failure.tensors() if each is not index and each.value.shape[dim : dim + 1] == (size,)]
    own = tables[0] if tables and tables[0].value.is_leaf and not tables[0].value.requires_grad else None
    made = None if own is None or own.origin is None else own.origin.value
    count = int(index.value.max()) + 1
    for call in ast.walk(made) if made is not None else ():
        for part in call.args if isinstance(call, ast.Call) and CREATION.search(text_of(call.func)) else ():
            if ".max()" in text_of(part) and own is not None:
                told = f"{own.text}{at(own)} has {size} rows, and {index.text} goes to {count - 1}"
                return f"{told}: {text_of(part)} + 1 there"
    if own is None or own.value.ndim != 1 or index.value.numel() <= size or not own.value.is_floating_point():
        return None
    told = f"{own.text}{at(own)} has {size} numbers, and {index.text}{at(index)} goes from 0 to {count - 1}"
    return f"{told}: {count} numbers there, one for each"


def find_last_turn(failure: Failure, index: int) -> str | None:
    """Return which index goes past the end in the last turn of a loop over a range."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        place = node.slice if isinstance(node, ast.Subscript) else None
        if isinstance(place, ast.Tuple):
            place = next((each for each in place.elts if isinstance(each, ast.BinOp)), None)
        if not isinstance(node, ast.Subscript) or not isinstance(place, ast.BinOp) or not isinstance(place.op, ast.Add):
            continue
        counter, more = compute(place.left, failure.frame), compute(place.right, failure.frame)
        origin = find_origin(failure.line.source, place.left, failure.stack) if failure.line is not None else None
        loop = None if origin is None else origin.node
        held = evaluate(node.value, failure.frame)
        if not isinstance(loop, ast.For) or not isinstance(counter, int) or not isinstance(more, int) or origin is None:
            continue
        if isinstance(node.slice, ast.Tuple) and text_of(loop.iter).startswith("range(") and counter + more == index:
            told = f"{text_of(node)} is past the end of {text_of(node.value)} in the last turn at {origin.place()}"
            return f"{told}: {text_of(loop.iter)[:-1]} - {more}) there"
        if counter + more == index and text_of(loop.iter).startswith("range(") and hasattr(held, "__len__"):
            name = text_of(node.value)
            told = f"{text_of(node)} is past the end of {name}, of {len(held)}, in the last turn at {origin.place()}"
            return f"{told}: a loop to len({name}) - {more}, or {more} more value at the end of {name}"
    return None


def cut_table(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return how to cut a parameter or a buffer that is longer than the input."""
    table = _find_longer_table(failure, x.shape, y.shape)
    if table is None:
        return None
    name, dim, size, where = table
    if dim == 0 and len(x.shape) == len(y.shape) > 1:  # of the samples of a batch
        told = f"{name}{where} is for {max(x.shape[0], y.shape[0])} samples, and this batch has {size}"
        return f"{told}: a mean over them, .mean(0), is of one size for all batches; or drop_last=True"
    cut = ", ".join([":"] * dim + [f":{size}"])
    return f"{name}{where} is for inputs of one length: as much of it as the input has, {name}[{cut}]"


def lengthen_table(failure: Failure, x: BroadcastOperand, y: BroadcastOperand) -> str | None:
    """Return what to write for a parameter or buffer that is shorter than the input."""
    held = [
        x for module in failure.modules[:1] for key in ("_parameters", "_buffers") for x in vars(module)[key].values()
    ]
    for (_, own), (_, other) in ((x, y), (y, x)):
        table = next((each for each in failure.tensors() if tuple(each.value.shape) == own), None)
        if table is None or len(own) != len(other) or not any(table.value is each for each in held):
            continue
        differing = [i for i, (p, q) in enumerate(zip(own, other, strict=True)) if p != q and 1 not in (p, q)]
        if len(differing) == 1:
            place = differing[0]
            wanted = (*own[:place], other[place], *own[place + 1 :])
            return f"{table.text}{at(table)} is {own}, and the input has {other[place]} there: make it {wanted}"
    return None


def _find_longer_table(failure: Failure, a: Shape, b: Shape) -> tuple[str, int, int, str] | None:
    """Return the parameter or buffer that is longer than the input: its name, the dimension, the input's size."""
    module = None if not failure.modules else failure.modules[0]
    held = [*vars(module)["_parameters"].values(), *vars(module)["_buffers"].values()] if module is not None else []
    for own, other in ((a, b), (b, a)):
        table = next((each for each in failure.tensors() if tuple(each.value.shape) == own), None)
        if table is None or not any(table.value is each for each in held):
            continue
        sizes = list(zip(range(len(own))[::-1], own[::-1], other[::-1], strict=False))
        differing = [(dim, q) for dim, p, q in sizes if p != q and 1 not in (p, q)]
        is_of_features = len(own) > 1 and differing[:1] and differing[0][0] == len(own) - 1
        if len(differing) == 1 and own[differing[0][0]] > differing[0][1] and not is_of_features:
            return table.text, *differing[0], at(table)
    return None

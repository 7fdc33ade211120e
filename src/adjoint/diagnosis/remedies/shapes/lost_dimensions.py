"""Remedies for operations along another dimension than is meant, which took from a tensor the size that a layer takes.

The layer is not to blame there: what its input had before says which dimension was meant.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from math import prod

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.called_functions import find_function_called
from adjoint.diagnosis.causes.computing import open_step
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.searches.disagreements import LAYER
from adjoint.diagnosis.causes.steps import find_former
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.registry import argument_node, at, remedy
from adjoint.diagnosis.repairs.expression import bracket, parse
from adjoint.diagnosis.repairs.reshapes import write_orders
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of

MAX_STEPS = 8
MAX_ORDERED = 4  # dimensions of a tensor whose orders are tried
REDUCTIONS = re.compile(r"mean|sum|max|min|amax|amin|std|var|norm|prod|logsumexp|median|argmax|argmin")
JOINS = frozenset(("cat", "concat", "concatenate"))
MERGES = frozenset(("view", "reshape", "flatten"))


@remedy(LAYER.pattern)
def restore_size(failure: Failure, match: re.Match[str]) -> str | None:
    """An operation before a layer, along another dimension, after which the size is not there that the layer takes."""
    if not failure.modules or match["channels"]:
        return None
    names = ("wanted", "normed", "last", "expected", "inputs")
    wanted = int(next(match[name] for name in names if match[name]))
    call = failure.node
    given = argument_node(failure, 0, "input")
    if not isinstance(call, ast.Call) or given is None:
        return None
    step = open_step(failure, given)
    if step is None or look_up(step.context, call.func) is not failure.modules[0]:
        return None
    missing = _find_missing_part(failure, given, wanted)
    if missing is not None:
        return f"{text_of(call.func)} takes {wanted}, and {missing}"
    found = next(_find_changes(step, wanted), None)
    return None if found is None else f"{found[0]}, and {text_of(call.func)} takes {wanted}: {found[1]}"


def _find_missing_part(failure: Failure, given: ast.expr, wanted: int) -> str | None:
    """Return which part of a join is not there: one for each module that a comprehension chooses by its name."""
    for call in ast.walk(given):
        name = text_of(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
        parts = compute(call.args[0], failure.frame) if isinstance(call, ast.Call) and name in JOINS else None
        if not isinstance(call, ast.Call) or not isinstance(parts, list) or not parts or failure.line is None:
            continue
        sizes = {each.shape[-1] for each in parts if isinstance(each, Tensor)}
        origin = find_origin(failure.line.source, call.args[0], failure.stack)
        made = call.args[0] if origin is None else origin.value
        if len(sizes) != 1 or wanted % max(sizes) or wanted <= max(sizes) * len(parts):
            continue
        for each in ast.walk(made) if isinstance(made, ast.ListComp) else ():
            table = evaluate(each.value, failure.frame) if isinstance(each, ast.Subscript) else None
            held: Operand = vars(table)["_modules"] if is_module(table) else table
            source = text_of(made.generators[0].iter) if isinstance(made, ast.ListComp) else ""
            given_names = compute(parse(re.sub(r"\.(?:items|values|keys)\(\)$", "", source)), failure.frame)
            are_tables = isinstance(held, dict) and isinstance(given_names, dict)
            lacking = [name for name in held if name not in given_names] if are_tables else []
            if lacking and isinstance(each, ast.Subscript):
                told = f"{len(parts)} of {len(parts) + len(lacking)} parts are joined, of {max(sizes)} each"
                name = source.partition(".")[0]
                named = [part for part in ast.walk(made or each) if isinstance(part, ast.Name) and part.id == name]
                own = find_origin(failure.line.source, named[0], failure.stack) if named else None
                return f"{told}: {name}{at(NamedValue('', None, own))} lacks {', '.join(map(repr, lacking))}"
    return None


def _find_changes(step: SourceStep, wanted: int) -> Iterator[tuple[str, str]]:
    """Yield the operations that lost a size, nearest first: what each gives, and it as it keeps the size."""
    value: Operand = MISSING
    for _ in range(MAX_STEPS):
        node, known = step.node, step.context.program.compute(step)
        value = known if known is not MISSING else value
        if isinstance(node, (ast.Call, ast.Subscript)) and not step.keys and isinstance(value, Tensor):
            for text, shape in _change(step, node, value, wanted):
                if text_of(node) != text:
                    yield f"{text_of(node)} at {step.place()} is {tuple(value.shape)}", f"{text}, {shape}"
        former = find_former(step)
        if not former:
            former, value = _find_input(step), MISSING
        if not former:
            return
        step = former[0]


def _find_input(step: SourceStep) -> list[SourceStep]:
    """Return the tensor that a call of the library was given, where its last size is that of the result."""
    node = step.node
    if not isinstance(node, ast.Call) or find_function_called(step, node)[0] is not None:
        return []
    called = look_up(step.context, node.func)
    is_method = isinstance(node.func, ast.Attribute) and called is MISSING
    inner = node.func.value if is_method and isinstance(node.func, ast.Attribute) else next(iter(node.args), None)
    return [] if inner is None else [step.at(inner, ())]


def _change(
    step: SourceStep, node: ast.Call | ast.Subscript, value: Tensor, wanted: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield an operation with which the last size is the one that is wanted, and what it gives then."""
    compute_part = step.context.program.compute
    if isinstance(node, ast.Subscript):
        held = compute_part(step.at(node.value, ()))
        if isinstance(held, Tensor) and held.shape[-1:] == (wanted,):
            yield from _move_index(node, held, wanted)
        return
    name = text_of(node.func).rpartition(".")[2]
    is_function = not isinstance(node.func, ast.Attribute) or hasattr(
        look_up(step.context, node.func.value), "__spec__"
    )
    if is_module(look_up(step.context, node.func)) or (is_function and not node.args):
        return
    given = node.args[0] if is_function else getattr(node.func, "value", node)
    if name in JOINS and is_function:
        yield from _join(node, compute_part(step.at(given, ())), value, wanted)
        return
    held = compute_part(step.at(given, ()))
    if not isinstance(held, Tensor):
        return
    if REDUCTIONS.fullmatch(name) and wanted in held.shape[-1:]:
        yield from _reduce(node, held, value, wanted, 1 if is_function else 0)
    elif name in MERGES and 2 < held.ndim <= MAX_ORDERED and held.numel() == value.numel():
        yield from _merge(bracket(given), held, value, wanted)


def _reduce(
    node: ast.Call, held: Tensor, value: Tensor, wanted: int, place: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield a reduction over other dimensions, as many: not over samples, if others are there."""
    part = next((each.value for each in node.keywords if each.arg in ("dim", "axis")), None)
    part = part or (node.args[place] if len(node.args) > place else None)
    with suppress(ValueError, TypeError):
        dims = ast.literal_eval(part) if part is not None else None
        count = len(dims) if isinstance(dims, (tuple, list)) else 1
        if part is None or (count == 1 and not isinstance(dims, int)):
            return
        for chosen in sorted(combinations(range(held.ndim - 1), count), key=lambda each: 0 in each):
            other = parse(repr(chosen if isinstance(dims, (tuple, list)) else chosen[0]))
            kept = [size for i, size in enumerate(held.shape) if i not in chosen]
            if value.ndim == held.ndim:
                kept = [1 if i in chosen else size for i, size in enumerate(held.shape)]
            yield text_of(copy.deepcopy(node, {id(part): other})), tuple(kept)


def _join(node: ast.Call, parts: Operand, value: Tensor, wanted: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield a join along the last dimension, of the parts, or of as many as would make the size that is wanted."""
    size = value.shape[-1]
    is_known = isinstance(parts, (list, tuple)) and all(isinstance(each, Tensor) for each in parts)
    if is_known:
        fits = sum(each.shape[-1] for each in parts) == wanted and len({each.shape[:-1] for each in parts}) == 1
        shape = (*parts[0].shape[:-1], wanted)
    else:
        dim = next((i for i in range(value.ndim - 1) if size and value.shape[i] % max(wanted // size, 1) == 0), None)
        count = wanted // size if size else 0
        fits = dim is not None and count > 1 and count * size == wanted
        rows = [n // max(count, 1) if i == dim else n for i, n in enumerate(value.shape[:-1])]
        shape = (*rows, wanted)
    if fits:
        rest = [each for each in node.keywords if each.arg not in ("dim", "axis")]
        yield text_of(ast.Call(node.func, node.args[:1], [*rest, ast.keyword("dim", ast.Constant(-1))])), shape


def _merge(own: str, held: Tensor, value: Tensor, wanted: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield a tensor in another order of dimensions, the last of which are merged."""
    for text in write_orders(own, held.ndim):
        shape = _read_order(text, own, tuple(held.shape))
        if shape[0] != held.shape[0]:
            continue  # samples stay the first
        for begin in range(1, held.ndim):
            if prod(shape[begin:]) == wanted and begin + 1 == value.ndim:
                yield f"{text}.flatten({begin})" if begin < held.ndim - 1 else text, (*shape[:begin], wanted)


def _read_order(text: str, own: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a tensor in the order that a text of `write_orders` gives."""
    numbers = [int(each) for each in re.findall(r"\d+", text.removeprefix(own))]
    if ".permute" in text.removeprefix(own):
        return tuple(shape[i] for i in numbers)
    order = [*range(len(shape))]
    if numbers:
        order[numbers[0]], order[numbers[1]] = order[numbers[1]], order[numbers[0]]
    return tuple(shape[i] for i in order)


def _move_index(node: ast.Subscript, held: Tensor, wanted: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield an item of another dimension than the last."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    is_last = len(parts) == held.ndim > 2 and not isinstance(parts[-1], ast.Slice)
    if is_last and all(text_of(each) == ":" for each in parts[:-1]):
        other = ast.Tuple([*parts[:-2], parts[-1]], ast.Load())
        yield text_of(ast.Subscript(node.value, other, ast.Load())), (*held.shape[:-2], wanted)

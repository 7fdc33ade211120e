"""Remedies for sizes that differ, by what made them: a size that a call was given, a reduction that one side lacks."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Shape
from adjoint.diagnosis.causes.computing import open_step
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.steps import find_former, find_root, trace_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate, find_origin
from adjoint.diagnosis.remedies.registry import at, find_part, remedy, shape_of
from adjoint.diagnosis.repairs.expression import parse
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of

DIFFERING = (
    r"shapes \(([\d, ]*)\) (?:and )?\(([\d, ]*)\)|"
    r"^where\(bool\[([\d,]*)\], \w+\[[\d,]*\], \w+\[([\d,]*)\]\): operands could not be"
)
PRODUCT = r"inner sizes differ, \(([\d, ]*)\) @ \(([\d, ]*)\)"
CREATION = re.compile(r"\.(?:zeros|ones|empty|rand|randn|eye)$")  # of sizes alone
VARIABLE = re.compile(r"Name\(id='\w+'")
MIN_SIZE = 3  # smaller numbers are sizes of too many things
SIZE_OF = re.compile(r"^len\(|\.size\(|\.shape\[")  # of another tensor, to which it belongs
REDUCTION = re.compile(r"\.(?:sum|mean|max|min|squeeze|flatten|argmax|item)\([^()]*\)(?:\.values|\[0\])?$")


def _find_sides(failure: Failure, match: re.Match[str]) -> list[tuple[ast.expr, Shape]]:
    """Return the two sides of an operation with their shapes, which the error tells."""
    node = failure.node
    shapes = [shape_of(each) for each in match.groups() if each is not None]
    sides: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        sides = [node.left, node.right]
    elif isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.AugAssign):
        sides = [node.target, node.value]
    elif isinstance(node, ast.Call) and match.re.pattern == PRODUCT:
        sides = node.args[:2]
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("masked_fill")
    ):
        sides, shapes = [node.args[0], node.func.value], shapes[:2]
    return list(zip(sides, shapes, strict=False)) if len(shapes) >= 2 and len(sides) == 2 else []


def _name(failure: Failure, node: ast.expr) -> str:
    """Return the text of one side with the line that made it."""
    names = [text_of(each) for each in ast.walk(node) if isinstance(each, (ast.Name, ast.Attribute))]
    held = {each.text for each in failure.tensors()}
    text = next((each for each in names if each in held), text_of(node))
    return f"{text}{at(failure.find_operand(text))}"


@remedy(r"operands could not be broadcast together with shapes \(([\d, ]*)\) \(([\d, ]*)\)")
def reshape_alike(failure: Failure, match: re.Match[str]) -> str | None:
    """Arrays of as many numbers in another shape."""
    sides = _find_sides(failure, match)
    for own, other in ((0, 1), (1, 0)) if len(sides) == 2 else ():
        (node, shape), (_, wanted) = sides[own], sides[other]
        count = 1
        for each in wanted:
            count *= each
        if len(shape) != 1 or shape[0] != count or len(wanted) < 2:
            continue
        value = compute(node, failure.frame)
        where = at(failure.find_operand(text_of(node))) if value is not MISSING else ""
        sizes = ", ".join(map(str, wanted))
        return f"{text_of(node)}{where} has {count} numbers in a row, and {tuple(wanted)} is wanted: .reshape({sizes})"
    return None


@remedy(DIFFERING)
def reduce_alike(failure: Failure, match: re.Match[str]) -> str | None:
    """Two values of one expression, of which one was reduced and the other was not."""
    sides = _find_sides(failure, match)
    if failure.line is None or not all(isinstance(each, ast.Name) for each, _ in sides):
        return None
    found = [find_origin(failure.line.source, each, failure.stack) for each, _ in sides]
    made = [each for each in found if each is not None and each.value is not None]
    texts = [text_of(each.value) for each in made if each.value is not None]
    for whole, short in ((0, 1), (1, 0)) if len(texts) == 2 else ():
        name, other = text_of(sides[short][0]), text_of(sides[whole][0])
        reduction = REDUCTION.search(texts[whole])
        if reduction is not None and texts[whole] == texts[short] + reduction[0]:
            told = f"{other} at {made[whole].place()} goes through {reduction[0]}, and {name} at {made[short].place()}"
            return f"{told} does not: {name} = {texts[whole]} there"
        value, partner = made[whole].value, made[short].value
        for part in ast.walk(value) if value is not None and partner is not None else ():
            if not isinstance(part, ast.Subscript) or not isinstance(part.slice, ast.Slice) or value is None:
                continue
            changed = part.value if part is value else copy.deepcopy(value, {id(part): part.value})
            forms = {VARIABLE.sub("Name(", ast.dump(each)) for each in (changed, partner) if each is not None}
            if partner is not None and len(forms) == 1:  # they differ in the names of variables alone
                told = f"{other} at {made[whole].place()} takes {text_of(part)}, and {name} at {made[short].place()}"
                return f"{told} takes all: {other} = {text_of(changed)} there"
    return None


@remedy(DIFFERING)
def give_other_size(failure: Failure, match: re.Match[str]) -> str | None:
    """A call that was given the size of something else: a mask of another length, an identity of another batch."""
    sides = _find_sides(failure, match)
    for own, other in ((0, 1), (1, 0)) if len(sides) == 2 else ():
        node, shape = sides[own]
        partner, wanted = sides[other]
        pairs = {(p, q) for p, q in zip(shape[::-1], wanted[::-1], strict=False) if p not in (q, 1)}
        if len(pairs) != 1 or not 1 < len(shape) == len(wanted):
            continue
        ((size, number),) = pairs
        found = _find_size(failure, node, size) if size >= MIN_SIZE else None
        if found is None or failure.line is None:
            continue
        step, call, given = found
        own_scope = failure.line.source.scope_of(failure.line.node)
        is_here = bool(step.context.stack) and step.source.scope_of(call) is own_scope
        dim = next(i for i in range(len(wanted)) if wanted[i] == number)
        is_named = isinstance(partner, (ast.Name, ast.Attribute))
        written = parse(f"{text_of(partner)}.size({dim})") if is_named and is_here else ast.Constant(number)
        given_value = {id(each): written for each in given}
        changed = copy.deepcopy(call, given_value)
        told = f"{_name(failure, node)} has {size} there, by {text_of(given[0])} in {text_of(call)} at {step.place()}"
        return f"{told}, and {_name(failure, partner)} {number}: {text_of(changed)} there"
    return None


@remedy(PRODUCT)
def give_identity(failure: Failure, match: re.Match[str]) -> str | None:
    """A product with an identity of another size."""
    sides = _find_sides(failure, match)
    (_, a), (node, b) = sides if len(sides) == 2 else ((None, ()), (None, ()))
    is_identity = isinstance(node, ast.Call) and text_of(node.func).endswith(".eye")
    return _change_literal(failure, sides[1], sides[0], b[0], a[-1]) if is_identity else None


def _change_literal(
    failure: Failure, side: tuple[ast.expr, Shape], partner: tuple[ast.expr, Shape], size: int, number: int
) -> str | None:
    """Return the call that made one side with another number for one that is written in it, and its place."""
    node = side[0]
    origin = None if failure.line is None else find_origin(failure.line.source, node, failure.stack)
    call = node if isinstance(node, ast.Call) or origin is None else origin.value
    if not isinstance(call, ast.Call) or CREATION.search(text_of(call.func)) is None:
        return None
    other = find_origin(failure.line.source, partner[0], failure.stack) if failure.line is not None else None
    computed = None if other is None else other.value
    if computed is not None and any(text_of(each) == text_of(node) for each in ast.walk(computed)):
        return None  # what is computed of it has lost the size
    given = [each for each in call.args if isinstance(each, ast.Constant) and each.value == size]
    if len(given) != 1:
        return None
    changed = copy.deepcopy(call, {id(given[0]): ast.Constant(number)})
    told = f"{_name(failure, node)} has {size} there, and {_name(failure, partner[0])} {number}: {text_of(changed)}"
    return told + ("" if call is node or origin is None else f" at {origin.place()}")


def _find_size(failure: Failure, node: ast.expr, size: int) -> tuple[SourceStep, ast.Call, list[ast.expr]] | None:
    """Return the call that was given a size, among those that made one side, with the arguments that are it."""
    for first in _first_steps(failure, node):
        for step in trace_back(first):
            for call in ast.walk(step.node):
                if not isinstance(call, ast.Call) or text_of(call.func).endswith((".view", ".reshape")):
                    continue
                if isinstance(evaluate(call.func, failure.frame), type):
                    continue  # a layer, whose sizes other remedies know
                parts = [*call.args, *(part.value for part in call.keywords)]
                own = [isinstance(each, ast.Constant) or SIZE_OF.search(text_of(each)) for each in parts]
                foreign = [step.at(each, ()) for each, known in zip(parts, own, strict=True) if not known]
                values = [(each.node, step.context.program.compute(each)) for each in foreign]
                given = [each for each, value in values if type(value) is int and value == size]
                if given:
                    return step, call, given
    return None


def _first_steps(failure: Failure, node: ast.expr) -> Iterator[SourceStep]:
    """Yield a side of the operation, and the names in it."""
    if failure.line is None:
        return
    for each in ast.walk(node):
        if isinstance(each, (ast.Call, ast.Name)) and not isinstance(getattr(each, "ctx", None), ast.Store):
            first = open_step(failure, each)
            yield from [] if first is None else [first]


@remedy(DIFFERING, is_last=True)
def match_samples(failure: Failure, match: re.Match[str]) -> str | None:
    """Results of inputs with different numbers of samples."""
    sides = _find_sides(failure, match)
    if len(sides) != 2 or failure.line is None:
        return None
    (first, a), (second, b) = sides
    if len(a) != len(b) or len(a) < 2 or a[0] == b[0] or a[1:] != b[1:] or min(a[0], b[0]) < 2:
        return None
    roots = []
    for node, shape in ((first, a), (second, b)):
        names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
        starts = [open_step(failure, each) for each in (node, *names)]
        found = [root for each in starts if each is not None and (root := find_root(each, shape[0])) is not None]
        roots += found[:1]
    if len(roots) != 2 or roots[0][0] == roots[1][0]:
        return None
    (x, place), (y, other) = roots
    return f"{x} at {place} has {a[0]} and {y} at {other} {b[0]} samples: as many in both"


@remedy(DIFFERING, is_last=True)
@remedy(PRODUCT, is_last=True)
def change_written_size(failure: Failure, match: re.Match[str]) -> str | None:
    """A size that is written in the call that made one side; of two, that which fewer tensors of the frame have."""
    sides = _find_sides(failure, match)
    if len(sides) != 2:
        return None
    shapes = [shape for _, shape in sides]
    is_product = match.re.pattern == PRODUCT
    if is_product:
        sizes = (shapes[0][-1], shapes[1][-min(2, len(shapes[1]))])
    else:
        pairs = {(p, q) for p, q in zip(shapes[0][::-1], shapes[1][::-1], strict=False) if p != q and 1 not in (p, q)}
        if len(pairs) != 1 or len(shapes[0]) != len(shapes[1]):
            return None
        (sizes,) = pairs
    held = [tuple(each.shape) for each in failure.frame.f_locals.values() if isinstance(each, Tensor)]
    for own in sorted((1, 0) if is_product else (0, 1), key=lambda each: held.count(shapes[each])):
        told = _change_literal(failure, sides[own], sides[1 - own], sizes[own], sizes[1 - own])
        if told is not None:
            return told
    return None


@remedy(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension")
def fit_same_columns(failure: Failure, match: re.Match[str]) -> str | None:
    """Statistics that a method such as `fit` has kept, of data with other columns than a later call gives."""
    for own in failure.tensors():
        node = find_part(failure, own.text)
        step = open_step(failure, node) if isinstance(node, ast.Attribute) else None
        former = [] if step is None else find_former(step)
        context = former[0].context if former else None
        call = None if context is None or getattr(context.scope, "name", "") == "__init__" else context.call
        others = [each for each in failure.tensors() if each is not own and each.value.ndim > own.value.ndim]
        if call is None or own.value.ndim != 1 or len(others) != 1:
            continue
        shape = tuple(others[0].value.shape)
        told = f"{text_of(call.node)} at {call.place()} has set {own.text} for {own.value.shape[0]} columns"
        return f"{told}, and {others[0].text} is {shape}: the same columns in both calls"
    return None

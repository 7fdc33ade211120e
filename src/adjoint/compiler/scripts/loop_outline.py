"""Outlines of loops: which statements of a loop's body become functions of their own, that are compiled apart.

A loop is found while it is traced, so that names can be looked up: what is the same object in each call is bound to the
function, tensors and numbers are its arguments. Statements that only keep books, and those that leave the loop, stay.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FrameType, MethodType

from adjoint.compiler.scripts.name_uses import find_name_uses
from adjoint.compiler.scripts.region_rewriter import Hand, find_hand
from adjoint.compiler.scripts.region_syntax import (
    Loop,
    RegionSyntax,
    StatementBlock,
    blocks_of,
    can_keep_names,
    can_outline,
    find_exits,
)
from adjoint.compiler.scripts.taken_containers import find_containers, is_record, lower_records
from adjoint.compiler.trace.frames.constants import is_plain
from adjoint.compiler.trace.frames.trace_rules import is_user_function
from adjoint.compiler.trace.numbers.symbolic_number import is_symbolic_number
from adjoint.core.graph.source_location import Site
from adjoint.core.runtime import pytree
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

CALL = "__adjoint_call__"
CALL_OF_PROGRAM = 20  # the weight of a call of the program's own function or module, in calls of the library
BOOKKEEPING = frozenset(("append", "extend", "item", "tolist", "print", "len", "range", "int", "float", "str"))
UNKNOWN = object()


@dataclass(frozen=True)
class LoopOutline:
    """A loop of the function with this code, and the regions of its body, each with the names that it takes and gives.

    `callers` are the functions through which the step calls it, with `CALL` around what they call; `bound`, names that
    are the same objects in each call.
    """

    code: CodeType
    site: Site
    grows: bool
    definition: ast.FunctionDef
    regions: list[RegionSyntax]
    hands: list[Hand]
    callers: dict[CodeType, ast.FunctionDef]
    has_records: bool = False  # objects of the program's classes, made in the call, which the body takes
    bound: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)  # of each region

    def __str__(self) -> str:
        why = "has other sizes in each turn" if self.grows else "is long"
        return (
            f"the loop at {self.site.describe_briefly()} {why}: it runs in Python, and its lines "
            f"{' and '.join(self.lines)} are compiled apart, for all turns"
        )


def find_outline(
    frame: FrameType,
    target: int,
    grows: bool,
    callers: Iterable[FrameType],
    is_old: Callable[[object], bool],
    find_kept: Callable[[], Iterable[object]],
) -> tuple[LoopOutline, Callable[[FrameType], bool]] | None:
    """The outline of the loop whose turns begin at an instruction; None where its body cannot be functions.

    `grows`: its turns differ in sizes. `callers` are the frames of the step that have called this one;
    `is_old(thing)` tells whether an object was there before the call; `find_kept()` gives what the call has put into
    such objects. The second result tells, at the end of another turn, whether the names still hold things of one form.
    """
    definition = find_definition(frame.f_code, frame.f_globals)
    place = None if definition is None else find_loop(definition, frame.f_code, target)
    if definition is None or place is None:
        return None
    loop, body = place
    _defer_appends(body.block, frame, is_old)
    regions = [region for region in _find_regions(body, frame) if can_keep_names(region)]
    if not regions:
        return None
    hands = [find_hand(region, region.first) for region in regions]
    site = Site(frame.f_code.co_filename, loop.lineno, frame.f_code.co_name)
    calling = {caller.f_code: _find_caller(caller) for caller in callers}
    found = {code: definition for code, definition in calling.items() if definition is not None}
    if len(found) < len(calling) or frame.f_code in found:
        return None
    names = sorted({name for hand in hands for name in hand.taken})
    values = [frame.f_locals[name] for name in names if name in frame.f_locals]
    has_records = any(map(is_record, find_containers(values)))
    outline = LoopOutline(frame.f_code, site, grows, definition, regions, hands, found, has_records)
    for region in regions:
        outline.lines.append(f"{region.statements[0].lineno} to {region.statements[-1].end_lineno}")
    before = _find_forms(names, frame, outline.bound, is_old, find_kept)
    if before is None:
        return None
    return outline, lambda frame: _find_forms(names, frame, outline.bound, is_old, find_kept) == before


def _find_caller(frame: FrameType) -> ast.FunctionDef | None:
    """The syntax of a function which is in a call, with `CALL` around what it calls there."""
    definition = find_definition(frame.f_code, frame.f_globals)
    _, end_line, _, end_column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    for node in ast.walk(definition) if definition is not None else ():
        if isinstance(node, ast.Call) and (node.end_lineno, node.end_col_offset) == (end_line, end_column):
            name = ast.copy_location(ast.Name(CALL, ast.Load()), node.func)
            node.func = ast.copy_location(ast.Call(name, [node.func], []), node.func)
            return definition
    return None


def find_definition(code: CodeType, namespace: dict[str, object]) -> ast.FunctionDef | None:
    """The syntax of the function with this code; None where the source is not there, or is another by now."""
    if code.co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR):
        return None
    source = "".join(linecache.getlines(code.co_filename, namespace))
    try:
        tree = ast.parse(source, code.co_filename)
        module = compile(tree, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    if not _holds_code(module, code):
        return None
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
            continue
        if min([node.lineno, *(each.lineno for each in node.decorator_list)]) == code.co_firstlineno:
            node.decorator_list = []
            alone = compile_definitions([node], code.co_freevars, code)[code.co_name]
            return node if alone.co_names == code.co_names else None  # a class renames `__names`
    return None


def _holds_code(outer: CodeType, code: CodeType) -> bool:
    """True where a code is among the constants of another, at any depth."""
    return any(each == code or _holds_code(each, code) for each in outer.co_consts if isinstance(each, CodeType))


def compile_definitions(
    definitions: Sequence[ast.stmt], captured: Sequence[str], like: CodeType
) -> dict[str, CodeType]:
    """The codes of functions by name, in a scope of these `captured` names; with the file and flags of another code."""
    (factory,) = ast.parse(f"def factory({', '.join(captured)}): pass").body
    assert isinstance(factory, ast.FunctionDef)
    factory.body = list(definitions)
    flags = like.co_flags & FUTURE_FLAGS
    module = compile(ast.Module([factory], []), like.co_filename, "exec", flags=flags, dont_inherit=True)
    (inside,) = (each for each in module.co_consts if isinstance(each, CodeType))
    return {each.co_name: each for each in inside.co_consts if isinstance(each, CodeType)}


FUTURE_FLAGS = compile("from __future__ import annotations", "", "exec").co_flags


def find_loop(definition: ast.FunctionDef, code: CodeType, target: int) -> tuple[Loop, StatementBlock] | None:
    """The innermost loop that has its turns begin at an instruction, and its body."""
    line, _, column, _ = list(code.co_positions())[target // 2]
    root = StatementBlock(definition.body, (ast.Module([definition], []), definition))
    found = None
    for place in _walk_blocks(root):
        for statement in place.block:
            if isinstance(statement, Loop) and (line, column) in _starts_of_turn(statement):
                around = (*place.ancestors, (place.block, statement))
                found = statement, StatementBlock(statement.body, place.scopes, around)
    return found


def _walk_blocks(place: StatementBlock) -> Iterator[StatementBlock]:
    """A block and all in it, but for those of functions and classes."""
    yield place
    for statement in place.block:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            around = (*place.ancestors, (place.block, statement))
            for block in blocks_of(statement):
                yield from _walk_blocks(StatementBlock(block, place.scopes, around))


def _starts_of_turn(loop: Loop) -> set[tuple[int, int]]:
    """The lines and columns that the first instruction of a turn may have; they differ among versions of Python."""
    if isinstance(loop, ast.For):
        return {(loop.lineno, loop.col_offset), (loop.iter.lineno, loop.iter.col_offset)}
    nodes = [node for part in (loop.test, loop.body[0]) for node in ast.walk(part)]
    return {(node.lineno, node.col_offset) for node in nodes if isinstance(node, ast.expr | ast.stmt)}


def _defer_appends(block: list[ast.stmt], frame: FrameType, is_old: Callable[[object], bool]) -> None:
    """Move `x.append(…)` of a list that the call has made, and that the body does not read, to the end of the body.

    What is appended is computed in its place. A list that grows is no argument of a compiled function.
    """
    at_end: list[ast.stmt] = []
    for position, statement in enumerate(block):
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "append"), [value], [])) if position < len(block) - 1:
                others = [each for each in block if each is not statement]
                held = frame.f_locals.get(name)
                if type(held) is not list or is_old(held) or find_exits(block[position:]):
                    continue
                if name in find_name_uses(others).reads | find_name_uses([ast.Expr(value)]).reads:
                    continue
                kept = f"__adjoint_appended_{position}__"
                target = ast.copy_location(ast.Name(kept, ast.Store()), value)
                block[position] = ast.copy_location(ast.Assign([target], value), statement)
                assert isinstance(statement.value, ast.Call)
                statement.value.args = [ast.copy_location(ast.Name(kept, ast.Load()), value)]
                at_end.append(statement)
    block.extend(at_end)


def _find_regions(place: StatementBlock, frame: FrameType) -> Iterator[RegionSyntax]:
    """The runs of statements that compute, as far as they can be functions: all that call the program, or the largest.

    Statements that leave the loop or look at lists that grow, and those at the edges that only keep books, are no part.
    """
    works = [_weigh(statement, frame) for statement in place.block]
    growing = _find_growing_lists(place.block, frame)
    runs: list[tuple[int, range]] = []
    first = 0
    for position in range(len(place.block) + 1):
        if position < len(place.block):
            statement = place.block[position]
            stays = bool(find_exits([statement])) or not growing.isdisjoint(find_name_uses([statement]).reads)
            if can_outline(statement, place) and not (stays and works[position] < CALL_OF_PROGRAM):
                continue
        last = position
        while first < last and not works[last - 1]:
            last -= 1
        while first < last and not works[first]:
            first += 1
        if first < last:
            runs.append((sum(works[first:last]), range(first, last)))
        first = position + 1
    most = max((work for work, _ in runs), default=0)
    for work, run in runs:
        if work >= min(most, CALL_OF_PROGRAM):
            yield RegionSyntax(place, range(run.start, run.start + 1), run.stop)


def _find_growing_lists(block: list[ast.stmt], frame: FrameType) -> set[str]:
    """The names of lists to which the statements append."""
    found = set[str]()
    for node in (each for statement in block for each in ast.walk(statement)):
        match node:
            case ast.Call(ast.Attribute(ast.Name(name), "append" | "extend" | "insert")):
                found.add(name)
            case ast.AugAssign(ast.Name(name)):
                found.add(name)
    return {name for name in found if type(frame.f_locals.get(name)) is list}


def _weigh(statement: ast.stmt, frame: FrameType) -> int:
    """The calls and operators of a statement that seem to compute on tensors."""
    work = 0
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            called = _look_up(node.func, frame)
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            function = called.__func__ if isinstance(called, MethodType) else called
            is_own = called is UNKNOWN or hasattr(called, "forward") or is_user_function(function)
            if name not in BOOKKEEPING:
                work += CALL_OF_PROGRAM if is_own and not _is_method(node.func, frame) else 1
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            work += isinstance(frame.f_locals.get(node.id), Tensor)
    return work


def _is_method(function: ast.expr, frame: FrameType) -> bool:
    """True for a method of something that an expression makes, most often a tensor."""
    if not isinstance(function, ast.Attribute) or function.attr.startswith("forward"):
        return False
    owner = _look_up(function.value, frame)
    return (owner is UNKNOWN and not isinstance(function.value, ast.Subscript)) or isinstance(owner, Tensor)


def _look_up(expression: ast.expr, frame: FrameType) -> Operand:
    """The present value of a dotted name; UNKNOWN for any other expression."""
    if isinstance(expression, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if expression.id in names:
                return names[expression.id]
    if isinstance(expression, ast.Attribute):
        owner = _look_up(expression.value, frame)
        if owner is not UNKNOWN and not isinstance(owner, Tensor):
            return getattr(owner, expression.attr, UNKNOWN)
    return UNKNOWN


def _find_forms(
    names: Sequence[str],
    frame: FrameType,
    bound: set[str],
    is_old: Callable[[object], bool],
    find_kept: Callable[[], Iterable[object]],
) -> dict[str, Operand] | None:
    """The form of what each name holds; None where something can be neither bound nor an argument.

    A container that lies in two places, or in an object from before, is no argument: its function would have a copy.
    """
    forms: dict[str, Operand] = {}
    seen = {id(container) for value in find_kept() for container in find_containers(value)}
    for name in names:
        if name not in frame.f_locals:
            continue
        value = frame.f_locals[name]
        if not isinstance(value, Tensor) and not is_number(value) and not is_plain(value) and is_old(value):
            bound.add(name)
            forms[name] = id(value)
            continue
        for container in find_containers(value):
            if id(container) in seen or is_old(container):
                return None
            seen.add(id(container))
        leaves, forms[name] = pytree.flatten(lower_records(value))
        for leaf in leaves:
            if not (isinstance(leaf, Tensor) or is_number(leaf) or is_plain(leaf) or is_old(leaf)):
                return None
    return forms


def is_number(value: object) -> bool:
    """True for a Python number, be it one that each call computes."""
    return isinstance(value, int | float) or is_symbolic_number(value)

"""Rewriter of a module's syntax tree: each training region becomes a call of a function that holds its statements.

Where a region may begin at several statements, each beginning has its own function, and `begin()` chooses::

    start = regions[0].begin()
    if start > 0:
        pred = model(x)
        regions[0].mark(0)
    if start == 0:
        loss = regions[0].run(0, model, x, y, optimizer)
    elif start == 1:
        loss = regions[0].run(1, pred, y, optimizer)
    else:
        …  # the rest of the statements as they are

Names of a function are handed in and out; those of a module stay global. A `break`, `continue` or `return` among the
statements ends the region's function, which tells the lines after its call to do it.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adjoint.compiler.scripts.name_uses import find_name_uses, find_node_ids, parameters_of
from adjoint.compiler.scripts.region_syntax import (
    Exit,
    RegionSyntax,
    Scope,
    find_declared_names,
    find_exits,
)

REGIONS, START, UNBOUND = "__adjoint_regions__", "__adjoint_start__", "__adjoint_unbound__"
EXIT, RETURNED, ERROR = "__adjoint_exit__", "__adjoint_returned__", "__adjoint_error__"
NAMESPACE_READERS = frozenset(("globals", "locals", "vars", "dir", "eval", "exec"))
EXITS = {"Break": "break", "Continue": "continue", "Return": f"return {RETURNED}"}


@dataclass(frozen=True)
class Hand:
    """Names that a region's function takes and gives back; `unsure` are those that may be unbound, on both ways.

    `exits` are the kinds of statements by which the region is left before its end.
    """

    taken: tuple[str, ...]
    given: tuple[str, ...]
    unsure: frozenset[str]
    written_globals: tuple[str, ...]
    exits: tuple[str, ...]

    @property
    def results(self) -> tuple[str, ...]:
        """The names of all that the function returns."""
        return (EXIT,) * bool(self.exits) + (RETURNED,) * ("Return" in self.exits) + self.given


def rewrite_regions(tree: ast.Module, regions: Sequence[RegionSyntax], is_main: bool = False) -> None:
    """Replace these training regions of a module in place. Their functions stand at its beginning.

    In the main module, which nobody imports, names that only one region reads stay in its function.
    """
    is_looked_into = any(isinstance(node, ast.Name) and node.id in NAMESPACE_READERS for node in ast.walk(tree))
    keeps_names = is_main and not is_looked_into
    every = with_parts(regions)
    hands = [[find_hand(region, start, keeps_names) for start in region.starts] for region in every]
    functions: list[ast.stmt] = []
    for number, region in enumerate(every):
        for start, hand in zip(region.starts, hands[number], strict=True):
            functions.append(make_function(number, region, start, hand))
    replacements, number = [], 0
    for region in regions:
        calls = [_make_calls(number + i, each, hands[number + i]) for i, each in enumerate((region, *region.parts))]
        replacements.append((region, _choose_parts(region, calls[0], calls[1:]) if region.parts else calls[0]))
        number += len(calls)
    for region, statements in sorted(replacements, key=lambda pair: -pair[0].first):  # later ones first, in each block
        region.place.block[region.first : region.end] = statements
    _insert_functions(tree, functions)


def with_parts(regions: Sequence[RegionSyntax]) -> list[RegionSyntax]:
    """The regions, each followed by its parts: by their positions here the program knows them."""
    return [each for region in regions for each in (region, *region.parts)]


def find_hand(region: RegionSyntax, start: int, keeps_names: bool = False) -> Hand:
    """The names that the statements from `start` on take and give; `keeps_names`: a module's that only they read."""
    block, scope = region.place.block, region.place.scope
    statements = block[start : region.stop]
    uses = find_name_uses(statements)
    sure = _find_sure_names(region, start)
    exits = tuple(dict.fromkeys(type(leaving).__name__ for leaving in find_exits(statements)))
    if isinstance(scope, ast.Module):
        changing = _names_written_in_loop(region, statements)
        taken = tuple(sorted((uses.first & changing & sure) - uses.writes))
        seen = _reads_outside(scope, statements) | uses.first | uses.captured if keeps_names else uses.writes
        return Hand(taken, (), frozenset(), tuple(sorted(uses.writes & seen)), exits)
    shared = find_declared_names(scope, ast.Global)
    own = names_of(scope) - shared
    outer = set[str]().union(*(names_of(each) for each in region.place.scopes[1:-1])) - shared
    after = _reads_outside(scope, statements) | uses.first
    given = (uses.writes & own) & after
    always = uses.surely | sure
    if exits:  # at the first of them
        always = find_name_uses(itertools.takewhile(lambda each: not find_exits([each]), statements)).surely
    unsure = {name for name in given if name not in always}
    taken_names = (uses.first & (own | outer)) | unsure
    unsure |= {name for name in taken_names & own if name not in sure}
    written_globals = tuple(sorted(uses.writes & shared))
    return Hand(tuple(sorted(taken_names)), tuple(sorted(given)), frozenset(unsure), written_globals, exits)


def names_of(scope: Scope) -> set[str]:
    """The local names of a function."""
    if isinstance(scope, ast.Module):
        return set()
    return parameters_of(scope) | find_name_uses(scope.body).writes


def _find_sure_names(region: RegionSyntax, start: int) -> set[str]:
    """The names that are bound whenever the statement `start` is reached."""
    scope = region.place.scope
    sure = set[str]()
    if isinstance(scope, ast.FunctionDef):
        sure |= parameters_of(scope)
    for block, statement in region.place.ancestors:
        sure |= find_name_uses(block[: _position(block, statement)]).surely
        targets: list[ast.AST] = []
        if isinstance(statement, ast.For):
            targets = [statement.target]
        elif isinstance(statement, ast.With):
            targets = [item.optional_vars for item in statement.items if item.optional_vars is not None]
        sure |= {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return sure | find_name_uses(region.place.block[:start]).surely


def _position(block: Sequence[ast.stmt], statement: ast.stmt) -> int:
    return next(i for i, each in enumerate(block) if each is statement)


def _names_written_in_loop(region: RegionSyntax, statements: Iterable[ast.stmt]) -> set[str]:
    """The names that the loops around the region write outside of these statements."""
    loops = [statement for _, statement in region.place.ancestors if isinstance(statement, ast.For | ast.While)]
    if not loops:
        return set()
    inside = find_node_ids(statements)
    return {
        node.id
        for node in ast.walk(loops[0])
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inside
    }


def _reads_outside(scope: Scope, statements: Iterable[ast.stmt]) -> set[str]:
    """The names that the function or module reads outside of these statements."""
    inside = find_node_ids(statements)
    found = set[str]()
    for node in ast.walk(scope):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def make_function(number: int, region: RegionSyntax, start: int, hand: Hand) -> ast.stmt:
    """The function that holds the statements from `start` on."""
    statements = region.place.block[start : region.stop]
    line = statements[0].lineno
    lines = [f"@{REGIONS}[{number}].add", f"def lines_{line}_to_{statements[-1].end_lineno}({', '.join(hand.taken)}):"]
    if hand.written_globals:
        lines.append(f"    global {', '.join(hand.written_globals)}")
    unsure = [name for name in hand.taken if name in hand.unsure]
    lines += [f"    if {name} is {UNBOUND}: del {name}" for name in unsure]
    end = len(unsure) + bool(hand.written_globals)
    for name in hand.given:
        if name in hand.unsure:
            lines.append(f"    try: {name}\n    except UnboundLocalError: {name} = {UNBOUND}")
    lines.append(f"    return {_tuple_text(hand.results)}" if hand.results else "    pass")
    function = parse_at("\n".join(lines), statements[0])[0]
    assert isinstance(function, ast.FunctionDef)
    body = [copy.deepcopy(statement) for statement in statements]
    function.body[end:end] = _make_exits(body) if hand.exits else body
    return function


def _make_exits(statements: list[ast.stmt]) -> list[ast.stmt]:
    """A loop of one turn around statements, out of which each of their exits breaks, when it has said which it is."""
    turn = parse_at(f"{EXIT} = {RETURNED} = None\nwhile True: break", statements[0])
    loop = turn[-1]
    assert isinstance(loop, ast.While)
    loop.body[:0] = statements
    ExitWriter(find_exits(statements)).visit(loop)
    return turn


class ExitWriter(ast.NodeTransformer):
    """Writer of what stands for each of these exits."""

    def __init__(self, exits: list[Exit]) -> None:
        self.exits = exits

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        """Return what stands for a node."""
        if not any(node is leaving for leaving in self.exits):
            result: ast.AST = self.generic_visit(node)
            return result
        assert isinstance(node, Exit)
        text = f"{EXIT} = {type(node).__name__!r}\n{RETURNED} = None\nbreak"
        note, returned, leave = parse_at(text, node)
        if isinstance(node, ast.Return) and node.value is not None and isinstance(returned, ast.Assign):
            returned.value = node.value
        return [returned, note, leave]


def _make_calls(number: int, region: RegionSyntax, hands: Sequence[Hand]) -> list[ast.stmt]:
    """The statements that stand in the region's place."""
    block, starts = region.place.block, region.starts
    begin = f"{START} = {REGIONS}[{number}].begin()"
    result = parse_at(begin, block[region.first])
    inside = [find_node_ids(block[start : region.stop]) for start in starts]
    deferred = [[pair for pair in region.deferred if id(pair[0]) in ids] for ids in inside]
    for choice, position in enumerate(starts[:-1]):
        guard = parse_at(f"if {START} > {choice}:\n    {REGIONS}[{number}].mark({choice})", block[position])[0]
        assert isinstance(guard, ast.If)
        guard.body[:0] = _put_calls_back([block[position]], region)
        result.append(guard)
    chain = _put_calls_back(block[starts[-1] : region.stop], region)
    chain += parse_at(f"{REGIONS}[{number}].end()", block[region.stop - 1])
    for choice in reversed(range(len(starts))):
        branch = parse_at(f"if {START} == {choice}: pass", block[starts[choice]])[0]
        assert isinstance(branch, ast.If)
        calls = parse_at(write_call(number, choice, hands[choice]), block[starts[choice]])
        branch.body = _call_and_keep_books(number, calls, deferred[choice]) if deferred[choice] else calls
        branch.orelse = chain
        chain = [branch]
    return [*result, *chain]


def _choose_parts(
    region: RegionSyntax, calls: list[ast.stmt], calls_of_parts: Sequence[list[ast.stmt]]
) -> list[ast.stmt]:
    """The statements in a region's place; others, with those of its parts, for a call in which these run instead."""
    block, position = region.place.block, region.first
    (choice,) = parse_at(f"if {START} > {len(region.starts)}: pass", block[region.first])
    assert isinstance(choice, ast.If)
    choice.body, choice.orelse = [], calls[1:]
    for part, statements in zip(region.parts, calls_of_parts, strict=True):
        choice.body += [*_put_calls_back(block[position : part.first], region), *statements]
        position = part.stop
    choice.body += _put_calls_back(block[position : region.stop], region)
    return [calls[0], choice]


def _put_calls_back(statements: Sequence[ast.stmt], region: RegionSyntax) -> list[ast.stmt]:
    """The statements with the region's deferred calls where the program has them: behind what computes their values."""
    found: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.With):
            statement = copy.copy(statement)
            statement.body = _put_calls_back(statement.body, region)
        found += [statement, *(call for computation, call in region.deferred if computation is statement)]
    return found


def _call_and_keep_books(
    number: int, calls: list[ast.stmt], deferred: Sequence[tuple[ast.stmt, ast.stmt]]
) -> list[ast.stmt]:
    """The call of a region's function and those deferred: if it raises, those take place whose values it computed."""
    names = [ast.unparse(computation.targets[0]) for computation, _ in deferred if isinstance(computation, ast.Assign)]
    text = " = ".join([*names, UNBOUND]) + f"\ntry: pass\nexcept BaseException as {ERROR}:\n"
    text += f"    {_tuple_text(names)} = {REGIONS}[{number}].find_values({ERROR}, {names})\n"
    text += "".join(f"    if {name} is not {UNBOUND}: pass\n" for name in names) + "    raise"
    reset, attempt = parse_at(text, calls[0])
    assert isinstance(attempt, ast.Try)
    attempt.body = calls
    for guard, (_, call) in zip(attempt.handlers[0].body[1:-1], deferred, strict=True):
        assert isinstance(guard, ast.If)
        guard.body = [copy.deepcopy(call)]
    return [reset, attempt, *(call for _, call in deferred)]


def write_call(number: int, choice: int, hand: Hand) -> str:
    """The call of a region's function, and the assignment of what it gives."""
    unsure = [name for name in hand.taken if name in hand.unsure]
    call = f"{REGIONS}[{number}].run({', '.join([str(choice), *hand.taken])})"
    call = f"{_tuple_text(hand.results)} = {call}" if hand.results else call
    lines = [f"try: {name}\nexcept UnboundLocalError: {name} = {UNBOUND}" for name in unsure]
    if unsure:  # all of them that the function gives are among those that it takes
        lines += [
            f"try: {call}",
            "finally:",
            *(f"    if {name} is {UNBOUND}: del {name}" for name in unsure),
        ]
    else:
        lines.append(call)
    lines += [f"if {EXIT} == {kind!r}: {EXITS[kind]}" for kind in hand.exits]
    return "\n".join(lines)


def _tuple_text(names: Sequence[str]) -> str:
    return f"({', '.join(names)},)"


def parse_at(text: str, place: ast.stmt) -> list[ast.stmt]:
    """The statements of a text, all of them on the line of `place`."""
    statements = ast.parse(text).body
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.stmt | ast.expr | ast.excepthandler | ast.arg):
                node.lineno, node.col_offset = place.lineno, place.col_offset
                node.end_lineno, node.end_col_offset = node.lineno, node.col_offset
    return statements


def _insert_functions(tree: ast.Module, functions: list[ast.stmt]) -> None:
    """Put the regions' functions behind the docstring and the imports from __future__, without their names.

    The regions hold them: a program that goes through its own names does not meet them.
    """
    position = 0
    for statement in tree.body:
        is_docstring = position == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_docstring and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        position += 1
    names = dict.fromkeys(function.name for function in functions if isinstance(function, ast.FunctionDef))
    forget = parse_at(f"del {', '.join(names)}", functions[0]) if names else []
    tree.body[position:position] = [*functions, *forget]

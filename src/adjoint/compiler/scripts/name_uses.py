"""Names that statements read and write, as far as their enclosing function sees them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass
class NameUses:
    """Names of a list of statements.

    `reads` are read, `writes` bound, `deletes` unbound in some way through the statements. `surely` are bound by every
    way to their end, and `first` may be read before the statements have bound them. `captured` are read by functions,
    lambdas and generator expressions within, which may run later.
    """

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    surely: set[str] = field(default_factory=set)
    first: set[str] = field(default_factory=set)
    captured: set[str] = field(default_factory=set)


def find_name_uses(statements: Iterable[ast.stmt]) -> NameUses:
    """The names that statements, which run one after the other, read and write."""
    found = NameUses()
    for statement in statements:
        uses = _uses_of(statement)
        found.first |= uses.first - found.surely
        found.surely = (found.surely | uses.surely) - uses.deletes
        found.reads |= uses.reads
        found.writes |= uses.writes
        found.deletes |= uses.deletes
        found.captured |= uses.captured
    return found


def find_node_ids(statements: Iterable[ast.stmt]) -> set[int]:
    """The identities of all nodes of the statements, by which others are told from them."""
    return {id(node) for statement in statements for node in ast.walk(statement)}


def find_index_names(statements: Iterable[ast.stmt]) -> set[str]:
    """The names that the statements read as an index in brackets alone: `x[rows]`."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    in_brackets = {id(node.slice) for node in nodes if isinstance(node, ast.Subscript)}
    reads = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return {node.id for node in reads} - {node.id for node in reads if id(node) not in in_brackets}


def _uses_of(statement: ast.stmt) -> NameUses:
    """The names of one statement. Only plain statements and `with` bind theirs surely."""
    uses = NameUses()
    _collect(statement, uses)
    match statement:
        case ast.If(test=test, body=body, orelse=orelse):
            branches = [find_name_uses(body), find_name_uses(orelse)]
            uses.first = _reads_of([test]).union(*(branch.first for branch in branches))
            uses.surely = branches[0].surely & branches[1].surely
        case ast.With(items=items, body=body):
            inner = find_name_uses(body)
            bound = _writes_of([item.optional_vars for item in items if item.optional_vars])
            uses.first = _reads_of([item.context_expr for item in items]) | (inner.first - bound)
            uses.surely = bound | inner.surely
        case ast.For(target=target, iter=iterable, body=body, orelse=orelse):
            inner, after = find_name_uses(body), find_name_uses(orelse)
            uses.first = _reads_of([iterable]) | (inner.first - _writes_of([target])) | after.first
        case ast.AugAssign(target=ast.Name(id=name)):
            uses.first = uses.reads | {name}
            uses.surely = {name}
        case ast.AnnAssign(value=None):
            uses.writes = set()
        case ast.Assign() | ast.AnnAssign() | ast.Expr() | ast.Import() | ast.ImportFrom() | ast.Assert():
            uses.first, uses.surely = set(uses.reads), set(uses.writes)
        case ast.FunctionDef() | ast.ClassDef():
            uses.first, uses.surely = set(uses.reads), {statement.name}
        case _:
            uses.first = set(uses.reads)
    return uses


def _reads_of(expressions: Iterable[ast.AST]) -> set[str]:
    uses = NameUses()
    for expression in expressions:
        _collect(expression, uses)
    return uses.reads


def _writes_of(targets: Iterable[ast.AST]) -> set[str]:
    uses = NameUses()
    for target in targets:
        _collect(target, uses)
    return uses.writes


def _collect(node: ast.AST, uses: NameUses) -> None:
    """Add the names of a tree, without those that functions and comprehensions within keep to themselves."""
    match node:
        case ast.Name(id=name, ctx=context):
            place = {ast.Load: uses.reads, ast.Store: uses.writes, ast.Del: uses.deletes}[type(context)]
            place.add(name)
        case ast.AugAssign(target=ast.Name(id=name)):
            uses.reads.add(name)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            uses.writes.add(name)
        case ast.alias(name=name, asname=renamed):
            uses.writes.add(renamed or name.partition(".")[0])
        case ast.ExceptHandler(name=str(name)):
            uses.writes.add(name)
            uses.deletes.add(name)  # Python unbinds it at the end of the clause
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            uses.writes.add(name)
    if isinstance(node, SCOPES):
        inner = NameUses()
        for child in ast.iter_child_nodes(node):
            _collect(child, inner)
        own = inner.writes | parameters_of(node)
        uses.reads |= inner.reads - own
        if not isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp):
            uses.captured |= find_captured_names(node) - own
        uses.captured |= inner.captured - own
        uses.writes |= {target.id for target in _walrus_targets(node)}
        return
    for child in ast.iter_child_nodes(node):
        _collect(child, uses)


def find_captured_names(function: ast.AST) -> set[str]:
    """The names that a function, lambda or generator expression reads when it runs, but for its own."""
    later = NameUses()
    for child in _run_later(function):
        _collect(child, later)
    return later.reads - later.writes - parameters_of(function)


def _run_later(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a function, lambda or generator expression that run when it does: not its first iterable."""
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.GeneratorExp) and child is node.generators[0]:
            first = node.generators[0]
            yield from (first.target, *first.ifs)
        else:
            yield child


def parameters_of(node: ast.AST) -> set[str]:
    """The parameters of a function or lambda; none of anything else."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return set()
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {argument.arg for argument in every if argument is not None}


def _walrus_targets(node: ast.AST) -> Iterator[ast.Name]:
    """The names that `:=` binds outside of a comprehension."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    for inner in ast.walk(node):
        if isinstance(inner, ast.NamedExpr):
            yield inner.target

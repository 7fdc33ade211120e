"""Statements of a program that may become a training region: blocks, what may leave its function, and the names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from adjoint.compiler.scripts.name_uses import find_captured_names, find_name_uses, find_node_ids

UPDATE_METHODS = frozenset(("step", "zero_grad", "clip_grad_norm_", "clip_grad_value_", "unscale_"))
FRAME_READERS = frozenset(("locals", "vars", "dir", "eval", "exec", "super"))  # what they give depends on the frame
SUSPENSIONS = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
DECLARATIONS = (ast.Global, ast.Nonlocal, ast.ClassDef, ast.Import, ast.ImportFrom)
Scope = ast.FunctionDef | ast.Module
Loop = ast.For | ast.While
Exit = ast.Break | ast.Continue | ast.Return


@dataclass(frozen=True)
class StatementBlock:
    """A block of statements, and the statements around it, outermost first, each with the block that holds it."""

    block: list[ast.stmt]
    scopes: tuple[Scope, ...]
    ancestors: tuple[tuple[list[ast.stmt], ast.stmt], ...] = ()

    @property
    def scope(self) -> Scope:
        """The function or module whose names the block uses."""
        return self.scopes[-1]


@dataclass(frozen=True)
class RegionSyntax:
    """A training region: `place.block[first:stop]`, or its end from one of the `starts` on.

    A step may begin with any statement up to `backward()`, or behind it; an update begins with its first statement, and
    a functional step with that which computes gradients. `deferred` are the statements behind it, from `stop` on, that
    keep books of what it computes, each with the statement of the region that computes it. `parts` are the regions
    of its steps, of which it has several, one after another: they run where it cannot be compiled as a whole.
    """

    place: StatementBlock
    starts: range
    stop: int
    is_functional: bool = False
    deferred: tuple[tuple[ast.stmt, ast.stmt], ...] = ()
    parts: tuple[RegionSyntax, ...] = ()

    @property
    def first(self) -> int:
        """The first statement of the region in its widest extent."""
        return self.starts[0]

    @property
    def end(self) -> int:
        """The end of the statements in whose place the region's calls come."""
        return self.stop + len(self.deferred)

    @property
    def statements(self) -> list[ast.stmt]:
        """The statements of the region in its widest extent."""
        return self.place.block[self.first : self.stop]


def find_places(place: StatementBlock) -> Iterator[StatementBlock]:
    """All blocks of the module, outer blocks before those in them."""
    yield place
    for statement in place.block:
        if isinstance(statement, ast.AsyncFunctionDef | ast.ClassDef) or is_compiled(statement):
            inner_scopes: tuple[Scope, ...] = place.scopes
            if isinstance(statement, ast.ClassDef):
                for member in statement.body:
                    if isinstance(member, ast.FunctionDef) and not is_compiled(member):
                        yield from find_places(StatementBlock(member.body, (*inner_scopes, member)))
        elif isinstance(statement, ast.FunctionDef):
            yield from find_places(StatementBlock(statement.body, (*place.scopes, statement)))
        else:
            around = (*place.ancestors, (place.block, statement))
            for block in blocks_of(statement):
                yield from find_places(StatementBlock(block, place.scopes, around))


def blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a compound statement."""
    blocks = [getattr(statement, name, None) or [] for name in ("body", "orelse", "finalbody")]
    blocks += [handler.body for handler in getattr(statement, "handlers", [])]
    blocks += [case.body for case in getattr(statement, "cases", [])]
    return [block for block in blocks if block]


def is_compiled(statement: ast.stmt) -> bool:
    """Tell whether a function is compiled as a whole, by its decorator."""
    decorators = getattr(statement, "decorator_list", [])
    return any("compile" in ast.unparse(decorator) for decorator in decorators)


def calls_method(tree: ast.AST, names: set[str] | frozenset[str]) -> bool:
    """Tell whether a statement calls a method or function of one of these names; those that it defines do not count."""
    if isinstance(tree, ast.Call):
        called = tree.func
        if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)) in names:
            return True
    if isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return False
    return any(calls_method(child, names) for child in ast.iter_child_nodes(tree))


def is_in_region(place: StatementBlock, index: int, regions: list[RegionSyntax]) -> bool:
    """Tell whether a statement belongs to one of the regions, or holds one."""
    statement = place.block[index]
    return any(
        region.first <= index < region.end
        if region.place.block is place.block
        else any(around is statement for _, around in region.place.ancestors)
        for region in regions
    )


def is_within(place: StatementBlock, regions: list[RegionSyntax]) -> bool:
    """Tell whether a block lies in a statement of a region."""
    around = [statement for _, statement in place.ancestors]
    return any(statement is outer for region in regions for statement in region.statements for outer in around)


def is_update(statement: ast.stmt) -> bool:
    """Tell whether a statement belongs to the update of parameters: a step, clipping, `zero_grad`, a use of `.grad`.

    A loop over parameters, or over several optimizers, does if all of its statements do.
    """
    if isinstance(statement, ast.FunctionDef | ast.While):
        return False
    if isinstance(statement, ast.For):
        items = {node.id for node in ast.walk(statement.target) if isinstance(node, ast.Name)}
        return all(is_update(inner) and items & find_name_uses([inner]).reads for inner in statement.body)
    reads_grad = any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in ast.walk(statement))
    return reads_grad or calls_method(statement, UPDATE_METHODS)


def can_outline(statement: ast.stmt, place: StatementBlock) -> bool:
    """Tell whether a statement means the same in a function of its own, as far as control and frames go."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    in_class = any(isinstance(scope, ast.FunctionDef) and scope.args.args[:1] for scope in place.scopes)
    exits = find_exits([statement])
    for node in ast.walk(statement):
        if isinstance(node, SUSPENSIONS + DECLARATIONS):
            return False
        if isinstance(node, ast.Return) and all(node is not leaving for leaving in exits):
            return False  # out of a loop, or of a function within
        if isinstance(node, ast.Name) and (node.id in FRAME_READERS or node.id == "__class__"):
            return False
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if in_class and name.startswith("__") and not name.endswith("__"):
            return False  # renamed within a class
    return not find_name_uses([statement]).deletes


def find_exits(statements: Iterable[ast.AST]) -> list[Exit]:
    """The `break`, `continue` and `return` by which statements are left; none that stands in a loop within them."""
    found: list[Exit] = []
    for node in statements:
        if isinstance(node, Exit):
            found.append(node)
        elif isinstance(node, Loop):
            found += find_exits(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found += find_exits(ast.iter_child_nodes(node))
    return found


def can_keep_names(region: RegionSyntax) -> bool:
    """Tell whether the region's names can be handed in and out: no other function and no handler looks at them."""
    uses = find_name_uses(region.statements)
    scope = region.place.scope
    outside = captured_outside(region)
    if uses.writes & outside or (isinstance(scope, ast.FunctionDef) and uses.captured & uses.writes):
        return False
    if isinstance(scope, ast.FunctionDef) and uses.writes & find_declared_names(scope, ast.Nonlocal):
        return False
    for _, statement in region.place.ancestors:
        if isinstance(statement, ast.Try):
            handlers = [inner for handler in statement.handlers for inner in handler.body]
            if uses.writes & find_name_uses([*handlers, *statement.finalbody]).reads:
                return False
    return True


def captured_outside(region: RegionSyntax) -> set[str]:
    """Names that functions within the scope capture, but for those of the region itself."""
    scope = region.place.scope
    if isinstance(scope, ast.Module):
        return set()  # they are globals, which the region writes as globals
    inside = find_node_ids(region.statements)
    found: set[str] = set()
    for node in ast.walk(scope):
        nested = node is not scope and isinstance(node, ast.FunctionDef | ast.Lambda | ast.GeneratorExp)
        if nested and id(node) not in inside:
            found |= find_captured_names(node)
    return found


def find_declared_names(scope: ast.FunctionDef, kind: type[ast.Global | ast.Nonlocal]) -> set[str]:
    """The names that a function declares global or nonlocal."""
    return {name for node in ast.walk(scope) if isinstance(node, kind) for name in node.names}

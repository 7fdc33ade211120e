"""Training regions: the statements of a loop or function from the forward pass to the optimizer's step.

They are found in the syntax tree alone. A region ends with the last statement that belongs to the update; where it
begins is known when it runs (`training_region`), so that every statement before `backward()` is a candidate.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from adjoint.compiler.scripts.name_uses import NameUses, find_name_uses, find_node_ids, run_later

MAX_STATEMENTS_BEFORE_BACKWARD = 24
UPDATE_METHODS = frozenset(("step", "zero_grad", "clip_grad_norm_", "clip_grad_value_", "unscale_"))
GRADIENT_FUNCTIONS = frozenset(("grad", "grad_and_value", "value_and_grad"))  # they make functions of gradients
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
    a functional step with that which computes gradients.
    """

    place: StatementBlock
    starts: range
    stop: int
    is_functional: bool = False

    @property
    def first(self) -> int:
        """The first statement of the region in its widest extent."""
        return self.starts[0]

    @property
    def statements(self) -> list[ast.stmt]:
        """The statements of the region in its widest extent."""
        return self.place.block[self.first : self.stop]


def find_training_regions(tree: ast.Module) -> list[RegionSyntax]:
    """The training regions of a module: for each `backward()`, each update that stands apart, each functional step."""
    places = list(_find_places(StatementBlock(tree.body, (tree,))))
    regions: list[RegionSyntax] = []
    for place in reversed(places):  # inner blocks first
        for index, statement in enumerate(place.block):
            if calls_method(statement, {"backward"}) and not _is_taken(place, index, regions):
                region = _find_step(place, index, regions)
                if region is not None:
                    regions.append(region)
    definitions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    closures = frozenset(f.name for f in definitions if any(calls_method(each, {"backward"}) for each in f.body))
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and not _computes(node, ())]
    makers = [node for node in assignments if calls_method(node.value, GRADIENT_FUNCTIONS)]  # f = vmap(grad(loss))
    functions = frozenset(target.id for node in makers for target in node.targets if isinstance(target, ast.Name))
    for place in places:
        regions += _find_functional_steps(place, regions, functions)
    for place in places:
        regions += _find_updates(place, regions, closures)
    return regions


def _find_places(place: StatementBlock) -> Iterator[StatementBlock]:
    """All blocks of the module, outer blocks before those in them."""
    yield place
    for statement in place.block:
        if isinstance(statement, ast.AsyncFunctionDef | ast.ClassDef) or _is_compiled(statement):
            inner_scopes: tuple[Scope, ...] = place.scopes
            if isinstance(statement, ast.ClassDef):
                for member in statement.body:
                    if isinstance(member, ast.FunctionDef) and not _is_compiled(member):
                        yield from _find_places(StatementBlock(member.body, (*inner_scopes, member)))
        elif isinstance(statement, ast.FunctionDef):
            yield from _find_places(StatementBlock(statement.body, (*place.scopes, statement)))
        else:
            around = (*place.ancestors, (place.block, statement))
            for block in blocks_of(statement):
                yield from _find_places(StatementBlock(block, place.scopes, around))


def blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a compound statement."""
    blocks = [getattr(statement, name, None) or [] for name in ("body", "orelse", "finalbody")]
    blocks += [handler.body for handler in getattr(statement, "handlers", [])]
    blocks += [case.body for case in getattr(statement, "cases", [])]
    return [block for block in blocks if block]


def _is_compiled(statement: ast.stmt) -> bool:
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


def _is_taken(place: StatementBlock, index: int, regions: list[RegionSyntax]) -> bool:
    """Tell whether a statement belongs to one of the regions, or holds one."""
    statement = place.block[index]
    return any(
        region.first <= index < region.stop
        if region.place.block is place.block
        else any(around is statement for _, around in region.place.ancestors)
        for region in regions
    )


def _find_step(place: StatementBlock, index: int, regions: list[RegionSyntax]) -> RegionSyntax | None:
    """The region around the `backward()` of a statement, or None where it must be found further outside."""
    block = place.block
    wanted = find_name_uses([block[index]]).reads
    prefix = block[:index]
    if place.ancestors and not isinstance(place.ancestors[-1][1], Loop) and not wanted & find_name_uses(prefix).writes:
        return None  # a branch with `backward()` alone
    if not can_outline(block[index], place):
        return None
    first = index
    if not can_keep_names(RegionSyntax(place, range(first, first + 1), index + 1)):
        return None
    while first > max(0, index - MAX_STATEMENTS_BEFORE_BACKWARD):
        if _is_taken(place, first - 1, regions) or not can_outline(block[first - 1], place):
            break
        if not can_keep_names(RegionSyntax(place, range(first - 1, first), index + 1)):
            if wanted & find_name_uses([block[first - 1]]).writes:
                return None  # the loss itself
            break
        first -= 1
    stop = index + 1
    for position in range(index + 1, len(block)):
        if _is_taken(place, position, regions) or not can_outline(block[position], place):
            break
        if _is_last_update(block[position]):
            break
        if not can_keep_names(RegionSyntax(place, range(first, first + 1), position + 1)):
            break
        if is_update(block[position]):
            stop = position + 1
    stop -= _defer_fetches(block, first, index, stop)
    index = next(i for i in range(first, stop) if calls_method(block[i], {"backward"}))
    return RegionSyntax(place, range(first, min(index + 2, stop)), stop)


def _defer_fetches(block: list[ast.stmt], first: int, backward: int, stop: int) -> int:
    """Move assignments that neither the loss nor the update depends on behind the region; returns how many.

    So the next batch, which some programs fetch between the forward pass and `backward()`, is fetched outside.
    """
    moved = 0
    for position in range(backward - 1, first, -1):
        statement = block[position]
        calls = any(isinstance(node, ast.Call) for node in ast.walk(statement))
        if not isinstance(statement, ast.Assign) or not calls or is_update(statement):
            continue
        before, after = block[first:position], block[position + 1 : stop - moved]
        uses, later = find_name_uses([statement]), find_name_uses(after)
        is_needed = uses.writes & (later.reads | later.writes) or uses.reads & later.writes
        has_read = uses.reads & find_name_uses(before).writes
        overwrites = uses.writes & find_name_uses(before).reads  # what the forward pass has read: the next batch
        if overwrites and not is_needed and not has_read:
            block.insert(stop - 1 - moved, block.pop(position))
            moved += 1
    return moved


def _is_within(place: StatementBlock, regions: list[RegionSyntax]) -> bool:
    """Tell whether a block lies in a statement of a region."""
    around = [statement for _, statement in place.ancestors]
    return any(statement is outer for region in regions for statement in region.statements for outer in around)


def _computes(statement: ast.stmt, functions: Collection[str]) -> bool:
    """Tell whether a statement is an assignment that calls one of these functions, or `grad(f)(x)`, or autograd.grad.

    A gradient of which there is to be a gradient is part of a greater step.
    """
    for node in ast.walk(statement) if isinstance(statement, ast.Assign) else ():
        if not isinstance(node, ast.Call) or any(keyword.arg == "create_graph" for keyword in node.keywords):
            continue
        called = node.func
        if isinstance(called, ast.Call) and calls_method(called, GRADIENT_FUNCTIONS):
            return True
        if ast.unparse(called).endswith("autograd.grad") or (isinstance(called, ast.Name) and called.id in functions):
            return True
    return False


def _find_functional_steps(
    place: StatementBlock, regions: list[RegionSyntax], functions: frozenset[str]
) -> Iterator[RegionSyntax]:
    """The statements of a loop that compute gradients as a value, and those that compute parameters from them."""
    if not place.ancestors or not isinstance(place.ancestors[-1][1], Loop) or _is_within(place, regions):
        return
    block = place.block
    for index, statement in enumerate(block):
        if not _computes(statement, functions) or not can_outline(statement, place) or _is_taken(place, index, regions):
            continue
        start = index
        if "autograd.grad" in ast.unparse(statement):  # of a graph that was recorded before
            read = find_name_uses([statement]).reads
            while start and can_outline(block[start - 1], place) and not _is_taken(place, start - 1, regions):
                writes = find_name_uses([block[start - 1]])
                if not writes.writes & read:
                    break
                start, read = start - 1, read | writes.reads
        results = find_name_uses([statement]).writes
        stop = index + 1
        while stop < len(block) and isinstance(block[stop], ast.Assign | ast.AugAssign | ast.For | ast.With):
            uses = find_name_uses([block[stop]])
            if not uses.reads & results or not can_outline(block[stop], place) or _is_taken(place, stop, regions):
                break
            results, stop = results | uses.writes, stop + 1
        region = RegionSyntax(place, range(start, index + 1), stop, is_functional=True)
        if can_keep_names(region):
            yield region
            return


def _find_updates(
    place: StatementBlock, regions: list[RegionSyntax], closures: frozenset[str]
) -> Iterator[RegionSyntax]:
    """The updates of a block that lie outside of all regions: from the first to the last statement of each run."""
    if _is_within(place, regions):
        return
    start = None
    taken = [_is_taken(place, index, regions) for index in range(len(place.block))]
    last = 0
    for position, statement in enumerate([*place.block, ast.Pass()]):
        is_end = position == len(place.block) or taken[position] or not can_outline(statement, place)
        is_end = is_end or calls_method(statement, {"backward"}) or _is_last_update(statement)
        steps = (node for node in ast.walk(statement) if isinstance(node, ast.Call) and calls_method(node, {"step"}))
        values = [value for call in steps for value in call.args]  # a closure, as of LBFGS, is compiled alone
        is_end = is_end or any(isinstance(value, ast.Name) and value.id in closures for value in values)
        if is_end or not (is_update(statement) or start is not None):
            if start is not None and any(calls_method(s, {"step"}) for s in place.block[start:last]):
                region = RegionSyntax(place, range(start, start + 1), last)
                if can_keep_names(region):
                    yield region
            start = None
        elif is_update(statement):
            start = position if start is None else start
            last = position + 1


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


def _is_last_update(statement: ast.stmt) -> bool:
    """Tell whether a statement both updates and leaves the block: an evaluation, say, with a schedule's step."""
    return is_update(statement) and bool(find_exits([statement]))


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
            uses = NameUses()
            for child in run_later(node):
                if isinstance(child, ast.stmt):
                    uses.reads |= find_name_uses([child]).reads
                else:
                    uses.reads |= {name.id for name in ast.walk(child) if isinstance(name, ast.Name)}
            found |= uses.reads
    return found


def find_declared_names(scope: ast.FunctionDef, kind: type[ast.Global | ast.Nonlocal]) -> set[str]:
    """The names that a function declares global or nonlocal."""
    return {name for node in ast.walk(scope) if isinstance(node, kind) for name in node.names}

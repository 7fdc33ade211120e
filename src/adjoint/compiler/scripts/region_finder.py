"""Training regions: the statements of a loop or function from the forward pass to the optimizer's step.

They are found in the syntax tree alone. A region ends with the last statement that belongs to the update; where it
begins is known when it runs (`training_region`), so that every statement before `backward()` is a candidate.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import replace

from adjoint.compiler.scripts.deferred_calls import take_calls_out
from adjoint.compiler.scripts.name_uses import find_name_uses, find_node_ids
from adjoint.compiler.scripts.parameter_loops import find_parameter_loops, is_parameter_loop, makes_parameter_list
from adjoint.compiler.scripts.region_syntax import (
    Loop,
    RegionSyntax,
    StatementBlock,
    calls_method,
    can_keep_names,
    can_outline,
    find_exits,
    find_places,
    is_in_region,
    is_update,
    is_within,
)
from adjoint.compiler.scripts.region_tail import take_metrics_in

MAX_STATEMENTS_BEFORE_BACKWARD = 24
GRADIENT_FUNCTIONS = frozenset(("grad", "grad_and_value", "value_and_grad"))  # they make functions of gradients


def find_training_regions(tree: ast.Module) -> list[RegionSyntax]:
    """The training regions of a module: for each `backward()`, each update that stands apart, each functional step."""
    places = list(find_places(StatementBlock(tree.body, (tree,))))
    regions: list[RegionSyntax] = []
    for place in reversed(places):  # inner blocks first
        for index, statement in enumerate(place.block):
            if calls_method(statement, {"backward"}) and not is_in_region(place, index, regions):
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
    for place in places:
        regions += find_parameter_loops(place, regions)
    return regions


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
        if is_in_region(place, first - 1, regions) or not can_outline(block[first - 1], place):
            break
        if not can_keep_names(RegionSyntax(place, range(first - 1, first), index + 1)):
            if wanted & find_name_uses([block[first - 1]]).writes:
                return None  # the loss itself
            break
        first -= 1
    stop = index + 1
    for position in range(index + 1, len(block)):
        if is_in_region(place, position, regions) or not can_outline(block[position], place):
            break
        if _is_last_update(block[position]) or _is_occasional(block[position], place, block[first:position]):
            break
        if not can_keep_names(RegionSyntax(place, range(first, first + 1), position + 1)):
            break
        is_loop = is_parameter_loop(block[position], block[:position])  # right behind the step: weights are clamped
        if is_update(block[position]) or (is_loop and all(map(makes_parameter_list, block[stop:position]))):
            stop = position + 1
    stop -= _defer_fetches(block, first, index, stop)
    if not any(is_in_region(place, position, regions) for position in range(stop, len(block))):
        stop = take_metrics_in(place, first, stop)
    deferred = take_calls_out(place, first, stop)
    index = next(i for i in range(first, stop) if calls_method(block[i], {"backward"}))
    region = RegionSyntax(place, range(first, min(index + 2, stop)), stop, deferred=tuple(deferred))
    return replace(region, parts=tuple(_find_parts(region)))


def _find_parts(region: RegionSyntax) -> Iterator[RegionSyntax]:
    """The regions of the steps of a region that has several, each with the lines between the one before and itself."""
    block = region.place.block
    passes = [i for i in range(region.first, region.stop) if calls_method(block[i], {"backward"})]
    steps = [i for i in range(region.first, region.stop) if calls_method(block[i], {"step"})]
    first = region.first
    for index, later in zip(passes, [*passes[1:], region.stop], strict=True):
        between = [i for i in steps if index <= i < later]
        stop = region.stop if later == region.stop else max(between, default=index - 1) + 1
        if stop <= index:
            continue  # the gradients of several passes are for one step
        if first == region.first and stop == region.stop:
            return
        start = next(i for i in passes if i >= first)
        inside = find_node_ids(block[first:stop])
        deferred = tuple(pair for pair in region.deferred if id(pair[0]) in inside)
        part = RegionSyntax(region.place, range(first, min(start + 2, stop)), stop, deferred=deferred)
        if can_keep_names(part):
            yield part
        first = stop


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
    if not place.ancestors or not isinstance(place.ancestors[-1][1], Loop) or is_within(place, regions):
        return
    block = place.block
    for index, statement in enumerate(block):
        if (
            not _computes(statement, functions)
            or not can_outline(statement, place)
            or is_in_region(place, index, regions)
        ):
            continue
        start = index
        if "autograd.grad" in ast.unparse(statement):  # of a graph that was recorded before
            read = find_name_uses([statement]).reads
            while start and can_outline(block[start - 1], place) and not is_in_region(place, start - 1, regions):
                writes = find_name_uses([block[start - 1]])
                if not writes.writes & read:
                    break
                start, read = start - 1, read | writes.reads
        results = find_name_uses([statement]).writes
        stop = index + 1
        while stop < len(block) and isinstance(block[stop], ast.Assign | ast.AugAssign | ast.For | ast.With):
            uses = find_name_uses([block[stop]])
            if not uses.reads & results or not can_outline(block[stop], place) or is_in_region(place, stop, regions):
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
    if is_within(place, regions) or not any(calls_method(statement, {"step"}) for statement in place.block):
        return
    start = None
    taken = [is_in_region(place, index, regions) for index in range(len(place.block))]
    last = 0
    for position, statement in enumerate([*place.block, ast.Pass()]):
        is_end = position == len(place.block) or taken[position] or not can_outline(statement, place)
        is_end = is_end or calls_method(statement, {"backward"}) or _is_last_update(statement)
        is_end = is_end or _is_occasional(statement, place, place.block[:position])
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


def _is_last_update(statement: ast.stmt) -> bool:
    """Tell whether a statement both updates and leaves the block: an evaluation, say, with a schedule's step."""
    return is_update(statement) and bool(find_exits([statement]))


def _is_occasional(statement: ast.stmt, place: StatementBlock, before: list[ast.stmt]) -> bool:
    """Tell whether a statement is an update after some of several batches, `if (i + 1) % 4 == 0`: it stands apart.

    What its test reads changes from turn to turn of a loop, and does not come from the forward pass.
    """
    if not isinstance(statement, ast.If) or statement.orelse or not calls_method(statement, {"step"}):
        return False
    read = find_name_uses([ast.Expr(statement.test)]).reads
    changing: set[str] = set()
    for _, around in place.ancestors:
        if isinstance(around, ast.For):
            changing |= find_name_uses([ast.Assign([around.target], ast.Constant(None))]).writes
        if isinstance(around, Loop):
            counts = [node.target for node in ast.walk(around) if isinstance(node, ast.AugAssign)]
            changing |= {target.id for target in counts if isinstance(target, ast.Name)}
    computing = [each for each in before if not isinstance(getattr(each, "value", None), ast.Constant)]  # `step += 1`
    return bool(read & changing) and not read & find_name_uses(computing).writes

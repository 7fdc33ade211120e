"""Loops that write parameters without gradients: averages of weights, soft updates of target networks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from adjoint.compiler.scripts.name_uses import find_name_uses
from adjoint.compiler.scripts.region_syntax import (
    RegionSyntax,
    StatementBlock,
    calls_method,
    can_keep_names,
    can_outline,
    is_in_region,
    is_within,
)

LISTS = frozenset(("parameters", "named_parameters", "buffers", "named_buffers", "state_dict"))
WRITES = frozenset(("mul_", "add_", "sub_", "div_", "copy_", "lerp_", "addcmul_", "clamp_", "clamp_min_", "clamp_max_"))
MARKS = b"|".join(rb"\b%s\(" % name.encode() for name in sorted(LISTS))  # of sources that may have such a loop


def find_parameter_loops(place: StatementBlock, regions: list[RegionSyntax]) -> Iterator[RegionSyntax]:
    """The loops of a block over parameters whose values they write, each with the statements that belong to it.

    Those make the lists that the loop goes through, and load the state that it has computed.
    """
    if is_within(place, regions):
        return
    block, free_from = place.block, 0
    for index, statement in enumerate(block):
        if index < free_from or not is_parameter_loop(statement, block[:index]):
            continue
        first, stop, read = index, index + 1, find_name_uses([statement]).reads
        while (
            first > free_from
            and makes_parameter_list(block[first - 1])
            and find_name_uses([block[first - 1]]).writes & read
        ):
            first -= 1
        while (
            stop < len(block) and isinstance(block[stop], ast.Expr) and calls_method(block[stop], {"load_state_dict"})
        ):
            if not find_name_uses([block[stop]]).reads & read:
                break
            stop += 1
        is_free = not any(
            is_in_region(place, i, regions) or not can_outline(block[i], place) for i in range(first, stop)
        )
        region = RegionSyntax(place, range(first, first + 1), stop, is_functional=True)
        if is_free and can_keep_names(region):
            free_from = stop
            yield region


def is_parameter_loop(statement: ast.stmt, before: list[ast.stmt]) -> bool:
    """Tell whether a statement is a loop over parameters that writes values, or `with torch.no_grad()` around such."""
    if isinstance(statement, ast.With):
        return all(is_parameter_loop(inner, before) or makes_parameter_list(inner) for inner in statement.body)
    if not isinstance(statement, ast.For):
        return False
    lists = find_name_uses([each for each in before if makes_parameter_list(each)]).writes
    is_over_lists = calls_method(statement.iter, LISTS) or bool(_names_in(statement.iter) & lists)
    items = _names_in(statement.target) | lists
    return is_over_lists and all(_writes_item(inner, items) for inner in statement.body)


def _writes_item(statement: ast.stmt, items: set[str]) -> bool:
    """Tell whether a statement writes into an item of the loop, computes from one, or does under a condition."""
    if isinstance(statement, ast.If):
        return all(_writes_item(inner, items) for inner in (*statement.body, *statement.orelse))
    if not isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign):
        return isinstance(statement, ast.Continue)
    if isinstance(statement, ast.Expr):
        return calls_method(statement, WRITES) and bool(_names_in(statement) & items)
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    is_value = all(isinstance(target, ast.Subscript) or getattr(target, "attr", "") == "data" for target in targets)
    return is_value and bool(_names_in(statement) & items)


def makes_parameter_list(statement: ast.stmt) -> bool:
    """Tell whether a statement is an assignment of a list of parameters, or of a state."""
    return isinstance(statement, ast.Assign) and calls_method(statement.value, LISTS)


def _names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}

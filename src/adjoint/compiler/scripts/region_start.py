"""The start of a training region, ahead of its forward pass: with `zero_grad()`, if nothing between does more."""

from __future__ import annotations

import ast

from adjoint.compiler.scripts.region_syntax import RegionSyntax, calls_method, is_update

# of tensors and numbers, that change nothing and draw no batch
CONVERSIONS = frozenset(
    """
    arange bool clone contiguous cpu cuda detach dim double flatten float full full_like half int len long numel
    ones ones_like permute rand rand_like randn randn_like requires_grad_ reshape size squeeze t to transpose
    type unsqueeze view view_as zeros zeros_like
    """.split()  # noqa: SIM905  a list of words
)


def widen_start(region: RegionSyntax, start: int) -> int:
    """The earliest statement from which the region may be compiled, where the forward pass begins at `start`.

    That is the first `zero_grad()` ahead of it, if the statements between only convert tensors or detach a state:
    `hidden = detach(hidden)`. What fetches a batch or asks the environment stays outside.
    """
    block, widest = region.place.block, start
    for position in range(start - 1, region.first - 1, -1):
        statement = block[position]
        if is_update(statement) and not calls_method(statement, {"step"}):
            widest = position
        elif not _converts(statement):
            break
    return widest


def _converts(statement: ast.stmt) -> bool:
    """Tell whether a statement is an assignment that makes a tensor, or another one of a name that it binds anew."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    bound = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    for node in ast.walk(statement):
        if isinstance(node, ast.Lambda | ast.GeneratorExp | ast.ListComp | ast.NamedExpr):
            return False
        if isinstance(node, ast.Call) and not _is_conversion(node, bound):
            return False
    return True


def _is_conversion(call: ast.Call, bound: set[str]) -> bool:
    called, first = call.func, call.args[0] if call.args else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    is_renewal = isinstance(called, ast.Name) and isinstance(first, ast.Name) and first.id in bound and name != "next"
    return name in CONVERSIONS or is_renewal

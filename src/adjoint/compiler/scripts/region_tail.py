"""The end of a training region: metrics behind the update go in.

A metric, `accuracy = (output.argmax(1) == y).float().mean()`, is a part of what is compiled.
"""

from __future__ import annotations

import ast
import copy

from adjoint.compiler.scripts.name_uses import find_name_uses
from adjoint.compiler.scripts.region_syntax import RegionSyntax, StatementBlock, can_keep_names, can_outline, find_exits

COMPUTATIONS = frozenset(
    """
    abs all any argmax argmin clamp cosine_similarity cross_entropy eq exp ge gt le log log_softmax lt max mean
    min mse_loss ne norm pow round sigmoid softmax sqrt square std sum tanh topk var where
    """.split()  # noqa: SIM905  a list of words
)
CONVERSIONS = frozenset(
    """
    bool contiguous detach double expand_as flatten float int long numel reshape size squeeze t to transpose
    type unsqueeze view view_as
    """.split()  # noqa: SIM905  a list of words
)
READS = frozenset(("item", "tolist", "cpu", "numpy"))  # of values, which Python looks at
NUMBERS = frozenset(("len", "float", "int"))
CONDITIONAL = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
METRIC = "__adjoint_metric_{}__"


def take_metrics_in(place: StatementBlock, first: int, stop: int) -> int:
    """Move the metrics that are computed behind a region `first:stop` to its end; return where it ends then.

    Between them may stand sums of numbers, `total += loss.item()`, which come after all of them.
    """
    block = place.block
    made = find_name_uses(block[first:stop]).writes
    inside: list[ast.stmt] = []
    behind: list[ast.stmt] = []
    position = stop
    while position < len(block):
        statement = block[position]
        if not can_outline(statement, place) or (find_exits([statement]) and not isinstance(statement, ast.Return)):
            break
        uses, later = find_name_uses([statement]), find_name_uses(behind)
        is_apart = not uses.reads & later.writes
        if is_apart and not uses.writes & (later.reads | later.writes) and uses.reads & made and _is_metric(statement):
            inside.append(statement)
            made = made | uses.writes
        elif isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.Return):
            writer, reader = MetricWriter(made, len(inside), statement), copy.deepcopy(statement)
            if is_apart:
                writer.visit(reader)
            behind.append(reader)
            inside += writer.metrics
            if not isinstance(statement, ast.Assign | ast.AugAssign) or not is_pure(statement.value):
                position += 1
                break
        else:
            break
        position += 1
    region = RegionSyntax(place, range(first, first + 1), stop + len(inside))
    before = block[stop:position]
    block[stop:position] = [*inside, *behind]
    if inside and can_keep_names(region):
        return region.stop
    block[stop : stop + len(inside) + len(behind)] = before
    return stop


class MetricWriter(ast.NodeTransformer):
    """Writer of a statement that reads metrics, `(output.argmax(1) == y).sum().item()`, out of names of their own."""

    def __init__(self, made: set[str], count: int, statement: ast.stmt) -> None:
        self.made, self.count, self.statement = made, count, statement
        self.metrics: list[ast.stmt] = []

    def visit(self, node: ast.AST) -> ast.AST:
        """Return what stands for a node."""
        if isinstance(node, CONDITIONAL):
            return node
        if isinstance(node, ast.AugAssign):
            node.value = self.name_metric(node.value)
        called = node.func if isinstance(node, ast.Call) else None
        if not isinstance(called, ast.Attribute) or called.attr not in READS:
            result: ast.AST = self.generic_visit(node)
            return result
        called.value = self.name_metric(called.value)
        return node

    def name_metric(self, value: ast.expr) -> ast.expr:
        """Return the name that stands for a metric; anything else as it is."""
        name = METRIC.format(self.count + len(self.metrics))
        metric = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), self.statement)
        if not find_name_uses([metric]).reads & self.made or not _is_metric(metric):
            return value
        self.metrics.append(ast.fix_missing_locations(metric))
        return ast.copy_location(ast.Name(name, ast.Load()), value)


def _is_metric(statement: ast.stmt) -> bool:
    """Tell whether a statement, or all of a `with` block, computes a value of tensors alone."""
    if isinstance(statement, ast.With):
        return all(map(_is_metric, statement.body))
    if not isinstance(statement, ast.Assign) or not is_pure(statement.value):
        return False
    names = [_name_of(node) for node in ast.walk(statement.value) if isinstance(node, ast.Call)]
    return not READS & set(names) and not COMPUTATIONS.isdisjoint(names)


def is_pure(expression: ast.expr) -> bool:
    """Tell whether an expression changes nothing: its calls are tensors' own, or make numbers."""
    for node in ast.walk(expression):
        if isinstance(node, (*CONDITIONAL, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
        if isinstance(node, ast.Call):
            known = NUMBERS if isinstance(node.func, ast.Name) else COMPUTATIONS | CONVERSIONS | READS
            if _name_of(node) not in known:
                return False
    return True


def _name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")

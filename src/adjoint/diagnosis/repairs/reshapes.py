"""Edits that give tensors of an expression in other shapes, or dimensions by other numbers."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from itertools import combinations, permutations

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.repairs.expression import Edit, Values, bracket, parameter_names, parse
from adjoint.diagnosis.repairs.trial import Trial

SQUARE_WORDS = re.compile(r"square|matri|2-?D|two[- ]dimension|at least 2")
ORDERINGS = ("transpose", "permute", "t", "movedim", "swapaxes")
LARGEST_PERMUTED = 5  # dimensions
CREATION = frozenset(["ones", "zeros", "rand", "randn", "empty"])


def reshape(
    part: ast.expr,
    value: Operand,
    values: Values,
    dimensions: list[ast.expr],
    *,
    first: str,
    is_input: bool,
    is_sum: bool,
) -> Iterator[Edit]:
    """Yield the part in other shapes; `is_sum`: of an operator, and not of a call."""
    if any(part is each for each in dimensions) and isinstance(value, int):
        ranks = [each.ndim for _, each in values if isinstance(each, Tensor)]
        places = range(max(ranks, default=0))
        yield from (Edit(part, ast.Constant(i), True) for i in (*places, -1) if i != value)
    if not isinstance(value, (Tensor, np.ndarray)):
        return
    own = bracket(part)
    if isinstance(value, np.ndarray):
        ways = [f"{own}.T", *(f"{own}[{', '.join([':'] * i + ['None'])}]" for i in range(1, value.ndim + 1))]
        yield from (Edit(part, parse(way), True) for way in (ways if first else reversed(ways)))
        return
    shapes = {tuple(each.shape) for _, each in values if isinstance(each, Tensor)}
    if len(shapes) > 1 and all(len(each) == 1 for each in shapes) and not is_input:
        if is_sum:
            yield Edit(part, parse(f"{own}.unsqueeze(1)"), True)  # of each with each, where a table is beside it
        return
    method = part.func if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) else None
    if method is not None and method.attr in ORDERINGS:
        root = leave_order(part)
        orders = write_orders(bracket(root), value.ndim) if value.ndim > 2 else [bracket(root)]
        yield from (Edit(part, parse(order), True) for order in orders)  # it stands in the right order before, mostly
    ways = [f"{own}{first}"] if first and value.ndim == 2 else list(_add_axes(own, value, values))
    if value.ndim == 1:  # one number for each channel
        counts = {len(each) for each in shapes if len(each) > 2 and each[1] == value.shape[0]}
        ways += [f"{own}[:, {', '.join(['None'] * (count - 2))}]" for count in counts]
    ways += [f"{own}.unsqueeze(0)"] if is_input else []
    ways += (
        [f"{own}.unsqueeze({i})" for i in (*range(1, value.ndim), value.ndim, 0)]
        if value.ndim < LARGEST_PERMUTED
        else []
    )
    ways += [f"{own}.squeeze({i})" for i in reversed(range(value.ndim)) if value.shape[i] == 1]
    ways += [f"{own}.flatten(1)"] if value.ndim > 2 and is_input else []
    ways += [f"{own}.T"] if value.ndim == 2 else []
    ways += [f"{own}.permute(0, 3, 1, 2)", f"{own}.permute(0, 2, 3, 1)"] if value.ndim == 4 else []
    is_image = value.ndim == 3 and value.shape[2] in (1, 3, 4) and min(value.shape[:2]) > value.shape[2]
    ways += [f"{own}.permute(2, 0, 1)"] if is_image else []
    ways += [f"{own}.transpose({i}, {j})" for i, j in combinations(range(value.ndim), 2)] if value.ndim > 2 else []
    ways += [f"{own}.permute(2, 0, 1)", f"{own}.permute(2, 0, 1).unsqueeze(0)"] if value.ndim == 3 else []
    for other, each in values:
        is_same = isinstance(each, Tensor) and _without_ones(each) == _without_ones(value)
        if (
            isinstance(each, Tensor)
            and each.shape != value.shape
            and (is_same or (is_input and each.shape[:1] == value.shape[:1]))
            and each.numel() == value.numel()
        ):
            ways.append(f"{own}.reshape({bracket(other)}.shape)")
    ways += [f"{own}.contiguous()", f"{own}.unsqueeze(0).unsqueeze(0)"]
    yield from (Edit(part, parse(way), True) for way in ways)


def leave_order(node: ast.expr) -> ast.expr:
    """Return what an expression gives in another order of its dimensions: of `x.transpose(1, 2)`, it is x."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ORDERINGS:
        node = node.func.value
    return node


def write_orders(own: str, count: int) -> Iterator[str]:
    """Yield an expression as it is, with two of its dimensions exchanged, and with all in another order."""
    yield own
    if count <= LARGEST_PERMUTED - 1:
        yield from (f"{own}.transpose({i}, {j})" for i, j in combinations(range(count), 2))
        for order in permutations(range(count)):
            if sum(i != place for i, place in enumerate(order)) > 2:
                yield f"{own}.permute{order}"


def _without_ones(x: Tensor) -> list[int]:
    return [size for size in x.shape if size != 1]


def expand_index(call: ast.Call, values: Values) -> Iterator[Edit]:
    """Yield the index of a `scatter` of rows with as many columns as what is scattered."""
    if "scatter" not in ast.unparse(call.func) or len(call.args) < 2:
        return
    known = {id(part): each for part, each in values}
    index, source = call.args[-2], call.args[-1]
    x, rows = known.get(id(index)), known.get(id(source))
    if isinstance(x, Tensor) and isinstance(rows, Tensor) and rows.ndim > x.ndim and rows.shape[: x.ndim] == x.shape:
        added = ".unsqueeze(-1)" * (rows.ndim - x.ndim)
        yield Edit(index, parse(f"{bracket(index)}{added}.expand_as({bracket(source)})"), True)


def _add_axes(own: str, value: Tensor, values: Values) -> Iterator[str]:
    """Yield the part with new dimensions between its first and its last, so that it fits a tensor of more."""
    shapes = {tuple(each.shape) for _, each in values if isinstance(each, Tensor) and each.ndim > value.ndim + 1}
    for shape in shapes if value.ndim > 1 else ():
        for inner in combinations(range(1, len(shape) - 1), value.ndim - 2):
            kept = (0, *inner, len(shape) - 1)
            if all(size in (1, shape[i]) for size, i in zip(value.shape, kept, strict=True)):
                yield f"{own}[{', '.join(':' if i in kept else 'None' for i in range(len(shape)))}]"


def reshape_all(root: ast.expr, values: Values) -> Iterator[Edit]:
    """Yield the expression with all of its tensors in one other shape."""
    tensors = {ast.unparse(part): part for part, each in values if isinstance(each, Tensor) and each.ndim}
    if len(tensors) < 2:
        return
    sizes = {tuple(_without_ones(each)) for _, each in values if isinstance(each, Tensor) and each.ndim}
    for way in ("squeeze(0)", "squeeze(-1)", *(["flatten()"] if len(sizes) == 1 else [])):
        changed = copy.deepcopy(root, {id(part): parse(f"{bracket(part)}.{way}") for part in tensors.values()})
        yield Edit(root, changed, True)


def make_square(node: ast.AST, message: str) -> Iterator[Edit]:
    """Yield a matrix of as many rows as columns, in place of a new vector."""
    if not SQUARE_WORDS.search(message):
        return
    if isinstance(node, ast.Call) and len(node.args) == 1 and ast.unparse(node.func).rpartition(".")[2] in CREATION:
        yield Edit(node, ast.Call(node.func, [*node.args, *node.args], node.keywords), True)


def swap_sides(root: ast.expr) -> Iterator[Edit]:
    """Yield a product with its sides the other way round."""
    if isinstance(root, ast.Call) and len(root.args) == 2:
        yield Edit(root, ast.Call(root.func, root.args[::-1], root.keywords), True)
    elif isinstance(root, ast.BinOp) and isinstance(root.op, ast.MatMult):
        yield Edit(root, ast.BinOp(root.right, root.op, root.left), True)


def find_dimensions(node: ast.AST, trial: Trial) -> Iterator[ast.expr]:
    """Yield the arguments of a call that are numbers of dimensions."""
    if not isinstance(node, ast.Call):
        return
    names = parameter_names(node, trial.frame)
    for name, part in [*zip(names, node.args, strict=False), *((each.arg, each.value) for each in node.keywords)]:
        if name in ("dim", "dim0", "dim1", "axis", "start_dim", "end_dim", "dims"):
            yield part

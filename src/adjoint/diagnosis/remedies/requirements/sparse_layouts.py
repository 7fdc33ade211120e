"""Remedies for sparse tensors: functions that take dense ones, both kinds in one call, and results that are dense."""

from __future__ import annotations

import ast
import copy
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue
from adjoint.diagnosis.remedies.registry import at, find_named_argument, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.source_expressions import text_of


def _find_sparse(failure: Failure) -> list[NamedValue]:
    return [each for each in failure.tensors() if str(each.value.layout).rpartition(".")[2] != "strided"]


def _write_dense(failure: Failure, operand: NamedValue, way: str) -> str:
    """Return the line with a conversion of the operand."""
    node = failure.node
    if not isinstance(node, ast.expr):
        return f"{operand.text}.{way}()"
    places = {
        id(each): ast.Call(ast.Attribute(each, way, ast.Load()), [], [])
        for each in ast.walk(node)
        if isinstance(each, ast.expr)
        and text_of(each) == operand.text
        and isinstance(getattr(each, "ctx", None), ast.Load)
    }
    changed: ast.expr = copy.deepcopy(node, places)
    return text_of(changed)


@remedy(
    r"^(?!.*torch\.sparse_coo_tensor)(?:.*not there for tensors of the layout|.*layout tensor to numpy|"
    r".*sparse and dense tensors cannot be joined|.*only the norm of the whole sparse tensor|"
    r".*only a sparse tensor to the power of a number|.*has no strides; take)"
)
def make_dense(failure: Failure, match: re.Match[str]) -> str | None:
    """A function that is not there for sparse tensors: the same of a dense one."""
    found = _find_sparse(failure)
    if not found:
        return None
    x = found[0]
    layout = str(x.value.layout).rpartition(".")[2]
    return f"{x.text}{at(x)} is {layout}: {_write_dense(failure, x, 'to_dense')}"


@remedy(r"(add|sub)\(sparse, dense\) is not supported")
def exchange_sides(failure: Failure, match: re.Match[str]) -> str | None:
    """A dense tensor that is added to a sparse one."""
    node, found = failure.node, _find_sparse(failure)
    if not found:
        return None
    x = found[0]
    if match[1] == "add" and isinstance(node, ast.BinOp):
        return f"{x.text}{at(x)} is sparse, and the dense one comes first: {bracket(node.right)} + {bracket(node.left)}"
    return f"{x.text}{at(x)} is sparse: {_write_dense(failure, x, 'to_dense')}"


@remedy(r"expected a sparse tensor but got a dense one")
def make_sparse(failure: Failure, match: re.Match[str]) -> str | None:
    """A method of sparse tensors on a dense one."""
    x = next((each for each in failure.tensors() if each not in _find_sparse(failure)), None)
    if x is None:
        return None
    return f"{x.text}{at(x)} is dense: {_write_dense(failure, x, 'to_sparse')}"


@remedy(r"a sparse tensor cannot hold the result, which is dense|a division by a sparse tensor divides by zero")
def compute_dense(failure: Failure, match: re.Match[str]) -> str | None:
    """An operation whose result has values everywhere."""
    found = _find_sparse(failure)
    if not found:
        return None
    x = found[0]
    return f"{x.text}{at(x)} is sparse, and the result would have values at its zeros: {x.text}.to_dense() before it"


@remedy(r"mm: mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", is_last=True)
def fit_matrices(failure: Failure, match: re.Match[str]) -> str | None:
    """Two matrices whose inner sizes differ, of a function that no trial could change."""
    rows, inner, own, columns = map(int, match.groups())
    named: list[NamedValue] = []
    for shape in ((rows, inner), (own, columns)):
        x = next((each for each in failure.tensors() if tuple(each.value.shape) == shape), None)
        if x is None:
            return None
        named.append(x)
    a, b = named
    told = f"{a.text}{at(a)} has {inner} columns, and {b.text}{at(b)} {own} rows"
    if columns == rows != inner and isinstance(failure.node, ast.Call):
        return f"{told}: the other way round, {text_of(failure.node.func)}({b.text}, {a.text})"
    return f"{told}: {b.text}.mT has {columns}" if columns == inner else f"{told}: they are to be one number"


@remedy(r"reduce needs a sparse matrix and a dense one|Offset tensor contains duplicate values")
def fit_layout(failure: Failure, match: re.Match[str]) -> str | None:
    """Sparse functions with two tensors of one kind, or one diagonal twice."""
    if "Offset" in match[0]:
        given = find_named_argument(failure, "offsets")
        own = None if given is None else failure.find_operand(text_of(given))
        name = "offsets" if given is None else text_of(given)
        return f"{name}{at(own)} has one diagonal twice: torch.unique({name}), and a row of values for each"
    first = next((each for each in failure.tensors() if isinstance(each.value, Tensor)), None)
    return None if first is None else f"{first.text}.to_sparse() comes first, the dense one second"

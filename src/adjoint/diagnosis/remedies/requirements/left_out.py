"""Remedies for what a line leaves out: the dimension of a reduction, a loop over indices, the names of layers."""

from __future__ import annotations

import ast
import re

from adjoint.core.dtype.dtype import bool_
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.causes.operand_history import walk_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.trial import compute, runs
from adjoint.diagnosis.source_expressions import SourceFile, find_assignment, find_value_of, text_of


@remedy(r"missing (?:1 required positional|a required) argument: 'dim'")
def give_dimension(failure: Failure, match: re.Match[str]) -> str | None:
    """A reduction or a sum along a dimension that is not given."""
    for node in ast.walk(failure.node) if failure.node is not None else ():
        if not isinstance(node, ast.Call) or any(each.arg == "dim" for each in node.keywords):
            continue
        whole = ast.Call(node.func, node.args, [*node.keywords, ast.keyword("dim", ast.Constant(-1))])
        if runs(whole, failure.frame):
            x = next(iter(failure.tensors()), None)
            shape = "" if x is None else f"{x.text}{at(x)} is {tuple(x.value.shape)}, and -1 its last dimension: "
            return f"{shape}{text_of(whole)}"
    return None


@remedy(
    r"linear: input is|do not broadcast|inner sizes differ|shapes cannot be multiplied|Using a target size|"
    r"Expected input batch_size|Sizes of tensors must match"
)
def take_each_diagonal(failure: Failure, match: re.Match[str]) -> str | None:
    """A diagonal of matrices that are a batch, taken over the batch."""
    return walk_back(failure, _describe_diagonal)


def _describe_diagonal(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    for call in ast.walk(node):
        method = call.func if isinstance(call, ast.Call) else None
        if not isinstance(call, ast.Call) or not isinstance(method, ast.Attribute) or method.attr != "diagonal":
            continue
        given = call.args[0] if call.args and text_of(method.value) == "torch" else method.value
        held = evaluate(given, failure.frame) if len(call.args) < 2 and not call.keywords else None
        if isinstance(held, Tensor) and held.ndim > 2:
            own = find_origin(source, given, failure.stack)
            told = f"{text_of(given)}{'' if own is None else f' at {own.place()}'} is {tuple(held.shape)}"
            told += f", and {text_of(call)} at {source.place_of(call)} is over its first two dimensions"
            return f"{told}: {text_of(given)}.diagonal(dim1=-2, dim2=-1) there is that of each matrix"
    return None


@remedy(r"iteration over a 0-d tensor")
def unpack_along(failure: Failure, match: re.Match[str]) -> str | None:
    """Values and places of a maximum, which is given for a dimension alone."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    call = statement.value if isinstance(statement, ast.Assign) else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(call, ast.Call) or not isinstance(target, ast.Tuple) or not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr not in ("max", "min", "median", "mode"):
        return None
    whole = ast.Call(call.func, call.args, [*call.keywords, ast.keyword("dim", ast.Constant(-1))])
    names = ", ".join(map(text_of, target.elts))
    told = f"{text_of(call)} is the one number of all"
    return f"{told}, and along a dimension it gives values and places: {names} = {text_of(whole)}"


@remedy(r"'Tensor' object has no attribute '(append|extend|push)'")
def collect_in_list(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor that is to grow as a list does."""
    node = failure.node
    node = node if isinstance(node, ast.Attribute) else getattr(node, "func", None)
    own = None if not isinstance(node, ast.Attribute) else failure.find_operand(text_of(node.value))
    if own is None or not own.text.isidentifier():
        return None
    told = f"{own.text}{at(own)} is a tensor, which does not grow: {own.text} = [] there"
    return f"{told}, and torch.stack({own.text}) of tensors or torch.tensor({own.text}) of numbers after the loop"


@remedy(r"(?:list|tuple|dict) is not a Module subclass")
def name_layers(failure: Failure, match: re.Match[str]) -> str | None:
    """Layers with names in a list of pairs, or in a dictionary."""
    node = failure.node
    given = compute(node.args[0], failure.frame) if isinstance(node, ast.Call) and len(node.args) == 1 else None
    if not isinstance(node, ast.Call) or not text_of(node.func).endswith("Sequential"):
        return None
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, (list, tuple)) or not pairs:
        return None
    if not all(isinstance(each, tuple) and len(each) == 2 and is_module(each[1]) for each in pairs):
        return None
    told = f"{len(pairs)} modules with names come in an OrderedDict"
    return f"{told}: {text_of(node.func)}(collections.OrderedDict({text_of(node.args[0])}))"


@remedy(r"only integer tensors of a single element can be converted to an index")
def index_list(failure: Failure, match: re.Match[str]) -> str | None:
    """A list that is indexed by many places at once."""
    node = failure.node
    if not isinstance(node, ast.Subscript):
        return None
    held, index = compute(node.value, failure.frame), compute(node.slice, failure.frame)
    if type(held) not in (list, tuple) or not isinstance(index, Tensor) or index.ndim != 1:
        return None
    own = failure.find_operand(text_of(node.value))
    told = f"{text_of(node.value)}{at(own)} is a {type(held).__name__}, which takes one place at a time"
    places = f"{bracket(node.slice)}{'.nonzero().flatten()' if index.dtype == bool_ else ''}.tolist()"
    return f"{told}: [{text_of(node.value)}[i] for i in {places}]"


@remedy(r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)|first dimensions are \d+, \d+$")
def slice_alike(failure: Failure, match: re.Match[str]) -> str | None:
    """Inputs and targets that were cut at different rows."""
    source = None if failure.line is None else failure.line.source
    parts = [each for each in ast.walk(failure.node) if isinstance(each, ast.Name)] if failure.node else []
    names = [each.id for each in sorted(parts, key=lambda each: (each.lineno, each.col_offset))]
    cuts: dict[str, tuple[str, str]] = {}
    for name in names if source is not None and failure.line is not None else ():
        if (
            source is None
            or failure.line is None
            or not isinstance(evaluate(ast.Name(name, ast.Load()), failure.frame), Tensor)
        ):
            continue
        made = find_assignment(source, source.scope_of(failure.line.node), name, failure.line.node)
        value = None if made is None else find_value_of(made, name) or getattr(made, "value", None)
        if made is not None and isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
            cuts[name] = text_of(value.slice), f"{name} at {Origin(source, made).place()} is {text_of(value)}"
    if len(cuts) != 2 or len({cut for cut, _ in cuts.values()}) != 2:
        return None
    first = next(iter(cuts.values()))[0]
    return f"{' and '.join(told for _, told in cuts.values())}: the same rows of both, [{first}]"


@remedy(r"prob_dist must be 1 or 2 dim")
def draw_rows(failure: Failure, match: re.Match[str]) -> str | None:
    """Distributions in more dimensions than a draw takes."""
    x = next((each for each in failure.tensors() if each.value.ndim > 2), None)
    node = failure.node
    if x is None or not isinstance(node, ast.Call):
        return None
    shape = ", ".join(map(str, x.value.shape[:-1]))
    told = f"{x.text}{at(x)} is {tuple(x.value.shape)}"
    rest = ", ".join([f"{x.text}.flatten(0, -2)", *map(text_of, node.args[1:]), *map(text_of, node.keywords)])
    return f"{told}, and rows of one matrix are wanted: {text_of(node.func)}({rest}).reshape({shape}, -1)"

"""Remedies for sizes that a line above has written: short tables, windows past an end, lists with tensors, lengths."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue, Origin
from adjoint.diagnosis.remedies.registry import argument_node, at, find_named_argument, remedy
from adjoint.diagnosis.remedies.shapes.number_origins import find_number
from adjoint.diagnosis.repairs.expression import Edit, parse
from adjoint.diagnosis.repairs.trial import compute, runs
from adjoint.diagnosis.source_expressions import find_assignment, parameter_names, text_of

MAX_STEPS_BACK = 3
LENGTH = re.compile("len|max|size|num|seq|pos")
BROADCAST = r"shapes \(([\d, ]*)\) (?:and )?\(([\d, ]*)\)"


@remedy(BROADCAST)
def lengthen_table(failure: Failure, match: re.Match[str]) -> str | None:
    """A table of which a slice asks for more rows than it has, as of positions for a longer text."""
    for node in ast.walk(failure.node) if failure.node is not None else ():
        if not isinstance(node, ast.Subscript):
            continue
        table = compute(node.value, failure.frame)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for dim, part in enumerate(parts):
            if not isinstance(table, Tensor) or not isinstance(part, ast.Slice) or part.upper is None:
                continue
            wanted, size = compute(part.upper, failure.frame), table.shape[dim] if dim < table.ndim else 0
            if not isinstance(wanted, int) or not 0 < size < wanted:
                continue
            own = failure.find_operand(text_of(node.value))
            told = f"{text_of(node.value)}{at(own)} has {size} rows, and [{text_of(part)}] asks for {wanted}"
            setting = None if own is None or own.origin is None else _find_length_setting(own.origin)
            if setting is None or own is None or own.origin is None:
                return f"{told}: {wanted} rows or more there"
            number = find_number(own.origin.source, setting, is_shared=True)
            if number is not None:
                return f"{told}: {number.describe(wanted)}, or more"
            scope = own.origin.source.scope_of(own.origin.node)
            defaults = [] if isinstance(scope, (ast.ClassDef, ast.Module)) else [*scope.args.defaults]
            names = parameter_names(scope)[-len(defaults) :] if defaults else []
            is_default = setting.id in names
            place = own.origin.source.place_of(defaults[names.index(setting.id)]) if is_default else "there"
            return f"{told}: {setting.id}={wanted} or more, {place}"
    return None


def _find_length_setting(origin: Origin) -> ast.Name | None:
    """Return the name of a length that a statement gives to a table, or one before it that made what it stores."""
    node: ast.AST | None = origin.value or origin.node
    for _ in range(MAX_STEPS_BACK):
        names = [each for each in ast.walk(node) if isinstance(each, ast.Name)] if node is not None else []
        found = next((each for each in names if LENGTH.search(each.id)), None)
        if found is not None:
            return found
        scope = None if node is None else origin.source.scope_of(node)
        made = [find_assignment(origin.source, scope, each.id, each) for each in names] if scope is not None else []
        node = next((getattr(each, "value", None) for each in made if each is not None), None)
    return None


@remedy(rf"^(?:ge|gt|le|lt|eq|ne): {BROADCAST}")
def compare_each(failure: Failure, match: re.Match[str]) -> str | None:
    """Positions in a row against a number for each sample, as a mask of lengths is made."""
    node = failure.node
    if not isinstance(node, ast.Compare) or len(node.comparators) != 1:
        return None
    for row, column in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
        positions, own = compute(row, failure.frame), failure.find_operand(text_of(column))
        is_row = isinstance(positions, Tensor) and positions.ndim in (1, 2) and positions.shape[:-1] in ((), (1,))
        if not is_row or own is None or not isinstance(own.value, Tensor) or own.value.ndim != 1:
            continue
        if "arange" in text_of(row):
            changed = Edit(column, parse(f"{own.text}[:, None]")).apply(node)
            return f"{own.text}{at(own)} is {tuple(own.value.shape)}, a number for each sample: {text_of(changed)}"
    return None


@remedy(r"stack expects each tensor to be equal size, but got \[(\d+).*\] at entry 0 and \[(\d+).*\] at entry (\d+)")
def end_windows(failure: Failure, match: re.Match[str]) -> str | None:
    """Windows of a series that begin too near to its end."""
    given = argument_node(failure, 0, "tensors")
    own = None if given is None else failure.find_operand(text_of(given))
    if own is not None and own.origin is not None and own.origin.value is not None:
        given = own.origin.value
    if not isinstance(given, ast.ListComp) or len(given.generators) != 1 or not 0 < int(match[2]) < int(match[1]):
        return None
    loop = given.generators[0]
    counted = loop.iter
    parts = [each for each in ast.walk(given.elt) if isinstance(each, ast.Slice) and each.lower is not None]
    begins = any(text_of(loop.target) in text_of(each.lower) for each in parts if each.lower is not None)
    if not begins or not isinstance(counted, ast.Call) or text_of(counted.func) != "range" or len(counted.args) != 1:
        return None
    told = f"window {match[3]} begins too near to the end and has {match[2]} values of {match[1]}"
    return f"{told}: for {text_of(loop.target)} in range({match[3]}){at(own)}"


@remedy(r"unsupported operand type\(s\) for \S+: '(Tensor|list|tuple)' and '(Tensor|list|tuple)'")
def make_list_tensor(failure: Failure, match: re.Match[str]) -> str | None:
    """A list of numbers, such as one for each channel, beside a tensor."""
    node = failure.node
    if not isinstance(node, ast.BinOp):
        return None
    for side in (node.right, node.left):
        value = compute(side, failure.frame)
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, (int, float)) for each in value):
            continue
        for shape in ("", "[:, None]", "[:, None, None]"):
            made = f"torch.tensor({text_of(side)}){shape}"
            if runs(Edit(side, parse(made)).apply(node), failure.frame):
                own = failure.find_operand(text_of(side))
                return f"{text_of(side)}{at(own)} is a {type(value).__name__} of {len(value)} numbers: {made}"
    return None


@remedy(r"Expected lengths of at most (\d+), the times of the input, but got (\d+)")
@remedy(r"Expected (?:input|target)_lengths to have value at most (\d+), but got value (\d+)")
def cut_lengths(failure: Failure, match: re.Match[str]) -> str | None:
    """Lengths beyond the times that there are."""
    x = next(iter(failure.tensors()), None)
    for operand in _find_vectors(failure):
        if isinstance(operand.value, Tensor) and operand.value.numel() and int(operand.value.max()) == int(match[2]):
            told = f"{operand.text}{at(operand)} holds {match[2]}"
            shape = "" if x is None else f", and {x.text}{at(x)}, {tuple(x.value.shape)}, has {match[1]} times"
            return f"{told}{shape}: {operand.text}.clamp(max={match[1]}), or as many times as there are"
    return None


def _find_vectors(failure: Failure) -> Iterator[NamedValue]:
    node = failure.node
    yield from (each for each in failure.tensors() if each.value.ndim == 1)
    for part in (*node.args, *(each.value for each in node.keywords)) if isinstance(node, ast.Call) else ():
        value = compute(part, failure.frame)
        if isinstance(value, Tensor) and value.ndim == 1:
            yield NamedValue(text_of(part), value)


def find_bare_gradients(failure: Failure, node: ast.expr) -> str | None:
    """Return the call that gave gradients without a graph, of which an expression is made."""
    for part in ast.walk(node):
        own = failure.find_operand(text_of(part)) if isinstance(part, ast.Name) else None
        made = None if own is None or own.origin is None else own.origin.value
        for call in ast.walk(made) if made is not None else ():
            if not isinstance(call, ast.Call) or not text_of(call.func).endswith("autograd.grad"):
                continue
            if own is not None and not any(each.arg == "create_graph" for each in call.keywords):
                asked = ast.keyword("create_graph", ast.Constant(True))
                whole = text_of(ast.Call(call.func, call.args, [*call.keywords, asked]))
                return f"{own.text}{at(own)} are gradients without a graph: {whole} there"
    return None


@remedy(r"One of the differentiated Tensors does not require grad")
def keep_gradient_graph(failure: Failure, match: re.Match[str]) -> str | None:
    """Gradients by which is differentiated, and that were made without a graph."""
    given = argument_node(failure, 1, "inputs")
    return None if given is None else find_bare_gradients(failure, given)


@remedy(r"<file object>: 0 bytes are too few")
def seek_begin(failure: Failure, match: re.Match[str]) -> str | None:
    """A buffer that is read from where the writing has ended."""
    given = argument_node(failure, 0, "f")
    own = None if given is None else failure.find_operand(text_of(given))
    if own is None or type(own.value).__name__ not in ("BytesIO", "BufferedRandom", "SpooledTemporaryFile"):
        return None
    return f"{own.text}{at(own)} stands at its end, behind what was written: {own.text}.seek(0) before it"


@remedy(r"(\w+) is not an Optimizer")
def schedule_optimizer(failure: Failure, match: re.Match[str]) -> str | None:
    """A schedule of a schedule, which changes the rates of one optimizer too."""
    node, given = failure.node, argument_node(failure, 0, "optimizer")
    own = None if given is None else failure.find_operand(text_of(given))
    optimizer = None if own is None else getattr(own.value, "__dict__", {}).get("optimizer")
    names = {**failure.frame.f_globals, **failure.frame.f_locals}
    name = next((key for key, value in names.items() if value is optimizer), None) if optimizer is not None else None
    if own is None or given is None or name is None or not isinstance(node, ast.Call):
        return None
    changed: ast.expr = copy.deepcopy(node, {id(given): ast.Name(name, ast.Load())})
    told = f"{own.text}{at(own)} is a schedule of {name}"
    return f"{told}: {text_of(changed)}, and lr_scheduler.SequentialLR or ChainedScheduler for both"


@remedy(r"cannot assign '.*' as parameter '(\w+)'")
def share_parameter(failure: Failure, match: re.Match[str]) -> str | None:
    """A parameter of another layer that is to be shared, of which the values alone are given."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Attribute):
        return None
    if statement.value.attr != "data" or not isinstance(statement.value.value, ast.Attribute):
        return None
    target, source = text_of(statement.targets[0]), text_of(statement.value.value)
    return f"{source}.data is a plain tensor, and {source} the parameter that both can share: {target} = {source}"


@remedy(
    r"parameter group that doesn't match the size of optimizer's group: group (\d+) has (\d+) parameters?, .*?(\d+)$"
)
def load_same_optimizer(failure: Failure, match: re.Match[str]) -> str | None:
    """A state of an optimizer with another number of parameters."""
    given, node = find_named_argument(failure, "state_dict"), failure.node
    if given is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    source = given.func.value if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) else given
    names = [(text_of(each), failure.find_operand(text_of(each))) for each in (source, node.func.value)]
    told = [f"{text}{at(own)}" for text, own in names]
    return f"{told[0]} is for {match[2]} parameters, and {told[1]} has {match[3]}: make its model as the saved one was"

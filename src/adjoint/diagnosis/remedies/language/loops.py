"""Remedies for loops and unpackings: numbers without enumerate, keys where pairs or values are meant, none at all."""

from __future__ import annotations

import ast
import re

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.typing import Operand
from adjoint.data.loader import DataLoader
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, Origin, evaluate, find_origin, find_return
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import find_attribute_assignment, text_of

NUMBER_NAME = re.compile(r"(?:.*_)?(?:i|j|k|n|it|idx|index|iteration|iter|step|epoch|num)")
NUMBERING = ("enumerate", "zip", "items", "range", "product", "permutations", "combinations")
NAMING = ("parameters", "buffers", "children", "modules")  # which have a form with names


@remedy(r"^'(?:int|float)' object is not iterable$")
def count_to_number(failure: Failure, match: re.Match[str]) -> str | None:
    """A loop over one number, which is how often it is to turn."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    if not isinstance(statement, (ast.For, ast.AsyncFor)) or isinstance(statement.target, ast.Tuple):
        return None
    count, text = compute(statement.iter, failure.frame), text_of(statement.iter)
    if type(count) is not int:
        return None
    return f"{text}{at(failure.find_operand(text))} is one number, {count}: range({text}) counts to it"


@remedy(r"^'(?:type|function|method|builtin_function_or_method)' object does not support the context manager protocol")
def call_context_manager(failure: Failure, match: re.Match[str]) -> str | None:
    """A `with` of a class or a function, which was not called."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    for item in statement.items if isinstance(statement, (ast.With, ast.AsyncWith)) else ():
        if callable(evaluate(item.context_expr, failure.frame)):
            return f"{text_of(item.context_expr)} was not called: with {text_of(item.context_expr)}():"
    return None


@remedy(r"unpack|^iteration over a 0-d tensor|object is not iterable")
def number_items(failure: Failure, match: re.Match[str]) -> str | None:
    """A loop with a name for the number of each item, and without enumerate."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    target = statement.target if isinstance(statement, (ast.For, ast.AsyncFor)) else None
    if failure.line is None or not isinstance(statement, (ast.For, ast.AsyncFor)) or not isinstance(target, ast.Tuple):
        return None
    called = statement.iter.func if isinstance(statement.iter, ast.Call) else None
    if called is not None and text_of(called).rpartition(".")[2] in (*NUMBERING, *NAMING):
        return None
    if isinstance(evaluate(statement.iter, failure.frame), dict):
        return None  # of which the pairs are meant
    first = target.elts[0]
    is_nested = len(target.elts) == 2 and isinstance(target.elts[1], (ast.Tuple, ast.List))
    if not isinstance(first, ast.Name) or not (is_nested or NUMBER_NAME.fullmatch(first.id)):
        return None
    used = any(isinstance(each, ast.Name) and each.id == first.id for part in statement.body for each in ast.walk(part))
    if not is_nested and not used:
        return None
    rest = target.elts[1:]
    items = text_of(rest[0]) if len(rest) == 1 else f"({', '.join(map(text_of, rest))})"
    whole = text_of(statement.iter)
    told = f"{whole} gives its items alone, and {first.id} is to be the number of each"
    return f"{told}: for {first.id}, {items} in enumerate({whole})"


@remedy(r"(?:'|not |got |to float: |class ')(?:\w+\.)?(?:str\b|')|invalid literal|unpack|has no attribute")
def take_items(failure: Failure, match: re.Match[str]) -> str | None:
    """Keys of a dict, of which each was unpacked, or all of them were, where its values are meant."""
    nodes = [failure.line.node] if failure.line is not None else []
    parts = [each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)]
    if failure.line is not None:
        parts += [each for each in ast.walk(failure.line.source.statement_of(nodes[0])) if isinstance(each, ast.Name)]
    for part in parts:
        value = evaluate(part, failure.frame)
        origin = None if failure.line is None else find_origin(failure.line.source, part, failure.stack)
        if not isinstance(value, str) or origin is None:
            continue
        told = _describe_keys(failure, origin)
        if told is not None:
            return told
    return None


def _describe_keys(failure: Failure, origin: Origin) -> str | None:
    """Return what to write where a statement has unpacked a dict, or each of its keys."""
    node = origin.node
    if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2:
        held = evaluate(node.iter, failure.frame)
        if isinstance(held, dict):
            whole, names = text_of(node.iter), ", ".join(map(text_of, node.target.elts))
            told = f"{whole} at {origin.place()} is a dict, and a loop goes through its keys, of which each is unpacked"
            return f"{told}: for {names} in {whole}.items()"
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    held = evaluate(node.value, failure.frame) if isinstance(node, ast.Assign) else MISSING
    if isinstance(target, ast.Tuple) and isinstance(node, ast.Assign) and isinstance(held, dict):
        name, names = text_of(node.value), ", ".join(map(text_of, target.elts))
        told = f"{name} is a dict, and {names} at {origin.place()} get its keys, {', '.join(map(repr, held))}"
        values = ", ".join(f"{name}[{key!r}]" for key in held)
        return (
            f"{told}: {names} = {values}" if len(held) == len(target.elts) else f"{told}: {name}[{next(iter(held))!r}]"
        )
    return None


def explain_emptiness(failure: Failure, node: ast.expr) -> str | None:
    """Return why what a loop goes through has no items: a loader without a whole batch, a dataset without samples."""
    if isinstance(node, ast.Call) and text_of(node.func).rpartition(".")[2] in ("enumerate", "tqdm", "iter", "len"):
        node = node.args[0] if node.args else node
    held: Operand = evaluate(node, failure.frame)
    source = None if failure.line is None else failure.line.source
    origin = None if source is None or held is MISSING else find_origin(source, node, failure.stack)
    name = f"{text_of(node)}{at(NamedValue('', None, origin))}"
    if isinstance(held, DataLoader):
        dataset: Operand = held.dataset
        count = len(dataset) if hasattr(type(dataset), "__len__") else -1
        if count > 0 and held.drop_last and held.batch_size is not None and count < held.batch_size:
            told = f"{name} has {pluralize(count, 'sample')}, fewer than its batch_size={held.batch_size}"
            return f"{told}, and drops that batch: drop_last=False there, or a smaller batch_size"
        return None if count else f"{name} gives no batch, as its dataset is empty{_name_empty_part(dataset)}"
    if held is not MISSING and hasattr(type(held), "__len__") and type(held).__module__ != "builtins":
        return f"{name} is empty{_name_empty_part(held)}" if hasattr(held, "__dict__") and not len(held) else None
    return None


def _name_empty_part(dataset: Operand) -> str:
    """Return which list of the user's dataset is empty, with the line that made it."""
    for key, value in getattr(dataset, "__dict__", {}).items():
        made = find_attribute_assignment(dataset, key) if type(value) in (list, tuple, dict) and not value else None
        if made is not None:
            place = made[0].place_of(made[1])
            return f": self.{key} at {place}, {made[0].text_of(made[1])}, keeps none of what it is given"
    return ": look at what fills it, such as a path or a filter that leaves nothing"


@remedy(r"too many values to unpack|not enough values to unpack")
def count_results(failure: Failure, match: re.Match[str]) -> str | None:
    """More or fewer names than the user's function returns, whose return shows them."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if failure.line is None or not isinstance(statement, ast.Assign) or not isinstance(target, ast.Tuple):
        return None
    if not isinstance(statement.value, ast.Call):
        return None
    returned = find_return(Origin(failure.line.source, statement), failure.stack)
    given = None if returned is None else getattr(returned.node, "value", None)
    if (
        returned is None
        or not isinstance(given, ast.Tuple)
        or any(isinstance(each, ast.Starred) for each in given.elts)
    ):
        return None
    names, texts = list(map(text_of, target.elts)), list(map(text_of, given.elts))
    if len(names) == len(texts):
        return None
    told = (
        f"{text_of(statement.value)} gives {len(texts)} values, {returned.describe()}, and here are {len(names)} names"
    )
    if all(name in texts for name in names):
        fitting = [each if each in names else "_" for each in texts]
    elif len(texts) > len(names):
        fitting = _place_names(names, texts)
    else:
        return f"{told}: one more value there, or {', '.join(names[: len(texts)])} = {text_of(statement.value)}"
    return f"{told}: {', '.join(fitting)} = {text_of(statement.value)}"


def _place_names(names: list[str], texts: list[str]) -> list[str]:
    """Return the names in places of their own among more values: the last one last where that value is like it."""
    missing = len(texts) - len(names)
    is_last = names[-1] == texts[-1] or (texts[-1] in ("{}", "dict()", "info") and names[-1] in ("info", "infos", "_"))
    return [*names[:-1], *["_"] * missing, names[-1]] if is_last else [*names, *["_"] * missing]


@remedy(r"must be Tensor, not int$|'int' object has no attribute")
def number_turns(failure: Failure, match: re.Match[str]) -> str | None:
    """The number of a turn that `enumerate` counts, taken for the first part of what a loop goes through."""
    for operand in failure.operands:
        loop = None if operand.origin is None else operand.origin.node
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple):
            continue
        call, targets = loop.iter, loop.target.elts
        is_counted = isinstance(call, ast.Call) and text_of(call.func) == "enumerate" and len(targets) == 2
        is_first = is_counted and text_of(targets[0]) == operand.text and not NUMBER_NAME.fullmatch(operand.text)
        if is_first and type(operand.value) is int:
            told = f"{operand.text}{at(operand)} is the number of the turn, {operand.value}, which enumerate counts"
            return f"{told}: for i, ({', '.join(map(text_of, targets))}) in {text_of(call)} there"
    return None

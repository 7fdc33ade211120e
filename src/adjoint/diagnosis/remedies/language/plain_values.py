"""Remedies for values of Python and NumPy of another kind than the line takes: tuples, generators, dicts, archives."""

from __future__ import annotations

import ast
import inspect
import re
from numbers import Real

import numpy as np

from adjoint.core.runtime.similar_names import find_similar_name
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, evaluate, find_origin
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@remedy(r"unpack|'str' object|not 'str'$|indices must be|invalid literal|could not convert")
def take_values_within(failure: Failure, match: re.Match[str]) -> str | None:
    """A comprehension over a dict, which gives its keys, where pairs or values are meant."""
    node: ast.AST | None = None if failure.line is None else failure.line.node
    while failure.line is not None and node is not None and not isinstance(node, (ast.stmt, *COMPREHENSIONS)):
        node = failure.line.source.parents.get(node)
    for each in node.generators if isinstance(node, COMPREHENSIONS) else ():
        held = next(
            (value for place in failure.stack[:2] if (value := compute(each.iter, place.frame)) is not MISSING), None
        )
        if not isinstance(held, dict) or failure.line is None:
            continue
        whole, target = text_of(each.iter), text_of(each.target).strip("()")
        told = f"{whole}{_locate(failure, each.iter)} is a dict, and a loop goes through its keys"
        if isinstance(each.target, ast.Tuple) and len(each.target.elts) == 2:
            return f"{told}: for {target} in {whole}.items()"
        is_alike = len({type(value) for value in held.values()}) == 1
        if isinstance(each.target, ast.Name) and "unpack" not in failure.message and is_alike:
            value = next(iter(held.values()))
            return f"{told}, such as {next(iter(held))!r}: for {target} in {whole}.values(), such as {value!r}"
    return None


def _locate(failure: Failure, node: ast.expr) -> str:
    for i in range(min(2, len(failure.stack))):
        origin = None if failure.line is None else find_origin(failure.line.source, node, failure.stack[i:])
        if origin is not None:
            return at(NamedValue("", None, origin))
    return ""


@remedy(r"^object of type '(generator|map|filter|zip)' has no len\(\)")
def list_before_counting(failure: Failure, match: re.Match[str]) -> str | None:
    """A generator whose length is asked."""
    node = failure.node
    if not isinstance(node, ast.Call) or text_of(node.func) != "len" or len(node.args) != 1:
        return None
    own = failure.find_operand(text_of(node.args[0]))
    made = None if own is None or own.origin is None else own.origin.value
    text = text_of(node.args[0])
    if text.endswith(".parameters()"):
        told = f"{text} is a {match[1]}, which has no length"
        return f"{told}: sum(p.numel() for p in {text}) counts the numbers, len(list({text})) the tensors"
    wanted = f"{text} = list({text_of(made)}) there" if isinstance(made, ast.Call) else f"list({text}) before it"
    return f"{text}{at(own)} is a {match[1]}, which gives its items once and has no length: {wanted}"


@remedy(r"not supported between instances of '(?:int|float|Tensor)' and '(tuple|list)'|instances of '(tuple|list)' and")
def compare_one(failure: Failure, match: re.Match[str]) -> str | None:
    """Several numbers that are compared with one."""
    node = failure.node
    for side in (node.left, *node.comparators) if isinstance(node, ast.Compare) else ():
        value, text = evaluate(side, failure.frame), text_of(side)
        kind = match[1] or match[2]
        if type(value).__name__ != kind or not value or not all(isinstance(each, Real) for each in value):
            continue
        if kind == "list":
            return None  # of results, of which the last is the latest
        told = f"{text}{at(failure.find_operand(text))} is the {kind} {value}, and one number is compared"
        return f"{told}: one of them, such as {text}[0], or a number computed of them"
    return None


@remedy(
    r"^only integer scalar arrays can be converted to a scalar index|"
    r"^list indices must be integers or slices, not (\w+)"
)
def index_list_by_array(failure: Failure, match: re.Match[str]) -> str | None:
    """A list that is indexed by an array or a list of places."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if not isinstance(node, ast.Subscript):
            continue
        held, places = compute(node.value, failure.frame), compute(node.slice, failure.frame)
        if failure.frame.f_code.co_name == "__getitem__":
            return None  # which is given a list by a sampler of batches
        if isinstance(held, (list, tuple)) and isinstance(places, (np.ndarray, list)) and len(np.shape(places)) == 1:
            name, index = text_of(node.value), text_of(node.slice)
            told = f"{name}{at(failure.find_operand(name))} is a {type(held).__name__}, which takes one place at a time"
            if np.asarray(places).dtype == bool:
                return f"{told}: np.array({name})[{index}]"
            if all(isinstance(each, Tensor) for each in held) and len({each.shape for each in held}) == 1:
                return f"{told}: torch.stack([{name}[i] for i in {index}])"
            return f"{told}: [{name}[i] for i in {index}], or np.array({name})[{index}]"
    return None


@remedy(r"^'?(\w+) is not a file in the archive")
def name_arrays(failure: Failure, match: re.Match[str]) -> str | None:
    """An array that an archive of NumPy has not."""
    for each in failure.operands:
        files = getattr(each.value, "files", None)
        if isinstance(files, list):
            near = find_similar_name(match[1], files)
            told = f"{each.text}{at(each)} holds {', '.join(map(repr, files))}, and no {match[1]!r}"
            return f"{told}: {each.text}[{near!r}]" if near else f"{told}: one of them"
    return None


@remedy(r"'str' object has no attribute 'ownership_token'|must be Tensor, not str$")
def give_values(failure: Failure, match: re.Match[str]) -> str | None:
    """A dict of tensors, which gives its names, where a list of tensors is taken."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    for part in node.args:
        value = evaluate(part, failure.frame)
        if isinstance(value, dict) and value and all(hasattr(each, "requires_grad") for each in value.values()):
            text = text_of(part)
            given = ", ".join(f"list({text}.values())" if each is part else text_of(each) for each in node.args)
            rest = "".join(f", {text_of(each)}" for each in node.keywords)
            told = f"{text}{at(failure.find_operand(text))} is a dict, which gives its names"
            return f"{told}: {text_of(node.func)}({given}{rest})"
    return None


@remedy(r"^'(\w+)' object has no attribute '(\w+)'")
def call_inner_method(failure: Failure, match: re.Match[str]) -> str | None:
    """A method of the object that another one wraps, such as a model within a wrapper."""
    node = failure.line.node if failure.line is not None else None
    for each in ast.walk(node) if node is not None else ():
        owner = (
            evaluate(each.value, failure.frame) if isinstance(each, ast.Attribute) and each.attr == match[2] else None
        )
        if owner is None or type(owner).__name__ != match[1] or not isinstance(each, ast.Attribute):
            continue
        parts: dict[str, Operand] = {
            **getattr(owner, "__dict__", {}),
            **getattr(owner, "__dict__", {}).get("_modules", {}),
        }
        for name, part in parts.items():
            method = inspect.getattr_static(type(part), match[2], None)
            if not name.startswith("_") and inspect.isfunction(method) and type(part).__module__ != "builtins":
                text = text_of(each.value)
                told = f"{text}{at(failure.find_operand(text))} is a {match[1]} around a {type(part).__name__}"
                return f"{told}, which has {match[2]}: {text}.{name}.{match[2]}"
    return None


@remedy(r"result type \w+ can't be cast to the desired output type (\w+)")
def leave_counts_out(failure: Failure, match: re.Match[str]) -> str | None:
    """An item of a state that is a count, such as that of BatchNorm's batches, and is averaged like the others."""
    called = getattr(failure.node, "func", None)
    receiver = called.value if isinstance(called, ast.Attribute) else None
    held = compute(receiver, failure.frame) if isinstance(receiver, ast.Subscript) else None
    if not isinstance(receiver, ast.Subscript) or not isinstance(held, Tensor) or held.is_floating_point():
        return None
    key, text = compute(receiver.slice, failure.frame), text_of(receiver)
    told = f"{text}, where {text_of(receiver.slice)} is {key!r}, is {match[1].lower()}"
    return f"{told}: if {text}.is_floating_point(): before it, and {text}.copy_(…) for the others"


@remedy(r"argument '\w+' \(position \d+\) must be Tensor, not (?:list|tuple)$")
def add_losses(failure: Failure, match: re.Match[str]) -> str | None:
    """A list of outputs in a loss, each of which has its own."""
    node = failure.node
    if not isinstance(node, ast.Call) or not node.args:
        return None
    value, name = evaluate(node.args[0], failure.frame), text_of(node.func)
    is_loss = "Loss" in type(evaluate(node.func, failure.frame)).__name__ or re.search(r"loss|entropy", name)
    is_list = isinstance(value, list) and len(value) > 1 and all(isinstance(each, Tensor) for each in value)
    if not is_loss or not is_list:
        return None
    text, rest = text_of(node.args[0]), ", ".join(["each", *map(text_of, (*node.args[1:], *node.keywords))])
    told = f"{text}{at(failure.find_operand(text))} is a list of {len(value)} outputs, each with its own loss"
    return f"{told}: sum({name}({rest}) for each in {text})"


@remedy(r"unsupported operand type\(s\) for /: 'str' and 'str'")
def join_paths(failure: Failure, match: re.Match[str]) -> str | None:
    """Parts of a path that are texts, which / does not join."""
    node = failure.node
    if not isinstance(node, ast.BinOp):
        return None
    left, right = text_of(node.left), text_of(node.right)
    own = at(failure.find_operand(left)) or _locate(failure, node.left)
    return f"{left}{own} is a text, and / joins paths: Path({left}) / {right}, or os.path.join({left}, {right})"


@remedy(r"unsupported operand type\(s\) for \+: 'int' and '(dict|list|tuple)'")
def sum_parts(failure: Failure, match: re.Match[str]) -> str | None:
    """A sum of dicts or lists, of which one part each is meant."""
    node = failure.node
    held = evaluate(node.args[0], failure.frame) if isinstance(node, ast.Call) and len(node.args) == 1 else None
    if not isinstance(node, ast.Call) or text_of(node.func) != "sum" or not isinstance(held, (list, tuple)) or not held:
        return None
    text = text_of(node.args[0])
    around = None if failure.line is None else failure.line.source.parents.get(node)
    key = around.slice if isinstance(around, ast.Subscript) else ast.Constant(next(iter(held[0]), 0))
    part = text_of(key) if isinstance(held[0], dict) or isinstance(around, ast.Subscript) else "0"
    own = at(failure.find_operand(text)) or _locate(failure, node.args[0])
    told = f"{text}{own} holds {len(held)} of {match[1]}, which do not add up"
    return f"{told}: sum(each[{part}] for each in {text})"


@remedy(r"boolean index did not match indexed array along (?:axis|dimension) (\d+).* (?:is|of) (\d+) but .*? (\d+)")
def fit_mask(failure: Failure, match: re.Match[str]) -> str | None:
    """A mask of NumPy of another length than what it chooses from."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        held = evaluate(node.value, failure.frame) if isinstance(node, ast.Subscript) else None
        mask = evaluate(node.slice, failure.frame) if isinstance(node, ast.Subscript) else None
        if not isinstance(node, ast.Subscript) or not isinstance(held, np.ndarray) or not isinstance(mask, np.ndarray):
            continue
        x, m = text_of(node.value), text_of(node.slice)
        told = f"{m}{_locate(failure, node.slice)} has {len(mask)} truths, and {x}{_locate(failure, node.value)}"
        return f"{told} {len(held)} rows: a mask computed of {x}, with one truth for each row"
    return None

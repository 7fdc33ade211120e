"""Remedies for what Python refuses by the values: places past the end, empty divisors, texts, assertions, recursion."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable
from numbers import Real

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, describe_value, evaluate, is_module
from adjoint.diagnosis.remedies.language.loops import explain_emptiness
from adjoint.diagnosis.remedies.registry import at, find_length, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import find_expression, parameter_names, text_of


def locate(failure: Failure, node: ast.expr) -> str:
    """Return " at train.py:9" for the line that made the value of an expression, where that is known."""
    text = text_of(node)
    return at(failure.find_operand(text))


def _find_cut_argument(failure: Failure, node: ast.expr) -> str | None:
    """Return the slice, with its place, that the caller gives for a parameter of the function that failed."""
    source, call = (find_expression(failure.stack[1]) if len(failure.stack) > 1 else None) or (None, None)
    if source is None or failure.line is None or not isinstance(call, ast.Call) or not isinstance(node, ast.Name):
        return None
    names = [each for each in parameter_names(failure.line.source.scope_of(node)) if each != "self"]
    given = call.args[names.index(node.id)] if node.id in names and names.index(node.id) < len(call.args) else None
    is_cut = isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Slice)
    return f"{text_of(given)} at {source.place_of(given)}" if given is not None and is_cut else None


@remedy(r"^(list|tuple|string|range object)(?: assignment)? index out of range")
def stay_in_list(failure: Failure, match: re.Match[str]) -> str | None:
    """A place past the end of a list."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if not isinstance(node, ast.Subscript):
            continue
        held, place = compute(node.value, failure.frame), compute(node.slice, failure.frame)
        if (
            not isinstance(held, (list, tuple, str, range))
            or not hasattr(type(place), "__index__")
            or isinstance(place, slice)
        ):
            continue
        if -len(held) <= int(place) < len(held):
            continue
        name, where = text_of(node.value), locate(failure, node.value)
        if not held:
            return f"{name}{where} is empty: nothing was added to it before, or a filter left nothing"
        length = find_length(failure)
        if length is not None and int(place) == len(held):
            return f"{name}{where} has {len(held)} items, and {length.describe()} says more: return len({name}) there"
        cut = _find_cut_argument(failure, node.value)
        if cut is not None:
            return (
                f"{cut} gives {len(held)} items as {name}, and {text_of(node)} is read: {int(place) + 1} or more there"
            )
        told = f"{name}{where} has {len(held)} items, 0 to {len(held) - 1}"
        key = (
            ""
            if isinstance(node.slice, ast.Constant)
            else f"{text_of(node.slice)}{locate(failure, node.slice)} is {int(place)}"
        )
        if not key:
            return f"{told}: {name}[{len(held) - 1}], or {name}[-1], is the last"
        if int(place) == len(held):
            return (
                f"{told}, and {key}: the number of items is one past the last, so {text_of(node.slice)} - 1, or a "
                "loop that ends before it"
            )
        return f"{told}, and {key}: a place below {len(held)}, or {int(place) + 1} items in {name}"
    return None


@remedy(
    r"^(?:division by zero|float division by zero|integer division or modulo by zero|float modulo|"
    r"integer modulo by zero|float floor division by zero)"
)
def divide_by_some(failure: Failure, match: re.Match[str]) -> str | None:
    """A division by a number that is 0."""
    node = failure.node
    if not isinstance(node, (ast.BinOp, ast.AugAssign)):
        return None
    divisor = node.right if isinstance(node, ast.BinOp) else node.value
    if isinstance(divisor, ast.Constant):  # as it was meant
        return None
    told = f"{text_of(divisor)}{locate(failure, divisor)} is 0"
    if isinstance(divisor, ast.Call) and text_of(divisor.func) == "len" and divisor.args:
        inner = divisor.args[0]
        empty = explain_emptiness(failure, inner)
        if empty is not None:
            return f"{told}, for {empty}"
        kind = type(evaluate(inner, failure.frame)).__name__
        reason = (
            "fewer samples than one batch, with drop_last=True, or none"
            if kind == "DataLoader"
            else "nothing was added to it"
        )
        return (
            f"{told}, for {text_of(inner)}{locate(failure, inner)} is empty ({reason}): max({text_of(divisor)}, "
            "1), or see that it has items"
        )
    return f"{told}: max({text_of(divisor)}, 1), or see that something was counted before"


@remedy(r"could not convert string to float: '?(.*?)'?$|invalid literal for int\(\) with base 10: '(.*)'")
def read_number(failure: Failure, match: re.Match[str]) -> str | None:
    """A text that is no number."""
    text = match[1] if match[1] is not None else match[2]
    if match[2] is not None and re.fullmatch(r"\s*-?\d*\.\d+(?:e-?\d+)?\s*", text):
        return f"{text!r} has a point, and int() reads whole numbers: int(float(…))"
    if not text.strip():
        return "the text is empty, as an empty cell of a table is: leave such rows out, or a number for them"
    if re.fullmatch(r"\s*-?[\d,]+(?:\.\d+)?\s*", text) and "," in text:
        return f"{text!r} has commas: .replace(',', '') before it becomes a number"
    return (
        f"{text!r} is a text: leave its column or its line (a header) out, or give each text a number, as "
        f"{{name: i for i, name in enumerate(sorted(set(names)))}} does"
    )


@remedy(r"")
def compare_sides(failure: Failure, match: re.Match[str]) -> str | None:
    """An assertion of the user's: what both sides of its comparison are."""
    found = find_expression(failure.stack[0]) if isinstance(failure.error, AssertionError) else None
    node = None if found is None else found[0].statement_of(found[1])
    if failure.stack[0].called or not isinstance(node, ast.Assert):
        return None
    test = node.test
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        test = next((each for each in test.values if compute(each, failure.frame) is False), test)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        sides = [(each, compute(each, failure.frame)) for each in (test.left, test.comparators[0])]
        told = [
            f"{text_of(each)} is {_describe(value)}"
            for each, value in sides
            if value is not MISSING and not isinstance(each, ast.Constant)
        ]
        owners = [
            part
            for each in ast.walk(test)
            if isinstance(each, ast.Attribute) and isinstance(part := each.value, ast.Name)
        ]
        places = [f"{text_of(each)}{where}" for each in owners if (where := locate(failure, each))]
        made = f" ({', '.join(places)})" if places else ""
        return f"{' and '.join(told)}{made}: {text_of(test)} is wanted" if told else None
    if isinstance(test, ast.Call) and text_of(test.func) == "isinstance" and len(test.args) == 2:
        value = evaluate(test.args[0], failure.frame)
        if value is not MISSING:
            name = text_of(test.args[0])
            return (
                f"{name}{locate(failure, test.args[0])} is a {type(value).__name__}: a {text_of(test.args[1])} is "
                "wanted"
            )
    return None


def _describe(value: Operand) -> str:
    if isinstance(value, tuple) and all(isinstance(each, int) for each in value):
        return str(tuple(value))
    return describe_value(value)


@remedy(r"^maximum recursion depth exceeded")
def end_recursion(failure: Failure, match: re.Match[str]) -> str | None:
    """A function that calls itself without an end."""
    codes = [place.frame.f_code for place in failure.stack]
    place = next((each for each in failure.stack if codes.count(each.frame.f_code) > 2), None)
    found = None if place is None else find_expression(place)
    if place is None or found is None:
        return None
    source, node = found
    name, text = place.frame.f_code.co_name, text_of(node)
    told = f"{name} calls itself at {source.place_of(node)}, {text}"
    if isinstance(node, ast.Call) and text_of(node.func) == "self":
        return f"{told}, for self(…) calls {name}: call a layer of it, self.layer(…)"
    if name in ("__getattr__", "__setattr__", "__getattribute__"):
        return f"{told}: super().{name}(…) there"
    return f"{told}: a condition that ends it, or another function's name there"


@remedy(r"unhashable type: '(?:numpy\.)?(\w+)'")
def hash_value(failure: Failure, match: re.Match[str]) -> str | None:
    """A list or an array as a key."""
    for each in failure.operands:
        if type(each.value).__name__ == match[1]:
            way = {
                "list": "tuple({})",
                "ndarray": "{}.item(), or tuple({})",
                "dict": "tuple({}.items())",
                "set": "frozenset({})",
            }
            return (
                f"{each.text}{at(each)} is a {match[1]}, which no key can be: "
                f"{way.get(match[1], 'tuple({})').replace('{}', each.text)}"
            )
    return None


@remedy(r"'(NoneType|int|float|bool|Tensor|str|\w+)' object is not callable")
def call_value(failure: Failure, match: re.Match[str]) -> str | None:
    """A value that is called: a name that hides a function, or a property."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    value = compute(node.func, failure.frame)
    made = node.func.value if isinstance(node.func, ast.Attribute) else None
    owner = None if made is None else evaluate(made, failure.frame)
    owner = evaluate(made.func, failure.frame) if isinstance(made, ast.Call) else type(owner)
    if isinstance(node.func, ast.Attribute) and isinstance(getattr(owner, node.func.attr, None), property):
        if node.func.attr == "shape" and len(node.args) == 1:
            x, dim = text_of(node.func.value), text_of(node.args[0])
            return f"{x}.shape is a Size, which square brackets read: {x}.shape[{dim}], or {x}.size({dim})"
        return (
            f"{node.func.attr} is a property of {owner.__name__}, and gives a {match[1]}: {text_of(node.func)}, "
            "without ()"
        )
    if value is MISSING or value is None or type(value).__name__ != match[1]:
        return None
    name, where = text_of(node.func), locate(failure, node.func)
    if isinstance(node.func, ast.Name) and hasattr(builtins, node.func.id):
        return f"{name}{where} hides Python's {name}: another name there"
    if isinstance(value, (Tensor, list, tuple, dict)):
        argument = ", ".join(map(text_of, node.args))
        told = f"{name}{where} is a {type(value).__name__}, no function"
        own = failure.find_operand(name)
        made = None if own is None or own.origin is None else own.origin.value
        if isinstance(made, ast.Tuple) and len(made.elts) == 1:
            return f"the comma at the end of {name} = {text_of(made.elts[0])},{where} makes a tuple of it: leave it out"
        return (
            f"{told}: {name}[{argument}] reads a part, and {name} * ({argument}) is a product"
            if argument
            else f"{told}: without ()"
        )
    return None


@remedy(r"can't multiply sequence by non-int of type '(\w+)'")
def multiply_numbers(failure: Failure, match: re.Match[str]) -> str | None:
    """A list that is multiplied by a number with a point."""
    node = failure.node
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else []
    for side in sides:
        value = evaluate(side, failure.frame)
        if isinstance(value, (list, tuple, str)):
            name = text_of(side)
            if isinstance(value, (list, tuple)) and len(value) == 1:
                told = f"{name}{locate(failure, side)} is a {type(value).__name__} of one number"
                return f"{told}: {name}[0]"
            way = f"float({name})" if isinstance(value, str) else f"[x * … for x in {name}], or torch.tensor({name})"
            return f"{name}{locate(failure, side)} is a {type(value).__name__}, no number: {way}"
    return None


@remedy(r"^'str' object (?:is not callable|has no attribute)")
def loop_over_items(failure: Failure, match: re.Match[str]) -> str | None:
    """A key of a dictionary of modules, or of another one, where its value is wanted."""
    for each in failure.operands:
        node = None if each.origin is None else each.origin.node
        if not isinstance(each.value, str) or not isinstance(node, ast.For) or not isinstance(node.target, ast.Name):
            continue
        held = evaluate(node.iter, failure.frame)
        if type(held).__name__ in ("ModuleDict", "ParameterDict", "dict") and isinstance(held, Iterable):
            name = text_of(node.iter)
            return f"{each.text}{at(each)} is a key of {name}: for {each.text} in {name}.values()"
    return None


@remedy(r"'(\w+)' object is not iterable|object of type '(\w+)' has no len\(\)")
def loop_over_groups(failure: Failure, match: re.Match[str]) -> str | None:
    """An optimizer, or a model, in place of the groups or the parts that it holds."""
    for each in failure.operands:
        is_own = is_module(each.value) and type(each.value).__name__ in match.groups()
        if is_own and not failure.stack[0].called:  # in the user's own loop, not as the argument of a call
            lists = [name for name, part in each.value.named_children() if type(part).__name__ == "ModuleList"]
            parts = f"{each.text}.{lists[0]}" if lists else f"{each.text}.children()"
            counted = f"len({parts if lists else f'list({parts})'})" if match[2] else f"for part in {parts}"
            return f"{each.text}{at(each)} is a {type(each.value).__name__}, whose parts are held within: {counted}"
        is_optimizer = type(each.value).__name__ == match[1] and "param_groups" in getattr(each.value, "__dict__", {})
        if is_optimizer and failure.stack[0].called:
            own = f"[p for group in {each.text}.param_groups for p in group['params']]"
            return f"{each.text}{at(each)} is an optimizer, and parameters are wanted: model.parameters(), or {own}"
        if is_optimizer:
            return f"{each.text}{at(each)} is an optimizer: {each.text}.param_groups holds its groups, each a dict"
    return None


@remedy(r"not supported between instances of '(\w+)' and '(\w+)'")
def compare_number(failure: Failure, match: re.Match[str]) -> str | None:
    """A list of numbers that is compared with one."""
    node = failure.node
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    for side in sides:
        value, name = evaluate(side, failure.frame), text_of(side)
        if isinstance(value, (list, tuple)) and "list" in match.groups() and all(isinstance(x, Real) for x in value):
            told = f"{name}{locate(failure, side)} is a {type(value).__name__} of {pluralize(len(value), 'number')}"
            return f"{told}: {name}[-1] is the latest, min({name}) the least"
    return None

"""Remedies for what the library calls and is no function: results of calls, numbers, methods that values hide."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from types import TracebackType

from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import UserFrame
from adjoint.diagnosis.callbacks import find_callbacks
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate, read_attribute
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.expression import parameter_names
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import (
    SourceFile,
    find_attribute_assignment,
    find_expression,
    shorten,
    text_of,
)

ITERATORS = "generator|map|filter|zip|dict_values|dict_keys|dict_items"
EXAMPLES = {"lr_lambda": "lambda epoch: {} ** epoch", "closure": "closure"}


@remedy(r"'(\w+)' object is not callable")
def show_hidden_method(failure: Failure, match: re.Match[str]) -> str | None:
    """A method that a value of the same name hides, which the user has set on the object."""
    trace: TracebackType | None = failure.error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = None if trace is None else UserFrame(trace.tb_frame, trace.tb_lasti, ())
    _, call = (None if place is None else find_expression(place)) or (None, None)
    if place is None or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    owner, name = evaluate(call.func.value, place.frame), call.func.attr
    value = MISSING if owner is MISSING else read_attribute(owner, name)
    if type(value).__name__ != match[1] or not callable(getattr(type(owner), name, None)):
        return None
    source: SourceFile | None = None if failure.line is None else failure.line.source
    within = find_attribute_assignment(owner, name)
    if within is not None:
        told = f"self.{name} at {within[0].place_of(within[1])} is {shorten(repr(value))}, and hides the method {name}"
        return f"{told}: another name there, such as self.{name}_{'flag' if isinstance(value, bool) else 'values'}"
    made = source.outside_assignments.get(name, []) if source is not None else []
    where = f" at {source.place_of(made[0])}" if source is not None and made else ""
    target = text_of(made[0]) if made else f"self.{name}"
    given = "" if name == "eval" else repr(value)
    return f"{target}{where} is {value!r}, and hides the method {name}: {target}({given}) calls it"


@remedy(r"'(\w+)' object is not callable|'(\w+)' must be callable|not a callable object")
def give_uncalled(failure: Failure, match: re.Match[str]) -> str | None:
    """A function that is called where it is given to the library, or a number in its place."""
    node = failure.node
    if not isinstance(node, ast.Call) or not failure.stack[0].called:
        return None
    names = parameter_names(node, failure.frame)
    named = [*zip([*names, *[""] * len(node.args)], node.args, strict=False)]
    for name, argument in [*named, *((str(each.arg), each.value) for each in node.keywords)]:
        value = compute(argument, failure.frame)
        if isinstance(argument, ast.Call) and (value is MISSING or type(value).__name__ in match.groups()):
            function = evaluate(argument.func, failure.frame)
            if function is MISSING and isinstance(argument.func, ast.Attribute):
                owner = evaluate(argument.func.value, failure.frame)
                function = inspect.getattr_static(type(owner), argument.func.attr, MISSING)
            if function is MISSING or isinstance(function, type) or not callable(function):
                continue
            inner = text_of(argument.func)
            rest = [text_of(each) for each in argument.args] if len(node.args) == 1 else []
            others = [inner if each is argument else text_of(each) for each in node.args]
            keywords = [
                f"{each.arg}={inner if each.value is argument else text_of(each.value)}" for each in node.keywords
            ]
            told = f"{text_of(argument)} calls {inner}, and gives its result"
            return f"{told}: {text_of(node.func)}({', '.join([*others, *rest, *keywords])})"
        if type(value).__name__ in match.groups() and name == "closure":
            told = f"{text_of(argument)} is a {type(value).__name__}, and {name} is to be a function"
            return f"{told} that computes the loss anew, if any: {text_of(node.func)}()"
        if type(value).__name__ in match.groups() and isinstance(value, (int, float)):
            own = failure.find_operand(text_of(argument))
            example = EXAMPLES.get(name, "lambda x: {}").format(text_of(argument))
            return f"{text_of(argument)}{at(own)} is a number, and {name or 'it'} is to be a function: {example}"
    return None


@remedy(
    rf"can't convert ({ITERATORS}) with elements|'({ITERATORS})' has no len|"
    rf"'({ITERATORS})' object (?:is not (?:subscriptable|reversible)|has no)"
)
def list_items(failure: Failure, match: re.Match[str]) -> str | None:
    """An iterator where a list belongs."""
    kind = match[1] or match[2] or match[3]
    node = failure.node
    given = node.args if isinstance(node, ast.Call) else []
    name = next((text_of(each) for each in given if _is_of_kind(failure, each, kind)), None)
    if name is None or not failure.stack[0].called:
        return None
    own = failure.find_operand(name)
    return f"{name}{at(own)} is a {kind}, which gives its items one after the other: list({name})"


def _is_of_kind(failure: Failure, node: ast.expr, kind: str) -> bool:
    value: Operand = evaluate(node, failure.frame)
    return type(value).__name__ == kind


@remedy(r"'module' object is not callable")
def name_class(failure: Failure, match: re.Match[str]) -> str | None:
    """A file of the library that is called in place of the class that it holds."""
    node = failure.node
    module = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else MISSING
    if module is MISSING and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = evaluate(node.func.value, failure.frame)
        module = MISSING if owner is MISSING else getattr(owner, node.func.attr, MISSING)
    asked = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) else None
    if asked is not None and text_of(asked.func) == "getattr" and len(asked.args) == 2:
        owner, key = (compute(each, failure.frame) for each in asked.args)
        module = getattr(owner, key, MISSING) if isinstance(key, str) else MISSING
    if not inspect.ismodule(module) or not isinstance(node, ast.Call):
        return None
    last = module.__name__.rpartition(".")[2].replace("_", "")
    name = next((each for each in vars(module) if each.lower() == last and callable(getattr(module, each))), None)
    if asked is not None and name is not None:
        return f"{text_of(asked.args[1])} is {last!r}, a file of the library: {name!r} there, the class"
    base = text_of(node.func).rpartition(".")[0]
    told = f"{text_of(node.func)} is a file of the library"
    return f"{told}: {base}.{name} is what it holds" if name and base else told if name is None else f"{told}: {name}"


@remedy(r"'(\w*Handle)' object (?:is not callable|has no attribute)")
def remove_hook(failure: Failure, match: re.Match[str]) -> str | None:
    """A handle of a hook, which takes the hook away."""
    handle = next((each for each in failure.operands if type(each.value).__name__ == match[1]), None)
    if handle is None:
        return None
    told = f"{handle.text}{at(handle)} removes its hook, {handle.text}.remove()"
    return (
        told if "callable" in failure.message else f"{told}, and holds no values: those are where the hook keeps them"
    )


@remedy(r"^$")
def begin_anew(failure: Failure, match: re.Match[str]) -> str | None:
    """An iterator that has given all of its items."""
    node = failure.node
    if not isinstance(failure.error, StopIteration) or not isinstance(node, ast.Call) or not node.args:
        return None
    name = text_of(node.args[0])
    own = failure.find_operand(name)
    made = "iter(…)" if own is None or own.origin is None or own.origin.value is None else text_of(own.origin.value)
    return f"{name}{at(own)} has given all of its items: {name} = {made} anew, or a for loop, which ends there"


@remedy(r"'(\w+)' object is not an iterator")
def take_next(failure: Failure, match: re.Match[str]) -> str | None:
    """A loader, a list or a tensor of which the next item is asked."""
    node = failure.node
    if isinstance(node, ast.Call) and text_of(node.func) == "next" and node.args:
        name = text_of(node.args[0])
        own = failure.find_operand(name)
        told = f"{name}{at(own)} is a {match[1]}, which a loop goes through"
        return f"{told}: next(iter({name})), or one iterator, batches = iter({name}), and next(batches) each time"
    return None


@remedy(r"'(\w+)' object cannot be interpreted as an integer")
def return_count(failure: Failure, match: re.Match[str]) -> str | None:
    """A `__len__` of the user's that gives no number."""
    for callback in find_callbacks(failure.stack, failure.message):
        returned = callback.find_return() if callback.code.co_name == "__len__" else None
        value = None if returned is None else getattr(returned.node, "value", None)
        if returned is not None and isinstance(value, ast.expr):
            text = text_of(value)
            wanted = f"len({text.removesuffix('.shape')})" if text.endswith(".shape") else f"int({text})"
            return f"{callback.name} at {returned.place()} gives a {match[1]}, no number: return {wanted}"
    return None


@remedy(r"^'str' object is not callable")
def find_named_class(failure: Failure, match: re.Match[str]) -> str | None:
    """The name of a class, as a configuration has it, where the class belongs."""
    node = failure.node
    name = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else None
    for place in ("optim", "optim.lr_scheduler", "nn"):
        module = sys.modules.get(f"adjoint.{place}")
        if isinstance(node, ast.Call) and isinstance(name, str) and isinstance(getattr(module, name, None), type):
            own, base = text_of(node.func), "nn" if place == "nn" else f"torch.{place}"
            told = f"{own}{at(failure.find_operand(own))} is the text {name!r}"
            return f"{told}: getattr({base}, {own})({', '.join(map(text_of, (*node.args, *node.keywords)))})"
    return None


@remedy(r"^'str' object is not callable")
def look_up_name(failure: Failure, match: re.Match[str]) -> str | None:
    """The key of a table of layers or functions, where what the table has under it belongs."""
    call = failure.node
    value = evaluate(call.func, failure.frame) if isinstance(call, ast.Call) else None
    for name, table in failure.frame.f_globals.items() if isinstance(value, str) else ():
        if isinstance(call, ast.Call) and type(table) is dict and callable(table.get(value)):
            text = text_of(call.func)
            told = f"{text}{at(failure.find_operand(text))} is {value!r}, a key of {name}"
            return f"{told}: {name}[{text}] where it is given"
    return None

"""Remedies for names: those without a value, those of pairs that a loop gives whole, attributes of other objects."""

from __future__ import annotations

import ast
import builtins
import copy
import re
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import PurePath
from types import ModuleType

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.runtime.similar_names import find_shared_word, find_spelling
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.computing import open_program, open_step
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import (
    MISSING,
    NamedValue,
    Origin,
    describe_value,
    evaluate,
    find_origin,
    find_return_in,
    is_module,
)
from adjoint.diagnosis.remedies.language.loops import explain_emptiness
from adjoint.diagnosis.remedies.language.sources_of_none import describe_unknown_value, read_test
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.source_expressions import SourceFile, find_expression, text_of

FIRST_OF_PAIR = {"enumerate": "i", "items": "key"} | {
    f"named_{parts}": "name" for parts in ("parameters", "modules", "children", "buffers")
}
USUAL_IMPORTS = """
import numpy as np
import matplotlib.pyplot as plt
import pandas as pd
import torch.nn.functional as F
from tqdm import tqdm
from pathlib import Path
from functools import partial
from collections import defaultdict
from collections import Counter
from collections import OrderedDict
from copy import deepcopy
from torch import nn
from torch import optim
from torch.utils.data import DataLoader
from torch.utils.data import Dataset
from torch.utils.data import TensorDataset
from torchvision import transforms
"""
USUAL_MODULES = (
    "os",
    "sys",
    "math",
    "time",
    "random",
    "copy",
    "json",
    "re",
    "pickle",
    "itertools",
    "functools",
    "torch",
)
BLOCKS = {"For": "the loop", "While": "the loop", "If": "the branch", "Try": "the try block", "With": "the block"}


@remedy(
    r"cannot access local variable '(\w+)' where it is not|local variable '(\w+)' referenced before|"
    r"free variable '(\w+)'"
)
def assign_first(failure: Failure, match: re.Match[str]) -> str | None:
    """A name that is given its value later, or only in a branch or a loop that did not run."""
    name = match[1] or match[2] or match[3]
    found = find_expression(failure.stack[0])
    if found is None:
        return None
    source, node = found
    scope, line = source.scope_of(node), getattr(node, "lineno", 0)
    made = source.assignments_in(scope).get(name, [])
    if not made:
        return None
    place = source.place_of(made[0])
    if name in failure.frame.f_globals and all(each.lineno >= line for each in made):
        told = f"{name} is a name of the module, and {place} makes it a local one"
        return f"{told}: global {name} at the top of the function, or give it as an argument"
    around = source.scope_of(scope)
    outer = next(iter(source.assignments_in(around).get(name, ())), None)
    if isinstance(around, ast.FunctionDef) and outer is not None and all(each.lineno >= line for each in made):
        told = f"{name} at {source.place_of(outer)} is a name of the function around, and {place} makes it a local one"
        return f"{told}: nonlocal {name} at the top of {getattr(scope, 'name', 'the function')}"
    earlier = [each for each in made if each.lineno < line]
    block = find_block(source, earlier[-1], node) if earlier else None
    if block is None:
        return f"{name} has its first value at {place}: give it one before this line"
    if isinstance(block, (ast.For, ast.AsyncFor)):
        held = evaluate(block.iter, failure.frame)
        origin = find_origin(source, block.iter, failure.stack)
        size = f", and {text_of(block.iter)}{at(NamedValue('', None, origin))} is empty" if _is_empty(held) else ""
        told = f"{name} is made in the loop at {source.place_of(block)}, which ran not once{size}"
        reason = explain_emptiness(failure, block.iter)
        if reason is not None:
            return f"{told}: {reason}"
        return f"{told}: {name} = … before the loop, or see that it has items"
    others = [find_block(source, each, node) for each in earlier]
    tests = [each.test for each in others if isinstance(each, ast.If)]
    cases = [read_test(each) for each in tests]
    subjects = {text_of(each): each for each, _ in cases if each is not None}
    first = open_step(failure, next(iter(subjects.values()))) if len(subjects) == 1 else None
    known = [value for _, values in cases for value in values]
    unknown = None if first is None else describe_unknown_value(first, known)
    if unknown is not None and all(each is not None for each, _ in cases):
        return f"{name} is made in branches alone, of which none was taken, for {unknown}"
    if len(tests) > 1:
        names = dict.fromkeys(each.id for test in tests for each in ast.walk(test) if isinstance(each, ast.Name))
        held = {key: evaluate(ast.Name(key, ast.Load()), failure.frame) for key in names}
        values = [f"{key} is {describe_value(value)}" for key, value in held.items() if value is not MISSING]
        told = f"{name} is made in branches alone, {', '.join(map(text_of, tests))}, of which none was taken"
        return f"{told}: {', '.join(values) or name}; an else: branch that makes {name} too, or raises an error"
    word = BLOCKS.get(type(block).__name__, "the block")
    condition = f" {text_of(block.test)!r}" if isinstance(block, (ast.If, ast.While)) else ""
    told = f"{name} is made in {word}{condition} at {source.place_of(block)} alone, which did not come to it"
    return f"{told}: {name} = … before it, or in each branch"


def _is_empty(held: Operand) -> bool:
    return held is not MISSING and type(held) in (list, tuple, dict, str, range) and not held


def find_block(source: SourceFile, made: ast.AST, use: ast.AST) -> ast.AST | None:
    """Return the innermost block around an assignment that is not around the use."""
    around = set[ast.AST]()
    node: ast.AST | None = use
    while node is not None:
        around.add(node)
        node = source.parents.get(node)
    node = source.parents.get(made)
    if isinstance(made, (ast.For, ast.AsyncFor)) and made not in around:
        return made
    while node is not None and node not in around:
        if type(node).__name__ in BLOCKS:
            return node
        node = source.parents.get(node)
    return None


@remedy(r"^name '(\w+)' is not defined")
def define_name(failure: Failure, match: re.Match[str]) -> str | None:
    """A name that nothing has."""
    name = match[1]
    owner = failure.frame.f_locals.get("self")
    if owner is not None:
        tables = ("_modules", "_parameters", "_buffers") if is_module(owner) else ()
        held = (
            {*vars(owner), *(key for table in tables for key in vars(owner)[table])}
            if hasattr(owner, "__dict__")
            else set()
        )
        if name in held or name in dir(type(owner)):
            return f"{name} belongs to the object: self.{name}"
    library = next(
        (
            key
            for key, each in failure.frame.f_globals.items()
            if isinstance(each, ModuleType) and "." not in each.__name__ and is_name_of_package(each.__name__)
        ),
        None,
    )
    known = [*failure.frame.f_locals, *failure.frame.f_globals]
    near = find_spelling(name, [each for each in known if not each.startswith("_")])
    own = [key for key in known if key[0] != "_" and not isinstance(evaluate(ast.Name(key), failure.frame), ModuleType)]
    near = near or find_shared_word(name, dict.fromkeys(own))
    if near is not None:
        return f"{near} is meant, perhaps"
    usual = re.search(rf"^.* {name}$", USUAL_IMPORTS, re.MULTILINE)
    other = re.search(rf"^.* {name}$", USUAL_IMPORTS, re.MULTILINE | re.IGNORECASE)
    if usual is None and other is not None and not hasattr(builtins, name):
        return f"{other[0].rpartition(' ')[2]} is meant, perhaps: {other[0]} at the top of the file"
    if name == "device" and library is not None:
        chosen = f"{library}.device('cuda' if {library}.cuda.is_available() else 'cpu')"
        made = _find_elsewhere(failure, name)
        return made or f"{name} has no value anywhere in this file: {name} = {chosen} before it"
    imported = _find_import_elsewhere(failure, name)
    if imported is not None:
        return imported
    if usual is not None:
        return f"{usual[0]} at the top of the file"
    if name in USUAL_MODULES:
        return f"import {name} at the top of the file"
    for key, each in failure.frame.f_globals.items():
        if isinstance(each, ModuleType) and not key.startswith("_") and name in dir(each):
            return f"{name} is in {key}: {key}.{name}"
    if library is not None and hasattr(failure.frame.f_globals[library], name):
        return f"{name} is in {library}: {library}.{name}"
    made = _find_elsewhere(failure, name) or _find_in_imported_module(failure, name)
    if made is not None:
        return made
    near = find_spelling(name, dir(builtins))
    return (
        f"{near} is meant, perhaps"
        if near
        else f"{name} has no value anywhere in this file: {name} = … before this line"
    )


def _find_elsewhere(failure: Failure, name: str) -> str | None:
    """Return where another function, or a later line, gives the name a value."""
    source: SourceFile | None = None if failure.line is None else failure.line.source
    for node in ast.walk(source.tree) if source is not None else ():
        if source is not None and isinstance(node, (ast.FunctionDef, ast.Module)):
            made = source.assignments_in(node).get(name)
            if not made:
                continue
            if isinstance(node, ast.Module):
                return f"{name} has its value at {source.place_of(made[0])}, after this line: move that before it"
            told = f"{name} at {source.place_of(made[0])} is a local name of {node.name}"
            owner = source.parents.get(node)
            around = source.scope_of(failure.node) if failure.node is not None else None
            if isinstance(owner, ast.ClassDef) and around is not node and owner is source.parents.get(around or node):
                return f"{told}, and a method shares it by the object: self.{name} = … there, and self.{name} here"
            return f"{told}: return it from there, or give it as an argument"
        if source is not None and isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return f"{name} begins at {source.place_of(node)}, after this line: move that before it"
    return None


def _find_in_imported_module(failure: Failure, name: str) -> str | None:
    """Return the import of a name that a module has from which the file imports other names."""
    source = None if failure.line is None else failure.line.source
    package = str(failure.frame.f_globals.get("__package__") or "")
    for node in source.nodes_of(ast.ImportFrom) if source is not None else ():
        whole = "." * node.level + (node.module or "")
        module = sys.modules.get(resolve_name(whole, package)) if package or not node.level else None
        if module is not None and name in vars(module):
            return f"from {whole} import {name} at the top of the file"
    return None


def _find_import_elsewhere(failure: Failure, name: str) -> str | None:
    """Return the statement by which another file of the program imports a name."""
    source = None if failure.line is None else failure.line.source
    for other in open_program(failure).sources if source is not None else ():
        statements: list[ast.Import | ast.ImportFrom] = [*other.nodes_of(ast.Import), *other.nodes_of(ast.ImportFrom)]
        for node in statements if other is not source else ():
            found = [alias for alias in node.names if (alias.asname or alias.name) == name]
            if found and source is not None:
                where = f" at {other.place_of(node)}"
                told = f"{name} is imported{where} alone, and each file needs an import of its own"
                node = copy.copy(node)
                node.names = found
                return f"{told}: {text_of(node)} at the top of {PurePath(source.name).name}"
    return None


@remedy(r"^'(\w+)' object has no attribute '(\w+)'")
def assign_attribute_first(failure: Failure, match: re.Match[str]) -> str | None:
    """An attribute of `self` that the same function makes after it has read it."""
    found = find_expression(failure.stack[0])
    if found is None or type(failure.frame.f_locals.get("self")).__name__ != match[1]:
        return None
    source, node = found
    for made in source.attribute_assignments.get((match[1], match[2]), []):
        if source.scope_of(made) is source.scope_of(node) and made.lineno > getattr(node, "lineno", 0):
            return f"self.{match[2]} has its first value at {source.place_of(made)}: put that before this line"
    return None


@remedy(r"^(?:'(\w+)' object|type object '\w+'|module '[\w.]+') has no attribute '(\w+)'")
def find_owner(failure: Failure, match: re.Match[str]) -> str | None:
    """A method of another object in reach, such as `step` of an optimizer that is asked of a loss."""
    node = failure.node
    attribute = (
        next((each for each in ast.walk(node) if isinstance(each, ast.Attribute) and each.attr == match[2]), None)
        if node is not None
        else None
    )
    if attribute is None or match[2].startswith("_") or not isinstance(attribute.value, (ast.Name, ast.Attribute)):
        return None
    own = evaluate(attribute.value, failure.frame)
    for name, value in _values_in_reach(failure):
        if value is own or not is_name_of_package(type(value).__module__):
            continue
        if match[2] in dir(type(value)) and not is_module(value) and not is_module(own):
            return (
                f"{text_of(attribute.value)} has no {match[2]}, and {name}, of {type(value).__name__}, has: "
                f"{name}.{match[2]}"
            )
    return None


def _values_in_reach(failure: Failure) -> Iterator[tuple[str, Operand]]:
    names = {**failure.frame.f_globals, **failure.frame.f_locals}
    yield from (
        (name, value) for name, value in names.items() if hasattr(value, "param_groups") or hasattr(value, "base_lrs")
    )


@remedy(r"(?:'|not |got |class ')(?:tuple|int|str)\b|tuple indices|too many values to unpack|not enough values")
def unpack_pairs(failure: Failure, match: re.Match[str]) -> str | None:
    """One name for the two values that each turn of a loop gives."""
    for operand in failure.operands:
        origin: Origin | None = operand.origin
        unpacked = None if origin is None or operand.value is None else origin.node
        if origin is not None and isinstance(unpacked, ast.Assign) and isinstance(unpacked.targets[0], ast.Tuple):
            value = unpacked.value  # x, y = batch
            origin = find_origin(origin.source, value, failure.stack) if isinstance(value, ast.Name) else None
        loop = None if origin is None else origin.node
        if origin is None or not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
            continue
        called = loop.iter.func if isinstance(loop.iter, ast.Call) else loop.iter
        first = FIRST_OF_PAIR.get(text_of(called).rpartition(".")[2])
        is_pair = isinstance(operand.value, tuple) and len(operand.value) == 2
        if first is not None and (is_pair or loop is not unpacked):
            name, whole = text_of(loop.target), text_of(loop.iter)
            told = f"{whole} at {origin.place()} gives pairs, and {name} is one of them"
            other = {"name": "part", "key": "value", "i": "item"}[first]
            return f"{told}: for {first}, {name if name != first else other} in {whole} there"
    return None


@remedy(r"")
def name_parameters(failure: Failure, match: re.Match[str]) -> str | None:
    """Two names for what a loop over parameters, or over the keys of a dict, gives one by one."""
    node = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    while failure.line is not None and node is not None:
        if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2:
            called = node.iter.func if isinstance(node.iter, ast.Call) else node.iter
            whole, place = text_of(node.iter), failure.line.source.place_of(node)
            names = text_of(node.target).strip("()")
            if isinstance(called, ast.Attribute) and called.attr in ("parameters", "buffers", "children", "modules"):
                named = f"{text_of(called.value)}.named_{called.attr}()"
                return f"{whole} at {place} gives no names: for {names} in {named} there"
            held = evaluate(node.iter, failure.frame)
            if isinstance(held, dict) and "unpack" in failure.message:
                return f"{whole} at {place} is a dict, and a loop goes through its keys: for {names} in {whole}.items()"
        node = failure.line.source.parents.get(node)
    return None


@remedy(r"super\(type, obj\): obj.* (must be|is not) an instance or subtype of type")
def name_own_class(failure: Failure, match: re.Match[str]) -> str | None:
    """A `super` of another class, as copied code has it."""
    found = find_expression(failure.stack[0])
    if found is None:
        return None
    source, node = found
    owner = source.parents.get(source.scope_of(node))
    for call in ast.walk(source.statement_of(node)):
        if isinstance(call, ast.Call) and text_of(call.func) == "super" and call.args:
            name = getattr(owner, "name", "of another name")
            return f"{text_of(call)} at {source.place_of(call)} stands in the class {name}: super().__init__()"
    return None


@remedy(r"__init__\(\) should return None, not '(\w+)'")
def return_nothing(failure: Failure, match: re.Match[str]) -> str | None:
    """An `__init__` that returns a value."""
    node = failure.node
    kind = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else None
    code = getattr(getattr(kind, "__init__", None), "__code__", None)
    result = None if code is None else find_return_in(code)
    if result is None:
        return None
    return f"{result.describe()}, in an __init__, which gives the object itself: leave that line out"


@remedy(r"'(?:Tensor|Parameter)' object has no attribute 'at'")
def write_item(failure: Failure, match: re.Match[str]) -> str | None:
    """`x.at[i].set(v)`, as arrays of another library are changed."""
    node: ast.AST | None = failure.node
    while failure.line is not None and node is not None and not isinstance(node, ast.stmt):
        found = re.fullmatch(r"(.+)\.at\[(.+)\]\.(set|add|multiply)\((.+)\)", text_of(node))
        if found is not None:
            sign = {"set": "=", "add": "+=", "multiply": "*="}[found[3]]
            return f"{found[1]} = {found[1]}.clone(), then {found[1]}[{found[2]}] {sign} {found[4]}"
        node = failure.line.source.parents.get(node)
    return None

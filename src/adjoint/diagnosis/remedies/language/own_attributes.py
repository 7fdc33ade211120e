"""Remedies for attributes and fields of objects of the user's or of Python: settings, dataclasses, the environment."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
import re
from types import ModuleType

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.runtime.similar_names import find_shared_word, find_spelling
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.registry import at, find_class, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import parse_source, text_of

MAX_SHOWN_NAMES = 10
MIN_LETTERS = 3
SETTINGS = ("Namespace", "SimpleNamespace")
SET_BY_LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE")


@remedy(r"^'(\w+)' object has no attribute '(\w+)'", is_last=True)
@remedy(r"^'(Namespace|SimpleNamespace)' object has no attribute '(\w+)'")
def name_own_attribute(failure: Failure, match: re.Match[str]) -> str | None:
    """An attribute that settings, or an object of the user's class, have not."""
    owner: Operand = getattr(failure.error, "obj", None)
    if owner is None or type(owner).__name__ != match[1] or is_module(owner):
        return None
    is_own = type(owner).__name__ in SETTINGS or find_class(type(owner)) is not None or dataclasses.is_dataclass(owner)
    if not is_own or is_name_of_package(type(owner).__module__):
        return None
    held = list(getattr(owner, "__dict__", {}))
    methods = [name for name, each in inspect.getmembers_static(type(owner)) if not name.startswith("_")]
    known = [each for each in dict.fromkeys([*held, *methods]) if not each.startswith("_")]
    parts = ast.walk(failure.line.node) if failure.line is not None else ()
    node = next((each for each in parts if isinstance(each, ast.Attribute) and each.attr == match[2]), None)
    text = "it" if node is None else text_of(node.value)
    origin = (
        None if node is None or failure.line is None else find_origin(failure.line.source, node.value, failure.stack)
    )
    first = [each for each in known if "_" in match[2] and each.split("_")[0] == match[2].split("_")[0]]
    first += [each for each in known if _is_shortened(each, match[2]) or _is_shortened(match[2], each)]
    near = find_spelling(match[2], known) or find_shared_word(match[2], known) or next(iter(first), None)
    has = ", ".join(known[:MAX_SHOWN_NAMES]) + (", …" if len(known) > MAX_SHOWN_NAMES else "")
    told = f"{text}{at(NamedValue('', None, origin))} has no {match[2]}, only {has or 'nothing'}"
    if near is not None:
        return f"{told}: {text}.{near} is meant, perhaps"
    if match[1] == "Namespace":
        option = match[2].replace("_", "-")
        return f"{told}: parser.add_argument('--{option}', …) where the others are"
    place = find_class(type(owner))
    return f"{told}: {match[2]} among the names of {match[1]}{'' if place is None else f' at {place}'}"


@remedy(r"mutable default <class '(?:\w+\.)*(\w+)'> for field (\w+) is not allowed")
def make_default_anew(failure: Failure, match: re.Match[str]) -> str | None:
    """A list, a tensor or a module as the default of a dataclass's field."""
    source = parse_source(failure.frame.f_code.co_filename, failure.frame.f_globals)
    for node in source.nodes_of(ast.AnnAssign) if source is not None else ():
        if source is None or text_of(node.target) != match[2] or node.value is None:
            continue
        if isinstance(source.scope_of(node), ast.ClassDef):
            value = text_of(node.value)
            factory = f"lambda: {value}" if value not in ("[]", "{}", "list()", "dict()") else match[1]
            told = f"{match[2]} at {source.place_of(node)} would have one {match[1]} for all objects"
            written = f"{match[2]}: {text_of(node.annotation)} = field(default_factory={factory})"
            return f"{told}: {written}, with from dataclasses import field"
    return None


@remedy(r"^'(\w+)'$")
def read_environment(failure: Failure, match: re.Match[str]) -> str | None:
    """A variable of the environment that is not set."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        owner = evaluate(node.value, failure.frame) if isinstance(node, ast.Subscript) else MISSING
        if owner is MISSING and isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            base = evaluate(node.value.value, failure.frame)
            owner = getattr(base, node.value.attr, MISSING) if isinstance(base, ModuleType) else MISSING
        if owner is not os.environ or not isinstance(node, ast.Subscript):
            continue
        near = find_spelling(match[1], [*os.environ, *SET_BY_LAUNCHER])
        name = near or match[1]
        meant = f": {near!r} is meant, perhaps, " if near is not None and near != match[1] else ": "
        why = "torchrun sets it, and this was started without" if name in SET_BY_LAUNCHER else "nothing has set it"
        default = {"WORLD_SIZE": "1", "MASTER_ADDR": "'localhost'", "MASTER_PORT": "'29500'"}.get(name, "0")
        default = default if name in SET_BY_LAUNCHER else "…"
        told = f"the environment has no {match[1]}"
        return f"{told}{meant}and {why}: {text_of(node.value)}.get({name!r}, {default})".replace(": and ", ", and ")
    return None


@remedy(
    r"^can only concatenate (str|list|tuple) \(not \"(\w+)\"\) to|"
    r"unsupported operand type\(s\) for \+: '(\w+)' and 'str'"
)
def join_alike(failure: Failure, match: re.Match[str]) -> str | None:
    """A number that is added to a text, or one item to a list."""
    node = failure.node
    if not isinstance(node, (ast.BinOp, ast.AugAssign)):
        return None
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.target, node.value]
    kind = match[2] or match[3]
    other = sides[0] if match[3] else sides[1]
    own = failure.find_operand(text_of(other))
    value = evaluate(other, failure.frame)
    kind_of = kind if value is MISSING else type(value).__name__
    told = f"{text_of(other)}{at(own)} is {'an' if kind_of[0] in 'aeiou' else 'a'} {kind_of}"
    first = compute(sides[0], failure.frame)
    if isinstance(node, ast.AugAssign) and first == "" and kind in ("float", "int"):
        held = failure.find_operand(text_of(getattr(sides[0], "value", sides[0])))
        begin = "0.0" if kind == "float" else "0"
        return f"{text_of(sides[0])}{at(held)} begins as an empty text, and numbers are added to it: {begin} there"
    if match[1] in (None, "str"):
        return f"{told}, and the other side a text: str({text_of(other)}), or an f-string"
    one = f"[{text_of(other)}]" if match[1] == "list" else f"({text_of(other)},)"
    if kind in ("list", "tuple", "dict_keys", "dict_values", "range", "ndarray"):
        return f"{told}, and the other side a {match[1]}: {match[1]}({text_of(other)})"
    return f"{told}, and the other side a {match[1]}: {text_of(sides[0])} + {one}"


def _is_shortened(short: str, name: str) -> bool:
    """Return whether a word is another without some of its letters: `cnt` of `count`."""
    letters = iter(name)
    is_part = all(each in letters for each in short)  # each is looked for behind the one before
    return is_part and MIN_LETTERS <= len(short) < len(name) <= 2 * len(short) and short[0] == name[0]

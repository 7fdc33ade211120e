"""Remedies for functions of the user's, and for parts asked for by a name made as it runs: `getattr(model, name)`."""

from __future__ import annotations

import ast
import inspect
import re

from adjoint.core.runtime.similar_names import find_shared_word, find_spelling
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import Stack, user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.language.sources_of_none import find_literal
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import (
    SourceFile,
    find_expression,
    find_function,
    parameter_names,
    parse_source,
    text_of,
)

MAX_SHOWN_NAMES = 10
GIVEN = r"(?:takes (?:from )?\d+ (?:to \d+ )?positional arguments? but (\d+)|got an unexpected keyword argument)"


@remedy(r"")
def make_instance(failure: Failure, match: re.Match[str]) -> str | None:
    """A class of a module that is called with data, as its instance is to be."""
    owner = failure.frame.f_locals.get("self")
    source, call = (None if len(failure.stack) < 2 else find_expression(failure.stack[1])) or (None, None)
    if source is None or not isinstance(call, ast.Call) or failure.frame.f_code.co_name != "__init__":
        return None
    outer = failure.stack[1].frame
    kind = evaluate(call.func, outer)
    is_named = not isinstance(kind, type) or text_of(call.func).rpartition(".")[2] == kind.__name__
    is_given = any(isinstance(evaluate(each, outer), Tensor) for each in call.args)
    if is_named or not is_given or not is_module(owner):
        return None
    name, origin = text_of(call.func), find_origin(source, call.func, failure.stack[1:])
    where = "" if origin is None else f" at {origin.place()}"
    made = "…" if origin is None or origin.value is None else text_of(origin.value)
    told = f"{name}{where} is the class {kind.__name__} itself, and {text_of(call)} makes an instance with the data"
    return f"{told}: {name} = {made}(), and then {text_of(call)}"


def find_giving_call(failure: Failure) -> tuple[SourceFile, ast.Call, Stack] | None:
    """Return the call that begins to hand `**options` on, through the user's functions, to the one that failed."""
    scope: ast.AST | None = None
    found = None
    for i, place in enumerate(failure.stack):
        source, call = find_expression(place) or (None, None)
        if source is None or call is None or (scope is not None and source.scope_of(call) is scope):
            continue  # a comprehension of the same function
        if not isinstance(call, ast.Call):
            return found
        found, scope = (source, call, failure.stack[i:]), source.scope_of(call)
        handed = {text_of(each.value) for each in call.keywords if each.arg is None}
        handed |= {text_of(each.value) for each in call.args if isinstance(each, ast.Starred)}
        arguments = getattr(scope, "args", None)
        own = {each.arg for each in (getattr(arguments, "kwarg", None), getattr(arguments, "vararg", None)) if each}
        if not own & handed:
            return found
    return found


def locate_keyword(failure: Failure, name: str) -> str:
    """Return which call, or which dict that a call unpacks, gives a keyword that was handed on."""
    found = find_giving_call(failure)
    if found is None:
        return ""
    source, call, stack = found
    if any(each.arg == name for each in call.keywords):
        return f"; {text_of(call)} at {source.place_of(call)} gives it" if len(stack) < len(failure.stack) else ""
    for each in call.keywords:
        held = evaluate(each.value, stack[0].frame) if each.arg is None else MISSING
        origin = find_origin(source, each.value, stack) if isinstance(held, dict) and name in held else None
        if origin is not None:
            return f"; {name!r} is a key of {text_of(each.value)} at {origin.place()}"
        texts = [
            part for part in ast.walk(source.tree) if isinstance(part, ast.Constant) and f'"{name}"' in str(part.value)
        ]
        if each.arg is None and len(texts) == 1:
            return f"; {name!r} stands in the text at {source.place_of(texts[0])}"
    return ""


@remedy(
    r"([\w.<>]+)\(\) missing \d+ required (?:positional|keyword-only) arguments?: ('\w+'(?:(?:, and |, | and )'\w+')*)"
)
def hand_options_on(failure: Failure, match: re.Match[str]) -> str | None:
    """A call without an option that the user's functions hand on by `**kwargs`."""
    found = find_giving_call(failure)
    if found is None or len(found[2]) == len(failure.stack):
        return None
    source, call, stack = found
    names = re.findall(r"'(\w+)'", match[2])
    for each in call.keywords:
        held = evaluate(each.value, stack[0].frame) if each.arg is None else MISSING
        if isinstance(held, dict):
            near = find_spelling(names[0], [key for key in held if isinstance(key, str)])
            origin = find_origin(source, each.value, stack)
            where = "" if origin is None else f" at {origin.place()}"
            told = f"{text_of(each.value)}{where} has no {names[0]!r}, which {match[1].removesuffix('.__init__')} takes"
            return f"{told}: {near!r} is meant, perhaps" if near else f"{told}: {names[0]!r} among its keys"
    given = ", ".join([*map(text_of, call.args), *map(text_of, call.keywords), *(f"{name}=…" for name in names)])
    name = re.sub(r"\.__(?:init|new)__$", "", match[1])
    told = f"{name} takes {', '.join(names)}, and {text_of(call)} at"
    return f"{told} {source.place_of(call)} gives none: {text_of(call.func)}({given})"


@remedy(r"([\w.<>]+)\(\) missing \d+ required positional arguments?")
def leave_self_out(failure: Failure, match: re.Match[str]) -> str | None:
    """A static method that was written with self."""
    definition = _find_definition(failure, match[1])
    if definition is None:
        return None
    source, function = definition
    names = parameter_names(function)
    decorators = [text_of(each) for each in function.decorator_list]
    if "staticmethod" not in decorators or names[:1] != ["self"]:
        return None
    told = f"{function.name} at {source.place_of(function)} is a staticmethod, which gets no self"
    return f"{told}: def {function.name}({', '.join(names[1:])})"


@remedy(rf"([\w.<>]+)\(\) {GIVEN}")
def define_alike(failure: Failure, match: re.Match[str]) -> str | None:
    """A method with fewer parameters than the one of another class that is called in the same place."""
    definition = _find_definition(failure, match[1])
    if definition is None or not match[2]:
        return None
    source, function = definition
    owner = source.parents.get(function)
    if not isinstance(owner, ast.ClassDef):
        return None
    others = [
        each
        for each in source.nodes_of(ast.FunctionDef)
        if each.name == function.name and source.parents.get(each) is not owner
    ]
    fitting = [each for each in others if len(parameter_names(each)) == int(match[2])]
    if not fitting or not all(isinstance(source.parents.get(each), ast.ClassDef) for each in fitting):
        return None
    other, names = source.parents[fitting[0]], ", ".join(parameter_names(fitting[0]))
    told = f"{function.name} of {owner.name} at {source.place_of(function)} takes {_list_parameters(function)}"
    told += (
        f", and that of {getattr(other, 'name', '')} at {source.place_of(fitting[0])} {_list_parameters(fitting[0])}"
    )
    return f"{told}: def {function.name}({names}) in {owner.name} too"


def _list_parameters(function: ast.FunctionDef) -> str:
    names = [name for name in parameter_names(function) if name != "self"]
    return ", ".join(names) if names else "nothing"


def _find_definition(failure: Failure, name: str) -> tuple[SourceFile, ast.FunctionDef] | None:
    """Return the definition of the user's function that an error tells by its qualified name: `Printer.update`."""
    path = [each for each in name.split(".") if each != "<locals>"]
    for frame in (place.frame for place in failure.stack):
        value: Operand = frame.f_locals.get(path[0], frame.f_globals.get(path[0]))
        for part in path[1:]:
            value = inspect.getattr_static(value, part, None)
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        source = parse_source(code.co_filename) if code is not None and user_files[code.co_filename] else None
        function = None if source is None or code is None else find_function(source, code.co_firstlineno)
        if source is not None and function is not None:
            return source, function
    return None


@remedy(r"cannot assign (?:module|parameter|buffer)s? before Module\.__init__\(\) call|has no attribute '_modules'")
def call_super_in_mixin(failure: Failure, match: re.Match[str]) -> str | None:
    """A class beside nn.Module whose `__init__` ends the chain of `super().__init__()`."""
    kinds = type(failure.frame.f_locals.get("self")).__mro__
    for i, kind in enumerate(kinds[1:], 1):
        method = vars(kind).get("__init__")
        code = getattr(method, "__code__", None)
        if kind.__name__ == "Module" or code is None or not user_files[code.co_filename]:
            return None
        source = parse_source(code.co_filename)
        function = None if source is None else find_function(source, code.co_firstlineno)
        if source is None or function is None:
            return None
        if not any(isinstance(each, ast.Call) and text_of(each.func) == "super" for each in ast.walk(function)):
            following = kinds[i + 1].__name__
            told = f"__init__ of {kind.__name__} at {source.place_of(function)} calls no super().__init__()"
            told = f"{told}, so that the one of {following}, which comes after it, does not run"
            return f"{told}: super().__init__() first there"
    return None


@remedy(r"has no attribute '(\w+)'")
def name_by_text(failure: Failure, match: re.Match[str]) -> str | None:
    """A part that `getattr(model, name)` asks of a model which has no such part."""
    for call in ast.walk(failure.line.node) if failure.line is not None else ():
        if not isinstance(call, ast.Call) or text_of(call.func) != "getattr" or len(call.args) != 2:
            continue
        owner, name = evaluate(call.args[0], failure.frame), compute(call.args[1], failure.frame)
        if name != match[1] or owner is MISSING or isinstance(call.args[1], ast.Constant):
            continue
        tables = ("_modules", "_parameters", "_buffers") if is_module(owner) else ()
        held = [key for table in tables for key in vars(owner)[table]] or list(getattr(owner, "__dict__", {}))
        known = [each for each in held if not each.startswith("_")] or [each for each in dir(owner) if each[0] != "_"]
        near = find_spelling(name, known) or find_shared_word(name, known)
        text, key = text_of(call.args[0]), text_of(call.args[1])
        where = find_literal(failure.line.source, name, ast.Pass()) if failure.line is not None else ""
        shown = ", ".join(known[:MAX_SHOWN_NAMES]) + (", …" if len(known) > MAX_SHOWN_NAMES else "")
        own = failure.find_operand(text)
        told = f"{key} is {name!r}{where}, and {text}{at(own)} has no part of that name, only {shown}"
        return f"{told}: {near!r} is meant, perhaps" if near else f"{told}: leave {name!r} out there"
    return None


@remedy(r"([\w.]+)\.__init__\(\) got an unexpected keyword argument '(\w+)'|got an unexpected keyword argument '(\w+)'")
def name_settings(failure: Failure, match: re.Match[str]) -> str | None:
    """A setting that a class does not know which `getattr(module, name)` has found."""
    call = failure.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Call) or text_of(call.func.func) != "getattr":
        return None
    owner, name = (compute(each, failure.frame) for each in call.func.args[:2])
    kind: Operand = getattr(owner, name, None) if inspect.ismodule(owner) and isinstance(name, str) else None
    if not isinstance(kind, type):
        return None
    names = [name for name in inspect.signature(kind).parameters if name not in ("self", "cls")]
    keyword = match[2] or match[3]
    near = find_spelling(keyword, names)
    meant = f"{near}= is meant, perhaps; " if near else f"it knows no {keyword}=; "
    return f"{meant}{kind.__name__} takes {', '.join(names)}{locate_keyword(failure, keyword)}"

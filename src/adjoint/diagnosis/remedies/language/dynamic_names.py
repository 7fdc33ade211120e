"""Remedies for names that a program makes as it runs: `getattr(model, name)`, settings that a text names."""

from __future__ import annotations

import ast
import inspect
import re

from adjoint.core.runtime.similar_names import find_shared_word, find_spelling
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate, is_module
from adjoint.diagnosis.remedies.language.own_functions import locate_keyword
from adjoint.diagnosis.remedies.language.sources_of_none import find_literal
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of

MAX_SHOWN_NAMES = 10


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

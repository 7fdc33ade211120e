"""Remedies for options that are texts: of those that the library's code names, the ones with which the line runs."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from difflib import get_close_matches
from types import CodeType, TracebackType

from adjoint.core.graph.source_location import library_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue, evaluate
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.trial import Trial, UntriableError
from adjoint.diagnosis.source_expressions import text_of

MAX_TRIED = 60
MAX_LISTED = 8
NO_OPTION = "no option"
MEANT = {
    "average": "mean",
    "avg": "mean",
    "add": "sum",
    "total": "sum",
    "none": "none",
    "swish": "silu",
    "zero": "zeros",
}


@remedy(r"")
def choose_option(failure: Failure, match: re.Match[str]) -> str | None:
    """A text that the message repeats, where the function knows others."""
    node = failure.node
    if not isinstance(node, ast.Call) or isinstance(failure.error, OSError):
        return None
    for part, whole, where in find_settings(failure, node):
        value = part.value if isinstance(part, ast.Constant) else evaluate(part, failure.frame)
        if (
            not isinstance(value, str)
            or not re.fullmatch(r"[\w-]+", value)
            or not re.search(rf"(?<!\w){re.escape(value)}(?!\w)", failure.message)
        ):
            continue
        options = _run_options(failure, whole, part, value)
        if not options or any(each.startswith("_") for each in options):  # names of the library's own
            continue
        meant = _choose_nearest(value, options)
        name = next(
            (f"{each.arg}=" for each in ast.walk(whole) if isinstance(each, ast.keyword) and each.value is part), ""
        )
        listed = ", ".join(map(repr, options[:MAX_LISTED]))
        own = failure.find_operand(text_of(part))
        told = f"{name}{text_of(part)}{at(own)}{where} is none of {listed}"
        return f"{told}: {name}{meant!r}" if meant else told
    return None


def find_settings(failure: Failure, call: ast.Call) -> Iterator[tuple[ast.expr, ast.expr, str]]:
    """Yield the arguments of the call, and of the call that made the module: each with the call, and the line."""
    for part in (*call.args, *(each.value for each in call.keywords)):
        yield part, call, ""
    layer: NamedValue | None = failure.module()
    made = None if layer is None or layer.origin is None else layer.origin.value
    if isinstance(made, ast.Call) and layer is not None and layer.text == text_of(call.func):
        whole = ast.Call(made, call.args, call.keywords)
        for part in (*made.args, *(each.value for each in made.keywords)):
            yield part, whole, at(layer)


def _run_options(failure: Failure, whole: ast.expr, part: ast.expr, value: str) -> list[str]:
    """Return the texts of the library's code with which the call runs; if it cannot be run, those that are listed."""
    listed, others = _find_texts(failure)
    trial, found = Trial(whole, failure.frame), []
    listed = list(dict.fromkeys(listed))
    texts = [each for each in dict.fromkeys([*listed, *others]) if each != value]
    for text in (*texts[:MAX_TRIED], NO_OPTION):
        changed = copy.deepcopy(whole, {id(part): ast.Constant(text)})
        try:
            trial.run(changed)
        except UntriableError:
            return [each for each in listed if each != value]
        except Exception:  # noqa: BLE001  not one of the options
            continue
        found.append(text)
    return found if NO_OPTION not in found else []  # a text that changes nothing is no option


def _find_texts(failure: Failure) -> tuple[list[str], list[str]]:
    """Return the texts that the message quotes or a collection of the failed function holds, and those of its code."""
    named = failure.message.partition("one of: ")[2]
    listed, others = re.findall(r"'([\w-]+)'", failure.message) + re.findall(r"[\w-]+", named), list[str]()
    if named:
        return listed, others
    trace: TracebackType | None = failure.error.__traceback__
    frames = []
    while trace is not None:
        if library_files[trace.tb_frame.f_code.co_filename]:
            frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in reversed([*failure.stack[0].called, *frames]):
        code: CodeType = frame.f_code
        for value in (*code.co_consts, *(frame.f_globals.get(name) for name in code.co_names)):
            if isinstance(value, (tuple, list, set, frozenset, dict)):
                texts = [each for each in value if isinstance(each, str) and each.isidentifier()]
                (listed if len(texts) == len(value) else others).extend(texts)
            elif isinstance(value, str) and value.isidentifier():
                others.append(value)
    return listed, others


def _choose_nearest(value: str, options: list[str]) -> str | None:
    """Return the option that is meant by another word."""
    if MEANT.get(value.lower()) in options:
        return MEANT[value.lower()]
    for each in options:
        if each.lower() == value.lower() or (
            min(len(each), len(value)) > 2
            and (value.startswith(each) or each.endswith(value) or each.startswith(value))
        ):
            return each
    return next(iter(get_close_matches(value, options, 1, 0.8)), None) or (options[0] if len(options) == 1 else None)

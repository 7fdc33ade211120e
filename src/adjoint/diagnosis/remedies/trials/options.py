"""Remedies for options that are texts: of those that the library's code names, the ones with which the line runs."""

from __future__ import annotations

import ast
import copy
import re
from difflib import get_close_matches
from types import CodeType, TracebackType

from adjoint.core.graph.source_location import library_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate
from adjoint.diagnosis.remedies.registry import at, find_settings, remedy
from adjoint.diagnosis.repairs.trial import Trial, UntriableError
from adjoint.diagnosis.source_expressions import text_of

MAX_TRIED = 60
MAX_LISTED = 8
NO_OPTION = "no option"
MEANT = {  # the words of other libraries, with what is taken for them, the first that is an option
    "average": "mean",
    "avg": "mean",
    "add": "sum",
    "total": "sum",
    "zero": "zeros",
    "swish": "silu relu",
    "silu": "relu",
    "gelu": "relu",
    "elu": "relu",
    "mish": "relu",
    "lrelu": "leaky_relu",
    "edge": "replicate",
    "mirror": "reflect",
    "symmetric": "reflect",
    "wrap": "circular",
    "same_upper": "same",
    "same_lower": "same",
    "cubic": "bicubic",
    "unitary": "ortho",
    "triangle": "triangular",
    "random": "different",
    "frobenius": "fro",
    "nuclear": "nuc",
    "low": "medium",
}


@remedy(r"")
def choose_option(failure: Failure, match: re.Match[str]) -> str | None:
    """A text that the message repeats, where the function knows others."""
    node = failure.node
    if not isinstance(node, ast.Call) or isinstance(failure.error, OSError):
        return None
    for part, whole, where in find_settings(failure, node):
        value = part.value if isinstance(part, ast.Constant) else evaluate(part, failure.frame)
        keyword = next((each for each in ast.walk(whole) if isinstance(each, ast.keyword) and each.value is part), None)
        name = "" if keyword is None else f"{keyword.arg}="
        if not isinstance(value, str) or not re.fullmatch(r"[\w-]+", value):
            continue
        is_told = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", failure.message) is not None
        is_named = keyword is not None and re.search(rf"\b{keyword.arg}\b.* one of", failure.message)
        if not is_told and not is_named:
            continue
        options = _run_options(failure, whole, part, value)
        if not options or any(each.startswith("_") for each in options):  # names of the library's own
            continue
        meant = _choose_nearest(value, options)
        listed = ", ".join(map(repr, options[:MAX_LISTED]))
        listed += ", …" if len(options) > MAX_LISTED else ""
        own = failure.find_operand(text_of(part))
        told = f"{name}{text_of(part)}{at(own)}{where}"
        if len(options) == 1:
            return f"{told} does not fit: {name}{options[0]!r} does"
        return f"{told} is none of {listed}: {name}{meant!r}" if meant else f"{told} is none of {listed}"
    return None


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
            return [each for each in _find_told_texts(failure.message) if each not in (value, "or", "and")]
        except Exception:  # noqa: BLE001  not one of the options
            continue
        found.append(text)
    return found if NO_OPTION not in found else []  # a text that changes nothing is no option


def _find_texts(failure: Failure) -> tuple[list[str], list[str]]:
    """Return the texts that the message quotes or a collection of the failed function holds, and those of its code."""
    listed, others = _find_told_texts(failure.message), list[str]()
    if "one of" in failure.message and len(listed) > 1:
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


def _find_told_texts(message: str) -> list[str]:
    """Return the texts that a message quotes, or that it lists after "one of"."""
    named = re.search(r"one of:? \W*(\w[^.)]*)", message)
    quoted = re.findall(r"""['"]([\w-]+)['"]""", message)
    return list(dict.fromkeys(quoted)) or ([] if named is None else re.findall(r"[\w-]+", named[1]))


def _choose_nearest(value: str, options: list[str]) -> str | None:
    """Return the option that is meant by another word."""
    word = value.lower()
    known = [each for each in MEANT.get(word, "").split() if each in options]
    if known:
        return known[0]
    for each in options:
        if each.lower() == word or (
            min(len(each), len(word)) > 2 and (word.startswith(each) or each.endswith(word) or each.startswith(word))
        ):
            return each
    return next(iter(get_close_matches(word, options, 1, 0.8)), None)

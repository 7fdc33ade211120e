"""Remedies for settings out of their range, or that exclude each other: the nearest number with which the line runs."""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress

from adjoint.diagnosis.callbacks import SIGNATURE_ERROR
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue, evaluate, is_module
from adjoint.diagnosis.remedies.language.arguments import is_truth
from adjoint.diagnosis.remedies.registry import at, find_meaning, find_settings, remedy
from adjoint.diagnosis.remedies.trials.origins import find_made, runs_with, substitute
from adjoint.diagnosis.repairs.expression import call_of, parameter_names
from adjoint.diagnosis.repairs.orders import fits
from adjoint.diagnosis.repairs.trial import Trial, compute
from adjoint.diagnosis.source_expressions import text_of

SUBCLASS = "is not a "  # an error of another argument
MAKERS = frozenset({"zeros", "ones", "eye", "full", "empty", "arange"})
FRACTIONS = (0.5, 0.0, 1.0, 0.1, 0.9, 0.01, 1e-3)
MAX_TRIED = 40
REQUIRING = re.compile(r"must|needs?\b|require|at least one|specify|provide|None|missing|define")
MATCHING = re.compile(r"match|mismatch|same|equal|agree|but got|Found|inconsistent", re.IGNORECASE)
EXCLUDING = re.compile(
    r"only one|together|mutually|exclusive|both|either|only be \w+|cannot be|not support|only used|to be None|"
    r"should not be|must not"
)


@remedy(r"")
def leave_setting_out(failure: Failure, match: re.Match[str]) -> str | None:
    """A keyword that the message tells of, without which the line runs."""
    node = failure.node
    if not isinstance(node, ast.Call) or isinstance(failure.error, KeyError) or not EXCLUDING.search(failure.message):
        return None
    called = evaluate(node.func, failure.frame)
    names = parameter_names(node, failure.frame)
    if is_module(called):
        names = [name for name in inspect.signature(type(called).forward).parameters if name != "self"]
    place = len(node.args) - 1
    if 0 < place < len(names) and re.search(rf"\b{re.escape(names[place])}\b", failure.message):
        fewer = ast.Call(node.func, node.args[:place], node.keywords)
        with suppress(Exception):  # it is not this argument
            Trial(fewer, failure.frame).run(fewer)
            given = text_of(node.args[place])
            label = given if given == names[place] else f"{given}, the {names[place]},"
            return f"leave {label} out: {text_of(fewer)}"
    for changed, keyword in _without_keywords(failure, node):
        if not re.search(rf"\b{re.escape(str(keyword.arg))}\b", failure.message):
            continue
        try:
            Trial(changed, failure.frame).run(changed)
        except Exception:  # noqa: BLE001  what a changed line may raise
            continue
        return f"leave {keyword.arg}={text_of(keyword.value)} out: {text_of(changed)}"
    return None


@remedy(r"")
def change_number(failure: Failure, match: re.Match[str]) -> str | None:
    """A number that the message tells of, or one whose name it tells."""
    node = failure.node
    if not isinstance(node, ast.Call) or SIGNATURE_ERROR.match(failure.message):
        return None
    settings = [(*each, compute(each[0], failure.frame)) for each in find_settings(failure, node)]
    settings = [each for each in settings if type(each[3]) in (int, float) and abs(each[3]) != float("inf")]
    named = [(_name_of(failure, part, whole), part, whole, where, value) for part, whole, where, value in settings]

    def find_place(name: str) -> float:  # in the message
        found = re.search(rf"\b{re.escape(name)}\b", failure.message, re.IGNORECASE) if name else None
        return float("inf") if found is None else found.start()

    for name, part, whole, where, value in sorted(named, key=lambda each: find_place(each[0])):
        is_known = re.search(rf"(?<![\d.]){re.escape(str(value))}(?![\d.])", failure.message) is not None
        if find_place(name) == float("inf") and not is_known and (len(settings) > 1 or SUBCLASS in failure.message):
            continue
        if not Trial(whole, failure.frame).fails_alike(failure.error):
            continue
        fitting = _find_fitting(failure, whole, part, value)
        if fitting is None or (whole is node and not fits(failure, part, repr(fitting))):
            continue
        label = f"{name}=" if name else ""
        own = failure.find_operand(text_of(part))
        is_constant = isinstance(part, (ast.Constant, ast.UnaryOp))
        told = f"{label}{value}{where}" if is_constant else f"{label}{text_of(part)}{at(own)}{where} is {value}, which"
        return f"{told} does not fit: {label}{fitting} does" if is_constant else f"{told} does not fit: {fitting} does"
    return None


def _name_of(failure: Failure, part: ast.expr, whole: ast.expr) -> str:
    for call in ast.walk(whole):
        if not isinstance(call, ast.Call):
            continue
        named = next((each.arg for each in call.keywords if each.value is part), None)
        if named:
            return named
        if any(each is part for each in call.args):
            names = parameter_names(call, failure.frame)
            place = next(i for i, each in enumerate(call.args) if each is part)
            name = names[place] if place < len(names) else ""
            return "" if name in ("args", "kwargs") else name
    return ""


def _find_fitting(failure: Failure, whole: ast.expr, part: ast.expr, value: float) -> float | None:
    """Return the number nearest to the given one with which the call runs."""
    sizes = [size for each in failure.tensors() for size in each.value.shape]
    told = [int(each) for each in re.findall(r"(?<![\d.])\d{1,6}(?!\.?\d)", failure.message)]
    known: list[float] = [*sizes, *told, 0, 1, -1, *(n + d for n in (*sizes, *told, value) for d in (-1, 1)), -value]
    if isinstance(value, float) or "0, 1]" in failure.message:
        known += [*FRACTIONS, value / 100]
    else:
        known = [n for n in known if n == int(n)]
    trial = Trial(whole, failure.frame)
    is_of_match = MATCHING.search(failure.message) is not None  # then it is a size that the message tells

    share = value / 100 if value > 1 and "0, 1]" in failure.message else -value if value < 0 and 0 not in told else None

    def rank(n: float) -> tuple[bool, bool, float, float]:
        return is_of_match and n not in told, n != share, abs(n - value), -n

    for number in sorted(dict.fromkeys(known), key=rank)[:MAX_TRIED]:
        if number == value:
            continue
        try:
            fitting = type(value)(number) if number == type(value)(number) else number
            trial.run(copy.deepcopy(whole, {id(part): ast.Constant(fitting)}))
        except Exception:  # noqa: BLE001  what a changed line may raise
            continue
        return fitting
    return None


def _without_keywords(failure: Failure, node: ast.Call) -> Iterator[tuple[ast.expr, ast.keyword]]:
    """Yield the call, and that of the module which another call made, without one keyword each."""
    wholes = {id(whole): whole for _, whole, _ in find_settings(failure, node)}
    for whole in [node, *wholes.values()]:
        for call in (each for each in ast.walk(whole) if isinstance(each, ast.Call)):
            for keyword in call.keywords:
                rest = ast.Call(call.func, call.args, [each for each in call.keywords if each is not keyword])
                if keyword.arg is not None:
                    yield (rest if call is whole else copy.deepcopy(whole, {id(call): rest})), keyword


@remedy(r"shape|size of tensor a|broadcast")
def change_made_size(failure: Failure, match: re.Match[str]) -> str | None:
    """An operand that is made new, with sizes that the line writes and that differ from the others'."""
    node = None if failure.line is None else call_of(failure.line.node)
    for operand, made in reversed([*find_made(failure)]) if node is not None else ():
        if node is None or not Trial(substitute(node, operand.text, made), failure.frame).fails_alike(failure.error):
            continue
        for changed, told in _change_sizes(failure, operand, made):
            if runs_with(failure, node, operand, changed):
                return f"{operand.text}{at(operand)} {told}: {operand.text} = {text_of(changed)} there"
    return None


def _change_sizes(failure: Failure, operand: NamedValue, made: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """Yield a call that makes a new tensor with a size of another operand in place of one that it writes."""
    if failure.module() is not None or not any(
        isinstance(each, ast.Call) and text_of(each.func).rpartition(".")[2] in MAKERS for each in ast.walk(made)
    ):
        return
    others = {size: None for each in failure.tensors() if each is not operand for size in each.value.shape}
    numbers = {each.value for each in ast.walk(made) if isinstance(each, ast.Constant) and type(each.value) is int}
    for number in sorted(numbers & {*getattr(operand.value, "shape", ())}):
        for size in others:
            places = {
                id(each): ast.Constant(size)
                for each in ast.walk(made)
                if isinstance(each, ast.Constant) and each.value == number and type(each.value) is int
            }
            if size != number:
                yield copy.deepcopy(made, places), f"is {tuple(operand.value.shape)}"


@remedy(r"", is_last=True)
def give_setting(failure: Failure, match: re.Match[str]) -> str | None:
    """A parameter that the message tells of, and that the call does not give."""
    node = failure.node
    if not isinstance(node, ast.Call) or isinstance(failure.error, (KeyError, AttributeError)):
        return None
    if isinstance(failure.error, TypeError) and not failure.stack[0].called:
        return None
    names = parameter_names(node, failure.frame)
    given = {*names[: len(node.args)], *(each.arg for each in node.keywords)}
    missing = [name for name in names if name not in given and re.search(rf"\b{name}\b", failure.message)]
    if not missing or not REQUIRING.search(failure.message):
        return None
    function = evaluate(node.func, failure.frame)
    is_flag = is_truth(function, missing[0])
    for flag in (True, False) if is_flag else ():
        whole = ast.Call(node.func, node.args, [*node.keywords, ast.keyword(missing[0], ast.Constant(flag))])
        with suppress(Exception):  # it is no flag
            Trial(whole, failure.frame).run(whole)
            return text_of(whole)
    if is_flag:
        return None
    arguments = ", ".join([*map(text_of, (*node.args, *node.keywords)), f"{missing[0]}=…"])
    meaning = find_meaning(function, missing[0])
    return f"{text_of(node.func)}({arguments}){f'; {missing[0]}: {meaning}' if meaning else ''}"

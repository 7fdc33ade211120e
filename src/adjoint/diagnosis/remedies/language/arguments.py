"""Remedies for calls with other arguments than the function takes: too few, too many, one twice."""

from __future__ import annotations

import ast
import inspect
import re
from difflib import get_close_matches

from adjoint.core.graph.source_location import definition_site
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, describe_value, evaluate, is_module
from adjoint.diagnosis.remedies.registry import at, find_meaning, remedy
from adjoint.diagnosis.repairs.expression import parameter_names
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of
from adjoint.nn import functional

INDEX_NAME = re.compile(r"^batch$|(?:^|_)(?:i|idx|index|epoch|step)$")  # of no part of a batch


@remedy(r"([\w.<>]+)\(\) missing a required argument: ('\w+')")
@remedy(r"([\w.<>]+)\(\) missing \d+ required (?:positional|keyword-only) arguments?: (('\w+'(?:, and |, | and )?)+)")
def give_missing_arguments(failure: Failure, match: re.Match[str]) -> str | None:
    """A call without some of the arguments that have no default."""
    call, function = _find_call(failure, match[1])
    if call is None:
        return _explain_sequential(failure, match[1])
    names = re.findall(r"'(\w+)'", match[2])
    owner = evaluate(call.func.value, failure.frame) if isinstance(call.func, ast.Attribute) else MISSING
    if isinstance(owner, type) and inspect.isfunction(function) and hasattr(owner, "forward"):
        name, _, method = text_of(call.func).rpartition(".")
        return f"{name} is a class: {method} of an instance, model = {name}(…), model.{method}(…)"
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    known_names = {parameter.name for parameter in parameters}
    is_unknown = any(keyword.arg not in known_names for keyword in call.keywords if keyword.arg)
    if names == ["self"] or is_unknown:
        return f"it takes {', '.join(parameter.name for parameter in parameters)}" if parameters else None
    given = [*map(text_of, call.args), *map(text_of, call.keywords)]
    first = next((each for each in parameters if each.name != "self"), None)
    value = compute(call.args[0], failure.frame) if call.args else None
    if first is not None and first.annotation in (str, "str") and hasattr(value, "shape"):
        wanted = f"{text_of(call.func)}({first.name!r}, {', '.join(given)})"
        return f"{first.name} comes first, a text, and {given[0]} is a tensor: {wanted}"
    held = [each for each in parameters if each.name != "self" and each.kind is each.POSITIONAL_OR_KEYWORD]
    whole = _take_apart(call, value, [each.name for each in held])
    if whole is not None:
        return whole
    if names == ["key", "value"] and len(given) == 1:
        return f"{text_of(call.func)}({', '.join(given * 3)}) is attention of {given[0]} to itself"
    known = {**failure.frame.f_globals, **failure.frame.f_locals}
    optimizers = [key for key, each in known.items() if hasattr(each, "param_groups")]
    own = {name for name, value in known.items() if is_module(value) or not callable(value)}
    values = {name: name if name in own else "-1" if name == "dim" else "…" for name in names}
    if names == ["optimizer"] and len(optimizers) == 1:
        return f"{text_of(call.func)}({', '.join([*optimizers, *given])})"
    written = f"{text_of(call.func)}({', '.join([*given, *(f'{name}={value}' for name, value in values.items())])})"
    told = [f"{name}: {meaning}" for name in names if (meaning := find_meaning(function, name))]
    where = _locate(function).strip(", ")
    where = f"; {function.__name__} begins at {where}" if where else ""
    return f"{written}{where}{''.join(f'; {each}' for each in told)}"


def _take_apart(call: ast.Call, value: Operand, names: list[str]) -> str | None:
    """Return the call with the parts of its only argument, a dict by the parameters' names or a tuple of as many."""
    if len(call.args) != 1 or call.keywords or any(INDEX_NAME.search(name) for name in names):
        return None
    text, function = text_of(call.args[0]), text_of(call.func)
    if isinstance(value, dict) and all(name in value for name in names):
        parts = ", ".join(f"{text}[{name!r}]" for name in names)
        return f"{text} holds them by name: {function}({parts})"
    if isinstance(value, (tuple, list)) and len(value) == len(names):
        return f"{text} holds all {len(names)}: {function}(*{text})"
    return None


@remedy(r"^(\w+)\(\) missing \d+ required positional arguments?: (.*)$", is_last=True)
def give_loss_arguments(failure: Failure, match: re.Match[str]) -> str | None:
    """A module of a function of the library that is called with fewer inputs than that takes."""
    layer, node = failure.module(), failure.node
    function: Operand = getattr(functional, match[1].split("(")[0], MISSING)
    if layer is None or not isinstance(node, ast.Call) or text_of(node.func) != layer.text or function is MISSING:
        return None
    names = re.findall(r"'(\w+)'", match[2])
    held = {**failure.frame.f_globals, **failure.frame.f_locals}
    given = [*map(text_of, node.args), *(name if isinstance(held.get(name), Tensor) else f"{name}=…" for name in names)]
    told = [f"; {name}: {meaning}" for name in names if (meaning := find_meaning(function, name))]
    return f"{layer.text}{at(layer)} takes {', '.join(names)} too: {layer.text}({', '.join(given)}){''.join(told)}"


@remedy(r"got NoneType$")
def give_next_argument(failure: Failure, match: re.Match[str]) -> str | None:
    """An argument that is None by default, where the others that are given ask for it."""
    node = failure.node
    if not isinstance(node, ast.Call) or not failure.stack[0].called:
        return None
    values = [evaluate(each, failure.frame) for each in (*node.args, *(each.value for each in node.keywords))]
    names = parameter_names(node, failure.frame)[len(node.args) :]
    missing = [name for name in names if name not in {each.arg for each in node.keywords} and name != "out"]
    if not missing or any(value is None for value in values):
        return None
    given = ", ".join([*map(text_of, node.args), *map(text_of, node.keywords)])
    return f"{text_of(node.func)}({given}, {missing[0]}=…): without {missing[0]} it has nothing to take there"


def _explain_sequential(failure: Failure, name: str) -> str | None:
    """Return why a part of an `nn.Sequential` cannot take more than one input."""
    layer = failure.module()
    if layer is None or len(failure.modules) < 2 or type(failure.modules[1]).__name__ != "Sequential":
        return None
    if name.rpartition(".")[2] != "forward":
        return None
    names = [each for each in inspect.signature(type(layer.value).forward).parameters if each != "self"]
    kind = type(layer.value).__name__
    told = (
        f"a Sequential gives each part one input, and forward of {kind}{_locate(type(layer.value).forward)} "
        f"takes {', '.join(names)}"
    )
    return f"{told}: a module whose forward calls {kind} with all of them, or one input that holds them"


def _find_call(failure: Failure, name: str) -> tuple[ast.Call | None, Operand]:
    """Return the call of the user's line that calls the function of that name, and the function."""
    node, last = failure.node, name.removesuffix(".__init__").rpartition(".")[2]
    for call in ast.walk(node) if node is not None else ():
        if not isinstance(call, ast.Call):
            continue
        function = evaluate(call.func, failure.frame)
        if function is MISSING and isinstance(call.func, ast.Attribute):
            owner = compute(call.func.value, failure.frame)
            held = owner if inspect.ismodule(owner) else type(owner)
            function = MISSING if owner is MISSING else getattr(held, call.func.attr, MISSING)
        owner_name = name.rpartition(".")[0].rpartition(".")[2]
        if (
            is_module(function)
            and last == "forward"
            and any(each.__name__ == owner_name for each in type(function).__mro__)
        ):
            return call, type(function).forward
        if last == "__call__" and type(function).__name__ == owner_name:
            return call, type(function).__call__
        if isinstance(function, type) and name.endswith(".__init__"):
            if any(each.__name__ == last for each in function.__mro__):
                return call, function
            continue
        if function is not MISSING and getattr(function, "__name__", None) == last:
            return call, function
    return None, MISSING


def is_truth(function: Operand, name: str) -> bool:
    """Return whether a function's parameter is true or false."""
    try:
        parameter = inspect.signature(function).parameters[name]
    except (TypeError, ValueError, KeyError):
        return False
    return isinstance(parameter.default, bool) or "bool" in str(parameter.annotation)


def _locate(function: Operand) -> str:
    code = getattr(getattr(function, "__init__", None) if isinstance(function, type) else function, "__code__", None)
    if code is None or not user_files[code.co_filename]:
        return ""
    return f", {definition_site(code).describe_briefly()},"


@remedy(r"(\w+)\.__init__\(\) takes 1 positional argument but")
def leave_super_empty(failure: Failure, match: re.Match[str]) -> str | None:
    """Arguments for the `__init__` of nn.Module, or of a class without settings."""
    node = failure.node
    if isinstance(node, ast.Call) and text_of(node.func) == "super().__init__" and node.args:
        return f"the class above takes no settings: super().__init__(), without {', '.join(map(text_of, node.args))}"
    kind = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else MISSING
    if not isinstance(kind, type) or "__init__" in vars(kind):
        return None
    for name, method in vars(kind).items():
        code = getattr(method, "__code__", None)
        if code is not None and name.startswith("_") and get_close_matches(name, ["__init__"], 1, 0.7):
            return f"{name} of {kind.__name__}, {definition_site(code).describe_briefly()}, is to be called __init__"
    return None


@remedy(r"(\w+)\.forward\(\) (?:takes \d+ positional arguments? but|missing \d+ required positional)")
def give_context(failure: Failure, match: re.Match[str]) -> str | None:
    """A forward of a Function that lacks its context."""
    node = failure.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "apply":
        return None
    kind = evaluate(node.func.value, failure.frame)
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    names = () if code is None else code.co_varnames[: code.co_argcount]
    if code is not None and "setup_context" in vars(kind):
        told = (
            f"forward of {match[1]}, {definition_site(code).describe_briefly()}, gets no context beside setup_context"
        )
        return f"{told}: def forward({', '.join(name for name in names if name not in ('ctx', 'self'))})"
    if code is None or names[:1] == ("ctx",):
        return None
    return (
        f"forward of {match[1]}, {definition_site(code).describe_briefly()}, is given a context first: def "
        f"forward({', '.join(('ctx', *names))})"
    )


@remedy(
    r"([\w.<>]+)\(\) takes (?:from )?\d+ (?:to \d+ )?positional arguments? but|got multiple values for", is_last=True
)
def give_fewer_arguments(failure: Failure, match: re.Match[str]) -> str | None:
    """A call with more arguments than the function has parameters."""
    named = match[1] or re.split(r"\(\) got", failure.message)[0]
    call, function = _find_call(failure, named)
    if call is None or isinstance(function, type(MISSING)):
        return None
    try:
        parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    except (TypeError, ValueError):
        return None
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    told = f"{text_of(call.func)} takes {', '.join(each.name for each in parameters)}{_locate(function)}"
    extra = call.args[len(places) :]
    if not extra:
        return told
    names = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    by_name = f", or give it by name, {names[0]}=" if names else ""
    return f"{told}: leave {', '.join(map(text_of, extra))} out{by_name}"


@remedy(r"", is_last=True)
def tell_meaning(failure: Failure, match: re.Match[str]) -> str | None:
    """A parameter that the message names: what the documentation says of it, and what the call gives."""
    node = failure.node
    if not isinstance(node, ast.Call) or isinstance(failure.error, (KeyError, AttributeError)):
        return None
    function = evaluate(node.func, failure.frame)
    names = parameter_names(node, failure.frame)
    given = {**dict(zip(names, node.args, strict=False)), **{str(each.arg): each.value for each in node.keywords}}
    for name in sorted(given, key=len, reverse=True):
        told = rf"['`]{name}['`=]|\b{name}=|\b{name} (?:must|should|has|is|cannot|can not|expected|needs|option)\b"
        if (
            name not in names
            or isinstance(given[name], (ast.Lambda, ast.Tuple))
            or not re.search(told, failure.message)
        ):
            continue
        documented = function if function is not MISSING else _find_method(failure, node)
        meaning = "" if documented is MISSING else find_meaning(documented, name)
        if meaning:
            text = text_of(given[name])
            own = failure.find_operand(text)
            value = compute(given[name], failure.frame)
            told = "" if value is MISSING or isinstance(given[name], ast.Constant) else f", {describe_value(value)}"
            return f"{name}={text}{at(own)}{told}: it is to be {meaning}"
    return None


def _find_method(failure: Failure, node: ast.Call) -> Operand:
    """Return the function of the library that a call of an attribute stands for."""
    owner = compute(node.func.value, failure.frame) if isinstance(node.func, ast.Attribute) else MISSING
    return MISSING if owner is MISSING else getattr(owner, getattr(node.func, "attr", ""), MISSING)

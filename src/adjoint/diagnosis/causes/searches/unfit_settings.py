"""Causes of sizes and settings that calls, views and saved states do not take: where they come from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.attributes import find_attribute_of
from adjoint.diagnosis.causes.constructions import find_owner
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.layer_settings import INPUTS, OUTPUTS, trace_attribute
from adjoint.diagnosis.causes.numbers import NumberTrace, trace_number
from adjoint.diagnosis.causes.sizes import shape_of, trace_size
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, describe_value, is_module, read_attribute
from adjoint.diagnosis.source_expressions import parameters_of, text_of

UNFIT_VIEW = re.compile(r"shape '\[[\d, -]+\]' is invalid for input of size|unflatten: Provided sizes")
READING = re.compile(r"\.(?:shape|size\(.*\))(?:\[.*\])?$|^len\(")


def find_view_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return where the numbers come from that a view is asked for, and the last size of what is viewed."""
    call = step.node
    if (
        UNFIT_VIEW.search(failure.message) is None
        or not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Attribute)
    ):
        return None
    told: list[str] = []
    places: list[SourceStep] = []
    for each in (part for given in call.args for part in getattr(given, "elts", [given])):
        for part in ast.walk(each):
            trace = _trace_number(step, part) if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)) else None
            if trace is not None and text_of(part) not in {text.partition(" is ")[0] for text in told}:
                value = step.context.program.compute(step.at(trace.steps[0].node, ()))
                told.append(f"{text_of(part)} is {value}, from {trace.describe()}")
                places += trace.roots()
    viewed = step.at(call.func.value, ())
    shape = shape_of(viewed)
    back = _find_unfit_size(failure.message, shape or ())
    size = None if not shape else trace_size(viewed, back, shape[-back], -1)
    if size is not None and shape is not None and size.step.node is not viewed.node:
        told.append(f"{text_of(viewed.node)} has {shape[-back]}, from {size.describe()}")
        places += size.roots()
    return ("; ".join(told), places[0]) if told else None


def _find_unfit_size(message: str, shape: tuple[int, ...]) -> int:
    """Return the place, from the end, of the only size of a shape that a view does not keep; else the last."""
    asked = re.search(r"shape '\[([\d, -]+)\]'", message)
    wanted = [] if asked is None else [int(each) for each in asked[1].split(",")]
    kept = 0
    while kept < min(len(shape), len(wanted)) and shape[-1 - kept] == wanted[-1 - kept]:
        kept += 1
    is_begin = list(shape[: len(shape) - kept - 1]) == wanted[: len(shape) - kept - 1]
    return kept + 1 if kept < len(shape) and is_begin else 1


def _trace_number(step: SourceStep, node: ast.expr) -> NumberTrace | None:
    """Return the way of a number of the line; None where it is read of the tensor, or written there."""
    value = step.context.program.compute(step.at(node, ()))
    trace = trace_number(step.at(node, ()), value) if type(value) is int else None
    is_read = trace is not None and any(READING.search(text_of(each.node)) for each in trace.steps)
    return None if trace is None or is_read or len(trace.steps) == 1 else trace


UNFIT_STATE = re.compile(
    r"size mismatch for ([\w.]+): copying a param with shape \w+\.Size\(\[([\d, ]*)\]\) from checkpoint, "
    r"the shape in current model is \w+\.Size\(\[([\d, ]*)\]\)"
)


def find_state_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the number that gave a parameter another size than the state has."""
    moment = UNFIT_MOMENT.search(failure.message)
    if moment is not None:
        return _find_moment_cause(failure, step, moment)
    if "different number of parameter groups" in failure.message:
        return _find_group_cause(failure, step)
    match = UNFIT_STATE.search(failure.message)
    model = next((each.value for each in failure.operands if is_module(each.value)), None)
    if match is None or model is None:
        return None
    *path, name = match[1].split(".")
    owner: Operand = model
    for each in path:
        owner = read_attribute(owner, each)
    saved, own = ([int(size) for size in text.split(",") if size.strip()] for text in (match[2], match[3]))
    for place, (one, other) in enumerate(zip(saved, own, strict=False)):
        is_wanted = owner is not MISSING and one != other
        names = INPUTS if place and name.startswith("weight") else (*OUTPUTS, "num_embeddings", "num_features")
        attribute = next((each for each in names if getattr(owner, each, None) == other), None) if is_wanted else None
        trace = None if attribute is None else trace_attribute(step, owner, attribute, other)
        if trace is None and is_wanted and not is_name_of_package(type(owner).__module__):
            held = find_attribute_of(step.at(step.node, ()), owner, name)
            trace = trace_size(held[0], len(own) - place, other, -1) if held else None
        if trace is not None:
            return f"{match[1]} was saved with {one} and has {other}, from {trace.describe()}", trace.roots()[0]
    return None


def _find_group_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the call that made an optimizer with other groups than the state has, and what gave it those."""
    optimizer = failure.locals.get("self")
    made = None if optimizer is None else step.context.program.find_construction(optimizer)
    if made is None or not isinstance(made.node, ast.Call) or not made.node.args:
        return None
    groups = trace_number(made.at(made.node.args[0], ()), MISSING).root
    where = "" if groups.place() == made.place() else f", of the groups at {groups.line()}"
    through = "" if made.context.call is None else f", through {made.context.call.line()}"
    return f"the optimizer is made at {made.line()}{where}{through}", groups


UNFIT_MOMENT = re.compile(r"has shape \[([\d, ]*)\], but belongs to parameter (\d+) of its group, shape \[([\d, ]*)\]")


def _find_moment_cause(failure: Failure, step: SourceStep, match: re.Match[str]) -> tuple[str, SourceStep] | None:
    """Return the number that gave a parameter of an optimizer another size than the moments of its state have."""
    groups = getattr(failure.locals.get("self"), "param_groups", [])
    saved, own = ([int(size) for size in text.split(",") if size.strip()] for text in (match[1], match[3]))
    place = next((i for i, (one, other) in enumerate(zip(saved, own, strict=False)) if one != other), 0)
    for group in groups:
        held = group["params"][int(match[2]) : int(match[2]) + 1]
        is_own = bool(held) and list(held[0].shape) == own
        found = find_owner(step.context.program, held[0]) if is_own else None
        names = () if found is None else (*INPUTS, "embedding_dim") if place else (*OUTPUTS, "num_embeddings")
        attribute = next((each for each in names if found and getattr(found[0], each, None) == own[place]), None)
        trace = None if attribute is None or not found else trace_attribute(step, found[0], attribute, own[place])
        if found is not None and trace is not None:
            told = f"the state is for a {found[1]} of {saved}, and {type(found[0]).__name__} has {own}"
            return f"{told}: its {own[place]} is from {trace.describe()}", trace.roots()[0]
    return None


TOO_SMALL = re.compile(r"Kernel size can't be greater than actual input size|[Oo]utput size is too small")


def find_depth_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the loop that makes so many layers that nothing is left of an image, with what says how many."""
    if TOO_SMALL.search(failure.message) is None or not failure.modules:
        return None
    made = step.context.program.find_construction(failure.modules[0])
    around: ast.AST | None = None if made is None else made.node
    while made is not None and around is not None and around is not made.context.scope:
        loop = around.iter if isinstance(around, (ast.For, ast.comprehension)) else None
        if isinstance(loop, ast.Call) and text_of(loop.func) == "range" and loop.args:
            last = made.at(loop.args[min(len(loop.args), 2) - 1], ())
            count = made.context.program.compute(last)
            trace = trace_number(last, count)
            number = f"{count} times" if count is not MISSING else f"{text_of(last.node)} times"
            told = f"layers as {made.line()} are made {number}, by the loop at {last.place()}"
            return f"{told}, from {trace.describe()}", trace.root
        around = made.source.parents.get(around)
    return None


COMMON = ("0", "1", "2", "None", "True", "False")  # which a message has for other reasons


def find_setting_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return where the settings of a call come from of which an error of the library tells."""
    call = step.node
    if not isinstance(call, ast.Call) or not failure.stack[0].called:
        return None
    called = look_up(step.context, call.func)
    told: list[str] = []
    places: list[SourceStep] = []
    for name, given in _pair_arguments(called, call):
        value = step.context.program.compute(step.at(given, ()))
        is_plain = type(value) in (int, float, str, tuple, type(None))
        trace = trace_number(step.at(given, ()), value) if is_plain and _tells_of(failure, name, value) else None
        if trace is not None and trace.root.place() != step.place():
            told.append(f"{text_of(given)} is {describe_value(value)}, from {trace.describe()}")
            places += trace.roots()
    if type(called) is partial:  # which gives the others
        made = trace_number(step.at(call.func, ()), called)
        told += [f"{text_of(call.func)} is from {made.describe()}"]
        places += made.roots()
    return ("; ".join(told), places[0]) if told else None


def _pair_arguments(called: Operand, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yield the arguments of a call that the program writes elsewhere, with the names of their parameters."""
    called = called.func if type(called) is partial else called
    is_class = isinstance(called, type)
    names = parameters_of(called.__init__)[1:] if is_class else parameters_of(called)
    names = (*names, *[""] * (len(call.args) - len(names)))
    pairs = [*zip(names, call.args, strict=False), *((each.arg or "", each.value) for each in call.keywords)]
    yield from ((name, each) for name, each in pairs if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)))


def _tells_of(failure: Failure, name: str, value: Operand) -> bool:
    """Return whether an error tells of a parameter, or of its value."""
    shown = str(value)
    texts = [name] if shown in COMMON else [name, shown]
    words = set(re.findall(r"\w+", failure.message)) & failure.locals.keys()  # of functions further in
    inner = [failure.locals[each] for each in words if type(failure.locals[each]) in (int, float, str)]
    if shown not in COMMON and any(type(each) is type(value) and each == value for each in inner):
        return True
    return any(re.search(rf"(?<![\w.]){re.escape(each)}(?![\w.])", failure.message) for each in texts if each)

"""A call that failed: the error, the user's line, its operands, and the module in which it failed."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from types import FrameType, TracebackType

from adjoint.core.graph.source_location import library_files
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import Stack, UserFrame, user_files
from adjoint.diagnosis.callbacks import find_callbacks
from adjoint.diagnosis.line_operands import find_operands
from adjoint.diagnosis.operands import (
    MISSING,
    NamedValue,
    Origin,
    describe_return,
    evaluate,
    find_origin,
    find_return,
    find_return_in,
    is_module,
)
from adjoint.diagnosis.source_expressions import find_assignment, find_expression, parameter_names, text_of

MAX_SEARCHED_FRAMES = 3  # of the library, whose source is parsed


@dataclass
class Failure:
    """The facts known about an error that leaves the library."""

    error: BaseException
    stack: Stack  # the user's frames
    line: Origin | None
    operands: list[NamedValue]
    modules: list[Operand] = field(default_factory=list)  # whose calls the error has left, innermost first
    program: Operand = None  # the frames and sources that searches for a cause have opened

    @property
    def frame(self) -> FrameType:
        """The user's innermost frame."""
        return self.stack[0].frame

    @property
    def node(self) -> ast.AST | None:
        """The expression or statement that failed; None where its source is not known."""
        return None if self.line is None else self.line.node

    @property
    def message(self) -> str:
        """The error's own words; of a key error of the library, without the quotes that `str` puts around them."""
        told = self.error.args[0] if isinstance(self.error, KeyError) and len(self.error.args) == 1 else None
        return told if isinstance(told, str) and " " in told and self._is_raised_by_library else str(self.error)

    @property
    def _is_raised_by_library(self) -> bool:
        trace = self.error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        return trace is not None and library_files[trace.tb_frame.f_code.co_filename]

    @cached_property
    def locals(self) -> dict[str, Operand]:
        """Names of the innermost frames of the library, of which the error tells: arguments of what failed."""
        found: dict[str, Operand] = {}
        for frame in self.stack[0].called:  # those that still run
            found |= {name: x for name, x in frame.f_locals.items() if not name.startswith("_")}
        trace: TracebackType | None = self.error.__traceback__
        while trace is not None:
            if library_files[trace.tb_frame.f_code.co_filename]:
                found |= {name: x for name, x in trace.tb_frame.f_locals.items() if not name.startswith("_")}
            trace = trace.tb_next
        return found

    @cached_property
    def culprit(self) -> NamedValue | None:
        """The operand of the line that the innermost expression of the library works on."""
        frames: list[UserFrame] = []
        trace: TracebackType | None = self.error.__traceback__
        while trace is not None:
            frames.append(UserFrame(trace.tb_frame, trace.tb_lasti, ()))
            trace = trace.tb_next
        for place in frames[: -MAX_SEARCHED_FRAMES - 1 : -1]:
            if not library_files[place.frame.f_code.co_filename]:
                break
            _, node = find_expression(place) or (None, None)
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} if node is not None else set()
            values = [place.frame.f_locals[name] for name in names if name in place.frame.f_locals]
            found = [each for each in self.operands if any(each.value is value for value in values)]
            if len(found) == 1:
                return found[0]
        return None

    def module(self) -> NamedValue | None:
        """Return the innermost module that failed, under the user's name, with the line that made it."""
        if not self.modules:
            return self.named_module()
        outer = next((each for each in self.operands if any(each.value is module for module in self.modules)), None)
        inner = self.modules[0]
        if outer is None:
            return NamedValue(type(inner).__name__, inner)
        names = _path_within(outer.value, self.modules)
        text = outer.text + "".join(f"[{name}]" if name.isdigit() else f".{name}" for name in names)
        origin, helper = _find_part(outer.origin, names, type(inner).__name__, self.stack)
        if origin is not None and isinstance(origin.value, ast.Name):  # self.up = up
            given = find_assignment(origin.source, origin.source.scope_of(origin.node), origin.value.id, origin.node)
            given = given or find_assignment(origin.source, origin.source.tree, origin.value.id, None)
            is_made = given is not None and isinstance(getattr(given, "value", None), ast.Call)
            origin = Origin(origin.source, given) if given is not None and is_made else origin
        made = None if origin is None else origin.value
        kind = type(inner).__name__
        is_found = made is None or any(
            text_of(each.func).rpartition(".")[2] == kind for each in ast.walk(made) if isinstance(each, ast.Call)
        )
        built = None if is_found or self.program is None else self.program.find_construction(inner)
        if built is not None and isinstance(built.node, ast.Call):  # where a function has put the model together
            origin, helper = Origin(built.source, built.node), None
        if helper is None and origin is not None and _reads_parameters(origin):
            helper = self.find_maker(self.frame.f_locals.get("self"))
        return NamedValue(text, inner, origin, source=helper)

    def find_maker(self, module: Operand) -> NamedValue | None:
        """Return the call of the user's class that made a module of which a method runs, such as `Block(16, 8)`."""
        for i, place in enumerate(self.stack[1:], 1):  # each reads a file
            source, call = find_expression(place) or (None, None)
            if source is None or not isinstance(call, ast.Call) or evaluate(call.func, place.frame) is not module:
                continue
            origin = find_origin(source, call.func, self.stack[i:])
            made = None if origin is None else origin.value_of(text_of(call.func))
            if origin is not None and isinstance(made, ast.Call) and (made.args or made.keywords):
                return NamedValue(text_of(made), MISSING, Origin(origin.source, made))
        return None

    def part_before(self) -> NamedValue | None:
        """Return the part of an `nn.Sequential` whose result the innermost module that failed has taken."""
        layer, parts = self.module(), list(vars(self.modules[1])["_modules"]) if len(self.modules) > 1 else []
        if layer is None or not layer.text.endswith("]"):
            return None
        owner, _, name = layer.text[:-1].rpartition("[")
        place = parts.index(name) - 1 if name in parts else -1
        outer = next((each for each in self.operands if each.text == owner), None)
        if place < 0 or outer is None:
            return None
        before = vars(self.modules[1])["_modules"][parts[place]]
        origin, helper = _find_part(outer.origin, [parts[place]], type(before).__name__, self.stack)
        return NamedValue(f"{owner}[{parts[place]}]", before, origin, source=helper)

    def named_module(self) -> NamedValue | None:
        """Return the first operand that is a module."""
        return next((each for each in self.operands if is_module(each.value)), None)

    def find_operand(self, text: str) -> NamedValue | None:
        """Return the operand that the line writes so."""
        return next((each for each in self.operands if each.text == text), None)

    def tensors(self) -> list[NamedValue]:
        """Return the operands that are tensors."""
        found = (each for each in self.operands if isinstance(each.value, Tensor))
        return [each for each in found if not hasattr(type(each.value), "materialize")]  # a lazy one has no shape yet

    def describe_operands(self) -> list[str]:
        """Return a line for each operand that tells something."""
        module = self.module()
        shown = [module] if module is not None and module.text != type(module.value).__name__ else []
        seen = {id(each.value) for each in shown}
        for each in self.operands:
            if id(each.value) not in seen and (
                _is_telling(each)
                or (
                    each.origin is not None
                    and re.search(rf"'{type(each.value).__name__}'|not {type(each.value).__name__}$", self.message)
                )  # None, a text, a truth
            ):
                seen.add(id(each.value))
                shown.append(each)
        lines = [each.describe() for each in shown] + self._describe_arguments() + self._describe_model()
        return lines + [each for each in self._describe_callbacks() if each not in lines]

    def _describe_callbacks(self) -> list[str]:
        """Return a line for each function of the user's that the library was about to call, or whose result it has."""
        if self.stack[0].called:
            described = (each.describe(self.message) for each in find_callbacks(self.stack, self.message))
            return [each for each in described if each is not None]
        return []

    def _describe_model(self) -> list[str]:
        """Return a line for the model around the module that failed, with the line that made it."""
        around = self.modules[1:]
        for place in self.stack[1:] if around else ():  # each reads a file
            source, call = find_expression(place) or (None, None)
            model = evaluate(call.func, place.frame) if isinstance(call, ast.Call) else None
            if source is None or not isinstance(call, ast.Call) or not any(model is each for each in around):
                continue
            origin = find_origin(source, call.func, self.stack[self.stack.index(place) :])
            if (
                origin is not None
                and isinstance(origin.value, ast.Call)
                and (origin.value.args or origin.value.keywords)
            ):
                return [NamedValue(text_of(call.func), model, origin).describe()]
        return []

    def _describe_arguments(self) -> list[str]:
        """Return a line for each argument of the line that a function of the user's returns."""
        found = []
        for node in ast.walk(self.line.node) if self.line is not None else ():
            if self.line is not None and isinstance(node, ast.Call) and node is not self.line.node:
                called = evaluate(node.func, self.frame)
                is_made = isinstance(called, type)  # a class returns none of the values
                returned = None if is_made else find_return(Origin(self.line.source, node), self.stack)
                found += [] if returned is None else [f"{text_of(node)}: {describe_return(returned)}"]
        return found


def _is_telling(operand: NamedValue) -> bool:
    value = operand.value
    if value is None or isinstance(value, (bool, str, bytes, type)):
        return False
    if is_module(value) or operand.text == "self":
        return False
    held = getattr(value, "__dict__", None)  # of the object alone: __getattr__ may be the user's
    is_shaped = hasattr(type(value), "shape") or "shape" in (held or ())
    is_plain = held is None or is_shaped or isinstance(value, (list, tuple))
    return is_plain or (operand.origin is not None and "param_groups" not in (held or ()))


def _reads_parameters(origin: Origin) -> bool:
    """Return whether a call gives parameters of the function around it, such as those of `__init__`, as they are."""
    names = parameter_names(origin.source.scope_of(origin.node))
    call = origin.value
    given = (*call.args, *(each.value for each in call.keywords)) if isinstance(call, ast.Call) else ()
    return any(isinstance(each, ast.Name) and each.id in names for each in given)


def _path_within(outer: Operand, modules: list[Operand]) -> list[str]:
    """Return the names that lead from the module `outer` to the innermost one."""
    names: list[str] = []
    chain = modules[: next(i for i, each in enumerate(modules) if each is outer) + 1][::-1]
    for parent, child in pairwise(chain):
        names += next(_paths_to(parent, child), [type(child).__name__])
    return names


def _paths_to(parent: Operand, child: Operand) -> Iterator[list[str]]:
    """Yield the names that lead from a module to one of its parts, or to one that a list of it holds."""
    for name, each in vars(parent)["_modules"].items():
        if each is child:
            yield [name]
        elif type(each).__name__ in ("ModuleList", "ModuleDict"):
            yield from ([name, inner] for inner, part in vars(each)["_modules"].items() if part is child)


def _find_part(
    origin: Origin | None, names: list[str], kind: str, stack: Stack
) -> tuple[Origin | None, NamedValue | None]:
    """Return the argument of `nn.Sequential(…)` that made the part of a module with these names, and who called it.

    That is the call of the user's function which makes the part, if there is one.

    Of parts that were put into a list, it is the only call of the function that makes one of the class `kind`.
    """
    if origin is None or not names or origin.value is None:
        return origin, None
    made, helper = Origin(origin.source, origin.value), None
    call = made.node
    is_copied = isinstance(call, ast.Call) and text_of(call.func).endswith(("TransformerEncoder", "TransformerDecoder"))
    if isinstance(call, ast.Call) and is_copied and names[0] == "layers" and call.args:
        return find_origin(made.source, call.args[0], stack) or Origin(made.source, call.args[0]), None
    for name in names:
        inside = _enter_helper(made, stack)
        helper = helper if inside is made else NamedValue(text_of(made.node), MISSING, made)
        made, node = inside, inside.node
        is_listed = isinstance(node, ast.Call) and name.isdigit() and int(name) < len(node.args)
        part = node.args[int(name)] if isinstance(node, ast.Call) and is_listed else None
        if part is None or isinstance(part, ast.Starred):
            scope = made.source.scope_of(node)
            calls = [each for each in ast.walk(scope) if isinstance(each, ast.Call)] if names[-1].isdigit() else []
            fitting = [each for each in calls if text_of(each.func).rpartition(".")[2] == kind]
            return (Origin(made.source, fitting[0]), helper) if len(fitting) == 1 else (origin, None)
        made = Origin(made.source, part)
    return made, helper


def _enter_helper(made: Origin, stack: Stack) -> Origin:
    """Return the expression that a function or method of the user's returns, where the expression is its call."""
    for place in stack if isinstance(made.node, ast.Call) else ():
        called = made.node.func if isinstance(made.node, ast.Call) else made.node
        owner = evaluate(called.value, place.frame) if isinstance(called, ast.Attribute) else None
        function = evaluate(called, place.frame) if isinstance(called, ast.expr) else None
        if is_module(owner) and isinstance(called, ast.Attribute):
            function = inspect.getattr_static(type(owner), called.attr, None)
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        returned = find_return_in(code) if code is not None and user_files[code.co_filename] else None
        value = None if returned is None else getattr(returned.node, "value", None)
        if returned is not None and isinstance(value, ast.Name):
            scope = returned.source.scope_of(value)
            value = getattr(find_assignment(returned.source, scope, value.id, value), "value", None)
        if returned is not None and value is not None:
            return Origin(returned.source, value)
    return made


def inspect_failure(error: BaseException, stack: Stack) -> Failure:
    """Return what is known of an error that has come to the user's frames."""
    line, operands = find_operands(stack)
    return Failure(error, stack, line, operands, list(error.__dict__.get("modules", ())))

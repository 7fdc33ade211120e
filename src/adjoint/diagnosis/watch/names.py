"""The user's names of modules, parameters and optimizers, and the lines that made them."""

from __future__ import annotations

import ast
from itertools import pairwise
from types import FrameType

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place, place_of_origin
from adjoint.diagnosis.operands import MISSING, Origin, evaluate, is_module
from adjoint.diagnosis.source_expressions import (
    find_assignment,
    find_attribute_assignment,
    text_of,
)
from adjoint.diagnosis.watch.frames import find_expression, find_origin_place, user_frames
from adjoint.nn.module.module import Module

MAX_SEARCHED_FRAMES = 8
MAX_SEARCHED_ITEMS = 64


class RootModule:
    """A module that the user calls by a name of his own, and the line that made it."""

    def __init__(self, module: Module, name: str, made: Place | None) -> None:
        self.module, self.name, self.made = module, name, made
        self.is_model = False  # parameters have been seen in it

    def has_parameters(self) -> bool:
        """Return whether the module has parameters; one that once had some is not searched again."""
        self.is_model = self.is_model or next(iter(self.module.parameters()), None) is not None
        return self.is_model


class Names:
    """Names of what the watch has seen."""

    def __init__(self) -> None:
        self.roots: dict[int, RootModule] = {}
        self.tensors: dict[int, str] = {}
        self.known: dict[int, Module] = {}  # modules whose names have been looked for

    def note_call(self, module: Module, frame: FrameType) -> None:
        """Note the name of a module that was called from the user's line."""
        if self.known.get(id(module)) is module:
            return
        self.known[id(module)] = module
        if any(module is part for root in self.roots.values() for part in root.module.modules()):
            return
        owner, name, made = _find_owner(module, frame)
        for key, root in list(self.roots.items()):
            if any(root.module is part for part in owner.modules()):
                del self.roots[key]
        self.roots[id(owner)] = RootModule(owner, name, made)

    def models(self) -> list[RootModule]:
        """Return the outermost modules that have parameters."""
        return [root for root in self.roots.values() if root.has_parameters()]

    def name_of_module(self, module: Module) -> str:
        """Return `model.encoder.0`, or the class's name."""
        for root in self.roots.values():
            for name, part in root.module.named_modules():
                if part is module:
                    return f"{root.name}.{name}" if name else root.name
        return type(module).__name__

    def name_of_parameter(self, parameter: Operand) -> str:
        """Return `model.fc1.weight`, a variable's name, or type and shape."""
        for root in self.roots.values():
            for name, part in root.module.named_parameters(remove_duplicate=False):
                if part is parameter:
                    return f"{root.name}.{name}"
        return self.tensors.get(id(parameter)) or f"a parameter of shape {tuple(parameter.shape)}"

    def note_tensors(self, tensors: list[Operand], frame: FrameType) -> None:
        """Look for the names of tensors among the variables around the frame."""
        missing = {id(x) for x in tensors} - self.tensors.keys()
        missing -= {id(p) for root in self.roots.values() for p in root.module.parameters()}
        if not missing:
            return
        for outer in user_frames(frame)[:MAX_SEARCHED_FRAMES]:
            for names in (outer.f_locals, outer.f_globals):
                for name, value in list(names.items()):
                    for path, part in _parts(name, value):
                        if id(part) in missing:
                            self.tensors.setdefault(id(part), path)

    def origin_of_module(self, module: Module) -> Place | None:
        """Return the line that made a module: `self.fc1 = …`, or that of the container it is in."""
        for root in self.roots.values():
            for name, part in root.module.named_modules():
                if part is module:
                    return self._origin_within(root, name) or root.made
        return None

    def origin_of_parameter(self, parameter: Operand) -> Place | None:
        """Return the line that made a parameter, or its module."""
        for root in self.roots.values():
            for name, part in root.module.named_parameters(remove_duplicate=False):
                if part is parameter:
                    return self._origin_within(root, name) or root.made
        return None

    def _origin_within(self, root: RootModule, path: str) -> Place | None:
        """Return the innermost assignment in the user's classes on the way to the part `path` of a root."""
        found, owner = None, root.module
        for name in path.split("."):
            assigned = find_attribute_assignment(owner, name) if name and not name.isdigit() else None
            if assigned is not None:
                found = place_of_origin(Origin(*assigned))
            child = owner._modules.get(name)
            if child is None:
                break
            owner = child
        return found


def _parts(name: str, value: Operand) -> list[tuple[str, Operand]]:
    """Return the tensors that a variable holds, each with its expression."""
    if isinstance(value, Tensor):
        return [(name, value)]
    if isinstance(value, (list, tuple)) and len(value) <= MAX_SEARCHED_ITEMS:
        return [(f"{name}[{i}]", part) for i, part in enumerate(value) if isinstance(part, Tensor)]
    if isinstance(value, dict) and len(value) <= MAX_SEARCHED_ITEMS:
        return [(f"{name}[{key!r}]", part) for key, part in value.items() if isinstance(part, Tensor)]
    if is_module(value):
        return [(f"{name}.{path}", part) for path, part in value.named_parameters()]
    held = getattr(value, "__dict__", None) if name == "self" else None
    if isinstance(held, dict):
        return [(f"{name}.{key}", part) for key, part in held.items() if isinstance(part, Tensor)]
    return []


def _find_owner(module: Module, frame: FrameType) -> tuple[Module, str, Place | None]:
    """Return the outermost module of the expression that was called, its text, and the line that made it."""
    found = find_expression(frame)
    if found is not None and isinstance(found[1], ast.Call):
        source, node = found[0], found[1].func
        chain: list[ast.expr] = []
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            chain.append(node)
            node = node.value
        for part in (node, *reversed(chain)):
            value = evaluate(part, frame)
            if value is not MISSING and is_module(value) and any(module is each for each in value.modules()):
                named_self = isinstance(part, ast.Name) and part.id == "self"
                text = type(value).__name__ if named_self else text_of(part)
                text = _name_in_callers(text, value, frame)
                return value, text, None if named_self else find_origin_place(source, part, frame)
    for outer in user_frames(frame)[:MAX_SEARCHED_FRAMES]:
        for names in (outer.f_locals, outer.f_globals):
            for name, value in list(names.items()):
                if value is module:
                    return module, name, origin_of_name(name, outer)
    return module, type(module).__name__, None


def _name_in_callers(name: str, value: Operand, frame: FrameType) -> str:
    """Return the name that the program has for what a function gets as an argument of this name."""
    for inner, outer in pairwise(user_frames(frame)[:MAX_SEARCHED_FRAMES]):
        code = inner.f_code
        held = (key for key, each in outer.f_locals.items() if each is value and key != "self")
        passed = next(held, None) if name in code.co_varnames[: code.co_argcount] else None
        if passed is None:
            break
        name = passed
    return name


def origin_of_name(name: str, frame: FrameType) -> Place | None:
    """Return the line that gave a name of the frame's function, or of its file, a value."""
    found = find_expression(frame)
    if found is None:
        return None
    source, node = found
    statement = find_assignment(source, source.scope_of(node), name, node) or find_assignment(
        source, source.tree, name, None
    )
    return None if statement is None else place_of_origin(Origin(source, statement))


def name_of_value(value: object, frame: FrameType) -> str:
    """Return the name of the frame's variable that has the value."""
    return next((name for name, each in frame.f_locals.items() if each is value), "the value")


def describe_data(value: object, frame: FrameType) -> tuple[str, Place | None]:
    """Return the variable around a frame that has the value, and the line that gave it to it."""
    for outer in user_frames(frame)[:MAX_SEARCHED_FRAMES]:
        for names in (outer.f_locals, outer.f_globals):
            name = next((key for key, each in names.items() if each is value), None)
            if name is not None:
                return name, origin_of_name(name, outer)
    return "", None


def describe_callee(frame: FrameType) -> tuple[str, Place | None]:
    """Return the text of the object whose method the frame calls, `optimizer` of `optimizer.step()`, and its origin."""
    found = find_expression(frame)
    if found is None or not isinstance(found[1], ast.Call) or not isinstance(found[1].func, ast.Attribute):
        return "", None
    owner = found[1].func.value
    return text_of(owner), find_origin_place(found[0], owner, frame)


def place_of_rate(frame: FrameType) -> Place | None:
    """Return the line that calls the function around an optimizer's call with the number of its rate, if one does."""
    name = "lr"
    for inner, outer in pairwise([None, *user_frames(frame)[:MAX_SEARCHED_FRAMES]]):
        found = find_expression(outer) if outer is not None else None
        call = found[1] if found is not None and isinstance(found[1], ast.Call) else None
        if found is None or call is None:
            return None
        given = next((each.value for each in call.keywords if each.arg == name), None)
        if given is None and inner is not None:  # by its place
            names = [each for each in inner.f_code.co_varnames[: inner.f_code.co_argcount] if each != "self"]
            at = names.index(name)
            given = call.args[at] if at < len(call.args) else None
        if isinstance(given, ast.Constant) and inner is not None:
            return place_of_origin(Origin(found[0], given))
        code = outer.f_code if outer is not None else None
        if not isinstance(given, ast.Name) or code is None or given.id not in code.co_varnames[: code.co_argcount]:
            return None
        name = given.id
    return None


def describe_iterated(value: object, frame: FrameType) -> tuple[str, Place | None]:
    """Return the text of an object that the frame iterates over, in a loop or an argument, and its origin."""
    found = find_expression(frame)
    if found is None:
        return "", None
    node = found[1].iter if isinstance(found[1], (ast.For, ast.AsyncFor, ast.comprehension)) else found[1]
    for part in ast.walk(node):
        if isinstance(part, (ast.Name, ast.Attribute)) and evaluate(part, frame) is value:
            return text_of(part), find_origin_place(found[0], part, frame)
    return "", None

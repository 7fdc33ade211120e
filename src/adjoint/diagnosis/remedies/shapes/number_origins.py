"""Origins of numbers: where the size of a layer comes from, through the arguments of the classes around it."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from adjoint.diagnosis.operands import NamedValue
from adjoint.diagnosis.source_expressions import (
    SourceFile,
    find_assignment,
    find_only_call,
    find_value_of,
    parameter_names,
    text_of,
)

MAX_STEPS_BACK = 6


@dataclass(frozen=True)
class NumberOrigin:
    """The argument, the default or the constant that gives a layer its size."""

    name: str  # of the parameter or the constant
    source: SourceFile
    node: ast.AST  # the constant's statement, or the call that gives the argument or leaves it to its default

    def describe(self, number: object) -> str:
        """Return what to write there for another number: `max_len=48 in Model(100) at train.py:22`."""
        place = self.source.place_of(self.node)
        if isinstance(self.node, ast.Call):
            return f"{self.name}={number} in {text_of(self.node)} at {place}"
        return f"{self.name} = {number} at {place}"


def describe_number(
    layer: NamedValue | None, place: int, keyword: str, number: object, *, is_shared: bool = False
) -> str:
    """Return ", by max_len=48 in Model(100) at train.py:22" for a setting of the layer whose number comes from there.

    The text is empty where the number stands in the call that makes the layer, or is computed; and where other layers
    have it too, unless it may be shared.
    """
    given = _find_setting(layer, place, keyword)
    if layer is None or layer.origin is None:
        return ""
    own = getattr(layer.value, keyword, None)
    found = None if given is None else find_number(layer.origin.source, given, is_shared=is_shared, value=own)
    if found is None:
        return ""
    is_pair = isinstance(found.node, ast.Assign) and isinstance(found.node.targets[0], ast.Tuple)
    is_list = isinstance(getattr(found.node, "value", None), (ast.List, ast.Tuple)) and not is_pair
    return (
        f", in {text_of(found.node)} at {found.source.place_of(found.node)}"
        if is_list
        else (f", by {found.describe(number)}")
    )


def _find_call(layer: NamedValue | None) -> ast.Call | None:
    """Return the call of its class that made a layer, within the expression that made what holds it."""
    made = None if layer is None or layer.origin is None else layer.origin.value
    kind = "" if layer is None else type(layer.value).__name__
    calls = [each for each in ast.walk(made or ast.Module([], [])) if isinstance(each, ast.Call)]
    return next((each for each in calls if text_of(each.func).rpartition(".")[2] == kind), None)


def write_exchanged(layer: NamedValue | None, size: int) -> str | None:
    """Return the call that made a layer with its first two sizes in the other order, where both have names.

    None where another layer of the model takes the size too, which may have been left out before this one.
    """
    made, kind = _find_call(layer), "" if layer is None else type(layer.value).__name__
    if layer is None or layer.origin is None or made is None or len(made.args) < 2:
        return None
    first, second = made.args[:2]
    is_named = all(isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)) for each in (first, second))
    others = [each for each in layer.origin.source.calls.get(text_of(made.func), ()) if each is not made and each.args]
    if not is_named or not kind or any(text_of(each.args[0]) in (text_of(second), str(size)) for each in others):
        return None
    return text_of(ast.Call(made.func, [second, first, *made.args[2:]], made.keywords))


def _find_setting(layer: NamedValue | None, place: int, keyword: str) -> ast.expr | None:
    """Return the argument of the call that made a layer which is a setting of it."""
    made = _find_call(layer)
    given = None if made is None else next((each.value for each in made.keywords if each.arg == keyword), None)
    is_plain = made is not None and not any(isinstance(each, ast.Starred) for each in made.args)
    return made.args[place] if made is not None and given is None and is_plain and place < len(made.args) else given


def write_maker(
    layer: NamedValue | None, place: int, keyword: str, number: int, *, is_shared: bool = False
) -> str | None:
    """Return the call of the user's function that made a layer, with another number for a setting that it hands on.

    None where the setting is not handed on as it is, or something else of the function is made of it too; and of a
    class, unless its own input has that size.
    """
    given, helper = _find_setting(layer, place, keyword), None if layer is None else layer.source
    call = None if helper is None or helper.origin is None else helper.origin.value
    if not isinstance(given, ast.Name) or not isinstance(call, ast.Call) or layer is None or layer.origin is None:
        return None
    scope = layer.origin.source.scope_of(given)
    names = [each for each in parameter_names(scope) if each != "self"]
    uses = [each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id == given.id]
    if getattr(scope, "name", "") == "__init__" and not is_shared:
        return None
    if given.id not in names or len(uses) > 1 or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    if names.index(given.id) < len(call.args):
        before = call.args[names.index(given.id)]
        return text_of(copy.deepcopy(call, {id(before): ast.Constant(number)}))
    others = [each for each in call.keywords if each.arg != given.id]
    return text_of(ast.Call(call.func, call.args, [*others, ast.keyword(given.id, ast.Constant(number))]))


def find_number(source: SourceFile, node: ast.expr, *, is_shared: bool, value: object = None) -> NumberOrigin | None:
    """Return where a name that gives a number has it from; None where an expression computes it, or calls differ.

    Of several calls of a class, it is the only one that gives that value.
    """
    found: NumberOrigin | None = None
    for _ in range(MAX_STEPS_BACK):
        if not isinstance(node, ast.Name):
            is_far = is_shared or (found is not None and not isinstance(found.node, ast.Call))
            is_known = isinstance(node, (ast.Constant, ast.List, ast.Tuple))
            return found if is_known and is_far else None
        scope = source.scope_of(node)
        items = _find_iterated(source, node)
        if items is not None:
            node, is_shared = items, True
            continue
        uses = [each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id == node.id]
        if not is_shared and not isinstance(scope, ast.Module) and len(uses) > 1:
            return None
        if node.id not in parameter_names(scope):
            statement = find_assignment(source, scope, node.id, node)
            statement = statement or find_assignment(source, source.tree, node.id, None)
            value = None if statement is None else find_value_of(statement, node.id)
            value = value or getattr(statement, "value", None)
            if not isinstance(value, ast.expr) or statement is None:
                return None
            found, node = NumberOrigin(node.id, source, statement), value
            continue
        call = find_only_call(source, scope) or _find_call_giving(source, scope, node.id, value)
        if call is None:
            return None
        names = [each for each in parameter_names(scope) if each != "self"]
        place = names.index(node.id)
        given = next((each.value for each in call.keywords if each.arg == node.id), None)
        given = call.args[place] if given is None and place < len(call.args) else given
        found = NumberOrigin(node.id, source, call)
        if given is None:
            return found if _has_default(scope, node.id) else None
        node = given
    return None


def _find_call_giving(source: SourceFile, scope: ast.AST, name: str, value: object) -> ast.Call | None:
    """Return the only call of a class that gives a parameter of its `__init__` a value by a constant."""
    owner = getattr(source.parents.get(scope), "name", "")
    if type(value) is not int or not isinstance(scope, ast.FunctionDef) or scope.name != "__init__":
        return None
    names, found = [each for each in parameter_names(scope) if each != "self"], []
    for call in source.calls.get(owner, ()):
        given = next((each.value for each in call.keywords if each.arg == name), None)
        place = names.index(name)
        given = call.args[place] if given is None and place < len(call.args) else given
        if not isinstance(given, ast.Constant):
            return None
        found += [call] if given.value == value else []
    return found[0] if len(found) == 1 else None


def _find_iterated(source: SourceFile, node: ast.Name) -> ast.Name | None:
    """Return the list that a comprehension goes through to give a name its values: `widths` of `zip(widths, …)`."""
    around: ast.AST | None = source.parents.get(node)
    while around is not None and not isinstance(around, ast.stmt):
        for each in getattr(around, "generators", ()):
            if any(isinstance(part, ast.Name) and part.id == node.id for part in ast.walk(each.target)):
                names = [part for part in ast.walk(each.iter) if isinstance(part, ast.Name) and part.id != "zip"]
                return names[0] if names else None
        around = source.parents.get(around)
    return None


def _has_default(scope: ast.AST, name: str) -> bool:
    arguments: ast.arguments = getattr(scope, "args", None) or ast.arguments([], [], None, [], [], None, [])
    places = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if name in places:
        return places.index(name) >= len(places) - len(arguments.defaults)
    named = dict(zip((each.arg for each in arguments.kwonlyargs), arguments.kw_defaults, strict=True))
    return named.get(name) is not None

"""Remedies for None where a value belongs: gradients that are not there, functions and methods that return nothing."""

from __future__ import annotations

import ast
import inspect
import re
from itertools import pairwise

from adjoint.core.graph.source_location import definition_site
from adjoint.core.runtime.similar_names import find_spelling
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.callbacks import find_callbacks, find_registration
from adjoint.diagnosis.causes.operand_history import walk_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.language.sources_of_none import (
    describe_untaken_branch,
    find_stored_item,
    find_unasked_argument,
)
from adjoint.diagnosis.remedies.registry import at, named_parts, remedy, require_grad_last
from adjoint.diagnosis.repairs.expression import parse
from adjoint.diagnosis.source_expressions import SourceFile, find_function, parameter_names, parse_source, text_of

MAX_CALLS_FOLLOWED = 5
SILENT_METHODS = frozenset(
    [
        "append",
        "extend",
        "insert",
        "sort",
        "reverse",
        "remove",
        "clear",
        "update",
        "add",
        "backward",
        "zero_grad",
        "manual_seed",
        "add_module",
        "register_parameter",
        "register_buffer",
        "shuffle",
        "step",
    ]
)


@remedy(r"'?NoneType'?")
def find_none(failure: Failure, match: re.Match[str]) -> str | None:
    """None where a value belongs: a gradient that is not there, a function that returns nothing."""
    silent_argument = _find_silent_argument(failure)
    if silent_argument is not None:
        return silent_argument
    for callback in find_callbacks(failure.stack, failure.message):
        definition = callback.definition() if find_registration(callback) is None else None  # hooks may return nothing
        if (
            definition is not None
            and callback.find_return(is_none=True) is None
            and isinstance(definition.node, ast.FunctionDef)
        ):
            return f"{callback.name}, {definition.place()}, returns nothing: a return at its end"
    for operand in named_parts(failure):
        if operand.value is None and operand.text.endswith(".grad"):
            return _explain_missing_gradient(failure, operand)
        if operand.value is None:
            made = _find_given(operand)
            if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in SILENT_METHODS:
                told = f"{made.func.attr}() returns None"
                return f"{told}, and {operand.text}{at(operand)} with it: leave out '{operand.text} =' there"
            is_direct = _find_missing_key(failure, operand, made) is not None
            key = None if is_direct else walk_back(failure, _describe_missing_key)
            if key is not None:
                return f"{operand.text}{at(operand)} is None, as {key}"
            default = _find_default(failure, operand)
            if default is not None:
                return default
            part = _find_part_left_out(failure, operand) or _find_missing_key(failure, operand, made)
            if part is not None:
                return part
            silent = _find_silent_function(failure, made)
            if silent is None and isinstance(made, ast.IfExp):
                return f"{operand.text}{at(operand)} is None by its condition, {text_of(made.test)}: test for None here"
            why = "the line that makes it gives nothing back" if isinstance(made, ast.Call) else "a value for it there"
            return silent or f"{operand.text}{at(operand)} is None: {why}, or a test, if {operand.text} is not None"
    for operand in failure.operands:
        if isinstance(operand.value, (list, tuple)) and any(each is None for each in operand.value):
            place = next(i for i, each in enumerate(operand.value) if each is None)
            told = f"{operand.text}{at(operand)} holds None at place {place}"
            return f"{told}: [x for x in {operand.text} if x is not None] leaves it out"
    for item in ast.walk(failure.line.node) if failure.line is not None else ():
        if isinstance(item, ast.Subscript) and evaluate(item, failure.frame) is None:
            own = failure.find_operand(text_of(item.value))
            return f"{text_of(item)}{at(own)} is None: a value for it there, or a test, if {text_of(item)} is not None"
    if failure.modules and type(failure.modules[-1]).__name__ == "Sequential":
        for part in failure.modules[-1].children():
            if part is not failure.modules[0] and _may_return_nothing(type(part).forward):
                return _describe_silent_function(type(part).forward)
    if failure.line is None:
        return None
    statement = failure.line.source.statement_of(failure.line.node)
    if isinstance(statement, ast.Assign) and "unpack" in failure.message:
        return _find_silent_function(failure, statement.value)
    return _find_silent_function(failure, failure.line.node)


def _find_given(operand: NamedValue) -> ast.expr | None:
    """Return the expression that gave a name its value: of several at once, the one for this name."""
    origin = operand.origin
    made = None if origin is None else origin.value
    target = origin.node.targets[0] if origin is not None and isinstance(origin.node, ast.Assign) else None
    if isinstance(target, ast.Tuple) and isinstance(made, ast.Tuple) and len(target.elts) == len(made.elts):
        last = operand.text.rpartition(".")[2]
        named = [value for each, value in zip(target.elts, made.elts, strict=True) if text_of(each).endswith(last)]
        return named[0] if named else made
    return made


def _find_default(failure: Failure, operand: NamedValue) -> str | None:
    """Return which parameter's default, or which assignment of None, a name or an attribute has its value from."""
    origin, name = operand.origin, operand.text
    made = _find_given(operand)
    own = None if failure.line is None else failure.line.source.scope_of(failure.line.node)
    if (
        origin is None
        and failure.line is not None
        and isinstance(own, ast.FunctionDef)
        and name in parameter_names(own)
    ):
        for part, parent in pairwise(failure.modules):
            parts = list(parent.children()) if type(parent).__name__ == "Sequential" else []
            index = next((i for i, each in enumerate(parts) if each is part), 0)
            if index and _may_return_nothing(type(parts[index - 1]).forward):
                return _describe_silent_function(type(parts[index - 1]).forward)
        function = f"{own.name} at {failure.line.source.place_of(own)}"
        return f"{name} of {function} is None, its default: give {name}=… in the call, or test if {name} is not None"
    if origin is None or made is None:
        return None
    sign = re.match(r"'([<>])=?' not supported between instances", failure.message)
    if isinstance(made, ast.Constant) and made.value is None and sign is not None:
        node = failure.node
        is_left = isinstance(node, ast.Compare) and text_of(node.left) == name
        is_least = (sign[1] == "<") != is_left
        value = 'float("inf")' if is_least else '-float("inf")'
        first = "falls below" if is_least else "exceeds"
        return f"{name}{at(operand)} is None at first: {name} = {value} there, which any number {first}"
    node = failure.node
    is_added = isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub))
    added_to = text_of(node.target) if isinstance(node, ast.AugAssign) and is_added else ""
    if isinstance(made, ast.Constant) and made.value is None and added_to == name:
        return f"{name}{at(operand)} is None at first, and numbers are added to it: {name} = 0.0 there"
    unasked = None if failure.line is None else find_unasked_argument(failure, failure.node)
    if unasked is not None:
        return f"{name} is None, as {unasked}"
    if isinstance(made, ast.Constant) and made.value is None:
        untaken = describe_untaken_branch(failure, origin, name)
        if untaken is not None:
            return f"{name}{at(operand)} is None, and {untaken}"
        return f"{name}{at(operand)} is None, and nothing has given it another value: do that before this line"
    scope = origin.source.scope_of(origin.node)
    if (
        not isinstance(made, ast.Name)
        or not isinstance(scope, ast.FunctionDef)
        or made.id not in parameter_names(scope)
    ):
        return None
    function = getattr(origin.source.scope_of(scope), "name", "") if scope.name == "__init__" else scope.name
    place = origin.source.place_of(scope)
    return (
        f"{name}{at(operand)} is None, as {made.id} of {function}, {place}, was: give {made.id}=…, or test "
        f"if {name} is not None"
    )


def _describe_missing_key(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return which call `batch.get("labels")` of a line gives None, for the dictionary has other keys."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "get":
            continue
        held = evaluate(call.func.value, failure.frame)
        key = evaluate(call.args[0], failure.frame) if len(call.args) == 1 else MISSING
        if isinstance(held, dict) and isinstance(key, str) and key not in held:
            near = find_spelling(key, [each for each in held if isinstance(each, str)])
            known = ", ".join(map(repr, held)) if near is None else f"{near!r} is meant, perhaps"
            return f"{text_of(call)} at {source.place_of(call)} finds no {key!r}: {known}"
    return None


def _find_missing_key(failure: Failure, operand: NamedValue, made: ast.expr | None) -> str | None:
    """Return which key `dict.get(key)` did not find."""
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute) or made.func.attr != "get":
        return None
    held = evaluate(made.func.value, failure.frame)
    if not isinstance(held, dict) or not made.args:
        return None
    told = f"{operand.text}{at(operand)} is None, as {text_of(made.func.value)} has no {text_of(made.args[0])}"
    return f"{told}: its keys are {', '.join(map(repr, held))}"


def _find_part_left_out(failure: Failure, operand: NamedValue) -> str | None:
    """Return which setting leaves a parameter of a layer out, which is None then."""
    owner, _, name = operand.text.rpartition(".")
    layer = next((each for each in named_parts(failure) if each.text == owner and is_module(each.value)), None)
    if layer is None or name not in vars(layer.value).get("_parameters", ()):
        return None
    made = "" if layer.origin is None or layer.origin.value is None else f", {text_of(layer.origin.value)}"
    told = f"{owner}{at(layer)}{made}, was made" if made else f"{owner}, a {type(layer.value).__name__}, was made"
    return f"{operand.text} is None, as {told} without: if {operand.text} is not None"


def _find_silent_argument(failure: Failure) -> str | None:
    """Return which function of the user's, given to the call that failed, has no return."""
    node = failure.line.node if failure.line is not None else None
    if failure.line is not None and not failure.stack[0].called:
        statement = failure.line.source.statement_of(failure.line.node)
        node = statement.iter if isinstance(statement, (ast.For, ast.AsyncFor)) else None
        origin = find_origin(failure.line.source, node, failure.stack) if isinstance(node, ast.expr) else None
        node = node if origin is None else origin.value  # the loader
    for argument in (*node.args, *(each.value for each in node.keywords)) if isinstance(node, ast.Call) else ():
        function = evaluate(argument, failure.frame)
        if inspect.isfunction(function) and _may_return_nothing(function):
            return _describe_silent_function(function)
    return None


def _explain_missing_gradient(failure: Failure, operand: NamedValue) -> str:
    name = operand.text.removesuffix(".grad")
    owner = next((each.value for each in named_parts(failure) if each.text == name), None)
    owner = evaluate(parse(name), failure.frame) if owner is None else owner
    stored = find_stored_item(failure, name)
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    is_rebound = isinstance(statement, ast.Assign) and text_of(statement.targets[0]) == name
    if is_rebound and isinstance(owner, Tensor) and not owner.is_leaf:
        told = f"{name} = … makes a new tensor, computed and without a gradient of its own"
        value = statement.value if isinstance(statement, ast.Assign) else None
        changed = f"{name} -= …"
        if isinstance(value, ast.BinOp) and text_of(value.left) == name and isinstance(value.op, (ast.Add, ast.Sub)):
            changed = f"{name} {'+' if isinstance(value.op, ast.Add) else '-'}= {text_of(value.right)}"
        return f"{told}: with torch.no_grad(): {changed} changes the one that has it"
    scope = None if failure.line is None else failure.line.source.scope_of(failure.line.node)
    for made in ast.walk(scope) if scope is not None and isinstance(owner, Tensor) else ():
        if failure.line is None or not isinstance(made, ast.Assign) or text_of(made.targets[0]) != name:
            continue
        value = made.value
        has_run = made is not statement or not owner.is_leaf
        is_update = "." in name or (has_run and f"{name}.grad" in text_of(value))  # else the leaf may be made so
        if isinstance(value, ast.BinOp) and text_of(value.left) == name and is_update:
            operator = text_of(ast.BinOp(ast.Name("a", ast.Load()), value.op, ast.Name("b", ast.Load())))[2]
            told = f"{text_of(made)} at {failure.line.source.place_of(made)} makes a new tensor, which has no gradient"
            return f"{told}: {name} {operator}= {text_of(value.right)} there, in no_grad(), changes the one that has it"
    if isinstance(owner, Tensor) and not owner.is_leaf:
        expression = None if operand.origin is None else operand.origin.value
        whole = None if expression is None else require_grad_last(expression)
        if whole is not None and operand.origin is not None:
            told = f"{name} at {operand.origin.place()} is computed of the tensor that requires grad, and is no leaf"
            return f"{told}: {name} = {whole} there"
        return f"{name}{stored} is computed, and gradients stay with leaves: {name}.retain_grad() before backward()"
    if isinstance(owner, Tensor) and not owner.requires_grad and operand.origin is not None:
        made, place = operand.origin.node, operand.origin.place()
        if isinstance(made, ast.Assign) and any(text_of(each) == operand.text for each in ast.walk(made.value)):
            told = f"{name} = … at {place} makes a new tensor, without requires_grad and without a gradient"
            return f"{told}: {name} -= … under no_grad() changes the one that has it"
    origin = operand.origin
    loop = None if origin is None else origin.node
    is_loop = isinstance(loop, ast.For) and "parameters(" in text_of(loop.iter)
    if isinstance(owner, Tensor) and isinstance(loop, ast.For) and is_loop and not _awaits_backward(failure, loop):
        why = "is frozen" if not owner.requires_grad else "took no part in the loss"
        told = f"{name} is each parameter of {text_of(loop.iter)} at {origin.place() if origin is not None else ''}"
        return f"{told} in turn, and one {why}, which has no gradient: if {operand.text} is not None before it"
    uncalled = _find_uncalled_backward(failure)
    if uncalled is not None:
        return f"{uncalled} names the method, and does not call it: add () there"
    source = None if failure.line is None else failure.line.source
    around: ast.AST | None = None if failure.line is None else failure.line.node
    while source is not None and around is not None and not isinstance(around, ast.stmt):
        for each in getattr(around, "generators", ()):
            target = text_of(each.target).strip("()")
            if name in target.split(", ") and "parameters(" in text_of(each.iter):
                told = f"{name} is each parameter of {text_of(each.iter)}, and one took no part in the loss"
                return f"{told}: for {target} in {text_of(each.iter)} if {operand.text} is not None"
        around = source.parents.get(around)
    if isinstance(owner, Tensor) and not owner.requires_grad:
        return f"{name} does not require grad: requires_grad=True where it is made"
    return f"{operand.text} is None until backward() has reached {name}: call it before, on a loss made of {name}"


def _awaits_backward(failure: Failure, loop: ast.For) -> bool:
    """Return whether no parameter of the module that a loop goes through has a gradient yet."""
    calls = [each for each in ast.walk(loop.iter) if isinstance(each, ast.Call)]
    owners = [evaluate(call.func.value, failure.frame) for call in calls if isinstance(call.func, ast.Attribute)]
    modules = [each for each in owners if is_module(each)]
    return not any(p.grad is not None for each in modules for p in each.parameters())


def _find_uncalled_backward(failure: Failure) -> str | None:
    """Return the statement `loss.backward`, without a call, of one of the user's frames."""
    for place in failure.stack:
        source = parse_source(place.frame.f_code.co_filename)
        for node in source.nodes_of(ast.Expr) if source is not None else ():
            value = node.value
            if source is not None and isinstance(value, ast.Attribute) and value.attr == "backward":
                return f"{text_of(value)} at {source.place_of(value)}"
    return None


def _find_silent_function(failure: Failure, node: ast.AST | None) -> str | None:
    """Return which function of the user's, called in the expression, has no return."""
    for call in ast.walk(node) if node is not None else ():
        if not isinstance(call, ast.Call):
            continue
        found = (evaluate(call.func, place.frame) for place in failure.stack)
        called: Operand = next((each for each in found if each is not MISSING), MISSING)
        function = type(called).forward if is_module(called) else called
        if function is MISSING and isinstance(call.func, ast.Call):
            made = evaluate(call.func.func, failure.frame)
            function = getattr(made, "forward", MISSING)
        if function is MISSING and isinstance(call.func, ast.Attribute):
            owner = evaluate(call.func.value, failure.frame)
            name = "forward" if call.func.attr == "apply" else call.func.attr
            function = getattr(owner if isinstance(owner, type) else type(owner), name, MISSING)
        silent = _follow_returns(function)
        if silent is not None:
            return _describe_silent_function(silent)
    return None


def _follow_returns(function: Operand) -> Operand:
    """Return the function that may return nothing: this one, or one whose result it returns as it is."""
    for _ in range(MAX_CALLS_FOLLOWED):
        code = getattr(function, "__code__", None)
        if code is None or not user_files[code.co_filename]:
            return None
        if _may_return_nothing(function):
            return function
        source = parse_source(code.co_filename)
        node = None if source is None else find_function(source, code.co_firstlineno)
        call = node.body[-1].value if node is not None and isinstance(node.body[-1], ast.Return) else None
        if source is None or not isinstance(call, ast.Call):
            return None
        function = _called_by_name(function.__globals__, source, call.func)
    return None


def _called_by_name(names: dict[str, Operand], source: SourceFile, called: ast.expr) -> Operand:
    """Return the function that a call stands for: one by its name, or the forward of a part that `__init__` made."""
    if isinstance(called, ast.Name):
        return names.get(called.id)
    if not isinstance(called, ast.Attribute) or text_of(called.value) != "self":
        return None
    scope = source.scope_of(called)
    owner = source.scope_of(scope)
    made = source.attribute_assignments.get((getattr(owner, "name", ""), called.attr), [])
    value = getattr(made[0], "value", None) if made else None
    kind = names.get(value.func.id) if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else None
    return getattr(kind, "forward", None) if kind else getattr(names.get(getattr(owner, "name", "")), called.attr, None)


def _describe_silent_function(function: Operand) -> str:
    code = function.__code__
    site = definition_site(code).describe_briefly()
    told = f"{function.__qualname__.rsplit('<locals>.', 1)[-1]}, {site}, may return nothing"
    source = parse_source(code.co_filename)
    node = None if source is None else find_function(source, code.co_firstlineno)
    last = node.body[-1] if node is not None else None
    while isinstance(last, ast.With):
        last = last.body[-1]
    target = last.targets[0] if isinstance(last, ast.Assign) else None
    value = last.value if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Call) else target
    made = source.assignments_in(node) if source is not None and node is not None else {}
    wanted = [name for name in made if name in ("loss", "out", "output", "logits", "result")]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and len(wanted) == 1 and source is not None:
        return f"{told}: return {wanted[0]} after {source.place_of(last)}, {text_of(last)}"
    if (
        source is None
        or last is None
        or not isinstance(value, ast.Name if value is target else (ast.Name, ast.Tuple, ast.BinOp))
    ):
        return f"{told}: a return at its end"
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    result = f"return {', '.join(map(text_of, parts))}"
    place = source.place_of(last)
    return f"{told}: {result} at {place}" if value is not target else f"{told}: {result} after {place}, {text_of(last)}"


def _may_return_nothing(function: Operand) -> bool:
    """Return whether the last statement of the user's function neither returns nor raises."""
    if not user_files[function.__code__.co_filename]:
        return False
    try:
        tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return False
    body = tree.body[0].body if isinstance(tree.body[0], ast.FunctionDef) else []
    last = body[-1] if body else None
    if isinstance(last, ast.If) and not last.orelse:
        return any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(last))
    return last is not None and not isinstance(last, (ast.Return, ast.Raise, ast.If, ast.With, ast.Try, ast.Match))

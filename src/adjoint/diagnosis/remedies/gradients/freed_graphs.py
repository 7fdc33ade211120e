"""Remedies for graphs that a pass has freed or that need overwritten values: two passes, states carried on, writes."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import UserFrame
from adjoint.diagnosis.causes.computing import open_program
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate
from adjoint.diagnosis.remedies.registry import remedy
from adjoint.diagnosis.source_expressions import (
    SourceFile,
    find_expression,
    find_function,
    parameter_names,
    text_of,
)
from adjoint.nn.module.parameter import Parameter

FIXED = re.compile(r"(^|_)(old|prev\w*|target\w*|ref\w*|teacher|baseline|fixed|frozen)(_|$)")
LOSSES = re.compile(r"loss|crit|kl_div|cross_entropy", re.IGNORECASE)
Loop = ast.For | ast.While


@remedy(r"Trying to backward through the graph a second time.*\(At (\w+), (?:recorded|applied) at (.*):(\d+)\.\)")
def find_kept_graph(failure: Failure, match: re.Match[str]) -> str | None:
    """A graph that a pass has freed: of two losses, of one step in the next, or made once before a loop."""
    if failure.line is None:
        return None
    source, call, line = failure.line.source, failure.line.node, int(match[3])
    told = _describe_repeated_pass(failure) or _describe_kept_attribute(failure, source, line)
    if told is not None:
        return told
    found = next(_loops_around(failure), None)
    if found is None or found[2] is not failure.stack[0]:
        told = _describe_two_losses(failure, source.scope_of(call))
        if told is not None:
            return told
    if found is None:
        first = _find_first_pass(source, call)
        told = f"the first pass{first} freed what line {line} recorded"
        return f"{told}: one backward() of the sum, or retain_graph=True in it"
    source, loop, place = found
    owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    if isinstance(loop, ast.For) and owner is not None and text_of(owner) == text_of(loop.target):
        each = text_of(loop.iter)
        told = f"the losses of {each} share what line {line} recorded, which the first backward() frees"
        return f"{told}: sum({each}).backward(), one pass for all, or retain_graph=True"
    begin, end = loop.lineno, loop.end_lineno or loop.lineno
    recorded = next((each for each in ast.walk(source.tree) if getattr(each, "lineno", 0) == line), loop)
    is_near = source.name == match[2] and source.scope_of(loop) is source.scope_of(recorded)
    kept = _find_fixed_value(source, loop, recorded) if is_near and not begin <= line <= end else None
    if kept is not None:
        return kept
    if is_near and not begin <= line <= end:
        return f"line {line} is computed once, before the loop at line {begin}: compute it in the loop"
    carried = _find_carried_state(loop, place)
    if carried is not None:
        name, made = text_of(carried), source.statement_of(carried)
        told = f"{name} at {source.place_of(made)} carries the graph of one step into the next"
        added = _find_added_loss(made, name)
        if added is not None and owner is not None and text_of(owner) == name:
            return f"{told}: {added}.backward(), and {name} += {added}.item() for the sum"
        return f"{told}: {name} = {_detach(name, evaluate(carried, place.frame))} at the loop's start"
    older = _find_value_made_before(source, loop, place)
    if older is not None and FIXED.search(older[0]):
        told = f"{older[0]} at {older[1]} keeps the graph of before the loop, which the first backward() frees"
        return f"{told}, and is a fixed value in it: {older[0]} = {older[0]}.detach() before the loop"
    if older is not None:
        return f"{older[0]} at {older[1]} is computed once, before the loop at line {begin}: compute it in the loop"
    shared = _describe_shared_result(failure, line)
    return (
        shared
        or _describe_fixed_attribute(source, line)
        or _describe_two_losses(failure, loop)
        or (f"the first pass has freed what line {line} recorded: sum the losses and call backward() once")
    )


def _find_fixed_value(source: SourceFile, loop: Loop, made: ast.AST) -> str | None:
    """Return what to write where a value from before a loop is what the loop's own values are compared with."""
    name = made.targets[0].id if isinstance(made, ast.Assign) and isinstance(made.targets[0], ast.Name) else ""
    if not isinstance(made, ast.Assign) or not isinstance(made.value, ast.Call) or not name:
        return None
    function = text_of(made.value.func).rpartition(".")[2]
    calls = [text_of(each.func).rpartition(".")[2] for each in ast.walk(loop) if isinstance(each, ast.Call)]
    is_read = any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(loop))
    targets = [
        text_of(each.args[1])
        for each in ast.walk(loop)
        if isinstance(each, ast.Call) and len(each.args) > 1 and LOSSES.search(text_of(each.func))
    ]
    if not is_read or not (function in calls or FIXED.search(name) or name in targets):
        return None
    told = f"{name} at {source.place_of(made)} keeps the graph of before the loop, which the first backward() frees"
    return f"{told}, and is a fixed value in it: {name} = {text_of(made.value)}.detach() there"


def _detach(name: str, value: Operand) -> str:
    """Return how a value is cut from its graph: a tensor, or a tuple of some, such as an LSTM's state."""
    if isinstance(value, (tuple, list)):
        left, right = ("[", "]") if isinstance(value, list) else ("tuple(", ")")
        return f"{left}each.detach() for each in {name}{right}"
    return f"{name}.detach()"


def _find_first_pass(source: SourceFile, second: ast.AST) -> str:
    """Return the only other pass backward of a file that frees its graph, as ", loss.backward() at train.py:9,"."""
    found = [
        node
        for node in source.nodes_of(ast.Call)
        if text_of(node.func).endswith((".backward", "autograd.grad"))
        and node is not second
        and not any(each.arg in ("retain_graph", "create_graph") for each in node.keywords)
    ]
    return f", {text_of(found[0])} at {source.place_of(found[0])}," if len(found) == 1 else ""


def _loops_around(failure: Failure) -> Iterator[tuple[SourceFile, Loop, UserFrame]]:
    """Yield the loops around the line, those of the function that failed first, then those of its callers."""
    for place in failure.stack:
        source, node = find_expression(place) or (None, None)
        while source is not None and node is not None:
            node = source.parents.get(node)
            if isinstance(node, (ast.For, ast.While)):
                yield source, node, place
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                break


def _backward_calls(node: ast.AST) -> list[ast.Call]:
    """Return the calls `loss.backward()` within a node, in their order."""
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)]
    return sorted((each for each in calls if getattr(each.func, "attr", "") == "backward"), key=lambda n: n.lineno)


def _describe_repeated_pass(failure: Failure) -> str | None:
    """Return what to write where one loss is differentiated twice, its graph being the same."""
    if failure.line is None:
        return None
    source, own = failure.line.source, failure.line.node
    scope = source.scope_of(own)
    name = text_of(own.func.value) if isinstance(own, ast.Call) and isinstance(own.func, ast.Attribute) else ""
    for call in _backward_calls(scope):
        if call is own or not isinstance(call.func, ast.Attribute) or text_of(call.func.value) != name:
            continue
        first, last = sorted((call.lineno, getattr(own, "lineno", 0)))
        made = source.assignments_in(scope).get(name, ())
        if call.lineno < last and not any(first < each.lineno < last for each in made):
            told = f"{text_of(call)} at {source.place_of(call)} has already differentiated {name}"
            return f"{told}: one call is enough, or retain_graph=True in the first where both are meant"
    return None


def _describe_kept_attribute(failure: Failure, source: SourceFile, line: int) -> str | None:
    """Return which attribute of a module keeps the graph of one step for the next."""
    written: list[ast.Assign | ast.AugAssign] = [*source.nodes_of(ast.Assign), *source.nodes_of(ast.AugAssign)]
    for part in written:
        targets = part.targets if isinstance(part, ast.Assign) else [part.target]
        kept = [
            each
            for target in targets
            for each in ast.walk(target)
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
        ]
        for attribute in kept:
            name = text_of(attribute)
            read = [text_of(each) for each in ast.walk(part.value)] + [name] * isinstance(part, ast.AugAssign)
            is_cut = any(each.startswith(f"{name}.detach(") for each in read)
            if name in read and not is_cut and (part.lineno == line or len(targets[0].__dict__.get("elts", ())) > 1):
                told = f"{name} at {source.place_of(part)} carries the graph of one step into the next"
                held = look_up(open_program(failure).find_context(source, source.scope_of(part)), attribute)
                return f"{told}: {name} = {_detach(name, held)} before it is used again"
            if name not in read and part.lineno == line:
                told = f"{name} at {source.place_of(part)} is computed once, and kept for steps to come"
                return f"{told}: compute it in each step"
    return None


def _describe_fixed_attribute(source: SourceFile, line: int) -> str | None:
    """Return which attribute a method of the same object has given to it when it was made, and keeps the graph of."""
    for name, calls in source.calls.items():
        function = next((each for each in source.nodes_of(ast.FunctionDef) if each.name == name), None)
        if function is None or not function.lineno <= line <= (function.end_lineno or line):
            continue
        for call in calls:
            made = source.statement_of(call)
            target = made.targets[0] if isinstance(made, ast.Assign) and made.value is call else None
            if isinstance(target, ast.Attribute) and getattr(source.scope_of(call), "name", "") == "__init__":
                told = f"{text_of(target)} at {source.place_of(call)} keeps the graph of when it was made"
                return f"{told}, which the first backward() frees: {text_of(target)} = {text_of(call)}.detach() there"
    return None


def _find_carried_state(loop: Loop, place: UserFrame) -> ast.Name | None:
    """Return where a turn of the loop gives a name a value with a graph, which it has read before."""
    read, written = dict[str, int](), dict[str, tuple[int, ast.Name]]()  # by the statement of the loop
    for i, statement in enumerate(loop.body):
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                read.setdefault(node.id, i)
            elif isinstance(node, ast.Name):
                written.setdefault(node.id, (i, node))
                if isinstance(statement, ast.AugAssign):
                    read.setdefault(node.id, i)
    nodes = [node for name, (i, node) in written.items() if read.get(name, i + 1) <= i]
    return next((node for node in nodes if _has_graph(place.frame.f_locals.get(node.id))), None)


def _find_added_loss(made: ast.AST, name: str) -> str | None:
    """Return what a statement adds to a sum of that name: `loss` of `total = total + loss`."""
    if isinstance(made, ast.AugAssign) and isinstance(made.op, ast.Add):
        return text_of(made.value)
    value = made.value if isinstance(made, ast.Assign) else None
    sides = [text_of(value.left), text_of(value.right)] if isinstance(value, ast.BinOp) else []
    return next((each for each in sides if each != name), None) if name in sides else None


def _has_graph(value: object) -> bool:
    """Return whether a tensor, or one of a tuple such as an LSTM's state, has a graph."""
    if isinstance(value, (tuple, list)):
        return any(map(_has_graph, value))
    return isinstance(value, Tensor) and not value.is_leaf


def _find_value_made_before(source: SourceFile, loop: Loop, place: UserFrame) -> tuple[str, str] | None:
    """Return a value with a graph that the loop reads, and a statement before it has made, with its place."""
    assigned = source.assignments_in(source.tree) | source.assignments_in(source.scope_of(loop))
    for node in ast.walk(loop):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        made = assigned.get(node.id, [])
        if made and not any(each in ast.walk(loop) for each in made) and _has_graph(evaluate(node, place.frame)):
            return node.id, source.place_of(made[-1])
    return None


def _describe_two_losses(failure: Failure, block: ast.AST) -> str | None:
    """Return what to write where two losses of one step share a part of their graphs."""
    if failure.line is None:
        return None
    calls = [each for each in _backward_calls(block) if isinstance(each.func, ast.Attribute)]
    names = [text_of(each.func.value) for each in calls if isinstance(each.func, ast.Attribute)]
    if len(calls) < 2:
        return None
    between = [
        each
        for each in ast.walk(block)
        if isinstance(each, ast.Call) and text_of(each.func).endswith(".step")
        if calls[0].lineno < each.lineno < calls[-1].lineno
    ]
    made = [failure.line.source.assignments_in(failure.line.source.scope_of(calls[0])).get(name, []) for name in names]
    are_made_before = all(each and each[-1].lineno < calls[0].lineno for each in made)
    if not between and are_made_before:
        told = f"{' and '.join(names)} share a part of the graph, which {text_of(calls[0])} frees"
        return f"{told}: ({' + '.join(names)}).backward() in place of both"
    shared = _find_shared_value(failure, block, calls[0].lineno)
    if shared is None and not between and len(calls) == 2:
        first, last = (text_of(each) for each in calls)
        line = re.search(r":(\d+)\.\)$", failure.message)
        place = failure.line.source.place_of(calls[0])
        told = f"{' and '.join(names)} share what line {line[1] if line else '…'} recorded"
        told += f", which {first} at {place} frees"
        return f"{told}: ({' + '.join(names)}).backward() in the place of {last}, without the first"
    if shared is None:
        return None
    name, where, first = shared
    told = f"{name} at {where} is used by two backward passes of one step"
    return f"{told}: {name}.detach() at {first}, or retain_graph=True in the first backward()"


def _find_shared_value(failure: Failure, block: ast.AST, first_pass: int) -> tuple[str, str, str] | None:
    """Return a value with a graph that a block reads before its first backward() and after it, with both places."""
    names = [node for node in ast.walk(block) if isinstance(node, ast.Name)]
    for made in names:
        value = evaluate(made, failure.frame) if isinstance(made.ctx, ast.Store) and made.lineno < first_pass else None
        if not _has_graph(value) or failure.line is None:
            continue
        uses = [node for node in names if node.id == made.id and isinstance(node.ctx, ast.Load)]
        written = [node for node in names if node.id == made.id and isinstance(node.ctx, ast.Store)]
        lines = [node.lineno for node in uses]
        if len(written) == 1 and any(line <= first_pass for line in lines) and any(line > first_pass for line in lines):
            first = min(uses, key=lambda node: node.lineno)
            attribute = failure.line.source.parents.get(first)
            if isinstance(attribute, ast.Attribute) and attribute.attr == "detach":
                continue  # the first pass does not go through it
            return made.id, failure.line.source.place_of(made), failure.line.source.place_of(first)
    return None


def _describe_shared_result(failure: Failure, line: int) -> str | None:
    """Return what to write where a function of the user's with a pass of its own got the value that a line made."""
    if failure.line is None:
        return None
    source, frames = failure.line.source, failure.stack
    made = next((each for each in source.nodes_of(ast.Assign) if each.lineno == line), None)
    name = made.targets[0].id if made is not None and isinstance(made.targets[0], ast.Name) else None
    if made is None or name is None:
        return None
    use = _find_first_use(source.scope_of(made), name, line)
    call = None if use is None else source.parents.get(use)
    if use is None or not isinstance(call, ast.Call) or use not in call.args:
        return None
    found = (evaluate(call.func, place.frame) for place in frames)
    function = next((each for each in found if inspect.isroutine(each)), None)
    if isinstance(call.func, ast.Attribute) and function is None:
        owners = (evaluate(call.func.value, place.frame) for place in frames)
        function = next((found for each in owners if (found := vars(type(each)).get(call.func.attr))), None)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    inner = None if code is None or code.co_filename != source.name else find_function(source, code.co_firstlineno)
    if inner is None or not _backward_calls(inner):
        return None
    names = [each for each in parameter_names(inner) if each != "self"]
    place = call.args.index(use)
    first = _find_first_use(inner, names[place], inner.lineno) if place < len(names) else None
    if first is None:
        return None
    told = f"{name} at {source.place_of(made)} is used by two backward passes of one step, the first of {inner.name}"
    return f"{told}: {first.id}.detach() at {source.place_of(first)}"


def _find_first_use(scope: ast.AST, name: str, line: int) -> ast.Name | None:
    """Return the first place after a line of a scope at which a name is read."""
    uses = [each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id == name and each.lineno > line]
    return min(uses, key=lambda each: (each.lineno, each.col_offset), default=None)


@remedy(r"modified by an inplace operation.*It was written at (.*):(\d+);")
def write_elsewhere(failure: Failure, match: re.Match[str]) -> str | None:
    """A saved value that was overwritten."""
    if failure.line is None or failure.line.source.name != match[1]:
        return None
    for node in ast.walk(failure.line.source.tree):
        if isinstance(node, ast.AugAssign) and node.lineno == int(match[2]):
            target, operator = text_of(node.target), text_of(node).removeprefix(text_of(node.target)).split("=", 1)[0]
            value = text_of(node.value)
            return f"line {match[2]} makes a new tensor instead: {target} = {target} {operator.strip()} {value}"
        if isinstance(node, ast.Call) and node.lineno == int(match[2]) and isinstance(node.func, ast.Attribute):
            name, target = node.func.attr, text_of(node.func.value)
            if name == "step":
                told = f"{text_of(node)} at line {match[2]} changes parameters that this backward still needs"
                return f"{told}: {_find_older_value(failure, node) or 'both backward() calls before it'}"
            if name.endswith("_") and isinstance(evaluate(node.func.value, failure.frame), ModuleType) and node.args:
                call = f"{target}.{name[:-1]}({', '.join(map(text_of, (*node.args, *node.keywords)))})"
                told = f"{text_of(node)} at line {match[2]} overwrites what backward needs"
                return f"{told}: {text_of(node.args[0])} = {call}"
            written = evaluate(node.func.value, failure.frame)
            if name.endswith("_") and (isinstance(written, Parameter) or target.endswith((".weight", ".bias"))):
                told = f"{text_of(node)} at line {match[2]} changes a parameter that this backward still needs"
                saved = re.search(r"saved at .*?:(\d+)\.", failure.message)
                before = "" if saved is None else f", or before line {saved[1]}, which uses it"
                return f"{told}: do it after backward() and step(){before}"
            if name.endswith("_") and not name.startswith("_"):
                call = f"{target}.{name[:-1]}({', '.join(map(text_of, (*node.args, *node.keywords)))})"
                root: ast.expr = node
                while isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute):
                    root = root.func.value
                target, call = text_of(root), call.replace("_(", "(")
                return f"{text_of(node)} at line {match[2]} overwrites what backward needs: {target} = {call}"
            flag = _find_inplace_flag(failure.line.source, node)
            if flag is not None:
                return flag
        if isinstance(node, ast.Assign) and node.lineno == int(match[2]) and isinstance(node.targets[0], ast.Subscript):
            target = text_of(node.targets[0].value)
            return f"line {match[2]} writes into {target}, which backward needs: {target} = {target}.clone() before it"
    return f"line {match[2]} makes a new tensor instead of writing into this one"


def _find_inplace_flag(source: SourceFile, call: ast.Call) -> str | None:
    """Return where a call, or the module that it calls, was told to work in place."""
    if any(each.arg == "inplace" for each in call.keywords):
        return f"{text_of(call)} at {source.place_of(call)} overwrites what backward needs: without inplace=True"
    owner: ast.AST | None = call
    while owner is not None and not isinstance(owner, ast.ClassDef):
        owner = source.parents.get(owner)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    for made in source.attribute_assignments.get((getattr(owner, "name", ""), name), ()):
        for part in ast.walk(made):
            if isinstance(part, ast.keyword) and part.arg == "inplace" and text_of(part.value) == "True":
                told = f"{text_of(call.func)} at {source.place_of(part)} overwrites its input, which backward needs"
                return f"{told}: without inplace=True there"
    return None


def _find_older_value(failure: Failure, step: ast.Call) -> str | None:
    """Return which value was computed before a step of an optimizer, and is used for a loss after it."""
    source = None if failure.line is None else failure.line.source
    scope = None if source is None else source.scope_of(step)
    if source is None or scope is None or failure.line is None:
        return None
    last = getattr(failure.line.node, "lineno", 0)
    for name, statements in source.assignments_in(scope).items():
        made = [each for each in statements if each.lineno < step.lineno and isinstance(each, ast.Assign)]
        if not made or len(statements) != len(made):
            continue
        reads = [each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id == name]
        late = [each for each in reads if step.lineno < each.lineno <= last and isinstance(each.ctx, ast.Load)]
        value = evaluate(late[0], failure.frame) if late else None
        own = getattr(made[-1], "value", None)
        if isinstance(value, Tensor) and not value.is_leaf and isinstance(own, ast.Call):
            told = f"{name}, computed at {source.place_of(made[-1])} before it, is used at {source.place_of(late[0])}"
            return f"{told}; compute it again after the step, {text_of(own)}"
    return None

"""Operands of the line that failed: the parts of its expression, and what slices and batches were made of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from types import ModuleType

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.call_stack import Stack
from adjoint.diagnosis.operands import MISSING, NamedValue, Origin, evaluate, find_origin, find_return, is_module
from adjoint.diagnosis.source_expressions import (
    SourceFile,
    find_assignment,
    find_expression,
    find_only_call,
    parameter_names,
    text_of,
)

MAX_STEPS_BACK = 8


# methods and functions that give their tensor in another form, and what hands on the samples of a dataset
PASSING_METHODS = re.compile(
    "float|double|half|long|int|bool|to|type|view|reshape|flatten|(?:un)?squeeze|transpose|permute|contiguous|clone|"
    "detach|cpu|cuda|numpy|expand|repeat|requires_grad_|astype|copy|pin_memory|next|__next__"
)


PASSING_FUNCTIONS = re.compile(r"from_numpy|\w*[tT]ensor|asarray|array|DataLoader|enumerate|iter|next|tqdm")


def find_operands(stack: Stack) -> tuple[Origin | None, list[NamedValue]]:
    """Return the expression that the innermost frame carries out, and its parts that are tensors, modules, numbers."""
    found = find_expression(stack[0])
    if found is None:
        return None, []
    source, node = found
    operands: dict[str, NamedValue] = {}
    parts = list(_parts(node))
    around = source.parents.get(node)
    if isinstance(node, (ast.Tuple, ast.List)) and isinstance(node.ctx, ast.Store) and isinstance(around, ast.Assign):
        parts = list(_parts(around.value))  # what is unpacked
    if isinstance(node, ast.Attribute):  # one that its owner has not
        parts += _parts(node.value)
    for part in parts:
        value = evaluate(part, stack[0].frame)
        if value is MISSING or isinstance(value, ModuleType) or (callable(value) and not is_module(value)):
            continue
        text = text_of(part)
        if text not in operands and (isinstance(value, Tensor) or not isinstance(part, ast.Constant)):
            origin = find_origin(source, part, stack)
            operands[text] = NamedValue(
                text, value, origin, find_return(origin, stack), find_source(origin, text, stack)
            )
    return Origin(source, node), list(operands.values())


def find_source(origin: Origin | None, name: str, stack: Stack) -> NamedValue | None:
    """Return the value of which slices, conversions and loaders have made another, the first of them."""
    found: NamedValue | None = None
    place: int | None = None
    for _ in range(MAX_STEPS_BACK):
        if origin is None:
            return found
        place = origin.place_in_tuple(name) if place is None else place
        is_loop = isinstance(origin.node, (ast.For, ast.AsyncFor))
        node = _leave_forms(getattr(origin.node, "iter", None) if is_loop else origin.value_of(name), place)
        around = find_frames_around(origin, stack)
        if isinstance(node, ast.Name) and not around and found is None:
            return find_given(origin.source, node)
        if not isinstance(node, (ast.Name, ast.Attribute)) or not around or text_of(node) == name:
            return found
        further, name = find_origin(origin.source, node, around), text_of(node)
        if further is None or further.node is origin.node:
            return found
        origin = further
        found = NamedValue(name, evaluate(node, around[0].frame), origin)
    return found


def find_given(source: SourceFile, node: ast.Name) -> NamedValue | None:
    """Return the argument that the only call of a function which has returned gives one of its parameters."""
    scope = source.scope_of(node)
    names = [each for each in parameter_names(scope) if each not in ("self", "cls")]
    call = find_only_call(source, scope) if node.id in names else None
    given = None if call is None else next((each.value for each in call.keywords if each.arg == node.id), None)
    if call is not None and given is None and names.index(node.id) < len(call.args):
        given = call.args[names.index(node.id)]
    if given is None or isinstance(given, ast.Constant):
        return None
    made = find_assignment(source, source.scope_of(given), given.id, given) if isinstance(given, ast.Name) else None
    return NamedValue(node.id, MISSING, Origin(source, made or given))


def _leave_forms(node: ast.AST | None, place: int | None) -> ast.AST | None:
    """Return what an expression gives in another form: of `torch.from_numpy(x)[i].float()`, it is x."""
    while isinstance(node, (ast.Call, ast.Subscript, ast.BinOp)):
        if isinstance(node, ast.BinOp):  # of x * -1, it is x
            sides = [each for each in (node.left, node.right) if not _is_number(each)]
            if len(sides) != 1:
                break
            node = sides[0]
            continue
        if isinstance(node, ast.Subscript):
            node = node.value
            continue
        last = text_of(node.func).rpartition(".")[2]
        if PASSING_FUNCTIONS.fullmatch(last) and node.args:
            node = node.args[0]
        elif PASSING_METHODS.fullmatch(last) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif last == "TensorDataset" and place is not None and place < len(node.args):
            node = node.args[place]
        else:
            break
    return node


def _is_number(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def find_frames_around(origin: Origin, stack: Stack) -> Stack:
    """Return the frames from the one whose statement an origin is, outward."""
    scope = origin.source.scope_of(origin.node)
    name = "<module>" if isinstance(scope, ast.Module) else getattr(scope, "name", "")
    for i, each in enumerate(stack):
        code = each.frame.f_code
        if code.co_name == name and code.co_filename == origin.source.name:
            return stack[i:]
    return ()


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the parts of an expression that stand for values, from left to right."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        if not isinstance(getattr(node, "ctx", None), ast.Store):
            yield node
        return
    if isinstance(node, ast.Subscript):
        yield node
        yield from _parts(node.value)
        yield from _parts(node.slice)
        return
    if isinstance(node, ast.Call):
        yield from _callee_parts(node.func)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            yield from _parts(argument.value if isinstance(argument, ast.Starred) else argument)
        return
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return
    if isinstance(node, (ast.For, ast.AsyncFor)):
        yield from _parts(node.iter)
    if isinstance(node, ast.AugAssign):
        yield node.target
    if isinstance(node, (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.If, ast.While)):
        return
    for child in ast.iter_child_nodes(node):
        yield from _parts(child)


def _callee_parts(function: ast.expr) -> Iterator[ast.expr]:
    """Yield a module that is called, or the object of a method."""
    yield function
    if isinstance(function, ast.Attribute):
        yield from _parts(function.value)
    elif not isinstance(function, ast.Name):
        yield from _parts(function)

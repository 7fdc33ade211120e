"""The layer that gives a model's result, found in the source of its `forward` and `__init__`."""

from __future__ import annotations

import ast
from typing import NamedTuple

from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import Stack, user_files
from adjoint.diagnosis.operands import MISSING, Origin, evaluate, find_origin, is_module
from adjoint.diagnosis.source_expressions import SourceFile, find_assignment, find_function, parse_source, text_of

MAX_STEPS = 12
LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding")
OUTPUTS = ("out_features", "out_channels", "embedding_dim")
NAMESPACES = ("F.", "torch.", "nn.", "ad.", "np.")


class OutputLayer(NamedTuple):
    """A layer: its name within the model, and the call that made it."""

    name: str
    origin: Origin

    def describe(self) -> str:
        """Return the name, the call and its place: `self.fc2 at train.py:9, nn.Linear(16, 1)`."""
        value = self.origin.value_of(self.name)
        return f"{self.name} at {self.origin.place()}" + ("" if value is None else f", {text_of(value)},")

    def write_with(self, outputs: int) -> str:
        """Return the call with another number of outputs: `nn.Linear(16, 4)`."""
        call = self.origin.value_of(self.name)
        if not isinstance(call, ast.Call):
            return f"{outputs} outputs"
        count = ast.Constant(outputs)
        args = [count if place == 1 else each for place, each in enumerate(call.args)]
        keywords = [ast.keyword(each.arg, count) if each.arg in OUTPUTS else each for each in call.keywords]
        return text_of(ast.Call(call.func, args, keywords))


def find_output_layer(source: SourceFile, node: ast.expr | None, stack: Stack) -> OutputLayer | None:
    """Return the layer whose result an expression of the user's innermost frame is, reshaped or activated or not."""
    which: int | None = None  # of several values that a model returns
    for _ in range(MAX_STEPS):
        if isinstance(node, ast.Name):
            origin = find_origin(source, node, stack)
            if origin is None or origin.value is None or origin.value is node:
                return None
            which = origin.place_in_tuple(node.id)
            source, node = origin.source, origin.value_of(node.id)
            continue
        if isinstance(node, ast.BinOp):
            node = node.right if isinstance(node.left, ast.Constant) else node.left
            continue
        if not isinstance(node, ast.Call):
            return None
        for place in stack:
            called = evaluate(node.func, place.frame)
            made = evaluate(node.func.func, place.frame) if isinstance(node.func, ast.Call) else MISSING
            kind = made if isinstance(made, type) else type(called) if is_module(called) else None
            if kind is not None:
                own = find_origin(source, node.func, (place,))
                return _find_in_call(own, text_of(node.func)) or _find_in_class(kind, MAX_STEPS, which)
        node = _peel(node)
    return None


def _peel(node: ast.Call) -> ast.expr | None:
    """Return what a method or a function of one tensor was called with."""
    if isinstance(node.func, ast.Attribute) and not text_of(node.func).startswith((*NAMESPACES, "self.")):
        return node.func.value
    return node.args[0] if node.args else None


def _find_in_call(origin: Origin | None, name: str) -> OutputLayer | None:
    """Return the layer that the call makes which a statement assigns: itself, or the last of an `nn.Sequential`."""
    call = None if origin is None else origin.value_of(name)
    if origin is None or not isinstance(call, ast.Call):
        return None
    kind = text_of(call.func).rpartition(".")[2]
    if kind in LAYERS:
        return OutputLayer(name, origin)
    for place, part in reversed(list(enumerate(call.args if kind == "Sequential" else ()))):
        if isinstance(part, ast.Call) and text_of(part.func).rpartition(".")[2] in LAYERS:
            return OutputLayer(f"{name}[{place}]", Origin(origin.source, part))
    return None


def _find_in_class(kind: type, steps: int, which: int | None = None) -> OutputLayer | None:
    """Return the layer that the last `return` of a class's forward calls, for one of several values or for its only."""
    forward: Operand = getattr(kind, "forward", None)
    code = getattr(forward, "__code__", None)
    source = parse_source(code.co_filename) if code is not None and user_files[code.co_filename] else None
    function = None if source is None or code is None else find_function(source, code.co_firstlineno)
    returns = [each for each in ast.walk(function) if isinstance(each, ast.Return)] if function is not None else []
    node = returns[-1].value if returns else None
    if isinstance(node, ast.Tuple) and which is not None and which < len(node.elts):
        node = node.elts[which]
    for _ in range(steps):
        if isinstance(node, ast.Name) and source is not None and function is not None:
            made = find_assignment(source, function, node.id, node)
            node = getattr(made, "value", None)
            continue
        if not isinstance(node, ast.Call) or source is None:
            return None
        if isinstance(node.func, ast.Attribute) and text_of(node.func.value) == "self":
            assigned = source.attribute_assignments.get((kind.__name__, node.func.attr), [])
            origin = Origin(source, assigned[0]) if assigned else None
            found = _find_in_call(origin, text_of(node.func))
            value = None if origin is None else origin.value
            inner = forward.__globals__.get(text_of(value.func)) if isinstance(value, ast.Call) else None
            return found or (_find_in_class(inner, steps - 1) if isinstance(inner, type) else None)
        node = _peel(node)
    return None

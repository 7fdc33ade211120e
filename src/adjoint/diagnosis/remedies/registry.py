"""Registry of remedies, each a function of a failure that is found by the words of the error; and what they share."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TypeAlias

from adjoint.core.typing import Shape
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue
from adjoint.diagnosis.source_expressions import text_of

Remedy: TypeAlias = Callable[[Failure, "re.Match[str]"], "str | None"]
MAX_NAME_CHARACTERS = 40
REMEDIES: list[tuple[re.Pattern[str], Remedy]] = []


def remedy(pattern: str) -> Callable[[Remedy], Remedy]:
    """Register a function for errors whose message has the pattern; it returns advice, or None to pass."""

    def register(function: Remedy) -> Remedy:
        REMEDIES.append((re.compile(pattern, re.DOTALL), function))
        return function

    return register


def find_remedy(failure: Failure) -> str | None:
    """Return the advice of the first remedy that knows the error; None if none does."""
    for pattern, function in REMEDIES:
        match = pattern.search(failure.message)
        advice = None if match is None else function(failure, match)
        if advice:
            return advice
    return None


def shape_of(text: str) -> Shape:
    """Return the sizes that a text such as "(32, 400)" or "4, 1, 28" tells."""
    return tuple(map(int, re.findall(r"\d+", text)))


def name_of_shape(failure: Failure, shape: Shape, default: str = "the input") -> str:
    """Return the user's name of the only tensor of that shape."""
    named = [each.text for each in failure.tensors() if tuple(each.value.shape) == shape]
    return named[0] if len(set(named)) == 1 else default


def name_operand(failure: Failure, shape: Shape, place: int) -> str:
    """Return the user's name of a tensor of that shape, or the text of the first (0) or second (1) operand."""
    node = None if failure.line is None else failure.line.node
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Call):
        parts = node.args
    text = text_of(parts[place]) if place < len(parts) else ""
    default = text if 0 < len(text) <= MAX_NAME_CHARACTERS else ("the first", "the second")[place]
    return name_of_shape(failure, shape, default)


def describe_layer(failure: Failure, name: str = "the layer", kind: str = "Module") -> tuple[str, str]:
    """Return the user's name of the module that failed with the line that made it, and its class; or the defaults."""
    layer = failure.module()
    return (name, kind) if layer is None else (f"{layer.text}{at(layer)}", type(layer.value).__name__)


def at(operand: NamedValue | None) -> str:
    """Return " at train.py:9" for the line that made an operand."""
    return "" if operand is None or operand.origin is None else f" at {operand.origin.place()}"


def locate_tensor(failure: Failure, name: str) -> str:
    """Return " at train.py:9" for the line that made the tensor of that name."""
    return at(next((each for each in failure.tensors() if each.text == name), None))


def first_tensor(failure: Failure, default: str = "x") -> str:
    """Return the name of the line's first tensor."""
    return next((each.text for each in failure.tensors()), default)


def float_tensor(failure: Failure) -> str:
    """Return the name of a tensor of floats, with the line that made it, where integers are wanted."""
    found = [each for each in failure.tensors() if each.value.is_floating_point()]
    return f"{found[-1].text}{at(found[-1])}" if found else "the index"

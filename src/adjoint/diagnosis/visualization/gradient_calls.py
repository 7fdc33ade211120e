"""Calls that have recorded a gradient: their nodes are of no module, though they take its parameters."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable
from itertools import islice
from types import CodeType

from adjoint.core.graph.node import GraphNode

# the last part of what is called, in the user's program
GRADIENT_FUNCTIONS = frozenset(
    {
        "backward",
        "grad",
        "grad_and_value",
        "hessian",
        "hvp",
        "jacfwd",
        "jacobian",
        "jacrev",
        "jvp",
        "vhp",
        "vjp",
    }
)
MAX_LABEL_LENGTH = 30


def find_gradient_calls(nodes: Iterable[GraphNode]) -> dict[GraphNode, str]:
    """Return the text of the call for each node that `autograd.grad`, `backward` or the like has recorded."""
    texts: dict[tuple[CodeType, int], str] = {}
    found: dict[GraphNode, str] = {}
    for node in nodes:
        key = node.code, node.instruction_offset
        if key not in texts:
            texts[key] = read_gradient_call(*key)
        if texts[key]:
            found[node] = texts[key]
    return found


def read_gradient_call(code: CodeType, offset: int) -> str:
    """Return the text of the instruction at `offset`, shortened, if it calls for a gradient; "" if not."""
    positions = next(islice(code.co_positions(), offset // 2, None), None)
    if positions is None:
        return ""
    line, last_line, column, last_column = positions
    if line is None or last_line is None or column is None or last_column is None:
        return ""
    lines = [linecache.getline(code.co_filename, number).encode() for number in range(line, last_line + 1)]
    lines[-1] = lines[-1][:last_column]  # columns count bytes
    lines[0] = lines[0][column:]
    text = " ".join(part.decode(errors="replace").strip() for part in lines)
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError:
        return ""
    function = call.func if isinstance(call, ast.Call) else call
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if not isinstance(call, ast.Call) or name not in GRADIENT_FUNCTIONS:
        return ""
    return text if len(text) <= MAX_LABEL_LENGTH else f"{text[: MAX_LABEL_LENGTH - 1]}…"

"""The words of a graph's text: literals, types, origins and lines, written and read back."""

from __future__ import annotations

import ast
import math
import pkgutil
import re
import sys
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import NamedTuple, TypeVar

import numpy as np

from adjoint.core.dtype.dtype import ml_dtypes
from adjoint.core.graph.source_location import Site
from adjoint.core.op.op import Op
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.html import render_frame, render_table
from adjoint.core.typing import Array, NumpyDtype

T = TypeVar("T")


MAX_PRINTED_CONSTANT_ELEMENTS = 16
MAX_OPEN_LINES = 40  # of a graph's table that is open at first
MAX_LINES = 2_000  # of a table
ORIGIN_COLUMN = 70
NAMED_NUMBERS = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf), "nanj": complex(0, math.nan)}
DTYPE_PREFIXES = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
LINE = re.compile(r"^  (%\d+): (\w+)\[([\d,]*)\] = (.*?)(?:\s*  # (.+))?$")
ORIGIN = re.compile(r"^(.*?):(\d+) in (.*?)(?: · (?!backward$|again$)(.*?))?(?: · (backward|again))?$")


class GraphSyntaxError(ValueError):
    """A text is no graph: the message names the line."""


class OriginText(NamedTuple):
    """The comment at the end of an equation's line."""

    site: Site
    module: str
    backward: bool
    rematerialized: bool


class TextLine(NamedTuple):
    """One line `name: spec = right  # origin` of a graph's text."""

    name: str
    spec: Spec
    right: str
    origin: OriginText | None

    @property
    def is_call(self) -> bool:
        """True for an equation, False for an input."""
        return re.match(r"\w+\(", self.right) is not None


def format_literal(value: object) -> str:
    """Return `value` as the text of an operand or a parameter."""
    if isinstance(value, np.dtype):
        return str(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(format_literal, value))}{',' * (len(value) == 1)})"
    return repr(value.item() if isinstance(value, np.generic) else value)


def format_constant(array: Array) -> str:
    """Return `constant` with its elements, or alone if they are many or of a type without literals."""
    if array.dtype.kind == "V" or array.size > MAX_PRINTED_CONSTANT_ELEMENTS:
        return "constant"
    return f"constant {array.item() if array.size == 1 else array.tolist()!r}"


def read_line(line: str) -> TextLine:
    """Take an input's or an equation's line apart."""
    match = LINE.match(line)
    if match is None:
        raise GraphSyntaxError("expected `%n: type[sizes] = …`")
    name, dtype, sizes, right, comment = match.groups()
    shape = tuple(int(n) for n in sizes.split(",")) if sizes else ()
    return TextLine(name, Spec(shape, read_dtype(dtype)), right, _read_origin(comment) if comment else None)


def read_dtype(name: str) -> NumpyDtype:
    """Return the type `f32`, `float32`, `bf16`, `bool`, … for its name."""
    if name in ("bf16", "bfloat16"):
        return np.dtype(ml_dtypes().bfloat16)
    short = re.fullmatch(r"([iufc])(\d+)", name)
    try:
        return np.dtype(DTYPE_PREFIXES[short[1]] + short[2] if short else name)
    except TypeError:
        raise GraphSyntaxError(f"there is no type {name!r}") from None


def _read_origin(comment: str) -> OriginText:
    match = ORIGIN.match(comment)
    if match is None:
        raise GraphSyntaxError(f"expected `file:line in function` after the #, not {comment!r}")
    file, line, function, module, passed = match.groups()
    return OriginText(Site(file, int(line), function), module or "", passed is not None, passed == "again")


def read_call(text: str, values: Mapping[str, object]) -> tuple[str, tuple[object, ...], dict[str, object]]:
    """Take `op(operands, key=literal)` apart; `values` holds the operands that %n may name."""
    try:
        call = ast.parse(re.sub(r"%(\d+)", r"value_\1", text), mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise GraphSyntaxError(f"expected `op(…)`, not {text!r}")
    inputs = tuple(_read_literal(node, values) for node in call.args)
    return call.func.id, inputs, {str(k.arg): _read_literal(k.value, values) for k in call.keywords}


def read_literal(text: str) -> object:
    """Return the number, string, type, tuple or list that `text` writes."""
    return _read_literal(ast.parse(text, mode="eval").body, {})


def _read_literal(node: ast.expr, values: Mapping[str, object]) -> object:
    if isinstance(node, ast.Name):
        if node.id in NAMED_NUMBERS:
            return NAMED_NUMBERS[node.id]
        if not node.id.startswith("value_"):
            return read_dtype(node.id)
        return look_up(node.id.replace("value_", "%"), values)
    if isinstance(node, (ast.Tuple, ast.List)):
        items = [_read_literal(item, values) for item in node.elts]
        return tuple(items) if isinstance(node, ast.Tuple) else items
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_read_number(node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):  # a complex number
        return _read_number(node.left) + _read_number(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return _read_number(node.left) - _read_number(node.right)
    if isinstance(node, ast.Constant):
        return node.value
    raise GraphSyntaxError(f"expected a literal, not {ast.unparse(node)!r}")


def _read_number(node: ast.expr) -> complex:
    number = _read_literal(node, {})
    if not isinstance(number, (int, float, complex)):
        raise GraphSyntaxError(f"expected a number, not {ast.unparse(node)!r}")
    return number


def look_up(name: str, values: Mapping[str, T]) -> T:
    """Return the value that `%n` names."""
    if name not in values:
        raise GraphSyntaxError(f"{name} is used before it is made")
    return values[name]


def ops_by_name() -> dict[str, Op]:
    """Return the library's ops by the names that equations print."""
    package = import_module("adjoint.ops")
    for module in pkgutil.walk_packages(package.__path__, "adjoint.ops."):
        import_module(module.name)
    ops: dict[str, Op] = {}
    # Some ops are declared above this layer, in functions and in passes: of these, the loaded ones count.
    modules = sorted(name for name in sys.modules if name.startswith("adjoint."))
    for module_name in sorted(modules, key=lambda name: not name.startswith("adjoint.ops.")):
        for member in vars(sys.modules[module_name]).values():
            op = getattr(member, "op", None)
            if type(op) is Op and op.evaluate.__module__ == module_name:
                ops.setdefault(op.name, op)
    return ops


def render_lines(title: str, lines: Sequence[str]) -> str:
    """Render a graph's lines as a table for a notebook: value, type, equation, and the user's line."""
    rows = []
    for line in lines[:MAX_LINES]:
        text, _, origin = line.strip().partition("  # ")
        name, _, rest = text.partition(": ")
        kind, _, equation = rest.partition(" = ")
        cells = [f"<code>{escape(cell.strip())}</code>" for cell in (name, kind, equation)]
        rows.append([*cells, f'<span class="dim">{escape(origin)}</span>'])
    table = render_table(("value", "type", "equation", "line"), rows)
    left = f'<p class="dim">… {len(lines) - MAX_LINES:,} more are not shown</p>' if len(lines) > MAX_LINES else ""
    opened = " open" if len(lines) <= MAX_OPEN_LINES else ""
    return render_frame(f"<details{opened}><summary>{escape(title.strip('<>'))}</summary>{table}{left}</details>")

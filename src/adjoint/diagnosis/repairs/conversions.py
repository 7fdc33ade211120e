"""Edits that give a part of an expression as another kind of value."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from adjoint import nn
from adjoint.core.dtype.dtype import float32, int64
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.operands import MISSING, is_module
from adjoint.diagnosis.repairs.expression import Edit, bracket, parse

TYPE_WORDS = re.compile(
    r"type|\b(?:u?int|float|complex)\d*\b|long|double|half|bool|integer|indices|index|floating|gradients", re.IGNORECASE
)
CONVERSIONS = frozenset({"float", "double", "half", "long", "int", "bool", "item", "tolist", "numpy", "detach"})
INTEGER_WORDS = re.compile(r"\bint\d*\b|long|integer|indices|index", re.IGNORECASE)


def convert(part: ast.expr, value: Operand, library: str, message: str) -> Iterator[Edit]:
    """Yield the part as another kind of value."""
    text, own = ast.unparse(part), bracket(part)
    ways: list[str] = []
    if isinstance(value, Tensor):
        if value.is_complex():
            ways += [f"{own}.abs()", f"{own}.real"]
        else:
            ways += [f"{own}.{kind}()" for kind in _find_types(value, message)]
        if value.numel() == 1 and not value.is_floating_point():
            ways += [f"{own}.item()"]
    elif isinstance(value, np.ndarray):
        ways += [f"{library}.from_numpy({text})", f"{library}.from_numpy({text}).float()"]
        ways += [f"{own}.astype('float32')", f"{own}.astype('int64')", f"{own}.copy()"]
    elif isinstance(value, tuple) and isinstance(part, ast.Attribute) and part.attr == "shape":
        ways += [f"{bracket(part.value)}.numel()", f"{own}[0]", ast.unparse(part.value)]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        ways += [f"{own}.{name}" for name in value._fields]
    elif isinstance(value, (list, tuple)) and value and all(isinstance(each, Tensor) for each in value):
        ways += [f"{library}.stack({text})", f"{library}.cat({text})", f"{own}[0]"]
    elif isinstance(value, (list, tuple)) and value and all(isinstance(each, np.ndarray) for each in value):
        ways += [f"[{library}.from_numpy(x) for x in {text}]", f"{library}.from_numpy(np.stack({text}))"]
    elif (
        isinstance(value, (list, tuple))
        and value
        and all(type(each) is tuple and isinstance(each[0], Tensor) for each in value)
    ):
        ways += [f"[each[0] for each in {text}]"]
    elif isinstance(value, (list, tuple)) and value and all(isinstance(each, (list, tuple)) for each in value):
        ways += [f"{library}.tensor({text})", f"[{library}.tensor(x) for x in {text}]"]
    elif isinstance(value, (list, tuple)) or isinstance(part, (ast.List, ast.Tuple)):
        ways += [f"{library}.tensor({text})", f"tuple({text})", f"list({text})"]
        if isinstance(part, ast.Tuple) and part.elts and len({ast.unparse(each) for each in part.elts}) == 1:
            ways += [ast.unparse(part.elts[0])]
    elif is_module(value) and hasattr(value, "__getitem__"):
        ways += [f"{own}[0]"]
    elif is_module(value):
        ways += [
            f"{own}.parameters()",
            *(f"{own}.{name}" for name, each in value._parameters.items() if each is not None),
        ]
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, (int, float)):
        ways += (
            [f"int({text})"]
            if isinstance(value, float) and re.search(r"(?<!non-)\bint\b|integer|index|indices", message)
            else []
        )
        ways += [f"{library}.tensor({text})", f"({text},)", f"[{text}]"]
    elif isinstance(value, str):
        is_of_count = "integer" in message or ("int" in message.split() and "float" not in message.split())
        ways += ["-1"] if is_of_count and not re.fullmatch(r"\s*[-+]?[\d.]+(?:e[-+]?\d+)?\s*", value) else []
        kinds = ("int", "float") if value.strip().lstrip("+-").isdigit() else ("float", "int")
        ways += [f"{kind}({text})" for kind in kinds]
        ways += [f"{library}.{value}"] if value.isidentifier() else []
    elif isinstance(value, dict):
        ways += [f"len({text})"] if "integer" in message else []
        ways += [f"{{str(key): each for key, each in {own}.items()}}"] if "string" in message else []
        ways += [f"list({own}.values())", f"{own}.values()"]
    elif isinstance(part, ast.GeneratorExp) or hasattr(value, "__next__"):
        inner = text[1:-1] if isinstance(part, ast.GeneratorExp) else f"*{text}"
        ways += [f"[{inner}]"]
    elif inspect.isroutine(value) or isinstance(value, type):
        ways += [f"{own}()"]
        name = getattr(value, "__name__", "")
        if "Module" in message:
            kind = next((each for each in dir(nn) if each.lower() == name.replace("_", "")), None)
            ways += [f"{library}.nn.{kind}()"] if kind else []
    elif isinstance(part, (ast.Call, ast.BinOp)) and value is MISSING:
        ways += [f"int({text})", f"{own}.long()", f"{own}.float()", f"{own}.tolist()", f"list({text})"]
    for way in ways:
        with suppress(SyntaxError):  # of a text that is a word of Python
            yield Edit(part, parse(way))


def leave_conversion(part: ast.expr) -> Iterator[Edit]:
    """Yield what a conversion in the line converts."""
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in CONVERSIONS:
        yield Edit(part, part.func.value)


def _find_types(x: Tensor, message: str) -> list[str]:
    """Return the types that a tensor may be converted to, of an error that is about types."""
    if not TYPE_WORDS.search(message):
        return []
    is_of_integers = INTEGER_WORDS.search(message) is not None
    types = ["float", "double"] if x.dtype != float32 else ["double"]
    types = ["long", *types] if is_of_integers and x.dtype != int64 else types
    return [*types, *(["long"] if "long" not in types else []), *(["bool"] if "bool" in message.lower() else [])]


def leave_tensors(part: ast.expr, value: Operand, message: str) -> Iterator[Edit]:
    """Yield a tensor or an array as what others take, and a call as the function that is called."""
    own = bracket(part)
    if isinstance(value, Tensor):
        ways = ("tolist()", "detach()", "numpy()", "detach().numpy()")
        yield from (Edit(part, parse(f"{own}.{way}")) for way in ways)
        if isinstance(part, ast.Call) and "not callable" in message:
            yield Edit(part, part.func)
    elif isinstance(value, np.ndarray):
        yield Edit(part, parse(f"{own}.tolist()"))

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
    for way in _write_conversions(part, value, library, message):
        with suppress(SyntaxError):  # of a text that is a word of Python
            yield Edit(part, parse(way))


def _write_conversions(part: ast.expr, value: Operand, library: str, message: str) -> list[str]:
    """Return the texts of what an expression may be converted to, by the kind of its value."""
    text, own = ast.unparse(part), bracket(part)
    if isinstance(value, Tensor):
        return _convert_tensor(own, value, message)
    if isinstance(value, np.ndarray):
        arrays = [f"{own}.astype('float32')", f"{own}.astype('int64')", f"{own}.copy()"]
        return [f"{library}.from_numpy({text})", f"{library}.from_numpy({text}).float()", *arrays]
    if isinstance(value, tuple) and isinstance(part, ast.Attribute) and part.attr == "shape":
        return [f"{bracket(part.value)}.numel()", f"{own}[0]", ast.unparse(part.value)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [f"{own}.{name}" for name in value._fields]
    if isinstance(value, (list, tuple)) or isinstance(part, (ast.List, ast.Tuple)):
        return _convert_items(part, value, library)
    if is_module(value):
        parameters = [name for name, each in value._parameters.items() if each is not None]
        has_items = hasattr(value, "__getitem__")
        return [f"{own}[0]"] if has_items else [f"{own}.parameters()", *(f"{own}.{name}" for name in parameters)]
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, (int, float)):
        is_integer_wanted = re.search(r"(?<!non-)\bint\b|integer|index|indices", message) is not None
        whole = [f"int({text})"] if isinstance(value, float) and is_integer_wanted else []
        return [*whole, f"{library}.tensor({text})", f"({text},)", f"[{text}]"]
    if isinstance(value, str):
        return _convert_text(text, value, library, message)
    if isinstance(value, dict):
        count = [f"len({text})"] if "integer" in message else []
        keyed = [f"{{str(key): each for key, each in {own}.items()}}"] if "string" in message else []
        return [*count, *keyed, f"list({own}.values())", f"{own}.values()"]
    if isinstance(part, ast.GeneratorExp) or hasattr(value, "__next__"):
        return [f"[{text[1:-1] if isinstance(part, ast.GeneratorExp) else f'*{text}'}]"]
    if inspect.isroutine(value) or isinstance(value, type):
        name = getattr(value, "__name__", "").replace("_", "")
        kind = next((each for each in dir(nn) if each.lower() == name), None) if "Module" in message else None
        return [f"{own}()", *([f"{library}.nn.{kind}()"] if kind else [])]
    if isinstance(part, (ast.Call, ast.BinOp)) and value is MISSING:
        return [f"int({text})", f"{own}.long()", f"{own}.float()", f"{own}.tolist()", f"list({text})"]
    return []


def _convert_tensor(own: str, x: Tensor, message: str) -> list[str]:
    """Return a tensor as one of another type, or as its number."""
    if x.is_complex():
        ways = [f"{own}.abs()", f"{own}.real"]
    else:
        ways = [f"{own}.{kind}()" for kind in _find_types(x, message)]
    return [*ways, f"{own}.item()"] if x.numel() == 1 and not x.is_floating_point() else ways


def _convert_items(part: ast.expr, value: Operand, library: str) -> list[str]:
    """Return a list or a tuple as one tensor, or as another kind of sequence."""
    text, own = ast.unparse(part), bracket(part)
    items = value if isinstance(value, (list, tuple)) else []
    if items and all(isinstance(each, Tensor) for each in items):
        return [f"{library}.stack({text})", f"{library}.cat({text})", f"{own}[0]"]
    if items and all(isinstance(each, np.ndarray) for each in items):
        return [f"[{library}.from_numpy(x) for x in {text}]", f"{library}.from_numpy(np.stack({text}))"]
    if items and all(type(each) is tuple and isinstance(each[0], Tensor) for each in items):
        return [f"[each[0] for each in {text}]"]
    if items and all(isinstance(each, (list, tuple)) for each in items):
        return [f"{library}.tensor({text})", f"[{library}.tensor(x) for x in {text}]"]
    parts = {ast.unparse(each) for each in part.elts} if isinstance(part, ast.Tuple) else set()
    return [f"{library}.tensor({text})", f"tuple({text})", f"list({text})", *(parts if len(parts) == 1 else [])]


def _convert_text(text: str, value: str, library: str, message: str) -> list[str]:
    """Return a string as the number that it writes, or as the attribute of the library that it names."""
    is_of_count = "integer" in message or ("int" in message.split() and "float" not in message.split())
    is_number = re.fullmatch(r"\s*[-+]?[\d.]+(?:e[-+]?\d+)?\s*", value) is not None
    kinds = ("int", "float") if value.strip().lstrip("+-").isdigit() else ("float", "int")
    numbers = [*(["-1"] if is_of_count and not is_number else []), *(f"{kind}({text})" for kind in kinds)]
    return [*numbers, f"{library}.{value}"] if value.isidentifier() else numbers


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

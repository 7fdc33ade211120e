"""Operands for which functions are not defined: kinds of elements, and Python numbers in the place of tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from adjoint.core.parameters import parameters_of
from adjoint.core.spec import describe

Function = Callable[..., Any]
OF_TRUTHS = {  # PyTorch's complaints
    "sub": (
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
        "operator instead."
    ),
    "neg": (
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
        "`~` or `logical_not()` operator instead."
    ),
}


def kinds_checked(name: str, refuses: str) -> Function:
    """A function that raises NotImplementedError for operands of a NumPy kind among `refuses`."""

    def check(operands: tuple[Any, ...]) -> None:
        for x in operands:
            kind = getattr(x, "dtype", None)
            if kind is not None and kind.kind in refuses:
                other = {"b": "convert with int() or float()", "c": "take real, imag or abs"}.get(
                    kind.kind, "convert with long()"
                )
                raise NotImplementedError(
                    (kind.kind == "b" and OF_TRUTHS.get(name))
                    or f"{name} is not implemented for tensors of type {kind.name}, given {describe(x)}: {other} first"
                )

    return check


def refusing(function: Function, check: Function) -> Function:
    """`function`, whose operands are checked first."""

    @wraps(function)
    def evaluate(*operands: Any) -> Any:
        check(operands)
        return function(*operands)

    evaluate.parameters = parameters_of(function).positional  # type: ignore[attr-defined]
    return evaluate


def refuse_numbers(name: str, inputs: tuple[str, ...], numbers: str, x: Any, y: Any) -> None:
    """Raise TypeError where a Python number stands for an operand not among `numbers`, "x" and "y", or for both."""
    places = [i for i, v in enumerate((x, y)) if isinstance(v, (int, float, complex))]
    if len(places) < 2:
        places = [i for i in places if "xy"[i] not in numbers]
    for i in places:
        label = ("input", "other")[i] if inputs[i] in ("x", "y") else inputs[i]
        kind = type((x, y)[i]).__name__
        raise TypeError(f"{name}(): argument '{label}' (position {i + 1}) must be Tensor, not {kind}")

"""Errors of an op's NumPy function: the message in the user's words, or IEEE arithmetic's value."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.signature import with_parameters_of
from adjoint.core.op.spec import broadcast_shapes, describe
from adjoint.core.typing import Function, Operand, Operands, Params

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

# of NumPy functions
EVALUATION_ERRORS = (RuntimeWarning, FloatingPointError, ValueError, TypeError, IndexError, OverflowError)


def retry_ignoring_fp_errors(op: Op, operands: Operands, params: Params, error: Exception) -> Operand:
    """Evaluate the op again without floating-point warnings if `error` is one; else raise the user's error."""
    if not isinstance(error, (RuntimeWarning, FloatingPointError)):  # overflow and 0/0, which are no errors here
        raise user_error(op, operands, error) from error
    with np.errstate(all="ignore"):
        return op.evaluate(*operands, **params)


def user_error(op: Op, operands: Operands, error: Exception) -> Exception:
    """Return the error for the user: op, operands, PyTorch's class. The error of a check is returned as it is."""
    if op.effect and op.family != "random":
        return error
    shapes = [np.shape(x) for x in operands if x is not None]
    if isinstance(error, ValueError) and op.family == "binary":
        try:
            broadcast_shapes(*shapes)
        except ValueError as mismatch:
            return RuntimeError(f"{op.name}: shapes {shapes[0]} and {shapes[1]} do not broadcast. {mismatch}")
    given = ", ".join(describe(x) if hasattr(x, "dtype") else repr(x) for x in operands)
    kind = RuntimeError if isinstance(error, (ValueError, TypeError)) else type(error)
    return kind(f"{op.name}({given}): {str(error).replace('for axis', 'for dimension')}")


BOOL_ERRORS = {  # PyTorch's complaints
    "sub": (
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
        "operator instead."
    ),
    "neg": (
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
        "`~` or `logical_not()` operator instead."
    ),
}


def make_kind_check(name: str, unsupported_kinds: str) -> Function:
    """Make a check that raises NotImplementedError for operands of a NumPy kind in `unsupported_kinds`."""

    def check(operands: Operands) -> None:
        if not unsupported_kinds:
            return
        for x in operands:
            kind = getattr(x, "dtype", None)
            if kind is not None and kind.kind in unsupported_kinds:
                advice = {"b": "convert with int() or float()", "c": "take real, imag or abs"}
                other = advice.get(kind.kind, "convert with long()")
                raise NotImplementedError(
                    (kind.kind == "b" and BOOL_ERRORS.get(name))
                    or f"{name} is not implemented for tensors of type {kind.name}, given {describe(x)}: {other} first"
                )

    return check


def with_operand_check(function: Function, check: Function) -> Function:
    """Wrap `function` so that its operands are checked first."""

    @wraps(function)
    def evaluate(*operands: Operand) -> Operand:
        check(operands)
        return function(*operands)

    return with_parameters_of(evaluate, function)


def refuse_numbers(name: str, inputs: tuple[str, ...], numbers: str, x: Operand, y: Operand) -> None:
    """Raise TypeError if a Python number stands for an operand not in `numbers` ("x", "y"), or for both."""
    places = [i for i, v in enumerate((x, y)) if isinstance(v, (int, float, complex))]
    if len(places) < 2:
        places = [i for i in places if "xy"[i] not in numbers]
    for i in places:
        label = ("input", "other")[i] if inputs[i] in ("x", "y") else inputs[i]
        kind = type((x, y)[i]).__name__
        raise TypeError(f"{name}(): argument '{label}' (position {i + 1}) must be Tensor, not {kind}")

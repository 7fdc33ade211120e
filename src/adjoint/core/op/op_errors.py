"""Errors of an op's NumPy function: the message in the user's words, or IEEE arithmetic's value."""

from __future__ import annotations

import re
from functools import wraps
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.graph.source_location import library_files
from adjoint.core.op.signature import parameters_of, with_parameters_of
from adjoint.core.op.spec import broadcast_shapes, describe
from adjoint.core.runtime.explanation_slot import explanation_slot
from adjoint.core.typing import Function, Operand, Operands, Params

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

# of NumPy functions
EVALUATION_ERRORS = (RuntimeWarning, FloatingPointError, ValueError, TypeError, IndexError, OverflowError)


def retry_ignoring_fp_errors(op: Op, operands: Operands, params: Params, error: Exception) -> Operand:
    """Evaluate the op again without floating-point warnings if `error` is one; else raise the user's error."""
    if not isinstance(error, (RuntimeWarning, FloatingPointError)):  # overflow and 0/0, which are no errors here
        shown = user_error(op, operands, error)
        explanation_slot.call(shown)
        raise shown from error
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
    wants_integer = isinstance(error, TypeError) and "integer" in str(error)
    kind = RuntimeError if isinstance(error, (ValueError, TypeError)) and not wants_integer else type(error)
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


def refuse_bool_operand(*operands: Operand) -> None:
    """Raise NotImplementedError if one of two operands of a subtraction is bool; `sub` itself does if both are."""
    given = [getattr(x, "array", x) for x in operands]
    are_bools = [type(x) is bool or getattr(getattr(x, "dtype", None), "kind", "") == "b" for x in given]
    if any(are_bools) and not all(are_bools):
        raise NotImplementedError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )


NAMED_ERRORS = frozenset({RuntimeError, IndexError, ValueError, TypeError, NotImplementedError})


def name_call(error: Exception, function: Function, args: Operands, kwargs: Params) -> None:
    """Let the message of an error of the library name the function that was called, and its operands.

    The outermost function is named, which is the user's. Raises TypeError where what is no tensor stands for one.
    """
    if isinstance(error, AttributeError):
        _refuse_other_than_tensors(error, function, args)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    is_ours = trace is not None and library_files[trace.tb_frame.f_code.co_filename]  # not of what the library called
    if not is_ours or type(error) not in NAMED_ERRORS or not isinstance(error.args[0], str):
        return
    _name_function(error, function, args, kwargs)
    explanation_slot.call(error)


def _name_function(error: Exception, function: Function, args: Operands, kwargs: Params) -> None:
    message: str = vars(error).setdefault("message_of_op", error.args[0])
    arrays = [getattr(x, "array", None) for x in (*args, *kwargs.values())]
    given = [x for x in arrays if x is not None and hasattr(x, "shape") and hasattr(x, "dtype")]
    operands, text = ", ".join(map(describe, given)), message.replace(" ", "")
    name = function.__name__
    if not re.search(rf"\b{re.escape(name.rstrip('_'))}_?\b", message):
        message = f"{name}({operands}): {message}"
    elif given and not any(re.search(rf"[\[(]{','.join(map(str, x.shape))},?[\])]", text) for x in given):
        message = f"{message} (given {operands})"
    error.args = (message,)


def _refuse_other_than_tensors(error: Exception, function: Function, args: Operands) -> None:
    annotations = getattr(function, "__annotations__", {})
    for place, (label, x) in enumerate(zip(parameters_of(function).positional, args, strict=False), 1):
        if annotations.get(label) == "Tensor" and not hasattr(x, "array"):
            raise TypeError(describe_misplaced_value(function.__name__, label, place, x)) from error


def describe_misplaced_value(name: str, label: str, place: int, value: object) -> str:
    """Return PyTorch's message for an argument that is no tensor; `place` counts from 1."""
    return f"{name}(): argument '{label}' (position {place}) must be Tensor, not {type(value).__name__}"


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
        raise TypeError(describe_misplaced_value(name, label, i + 1, (x, y)[i]))

"""What an op does when its NumPy function fails: the user's words for the error, or IEEE arithmetic's value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.spec import broadcast_shapes, describe

if TYPE_CHECKING:
    from adjoint.core.op import Op

FAULTS = (RuntimeWarning, FloatingPointError, ValueError, TypeError, IndexError, OverflowError)  # of NumPy functions


def again(op: Op, operands: tuple[Any, ...], params: dict[str, Any], error: Exception) -> Any:
    """The op's NumPy function once more without warnings, where the user has made errors of them; else the error."""
    if not isinstance(error, (RuntimeWarning, FloatingPointError)):  # overflow and 0/0, which are no errors here
        raise explained(op, operands, error) from error
    with np.errstate(all="ignore"):
        return op.evaluate(*operands, **params)


def explained(op: Op, operands: tuple[Any, ...], error: Exception) -> Exception:
    """The error a user should read: op, operands, and PyTorch's class for it. A check's error is that already."""
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

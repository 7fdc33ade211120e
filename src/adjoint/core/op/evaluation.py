"""The value of an op: its operands brought to one type, and its NumPy function, or a kernel, called on them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, default, promote
from adjoint.core.op.op_errors import EVALUATION_ERRORS, retry_ignoring_fp_errors
from adjoint.core.typing import Operands, Params

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

ndarray = np.ndarray

# Overflow and division by zero give inf and nan, as IEEE arithmetic has it; NumPy's warnings about them are not for
# users.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"adjoint\.")


def evaluate(op: Op, operands: Operands, params: Params) -> Any:
    """The op's NumPy function on arrays of agreed types: an ndarray. Its errors are told in the user's words."""
    try:
        data = op.evaluate(*operands, **params)
    except EVALUATION_ERRORS as error:
        data = retry_ignoring_fp_errors(op, operands, params, error)
    return data if type(data) is ndarray else np.asarray(data)


def compute(op: Op, operands: Operands, params: Params) -> Any:
    """As `evaluate`, but by a compiled kernel where the op may have one and the operands are large."""
    found = None if op.native is None else op.native.find(operands, params)
    return evaluate(op, operands, params) if found is None else found


def target_dtype(op: Op, operands: Operands) -> np.dtype[Any] | None:
    """The type to which an op's operands are brought before it is evaluated; None if the op takes them as they are."""
    if op.promotion is None:
        return None
    target = promote(operands)
    if op.promotion == "float" and DTYPES[target].rank < 2:
        return default.floating.numpy
    if op.promotion == "number" and target.kind == "b":
        return np.dtype(np.int64)
    return target


def _promote_operands(op: Op, arrays: Operands) -> tuple[Any, ...]:
    """The operands in the type in which the op computes."""
    target = target_dtype(op, arrays)
    return tuple([
        (x if x.dtype == target else x.astype(target)) if hasattr(x, "dtype") else _convert_number(x,
        target) for x in arrays
    ])  # fmt: skip


def _convert_number(number: Any, target: Any) -> Any:
    """A Python number as an operand: NumPy brings it to the arrays' type, except where it would refuse or widen."""
    return np.asarray(number).astype(target) if target.kind in "iub" else number

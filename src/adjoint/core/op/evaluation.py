"""The value of an op: type promotion of its operands, then a call of its NumPy function or a kernel."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, default, promote
from adjoint.core.op.op_errors import EVALUATION_ERRORS, retry_ignoring_fp_errors
from adjoint.core.typing import NumpyDtype, Operand, Operands, Params

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

ndarray = np.ndarray

# Overflow and division by zero give inf and nan, as IEEE arithmetic has it; NumPy's warnings about them are not for
# users.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"adjoint\.")


def evaluate(op: Op, operands: Operands, params: Params) -> Operand:
    """Call the op's NumPy function on promoted operands; return an ndarray. Errors are in the user's words."""
    try:
        data = op.evaluate(*operands, **params)
    except EVALUATION_ERRORS as error:
        data = retry_ignoring_fp_errors(op, operands, params, error)
    return data if type(data) is ndarray else np.asarray(data)


def compute(op: Op, operands: Operands, params: Params) -> Operand:
    """Evaluate the op by a compiled kernel if it has one and the operands are large; else as `evaluate`."""
    found = None if op.native is None else op.native.find(operands, params)
    return evaluate(op, operands, params) if found is None else found


def target_dtype(op: Op, operands: Operands) -> NumpyDtype | None:
    """Return the type to which an op's operands are converted; None if the op takes them as they are."""
    if op.promotion is None:
        return None
    target = promote(operands)
    if op.promotion == "float" and DTYPES[target].rank < 2:
        return default.floating.numpy
    if op.promotion == "number" and target.kind == "b":
        return np.dtype(np.int64)
    return target


def _promote_operands(op: Op, arrays: Operands) -> Operands:
    """Convert the operands to the type in which the op computes."""
    target: Any = target_dtype(op, arrays)
    operands = []
    for x in arrays:
        if hasattr(x, "dtype"):
            operands.append(x if x.dtype == target else x.astype(target))
        else:  # a Python number: NumPy would refuse some as integers, or widen the result
            operands.append(np.asarray(x).astype(target)[()] if target.kind in "iub" else x)
    return tuple(operands)

"""The shape and type of what an op call gives, told from its operands: once for calls that are alike.

An unrolled loop makes the same calls in each turn, and what they promise depends on the op, on the operands' shapes and
types, on numbers and on parameters alone.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.trace.numbers.symbolic_number import SymbolicNumber
from adjoint.compiler.trace.symbolic_strides import stand_in_operand
from adjoint.core.dtype.dtype import default
from adjoint.core.op.op import Op
from adjoint.core.op.op_errors import user_error
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import NumpyDtype, Operand, Operands, Params

PLAIN_NUMBERS = (bool, int, float)


def has_symbol(x: object) -> bool:
    """True for a tensor that the tracer has taken in, or has made."""
    return isinstance(x, Tensor) and type(x.array) is Value


def call_signature(op: Op, operands: Operands, inputs: Operands, params: Params) -> Hashable:
    """Return a key that calls share which promise the same; None for a user's op, and where more is to be looked at.

    `inputs`: what the operands were before NumPy's scalars became numbers.
    """
    if op.runs_user_code:
        return None
    facts: list[object] = [op, default.floating.name]
    for i, x in enumerate(operands):
        if isinstance(x, Value):
            facts += x.shape, x.dtype
        elif x is None or type(x) in PLAIN_NUMBERS:
            facts += type(x), repr(x), getattr(inputs[i], "dtype", None)
        else:
            return None
    for name, value in params.items():
        if type(value) not in PLAIN_NUMBERS and not isinstance(value, (str, tuple, np.dtype)):
            return None
        facts += name, type(value), repr(value)
    return tuple(facts)


def promise_spec(op: Op, operands: Operands, inputs: Operands, params: Params, target: NumpyDtype | None) -> Spec:
    """Return the spec that an op promises for these operands, of type `target`; its error is in the user's words."""
    specs = [
        x if isinstance(x, Value) else Spec((), target or getattr(given, "dtype", None) or np.dtype(type(x)))
        for x, given in zip(operands, inputs, strict=True)
        if x is not None
    ]
    try:
        spec: Spec = op.spec(*specs, **params)
    except (ValueError, TypeError, IndexError) as error:
        raise user_error(op, tuple(map(stand_in_operand, operands)), error) from error
    return spec


def typed_operand(given: Operand, operand: Operand) -> Operand:
    """Return what decides on the type in which an op computes: an array, also one without dimensions."""
    if type(operand) is SymbolicNumber:
        return operand.plain_value
    return given if type(given) is np.ndarray else operand

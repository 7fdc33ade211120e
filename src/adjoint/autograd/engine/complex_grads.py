"""Gradient rules on complex numbers.

The gradient of a real L by z = x + iy is ∂L/∂x + i ∂L/∂y, PyTorch's convention. For a function f that is differentiable
as a complex function, the gradient by z is conj(f'(z)) g. Rules compute f'(z) g, which is the same for real numbers. So
the rule runs on conj(g), and its result is conjugated. If a rule reads no value, f' is real and this is skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.ops.elementwise.complex import conj


def call_gradient_rule(op: Op, i: int, dtype: Any, g: Any, given: list[Any]) -> Any:
    """Return the gradient of input `i` of an op whose output has dtype `dtype` and gradient g."""
    rule: Any = op.rule(i)
    if dtype.kind != "c" or not op.holomorphic or not _reads_values(op, i):
        return rule(g, *given)
    if type(g) is np.ndarray:
        d = rule(np.conjugate(g), *given)
        return np.conjugate(d.array if isinstance(d, Tensor) else d)
    return conj(rule(conj(g), *given))


def _reads_values(op: Op, i: int) -> bool:
    needs = op.needs[min(i, len(op.needs) - 1)]
    return "out" in needs or any(name in op.inputs for name in needs)

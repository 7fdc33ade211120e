"""What a gradient rule gives where numbers are complex.

The gradient of a real L by z = x + iy is ∂L/∂x + i ∂L/∂y, PyTorch's convention. Of an f that is differentiable as a
complex function it makes conj(f'(z)) g. Rules say f'(z) g, for real numbers the same: so the rule runs on conj(g), and
what it gives is conjugated. Of rules that read no value f' is real, and nothing is to be done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.ops.elementwise.complex import conj


def call_gradient_rule(op: Op, i: int, dtype: Any, g: Any, given: list[Any]) -> Any:
    """The gradient of input `i` of an op whose output, of type `dtype`, has the gradient g; `given`: what is kept."""
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

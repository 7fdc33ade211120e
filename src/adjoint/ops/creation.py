"""Creation of tensors, as ops: a compiled step makes them anew on each run."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, NumpyDtype, Operand, Shape


@primitive(family="full", spec=lambda *, shape, value, dtype: Spec(shape, dtype))
def full(*, shape: Shape, value: Operand, dtype: NumpyDtype) -> Operand:
    """`shape` filled with `value`."""
    return np.full(shape, value, dtype)


@primitive(family="iota", spec=lambda *, count, start, step, dtype: Spec((count,), dtype))
def iota(*, count: int, start: float, step: float, dtype: NumpyDtype) -> Array:
    """start, start + step, …: `count` numbers."""
    numbers = np.arange(count)
    return (numbers if start == 0 and step == 1 else start + numbers * step).astype(dtype, copy=False)

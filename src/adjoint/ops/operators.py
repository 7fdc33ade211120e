"""Python's operators on tensors: one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.tensor import Tensor
from adjoint.ops import arithmetic, bitwise, comparison

OPERATORS: dict[str, Callable[..., Any]] = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "truediv": arithmetic.div,
    "floordiv": arithmetic.floor_divide,
    "mod": arithmetic.remainder,
    "pow": arithmetic.pow,
    "eq": comparison.eq,
    "ne": comparison.ne,
    "lt": comparison.lt,
    "le": comparison.le,
    "gt": comparison.gt,
    "ge": comparison.ge,
    "and": bitwise.bitwise_and,
    "or": bitwise.bitwise_or,
    "xor": bitwise.bitwise_xor,
}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
OPERANDS = (Tensor, int, float, bool, complex, np.ndarray, np.generic)


def _guarded(f: Callable[..., Any], swapped: bool) -> Callable[[Any, Any], Any]:
    """`f` as an operator: operands of foreign types are left to their own class."""
    if swapped:
        return lambda x, y: f(y, x) if isinstance(y, OPERANDS) else NotImplemented
    return lambda x, y: f(x, y) if type(y) is Tensor or isinstance(y, OPERANDS) else NotImplemented


for _name, _f in OPERATORS.items():
    setattr(Tensor, f"__{_name}__", _guarded(_f, False))
    if _name not in COMPARISONS:
        setattr(Tensor, f"__r{_name}__", _guarded(_f, True))
for _name, _f in {"neg": arithmetic.neg, "abs": arithmetic.abs, "invert": bitwise.bitwise_not}.items():
    setattr(Tensor, f"__{_name}__", _f)

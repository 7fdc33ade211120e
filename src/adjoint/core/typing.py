"""Names for the types in signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from adjoint.core.dtype import dtype as dtypes
from adjoint.core.dtype.device import device

Array: TypeAlias = np.ndarray  # of any shape and type
NumpyDtype: TypeAlias = dtypes.NumpyDtype
DtypeLike: TypeAlias = dtypes.DtypeLike
DeviceLike: TypeAlias = device | str | int | None
Function: TypeAlias = Callable[..., Any]
Shape: TypeAlias = tuple[int, ...]
ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]  # sizes: one, or one for each dimension
Sizes: TypeAlias = int | Sequence[int]  # one number for all dimensions, or one for each

# A tensor, an array, a symbol of a traced step, or a number: ops and gradient rules are written once for all of them.
Operand: TypeAlias = Any
Operands: TypeAlias = tuple[Operand, ...]
StateDict: TypeAlias = dict[str, Any]  # of a module, an optimizer or a schedule
Params: TypeAlias = dict[str, Any]  # the keyword arguments of an op call, such as axes

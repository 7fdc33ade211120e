"""Names for the types in signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtype.device import device
from adjoint.core.dtype.dtype import dtype

Array = np.ndarray  # of any shape and type
NumpyDtype = np.dtype[Any]
DtypeLike = dtype | np.dtype[Any] | type | str | None
DeviceLike = device | str | int | None
Scalar = bool | int | float | complex
Function = Callable[..., Any]

# A tensor, an array, a symbol of a traced step, or a number: ops and gradient rules are written once for all of them.
Operand = Any
Operands = tuple[Operand, ...]
Params = dict[str, Any]  # the keyword arguments of an op call, such as axes

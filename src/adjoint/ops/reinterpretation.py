"""The bits of elements, read as elements of another type."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.families import movement
from adjoint.core.spec import Spec


def _read_as(x: Any, *, dtype: Any) -> Spec:
    old, new = x.dtype.itemsize, dtype.itemsize
    return Spec(x.shape if old == new else (*x.shape[:-1], x.shape[-1] * old // new), dtype)


@movement(spec=_read_as, leading=True)
def reinterpret(x: Any, *, dtype: Any) -> Any:
    """The same memory as elements of `dtype`: along the last dimension more of them, or fewer, where sizes differ."""
    if dtype.itemsize != x.dtype.itemsize and x.strides[-1] != x.itemsize:
        x = np.ascontiguousarray(x)
    return x.view(dtype)

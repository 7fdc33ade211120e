"""How a tangent lies in memory: as its tensor does, so that what is a view of the one is a view of the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.region import offset, owner, reach, region, steps
from adjoint.core.tensor import Tensor
from adjoint.ops.selection import copy

ndarray = np.ndarray


def lying_as(tangent: Tensor, x: Tensor) -> Tensor:
    """The tangent itself where it lies in its memory as `x` does; else a copy, with its history, that does."""
    array, like = tangent.array, x.array
    if type(array) is not ndarray or type(like) is not ndarray or _lie_alike(array, like):
        return tangent
    out: Tensor = copy(tangent)
    laid = _room_like(like, array.dtype)
    laid[...] = array
    out.array = laid
    return out


def _lie_alike(x: Any, y: Any) -> bool:
    """True if x and y have one layout in memories of the same extent."""
    if x.strides == y.strides and x.base is None and y.base is None:
        return True
    if not x.size:
        return True
    strides = zip(x.shape, steps(x), steps(y), strict=True)
    return all(a == b for n, a, b in strides if n > 1) and offset(x) == offset(y) and owner(x).size >= owner(y).size


def _room_like(like: Any, dtype: Any) -> Any:
    """An array that lies in a memory of its own as `like` does in its; dense where elements of that share memory."""
    plain = all(n == 1 or s > 0 for n, s in zip(like.shape, like.strides, strict=True))
    if not plain or like.size > reach(like.shape, steps(like), 0):
        return np.empty(like.shape, dtype)
    return region(np.zeros(owner(like).size, dtype), like.shape, steps(like), offset(like))

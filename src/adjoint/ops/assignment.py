"""Replacing a part of an array: what `x[index] = value` computes."""

from __future__ import annotations

import builtins
from typing import Any

from adjoint.core.families import primitive
from adjoint.core.spec import Spec
from adjoint.ops.indexing import Pattern, index
from adjoint.ops.movement import Bounds, slice


def _same(x: Any, *_: Any, **__: Any) -> Spec:
    return Spec(x.shape, x.dtype)


@primitive(
    spec=_same,
    node="CopySlices",
    dx=lambda g, bounds: put_slice(g, 0.0, bounds=bounds),
    dvalue=lambda g, bounds: slice(g, bounds=bounds),
)
def put_slice(x: Any, value: Any, *, bounds: Bounds) -> Any:
    """x with `value` at one (start, stop, step) per dimension."""
    out = x.copy()
    out[tuple(builtins.slice(*b) for b in bounds)] = value
    return out


@primitive(
    spec=_same,
    node="IndexPutBackward0",
    dx=lambda g, indices, pattern: put_index(g, 0.0, *indices, pattern=pattern),
    dvalue=lambda g, indices, pattern: index(g, *indices, pattern=pattern),
)
def put_index(x: Any, value: Any, *indices: Any, pattern: Pattern) -> Any:
    """x with `value` at integer index arrays; at a repeated position the last one stays."""
    out = x.copy()
    out[tuple(builtins.slice(None) if slot is None else indices[slot] for slot in pattern)] = value
    return out

"""How what an equation reads lies in the iteration space of the kernel that it is in."""

from __future__ import annotations

from functools import lru_cache

from adjoint.compiler.graph import Value
from adjoint.compiler.view import View, row_major

Shape = tuple[int, ...]


def over(view: View, shape: Shape, space: Shape) -> View | None:
    """What an equation over `shape` reads, as a kernel over `space`, of as many elements, has it; None if no strides
    say so.
    """
    if view.shape == shape == space:
        return view
    return view.expand(shape).reshape(space)


def own_shape(value: Value) -> Shape:
    """The shape over which an equation runs: of its result, or of what it folds."""
    return value.operands[0].shape if value.op.combine else value.shape


@lru_cache(4096)
def kept_shape(shape: Shape, axes: Shape | None) -> Shape:
    """`shape` with the folded dimensions as 1."""
    return tuple(1 if i in (axes or ()) else n for i, n in enumerate(shape))


def follows_folds(view: View, shape: Shape, axes: Shape) -> bool:
    """True if a view over `shape` reads, at each element, the result of the folds over `axes` that it is part of."""
    expected = row_major(kept_shape(shape, axes))
    return not view.offset and all(
        n == 1 or s == (0 if i in axes else e)
        for i, (n, s, e) in enumerate(zip(shape, view.strides, expected, strict=True))
    )

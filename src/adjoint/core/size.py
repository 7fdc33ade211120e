"""The shape of a tensor as people read it: a tuple that knows its number of elements."""

from __future__ import annotations

import math


class Size(tuple[int, ...]):
    """`x.shape`: a tuple of sizes; `numel()` is their product."""

    __slots__ = ()

    def numel(self) -> int:
        """Number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"adjoint.Size([{', '.join(map(str, self))}])"

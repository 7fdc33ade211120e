"""The shape of a tensor as people read it: a tuple that knows its number of elements."""

from __future__ import annotations

import math
from typing import Any, Self

from adjoint.core.spoken import spoken

_at, _joined, _repeated = tuple.__getitem__, tuple.__add__, tuple.__mul__


class Size(tuple[int, ...]):
    """`x.shape`: a tuple of sizes; `numel()` is their product. Parts of one, and several joined, are sizes too."""

    __slots__ = ()

    def numel(self) -> int:
        """Number of elements of a tensor of this shape."""
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        return Size(_at(self, index)) if type(index) is slice else _at(self, index)

    def __add__(self, other: Any) -> Self:
        return type(self)(_joined(self, other))

    def __radd__(self, other: Any) -> Self:
        return type(self)(_joined(other, self))

    def __mul__(self, times: Any) -> Self:
        return type(self)(_repeated(self, times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{spoken.package}.Size([{', '.join(map(str, self))}])"

"""The shape of a tensor: a tuple that knows its number of elements."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import Any, Self

from adjoint.core.runtime.package_name import display_name

new_tuple, _tuple_getitem, _tuple_add, _tuple_mul = tuple.__new__, tuple.__getitem__, tuple.__add__, tuple.__mul__


class Size(tuple[int, ...]):
    """A tuple of sizes, as `x.shape`; `numel()` is their product. Slices and sums of sizes are sizes too."""

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Self:
        """Make a size. Raises TypeError for anything but integers."""
        return new_tuple(cls, [_as_integer(i, n) for i, n in enumerate(sizes)])

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        return math.prod(self)

    def __getitem__(self, at: Any) -> Any:
        return new_tuple(Size, _tuple_getitem(self, at)) if type(at) is slice else _tuple_getitem(self, at)

    def __add__(self, other: Any) -> Self:
        return new_tuple(type(self), _tuple_add(self, other))

    def __radd__(self, other: tuple[int, ...]) -> Self:
        return new_tuple(type(self), _tuple_add(other, self))

    def __mul__(self, times: Any) -> Self:
        return new_tuple(type(self), _tuple_mul(self, times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{display_name.package}.Size([{', '.join(map(str, self))}])"


def _as_integer(i: int, n: Any) -> int:
    if isinstance(n, int):
        return +n
    try:
        return index(n)
    except TypeError:
        raise TypeError(
            f"{display_name.package}.Size() takes an iterable of 'int' (item {i} is {type(n).__name__!r})"
        ) from None

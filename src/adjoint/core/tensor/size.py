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


class SymbolicScalar:
    """A number that stands for another in each call of a compiled step; it is one for `isinstance`."""

    __slots__ = ()

    def as_size(self) -> int:
        """Return it as a size, or a position, which may be symbolic too. Raises TypeError for a float."""
        raise NotImplementedError


def has_symbolic(*numbers: float) -> bool:
    """Return whether one of these numbers is another in each call of a compiled step."""
    return any(issubclass(type(n), SymbolicScalar) for n in numbers)


def as_size(n: Any) -> int:
    """Return an integer as a size of a dimension, or a position: a symbolic one stays so.

    Raises TypeError for anything else.
    """
    if type(n) is int:
        return n
    return n.as_size() if issubclass(type(n), SymbolicScalar) else index(n)


def settle_sizes(shape: Iterable[int]) -> None:
    """Rely on the sizes of a shape being what they are in this call, where some are symbolic."""
    for n in shape:
        index(n)


def as_float(n: float) -> float:
    """Return a size as a float: a symbolic one as it is, which becomes a float where it meets one."""
    return n if issubclass(type(n), SymbolicScalar) else float(n)


def range_length(start: int, stop: int, step: int) -> int:
    """Return how many steps of a positive size lead from `start` to `stop`, which is not before it."""
    return stop - start if step == 1 else -(-(stop - start) // step)


def slice_bounds(key: slice, n: int) -> tuple[int, int, int]:
    """Return start, stop and step of a slice of `n` elements, within these, as `key.indices(n)` does."""
    if all(type(at) is int or at is None for at in (n, key.start, key.stop)) or (key.step is not None and key.step < 0):
        return key.indices(n)

    def clip(at: int | None, default: int) -> int:
        if at is None:
            return default
        return max(at + n, 0) if at < 0 else min(at, n)

    return clip(key.start, 0), clip(key.stop, n), 1 if key.step is None else key.step


def _as_integer(i: int, n: Any) -> int:
    if isinstance(n, int):
        return +n
    try:
        return index(n)
    except TypeError:
        raise TypeError(
            f"{display_name.package}.Size() takes an iterable of 'int' (item {i} is {type(n).__name__!r})"
        ) from None

"""Plain values, which have no identity: numbers, strings, and tuples of them."""

from __future__ import annotations

from enum import Enum
from types import BuiltinMethodType, EllipsisType, MethodType, NoneType, NotImplementedType
from typing import Any

import numpy as np

from adjoint.core.tensor.tensor import Tensor

BY_EQUALITY = frozenset((bool, int, str, bytes, range, NoneType, EllipsisType, NotImplementedType))
BY_SPELLING = frozenset((float, complex))  # -0.0 is not 0.0, and NaN is NaN
IMMUTABLE_TYPES = (Enum, np.dtype, np.generic)
PLAIN_CONTAINERS = (tuple, frozenset)
ATOMS = BY_EQUALITY | BY_SPELLING


def is_same_constant(now: Any, then: Any) -> bool:
    """True if a step cannot tell `now` from `then`: the same object, or plain values of one type and spelling."""
    if now is then:
        return True
    kind = type(now)
    if kind is not type(then):
        return False
    if kind in BY_EQUALITY:
        return bool(now == then)
    if kind in BY_SPELLING:
        return repr(now) == repr(then)
    if issubclass(kind, tuple):
        return len(now) == len(then) and all(map(is_same_constant, now, then))
    if issubclass(kind, np.generic):
        return bool(now.dtype == then.dtype and now.tobytes() == then.tobytes())
    if issubclass(kind, np.dtype):
        return bool(now == then)
    if kind is slice:
        return all(map(is_same_constant, (now.start, now.stop, now.step), (then.start, then.stop, then.step)))
    if kind is MethodType:
        return now.__self__ is then.__self__ and now.__func__ is then.__func__
    if kind is BuiltinMethodType:
        return now.__self__ is then.__self__ and bool(now.__name__ == then.__name__)
    return False


def is_interchangeable(now: Any, then: Any) -> bool:
    """As `is_same_constant`, but one tensor without history is as good as another of its shape, dtype and order.

    Each call looks which is there.
    """
    if is_same_constant(now, then):
        return True
    kind = type(now)
    if kind is Tensor and type(then) is Tensor:
        forms = [(x.shape, x.dtype, x.is_contiguous()) for x in (now, then)]
        return now.node is None and then.node is None and forms[0] == forms[1]
    if kind is type(then) and issubclass(kind, tuple):
        return len(now) == len(then) and all(map(is_interchangeable, now, then))
    return kind is SetMember and type(then) is SetMember and now.of is then.of


class SetMember:
    """An element of a set in a snapshot: no place tells it from the others, so that it counts by identity."""

    __slots__ = ("of",)

    def __init__(self, of: object) -> None:
        self.of = of


def is_plain(value: Any) -> bool:
    """True for a value that cannot change and holds nothing that can."""
    kind = type(value)
    if kind in ATOMS or issubclass(kind, IMMUTABLE_TYPES):
        return True
    return issubclass(kind, PLAIN_CONTAINERS) and all(map(is_plain, value))
